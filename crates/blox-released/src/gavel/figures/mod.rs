//! Jobs of the figures of Gavel's paper.

pub(crate) mod scale;

use crate::figure::{Figure, Plan, ReproduceError};
use crate::gavel::GavelWorkload;
use blox_core::Seconds;
use blox_sim::workload::Jobs;
use blox_traces::formats::gavel::{Oracle, read_jobs};
use std::path::Path;
use std::sync::Arc;

/// Plans endless arrivals of one-GPU jobs at one load.
pub(crate) fn fig8(figure: &'static Figure, data: Option<&Path>) -> Result<Plan, ReproduceError> {
    let oracle = Arc::new(Oracle::read(figure.file(data, &figure.data[0].path)?)?);
    let (mean, seed) = (Seconds::new(1125.0), 0);
    figure.simulated(|| Box::new(GavelWorkload::new(Arc::clone(&oracle), mean, seed, false)))
}

/// Plans the jobs of a trace, on the physical cluster.
pub(crate) fn physical(
    figure: &'static Figure,
    data: Option<&Path>,
) -> Result<Plan, ReproduceError> {
    let oracle = Oracle::read(figure.file(data, &figure.data[1].path)?)?;
    let jobs = read_jobs(figure.file(data, &figure.data[0].path)?, &oracle)?;
    figure.simulated(|| Box::new(Jobs::new(jobs.clone())))
}
