//! Runs of a figure of the Blox paper.

use crate::figure::{Figure, Numbers, Plan, ReproduceError, Run, jct_s};
use blox_core::cluster::topology::HOST_GB_PER_S;
use blox_core::{ClusterSpec, Extras, Pipeline, Scheduler, Seconds};
use blox_policies::placement::{Bandwidth, Consolidated, InOrder, Split};
use blox_schedulers::schedulers::{bandwidth_placement, fifo};
use blox_sim::completion::Exact;
use blox_sim::execution::LinkBound;
use blox_sim::workload::{Jobs, collect};
use blox_sim::{Report, Simulation};
use blox_traces::generate::{DurationLaw, Generator, GeneratorSpec, Load};
use std::path::Path;

/// Fraction of a step that every job spends on gradient exchange at the best bandwidth.
const COMMUNICATION: f64 = 0.5;
/// Bandwidth of two NVLinks of a V100, the best link of a p3.8xlarge, in GB/s.
const BEST: f64 = 50.0;

/// Plans placement by the bandwidth between GPUs of a node, and by the lowest free GPUs.
pub(crate) fn table4(figure: &'static Figure, _: Option<&Path>) -> Result<Plan, ReproduceError> {
    let cluster: ClusterSpec = "32x4@p3.8xlarge".parse()?;
    let mean = Seconds::from_hours(4.0);
    let law = DurationLaw::Exponential { mean };
    let load = Load::OfCapacity {
        fraction: 0.6,
        gpus: 128,
    };
    let mut jobs = collect(&mut Generator::new(GeneratorSpec {
        gpus: vec![(1, 1.0), (2, 2.0), (3, 1.0)],
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
