use super::{THREE_TYPES, workload, world};
use crate::figure::{Figure, Numbers, Plan, ReproduceError, Run};
use blox_core::{Adapts, ClusterSpec, JobSpec, Pipeline, sort};
use blox_policies::scheduling::gavel::{Gavel, shares::MaxSumThroughput};
use blox_results::{Fairness, Summary};
use blox_schedulers::schedulers::{
    finish_time_fairness, gavel_with, optimus, pollux, shockwave, sia, tiresias,
};
use blox_sim::execution::Training;
use blox_sim::fairness::FairTimes;
use blox_sim::results::Contention;
use blox_sim::workload::Jobs;
use blox_sim::{Report, SimError};
use blox_traces::applications::read_dir;
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use std::path::Path;

/// Plans Sia's simulations of all workloads on three GPU types.
pub(crate) fn table3(figure: &'static Figure, data: Option<&Path>) -> Result<Plan, ReproduceError> {
    plan(figure, data, THREE_TYPES, &[8, 10, 10])
}

/// Plans Sia's simulations on one type of GPU.
pub(crate) fn table4(figure: &'static Figure, data: Option<&Path>) -> Result<Plan, ReproduceError> {
    plan(figure, data, "16x4:aws", &[8])
}

/// Schedulers in the order of the figures' columns, and the settings of jobs that each may adapt.
/// Schedulers of tuned jobs (`+TJ`) get the jobs in the size that their users would request.
const SCHEDULERS: [(fn() -> Pipeline, Adapts); 7] = [
    (sia, Adapts::All),
    (pollux, Adapts::All),
    (gavel, Adapts::Nothing),
    (shockwave, Adapts::Nothing),
    (finish_time_fairness, Adapts::Nothing),
    (optimus, Adapts::Nothing),
    (tiresias, Adapts::Nothing),
];

/// Gavel with the policy that the paper compares: the sum of throughputs.
fn gavel() -> Pipeline {
    gavel_with(Gavel::new(MaxSumThroughput::default()))
}

/// Plans a run for each scheduler and workload. `counts` has the number of workloads in each folder
/// of [`Figure::data`].
fn plan(
    figure: &'static Figure,
    data: Option<&Path>,
    cluster: &str,
    counts: &'static [usize],
) -> Result<Plan, ReproduceError> {
    let cluster: ClusterSpec = cluster.parse()?;
    let applications = read_dir(figure.file(data, "traces")?)?;
    let training = || Training::of(applications.clone());
    let mut runs = Vec::new();
    let mut all = Vec::new();
    for (g, count) in counts.iter().enumerate() {
        let folder = figure.file(data, &figure.data[g + 1].path)?;
        for (name, (build, adapts)) in figure.columns(g).iter().zip(SCHEDULERS) {
            for number in 1..=*count {
                let jobs = workload(&folder, number, &applications, adapts)?;
                all.push(jobs.clone());
                runs.push(Run::of(
                    format!("{name}, {} {number}", figure.groups()[g]),
                    world(&cluster, training()),
                    build(),
                    Jobs::new(jobs),
                ));
            }
        }
    }
    let simulation = world(&cluster, training());
    Ok(Plan::of(runs, move |reports| {
        let runs: Vec<_> = reports.iter().zip(&all).collect();
        let of_scheduler = |s: usize| {
            // Shared by all workloads: it keeps the times of jobs that run alone.
            let mut fair = FairTimes::of(&simulation, &SCHEDULERS[s].0());
            let (mut first, mut measures) = (0, Vec::new());
            for (g, count) in counts.iter().enumerate() {
                let columns = figure.columns(g).len();
                let from = first + s * count;
                first += columns * count;
                if s < columns {
                    measures.push(measures_of(&runs[from..from + count], &mut fair));
                }
            }
            measures
        };
        let by_scheduler: Vec<_> = (0..SCHEDULERS.len())
            .into_par_iter()
            .map(of_scheduler)
            .collect();
        let (mut measures, mut failed) = (vec![Vec::new(); 9], Vec::new());
        for (g, group) in figure.groups().iter().enumerate() {
            for (name, of) in figure.columns(g).iter().zip(&by_scheduler) {
                let cell = of[g].as_ref().unwrap_or_else(|error| {
                    failed.push(format!("{name}, {group}: {error}"));
                    &[f64::NAN; 9]
                });
                measures
                    .iter_mut()
                    .zip(cell)
                    .for_each(|(all, value)| all.push(*value));
            }
        }
        let mut findings = figure.findings(Numbers::of(measures));
        findings.notes.extend(failed);
        findings
    }))
}

/// Returns the measures over the workloads of a group, in the order of the figure's rows.
fn measures_of(
    runs: &[(&Report, &Vec<JobSpec>)],
    fair: &mut FairTimes,
) -> Result<[f64; 9], SimError> {
    let all = || runs.iter().flat_map(|(r, _)| &r.jobs);
    let mut jcts: Vec<f64> = all().filter_map(|j| Some(j.jct()?.hours())).collect();
    sort::numbers(&mut jcts);
    let jobs = jcts.len().max(1) as f64;
    let workloads = runs.len().max(1) as f64;
    let given = || all().filter_map(|j| j.given.as_deref());
    let contention: Vec<Contention> = runs.iter().map(|(r, _)| Contention::of(&r.jobs)).collect();
    let mut judged = Vec::new();
    for (report, jobs) in runs {
        let mut results = report.jobs.clone();
        fair.judge(&mut Jobs::new(jobs.to_vec()), &mut results)?;
        judged.extend(results);
    }
    let fairness = Fairness::of(&judged).unwrap_or_default();
    let makespans = runs.iter().map(|(r, _)| Summary::of(r).makespan_s / 3600.0);
    Ok([
        jcts.iter().sum::<f64>() / jobs,
        jcts.get((0.99 * jobs) as usize).copied().unwrap_or(0.0),
        makespans.sum::<f64>() / workloads,
        given().map(|g| g.gpu.hours()).sum::<f64>() / jobs,
        given().map(|g| f64::from(g.restarts)).sum::<f64>() / jobs,
        contention.iter().map(Contention::mean).sum::<f64>() / workloads,
        contention.iter().map(Contention::most).max().unwrap_or(0) as f64,
        fairness.worst,
        100.0 * fairness.unfair,
    ])
}
