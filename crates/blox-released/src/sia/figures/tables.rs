use super::published::{
    FAIRNESS, FAMILIES, FIGURE_8, FIGURES, Family, HELIOS, NEW_TRACE, ON_ONE_TYPE, Published,
    TABLE_3, TABLE_4,
};
use super::{PHILLY, THREE_TYPES, TRACES, workload, world};
use crate::figure::{Claim, Figure, Findings, Plan, ReproduceError, Row, Run, file};
use blox_core::{Adapts, ClusterSpec, JobSpec, Pipeline};
use blox_plot::{Axis, BarChart};
use blox_schedulers::schedulers::{
    GavelParams, GavelPolicy, finish_time_fairness, gavel_with, optimus, pollux, shockwave, sia,
    tiresias,
};
use blox_sim::execution::training::Applications;
use blox_sim::fairness::FairTimes;
use blox_sim::results::{Contention, Fairness};
use blox_sim::workload::Jobs;
use blox_sim::{Report, SimError};
use blox_traces::applications::read_dir;
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use std::path::Path;

/// Sia's simulations of all workloads on three GPU types.
pub(crate) const TABLE3: Figure = Figure::new(
    "sia-table3",
    "Sia (SOSP 2023), table 3 and figure 8: schedulers on 64 GPUs of three types, 28 workloads",
    &[TRACES, PHILLY, HELIOS, NEW_TRACE],
    |figure, data| plan(figure, data, THREE_TYPES, (&FAMILIES, TABLE_3)),
);

/// Sia's simulations on one type of GPU.
pub(crate) const TABLE4: Figure = Figure::new(
    "sia-table4",
    "Sia (SOSP 2023), table 4: Sia, Pollux and schedulers of tuned jobs on 64 GPUs of one type, the Philly workloads",
    &[TRACES, PHILLY],
    |figure, data| plan(figure, data, "16x4:aws", (&ON_ONE_TYPE, TABLE_4)),
);

/// Families of workloads, and the source of their published results.
type Families = (&'static [Family], &'static str);

/// The cluster and the applications of all runs, and the jobs of each run.
type Given = (ClusterSpec, Applications, Vec<Vec<JobSpec>>);

type Build = fn() -> Pipeline;

/// Schedulers in the order of [`Family::published`], and the settings of jobs that each may adapt.
/// Schedulers of tuned jobs (`+TJ`) get the jobs in the size that their users would request.
const SCHEDULERS: [(&str, Build, Adapts); 7] = [
    ("Sia", sia, Adapts::All),
    ("Pollux", pollux, Adapts::All),
    ("Gavel+TJ", gavel, Adapts::Nothing),
    ("Shockwave+TJ", shockwave, Adapts::Nothing),
    ("Themis+TJ", finish_time_fairness, Adapts::Nothing),
    ("Optimus+TJ", optimus, Adapts::Nothing),
    ("Tiresias+TJ", tiresias, Adapts::Nothing),
];

/// Gavel with the policy that the paper compares: the sum of throughputs.
fn gavel() -> Pipeline {
    gavel_with(GavelParams {
        policy: GavelPolicy::MaxSumThroughput,
        ..GavelParams::default()
    })
}

/// Returns the figures of each scheduler over each of its families.
fn figures(
    families: &[Family],
    given: &Given,
    reports: &[Report],
) -> Vec<Vec<Result<Published, SimError>>> {
    let (cluster, applications, jobs) = given;
    let runs: Vec<_> = reports.iter().zip(jobs).collect();
    let numbers: Vec<usize> = (0..SCHEDULERS.len()).collect();
    let of_scheduler = |number: &usize| {
        let simulation = world(cluster, applications);
        // Shared by all workloads: it keeps the times of jobs that run alone.
        let mut fair = FairTimes::of(&simulation, &SCHEDULERS[*number].1());
        let mut first = 0;
        let mut figures = Vec::new();
        for family in families {
            let from = first + number * family.count;
            first += family.schedulers * family.count;
            if *number < family.schedulers {
                let own = runs.get(from..from + family.count).unwrap_or_default();
                figures.push(figures_of(own, &mut fair));
            }
        }
        figures
    };
    numbers.par_iter().map(of_scheduler).collect()
}

