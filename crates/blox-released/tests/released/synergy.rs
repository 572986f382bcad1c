//! Amounts that Synergy's allocations grant to each job.

use blox_core::{
    Action, ClusterSpec, Composition, Extras, GpuCount, JobId, JobSpec, Pipeline, PlacementPolicy,
    Seconds, Time,
};
use blox_policies::placement::{Allocation, Consolidated, FirstFree, Synergy};
use blox_policies::scheduling::{Drf, Fifo, FinishTimeFairness, Srsf, Tetris};
use blox_released::synergy::quirks as released;
use blox_testing::Scenario;

/// Nodes of 4 GPUs with 8 cores and 40 GiB: 2 cores and 10 GiB per GPU.
fn cluster(nodes: usize) -> ClusterSpec {
    let mut cluster = ClusterSpec::uniform(nodes, 4);
    for node in &mut cluster.nodes {
        (node.cpus, node.memory_gib) = (8.0, 40.0);
    }
    cluster
}

fn job(gpus: u32, cpus: f64, memory_gib: f64) -> JobSpec {
    let spec = JobSpec::new(Time::ZERO, GpuCount(gpus), Seconds::new(1000.0));
    spec.with_extras(Extras {
        cpus,
        memory_gib,
        ..Extras::default()
    })
}

fn fifo(nodes: usize, placement: impl PlacementPolicy + 'static) -> Scenario {
    let composition = Composition::new("test").scheduling(Fifo::default());
    Scenario::new(
        &cluster(nodes),
        composition.placement(placement).build().unwrap(),
    )
}

/// Submits jobs, and returns the steps of a round with the CPUs and memory that they grant, in order
/// of jobs: `0: GPUs 0,1 c4 m20; 1: stop`.
fn granted(case: &mut Scenario, at: f64, jobs: impl IntoIterator<Item = JobSpec>) -> String {
    case.submit_all(0.0, jobs);
    case.round(at);
    let plan = &case.core.decision().plan;
    let text = plan.actions.iter().map(|action| match action {
        Action::Stop { job, .. } => format!("{job}: stop"),
        Action::Place { job, assignment: a } => {
            let gpus: Vec<String> = a.gpus.iter().map(|g| g.0.to_string()).collect();
            let gpus = gpus.join(",");
            format!("{job}: GPUs {gpus} c{} m{}", a.cpus, a.memory_gib)
        }
        other => format!("{other:?}"),
    });
    let mut text: Vec<String> = text.collect();
    text.sort();
    text.join("; ")
}

/// Four jobs on one node. Three of them want more cores than their share.
fn hungry() -> [JobSpec; 4] {
    [6.0, 1.0, 3.0, 4.0].map(|cpus| job(1, cpus, 5.0))
}

#[test]
fn tuning_grants_all_first_then_takes_back_for_others() {
    let mut b = fifo(1, Synergy::new(Consolidated::default()));
    // In order of demand: 6, then 4 (its share is left), then 3 and 1. For 3 no core is left, so
    // the first job gives up what exceeds its share.
    assert_eq!(
        granted(&mut b, 0.0, hungry()),
        "0: GPUs 0 c2 m5; 1: GPUs 3 c1 m5; 2: GPUs 2 c2 m5; 3: GPUs 1 c2 m5"
    );
    // After two jobs have ended, the first job gets its whole demand on its current GPU.
    b.ended(300.0, 1);
    b.ended(300.0, 3);
    assert_eq!(
        granted(&mut b, 300.0, []),
        "0: GPUs 0 c6 m5; 2: GPUs 1 c2 m5; 2: stop"
    );
}

#[test]
fn the_other_allocations_are_what_it_is_compared_with() {
    let greedy = Synergy::new(Consolidated::default()).with(Allocation::Greedy);
    let mut b = fifo(1, greedy);
    // In order of jobs, with backfill: jobs that do not fit are skipped although GPUs are free.
    assert_eq!(
        granted(&mut b, 0.0, hungry()),
        "0: GPUs 0 c6 m5; 1: GPUs 1 c1 m5"
    );
    assert_eq!(
        b.core.reason_for(JobId(2)).to_string(),
        "needs 1 GPU, 2 are free but not where the placement rule wants them"
    );
    let mut b = fifo(1, Synergy::new(FirstFree).with(Allocation::Proportional));
    assert_eq!(
        granted(&mut b, 0.0, hungry()),
        "0: GPUs 0 c2 m10; 1: GPUs 3 c2 m10; 2: GPUs 2 c2 m10; 3: GPUs 1 c2 m10"
    );
}

