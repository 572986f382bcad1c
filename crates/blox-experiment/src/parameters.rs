//! Settings that stand for a parameter of a component, each declared once.

use crate::field::Field;
use crate::value::{Duration, Expected};
use blox_registry::{ComponentSpec, ParamDoc};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::marker::PhantomData;

/// A setting that stands for a parameter of a component.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// The key.
    pub key: &'static str,
    /// The name of the parameter.
    pub name: &'static str,
    /// Form of the value in help texts.
    pub value_name: &'static str,
    /// Its effect; `{}` stands for the default.
    pub about: &'static str,
    kind: Kind,
}

/// Values of a parameter.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// A finite number. The component checks its range, which the text may state.
    Number(&'static str),
    /// Seconds that may be 0.
    Seconds,
    /// Seconds of a switch and of a doubling, as `2,2`.
    Pair,
    Text,
}

const fn parameter(
    key: &'static str,
    name: &'static str,
    value_name: &'static str,
    kind: Kind,
    about: &'static str,
) -> Parameter {
    Parameter {
        key,
        name,
        value_name,
        about,
        kind,
    }
}

const FINITE: Kind = Kind::Number("a finite number");

const OF_WORKLOAD: &[Parameter] = &[
    parameter(
        "load",
        "load",
        "JOBS",
        Kind::Number("a number of jobs an hour, from 1e-6 to 1e9"),
        "Jobs per hour; between bursts for bursty [default: {} for blox]",
    ),
    parameter(
        "load-of-capacity",
        "load_of_capacity",
        "FRACTION",
        FINITE,
        "Average GPU demand of the jobs as a fraction of the cluster's GPUs, instead of --load",
    ),
    parameter(
        "durations",
        "durations",
        "LAW",
        Kind::Text,
        "Durations of generated jobs: blox, exponential:MEAN_S, lognormal:MEDIAN_S,SIGMA, \
         uniform:LEAST_S,MOST_S, fixed:S, trace:FILE (of its jobs) or file:FILE (one number per line) \
         [default: {}]",
    ),
    parameter(
        "gpu-mix",
        "gpu_mix",
        "MIX",
        Kind::Text,
        "GPUs of generated jobs with weights, such as 0.5:70,2:10,8:20 [default: {}]",
    ),
    parameter(
        "models",
        "models",
        "MIX",
        Kind::Text,
        "Models of generated jobs with weights, such as resnet50:70,bert:30 [default: none]",
    ),
    parameter(
        "users",
        "users",
        "MIX",
        Kind::Text,
        "Users of generated jobs with weights, such as ada:70,bob:30; ada:70x0.5 halves the durations \
         of ada [default: none]",
    ),
    parameter(
        "quiet-h",
        "quiet_h",
        "H",
        FINITE,
        "bursty: hours between bursts, and before the first burst [default: {}]",
    ),
    parameter(
        "burst-h",
        "burst_h",
        "H",
        FINITE,
        "bursty: hours of a burst [default: {}]",
    ),
    parameter(
        "burst-factor",
        "burst_factor",
        "FACTOR",
        FINITE,
        "bursty: load during a burst as a multiple of the load between bursts [default: {}]",
    ),
    parameter(
        "burst-durations",
        "burst_durations",
        "LAW",
        Kind::Text,
        "bursty: durations of the jobs that bursts add [default: same as --durations]",
    ),
    parameter(
        "diurnal",
        "diurnal",
        "SHAPE",
        Kind::Text,
        "diurnal: sine:AMPLITUDE,PEAK_H or hours:W0,...,W23, weights of the hours from midnight \
         [default: {}]",
    ),
];

const OF_OVERHEADS: &[Parameter] = &[
    parameter(
        "launch-s",
        "launch_s",
        "S",
        Kind::Seconds,
        "Seconds of a first launch [default: {} beside another cost]",
    ),
    parameter(
        "checkpoint-s",
        "checkpoint_s",
        "S",
        Kind::Seconds,
        "Seconds of the checkpoint when a job is stopped [default: {} beside another cost]",
    ),
    parameter(
        "restart-s",
        "restart_s",
        "S",
        Kind::Seconds,
        "Seconds of a later launch on the same GPUs [default: {} beside another cost]",
    ),
    parameter(
        "migration-s",
        "migration_s",
        "S",
        Kind::Seconds,
        "Seconds of a later launch on other GPUs [default: {} beside another cost]",
    ),
    parameter(
        GROUP_OVERHEADS,
        "group_overheads_s",
        "S,S",
        Kind::Pair,
        "Seconds of every launch and change of GPUs, a comma, and seconds for each doubling of a GPU \
         group that no job used before (ElasticFlow: 2,2) [default: the four above]",
    ),
];

