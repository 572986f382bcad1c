//! A generated trace for a cluster of two GPU types: Poisson arrivals by day and night, with models,
//! speeds by type, deadlines and estimates of users.
//!
//! `cargo run --example heterogeneous_trace > jobs.csv`; the file `examples/jobs.csv` is its output.
//! All numbers are invented.

use blox::core::{Deadline, TypeSpeeds, Work};
use blox::prelude::*;
use blox::sim::workload::collect;
use blox::traces::formats::csv::{Columns, CsvWriter};
use blox::traces::generate::{
    Arrivals, DayShape, Draws, DurationLaw, Generator, GeneratorSpec, Load,
};
use std::error::Error;
use std::io::Write;

/// A model, its weight, and its speed on an a100 relative to a v100.
const MODELS: [(&str, f64, f64); 4] = [
    ("resnet", 40.0, 1.4),
    ("bert", 30.0, 2.2),
    ("gpt", 20.0, 3.0),
    ("gnn", 10.0, 1.1),
];

fn main() -> Result<(), Box<dyn Error>> {
    write(std::io::stdout().lock())
}

/// Writes the trace as CSV.
pub fn write(out: impl Write) -> Result<(), Box<dyn Error>> {
    let spec = GeneratorSpec {
        arrivals: Arrivals::Diurnal(DayShape::Sine {
            amplitude: 0.6,
            peak_h: 15.0,
        }),
        gpus: vec![(1.0, 60.0), (2.0, 20.0), (4.0, 15.0), (8.0, 5.0)],
        models: MODELS.map(|(name, weight, _)| (name.into(), weight)).into(),
        users: [("ada", 50.0), ("bob", 30.0), ("eve", 20.0)]
            .map(|(name, weight)| (name.into(), weight))
            .into(),
        seed: 7,
        count: Some(240),
        ..GeneratorSpec::new(
            Load::OfCapacity {
                fraction: 1.1,
                gpus: 16,
            },
            DurationLaw::LogNormal {
                median: Seconds::new(3_000.0),
                sigma: 1.0,
            },
        )
    };
    let mut jobs = collect(&mut Generator::new(spec)?)?;
    let mut draws = Draws::new(7, 100);
    for (number, job) in jobs.iter_mut().enumerate() {
        complete(job, number, &mut draws);
    }
    let mut columns = Columns::default();
    jobs.iter().for_each(|job| columns.include(job));
    let mut csv = CsvWriter::new(out, columns)?;
    jobs.iter().try_for_each(|job| csv.write(job))?;
    Ok(csv.finish()?)
}

/// Adds a name, speeds by type, and for some jobs a deadline.
fn complete(job: &mut JobSpec, number: usize, draws: &mut Draws) {
    // Whole seconds are easier to read.
    job.submit = Time::new(job.submit.secs().round());
    let duration = Seconds::new(job.duration().secs().round().max(60.0));
    job.work = Work {
        iterations: duration.secs(),
        rate: 1.0,
    };
    let mut extras = job.extras().clone();
    let model = extras.model.as_deref().unwrap_or_default();
    let ratio = MODELS.iter().find(|(name, ..)| *name == model);
    let mut speeds = TypeSpeeds::default();
    // A rate of 1 on the v100: durations are times on this type.
    speeds.set("v100", 1.0);
    speeds.set("a100", ratio.map_or(1.0, |(_, _, ratio)| *ratio));
    extras.speeds = Some(speeds.into());
    // Users estimate a duration with an error of a factor of about two.
    let estimate = duration.secs() * (0.7 * draws.normal()).exp();
    extras.user_estimate = Some(Seconds::new((estimate / 60.0).ceil() * 60.0));
    // The jobs of eve must end within an hour, plus two to four times their duration.
    let slack = 2.0 + 2.0 * draws.unit();
    if job.user.as_deref() == Some("eve") {
        let at = job.submit + Seconds::new((3_600.0 + slack * duration.secs()).round());
        extras.deadlines = vec![Deadline { at, value: 1.0 }];
    }
    *job = job
        .clone()
        .named(format!("job-{number:03}"))
        .with_extras(extras);
}
