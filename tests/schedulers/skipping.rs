//! Skipped and visited rounds give the same results, and so do other optimizations and their simple
//! versions.
#![cfg(feature = "released")]

use crate::cases::{self, assigned, composed, scheduler};
use blox::core::{
    Answer, Assignment, ClusterSpec, Draft, GpuCount, JobQueue, JobRef, JobSpec, Pipeline, Reason,
    Room, SchedulingPolicy, Seconds, Shape, Stateless, Time, View,
};
use blox::policies::placement::{Blocked, Consolidated, InOrder, NodeSelector};
use blox::policies::scheduling::{Las, Service, StarvationGuard};
use blox::sim::faults::Faults;
use blox::sim::overheads::FixedOverheads;
use blox::sim::{Report, Simulation};
use chacha20::ChaCha8Rng;
use rand::{Rng, RngExt, SeedableRng};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Number of random workloads. Each runs with and without skipped rounds.
const CASES: u64 = 1000;

pub struct Case {
    cluster: ClusterSpec,
    pub jobs: Vec<JobSpec>,
    overheads: FixedOverheads,
    faults: Faults,
}

pub fn case(seed: u64) -> Case {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (nodes, gpus) = (rng.random_range(1..6), rng.random_range(1..9));
    let total = nodes as u32 * gpus;
    let mut at = 0.0;
    let jobs = (0..rng.random_range(1..40))
        .map(|_| {
            // Bursts and gaps, with ties and multiples of the round.
            at += [0.0, 1.0, 300.0, 137.5, 5000.0][rng.random_range(0..5)];
            let duration = [1.0, 300.0, 299.9, 1234.5, 40_000.0, 600.0][rng.random_range(0..6)];
            JobSpec::new(
                Time::new(at),
                GpuCount(rng.random_range(1..=total + 1)),
                Seconds::new(duration),
            )
            .owned_by(["a", "b", "c"][rng.random_range(0..3)])
        })
        .collect();
    let some =
        |rng: &mut ChaCha8Rng, s: f64| Seconds::new(if rng.random_bool(0.5) { s } else { 0.0 });
    let overheads = if rng.random_bool(0.5) {
        FixedOverheads {
            launch: some(&mut rng, 20.0),
            checkpoint: some(&mut rng, 30.0),
            restart: some(&mut rng, 310.0),
            migration: some(&mut rng, 45.0),
            ..FixedOverheads::default()
        }
    } else {
        FixedOverheads::default()
    };
    let faults = if rng.random_bool(0.3) {
        Faults {
            seed: rng.next_u64(),
            node_mtbf: Some(Seconds::from_hours(20.0)),
            node_mttr: Seconds::from_hours(1.0),
            job_mtbf: Some(Seconds::from_hours(10.0)),
            checkpoint_every: Some(Seconds::new(600.0)),
            launch_failure: 0.05,
        }
    } else {
        Faults::default()
    };
    Case {
        cluster: ClusterSpec::uniform(nodes, gpus),
        jobs,
        overheads,
        faults,
    }
}

pub fn simulation(case: &Case) -> Simulation {
    Simulation::new(case.cluster.clone())
        .overheads(case.overheads)
        .faults(case.faults)
}

fn run(case: &Case, scheduler: Pipeline, visit: bool) -> Report {
    let simulation = simulation(case).visiting_every_round(visit);
    cases::run(&simulation, scheduler, &case.jobs)
}

#[test]
fn skipped_rounds_equal_visited_on_random_workloads() {
    let names = [
        "fifo",
        "fifo{backfill=skip}",
        "fifo{backfill=easy}",
        "sjf",
        "srtf",
        "srtf{backfill=skip}",
        "las",
        "las{gpu_time=true,guard_h=2}",
        "las{backfill=skip,guard_h=1}",
        "blox-fifo",
        "blox-las",
        "blox-srtf",
        "tiresias",
        "tiresias{thresholds=600/40000,promote=2}",
    ];
    let (mut skipped, mut visited) = (0, 0);
    for seed in 0..CASES {
        let case = case(seed);
        // Three schedulers for each workload; over all workloads every scheduler is used.
        for k in 0..3 {
            let name = names[(seed as usize + k * 5) % names.len()];
            let [a, b] = [false, true].map(|visit| run(&case, scheduler(name), visit));
            assert_eq!(a.jobs, b.jobs, "{name}, seed {seed}");
            assert_eq!(a.jobs.len(), case.jobs.len(), "{name}, seed {seed}");
            let preemptions = [&a, &b].map(|report| report.counters.preemptions);
            assert_eq!(preemptions[0], preemptions[1], "{name}, seed {seed}");
            let unfinished = a.jobs.iter().filter(|j| j.outcome.is_none()).count();
            // The released program can block a job forever.
            if !name.starts_with("blox-") {
                assert_eq!(unfinished, 0, "{name}, seed {seed}: {:?}", a.ended);
            }
            skipped += a.counters.decisions;
            visited += b.counters.decisions;
        }
    }
    assert!(skipped < visited / 3 * 2, "{skipped} of {visited} visited");
}