/// The overheads of groups of GPUs: both parameters of one component in one value.
pub(crate) const GROUP_OVERHEADS: &str = "group-overheads-s";

/// The settings that stand for a parameter of the workload, then those for costs.
pub static PARAMETERS: [&[Parameter]; 2] = [OF_WORKLOAD, OF_OVERHEADS];

/// A group of [`PARAMETERS`].
///
/// ```
/// use blox_experiment::{OfWorkload, ParameterGroup};
/// assert_eq!(OfWorkload::HEADING, "Workload");
/// assert!(OfWorkload::ALL.len() > 5);
/// ```
pub trait ParameterGroup: Clone + std::fmt::Debug + Default + Send + Sync + 'static {
    /// Its parameters.
    const ALL: &'static [Parameter];
    /// Heading in help texts.
    const HEADING: &'static str;
}

/// Parameters of the workload.
#[derive(Clone, Debug, Default)]
pub struct OfWorkload;

impl ParameterGroup for OfWorkload {
    const ALL: &'static [Parameter] = OF_WORKLOAD;
    const HEADING: &'static str = "Workload";
}

/// Parameters of the overheads.
#[derive(Clone, Debug, Default)]
pub struct OfOverheads;

impl ParameterGroup for OfOverheads {
    const ALL: &'static [Parameter] = OF_OVERHEADS;
    const HEADING: &'static str = "World";
}

/// Given values of a group of parameters, by key.
#[derive(Clone, Debug, Default)]
pub struct Parameters<G> {
    values: BTreeMap<&'static str, Value>,
    group: PhantomData<G>,
}

/// Returns the setting that stands for a parameter of a workload.
pub fn parameter_of(param: &ParamDoc) -> Option<&'static Parameter> {
    OF_WORKLOAD.iter().find(|p| p.name == param.name)
}

/// Returns the setting that stands for a parameter without a default.
pub(crate) fn open_parameter(param: &ParamDoc) -> Option<&'static Parameter> {
    parameter_of(param).filter(|_| param.default.is_none())
}

impl<G: ParameterGroup> Parameters<G> {
    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }

    /// Returns the given parameters, in the order of their declaration.
    pub(crate) fn given(&self) -> impl Iterator<Item = (&'static Parameter, &Value)> {
        let all = G::ALL.iter();
        all.filter_map(|p| Some((p, self.values.get(p.key)?)))
    }

    /// Sets a value that the component checks.
    pub(crate) fn put(&mut self, parameter: &Parameter, value: Value) {
        self.values.insert(parameter.key, value);
    }
}

impl Parameters<OfOverheads> {
    /// Returns the component with these parameters; `None` if no parameter is given.
    pub(crate) fn component(&self) -> Option<ComponentSpec> {
        if let Some(pair) = self.get(GROUP_OVERHEADS).and_then(Value::as_str) {
            let mut spec = ComponentSpec::plain("groups");
            for (name, text) in ["switch_s", "doubling_s"].into_iter().zip(pair.split(',')) {
                spec.params.set(name, text.trim().parse().unwrap_or(0.0));
            }
            return Some(spec);
        }
        let mut spec = ComponentSpec::plain("checkpoint-restart");
        for (parameter, value) in self.given() {
            spec.params.set(parameter.name, value.clone());
        }
        (!spec.params.is_empty()).then_some(spec)
    }
}

