//! The source of jobs, and the measured jobs.

use super::super::Failure;
use super::super::args::Options;
use super::super::config::Given;
use super::super::reading::read_options;
use super::parameters::{option_of, slots};
use super::world::{built, named};
use blox_core::registry::{ComponentSpec, ParamDoc, Registered, Registry};
use blox_core::{ClusterSpec, Time};
use blox_sim::Measure;
use blox_sim::registry::Workloads;
use blox_sim::workload::WorkloadSource;
use blox_traces::ReadOptions;
use std::path::PathBuf;

/// The workload if no option names one.
const DEFAULT: &str = "blox";

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
    fn jobs_per_hour(&self, cluster: &ClusterSpec) -> Option<f64> {
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
    let text = o.workload.get_or_insert_with(|| DEFAULT.to_owned());
    let Ok(spec) = text.parse::<ComponentSpec>() else {
        return;
    };
    let entry = registry
        .others()
        .and_then(|s: &Workloads| s.get(&spec.name));
    let params = entry.map_or(&[][..], |entry| &entry.params);
    let open = |p: &&ParamDoc| p.option().is_none() && !spec.params.has(p.name);
    for (option, slot) in slots(o) {
        let mut open = params.iter().filter(open);
        if let Some(param) = open.find(|p| option_of(p) == Some(option)) {
            slot.fill(param.default);
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
    let shelf: &Workloads = registry.others().unwrap_or(&none);
    let spec = named(given, "workload", o.workload.as_deref())?;
    let entry = match &spec {
        Some(spec) => match shelf.get(&spec.name) {
            Some(entry) => Some((spec, entry)),
            None => return Err(given.unknown("workload", &spec.name, shelf.names())),
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
    for (option, slot) in slots(&mut o.clone()) {
        if slot.value().is_none() {
            continue;
        }
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
                let with = shelf.iter().filter(|(_, entry)| param(entry).is_some());
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
        let (format, map) = (o.format.as_deref(), o.map.as_deref());
        let options = read_options(format, map, |key| given.name(key))?;
        return Ok(Source::Trace(path.clone(), options));
    }
    let spec = spec.unwrap_or_default();
    let (spec, source) = built(given, "workload", spec, shelf, seed, option_of)?;
    Ok(Source::Registered(spec, source))
}

pub(super) fn measure(
    given: &Given,
    source: &Source,
    cluster: &ClusterSpec,
) -> Result<Measure, Failure> {
    let o = &given.options;
    let Some(text) = &o.measure else {
        let Source::Registered(spec, jobs) = source else {
            return Ok(Measure::All);
        };
        return match (o.jobs, jobs.measured()) {
            (Some(_), _) => Ok(Measure::All),
            (None, Measure::All) if source.jobs_per_hour(cluster).is_some() => {
                Err(Failure::new(format!(
                    "--workload {} never ends: give --jobs N or --measure A..B",
                    spec.name
                )))
            }
            (None, measured) => Ok(measured),
        };
    };
    parse_measure(text).ok_or_else(|| {
        let expected = "A..B with A <= B: numbers of jobs such as 3000..4000, or times such as 10h..2d (s, m, h, d)";
        given.wrong("measure", text, expected)
    })
}

/// Returns the number of jobs after which an endless workload ends: a hundred times the jobs up to
/// the last measured one. On an overloaded cluster, some schedulers never complete a measured job.
pub(super) fn arrivals_end(
    source: &Source,
    cluster: &ClusterSpec,
    measure: &Measure,
    jobs: Option<u64>,
) -> Option<u64> {
    let per_hour = source.jobs_per_hour(cluster)?;
    let needed = match (measure, measure.last()) {
        _ if jobs.is_some() => return None,
        (Measure::Submitted(_, last), _) => last.hours() * per_hour,
        (_, last) => f64::from(last?) + 1.0,
    };
    Some((100.0 * needed).max(100_000.0).ceil() as u64)
}

/// Parses a range of job numbers or times.
pub(crate) fn parse_measure(text: &str) -> Option<Measure> {
    let (a, b) = text.split_once("..")?;
    let (a, b) = (a.trim(), b.trim());
    if let (Ok(a), Ok(b)) = (a.parse(), b.parse()) {
        return (a <= b).then_some(Measure::Ids(a, b));
    }
    // A number without a unit is a job number.
    let time = |t: &str| parse_time(t).filter(|_| t.ends_with(char::is_alphabetic));
    let (a, b) = (time(a)?, time(b)?);
    (a <= b).then_some(Measure::Submitted(a, b))
}

/// Parses a time in seconds, or with a unit: `90m`, `10h`, `2d`.
pub(crate) fn parse_time(text: &str) -> Option<Time> {
    let units = [('s', 1.0), ('m', 60.0), ('h', 3600.0), ('d', 86_400.0)];
    let mut found = units
        .iter()
        .filter_map(|(unit, s)| Some((text.strip_suffix(*unit)?, *s)));
    let (number, unit) = found.next().unwrap_or((text, 1.0));
    let value: f64 = number.parse().ok()?;
    (value >= 0.0)
        .then(|| Time::try_new(value * unit))
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_numbers_or_times() {
        let t = Time::new;
        assert_eq!(parse_measure("3000..4000"), Some(Measure::Ids(3000, 4000)));
        assert_eq!(
            parse_measure("10h..2d"),
            Some(Measure::Submitted(t(36_000.0), t(172_800.0)))
        );
        assert_eq!(
            parse_measure("0.5m..90s"),
            Some(Measure::Submitted(t(30.0), t(90.0)))
        );
        for text in [
            "", "5", "5..3", "1h..2", "2..1h", "-1..4", "1x..2x", "..", "2d..1d", "é..é",
        ] {
            assert_eq!(parse_measure(text), None, "{text}");
        }
    }
}