#[test]
fn demand_is_capped_to_a_node_and_defaults_to_share() {
    let mut b = fifo(3, Synergy::new(Consolidated::default()));
    let jobs = [job(2, 100.0, 100.0), job(1, 0.0, 0.0), job(6, 50.0, 12.0)];
    assert_eq!(
        granted(&mut b, 0.0, jobs),
        "0: GPUs 8,9 c8 m40; 1: GPUs 6 c2 m10; 2: GPUs 0,1,2,3,4,5 c12 m12"
    );
}

#[test]
fn each_job_has_at_least_its_usable_share() {
    let mut seed = 1u64;
    let mut draw = |below: u64| {
        seed = seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (seed >> 33) % below
    };
    let mut shrunk = 0;
    for _ in 0..300 {
        let mut b = fifo(3, Synergy::new(Consolidated::default()));
        let jobs: Vec<JobSpec> = (0..12)
            .map(|_| {
                let gpus = [1, 1, 2, 3, 4, 6][draw(6) as usize];
                job(gpus, draw(12) as f64, draw(60) as f64)
            })
            .collect();
        // A plan that exceeds the available resources is rejected.
        granted(&mut b, 0.0, jobs.clone());
        let mut left = 12;
        for (i, spec) in jobs.iter().enumerate() {
            let gpus = spec.gpus.get();
            if gpus > left {
                continue;
            }
            left -= gpus;
            let record = b.core.state().job(JobId(i as u32)).unwrap();
            let a = record.assignment().expect("its GPUs fit in the count");
            let (asked, share) = (spec.extras().cpus, 2.0 * f64::from(gpus));
            let least = if asked > 0.0 { asked.min(share) } else { share };
            assert!(a.cpus >= least - 1e-9, "job {i}: {a:?}");
            shrunk += usize::from(a.cpus < asked.min(8.0) && gpus <= 4);
        }
    }
    assert!(shrunk > 100, "{shrunk}");
}

#[test]
fn orders_rank_by_their_keys() {
    let running = |policy: Pipeline| {
        let mut b = Scenario::new(&cluster(1), policy);
        let late = |spec: JobSpec, seconds: f64| JobSpec {
            work: blox_core::Work::lasting(Seconds::new(seconds)),
            ..spec
        };
        let jobs = [
            late(job(4, 1.0, 1.0), 900.0),
            late(job(3, 8.0, 1.0), 2000.0),
            late(job(3, 1.0, 20.0), 1000.0),
        ];
        let granted = granted(&mut b, 600.0, jobs);
        granted.split(':').next().unwrap().to_owned()
    };
    let on = |scheduled: Composition| {
        let policy = scheduled.placement(Synergy::new(FirstFree)).build();
        running(policy.unwrap())
    };
    let base = || Composition::new("test");
    // 4 x 900, 3 x 2000, 3 x 1000 GPU-seconds.
    assert_eq!(on(base().scheduling(Srsf::default())), "2");
    // All have waited 600 s, which slows down the shortest job most.
    assert_eq!(on(base().scheduling(FinishTimeFairness::default())), "0");
    // Dominant shares in order of jobs: 1 of GPUs, 1 of cores, 3/4 of GPUs.
    assert_eq!(on(base().scheduling(Drf)), "2");
    // 900 x (1 + 1/8 + 1/40), 2000 x (..), 1000 x (3/4 + 1/8 + 1/2).
    assert_eq!(on(base().scheduling(Tetris::default())), "0");
}

#[test]
fn released_program_shrinks_to_share_and_raises_below() {
    let round = Seconds::new(300.0);
    let build = |mode, place| {
        Composition::new("test")
            .scheduling(released::Order::new(released::Key::Fifo, mode, round))
            .placement(released::Allocate::new(mode).consolidating(place))
            .build()
            .unwrap()
    };
    let mut b = Scenario::new(&cluster(1), build(released::Mode::Tune, false));
    // In order of jobs: 6 cores, 1 core, then 3 cores with 1 left. The share of 2 does not fit, so
    // the first job is shrunk to its share, and its memory is raised to it.
    assert_eq!(
        granted(&mut b, 0.0, hungry()),
        "0: GPUs 0 c2 m10; 1: GPUs 1 c1 m5; 2: GPUs 2 c2 m10; 3: GPUs 3 c2 m10"
    );
    let mut b = Scenario::new(&cluster(2), build(released::Mode::Greedy, true));
    // A job with one GPU takes the highest GPU of the server with the fewest free GPUs. A job with
    // two takes the lowest GPUs of a server that fits all of its demand.
    assert_eq!(
        granted(
            &mut b,
            0.0,
            [job(1, 1.0, 1.0), job(2, 2.0, 2.0), job(1, 6.0, 1.0)]
        ),
        "0: GPUs 3 c1 m1; 1: GPUs 0,1 c2 m2; 2: GPUs 7 c6 m1"
    );
}
