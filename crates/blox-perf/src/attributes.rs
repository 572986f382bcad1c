//! Ranges of the attributes of jobs that several policies and models read.

use blox_core::{SpecError, Submission};
use serde_json::Value;

/// An attribute: its name, the field of an error, the expected value, and the rule.
type Known = (
    &'static str,
    &'static str,
    &'static str,
    fn(&Submission, &Value) -> bool,
);

/// Returns whether a value is a finite number that fits.
fn is(value: &Value, fits: impl Fn(f64) -> bool) -> bool {
    value.as_f64().is_some_and(|x| x.is_finite() && fits(x))
}

const PERCENT: &str = "a number from 0 to 100";

const KNOWN: [Known; 11] = [
    (
        "gpu_utilisation",
        "attributes.gpu_utilisation",
        "a fraction above 0 and at most 1",
        |_, v| is(v, |x| x > 0.0 && x <= 1.0),
    ),
    ("gpu_util", "attributes.gpu_util", PERCENT, |_, v| {
        is(v, |x| (0.0..=100.0).contains(&x))
    }),
    ("gmem_util", "attributes.gmem_util", PERCENT, |_, v| {
        is(v, |x| (0.0..=100.0).contains(&x))
    }),
    (
        "gmem",
        "attributes.gmem",
        "MiB of GPU memory, a number of at least 0",
        |_, v| is(v, |x| x >= 0.0),
    ),
    (
        "sharing_score",
        "attributes.sharing_score",
        "a number from 0 to 2",
        |_, v| is(v, |x| (0.0..=2.0).contains(&x)),
    ),
    (
        "stages",
        "attributes.stages",
        "four numbers of seconds from 0 to 1e6, one of them above 0",
        |_, v| crate::stages::times_of(v).is_some(),
    ),
    (
        "params_b",
        "attributes.params_b",
        "billions of parameters, a number above 0",
        |_, v| is(v, |x| x > 0.0),
    ),
    (
        "sequence",
        "attributes.sequence",
        "tokens of a sample, a number above 0",
        |_, v| is(v, |x| x > 0.0),
    ),
    (
        "plan",
        "attributes.plan",
        "a plan such as `tp=2 pp=4`, with whole tp and pp from 1, zero to 3 and offload to 1",
        |_, v| v.as_str().and_then(crate::plans::parsed).is_some(),
    ),
    (
        "plans",
        "attributes.plans",
        "a list of objects with `gpus`, `speed` and knobs",
        |_, v| crate::plans::measured(v).is_some(),
    ),
    (
        "plan",
        "attributes.plan",
        "tp times pp that divides the GPUs of the job, or a row of `plans` on these GPUs",
        crate::plans::divides,
    ),
];

/// Checks the values of some attributes of a job. A missing attribute, one without a value and one
/// that only its own policy knows are sound.
///
/// ```
/// use blox_core::{Extras, GpuCount, JobSpec, Seconds, Time};
/// use blox_perf::check_attributes;
///
/// let job = |used: f64| JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(60.0)).with_extras(Extras {
///     attributes: [("gpu_utilisation".into(), used.into())].into(),
///     ..Extras::default()
/// });
/// assert_eq!(check_attributes(&job(0.4), &["gpu_utilisation"]), Ok(()));
/// let wrong = check_attributes(&job(40.0), &["stages", "gpu_utilisation"]).unwrap_err();
/// assert_eq!(
///     wrong.to_string(),
///     "attributes.gpu_utilisation is 40.0, expected a fraction above 0 and at most 1"
/// );
/// ```
///
/// # Errors
/// The first attribute outside its range.
pub fn check_attributes(job: &Submission, names: &[&str]) -> Result<(), SpecError> {
    let Some(extras) = &job.extras else {
        return Ok(());
    };
    for (name, field, expected, fits) in KNOWN.into_iter().filter(|k| names.contains(&k.0)) {
        if let Some(value) = extras.attributes.get(name)
            && !value.is_null()
            && !fits(job, value)
        {
            return Err(SpecError {
                field,
                found: value.to_string(),
                expected,
            });
        }
    }
    Ok(())
}

/// Checks the execution plans that a job states: `params_b`, `sequence`, `plan` and `plans`.
///
/// ```
/// use blox_core::{Extras, GpuCount, JobSpec, Seconds, Time};
/// use blox_perf::check_plans;
///
/// let job = JobSpec::new(Time::ZERO, GpuCount(8), Seconds::new(60.0)).with_extras(Extras {
///     attributes: [("params_b".into(), 7.into()), ("plan".into(), "tp=3".into())].into(),
///     ..Extras::default()
/// });
/// let wrong = check_plans(&job).unwrap_err();
/// assert!(wrong.to_string().starts_with("attributes.plan is \"tp=3\", expected tp times pp that"));
/// ```
///
/// # Errors
/// The first wrong value. A `plan` or `sequence` of a job without a model and measured plans is not
/// read.
pub fn check_plans(job: &Submission) -> Result<(), SpecError> {
    let stated = |name| job.attribute(name).is_some_and(|value| !value.is_null());
    match ["params_b", "plans"].into_iter().any(stated) {
        true => check_attributes(job, &["params_b", "sequence", "plan", "plans"]),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::{Extras, GpuCount, JobSpec, Seconds, Time};
    use serde_json::json;

    #[test]
    fn values_outside_their_range_are_named() {
        let check = |name: &str, value: Value| {
            let job = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(60.0));
            let job = job.with_extras(Extras {
                attributes: [(name.into(), value)].into(),
                ..Extras::default()
            });
            let checked = check_attributes(&job, &[name]);
            checked.map_err(|e| (e.field, e.found))
        };
        for (name, value) in [
            ("gpu_utilisation", json!(40)),
            ("gpu_utilisation", json!(-0.4)),
            ("gpu_utilisation", json!(0)),
            ("gpu_util", json!(101)),
            ("gmem_util", json!("x")),
            ("gmem", json!(-1)),
            ("sharing_score", json!("low")),
            ("stages", json!([1, 2, 3])),
            ("stages", json!([1, -3, 1, 1])),
            ("stages", json!([0, 0, 0, 0])),
            ("params_b", json!(0)),
            ("sequence", json!("long")),
            ("plan", json!("tp")),
            ("plan", json!("dp=2")),
            ("plan", json!("tp=0")),
            ("plan", json!("tp=1.5")),
            ("plan", json!("zero=4")),
            ("plan", json!("tp=2")),
            ("plans", json!([])),
            ("plans", json!([{"gpus": 0, "speed": 1}])),
            ("plans", json!([{"gpus": 1, "speed": 1, "dp": 2}])),
        ] {
            let found = value.to_string();
            let (field, seen) = check(name, value).unwrap_err();
            assert_eq!((field, seen), (&*format!("attributes.{name}"), found));
        }
        for (name, value) in [
            ("gpu_utilisation", json!(0.4)),
            ("gpu_util", json!(0)),
            ("gmem", json!(1000)),
            ("sharing_score", json!(0)),
            ("stages", json!([1, 2, 1, 0])),
            ("gmem", json!(null)),
            ("own", json!("low")),
        ] {
            assert_eq!(check(name, value), Ok(()), "{name}");
        }
    }
}
