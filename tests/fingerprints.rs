//! Hashes of the decisions of every registered scheduler on small workloads.
//!
//! A changed hash means changed decisions: explain it in the commit that makes it. `BLOX_BLESS=1
//! cargo test --test fingerprints` updates the table.
#![cfg(feature = "released")]

use blox::core::{
    Adapts, ClusterSpec, Deadline, Extras, GpuCount, JobSpec, NodeSpec, Seconds, Time, TypeSpeeds,
};
use blox::perf::applications::built_in;
use blox::sim::Simulation;
use blox::sim::execution::Training;
use blox::sim::overheads::FixedOverheads;
use blox::sim::results::Fingerprint;
use blox::sim::workload::Jobs;
use chacha20::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use std::fmt::Write;
use std::sync::Arc;

const TABLE: &str = "tests/fingerprints.txt";

/// Jobs with deadlines, elastic levels and users.
fn deadlines(seed: u64) -> Vec<JobSpec> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut at = 0.0;
    let job = |_| {
        at += [0.0, 60.0, 300.0, 1500.0][rng.random_range(0..4)];
        let gpus = [1, 1, 2, 4, 8][rng.random_range(0..5)];
        let duration = Seconds::new([300.0, 2000.0, 9000.0, 30_000.0][rng.random_range(0..4)]);
        let within = duration * [1.5, 3.0, 9.0][rng.random_range(0..3)];
        let submit = Time::new(at);
        JobSpec::new(submit, GpuCount(gpus), duration)
            .owned_by(["a", "b", "c"][rng.random_range(0..3)])
            .with_extras(Extras {
                levels: [1, 2, 4, 8].map(GpuCount).to_vec(),
                rates: vec![0.5, 0.9, 1.6, 2.8],
                deadlines: vec![Deadline {
                    at: submit + within,
                    value: 1.0,
                }],
                cpus: f64::from(gpus) * 3.0,
                memory_gib: f64::from(gpus) * 20.0,
                ..Extras::default()
            })
    };
    (0..60).map(job).collect()
}

/// Jobs that are faster on one type of GPU than on the other.
fn types(seed: u64) -> Vec<JobSpec> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let speeds = [10.0, 2.0].map(|gain| {
        let mut speeds = TypeSpeeds::default();
        speeds.set("k80", 1.0 / gain);
        speeds.set("v100", 1.0);
        Arc::new(speeds)
    });
    let job = |i: usize| {
        let duration = Seconds::new(rng.random_range(300.0..20_000.0));
        let submit = Time::new(i as f64 * 240.0);
        JobSpec::new(submit, GpuCount([1, 1, 2][i % 3]), duration).with_extras(Extras {
            speeds: Some(Arc::clone(&speeds[i % 2])),
            ..Extras::default()
        })
    };
    (0..40).map(job).collect()
}

/// Jobs that train and adapt.
fn training() -> Vec<JobSpec> {
    let applications = built_in();
    let kinds = [
        ("cifar10", 4, 512),
        ("bert", 2, 24),
        ("deepspeech2", 4, 160),
    ];
    let job = |i: usize| {
        let (model, gpus, batch) = kinds[i % kinds.len()];
        let submit = Time::new(120.0 * i as f64);
        let job = JobSpec::new(submit, GpuCount(gpus), Seconds::new(1.0));
        let mut job = job.with_extras(Extras {
            model: Some(model.into()),
            batch_size: Some(batch),
            ..Extras::default()
        });
        applications.describe(&mut job, Adapts::All);
        job
    };
    (0..15).map(job).collect()
}

fn node(gpu_type: &str) -> NodeSpec {
    let mut node = NodeSpec::with_gpus(4);
    node.gpu_type = Some(gpu_type.into());
    (node.cpus, node.memory_gib) = (16.0, 200.0);
    node
}

/// The worlds: name, simulation, jobs.
fn worlds() -> Vec<(&'static str, Simulation, Vec<JobSpec>)> {
    let cluster = |types: &[&str]| ClusterSpec {
        nodes: types.iter().map(|t| node(t)).collect(),
        ..ClusterSpec::default()
    };
    let overheads = FixedOverheads {
        launch: Seconds::new(20.0),
        restart: Seconds::new(60.0),
        ..FixedOverheads::default()
    };
    vec![
        (
            "deadlines",
            Simulation::new(cluster(&["v100"; 3])),
            deadlines(1),
        ),
        (
            "overheads",
            Simulation::new(cluster(&["v100"; 3])).overheads(overheads),
            deadlines(2),
        ),
        (
            "types",
            Simulation::new(cluster(&["v100", "k80", "k80"])),
            types(3),
        ),
        (
            "training",
            Simulation::new(cluster(&["rtx", "rtx", "dgx"])).execution(Training::of(built_in())),
            training(),
        ),
    ]
}

/// The table: a line for each scheduler and world, and one for each that reads true durations.
fn table() -> String {
    let registry = blox::registry();
    let mut text = String::new();
    let worlds = worlds();
    for (name, _) in registry.schedulers.iter() {
        let mut reads_truth = false;
        let brief = match name {
            "pollux" => "pollux{population=8,generations=4}",
            other => other,
        };
        for (world, simulation, jobs) in &worlds {
            // It looks ahead at every other decision, so one world is enough.
            if name == "synthesizer" && *world != "deadlines" {
                continue;
            }
            let scheduler = registry
                .schedulers
                .build(&brief.parse().unwrap(), 7)
                .unwrap();
            let report = simulation
                .clone()
                .collector(Fingerprint::default())
                .run(scheduler, &mut Jobs::new(jobs.clone()));
            reads_truth |= report.as_ref().is_ok_and(|r| r.knew_truth);
            let hash = match &report {
                Ok(report) => report.collected.get::<Fingerprint>().unwrap().value(),
                Err(error) => error.to_string(),
            };
            writeln!(text, "{name} {world} {hash}").unwrap();
        }
        if reads_truth {
            writeln!(text, "{name} reads true durations").unwrap();
        }
    }
    text
}

#[test]
fn registered_schedulers_decide_as_recorded() {
    let found = table();
    if std::env::var_os("BLOX_BLESS").is_some() {
        std::fs::write(TABLE, &found).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(TABLE).unwrap();
    let changed: Vec<_> = found
        .lines()
        .filter(|line| !expected.lines().any(|e| e == *line))
        .collect();
    assert!(
        changed.is_empty(),
        "decisions changed:\n{}",
        changed.join("\n")
    );
    assert_eq!(found.lines().count(), expected.lines().count());
}
