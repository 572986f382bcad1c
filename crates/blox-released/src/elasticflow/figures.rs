//! Figures of ElasticFlow (ASPLOS 2023), reproduced with its released program.

pub(crate) mod fig10;
pub(crate) mod fig11;
pub(crate) mod fig8a;
pub(crate) mod fig8b;
pub(crate) mod fig9;

use crate::elasticflow::{self as released, Algorithm, Bound, Shape, Times};
use crate::figure::{DataFile, Figure, Findings, ReproduceError, Row, Run, file};
use blox_core::core::Counters;
use blox_core::{JobId, JobSpec, Outcome, Seconds, ServiceClass, Time};
use blox_sim::results::{Deadlines, JobResult, Summary};
use blox_sim::workload::WorkloadError;
use blox_sim::{Ended, Report, SimError, Watch};
use blox_traces::scaling::ScalingTable;
use std::path::Path;
use std::sync::Arc;

const REPOSITORY: &str =
    "the folder `ElasticFlow` of https://github.com/pkusys/ElasticFlow (Apache-2.0)";
const A100: DataFile = DataFile::new(
    "throughputs_A100",
    "the folder `ElasticFlow/scheduler` of https://github.com/pkusys/ElasticFlow (Apache-2.0)",
);
const RELEASED: &str = "pkusys/ElasticFlow 04a0109, scheduler.py under Python 3.11";
const GREEDY: &str = "pkusys/ElasticFlow 04a0109, its Chronus without a commercial solver";
/// Seed of the numbers that the released generator draws from Python's unseeded generator.
const UNSEEDED: u64 = 12345;

/// A program of the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Program {
    /// The algorithm, or `None` for Chronus.
    algorithm: Option<Algorithm>,
    name: &'static str,
    /// Name in the `scheduler` column of results. It differs from blox's own `edf` and `themis`.
    scheduler: &'static str,
}

const fn program(algorithm: Algorithm, name: &'static str, scheduler: &'static str) -> Program {
    Program {
        algorithm: Some(algorithm),
        name,
        scheduler,
    }
}

const ELASTIC: Program = program(
    Algorithm::ElasticFlow,
    "ElasticFlow",
    "elasticflow-released",
);
const WITHOUT_ADMISSION: Program = program(
    Algorithm::WithoutAdmission,
    "EDF + elastic scaling",
    "ef-released",
);
const EDF: Program = program(Algorithm::Edf, "EDF", "edf-released");
const EDF_ADMISSION: Program = program(
    Algorithm::EdfAdmission,
    "EDF + admission control",
    "edf-admission-released",
);
const TIRESIAS: Program = program(Algorithm::Tiresias, "Tiresias", "elasticflow-tiresias");
const GANDIVA: Program = program(Algorithm::Gandiva, "Gandiva", "elasticflow-gandiva");
const THEMIS: Program = program(Algorithm::Themis, "Themis", "elasticflow-themis");
const CHRONUS: Program = Program {
    algorithm: None,
    name: "Chronus",
    scheduler: "elasticflow-chronus",
};

impl Program {
    /// Returns the source of the results of the released program.
    fn source(self) -> &'static str {
        self.algorithm.map_or(GREEDY, |_| RELEASED)
    }
}

/// A cluster and the slot length of the programs that run on it.
#[derive(Clone, Copy, Debug)]
struct World {
    shape: Shape,
    slot: f64,
    /// Seconds between two passes of Chronus over new and waiting jobs.
    pass: f64,
    gpu_type: &'static str,
}

impl World {
    fn new(switches: u32, nodes_per_switch: u32, gpus_per_node: u32, slot: f64) -> Self {
        World {
            shape: Shape {
                switches,
                nodes_per_switch,
                gpus_per_node,
            },
            slot,
            pass: 240.0,
            gpu_type: "A100",
        }
    }

