//! A job without work ends under every scheduler.

use crate::cases::{job, with};
use blox::core::TypeSpeeds;
use blox::core::{ClusterSpec, Deadline, Extras, GpuCount, JobSpec, Outcome, Seconds, Time};
use blox::registry::ComponentSpec;
use blox::sim::overheads::FixedOverheads;
use blox::sim::workload::Jobs;
use blox::sim::{Report, Simulation};
use serde_json::json;

const TYPES: [&str; 2] = ["v100", "t4"];

fn deadline(extras: &mut Extras, at: f64) {
    let at = Time::new(at);
    extras.deadlines = vec![Deadline { at, value: 1.0 }];
}

fn levels(extras: &mut Extras, rates: bool) {
    extras.levels = [1, 2, 4].map(GpuCount).to_vec();
    if rates {
        extras.rates = vec![0.5, 1.0, 1.6];
    }
}

/// A kind of job: its name, and what it sets.
type Kind = (&'static str, fn(&mut Extras));

/// Properties by which schedulers distinguish jobs.
const KINDS: [Kind; 10] = [
    ("plain", |_| {}),
    ("with a deadline", |e| deadline(e, 1e6)),
    ("with a deadline that is over", |e| deadline(e, 0.0)),
    ("elastic", |e| levels(e, true)),
    ("elastic without rates", |e| levels(e, false)),
    ("elastic with a level of rate 0", |e| {
        levels(e, true);
        e.rates[0] = 0.0;
    }),
    ("elastic with a deadline", |e| {
        levels(e, true);
        deadline(e, 1e6);
    }),
    ("with speeds", |e| {
        let mut speeds = TypeSpeeds::default();
        for name in TYPES {
            speeds.set(name, 1.0);
        }
        e.speeds = Some(speeds.into());
    }),
    ("with stages", |e| {
        let stages = json!([0.1, 0.1, 0.7, 0.1]);
        e.attributes.insert("stages".into(), stages);
        e.attributes.insert("gpu_utilisation".into(), json!(0.1));
        e.attributes.insert("sharing_score".into(), json!(0));
        e.attributes.insert("gmem".into(), json!(100));
    }),
    ("with estimates of 0", |e| {
        e.user_estimate = Some(Seconds::ZERO);
        e.attributes.insert("estimate_s".into(), json!(0.0));
        e.attributes.insert("regimes".into(), json!([[32, 0, 1.0]]));
    }),
];

/// Jobs without work beside one with work and jobs that request more GPUs than there are, and on the idle cluster.
fn jobs(kind: fn(&mut Extras)) -> Vec<JobSpec> {
    let mut jobs: Vec<JobSpec> = (0..9).map(|i| job(0.0, 1 + i % 4, 900.0)).collect();
    jobs.push(with(job(0.0, 2, 900.0), kind));
    for at in [0.0, 30.0, 20_000.0] {
        jobs.extend([2, 4].map(|gpus| with(job(at, gpus, 0.0), kind)));
    }
    jobs
}

fn unended(report: &Report) -> Vec<String> {
    let ended = |outcome, reason: &Option<Box<str>>| match outcome {
        Some(Outcome::Completed) => true,
        // A deadline that cannot be met is a reason.
        Some(Outcome::Rejected) => reason.as_ref().is_some_and(|why| why.contains("deadline")),
        _ => false,
    };
    let jobs = report.jobs.iter();
    let jobs = jobs.filter(|job| !ended(job.outcome, &job.reason));
    jobs.map(|job| format!("job {} ({:?}, {:?})", job.job, job.outcome, job.reason))
        .collect()
}

#[test]
fn job_without_work_ends_under_every_scheduler() {
    let registry = blox::registry();
    let cluster: ClusterSpec = "2x4:v100,1x4:t4".parse().unwrap();
    let costly = FixedOverheads {
        launch: Seconds::new(30.0),
        checkpoint: Seconds::new(10.0),
        restart: Seconds::new(30.0),
        migration: Seconds::new(90.0),
        ..FixedOverheads::default()
    };
    let mut failures = Vec::new();
    for (name, _) in registry.schedulers.iter() {
        let brief = match name {
            "pollux" => "pollux{population=8,generations=4}",
            other => other,
        };
        let spec: ComponentSpec = brief.parse().unwrap();
        for (kind, set) in KINDS {
            for overheads in [FixedOverheads::default(), costly] {
                let scheduler = registry.schedulers.build(&spec, 0).unwrap();
                let simulation = Simulation::new(cluster.clone()).overheads(overheads);
                let found = simulation.run(scheduler, &mut Jobs::new(jobs(set)));
                let problem = match found {
                    Ok(report) => unended(&report).join(", "),
                    Err(error) => error.to_string(),
                };
                if !problem.is_empty() {
                    failures.push(format!("{name}, {kind}, {overheads:?}: {problem}"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
