//! Kept orders decide like plain ones, and so do walks that skip blocked jobs by what they request.

use crate::cases::{assigned, composed, job, run, with};
use blox::core::policy::scheduling_fn;
use blox::core::{
    Assignment, ClusterSpec, Draft, GpuCount, JobQueue, JobRef, JobSpec, NodeSpec, Pipeline,
    PlacementPolicy, Reason, Request, Room, SchedulingPolicy, Seconds, Shape, Validity, View,
};
use blox::policies::placement::{
    Balanced, Bandwidth, Blocked, Consolidated, EasyBackfill, Even, Fgd, FirstFree, InOrder,
    NodeSelector, NodeSets, Profiled, Random, Split,
};
use blox::policies::scheduling::{
    Drf, Fifo, FinishTimeFairness, Las, Srtf, StarvationGuard, Tetris, TwoDas,
};
use blox::sim::overheads::FixedOverheads;
use blox::sim::{Measure, Report, Simulation};
use chacha20::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A selector that counts its searches.
struct Counting<R> {
    rule: R,
    /// False to try each blocked job, as if jobs that request the same were not alike.
    alike: bool,
    searches: Arc<AtomicU32>,
}

impl<R: NodeSelector> NodeSelector for Counting<R> {
    fn find(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
        self.searches.fetch_add(1, Ordering::Relaxed);
        self.rule.find(draft, job, shape)
    }
    fn is_alike(&self) -> bool {
        self.alike && self.rule.is_alike()
    }
    fn could_find(&self, room: &Room<'_>, job: &JobRef<'_>, shape: &Shape) -> Result<(), Reason> {
        self.rule.could_find(room, job, shape)
    }
}

/// A simulated cluster with two types of GPUs, CPUs and memory, and more jobs than it can run.
fn case(seed: u64) -> (Simulation, Vec<JobSpec>) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let per_node = [2, 4, 8][rng.random_range(0..3)];
    let nodes = (0..rng.random_range(2..6)).map(|i| NodeSpec {
        gpu_type: Some(["v100", "k80"][i % 2].into()),
        cpus: f64::from(per_node) * 4.0,
        memory_gib: f64::from(per_node) * 32.0,
        ..NodeSpec::with_gpus(per_node)
    });
    let cluster = ClusterSpec {
        nodes: nodes.collect(),
        ..ClusterSpec::default()
    };
    let overheads = FixedOverheads {
        restart: Seconds::new([0.0, 60.0][rng.random_range(0..2)]),
        ..FixedOverheads::default()
    };
    let mut at = 0.0;
    let jobs = (0..rng.random_range(20..90)).map(|_| {
        at += [0.0, 60.0, 137.5, 300.0][rng.random_range(0..4)];
        let gpus = [1, 1, 2, 3, 4, 8, 2 * per_node][rng.random_range(0..7)];
        let seconds = [300.0, 299.9, 1234.5, 4000.0, 20_000.0][rng.random_range(0..5)];
        with(job(at, gpus, seconds), |extras| {
            match rng.random_range(0..8) {
                0 => extras.cpus = f64::from(gpus * rng.random_range(1..8)),
                1 => extras.memory_gib = f64::from(gpus) * 30.0,
                2 => extras.gpu_types = vec!["k80".into()],
                3 => extras.model = Some("vgg19".into()),
                4 => extras.model = Some("resnet50".into()),
                5 => extras.communication = 0.5,
                6 => extras.user_estimate = Some(Seconds::new(seconds)),
                _ => {}
            }
        })
    });
    let jobs = jobs.collect();
    (Simulation::new(cluster).overheads(overheads), jobs)
}

fn compared(
    case: &(Simulation, Vec<JobSpec>),
    fast: Pipeline,
    plain: Pipeline,
    what: &str,
) -> Report {
    let (a, fast) = assigned(&case.0, fast, &case.1);
    let (b, plain) = assigned(&case.0, plain, &case.1);
    assert_eq!(a.jobs, b.jobs, "{what}");
    assert_eq!(a.counters.preemptions, b.counters.preemptions, "{what}");
    assert_eq!(fast, plain, "{what}");
    a
}

