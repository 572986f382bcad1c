//! Runs of the figures of the Blox paper.

use crate::blox::{self, OptimusSpeed};
use crate::bursty::bursty;
use crate::figure::{Figure, Numbers, Plan, ReproduceError, Run, jct_s};
use blox_core::cluster::topology::HOST_GB_PER_S;
use blox_core::{ClusterSpec, Extras, Pipeline, Scheduler, Seconds};
use blox_policies::admission::LoadThreshold;
use blox_policies::placement::{Bandwidth, Consolidated, InOrder, Split};
use blox_schedulers::schedulers::{
    SynthesizerParams, bandwidth_placement, fifo, loss_termination, synthesizer_candidates,
    synthesizer_with,
};
use blox_sim::completion::Exact;
use blox_sim::execution::LinkBound;
use blox_sim::workload::{Jobs, Limited, Workload, collect};
use blox_sim::{Measure, Report, Simulation};
use blox_traces::generate::blox::BloxWorkload;
use blox_traces::generate::{DurationLaw, Generator, GeneratorSpec, Load, with_losses};
use std::path::Path;

/// Returns the cluster of the paper, with the jobs that it measures.
fn simulation() -> Simulation {
    Simulation::new(ClusterSpec::uniform(32, 4)).measure(Measure::Ids(3000, 4000))
}

/// Returns the average responsiveness in seconds.
///
/// The released program measures it to the first report, one round after the start.
fn responsiveness_s(report: &Report) -> f64 {
    report.summary.avg_responsiveness_s + 300.0
}

/// Plans FIFO, Tiresias and Optimus at 1 to 9 jobs per hour.
pub(crate) fn fig6(figure: &'static Figure, _: Option<&Path>) -> Result<Plan, ReproduceError> {
    let schedulers = [blox::fifo, blox::tiresias, blox::optimus];
    let mut runs = Vec::new();
    for load in (1..=9).map(f64::from) {
        for (name, scheduler) in ["FIFO", "Tiresias", "Optimus"].iter().zip(schedulers) {
            let speed = OptimusSpeed::at_load(load).filter(|_| *name == "Optimus");
            let simulation = match speed {
                Some(speed) => simulation().execution(speed),
                None => simulation(),
            };
            let label = format!("{name} at {load} jobs an hour");
            runs.push(Run::of(
                label,
                simulation,
                scheduler(),
                BloxWorkload::new(load)?,
            ));
        }
    }
    Ok(figure.measuring(runs, &[jct_s, responsiveness_s]))
}

/// Plans LAS with each admission policy on steady arrivals.
pub(crate) fn fig12(figure: &'static Figure, _: Option<&Path>) -> Result<Plan, ReproduceError> {
    // Starved measured jobs end only after the last arrival.
    by_admission(figure, || Ok(Limited::new(BloxWorkload::new(8.0)?, 30_000)))
}

/// Plans LAS with each admission policy on bursts.
pub(crate) fn fig13(figure: &'static Figure, _: Option<&Path>) -> Result<Plan, ReproduceError> {
    by_admission(figure, bursty)
}

fn by_admission<W: Workload + 'static>(
    figure: &'static Figure,
    workload: impl Fn() -> Result<W, ReproduceError>,
) -> Result<Plan, ReproduceError> {
    let mut runs = Vec::new();
    for threshold in [None, Some(1.5), Some(1.4), Some(1.2), Some(1.1), Some(1.0)] {
        let (name, las) = match threshold {
            None => ("accept all".to_owned(), blox::las()),
            Some(t) => {
                let admission = LoadThreshold::new(t).expect("a threshold above 0");
                let las = blox::las().with_admission(admission);
                (format!("accept {t:.1}x"), las.expect(crate::ONCE))
            }
        };
        runs.push(Run::of(name, simulation(), las, workload()?));
    }
    let jcts = |report: &Report| {
        let measured = report.jobs.iter().filter(|j| j.measured);
        measured.filter_map(|j| Some(j.jct()?.secs())).collect()
    };
    Ok(Plan::of(runs, move |reports| {
        figure.findings(Numbers {
            samples: reports.iter().map(jcts).collect(),
            ..Numbers::of([jct_s, responsiveness_s].map(|m| reports.iter().map(m).collect()))
        })
    }))
}

/// Plans the synthesizer and its static candidates, with all of them and without SRTF.
pub(crate) fn fig14(figure: &'static Figure, _: Option<&Path>) -> Result<Plan, ReproduceError> {
    let all = SynthesizerParams::default();
    let blind = SynthesizerParams { srtf: false, ..all };
    let mut runs = Vec::new();
    for (group, params) in [("all", all), ("without Srtf", blind)] {
        let statics = synthesizer_candidates(&params).into_iter();
        for scheduler in statics.chain([synthesizer_with(params)]) {
            let label = format!("{} ({group})", scheduler.name());
            runs.push(Run::of(label, simulation(), scheduler, bursty()?));
        }
    }
    Ok(figure.measuring(runs, &[jct_s]))
}

/// Plans FIFO with and without the end of jobs whose loss has converged.
pub(crate) fn fig16(figure: &'static Figure, _: Option<&Path>) -> Result<Plan, ReproduceError> {
    let mut runs = Vec::new();
    for load in [4.0, 6.0, 8.0] {
        for scheduler in [fifo(), loss_termination()] {
            let label = format!("{} at {load} jobs an hour", scheduler.name());
            let jobs = Limited::new(BloxWorkload::new(load)?, 10_000);
            runs.push(Run::of(
                label,
                simulation(),
                scheduler,
                with_losses(jobs, 1),
            ));
        }
    }
    Ok(figure.measuring(runs, &[jct_s]))
}

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
