//! Placement where more than GPUs counts: CPUs, memory, GPU types.

use crate::cases::{self, assigned, composed, starts, with};
use blox::core::order::SortKey;
use blox::core::policy::{by_key, scheduling_fn};
use blox::core::{
    Assignment, ClusterSpec, Composition, Draft, Extras, GpuCount, JobRef, JobSpec, NodeSpec,
    Outcome, PlacementPolicy, Request, Seconds, Shape, Time, Validity,
};
use blox::policies::placement::{Blocked, InOrder, Leases, NodeSelector, NonSticky, Synergy};
use blox::sim::results::AssignmentRow;
use blox::sim::{Report, Simulation};
use chacha20::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

fn job(gpus: u32, set: impl FnOnce(&mut Extras)) -> JobSpec {
    with(cases::job(0.0, gpus, 300.0), set)
}

fn run(placement: &str, cluster: ClusterSpec, jobs: Vec<JobSpec>) -> Report {
    let placement = blox::registry()
        .placement
        .build(&placement.parse().expect("a name"), 0)
        .expect("a placement");
    let scheduler = blox::schedulers::fifo().with_placement(placement).unwrap();
    cases::run(&Simulation::new(cluster), scheduler, &jobs)
}

#[test]
fn jobs_do_not_get_more_cpus_than_a_node_has() {
    let cluster = ClusterSpec {
        nodes: vec![NodeSpec {
            cpus: 8.0,
            memory_gib: 100.0,
            ..NodeSpec::with_gpus(4)
        }],
        ..ClusterSpec::default()
    };
    let wants = |cpus, memory| job(1, |e| (e.cpus, e.memory_gib) = (cpus, memory));
    for placement in ["first-free", "consolidated", "consolidated{backfill=easy}"] {
        // Two and two by CPUs; then two and one by memory.
        let cpus = vec![wants(4.0, 0.0); 4];
        let report = run(placement, cluster.clone(), cpus);
        let expected = [Some(0.0), Some(0.0), Some(300.0), Some(300.0)];
        assert_eq!(starts(&report), expected, "{placement}");
        let memory = vec![wants(0.0, 50.0); 3];
        let report = run(placement, cluster.clone(), memory);
        let expected = [Some(0.0), Some(0.0), Some(300.0)];
        assert_eq!(starts(&report), expected, "{placement}");
    }
}

#[test]
fn job_of_one_gpu_type_waits_or_is_rejected() {
    let cluster: ClusterSpec = "1x4:t4,1x8:a100".parse().expect("a cluster");
    let only = |gpus, ty: &str| job(gpus, |e| e.gpu_types = vec![ty.into()]);
    let jobs = vec![only(4, "t4"), only(2, "t4"), only(8, "a100"), only(5, "t4")];
    let report = run("consolidated{backfill=skip}", cluster, jobs);
    assert_eq!(starts(&report), [Some(0.0), Some(300.0), Some(0.0), None]);
    assert_eq!(report.jobs[3].outcome, Some(Outcome::Rejected));
    assert_eq!(
        report.jobs[3].reason.as_deref(),
        Some("asks for 5 GPUs of type t4, at most 4 are possible")
    );
}

/// Takes the first free GPUs and reads no GPU types.
#[derive(Clone, Copy, Debug, Default)]
struct Blind;

impl NodeSelector for Blind {
    fn find(&self, draft: &Draft<'_>, _: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
        let nodes = draft.nodes_with_free();
        let free = nodes.flat_map(|node| draft.free_gpus_on(node.id()));
        let found = shape.on(free.take(shape.gpus.get() as usize).collect());
        (found.count() == shape.gpus).then_some(found)
    }
}

/// Returns the job and the GPUs of each assignment, in order of its start. Short jobs come first.
fn assignments(
    preempts: bool,
    placement: impl PlacementPolicy + 'static,
    jobs: &[(f64, f64, Option<&str>)],
) -> Vec<(f64, u32, Vec<u32>)> {
    let shortest = by_key(|job| SortKey::by(job.truth().duration().secs()));
    let shortest = match preempts {
        true => shortest.preemptive(),
        false => shortest,
    };
    let scheduler = composed("blind", shortest, placement);
    let job = |&(at, seconds, gpu_type): &(f64, f64, Option<&str>)| {
        with(cases::job(at, 1, seconds), |e| {
            e.gpu_types = gpu_type.into_iter().map(Into::into).collect();
        })
    };
    let jobs: Vec<JobSpec> = jobs.iter().map(job).collect();
    let nodes = Simulation::new("1x1:v100,1x1:a100".parse().unwrap());
    let (_, rows) = assigned(&nodes, scheduler, &jobs);
    let numbers = |row: &AssignmentRow| row.gpus.iter().map(|gpu| gpu.0).collect();
    let mut all: Vec<_> = rows
        .iter()
        .map(|row| (row.placed.secs(), row.job.0, numbers(row)))
        .collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    all
}