/// Compares a walk that skips blocked jobs by their requests with one that tries each of them.
/// Returns the searches of both.
fn walks<R: NodeSelector + Clone + Send + Sync + 'static>(
    seed: u64,
    name: &str,
    rule: R,
) -> [u32; 2] {
    let case = case(seed);
    let searches = [0; 2].map(|_| Arc::new(AtomicU32::new(0)));
    let pipeline = |alike: bool| {
        let rule = Counting {
            rule: rule.clone(),
            alike,
            searches: Arc::clone(&searches[usize::from(!alike)]),
        };
        fn with_order(seed: u64, placement: impl PlacementPolicy) -> Pipeline {
            let name = "walk";
            match seed % 6 {
                0 => composed(name, Fifo::default(), placement),
                1 => composed(name, Srtf::default(), placement),
                2 => composed(
                    name,
                    StarvationGuard::new(Las::default(), Seconds::from_hours(2.0)),
                    placement,
                ),
                3 => composed(
                    name,
                    TwoDas::las(&[Seconds::new(3250.0)]).unwrap(),
                    placement,
                ),
                4 => composed(name, FinishTimeFairness::default(), placement),
                // A list, with jobs that may also run on fewer GPUs, or beside others.
                _ => composed(name, scheduling_fn(listed), placement),
            }
        }
        match seed % 4 {
            0 => with_order(seed / 4, EasyBackfill::new(rule)),
            _ => with_order(seed / 4, InOrder::new(rule).when_blocked(Blocked::Skip)),
        }
    };
    compared(
        &case,
        pipeline(true),
        pipeline(false),
        &format!("{name}, seed {seed}"),
    );
    searches.map(|s| s.load(Ordering::Relaxed))
}

fn listed(view: View<'_>, out: &mut JobQueue) -> Validity {
    let mut jobs: Vec<JobRef<'_>> = view.active().collect();
    jobs.sort_by(|a, b| {
        a.truth()
            .work_left()
            .total_cmp(&b.truth().work_left())
            .then(a.id().cmp(&b.id()))
    });
    for (i, job) in jobs.iter().enumerate() {
        let mut request = Request::gang(job);
        match job.id().0 % 5 {
            0 if job.gpus().get() > 1 => {
                request
                    .shapes
                    .push(Shape::gpus(GpuCount(job.gpus().get() / 2)));
            }
            1 if i > 0 => request = request.beside(jobs[i - 1].id()),
            _ => {}
        }
        out.push(request);
    }
    out.allow_preemption();
    Validity::NextRound
}

#[test]
fn walks_by_request_equal_walks_over_each_job() {
    let mut searches = [0, 0];
    let mut add = |found: [u32; 2]| {
        (searches[0], searches[1]) = (searches[0] + found[0], searches[1] + found[1]);
    };
    for seed in 0..8 {
        let at = |rule: u64| seed * 12 + rule;
        add(walks(at(0), "first free", FirstFree));
        add(walks(at(1), "consolidated", Consolidated::default()));
        add(walks(
            at(2),
            "whole nodes",
            Consolidated::new(Split::WholeNodes),
        ));
        add(walks(at(3), "one node", Consolidated::new(Split::Never)));
        add(walks(at(4), "even", Even));
        add(walks(at(5), "balanced", Balanced));
        add(walks(at(6), "node sets", NodeSets));
        add(walks(at(7), "random", Random::new(seed)));
        add(walks(at(8), "bandwidth", Bandwidth::default()));
        add(walks(
            at(9),
            "fragmentation",
            Fgd::new(vec![(1.0, 0.5), (4.0, 0.5)]),
        ));
        add(walks(at(10), "profiled", <Profiled>::default()));
    }
    assert!(searches[0] < searches[1], "{searches:?}");
}

/// Returns the searches of a run in which this many jobs need two GPUs of one node, and two nodes
/// have a free GPU each.
fn searches_with(waiting: usize) -> u32 {
    let mut jobs = vec![job(0.0, 1, 9000.0), job(0.0, 1, 9000.0)];
    jobs.extend(vec![job(300.0, 2, 900.0); waiting]);
    let searches = Arc::new(AtomicU32::new(0));
    let rule = Counting {
        rule: Spread,
        alike: true,
        searches: Arc::clone(&searches),
    };
    let placement = InOrder::new(rule).when_blocked(Blocked::Skip);
    let scheduler = composed("fifo", Fifo::default(), placement);
    let simulation = Simulation::new(ClusterSpec::uniform(2, 2)).visiting_every_round(true);
    run(&simulation.measure(Measure::Ids(0, 1)), scheduler, &jobs);
    searches.load(Ordering::Relaxed)
}

