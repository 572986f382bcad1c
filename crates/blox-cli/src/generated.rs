//! Generated workloads from command-line options.

use super::Failure;
use super::config::Given;
use super::reading::file_of;
use blox_core::{ClusterSpec, Name, Seconds};
use blox_traces::generate::{
    Arrivals, DayShape, DurationLaw, GeneratorSpec, GpuShare, Load, NameShare,
};
use std::path::{Path, PathBuf};

/// Kinds of generated workloads.
pub(super) const KINDS: [&str; 3] = ["poisson", "bursty", "diurnal"];

/// Defaults similar to Blox's dual load. Its second load is four times as high as the first, and
/// lasts from every fourth to every sixth hour.
const QUIET_H: f64 = 4.0;
const BURST_H: f64 = 2.0;
const BURST_FACTOR: f64 = 5.0;

const DIURNAL: &str = "sine:0.5,15";
const LAWS: &str = "blox, exponential:MEAN_S, lognormal:MEDIAN_S,SIGMA, uniform:LEAST_S,MOST_S, fixed:S, \
     trace:FILE or file:FILE";

/// Returns the generator configuration for this kind of arrivals.
pub(super) fn spec(
    kind: &str,
    given: &Given,
    cluster: &ClusterSpec,
    seed: u64,
) -> Result<GeneratorSpec, Failure> {
    let o = &given.options;
    let mut spec = GeneratorSpec::new(load(kind, given, cluster)?, DurationLaw::BloxLaw);
    if let Some(text) = &o.durations {
        spec.durations = law(given, "durations", text)?;
    }
    if let Some(text) = &o.gpu_mix {
        let expected = "GPUS:WEIGHT joined by commas, such as 1:70,2:10,8:20";
        spec.gpus = gpu_mix(text).ok_or_else(|| given.wrong("gpu-mix", text, expected))?;
    }
    let names = |key: &str, text: &Option<String>| {
        let expected = "NAME:WEIGHT joined by commas, such as a:70,b:30";
        match text {
            Some(text) => name_mix(text).ok_or_else(|| given.wrong(key, text, expected)),
            None => Ok(Vec::new()),
        }
    };
    spec.models = names("models", &o.models)?;
    spec.users = names("users", &o.users)?;
    spec.arrivals = match kind {
        "bursty" => bursty(given)?,
        "diurnal" => {
            let expected =
                "sine:AMPLITUDE,PEAK_H with an amplitude from 0 to 1, or hours: and 24 weights";
            let text = o.diurnal.as_deref().unwrap_or(DIURNAL);
            diurnal(text)
                .map(Arrivals::Diurnal)
                .ok_or_else(|| given.wrong("diurnal", text, expected))?
        }
        _ => Arrivals::Poisson,
    };
    spec.seed = seed;
    Ok(spec)
}

/// Returns the files that the options name.
pub(super) fn files(given: &Given) -> Vec<PathBuf> {
    let o = &given.options;
    [&o.durations, &o.burst_durations]
        .into_iter()
        .flatten()
        .filter_map(|text| file_of(text).map(Path::to_owned))
        .collect()
}

/// Fills in the defaults in use.
pub(super) fn fill_in(kind: &str, o: &mut super::args::Options) {
    o.durations.get_or_insert_with(|| "blox".to_owned());
    match kind {
        "bursty" => {
            o.quiet_h.get_or_insert(QUIET_H);
            o.burst_h.get_or_insert(BURST_H);
            o.burst_factor.get_or_insert(BURST_FACTOR);
        }
        "diurnal" => {
            o.diurnal.get_or_insert_with(|| DIURNAL.to_owned());
        }
        _ => {}
    }
}

fn load(kind: &str, given: &Given, cluster: &ClusterSpec) -> Result<Load, Failure> {
    let o = &given.options;
    match (o.load, o.load_of_capacity) {
        (Some(load), None) => Ok(Load::PerHour(load)),
        (None, Some(fraction)) if fraction.is_finite() && fraction > 0.0 => Ok(Load::OfCapacity {
            fraction,
            gpus: u32::try_from(cluster.total_gpus()).unwrap_or(u32::MAX),
        }),
        (None, Some(fraction)) => {
            Err(given.wrong("load-of-capacity", fraction, "a fraction above 0"))
        }
        (None, None) => Err(Failure::new(format!(
            "--workload {kind} needs --load JOBS an hour or --load-of-capacity FRACTION",
        ))),
        (Some(_), Some(_)) => Err(Failure::new(format!(
            "{} and {} are both given, expected one of them",
            given.name("load"),
            given.name("load-of-capacity")
        ))),
    }
}

fn bursty(given: &Given) -> Result<Arrivals, Failure> {
    let o = &given.options;
    let hours = |key: &str, value: Option<f64>, default: f64| {
        let value = value.unwrap_or(default);
        Seconds::try_new(value * 3600.0)
            .filter(|s| *s > Seconds::ZERO)
            .ok_or_else(|| given.wrong(key, value, "a number of hours above 0"))
    };
    let factor = o.burst_factor.unwrap_or(BURST_FACTOR);
    if !(factor.is_finite() && factor >= 1.0) {
        return Err(given.wrong("burst-factor", factor, "a number, at least 1"));
    }
    Ok(Arrivals::Bursty {
        quiet: hours("quiet-h", o.quiet_h, QUIET_H)?,
        burst: hours("burst-h", o.burst_h, BURST_H)?,
        factor,
        durations: match &o.burst_durations {
            Some(text) => Some(law(given, "burst-durations", text)?),
            None => None,
        },
    })
}

