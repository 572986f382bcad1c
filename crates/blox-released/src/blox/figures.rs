//! Runs of figures of the Blox paper.

use crate::figure::{Figure, Numbers, Plan, ReproduceError, Run, jct_s};
use blox_core::cluster::topology::HOST_GB_PER_S;
use blox_core::{ClusterSpec, Extras, JobSpec, Pipeline, Scheduler, Seconds};
use blox_policies::placement::{Bandwidth, Blocked, Consolidated, InOrder, Split};
use blox_schedulers::schedulers::{bandwidth_placement, fifo, tiresias, tiresias_plus};
use blox_sim::completion::Exact;
use blox_sim::execution::LinkBound;
use blox_sim::workload::{Jobs, WorkloadError, collect};
use blox_sim::{Report, Simulation};
use blox_traces::generate::{DurationLaw, Generator, GeneratorSpec, Load};
use chacha20::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use std::path::Path;

/// Fraction of a step that every job spends on gradient exchange at the best bandwidth.
const COMMUNICATION: f64 = 0.5;
/// Bandwidth of two NVLinks of a V100, the best link of a p3.8xlarge, in GB/s.
const BEST: f64 = 50.0;

/// Plans placement by the bandwidth between GPUs of a node, and by the lowest free GPUs.
pub(crate) fn table4(figure: &'static Figure, _: Option<&Path>) -> Result<Plan, ReproduceError> {
    let cluster: ClusterSpec = "32x4@p3.8xlarge,network=10".parse()?;
    let mean = Seconds::from_hours(4.0);
    let law = DurationLaw::Exponential { mean };
    let load = Load::OfCapacity {
        fraction: 0.6,
        gpus: 128,
    };
    let mut jobs = collect(&mut Generator::new(GeneratorSpec {
        gpus: vec![(1.0, 1.0), (2.0, 2.0), (3.0, 1.0)],
        seed: 1,
        count: Some(2000),
        ..GeneratorSpec::new(load, law)
    })?)?;
    for job in &mut jobs {
        *job = job.clone().with_extras(Extras {
            communication: COMMUNICATION,
            ..Extras::default()
        });
    }
    let run = |scheduler: Result<Pipeline, _>| {
        let scheduler: Pipeline = scheduler.expect(crate::ONCE);
        let simulation = Simulation::new(cluster.clone())
            .execution(LinkBound::default())
            .completion(Exact);
        let label = scheduler.name().to_owned();
        Run::of(label, simulation, scheduler, Jobs::new(jobs.clone()))
    };
    // Jobs stay on one node, so only links within a node matter.
    let lowest = InOrder::new(Consolidated::new(Split::Never));
    let by_bandwidth = InOrder::new(Bandwidth::new(Split::Never));
    let runs = vec![
        run(fifo().with_placement(lowest)),
        run(bandwidth_placement().with_placement(by_bandwidth)),
    ];
    Ok(Plan::of(runs, move |reports| {
        let samples: Vec<Vec<f64>> = reports.iter().map(bandwidths).collect();
        let mean = |list: &Vec<f64>| list.iter().sum::<f64>() / list.len() as f64;
        let means = samples.iter().map(mean).collect();
        figure.findings(Numbers {
            samples,
            ..Numbers::of([means, reports.iter().map(jct_s).collect()])
        })
    }))
}

/// Fractions of a step that jobs exchange gradients over the best links, if they are sensitive to
/// placement and if they are not. Over a network of 10 Gbit/s the steps of a sensitive job take
/// almost seven times as long.
const SENSITIVE: [f64; 2] = [0.15, 0.002];
/// Models of which one has very large tensors. A job's model does not show whether it is sensitive.
const MODELS: [&str; 2] = ["vgg16", "resnet50"];
/// Workloads and jobs of each.
const WORKLOADS: u64 = 5;
const JOBS: u64 = 600;

