//! Promises of schedulers, on workloads other than the workloads of their figures.

use crate::cases::{ends, job, run, scheduler, with};
use blox::core::{ClusterSpec, GpuCount, JobSpec, Seconds};
#[cfg(feature = "microlp")]
use blox::core::{Deadline, Time};
use blox::results::Summary;
use blox::sim::Simulation;
use blox::sim::overheads::FixedOverheads;

/// A pseudo-random generator.
struct Draw(u64);

impl Draw {
    /// Returns a number from 0 to 1.
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[(self.unit() * all.len() as f64) as usize]
    }

    /// Returns a number between two others, uniform in its logarithm.
    fn between(&mut self, least: f64, most: f64) -> f64 {
        least * (most / least).powf(self.unit())
    }

    fn gap(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }
}

/// 150 jobs at about twice the capacity of 32 GPUs. Each `nth` is elastic with linear speed.
fn jobs(seed: u64, durations: (f64, f64), mean: f64, nth: usize) -> Vec<JobSpec> {
    let (mut draw, mut at) = (Draw(seed), 0.0);
    let one = |n: usize| {
        let gpus = draw.of(&[1u32, 2, 4, 8]);
        at += draw.gap(mean);
        let job = job(at, gpus, draw.between(durations.0, durations.1));
        match nth > 0 && n.is_multiple_of(nth) {
            true => with(job, |extras| {
                let levels = [1, 2, 4, 8].into_iter().filter(|l| *l <= gpus);
                extras.levels = levels.clone().map(GpuCount).collect();
                let rates = levels.map(|level| f64::from(level) / f64::from(gpus));
                extras.rates = rates.collect();
            }),
            false => job,
        }
    };
    (0..150).map(one).collect()
}

/// Returns the highest ratio of a job's completion time to its duration times the mean number of
/// jobs meanwhile.
fn worst_ratio(name: &str, jobs: &[JobSpec]) -> f64 {
    let simulation = Simulation::new(ClusterSpec::uniform(8, 4));
    let report = run(&simulation, scheduler(name), jobs);
    let lives: Vec<(f64, f64)> = jobs
        .iter()
        .map(|job| job.submit.secs())
        .zip(ends(&report))
        .collect();
    let ratio = |((from, to), job): (&(f64, f64), &JobSpec)| {
        let both = |(a, b): &(f64, f64)| (b.min(*to) - a.max(*from)).max(0.0);
        // The completion time cancels out.
        let together: f64 = lives.iter().map(both).sum();
        (to - from).powi(2) / (job.duration().secs() * together)
    };
    lives.iter().zip(jobs).map(ratio).fold(0.0, f64::max)
}

#[test]
fn themis_has_the_lowest_worst_ratio() {
    for seed in 1..4 {
        for (kind, durations, mean, nth) in [
            ("elastic", (1800.0, 14_400.0), 300.0, 1),
            ("half elastic", (1800.0, 14_400.0), 300.0, 2),
            ("rigid", (1800.0, 14_400.0), 300.0, 0),
            ("heavy tail", (600.0, 172_800.0), 1500.0, 0),
        ] {
            let jobs = jobs(seed, durations, mean, nth);
            let themis = worst_ratio("themis", &jobs);
            for other in ["tiresias", "optimus", "gandiva", "las"] {
                let ratio = worst_ratio(other, &jobs);
                let case = format!("{kind} {seed}: {themis} against {other} {ratio}");
                assert!(themis <= 1.1 * ratio, "{case}");
            }
        }
    }
}

#[test]
fn sia_preempts_no_equal_rigid_jobs() {
    for nodes in [8, 16, 32, 64] {
        let (mut draw, mut at) = (Draw(nodes as u64), 0.0);
        let one = |_| {
            at += draw.gap(20_000.0 / (8.0 * nodes as f64 * 3.0));
            job(at, 1, draw.between(2000.0, 60_000.0))
        };
        let jobs: Vec<JobSpec> = (0..1000).map(one).collect();
        let simulation = Simulation::new(ClusterSpec::uniform(nodes, 8));
        let report = run(&simulation, scheduler("sia"), &jobs);
        assert_eq!(Summary::of(&report).preemptions, 0, "{nodes} nodes");
    }
}

