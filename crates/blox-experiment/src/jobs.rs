//! The source of jobs, and the measured jobs.

use crate::error::ExperimentError;
use crate::parameters::{open_parameter, parameter_of};
use crate::settings::Experiment;
use crate::world::{WORKLOAD, built};
use blox_core::ClusterSpec;
use blox_registry::{ComponentSpec, ParamDoc, Registered, Registry};
use blox_sim::registry::Workloads;
use blox_sim::{Measure, Until};
use blox_traces::ReadOptions;
use blox_workloads::WorkloadSource;
use serde_json::Value;
use std::path::PathBuf;

/// Source of jobs.
pub(crate) enum Source {
    Trace(PathBuf, ReadOptions),
    /// A registered workload, with its parameters.
    Registered(ComponentSpec, Box<dyn WorkloadSource>),
}

impl Source {
    /// Returns the name and parameters of a registered workload.
    pub fn component(&self) -> Option<&ComponentSpec> {
        match self {
            Source::Trace(..) => None,
            Source::Registered(spec, _) => Some(spec),
        }
    }

    /// Returns the mean arrivals per hour if the jobs never end.
    pub fn jobs_per_hour(&self, cluster: &ClusterSpec) -> Option<f64> {
        match self {
            Source::Trace(..) => None,
            Source::Registered(_, source) => source.jobs_per_hour(cluster),
        }
    }
}

/// Fills in the default workload, and its defaults that settings stand for.
pub(crate) fn complete(of: &mut Experiment, registry: &Registry) {
    if of.trace.is_some() {
        return;
    }
    if of.workload.is_none() {
        of.workload = WORKLOAD.parse().ok();
    }
    let Some(spec) = of.workload.as_deref().cloned() else {
        return;
    };
    let entry = registry
        .others()
        .and_then(|s: &Workloads| s.get(&spec.name));
    let params = entry.map_or(&[][..], |entry| &entry.params);
    let open = |p: &&ParamDoc| !p.default.is_none() && !spec.params.has(p.name);
    for param in params.iter().filter(open) {
        let Some(parameter) = parameter_of(param) else {
            continue;
        };
        if of.workload_parameters.get(parameter.key).is_none() {
            let text = param.default.to_string();
            let number: Option<f64> = text.parse().ok();
            let value = number.map_or_else(|| text.into(), Value::from);
            of.workload_parameters.put(parameter, value);
        }
    }
}

