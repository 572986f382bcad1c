//! Blox's bursty arrivals with two kinds of jobs.

use crate::figure::ReproduceError;
use blox_core::Seconds;
use blox_traces::generate::{Arrivals, DurationLaw, Generator, GeneratorSpec, Load};

/// Generator of 10,000 jobs with a demand of 97 % on 128 GPUs.
///
/// Seven long jobs (10 to 24 h) are submitted per hour. For two of every six hours, 28 short jobs
/// (10 to 60 min) per hour are added.
pub(super) fn bursty() -> Result<Generator, ReproduceError> {
    let between = |least: f64, most: f64| DurationLaw::Uniform {
        least: Seconds::new(least),
        most: Seconds::new(most),
    };
    Ok(Generator::new(GeneratorSpec {
        arrivals: Arrivals::Bursty {
            quiet: Seconds::from_hours(4.0),
            burst: Seconds::from_hours(2.0),
            factor: 5.0,
            durations: Some(between(600.0, 3600.0)),
        },
        seed: 1,
        count: Some(10_000),
        ..GeneratorSpec::new(Load::PerHour(7.0), between(36_000.0, 86_400.0))
    })?)
}
