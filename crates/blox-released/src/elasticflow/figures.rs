//! Figures of ElasticFlow (ASPLOS 2023), reproduced with its released program.

mod fig10;
mod fig11;
mod fig8a;
mod fig8b;
mod fig9;

pub(crate) use fig8a::Fig8a;
pub(crate) use fig8b::Fig8b;
pub(crate) use fig9::Fig9;
pub(crate) use fig10::Fig10;
pub(crate) use fig11::Fig11;

use crate::elasticflow::{self as released, Algorithm, Bound, Shape, Times};
use crate::figure::{DataFile, Figure, ReproduceError, Run, file};
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
const A100: DataFile = DataFile {
    path: "throughputs_A100",
    from: "the folder `ElasticFlow/scheduler` of https://github.com/pkusys/ElasticFlow (Apache-2.0)",
};
const RELEASED: &str = "pkusys/ElasticFlow 04a0109, scheduler.py under Python 3.11";
const GREEDY: &str = "pkusys/ElasticFlow 04a0109, its Chronus without a commercial solver";
/// Seed of the numbers that the released generator draws from Python's unseeded generator.
const UNSEEDED: u64 = 12345;

/// A program of the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    Of(Algorithm),
    /// Chronus, with the intervals of its checks and of arrivals in seconds.
    Chronus(u32, u32),
}

impl Program {
    fn name(self) -> &'static str {
        match self {
            Program::Of(Algorithm::ElasticFlow) => "ElasticFlow",
            Program::Of(Algorithm::WithoutAdmission) => "EDF + elastic scaling",
            Program::Of(Algorithm::Edf) => "EDF",
            Program::Of(Algorithm::EdfAdmission) => "EDF + admission control",
            Program::Of(Algorithm::Tiresias) => "Tiresias",
            Program::Of(Algorithm::Gandiva) => "Gandiva",
            Program::Of(Algorithm::Themis) => "Themis",
            Program::Chronus(..) => "Chronus",
        }
    }

    /// Returns the name in the `scheduler` column of results. It differs from blox's own `edf` and
    /// `themis`.
    fn scheduler(self) -> &'static str {
        match self {
            Program::Of(Algorithm::ElasticFlow) => "elasticflow-released",
            Program::Of(Algorithm::WithoutAdmission) => "ef-released",
            Program::Of(Algorithm::Edf) => "edf-released",
            Program::Of(Algorithm::EdfAdmission) => "edf-admission-released",
            Program::Of(Algorithm::Tiresias) => "elasticflow-tiresias",
            Program::Of(Algorithm::Gandiva) => "elasticflow-gandiva",
            Program::Of(Algorithm::Themis) => "elasticflow-themis",
            Program::Chronus(..) => "elasticflow-chronus",
        }
    }
}

/// A cluster and the slot length of the programs that run on it.
#[derive(Clone, Copy, Debug)]
struct World {
    shape: Shape,
    slot: f64,
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
        let label = format!("{}, {of}", program.name());
        let (jobs, table, name) = (Arc::clone(jobs), Arc::clone(table), label.clone());
        let run = move |watch: &Watch| {
            let jobs = profiled(program, &jobs, &table, self.gpu_type);
            let jobs = jobs.map_err(|error| ReproduceError::Simulation {
                label: name,
                error: Box::new(SimError::Workload(error)),
            })?;
            let outcome = match program {
                Program::Of(algorithm) => algorithm.run(self.shape, self.slot, &jobs, &watch.stop),
                Program::Chronus(check, pass) => {
                    let times = Times {
                        check: check.into(),
                        lease: 240.0,
                        pass: pass.into(),
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
        match program {
            Program::Of(algorithm) => {
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
            Program::Chronus(..) => {
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
        program.scheduler(),
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
fn a100(figure: &dyn Figure, data: Option<&Path>) -> Result<Arc<ScalingTable>, ReproduceError> {
    let table = ScalingTable::read_dir(file(figure, data, A100.path)?)?;
    Ok(Arc::new(table))
}

/// Returns true if two counts or ratios are equal within the precision of a printed table.
fn equal(ours: f64, theirs: f64) -> bool {
    (ours - theirs).abs() < 5e-5
}