#[test]
fn skipped_rounds_of_sia_and_pollux_are_equal() {
    for name in ["sia", "pollux{population=10}"] {
        let jobs: Vec<JobSpec> = jobs(5, (1800.0, 14_400.0), 300.0, 0);
        let simulation = Simulation::new(ClusterSpec::uniform(8, 4));
        let slow = FixedOverheads {
            launch: Seconds::new(70.0),
            checkpoint: Seconds::new(10.0),
            restart: Seconds::new(90.0),
            migration: Seconds::new(100.0),
            ..FixedOverheads::default()
        };
        for simulation in [simulation.clone(), simulation.overheads(slow)] {
            let skipped = run(&simulation, scheduler(name), &jobs[..60]);
            let every = simulation.visiting_every_round(true);
            let visited = run(&every, scheduler(name), &jobs[..60]);
            assert_eq!(ends(&skipped), ends(&visited), "{name}");
        }
    }
}

#[test]
fn checkpoints_take_a_small_part_of_the_time() {
    let checkpoint = Seconds::new(400.0);
    let slow = FixedOverheads {
        checkpoint,
        ..FixedOverheads::default()
    };
    for name in ["gandiva", "gavel", "finish-time-fairness"] {
        let jobs = jobs(1, (7200.0, 200_000.0), 4000.0, 0);
        let simulation = Simulation::new(ClusterSpec::uniform(8, 4));
        let free = run(&simulation, scheduler(name), &jobs);
        let simulation = simulation.overheads(slow);
        let costly = run(&simulation, scheduler(name), &jobs);
        let lasts = |ends: Vec<f64>| ends.into_iter().fold(0.0, f64::max);
        let (free, costly) = (lasts(ends(&free)), lasts(ends(&costly)));
        assert!(costly < 1.15 * free, "{name}: {free} and {costly}");
    }
}

/// Returns the number of deadlines met.
#[cfg(feature = "microlp")]
fn met(name: &str, nodes: usize, jobs: &[JobSpec]) -> u64 {
    let simulation = Simulation::new(ClusterSpec::uniform(nodes, 4));
    let report = run(&simulation, scheduler(name), jobs);
    Summary::of(&report).deadlines.unwrap_or_default().met
}

#[cfg(feature = "microlp")]
#[test]
fn optimal_chronus_meets_as_many_deadlines() {
    let mut more = 0i64;
    for seed in 1..4 {
        for (nodes, together, slack) in [(4, 1, 3.0), (4, 6, 3.0), (3, 4, 5.0), (8, 8, 2.0)] {
            let (mut draw, mut at) = (Draw(seed), 0.0);
            let one = |n: usize| {
                at += if n.is_multiple_of(together) {
                    draw.gap(together as f64 * 3000.0 * 4.0 / nodes as f64)
                } else {
                    0.0
                };
                let seconds = draw.between(2400.0, 20_000.0);
                let due = at + seconds * (1.3 + slack * draw.unit());
                with(job(at, draw.of(&[1u32, 2, 3, 4, 8]), seconds), |extras| {
                    extras.deadlines = vec![Deadline {
                        at: Time::new(due),
                        value: 1.0,
                    }];
                })
            };
            let jobs: Vec<JobSpec> = (0..100).map(one).collect();
            let greedy = met("chronus", nodes, &jobs);
            let optimal = met("chronus{choice=optimal}", nodes, &jobs);
            // Later jobs may need the GPUs that the program gave to more jobs.
            assert!(
                optimal + 1 >= greedy,
                "{seed} {nodes} {together}: {optimal} {greedy}"
            );
            more += optimal as i64 - greedy as i64;
        }
    }
    println!("{more} more deadlines");
    assert!(more >= 0, "{more} more deadlines");
}