/// Returns the paper's claims about average completion times over a family. A missing average fails
/// every comparison.
fn claims(family: &Family, families: usize, averages: &[(&str, f64)]) -> Vec<Claim> {
    let of = |name: &str| {
        let found = averages.iter().find(|(n, _)| *n == name);
        found.map_or(f64::NAN, |(_, jct)| *jct)
    };
    let (sia, pollux) = (of("Sia"), of("Pollux"));
    let mut tuned = SCHEDULERS[2..family.schedulers].iter();
    let family = family.name;
    vec![
        Claim::new(
            format!(
                "{family}: the average JCT under Sia is below those of jobs that are tuned beforehand, under each scheduler"
            ),
            tuned.all(|(name, ..)| sia < of(name)),
        ),
        match families {
            1 => Claim::new(
                "on one type of GPU the average JCTs under Sia and Pollux lie within 10 % of each other",
                (sia / pollux - 1.0).abs() <= 0.1,
            ),
            _ => Claim::new(
                format!("{family}: the average JCT under Sia is below that under Pollux"),
                sia < pollux,
            ),
        },
    ]
}

/// Returns the figures over the workloads of a family, in the order of their names.
fn figures_of(
    runs: &[(&Report, &Vec<JobSpec>)],
    fair: &mut FairTimes,
) -> Result<Published, SimError> {
    let all = || runs.iter().flat_map(|(r, _)| &r.jobs);
    let mut jcts: Vec<f64> = all().filter_map(|j| Some(j.jct()?.hours())).collect();
    jcts.sort_by(f64::total_cmp);
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
    let makespans = runs.iter().map(|(r, _)| r.summary.makespan_s / 3600.0);
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

/// Plans a run for each scheduler and workload.
fn plan(
    figure: &Figure,
    data: Option<&Path>,
    cluster: &str,
    families: Families,
) -> Result<Plan, ReproduceError> {
    let cluster: ClusterSpec = cluster.parse()?;
    let applications = read_dir(file(figure, data, TRACES.path)?)?;
    let mut runs = Vec::new();
    let mut all = Vec::new();
    for family in families.0 {
        for (name, build, adapts) in &SCHEDULERS[..family.schedulers] {
            for number in 1..=family.count {
                let mut jobs = workload(figure, data, family.folder, number)?;
                for job in &mut jobs {
                    applications.describe(job, *adapts);
                }
                all.push(jobs.clone());
                runs.push(Run::Simulation {
                    label: format!("{name}, {} {number}", family.name),
                    simulation: world(&cluster, &applications),
                    scheduler: build(),
                    workload: Box::new(Jobs::new(jobs)),
                });
            }
        }
    }
    let (name, given) = (figure.name, (cluster, applications, all));
    Ok(Plan::of(runs, move |reports| {
        findings(name, families, &given, reports)
    }))
}

fn findings(
    name: &str,
    (families, source): Families,
    given: &Given,
    reports: &[Report],
) -> Findings {
    let mut findings = Findings::noting([
        "times and figures a job are over all jobs of all workloads, makespan and mean contention means over workloads",
        "+TJ: jobs keep the GPUs and the batch that the files ask for; on one type of GPU the paper tunes them anew, which was not published",
        "finish-time fairness is a job's completion time over that under the same scheduler alone on its share of each type, averaged over types; above 1 it was treated unfairly",
    ]);
    let mut bars = BarChart::new("Average JCT", Axis::new("hours"));
    let of_schedulers = figures(families, given, reports);
    let mut of_schedulers: Vec<_> = of_schedulers.into_iter().map(Vec::into_iter).collect();
    for family in families {
        let mut averages = Vec::new();
        let contestants = SCHEDULERS.iter().zip(&mut of_schedulers);
        for (i, ((name, ..), figures)) in contestants.take(family.schedulers).enumerate() {
            let ours = match figures.next() {
                Some(Ok(ours)) => ours,
                Some(Err(error)) => {
                    findings
                        .notes
                        .push(format!("{name}, {}: {error}", family.name));
                    continue;
                }
                None => continue,
            };
            let published = family.published.get(i);
            for (k, ((what, decimals), ours)) in FIGURES.iter().zip(ours).enumerate() {
                let text = format!("{what}, {}, {name}", family.name);
                let value = published.map(|p| p[k]).filter(|p| !p.is_nan());
                let source = if k < FAIRNESS { source } else { FIGURE_8 };
                let row = Row::new(text, ours, *decimals).published(value, source);
                findings.rows.push(row);
            }
            averages.push((*name, ours[0]));
        }
        findings
            .claims
            .extend(claims(family, families.len(), &averages));
        bars = bars.with(family.name, averages);
    }
    findings.picture(name, bars.svg());
    findings
}
