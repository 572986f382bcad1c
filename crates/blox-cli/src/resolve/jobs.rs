//! The source of jobs, and the measured jobs.

use super::super::args::{Options, WORKLOAD};
use super::super::config::Given;
use super::world::{OPTIONS, built, option_of};
use crate::failure::Failure;
use blox_core::ClusterSpec;
use blox_registry::{ComponentSpec, ParamDoc, Registered, Registry};
use blox_sim::registry::Workloads;
use blox_sim::workload::WorkloadSource;
use blox_sim::{Measure, Until};
use blox_traces::ReadOptions;
use serde_json::Value;
use std::path::PathBuf;

/// Source of jobs.
pub(super) enum Source {
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

/// Fills in the default workload, and its defaults that options can set.
pub(super) fn complete(o: &mut Options, registry: &Registry) {
    if o.trace.is_some() {
        return;
    }
    if o.workload.is_none() {
        o.workload = WORKLOAD.parse().ok();
    }
    let Some(spec) = o.workload.as_deref().cloned() else {
        return;
    };
    let entry = registry
        .others()
        .and_then(|s: &Workloads| s.get(&spec.name));
    let params = entry.map_or(&[][..], |entry| &entry.params);
    let open = |p: &&ParamDoc| p.option().is_none() && !spec.params.has(p.name);
    for param in params.iter().filter(open) {
        let mut all = o.given();
        if let Some(option) = option_of(param).filter(|option| !all.contains_key(*option)) {
            let text = param.default.to_string();
            let number: Option<f64> = text.parse().ok();
            let value = number.map_or_else(|| text.into(), Value::from);
            all.insert(option.to_owned(), value);
            // Some parameters have no default.
            if let Ok(filled) = Options::of(all) {
                *o = filled;
            }
        }
    }
}

pub(super) fn source(
    given: &Given,
    registry: &Registry,
    seed: u64,
    reads_load: bool,
) -> Result<Source, Failure> {
    let o = &given.options;
    if o.trace.is_some() && o.workload.is_some() {
        return Err(given.both("trace", "workload"));
    }
    // Without a copy: a comparison over many seeds calls this function for each.
    let none = Workloads::new("workload");
    let components: &Workloads = registry.others().unwrap_or(&none);
    let spec = o.workload.as_deref();
    let entry = match spec {
        Some(spec) => match components.get(&spec.name) {
            Some(entry) => Some((spec, entry)),
            None => return Err(given.unknown("workload", &spec.name, components.names())),
        },
        None => None,
    };
    // An option without effect is an error.
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
                (format!("--workload {}", spec.name), known)
            }
        };
        Failure::new(format!(
            "{name} has no meaning with {what}, only with {expected}{known}"
        ))
    };
    if let (None, Some(name)) = (
        &o.trace,
        given.first_of(&["format", "map", "virtual-cluster"]),
    ) {
        return Err(no_meaning(&name, "--trace"));
    }
    let options = o.given();
    for option in OPTIONS.into_iter().filter(|o| options.contains_key(*o)) {
        let sets = |p: &&ParamDoc| option_of(p) == Some(option);
        let param = |entry: &Registered<_>| entry.params.iter().find(sets).map(|p| p.name);
        match entry.and_then(|(spec, entry)| Some((spec, param(entry)?))) {
            Some((spec, name)) if spec.params.has(name) => {
                return Err(Failure::new(format!(
                    "{} and `{name}` of {} are both given, expected one of them",
                    given.name(option),
                    given.name("workload")
                )));
            }
            Some(_) => {}
            None if option == "load" && reads_load => {}
            None => {
                let with = components
                    .iter()
                    .filter(|(_, entry)| param(entry).is_some());
                let with: Vec<&str> = with.map(|(name, _)| name).collect();
                let expected = match with.split_last() {
                    Some((last, [])) => format!("--workload {last}"),
                    Some((last, more)) => format!("--workload {} or {last}", more.join(", ")),
                    None => "another workload".to_owned(),
                };
                return Err(no_meaning(&given.name(option), &expected));
            }
        }
    }
    if let Some(path) = &o.trace {
        if o.format.is_some() && o.map.is_some() {
            return Err(given.both("format", "map"));
        }
        let options = ReadOptions {
            format: o.format.as_deref().copied(),
            columns: o.map.as_deref().cloned(),
        };
        return Ok(Source::Trace(path.clone(), options));
    }
    let spec = spec.cloned().unwrap_or_default();
    let (spec, source) = built(given, "workload", spec, components, seed, option_of)?;
    Ok(Source::Registered(spec, source))
}

/// A registered workload, with its parameters.
pub(super) type Named = (ComponentSpec, Box<dyn WorkloadSource>);

/// Returns the workload of `--services`.
pub(super) fn services(
    given: &Given,
    registry: &Registry,
    seed: u64,
) -> Result<Option<Named>, Failure> {
    let Some(spec) = given.options.services.as_deref() else {
        return Ok(None);
    };
    let none = Workloads::new("workload");
    let components: &Workloads = registry.others().unwrap_or(&none);
    if components.get(&spec.name).is_none() {
        return Err(given.unknown("services", &spec.name, components.names()));
    }
    let named = built(
        given,
        "services",
        spec.clone(),
        components,
        seed,
        ParamDoc::option,
    )?;
    if named.1.jobs_per_hour(&ClusterSpec::uniform(1, 1)).is_some() {
        return Err(Failure::new(format!(
            "--services is `{}`, which never ends, expected a workload that ends, such as `services`",
            spec.name
        )));
    }
    Ok(Some(named))
}

/// Returns whether a time or a number of jobs limits the simulation.
fn has_limit(o: &Options) -> bool {
    let limit = o.until.as_deref();
    limit.is_some_and(|limit| matches!(limit.0, Until::Time(_) | Until::Completed(_)))
}

pub(super) fn measure(
    given: &Given,
    source: &Source,
    cluster: &ClusterSpec,
) -> Result<Measure, Failure> {
    let o = &given.options;
    let Some(measured) = &o.measure else {
        let Source::Registered(spec, jobs) = source else {
            return Ok(Measure::All);
        };
        return match (o.jobs, jobs.measured()) {
            (Some(_), _) => Ok(Measure::All),
            (None, Measure::All) if source.jobs_per_hour(cluster).is_some() && !has_limit(o) => {
                Err(Failure::new(format!(
                    "--workload {} never ends: give --jobs N, --measure A..B or --until WHEN",
                    spec.name
                )))
            }
            (None, measured) => Ok(measured),
        };
    };
    Ok(measured.0.clone())
}