pub(crate) fn source(
    of: &Experiment,
    registry: &Registry,
    seed: u64,
    reads_load: bool,
) -> Result<Source, ExperimentError> {
    if of.trace.is_some() && of.workload.is_some() {
        return Err(of.both("trace", "workload"));
    }
    // Without a copy: a comparison over many seeds calls this function for each.
    let none = Workloads::new("workload");
    let components: &Workloads = registry.others().unwrap_or(&none);
    let spec = of.workload.as_deref();
    let entry = match spec {
        Some(spec) => match components.get(&spec.name) {
            Some(entry) => Some((spec, entry)),
            None => return Err(of.unknown("workload", &spec.name, components.names())),
        },
        None => None,
    };
    let workload = of.origin.option("workload");
    // A setting without effect is an error.
    let no_meaning = |name: &str, expected: &str| {
        let (what, known) = match entry {
            None => ("a trace".to_owned(), String::new()),
            Some((spec, entry)) => {
                let params: Vec<&str> = entry.params.iter().map(|p| p.name).collect();
                let params = match params.is_empty() {
                    true => "no parameters".to_owned(),
                    false => params.join(", "),
                };
                let known = format!("; `{}` has {params}", spec.name);
                (format!("{workload} {}", spec.name), known)
            }
        };
        ExperimentError::Setting(format!(
            "{name} has no meaning with {what}, only with {expected}{known}"
        ))
    };
    if let (None, Some(name)) = (
        &of.trace,
        of.first_of(&["format", "map", "virtual-cluster"]),
    ) {
        return Err(no_meaning(&name, &of.origin.option("trace")));
    }
    for (parameter, _) in of.workload_parameters.given() {
        let key = parameter.key;
        let sets = |p: &&ParamDoc| parameter_of(p).is_some_and(|own| own.key == key);
        let param = |entry: &Registered<_>| entry.params.iter().find(sets).map(|p| p.name);
        match entry.and_then(|(spec, entry)| Some((spec, param(entry)?))) {
            Some((spec, name)) if spec.params.has(name) => {
                return Err(ExperimentError::Setting(format!(
                    "{} and `{name}` of {} are both given, expected one of them",
                    of.name(key),
                    of.name("workload")
                )));
            }
            Some(_) => {}
            None if key == "load" && reads_load => {}
            None => {
                let with = components
                    .iter()
                    .filter(|(_, entry)| param(entry).is_some());
                let with: Vec<&str> = with.map(|(name, _)| name).collect();
                let expected = match with.split_last() {
                    Some((last, [])) => format!("{workload} {last}"),
                    Some((last, more)) => format!("{workload} {} or {last}", more.join(", ")),
                    None => "another workload".to_owned(),
                };
                return Err(no_meaning(&of.name(key), &expected));
            }
        }
    }
    if let Some(path) = &of.trace {
        if of.format.is_some() && of.map.is_some() {
            return Err(of.both("format", "map"));
        }
        let options = ReadOptions {
            format: of.format.as_deref().copied(),
            columns: of.map.as_deref().cloned(),
        };
        return Ok(Source::Trace(path.clone(), options));
    }
    let spec = spec.cloned().unwrap_or_default();
    let (spec, source) = built(of, "workload", spec, components, seed, parameter_of)?;
    Ok(Source::Registered(spec, source))
}

/// A registered workload, with its parameters.
pub(crate) type Named = (ComponentSpec, Box<dyn WorkloadSource>);

/// Returns the services beside the jobs.
pub(crate) fn services(
    of: &Experiment,
    registry: &Registry,
    seed: u64,
) -> Result<Option<Named>, ExperimentError> {
    let Some(spec) = of.services.as_deref() else {
        return Ok(None);
    };
    let none = Workloads::new("workload");
    let components: &Workloads = registry.others().unwrap_or(&none);
    if components.get(&spec.name).is_none() {
        return Err(of.unknown("services", &spec.name, components.names()));
    }
    let named = built(
        of,
        "services",
        spec.clone(),
        components,
        seed,
        open_parameter,
    )?;
    if named.1.jobs_per_hour(&ClusterSpec::uniform(1, 1)).is_some() {
        let option = of.origin.option("services");
        return Err(ExperimentError::Setting(format!(
            "{option} is `{}`, which never ends, expected a workload that ends, such as `services`",
            spec.name
        )));
    }
    Ok(Some(named))
}

/// Returns whether a time or a number of jobs limits the simulation.
fn has_limit(of: &Experiment) -> bool {
    let limit = of.until.as_deref();
    limit.is_some_and(|limit| matches!(limit.0, Until::Time(_) | Until::Completed(_)))
}

pub(crate) fn measure(
    of: &Experiment,
    source: &Source,
    cluster: &ClusterSpec,
) -> Result<Measure, ExperimentError> {
    let Some(measured) = &of.measure else {
        let Source::Registered(spec, jobs) = source else {
            return Ok(Measure::All);
        };
        return match (of.jobs, jobs.measured()) {
            (Some(_), _) => Ok(Measure::All),
            (None, Measure::All) if source.jobs_per_hour(cluster).is_some() && !has_limit(of) => {
                let option = |key| of.origin.option(key);
                Err(ExperimentError::Setting(format!(
                    "{} {} never ends: give {} N, {} A..B or {} WHEN",
                    option("workload"),
                    spec.name,
                    option("jobs"),
                    option("measure"),
                    option("until")
                )))
            }
            (None, measured) => Ok(measured),
        };
    };
    Ok(measured.0.clone())
}