/// Places a GPU on the emptiest node, and several on one node.
struct Spread;

impl NodeSelector for Spread {
    fn find(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
        match shape.gpus.get() {
            1 => Balanced.find(draft, job, shape),
            _ => Consolidated::new(Split::Never).find(draft, job, shape),
        }
    }
    fn is_alike(&self) -> bool {
        true
    }
}

#[test]
fn searches_do_not_grow_with_the_jobs_of_a_kind() {
    // The two running jobs, one of the waiting jobs in each of 29 rounds, and two of them at the end.
    assert_eq!([10, 1000].map(searches_with), [33, 33]);
}

/// Compares a kept order with a list that is sorted anew in each decision.
fn kept(
    seed: u64,
    policy: impl SchedulingPolicy,
    key: impl Fn(View<'_>, &JobRef<'_>) -> f64 + Send + Sync + 'static,
) -> u64 {
    let case = case(seed);
    let sorted = scheduling_fn(move |view, out| {
        let mut jobs: Vec<_> = view.active().map(|j| (key(view, &j), j)).collect();
        jobs.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.id().cmp(&b.1.id())));
        jobs.iter()
            .for_each(|(_, job)| out.push(Request::gang(job)));
        out.allow_preemption();
        Validity::NextRound
    });
    let blocked = [Blocked::Stop, Blocked::Skip][seed as usize % 2];
    let placement = || InOrder::new(FirstFree).when_blocked(blocked);
    let fast = composed("kept", policy, placement());
    let plain = composed("sorted", sorted, placement());
    let report = compared(&case, fast, plain, &format!("seed {seed}"));
    report.counters.preemptions
}

#[test]
fn kept_orders_equal_lists_sorted_anew() {
    let shares = |view: View<'_>, job: &JobRef<'_>| {
        let nodes = || view.nodes().map(|n| n.spec());
        let extras = job.spec().extras();
        let cpus: f64 = nodes().map(|n| n.cpus).sum();
        let memory: f64 = nodes().map(|n| n.memory_gib).sum();
        let gpus: f64 = nodes().map(|n| f64::from(n.gpus)).sum();
        let asked = [f64::from(job.gpus().get()), extras.cpus, extras.memory_gib];
        [asked[0] / gpus, asked[1] / cpus, asked[2] / memory]
    };
    let mut preemptions = [0; 3];
    for seed in 0..20 {
        preemptions[0] += kept(seed, Drf, move |view, job| {
            shares(view, job).into_iter().fold(0.0, f64::max)
        });
        preemptions[1] += kept(seed, Tetris::default(), move |view, job| {
            let left = job.truth().work_left() / job.own_rate();
            left * shares(view, job).iter().sum::<f64>()
        });
        preemptions[2] += kept(seed, FinishTimeFairness::default(), |_, job| {
            let left = Seconds::new(job.truth().work_left() / job.own_rate());
            -((job.age() + left).secs() / job.truth().duration().secs())
        });
    }
    assert!(
        preemptions.iter().all(|count| *count > 50),
        "{preemptions:?}"
    );
}

#[test]
fn skipped_jobs_wait_for_the_reason_of_their_kind() {
    // One GPU stays free. The third and the fourth job request the same as the second.
    let jobs = [3, 2, 2, 2, 4].map(|gpus| job(0.0, gpus, 900.0));
    let placement = InOrder::new(FirstFree).when_blocked(Blocked::Skip);
    let simulation = Simulation::new(ClusterSpec::uniform(1, 4)).keep_waits(true);
    let scheduler = composed("fifo", Fifo::default(), placement);
    let report = run(&simulation, scheduler, &jobs);
    let waits = report.waits.iter();
    let waits: Vec<_> = waits
        .map(|w| (w.reason.as_str(), w.jobs, w.total.secs()))
        .collect();
    // Two of them start at 900 s, the third at 1800 s, and the job of four GPUs at 2700 s. From 900 s
    // to 1800 s no GPU is free, and the walk ends before the last job.
    let too_few = 900.0 * (1.0 + 1.0 + 2.0 + 2.0);
    let expected = [("too few GPUs", 4, too_few), ("no free GPUs", 1, 900.0)];
    assert_eq!(waits, expected);
}