/// Generates jobs, of which a fraction is sensitive to placement.
fn placed(per_hour: f64, sensitive: f64, seed: u64) -> Result<Vec<JobSpec>, WorkloadError> {
    let mean = Seconds::from_hours(4.0);
    let mut jobs = collect(&mut Generator::new(GeneratorSpec {
        gpus: vec![
            (1.0, 0.5),
            (2.0, 0.1),
            (4.0, 0.2),
            (8.0, 0.15),
            (16.0, 0.05),
        ],
        seed,
        count: Some(JOBS),
        ..GeneratorSpec::new(Load::PerHour(per_hour), DurationLaw::Exponential { mean })
    })?)?;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for job in &mut jobs {
        let insensitive = rng.random::<f64>() >= sensitive;
        *job = job.clone().with_extras(Extras {
            communication: SENSITIVE[usize::from(insensitive)],
            model: Some(MODELS[rng.random_range(0..MODELS.len())].into()),
            ..Extras::default()
        });
    }
    Ok(jobs)
}

/// Plans placements of Tiresias' queues by load, where all jobs are sensitive.
pub(crate) fn fig10(figure: &'static Figure, _: Option<&Path>) -> Result<Plan, ReproduceError> {
    placements(figure, |group| (group, 1.0))
}

/// Plans the same placements at one load, by the percentage of sensitive jobs.
pub(crate) fn fig11(figure: &'static Figure, _: Option<&Path>) -> Result<Plan, ReproduceError> {
    placements(figure, |group| (6.0, group / 100.0))
}

/// Plans the placements of the columns. `of_group` has the jobs an hour and the fraction of
/// sensitive jobs of a group.
fn placements(
    figure: &'static Figure,
    of_group: fn(f64) -> (f64, f64),
) -> Result<Plan, ReproduceError> {
    let cluster: ClusterSpec = "32x4@p3.8xlarge,network=10".parse()?;
    let consolidated = InOrder::new(Consolidated::new(Split::WholeNodes));
    let consolidated = consolidated.when_blocked(Blocked::Skip);
    let mut runs = Vec::new();
    for seed in 1..=WORKLOADS {
        for group in figure.groups() {
            let (per_hour, sensitive) = of_group(group.parse().unwrap_or(1.0));
            let jobs = placed(per_hour, sensitive, seed)?;
            for name in figure.columns(0) {
                let scheduler = match name.as_str() {
                    "Tiresias" => tiresias(),
                    "Tiresias+" => tiresias_plus(),
                    _ => tiresias().with_placement(consolidated).expect(crate::ONCE),
                };
                runs.push(Run::of(
                    format!("{name}, {group}, seed {seed}"),
                    Simulation::new(cluster.clone())
                        .execution(LinkBound::default())
                        .completion(Exact),
                    scheduler,
                    Jobs::new(jobs.clone()),
                ));
            }
        }
    }
    let each = runs.len() / WORKLOADS as usize;
    Ok(Plan::of(runs, move |reports| {
        let hours = |r: &Report| jct_s(r) / 3600.0;
        let of = |of: &[Report]| Numbers::of([of.iter().map(hours).collect::<Vec<f64>>()]);
        figure.findings_over(reports.chunks(each).map(of).collect())
    }))
}

/// Returns the bandwidth in GB/s of each job with several GPUs on one node.
///
/// It follows from how much longer the job ran than on the best links.
fn bandwidths(report: &Report) -> Vec<f64> {
    let jobs = report.jobs.iter().filter(|j| j.gpus > 1);
    jobs.filter(|j| j.jct().is_some())
        .map(|j| j.attained.secs() / j.duration.secs() - (1.0 - COMMUNICATION))
        .map(|slower| BEST * COMMUNICATION / slower)
        .filter(|gb_per_s| *gb_per_s >= HOST_GB_PER_S)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_have_the_requested_part_of_sensitive_ones() {
        let jobs = placed(6.0, 0.25, 1).unwrap();
        let sensitive = jobs
            .iter()
            .filter(|j| j.extras().communication == SENSITIVE[0]);
        let part = sensitive.count() as f64 / jobs.len() as f64;
        assert!((part - 0.25).abs() < 0.06, "{part}");
        let skewed = jobs
            .iter()
            .filter(|j| j.extras().model.as_deref() == Some("vgg16"));
        let part = skewed.count() as f64 / jobs.len() as f64;
        assert!((part - 0.5).abs() < 0.07, "{part}");
    }
}
