//! The source of jobs, and the measured jobs.

use super::super::Failure;
use super::super::config::Given;
use super::super::generated;
use super::super::reading::read_options;
use blox_core::{ClusterSpec, Time};
use blox_sim::Measure;
use blox_traces::ReadOptions;
use blox_traces::generate::{Generator, GeneratorSpec};
use std::path::PathBuf;

/// Jobs per hour and measured jobs of Blox's published comparison.
const BLOX_LOAD: f64 = 8.0;
const BLOX_WINDOW: (u32, u32) = (3000, 4000);

/// Source of jobs.
pub(super) enum Source {
    Trace(PathBuf, ReadOptions),
    Blox(f64),
    Generated(&'static str, Box<GeneratorSpec>),
}

pub(super) fn source(
    given: &Given,
    cluster: &ClusterSpec,
    seed: u64,
    reads_load: bool,
) -> Result<Source, Failure> {
    let o = &given.options;
    if o.trace.is_some() && o.workload.is_some() {
        return Err(Failure::new(format!(
            "{} and {} are both given, expected one of them",
            given.name("trace"),
            given.name("workload")
        )));
    }
    let kind = match (&o.trace, o.workload.as_deref()) {
        (Some(_), _) => "trace",
        (None, None) => "blox",
        (None, Some("blox")) => "blox",
        (None, Some(other)) => match generated::KINDS.iter().find(|k| **k == other) {
            Some(kind) => kind,
            None => {
                let known = std::iter::once("blox").chain(generated::KINDS);
                return Err(given.unknown("workload", other, known));
            }
        },
    };
    // An option without effect is an error.
    let made = generated::KINDS.contains(&kind);
    let making = "--workload poisson, bursty or diurnal";
    let bursts = (kind == "bursty", "--workload bursty");
    let only_with = [
        ("format", o.format.is_some(), kind == "trace", "--trace"),
        ("map", o.map.is_some(), kind == "trace", "--trace"),
        (
            "virtual-cluster",
            o.virtual_cluster.is_some(),
            kind == "trace",
            "--trace",
        ),
        (
            "load",
            o.load.is_some(),
            kind != "trace" || reads_load,
            "--workload",
        ),
        (
            "load-of-capacity",
            o.load_of_capacity.is_some(),
            made,
            making,
        ),
        ("durations", o.durations.is_some(), made, making),
        ("gpu-mix", o.gpu_mix.is_some(), made, making),
        ("models", o.models.is_some(), made, making),
        ("users", o.users.is_some(), made, making),
        ("quiet-h", o.quiet_h.is_some(), bursts.0, bursts.1),
        ("burst-h", o.burst_h.is_some(), bursts.0, bursts.1),
        ("burst-factor", o.burst_factor.is_some(), bursts.0, bursts.1),
        (
            "burst-durations",
            o.burst_durations.is_some(),
            bursts.0,
            bursts.1,
        ),
        (
            "diurnal",
            o.diurnal.is_some(),
            kind == "diurnal",
            "--workload diurnal",
        ),
    ];
    for (key, is_given, fits, expected) in only_with {
        if is_given && !fits {
            let what = if kind == "trace" {
                "a trace".to_owned()
            } else {
                format!("--workload {kind}")
            };
            return Err(Failure::new(format!(
                "{} has no meaning with {what}, only with {expected}",
                given.name(key)
            )));
        }
    }
    if let Some(load) = o.load
        && !(load.is_finite() && load > 0.0)
    {
        return Err(given.wrong("load", load, "a number of jobs an hour above 0"));
    }
    match (kind, &o.trace) {
        ("trace", Some(path)) => {
            let (format, map) = (o.format.as_deref(), o.map.as_deref());
            let options = read_options(format, map, |key| given.name(key))?;
            Ok(Source::Trace(path.clone(), options))
        }
        (kind, _) if made => generated::spec(kind, given, cluster, seed)
            .map(|spec| Source::Generated(kind, Box::new(spec))),
        _ => Ok(Source::Blox(o.load.unwrap_or(BLOX_LOAD))),
    }
}

pub(super) fn measure(given: &Given, source: &Source) -> Result<Measure, Failure> {
    let o = &given.options;
    let Some(text) = &o.measure else {
        return match source {
            Source::Blox(_) if o.jobs.is_none() => Ok(Measure::Ids(BLOX_WINDOW.0, BLOX_WINDOW.1)),
            Source::Generated(kind, _) if o.jobs.is_none() => Err(Failure::new(format!(
                "--workload {kind} never ends: give --jobs N or --measure A..B",
            ))),
            _ => Ok(Measure::All),
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
    measure: &Measure,
    jobs: Option<u64>,
) -> Result<Option<u64>, Failure> {
    let per_hour = match source {
        Source::Trace(..) => return Ok(None),
        Source::Blox(load) => *load,
        Source::Generated(_, spec) => Generator::new((**spec).clone())
            .map_err(Failure::new)?
            .jobs_per_hour(),
    };
    let needed = match (measure, measure.last()) {
        _ if jobs.is_some() => return Ok(None),
        (Measure::Submitted(_, last), _) => last.hours() * per_hour,
        (_, Some(last)) => f64::from(last) + 1.0,
        (_, None) => return Ok(None),
    };
    Ok(Some((100.0 * needed).max(100_000.0).ceil() as u64))
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
