use crate::job::spec::JobSpec;

/// The part of its GPUs' time that a job keeps them busy when it has them
/// alone: `gpu_utilisation` among its [attributes](crate::Extras::attributes),
/// above 0 and at most 1. 1 where a job does not say so.
///
/// ```
/// use blox_core::{GpuCount, JobSpec, Seconds, Time, perf::gpu_utilisation};
/// let job = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(60.0));
/// assert_eq!(gpu_utilisation(&job), 1.0);
/// ```
pub fn gpu_utilisation(job: &JobSpec) -> f64 {
    let said = job
        .extras
        .as_ref()
        .and_then(|e| e.attributes.get("gpu_utilisation"));
    let said = said.and_then(serde_json::Value::as_f64);
    said.filter(|u| *u > 0.0 && *u <= 1.0).unwrap_or(1.0)
}
