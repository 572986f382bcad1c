//! Options that set parameters of workloads.

use blox_core::registry::ParamDoc;
use serde_json::{Map, Value};

/// Options that set the parameter of a workload with the same name.
pub(super) const OPTIONS: [&str; 11] = [
    "load",
    "load-of-capacity",
    "durations",
    "gpu-mix",
    "models",
    "users",
    "quiet-h",
    "burst-h",
    "burst-factor",
    "burst-durations",
    "diurnal",
];

/// Returns the option that sets a parameter of a workload: the option that its default names, or
/// the option with its name.
pub(super) fn option_of(param: &ParamDoc) -> Option<&'static str> {
    let same = |name: &&str| name.split('-').eq(param.name.split('_'));
    let by_name = || OPTIONS.into_iter().find(same);
    param.option().or_else(by_name)
}

/// Returns the value of an option for a parameter, from the given options; whole numbers have no
/// decimal point.
pub(super) fn value(given: &Map<String, Value>, option: &str) -> Option<Value> {
    let value = given.get(option)?;
    Some(match value.as_f64() {
        Some(v) if v.fract() == 0.0 && v.abs() < 9e15 => (v as i64).into(),
        _ => value.clone(),
    })
}
