//! Runs of the figures of ElasticFlow (ASPLOS 2023), with its released program.

pub(crate) mod fig10;
pub(crate) mod fig11;

use crate::elasticflow::files::{Recipe, read_trace};
use crate::elasticflow::{self as released, Algorithm, Allocation, Shape, Times};
use crate::figure::{Claim, Figure, Plan, ReproduceError, Run};
use blox_core::core::Counters;
use blox_core::{Class, ClusterSpec, JobId, JobSpec, Outcome, Pipeline, Seconds, Time, sort};
use blox_plot::{Axis, BarChart};
use blox_results::Summary;
use blox_schedulers::schedulers as own;
use blox_sim::results::{JobResult, Usage};
use blox_sim::workload::{Jobs, WorkloadError};
use blox_sim::{Ended, Report, Simulation};
use blox_traces::scaling::{ScalingTable, with_throughputs};
use std::path::Path;
use std::sync::Arc;

/// Seed of the numbers that the released generator draws from Python's unseeded generator.
const UNSEEDED: u64 = 12345;

/// A program of the figures: its name there, and its name in the `scheduler` column of results. The
/// latter differs from blox's own `edf` and `themis`.
type Program = &'static (&'static str, Algorithm, &'static str);

const PROGRAMS: [(&str, Algorithm, &str); 8] = [
    ("EDF", Algorithm::Edf, "edf-released"),
    ("Gandiva", Algorithm::Gandiva, "elasticflow-gandiva"),
    ("Tiresias", Algorithm::Tiresias, "elasticflow-tiresias"),
    ("Themis", Algorithm::Themis, "elasticflow-themis"),
    ("Chronus", Algorithm::Chronus, "elasticflow-chronus"),
    (
        "ElasticFlow",
        Algorithm::ElasticFlow,
        "elasticflow-released",
    ),
    (
        "EDF + elastic scaling",
        Algorithm::WithoutAdmission,
        "ef-released",
    ),
    (
        "EDF + admission control",
        Algorithm::EdfAdmission,
        "edf-admission-released",
    ),
];

/// Returns the programs of the columns of a figure.
fn programs(figure: &'static Figure) -> impl Iterator<Item = Program> {
    let columns = figure.columns(0).iter();
    columns.filter_map(|name| PROGRAMS.iter().find(|(known, ..)| known == name))
}

/// A cluster and the slot length of the programs that run on it.
#[derive(Clone, Copy, Debug)]
struct World {
    shape: Shape,
    times: Times,
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
            times: slot.into(),
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
        keep: impl FnOnce(Vec<Allocation>) + Send + 'static,
    ) -> Run {
        let (name, algorithm, scheduler) = *program;
        let label = format!("{name}, {of}");
        let (jobs, table, name) = (Arc::clone(jobs), Arc::clone(table), label.clone());
        Run::new(label, move |watch| {
            let jobs = profiled(algorithm, &jobs, &table, self.gpu_type);
            let jobs = jobs.map_err(|error| ReproduceError::failed(&name, error))?;
            let outcome = algorithm.run(self.shape, self.times, &jobs, &watch.stop);
            Ok(outcome.map(|outcome| {
                let report = report(scheduler, self.shape, &jobs, &outcome);
                keep(outcome.allocations);
                report
            }))
        })
    }
}

/// Sorts jobs by submission, for all programs of a figure.
fn in_order(mut jobs: Vec<JobSpec>) -> Arc<[JobSpec]> {
    sort::by_key(&mut jobs, |job| job.submit);
    jobs.into()
}

