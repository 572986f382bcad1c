use blox_core::JobSpec;

/// Returns the fraction of time that a job keeps its GPUs busy when it runs alone: the number
/// `gpu_utilisation` among the job's [attributes](blox_core::Extras::attributes). The number must
/// be above 0 and at most 1. A job without a valid number has 1.
///
/// ```
/// use blox_core::{GpuCount, JobSpec, Seconds, Time};
/// use blox_perf::gpu_utilisation;
///
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