    /// Returns a run of a program on jobs in order of submission.
    fn run(
        self,
        program: Program,
        jobs: &Arc<[JobSpec]>,
        table: &Arc<ScalingTable>,
        of: &str,
    ) -> Run {
        self.run_keeping(program, jobs, table, of, |_| {})
    }

    /// Returns a run as [`World::run`] does. `keep` receives the allocations of its jobs.
    fn run_keeping(
        self,
        program: Program,
        jobs: &Arc<[JobSpec]>,
        table: &Arc<ScalingTable>,
        of: &str,
        keep: impl FnOnce(Vec<Bound>) + Send + 'static,
    ) -> Run {
        let label = format!("{}, {of}", program.name);
        let (jobs, table, name) = (Arc::clone(jobs), Arc::clone(table), label.clone());
        let run = move |watch: &Watch| {
            let jobs = profiled(program, &jobs, &table, self.gpu_type);
            let jobs = jobs.map_err(|error| ReproduceError::Simulation {
                label: name,
                error: Box::new(SimError::Workload(error)),
            })?;
            let outcome = match program.algorithm {
                Some(algorithm) => algorithm.run(self.shape, self.slot, &jobs, &watch.stop),
                None => {
                    let times = Times {
                        check: self.slot,
                        lease: 240.0,
                        pass: self.pass,
                    };
                    released::chronus(self.shape, times, &jobs, &watch.stop)
                }
            };
            Ok(outcome.map(|outcome| {
                let report = report(program, self.shape, &jobs, &outcome);
                keep(outcome.bound);
                report
            }))
        };
        let run = Box::new(run);
        Run::Program { label, run }
    }
}

/// Sorts jobs by submission, for all programs of a figure.
fn in_order(mut jobs: Vec<JobSpec>) -> Arc<[JobSpec]> {
    jobs.sort_by_key(|job| job.submit);
    jobs.into()
}

/// Returns the jobs with the profile that a program uses.
fn profiled(
    program: Program,
    jobs: &[JobSpec],
    table: &ScalingTable,
    gpu_type: &str,
) -> Result<Vec<JobSpec>, WorkloadError> {
    let mut jobs = jobs.to_vec();
    for (number, job) in jobs.iter_mut().enumerate() {
        match program.algorithm {
            Some(algorithm) => {
                if !algorithm.profile(job, table, gpu_type) {
                    let extras = job.extras();
                    return Err(WorkloadError::Unprofiled {
                        job: number,
                        model: extras.model.as_deref().unwrap_or_default().to_owned(),
                        batch_size: extras.batch_size.unwrap_or_default(),
                        gpus: job.gpus.get(),
                    });
                }
            }
            // The released conversion gives every job a deadline.
            None => {
                if let Some(extras) = &mut job.extras {
                    extras.class = ServiceClass::Guaranteed;
                }
            }
        }
    }
    Ok(jobs)
}