/// Returns the jobs with the profile that a program uses.
fn profiled(
    algorithm: Algorithm,
    jobs: &[JobSpec],
    table: &ScalingTable,
    gpu_type: &str,
) -> Result<Vec<JobSpec>, WorkloadError> {
    let mut jobs = jobs.to_vec();
    for (number, job) in jobs.iter_mut().enumerate() {
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
    Ok(jobs)
}

/// Returns the result of a program as a simulation report.
///
/// Ends are the planned ends of the program. Deadlines are moved where the program's own count of met
/// deadlines requires it.
fn report(scheduler: &str, shape: Shape, specs: &[JobSpec], outcome: &released::Outcome) -> Report {
    let mut jobs: Vec<JobResult> = specs.iter().zip(0..).map(unfinished).collect();
    for allocation in &outcome.allocations {
        let job = &mut jobs[allocation.job as usize];
        job.first_start.get_or_insert(Time::new(allocation.from));
        job.launches += 1;
        job.attained += Seconds::new(allocation.to - allocation.from);
        job.attained_gpu +=
            Seconds::new((allocation.to - allocation.from) * f64::from(allocation.gpus));
    }
    for job in &outcome.rejected {
        jobs[*job as usize].outcome = Some(Outcome::Rejected);
    }
    for end in &outcome.ends {
        let (job, at) = (&mut jobs[end.job as usize], Time::new(end.at));
        job.outcome = Some(Outcome::Completed);
        job.finish = Some(at);
        // The program may count a job by another end.
        job.deadline = job.deadline.map(|due| match end.late {
            true => due.min(at - Seconds::new(1.0)),
            false => due.max(at),
        });
    }
    for job in &mut jobs {
        // A job ends on its last allocation. All earlier launches were preempted.
        job.preemptions = job.launches.saturating_sub(u32::from(job.finish.is_some()));
    }
    let finishes = jobs.iter().filter_map(|j| j.finish);
    let end = finishes.fold(Time::ZERO, Time::max);
    let let_in = jobs.iter().filter(|j| j.outcome != Some(Outcome::Rejected));
    let first = let_in.map(|j| j.submit).min();
    let mut counters = Counters::default();
    counters.decisions = outcome.steps;
    let makespan = first.map_or(Seconds::ZERO, |first| end - first);
    let mut report = Report::default();
    report.scheduler = scheduler.to_owned();
    report.usage = Usage::of(&jobs, shape.gpus(), makespan, outcome.steps);
    report.ended = match jobs.iter().all(|j| j.outcome.is_some()) {
        true => Ended::Finished,
        false => Ended::Standstill,
    };
    (report.jobs, report.counters, report.end) = (jobs, counters, end);
    report
}

/// Returns the result of a job that has not started.
fn unfinished((spec, number): (&JobSpec, u32)) -> JobResult {
    let extras = spec.extras();
    let counts = extras.class == Class::Guaranteed;
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

/// Returns the fraction of deadlines met.
fn ratio(report: &Report) -> f64 {
    let d = Summary::of(report).deadlines.unwrap_or_default();
    let all = d.met + d.missed + d.declined;
    d.met as f64 / all.max(1) as f64
}

/// Reads the throughputs of the A100.
fn a100(figure: &'static Figure, data: Option<&Path>) -> Result<Arc<ScalingTable>, ReproduceError> {
    let table = ScalingTable::read_dir(figure.file(data, "throughputs_A100")?)?;
    Ok(Arc::new(table))
}

/// Plans the workload of the comparison with Pollux, under the programs and under the toolkit's own
/// schedulers.
pub(crate) fn fig8a(figure: &'static Figure, data: Option<&Path>) -> Result<Plan, ReproduceError> {
    type Build = fn() -> Pipeline;
    let own: [(&str, Build); 8] = [
        ("edf", own::edf),
        ("gandiva", own::gandiva),
        ("tiresias", own::tiresias),
        ("themis", own::themis),
        ("chronus", own::chronus),
        ("elasticflow", own::elasticflow),
        ("ef", own::ef),
        ("edf-admission", own::edf_admission),
    ];
    let table = Arc::new(ScalingTable::read_dir(
        figure.file(data, "throughputs_T4")?,
    )?);
    let trace = "elasticVpollux_e.csv";
    let jobs = in_order(read_trace(figure.file(data, trace)?)?);
    let world = World {
        // A comment in the original says to take arrivals every 60 s for this figure.
        times: Times {
            pass: 60.0,
            ..60.0.into()
        },
        gpu_type: "T4",
        ..World::new(1, 16, 4, 60.0)
    };
    let runs = programs(figure).map(|p| world.run(p, &jobs, &table, trace));
    let mut runs: Vec<Run> = runs.collect();
    runs.extend(own.map(|(name, build)| {
        let simulation = Simulation::new(ClusterSpec::uniform(16, 4));
        let jobs = with_throughputs(Jobs::new(jobs.to_vec()), Arc::clone(&table));
        Run::of(name.to_owned(), simulation, build(), jobs)
    }));
    Ok(Plan::of(runs, move |reports| {
        let mut findings = figure.measured(reports, &[ratio]);
        let missed = |name: &str| {
            let of = |r: &&Report| r.scheduler == name;
            let report = reports.iter().skip(PROGRAMS.len()).find(of);
            report
                .and_then(|r| Summary::of(r).deadlines)
                .unwrap_or_default()
                .missed
        };
        findings.claims.push(Claim::new(
            "no job that the own `elasticflow` and `edf-admission` admit is late",
            missed("elasticflow") + missed("edf-admission") == 0,
        ));
        let published = findings
            .rows
            .iter()
            .filter_map(|row| Some(row.published?.value));
        let ours = reports.iter().map(ratio);
        let names = PROGRAMS.map(|(name, ..)| name);
        let bars = BarChart::new("ElasticFlow, figure 8(a)", Axis::fraction("deadlines met"))
            .with("published", names.into_iter().zip(published))
            .with("here", names.into_iter().zip(ours.clone()))
            .with(
                "own, by the papers",
                own.map(|(name, _)| name)
                    .into_iter()
                    .zip(ours.skip(PROGRAMS.len())),
            );
        findings.picture(&figure.name, bars.svg());
        findings
    }))
}

/// Plans eleven traces.
pub(crate) fn fig8b(figure: &'static Figure, data: Option<&Path>) -> Result<Plan, ReproduceError> {
    let table = a100(figure, data)?;
    let mut runs = Vec::new();
    // The last file has the throughputs.
    for (t, trace) in figure.data[..11].iter().enumerate() {
        let (switches, nodes) = match t {
            3 | 6..=8 => (1, 128),
            9.. => (1, 32),
            _ => (2, 32),
        };
        let jobs = in_order(read_trace(figure.file(data, &trace.path)?)?);
        let world = World::new(switches, nodes, 8, 60.0);
        runs.extend(programs(figure).map(|p| world.run(p, &jobs, &table, &trace.path)));
    }
    Ok(figure.measuring(runs, &[ratio]))
}

/// Plans admission control and elastic scaling on earliest deadline first, by cluster size.
pub(crate) fn fig9(figure: &'static Figure, data: Option<&Path>) -> Result<Plan, ReproduceError> {
    let table = a100(figure, data)?;
    let recipe = Recipe {
        jobs: 1000,
        unseeded: UNSEEDED,
        ..Recipe::default()
    };
    let jobs = in_order(recipe.generate(&table)?);
    let mut runs = Vec::new();
    for nodes in [8, 16, 32] {
        let world = World::new(1, nodes, 8, 240.0);
        let of = format!("{} GPUs", nodes * 8);
        runs.extend(programs(figure).map(|p| world.run(p, &jobs, &table, &of)));
    }
    Ok(figure.measuring(runs, &[ratio]))
}
