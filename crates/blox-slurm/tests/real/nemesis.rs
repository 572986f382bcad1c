//! Random troubles on a real Slurm: both sides restart, and users change jobs by hand.

use crate::cluster::Cluster;
use crate::running::{Running, repeats};
use blox_core::replay::inputs;
use blox_core::{Event, Input, JobId, Outcome};
use blox_slurm::SLURM_JOB;
use chacha20::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;
use std::time::Duration;

/// A job that notices a second copy of itself.
fn script(cluster: &Cluster, secs: f64) -> String {
    let dir = cluster.dir().display();
    format!(
        "exec 9>>{dir}/lock.$SLURM_JOB_ID; flock -n 9 || echo $SLURM_JOB_ID >> {dir}/twice; \
         echo $SLURM_JOB_ID >> {dir}/began; sleep {secs}"
    )
}

/// Every job that a journal has, with its number in Slurm and its outcome.
fn outcomes(dir: &Path) -> (BTreeMap<JobId, u32>, BTreeMap<JobId, Outcome>) {
    let (mut numbers, mut outcomes) = (BTreeMap::new(), BTreeMap::new());
    let mut paths: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    paths.sort();
    for path in paths
        .iter()
        .filter(|p| p.extension().is_some_and(|e| e == "jsonl"))
    {
        for input in inputs(BufReader::new(File::open(path).unwrap())) {
            let Input::Event { event, .. } = input.unwrap().1 else {
                continue;
            };
            match event {
                Event::Submitted { job, spec } => {
                    let number = spec.attribute(SLURM_JOB).unwrap().as_u64().unwrap();
                    assert!(
                        numbers.insert(job, number as u32).is_none(),
                        "job {job} twice"
                    );
                }
                Event::Ended { job, outcome } => {
                    assert!(
                        outcomes.insert(job, outcome).is_none(),
                        "job {job} ended twice"
                    );
                }
                _ => {}
            }
        }
    }
    (numbers, outcomes)
}

/// Counts of the troubles of a run, so that none is missing.
#[derive(Debug, Default)]
struct Reached {
    orders: u32,
    restarts: u32,
    controllers: u32,
    cancelled: u32,
    requeued: u32,
    released: u32,
    drained: u32,
}

fn nemesis(troubles: u32, seed: u64) {
    let Some(cluster) = Cluster::start(3) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut jobs = Vec::new();
    let mut reached = Reached::default();
    let mut drained: Option<String> = None;
    let mut running = Running::start(&cluster, dir.path());
    for _ in 0..troubles {
        let some = |rng: &mut ChaCha8Rng, jobs: &[u32]| {
            let recent = &jobs[jobs.len().saturating_sub(12)..];
            recent
                .get(rng.random_range(0..recent.len().max(1)))
                .copied()
                .unwrap_or(0)
                .to_string()
        };
        match rng.random_range(0..20) {
            0..12 => {
                let (gpus, priority) = (rng.random_range(1..=8), rng.random_range(0..5));
                let secs = rng.random_range(0.2..3.0);
                let comment = format!("blox duration={secs} priority={priority}");
                jobs.push(cluster.submit(gpus, &comment, &script(&cluster, secs)));
            }
            12 => {
                cluster.ask("scancel", &[&some(&mut rng, &jobs)]);
                reached.cancelled += 1;
            }
            13..15 => {
                cluster.ask("scontrol", &["requeuehold", &some(&mut rng, &jobs)]);
                reached.requeued += 1;
            }
            15 => {
                cluster.ask("scontrol", &["release", &some(&mut rng, &jobs)]);
                reached.released += 1;
            }
            16 => {
                cluster.ask("scontrol", &["hold", &some(&mut rng, &jobs)]);
            }
            17 => {
                let node = match drained.take() {
                    Some(node) => {
                        cluster.ask("scontrol", &["update", &node, "state=resume"]);
                        None
                    }
                    None => {
                        let node = format!("nodename=n{}", rng.random_range(1..=3));
                        cluster.ask(
                            "scontrol",
                            &["update", &node, "state=drain", "reason=nemesis"],
                        );
                        reached.drained += 1;
                        Some(node)
                    }
                };
                drained = node;
            }
            18 => {
                drop(running);
                running = Running::start(&cluster, dir.path());
                reached.restarts += 1;
            }
            _ => {
                cluster.stop_controller();
                cluster.start_controller();
                reached.controllers += 1;
            }
        }
        running.for_a_while(Duration::from_secs_f64(rng.random_range(0.05..0.8)));
    }
    if let Some(node) = drained {
        cluster.ask("scontrol", &["update", &node, "state=resume"]);
    }
    let limit = Duration::from_secs(60 + 2 * jobs.len() as u64);
    running.within(limit, "all jobs have ended", &cluster, |r| {
        r.state().live_jobs() == 0
    });
    reached.orders = running.runtime.core().counters().placements as u32;
    drop(running);

    assert!(
        !cluster.dir().join("twice").exists(),
        "a job ran twice at a time"
    );
    let (numbers, outcomes) = outcomes(dir.path());
    let mut last: BTreeMap<u32, Outcome> = BTreeMap::new();
    for (job, number) in &numbers {
        let outcome = outcomes.get(job).copied();
        last.insert(
            *number,
            outcome.unwrap_or_else(|| panic!("job {job} has no outcome")),
        );
    }
    // Jobs that a user releases by hand leave the scheduler.
    for number in jobs {
        let outcome = last.get(&number).copied();
        let shown = cluster.state(number);
        let expected = match outcome {
            Some(Outcome::Completed) => shown == "COMPLETED",
            Some(Outcome::Cancelled) => shown != "FAILED",
            Some(Outcome::Failed) => shown == "FAILED" || shown == "NODE_FAIL",
            // Released or cancelled before the scheduler has seen it.
            None => shown != "PENDING",
            _ => false,
        };
        assert!(
            expected,
            "Slurm job {number}: {outcome:?}, but Slurm shows {shown}"
        );
    }
    println!("{reached:?}, {} decisions repeated", repeats(dir.path()));
    let Reached {
        orders,
        restarts,
        controllers,
        cancelled,
        requeued,
        released,
        drained,
    } = reached;
    assert!(orders > 0 && cancelled > 0 && requeued > 0);
    assert!(troubles < 200 || restarts > 0 && controllers > 0 && released > 0 && drained > 0);
}

#[test]
fn the_state_equals_slurm_after_random_troubles() {
    nemesis(40, 3);
}

#[test]
#[ignore = "takes five minutes"]
fn the_state_equals_slurm_after_500_troubles() {
    nemesis(500, 1);
}
