//! Features of a job, under the names of the columns of logs.

use blox_core::{Name, Submission};
use serde_json::Value;

/// Prefix of the columns of attributes in a CSV trace.
pub(super) const ATTRIBUTE: &str = "attributes.";

/// A value of a feature.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Known {
    Number(f64),
    Text(String),
}

/// Returns true for a column of names. They remain categories if all of them look like numbers.
pub(super) fn is_name(column: &str) -> bool {
    matches!(
        column,
        "user" | "vc" | "virtual_cluster" | "cluster" | "model" | "model_name" | "group"
    )
}

/// Returns true for an amount of which a job without the data has 0.
pub(super) fn is_amount(column: &str) -> bool {
    matches!(
        column,
        "cpus" | "cpu_num" | "memory_gib" | "batch_size" | "batchsize"
    )
}

/// Returns true for a field of a job, which is known at submission.
pub(super) fn is_known(column: &str) -> bool {
    const OTHERS: [&str; 7] = [
        "gpus",
        "gpu_num",
        "num_gpus",
        "num_gpu",
        "priority",
        "submit_s",
        "user_estimate_s",
    ];
    is_name(column) || is_amount(column) || OTHERS.contains(&column)
}

/// Returns the value of a feature; `None` if the job lacks it, or has a list or an object.
pub(super) fn of_job(spec: &Submission, feature: &str) -> Option<Known> {
    let extras = spec.extras();
    let text = |name: Option<&Name>| name.map(|n| Known::Text(category(n.as_str())));
    let amount = |x: f64| (x != 0.0).then_some(Known::Number(x));
    match feature {
        "user" => text(spec.user.as_ref()),
        "vc" | "virtual_cluster" | "cluster" => text(spec.virtual_cluster.as_ref()),
        "model" | "model_name" => text(extras.model.as_ref()),
        "group" => text(extras.group.as_ref()),
        "gpus" | "gpu_num" | "num_gpus" | "num_gpu" => {
            Some(Known::Number(f64::from(spec.gpus.get())))
        }
        "cpus" | "cpu_num" => amount(extras.cpus),
        "memory_gib" => amount(extras.memory_gib),
        "batch_size" | "batchsize" => amount(f64::from(extras.batch_size?)),
        "priority" => Some(Known::Number(f64::from(spec.priority))),
        "submit_s" => Some(Known::Number(spec.submit.secs())),
        "user_estimate_s" => Some(Known::Number(extras.user_estimate?.secs())),
        other => of_attribute(spec.attribute(other.strip_prefix(ATTRIBUTE).unwrap_or(other))?),
    }
    .filter(|known| !matches!(known, Known::Text(text) if text.is_empty()))
}

/// Returns an attribute as a value of a feature.
pub(super) fn of_attribute(value: &Value) -> Option<Known> {
    match value {
        Value::Number(x) => x.as_f64().map(Known::Number),
        Value::Bool(yes) => Some(Known::Text(yes.to_string())),
        Value::String(text) => Some(Known::Text(category(text))),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Returns the name of a category. Numbers have one name, such as `7` for `7.0`.
pub(super) fn category(text: &str) -> String {
    match text.parse::<f64>() {
        Ok(x) if x.is_finite() => x.to_string(),
        _ => text.to_owned(),
    }
}

/// Returns what a job lacks, for messages.
pub(super) fn missing(feature: &str) -> String {
    let (attribute, name) = match is_known(feature) {
        true => ("", feature),
        false => {
            let name = feature.strip_prefix(ATTRIBUTE).unwrap_or(feature);
            ("the attribute ", name)
        }
    };
    format!("{attribute}`{name}`, a feature of the learned estimates")
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::{Extras, GpuCount, JobSpec, Seconds, Time};
    use serde_json::json;

    #[test]
    fn job_has_the_features_of_its_columns() {
        let mut extras = Extras {
            cpus: 8.0,
            group: Some("search".into()),
            ..Extras::default()
        };
        let attributes = [
            ("level", json!(7)),
            ("kind", json!("7.0")),
            ("fast", json!(true)),
            ("stages", json!([1, 2])),
            ("user", json!("not the owner")),
        ];
        extras
            .attributes
            .extend(attributes.map(|(k, v)| (k.into(), v)));
        let job = JobSpec::new(Time::new(5.0), GpuCount(4), Seconds::new(60.0));
        let job = job.owned_by("007").with_extras(extras);
        let text = |text: &str| Some(Known::Text(text.to_owned()));
        let number = |x| Some(Known::Number(x));
        let expected = [
            ("user", text("7")),
            ("attributes.user", text("not the owner")),
            ("group", text("search")),
            ("num_gpus", number(4.0)),
            ("cpus", number(8.0)),
            ("submit_s", number(5.0)),
            ("attributes.level", number(7.0)),
            ("level", number(7.0)),
            ("kind", text("7")),
            ("fast", text("true")),
            // No value of a feature.
            ("stages", None),
            ("memory_gib", None),
            ("vc", None),
            ("batch_size", None),
            ("end_time", None),
        ];
        for (feature, value) in expected {
            assert_eq!(of_job(&job, feature), value, "{feature}");
        }
    }
}