/// Returns the result of a program as a simulation report.
///
/// Ends are the planned ends of the program. Met deadlines follow the program's own count.
fn report(
    program: Program,
    shape: Shape,
    specs: &[JobSpec],
    outcome: &released::Outcome,
) -> Report {
    let mut jobs: Vec<JobResult> = specs.iter().zip(0..).map(unfinished).collect();
    for bound in &outcome.bound {
        let job = &mut jobs[bound.job as usize];
        job.first_start.get_or_insert(Time::new(bound.from));
        job.launches += 1;
        job.attained += Seconds::new(bound.to - bound.from);
        job.attained_gpu += Seconds::new((bound.to - bound.from) * f64::from(bound.gpus));
    }
    for job in &outcome.rejected {
        jobs[*job as usize].outcome = Some(Outcome::Rejected);
    }
    let mut count = Deadlines::default();
    for end in &outcome.ends {
        let job = &mut jobs[end.job as usize];
        job.outcome = Some(Outcome::Completed);
        job.finish = Some(Time::new(end.at));
        count.met += u64::from(!end.late && job.deadline.is_some());
    }
    for job in &mut jobs {
        // A job ends on its last allocation. All earlier launches were preempted.
        job.preemptions = job.launches.saturating_sub(u32::from(job.finish.is_some()));
        let declined = job.outcome == Some(Outcome::Rejected);
        count.declined += u64::from(declined && job.deadline.is_some());
    }
    let due = jobs.iter().filter(|j| j.deadline.is_some()).count() as u64;
    count.missed = due - count.declined - count.met;
    let finishes = jobs.iter().filter_map(|j| j.finish);
    let end = finishes.fold(Time::ZERO, Time::max);
    let let_in = jobs.iter().filter(|j| j.outcome != Some(Outcome::Rejected));
    let first = let_in.map(|j| j.submit).min();
    let mut counters = Counters::default();
    counters.decisions = outcome.steps;
    let mut summary = Summary::of(
        program.scheduler,
        &jobs,
        counters,
        shape.gpus(),
        first.map_or(0.0, |first| (end - first).secs()),
        outcome.steps,
    );
    summary.deadlines = Some(count);
    let ended = match jobs.iter().all(|j| j.outcome.is_some()) {
        true => Ended::Finished,
        false => Ended::Standstill,
    };
    Report::new(jobs, summary, counters, ended, end)
}

/// Returns the result of a job that has not started.
fn unfinished((spec, number): (&JobSpec, u32)) -> JobResult {
    let extras = spec.extras();
    let counts = extras.class == ServiceClass::Guaranteed;
    let deadline = extras.deadlines.first().filter(|_| counts);
    let mut result = JobResult::default();
    result.job = JobId(number);
    result.name.clone_from(&spec.name);
    result.submit = spec.submit;
    result.gpus = spec.gpus.get();
    result.duration = spec.duration();
    result.measured = true;
    result.deadline = deadline.map(|d| d.at);
    result
}

fn met(report: &Report) -> u64 {
    report.summary.deadlines.unwrap_or_default().met
}

/// Returns the fraction of deadlines met.
fn ratio(report: &Report) -> f64 {
    let d = report.summary.deadlines.unwrap_or_default();
    let all = d.met + d.missed + d.declined;
    d.met as f64 / all.max(1) as f64
}

/// Reads the throughputs of the A100.
fn a100(figure: &Figure, data: Option<&Path>) -> Result<Arc<ScalingTable>, ReproduceError> {
    let table = ScalingTable::read_dir(file(figure, data, A100.path)?)?;
    Ok(Arc::new(table))
}

/// Adds the rows of the fractions of deadlines met by programs, with the published fractions and the
/// numbers of jobs that the released programs count.
///
/// Returns the fractions, and true if every number equals the number of the released program, where
/// it was run.
fn compare(
    findings: &mut Findings,
    programs: impl Iterator<Item = (Program, Option<f64>, Option<u64>)>,
    reports: &[Report],
    paper: &'static str,
    what: impl Fn(&str) -> String,
) -> (Vec<(&'static str, f64)>, bool) {
    let (mut fractions, mut same) = (Vec::new(), true);
    for ((program, published, counted), report) in programs.zip(reports) {
        let all = report.jobs.len().max(1) as f64;
        let row = Row::new(what(program.name), ratio(report), 4).published(published, paper);
        let counts = counted.map(|n| n as f64 / all);
        findings.rows.push(row.artifact(counts, program.source()));
        same &= counted.is_none_or(|counted| met(report) == counted);
        fractions.push((program.name, ratio(report)));
    }
    (fractions, same)
}

/// Returns true if a name has a larger value than all others.
fn is_best(of: &[(&str, f64)], name: &str) -> bool {
    let value = of.iter().find(|(n, _)| *n == name).map_or(0.0, |(_, v)| *v);
    of.iter().all(|(n, v)| *n == name || *v < value)
}

/// Returns true if two counts or ratios are equal within the precision of a printed table.
fn equal(ours: f64, theirs: f64) -> bool {
    (ours - theirs).abs() < 5e-5
}