#[test]
fn selector_that_ignores_types_keeps_jobs_on_theirs() {
    // The shortest job needs the second node, and the next takes the first. The third, which needs
    // the second node, waits there, although the first is free from 600 s.
    let jobs = [
        (0.0, 900.0, Some("a100")),
        (0.0, 600.0, None),
        (0.0, 1200.0, Some("a100")),
    ];
    let expected = [(0.0, 0, vec![1]), (0.0, 1, vec![0]), (900.0, 2, vec![1])];
    for blocked in [Blocked::Stop, Blocked::Skip] {
        let placement = InOrder::new(Blind).when_blocked(blocked);
        assert_eq!(assignments(false, placement, &jobs), expected);
        let placement = InOrder::new(Blind).when_blocked(blocked);
        assert_eq!(assignments(true, placement, &jobs), expected);
    }
    assert_eq!(assignments(true, Leases::new(Blind), &jobs), expected);
    assert_eq!(assignments(true, NonSticky::new(Blind), &jobs), expected);
    assert_eq!(assignments(true, Synergy::new(Blind), &jobs), expected);
}

#[test]
fn type_blind_selector_preempts_on_the_right_type() {
    // The second job is the last in the order, so its GPU of type a100 is released first. The third
    // job needs v100 and preempts the first job, which preempts the second in turn.
    let jobs = [
        (0.0, 1200.0, None),
        (0.0, 1500.0, None),
        (300.0, 300.0, Some("v100")),
    ];
    for blocked in [Blocked::Stop, Blocked::Skip] {
        let found = assignments(true, InOrder::new(Blind).when_blocked(blocked), &jobs);
        let expected = [
            (0.0, 0, vec![0]),
            (0.0, 1, vec![1]),
            (300.0, 0, vec![1]),
            (300.0, 2, vec![0]),
            (600.0, 1, vec![0]),
        ];
        assert_eq!(found, expected);
    }
}

/// A kept order and a list are two forms of one answer.
#[test]
fn kept_order_and_equal_list_are_placed_alike() {
    let mut random = ChaCha8Rng::seed_from_u64(5);
    let jobs: Vec<JobSpec> = (0..200)
        .map(|n: u32| {
            let gpus = GpuCount([1, 1, 1, 2, 3, 4, 6][random.random_range(0..7)]);
            let long = Seconds::new(random.random_range(300.0..6000.0));
            JobSpec::new(Time::new(f64::from(n * 150)), gpus, long)
        })
        .collect();
    let length = |job: &JobRef<'_>| job.truth().duration().secs();
    let registry = blox::registry();
    for placement in registry.placement.names() {
        let run = |listed: bool| {
            let placement = registry.placement.build(&placement.parse().unwrap(), 0);
            let composition = Composition::new("shortest").placement(placement.unwrap());
            let composition = match listed {
                false => {
                    composition.scheduling(by_key(move |j| SortKey::by(length(j))).preemptive())
                }
                true => composition.scheduling(scheduling_fn(move |view, out| {
                    let mut jobs: Vec<_> = view.active().collect();
                    jobs.sort_by(|a, b| length(a).total_cmp(&length(b)));
                    out.allow_preemption();
                    jobs.iter().for_each(|job| out.push(Request::gang(job)));
                    Validity::UntilEvent
                })),
            };
            let nodes = Simulation::new(ClusterSpec::uniform(4, 6));
            cases::run(&nodes, composition.build().unwrap(), &jobs)
        };
        let (kept, listed) = (run(false), run(true));
        let preempted = kept.jobs.iter().map(|job| job.preemptions).sum::<u32>();
        assert!(preempted > 0, "{placement}");
        assert_eq!(kept.jobs, listed.jobs, "{placement}");
    }
}