fn law(given: &Given, key: &str, text: &str) -> Result<DurationLaw, Failure> {
    match text.split_once(':') {
        Some(("file", path)) if !path.is_empty() => {
            DurationLaw::of_file(path).map_err(|e| given.because(key, e))
        }
        Some(("trace", path)) if !path.is_empty() => blox_traces::open(path, None)
            .and_then(|mut jobs| DurationLaw::of_jobs(&mut jobs))
            .map_err(|e| given.because(key, e)),
        _ => durations(text).ok_or_else(|| given.wrong(key, text, LAWS)),
    }
}

fn durations(text: &str) -> Option<DurationLaw> {
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    let seconds = |t: &str| positive(t).and_then(Seconds::try_new);
    match name {
        "blox" if rest.is_empty() => Some(DurationLaw::BloxLaw),
        "exponential" => seconds(rest).map(|mean| DurationLaw::Exponential { mean }),
        "fixed" => seconds(rest).map(DurationLaw::Fixed),
        "uniform" => {
            let (least, most) = rest.split_once(',')?;
            let (least, most) = (seconds(least)?, seconds(most)?);
            (least <= most).then_some(DurationLaw::Uniform { least, most })
        }
        "lognormal" => {
            let (median, sigma) = rest.split_once(',')?;
            let sigma: f64 = sigma.trim().parse().ok()?;
            (0.0..=10.0).contains(&sigma).then_some(())?;
            Some(DurationLaw::LogNormal {
                median: seconds(median)?,
                sigma,
            })
        }
        _ => None,
    }
}

fn diurnal(text: &str) -> Option<DayShape> {
    match text.split_once(':')? {
        ("sine", rest) => {
            let (amplitude, peak) = rest.split_once(',')?;
            let (amplitude, peak_h) = (amplitude.trim().parse().ok()?, peak.trim().parse().ok()?);
            ((0.0..=1.0).contains(&amplitude) && (0.0..=24.0).contains(&peak_h))
                .then_some(DayShape::Sine { amplitude, peak_h })
        }
        ("hours", rest) => {
            let weights: Option<Vec<f64>> = rest
                .split(',')
                .map(|w| {
                    w.trim()
                        .parse()
                        .ok()
                        .filter(|w: &f64| *w >= 0.0 && w.is_finite())
                })
                .collect();
            weights
                .filter(|w| w.len() == 24 && w.iter().sum::<f64>() > 0.0)
                .map(DayShape::Hours)
        }
        _ => None,
    }
}

fn gpu_mix(text: &str) -> Option<Vec<GpuShare>> {
    text.split(',')
        .map(|part| {
            let (gpus, weight) = part.split_once(':')?;
            let gpus: u32 = gpus.trim().parse().ok().filter(|n| *n > 0)?;
            Some(GpuShare {
                gpus,
                weight: positive(weight)?,
            })
        })
        .collect()
}

fn name_mix(text: &str) -> Option<Vec<NameShare>> {
    text.split(',')
        .map(|part| {
            let (name, weight) = part.rsplit_once(':')?;
            let name = name.trim();
            (!name.is_empty()).then_some(NameShare {
                name: Name::from(name),
                weight: positive(weight)?,
            })
        })
        .collect()
}

fn positive(text: &str) -> Option<f64> {
    let value: f64 = text.trim().parse().ok()?;
    (value.is_finite() && value > 0.0).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn laws_and_mixes_are_read() {
        assert_eq!(durations("blox"), Some(DurationLaw::BloxLaw));
        assert!(durations("lognormal:600,1.5").is_some());
        assert_eq!(
            durations("uniform:600,3600"),
            Some(DurationLaw::Uniform {
                least: Seconds::new(600.0),
                most: Seconds::new(3600.0)
            })
        );
        for text in [
            "",
            "blox:1",
            "exponential",
            "exponential:-1",
            "lognormal:600",
            "uniform:5,4",
            "fixed:x",
            "gamma:1",
            "file:",
        ] {
            assert!(durations(text).is_none(), "{text}");
        }
        assert_eq!(gpu_mix("1:70,8:30").map(|m| m.len()), Some(2));
        for text in ["", "1", "0:1", "1:0", "1:-1", "1:1,"] {
            assert!(gpu_mix(text).is_none(), "{text}");
        }
        let names = name_mix("vision/resnet:50:1, bert:2").unwrap();
        assert_eq!(names[0].name.as_str(), "vision/resnet:50");
        assert_eq!(names[1].weight, 2.0);
        for text in ["", "a", ":1", "a:0", "a:1,,b:1"] {
            assert!(name_mix(text).is_none(), "{text}");
        }
    }

    #[test]
    fn days_are_read() {
        assert_eq!(
            diurnal(DIURNAL),
            Some(DayShape::Sine {
                amplitude: 0.5,
                peak_h: 15.0
            })
        );
        let ones = format!("hours:{}", ["1"; 24].join(","));
        assert_eq!(diurnal(&ones), Some(DayShape::Hours(vec![1.0; 24])));
        let zeros = format!("hours:{}", ["0"; 24].join(","));
        for text in [
            "",
            "sine",
            "sine:2,3",
            "sine:0.5,25",
            "sine:nan,3",
            "hours:1,2",
            &zeros,
        ] {
            assert!(diurnal(text).is_none(), "{text}");
        }
    }
}
