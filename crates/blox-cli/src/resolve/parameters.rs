//! Options that set parameters of workloads.

use super::super::args::Options;
use blox_core::registry::ParamDoc;
use serde_json::Value;

/// Value of an option that sets a parameter of a workload.
pub(super) enum Slot<'a> {
    Number(&'a mut Option<f64>),
    Text(&'a mut Option<String>),
}

impl Slot<'_> {
    /// Returns the value for a parameter; whole numbers have no decimal point.
    pub fn value(&self) -> Option<Value> {
        match self {
            Slot::Text(text) => text.as_deref().map(Value::from),
            Slot::Number(number) => number.map(|v| match v {
                v if v.fract() == 0.0 && v.abs() < 9e15 => (v as i64).into(),
                v if v.is_finite() => v.into(),
                v => v.to_string().into(),
            }),
        }
    }

    /// Sets a missing value to a default.
    pub fn fill(self, default: &str) {
        match self {
            Slot::Text(text) => *text = text.take().or_else(|| Some(default.to_owned())),
            Slot::Number(number) => *number = number.or_else(|| default.parse().ok()),
        }
    }
}

/// Options that set the parameter of a workload with the same name.
const OPTIONS: [&str; 11] = [
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

/// Returns [`OPTIONS`] with their values.
pub(super) fn slots(o: &mut Options) -> impl Iterator<Item = (&'static str, Slot<'_>)> {
    OPTIONS.into_iter().zip([
        Slot::Number(&mut o.load),
        Slot::Number(&mut o.load_of_capacity),
        Slot::Text(&mut o.durations),
        Slot::Text(&mut o.gpu_mix),
        Slot::Text(&mut o.models),
        Slot::Text(&mut o.users),
        Slot::Number(&mut o.quiet_h),
        Slot::Number(&mut o.burst_h),
        Slot::Number(&mut o.burst_factor),
        Slot::Text(&mut o.burst_durations),
        Slot::Text(&mut o.diurnal),
    ])
}

/// Returns the option that sets a parameter of a workload: the option that its default names, or
/// the option with its name.
pub(super) fn option_of(param: &ParamDoc) -> Option<&'static str> {
    let same = |name: &&str| name.split('-').eq(param.name.split('_'));
    let by_name = || OPTIONS.into_iter().find(same);
    param.option().or_else(by_name)
}

/// Returns the value of an option for a parameter.
pub(super) fn value(o: &Options, option: &str) -> Option<Value> {
    let mut copy = o.clone();
    let slot = slots(&mut copy).find(|(name, _)| *name == option);
    match slot {
        Some((_, slot)) => slot.value(),
        None => serde_json::to_value(o).ok()?.get(option).cloned(),
    }
}
