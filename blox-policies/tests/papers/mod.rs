//! Rules that papers state, each with a small case. A file for each paper.

mod helios;
mod lucid;
mod tiresias;

use blox_core::{Composition, GpuCount, JobSpec, Pipeline, PlacementPolicy, SchedulingPolicy};
use blox_core::{Seconds, Time};

fn job(gpus: u32, seconds: f64) -> JobSpec {
    JobSpec::new(Time::ZERO, GpuCount(gpus), Seconds::new(seconds))
}

fn composed(
    scheduling: impl SchedulingPolicy + 'static,
    placement: impl PlacementPolicy + 'static,
) -> Pipeline {
    let composition = Composition::new("composed").scheduling(scheduling);
    composition.placement(placement).build().unwrap()
}