impl Parameter {
    /// Checks a value.
    fn checked(&self, value: Value) -> Result<Value, Expected> {
        match (self.kind, &value) {
            (Kind::Number(expected), _) => match value.as_f64().filter(|v| v.is_finite()) {
                Some(v) => Ok(v.into()),
                None => Err(Expected(expected)),
            },
            (Kind::Seconds, _) => {
                let seconds = value.as_f64().unwrap_or(f64::NAN);
                Duration::try_from(seconds).map(|Duration(s)| s.into())
            }
            (Kind::Pair, Value::String(text)) => {
                let seconds = |text: &str| text.trim().parse::<Duration>().is_ok();
                let both = text
                    .split_once(',')
                    .filter(|(a, b)| seconds(a) && seconds(b));
                both.map(|_| value.clone()).ok_or(PAIR)
            }
            (Kind::Pair, _) => Err(PAIR),
            (Kind::Text, _) => Ok(value),
        }
    }

    /// Reads a value from text.
    #[cfg(feature = "clap")]
    fn parsed(&self, text: &str) -> Result<Value, Expected> {
        let value = match self.kind {
            Kind::Number(_) | Kind::Seconds => text.parse::<f64>().map_or(Value::Null, Value::from),
            Kind::Pair | Kind::Text => text.into(),
        };
        self.checked(value)
    }
}

const PAIR: Expected = Expected("two numbers of seconds, at least 0, as 2,2");

impl<G: ParameterGroup> Field for Parameters<G> {
    fn keys(_: &'static str) -> Vec<String> {
        G::ALL.iter().map(|p| p.key.to_owned()).collect()
    }

    fn read<'de, D: Deserializer<'de>>(&mut self, key: &str, value: D) -> Result<(), D::Error> {
        let parameter = G::ALL.iter().find(|p| p.key == key);
        let parameter = parameter.ok_or_else(|| D::Error::custom("no parameter"))?;
        let value = match parameter.kind {
            Kind::Number(_) | Kind::Seconds => f64::deserialize(value)?.into(),
            Kind::Text => String::deserialize(value)?.into(),
            Kind::Pair => match Value::deserialize(value)? {
                Value::Array(list) => {
                    let list: Vec<String> = list.iter().map(Value::to_string).collect();
                    list.join(",").into()
                }
                value => value,
            },
        };
        let value = parameter.checked(value).map_err(D::Error::custom)?;
        self.values.insert(parameter.key, value);
        Ok(())
    }

    fn write(&self, _: &str, all: &mut Map<String, Value>) -> Result<(), serde_json::Error> {
        let values = self.values.iter();
        all.extend(values.map(|(key, value)| ((*key).to_owned(), value.clone())));
        Ok(())
    }

    fn clear(&mut self, key: &str) {
        self.values.remove(key);
    }
}

#[cfg(feature = "clap")]
impl<G: ParameterGroup> clap::Args for Parameters<G> {
    fn augment_args(command: clap::Command) -> clap::Command {
        let arg = |parameter: &'static Parameter| {
            clap::Arg::new(parameter.name)
                .long(parameter.key)
                .value_name(parameter.value_name)
                .help(parameter.about)
                .help_heading(G::HEADING)
                .value_parser(|text: &str| parameter.parsed(text))
        };
        command.args(G::ALL.iter().map(arg))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

#[cfg(feature = "clap")]
impl<G: ParameterGroup> clap::FromArgMatches for Parameters<G> {
    fn from_arg_matches(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
        let mut parameters = Self::default();
        parameters.update_from_arg_matches(matches)?;
        Ok(parameters)
    }

    fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
        for parameter in G::ALL {
            if let Ok(Some(value)) = matches.try_get_one::<Value>(parameter.name) {
                self.values.insert(parameter.key, value.clone());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn costs_become_parameters_of_a_component() {
        let mut costs = Parameters::<OfOverheads>::default();
        assert_eq!(costs.component(), None);
        costs.read("launch-s", json!(30)).unwrap();
        let text = costs.component().map(|spec| spec.to_string());
        assert_eq!(text.as_deref(), Some("checkpoint-restart{launch_s=30.0}"));
        costs.clear("launch-s");
        costs.read("group-overheads-s", json!([2, 3])).unwrap();
        let text = costs.component().map(|spec| spec.to_string());
        assert_eq!(text.as_deref(), Some("groups{doubling_s=3.0,switch_s=2.0}"));
        let error = costs.read("group-overheads-s", json!("2")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "expected two numbers of seconds, at least 0, as 2,2"
        );
        let error = costs.read("launch-s", json!(-1)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "expected a number of seconds from 0 to 1e9"
        );
    }
}
