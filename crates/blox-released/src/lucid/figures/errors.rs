//! Effect of estimation errors on job completion times.

use crate::figure::{Figure, Plan, ReproduceError, Run, jct_s};
use blox_core::{AnyScheduling, ClusterSpec, Composition, Pipeline, Seconds};
use blox_policies::estimate::NoisyOracle;
use blox_policies::placement::{Consolidated, InOrder};
use blox_policies::scheduling::{Fifo, LucidSettings, Sjf, Srtf};
use blox_schedulers::schedulers::{lucid_with, qssf_with};
use blox_sim::Simulation;
use blox_sim::workload::Limited;
use blox_traces::generate::{DurationLaw, Generator, GeneratorSpec, Load};
use std::path::Path;
use std::sync::Arc;

const JOBS: u64 = 3000;

fn scheduler(name: &str, belief: NoisyOracle) -> Pipeline {
    let policy: Arc<dyn AnyScheduling> = match name {
        "qssf" => return qssf_with(belief),
        "lucid" => return lucid_with(LucidSettings::DEFAULT, belief),
        "sjf" => Arc::new(Sjf::with(belief)),
        "srtf" => Arc::new(Srtf::with(belief)),
        _ => Arc::new(Fifo::default()),
    };
    Composition::new(name)
        .scheduling(policy)
        .placement(InOrder::new(Consolidated::default()))
        .build()
        .expect(crate::ONCE)
}

/// Plans policies that order by duration, with increasing errors of their estimates.
pub(crate) fn plan(figure: &'static Figure, _: Option<&Path>) -> Result<Plan, ReproduceError> {
    let mean = Seconds::from_hours(2.0);
    let spec = GeneratorSpec {
        gpus: vec![(1, 0.7), (2, 0.1), (4, 0.1), (8, 0.1)],
        count: Some(JOBS),
        seed: 11,
        ..GeneratorSpec::new(Load::PerHour(16.0), DurationLaw::Exponential { mean })
    };
    let mut runs = Vec::new();
    for name in ["fifo", "sjf", "qssf", "srtf", "lucid"] {
        let sigmas: &[f64] = match name {
            "fifo" => &[0.0],
            _ => &[0.0, 0.5, 1.0, 2.0, 4.0],
        };
        for sigma in sigmas {
            let label = format!("{name}, sigma {sigma}");
            let simulation = Simulation::new(ClusterSpec::uniform(10, 8));
            let scheduler = scheduler(name, NoisyOracle::new(*sigma, 5));
            let jobs = Limited::new(Generator::new(spec.clone())?, JOBS);
            runs.push(Run::of(label, simulation, scheduler, jobs));
        }
    }
    Ok(figure.measuring(runs, &[jct_s]))
}
