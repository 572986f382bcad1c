use blox_core::Submission;
use serde_json::Value;

/// Returns the fraction of time that a job keeps its GPUs busy when it runs alone.
///
/// This is the number `gpu_utilisation` among the job's [attributes](blox_core::Extras::attributes),
/// above 0 and at most 1. Otherwise it is the hundredth of `gpu_util`, the percentage of Lucid's log.
/// A job with neither number has 1.
///
/// ```
/// use blox_core::{Extras, GpuCount, JobSpec, Seconds, Time};
/// use blox_perf::gpu_utilisation;
///
/// let job = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(60.0));
/// assert_eq!(gpu_utilisation(&job), 1.0);
/// let profiled = job.with_extras(Extras {
///     attributes: [("gpu_util".into(), 20.0.into())].into(),
///     ..Extras::default()
/// });
/// assert_eq!(gpu_utilisation(&profiled), 0.2);
/// ```
pub fn gpu_utilisation(job: &Submission) -> f64 {
    let Some(extras) = &job.extras else {
        return 1.0;
    };
    let fraction = |name: &str, whole: f64| {
        let number = extras.attributes.get(name).and_then(Value::as_f64)?;
        Some(number / whole).filter(|u| *u > 0.0 && *u <= 1.0)
    };
    let stated = fraction("gpu_utilisation", 1.0);
    stated
        .or_else(|| fraction("gpu_util", 100.0))
        .unwrap_or(1.0)
}