/// If rounds are recorded, each launch is observed and plans are applied step by step.
#[test]
fn plans_at_once_equal_step_by_step_on_random_jobs() {
    let names = [
        "fifo{backfill=skip}",
        "srtf",
        "las",
        "las{gpu_time=true,guard_h=2}",
        "las{backfill=skip,guard_h=1}",
        "blox-las",
        "tiresias",
    ];
    for seed in 0..300 {
        let case = case(seed);
        let name = names[seed as usize % names.len()];
        let faults = Faults {
            launch_failure: 0.0,
            ..case.faults
        };
        let simulation = Simulation::new(case.cluster.clone()).faults(faults);
        let simulation = simulation.keep_timeline(true);
        let run = |step_by_step: bool| {
            let simulation = simulation.clone().keep_rounds(step_by_step);
            assigned(&simulation, scheduler(name), &case.jobs)
        };
        let ((a, at_once), (b, stepwise)) = (run(false), run(true));
        assert_eq!(a.jobs, b.jobs, "{name}, seed {seed}");
        assert_eq!(a.counters, b.counters, "{name}, seed {seed}");
        assert_eq!(a.timeline, b.timeline, "{name}, seed {seed}");
        assert_eq!(at_once, stepwise, "{name}, seed {seed}");
    }
}

/// The same node selector without its shortcut.
#[derive(Clone)]
struct Searching(Consolidated);

impl NodeSelector for Searching {
    fn find(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
        self.0.find(draft, job, shape)
    }
    fn takes_any(&self) -> bool {
        self.0.takes_any()
    }
    fn could_find(&self, room: &Room<'_>, job: &JobRef<'_>, shape: &Shape) -> Result<(), Reason> {
        self.0.could_find(room, job, shape)
    }
}

#[test]
fn searched_gpus_equal_first_gpus_on_random_workloads() {
    fn las(seed: u64, rule: impl NodeSelector + Send + Sync + 'static) -> Pipeline {
        let service = [Service::Time, Service::GpuTime][seed as usize % 2];
        let blocked = [Blocked::Stop, Blocked::Skip][seed as usize / 2 % 2];
        composed(
            "las",
            Las::by(service),
            InOrder::new(rule).when_blocked(blocked),
        )
    }
    let mut preemptions = 0;
    for seed in 0..600 {
        let mut case = case(seed);
        if seed % 3 > 0 {
            // Jobs that replace each other: they have as many GPUs as a node, or one.
            let size = [1, case.cluster.nodes[0].gpus][seed as usize % 3 - 1];
            case.jobs
                .iter_mut()
                .for_each(|job| job.gpus = GpuCount(size));
        }
        let rule = Consolidated::default();
        let (a, first) = assigned(&simulation(&case), las(seed, rule), &case.jobs);
        let (b, looked_for) = assigned(&simulation(&case), las(seed, Searching(rule)), &case.jobs);
        assert_eq!(a.jobs, b.jobs, "seed {seed}");
        assert_eq!(a.counters, b.counters, "seed {seed}");
        assert_eq!(first, looked_for, "seed {seed}");
        preemptions += a.counters.preemptions;
    }
    assert!(preemptions > 5000, "{preemptions}");
}

#[test]
fn schedulers_equal_released_programs_on_one_gpu_jobs() {
    let pairs = [
        ("fifo", "blox-fifo"),
        ("las", "blox-las"),
        ("srtf", "blox-srtf"),
    ];
    for seed in 0..100 {
        let mut case = case(seed);
        case.overheads = FixedOverheads::default();
        case.faults = Faults::default();
        for job in &mut case.jobs {
            job.gpus = GpuCount(1);
        }
        for (ours, theirs) in pairs {
            let [a, b] = [ours, theirs].map(|name| run(&case, scheduler(name), false));
            assert_eq!(a.jobs, b.jobs, "{ours} and {theirs}, seed {seed}");
        }
    }
}

/// A starvation guard that checks every job in every decision.
struct LookingAtAll {
    inner: Las,
    limit: Seconds,
    promotions: Arc<AtomicU32>,
}

impl Stateless for LookingAtAll {}

impl SchedulingPolicy for LookingAtAll {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Answer {
        let due = |j: &JobRef<'_>| !j.promoted() && view.now() - j.eligible_since() >= self.limit;
        let mut due: Vec<_> = view.waiting().filter(due).collect();
        due.sort_by_key(|j| (j.eligible_since(), j.id()));
        for job in due {
            out.promote(job.id());
            self.promotions.fetch_add(1, Ordering::Relaxed);
        }
        self.inner.schedule(&mut (), view, out)
    }
}

#[test]
fn lazy_guards_equal_full_guards_on_random_workloads() {
    fn las(policy: impl SchedulingPolicy) -> Pipeline {
        composed("las", policy, InOrder::new(Consolidated::default()))
    }
    let promotions = Arc::new(AtomicU32::new(0));
    for seed in 0..600 {
        let (case, inner) = (case(seed), Las::default());
        let limit = Seconds::new([0.0, 300.0, 1000.0, 7200.0, 100_000.0][seed as usize % 5]);
        let guard = StarvationGuard::new(inner.clone(), limit);
        let looking = LookingAtAll {
            inner,
            limit,
            promotions: promotions.clone(),
        };
        let (a, counted) = assigned(&simulation(&case), las(guard), &case.jobs);
        let (b, looked_at) = assigned(&simulation(&case), las(looking), &case.jobs);
        assert_eq!(a.jobs, b.jobs, "seed {seed}");
        assert_eq!(a.counters, b.counters, "seed {seed}");
        assert_eq!(counted, looked_at, "seed {seed}");
    }
    let promotions = promotions.load(Ordering::Relaxed);
    assert!(promotions > 3000, "{promotions}");
}
