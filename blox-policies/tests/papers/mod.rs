//! Rules that papers state, each with a small case. A file for each paper.

mod helios;
mod lucid;
mod tiresias;

use blox_core::{GpuCount, JobSpec, Seconds, Time};

fn job(gpus: u32, seconds: f64) -> JobSpec {
    JobSpec::new(Time::ZERO, GpuCount(gpus), Seconds::new(seconds))
}
