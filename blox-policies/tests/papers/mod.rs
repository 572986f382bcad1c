//! Rules that papers state, each with a small case. A file for each paper.

mod allox;
mod antman;
mod chronus;
mod elasticflow;
mod gandiva;
mod gandiva_fair;
pub(crate) mod gavel;
mod helios;
mod hived;
mod lucid;
mod optimus;
mod pollux;
mod shockwave;
mod sia;
mod synergy;
mod themis;
mod tiresias;

use crate::with;
use blox_core::{
    Event, GpuCount, GradientNoise, JobId, JobSpec, Seconds, SpeedReport, ThroughputParams, Time,
    TrainingReport, TrainingSpec, TypeLimits,
};
use std::sync::Arc;

pub(crate) fn job(gpus: u32, seconds: f64) -> JobSpec {
    JobSpec::new(Time::ZERO, GpuCount(gpus), Seconds::new(seconds))
}

/// A training job that adapts, with these seconds of a restart. It is equally fast on all types.
pub(crate) fn training(restart: f64, types: &[&str]) -> JobSpec {
    let limits = TypeLimits {
        per_gpu: (1, 1_000),
        one_gpu_rate: 100.0,
        stages: 1,
    };
    let training = TrainingSpec {
        initial_batch: 1,
        max_batch: 1_000_000,
        adapts: Default::default(),
        restart: Seconds::new(restart),
        types: types.iter().map(|name| ((*name).into(), limits)).collect(),
    };
    with(job(1, 1e9), |extras| {
        extras.training = Some(Arc::new(training));
    })
}

/// Reported speed on a type.
#[derive(Clone, Copy)]
pub(crate) enum Speed {
    /// In proportion to GPUs; seen on this number.
    Linear(u32),
    /// In proportion to GPUs, and this number of times as fast; seen on one.
    Faster(f64),
    /// No faster on several GPUs; seen on this number.
    Flat(u32),
}

impl Speed {
    fn report(self) -> SpeedReport {
        let (most, pass, exchange) = match self {
            Speed::Linear(most) => (most, 1.0, 0.0),
            Speed::Faster(times) => (1, 1.0 / times, 0.0),
            Speed::Flat(most) => (most, 1.0, 1e6),
        };
        SpeedReport {
            // A pass has no constant part, so that all batches are equally fast.
            params: ThroughputParams::from_array([
                0.0, pass, exchange, exchange, exchange, exchange, 1.0,
            ]),
            most_gpus: GpuCount(most),
        }
    }
}

/// A report of a job whose speed, not its noise, decides.
pub(crate) fn reported(job: u32, speeds: &[(&str, Speed)]) -> Event {
    let speed = speeds.iter().map(|(name, s)| ((*name).into(), s.report()));
    let report = TrainingReport {
        noise: GradientNoise { sqr: 0.0, var: 1.0 },
        speed: speed.collect(),
    };
    Event::Reported {
        job: JobId(job),
        report: Arc::new(report),
    }
}
