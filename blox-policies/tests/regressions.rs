//! Regression tests of policies, as small cases.

use crate::{composed, with};
use blox_core::estimate::Oracle;
use blox_core::forecast::{Forecast, Forecaster, Horizon};
use blox_core::policy::scheduling_fn;
use blox_core::{
    AdmissionDecisions, AdmissionPolicy, Class, ClusterSpec, Composition, Deadline, Event,
    GpuCount, JobId, JobQueue, JobSpec, Name, NodeAction, NodeId, Pipeline, Place, Plan, Request,
    Scheduler, SchedulingPolicy, Seconds, Shape, State, Time, TypeSpeeds, Validity, View,
};
use blox_policies::admission::{Quota, QuotaBy};
use blox_policies::cluster::Quarantine;
use blox_policies::placement::{
    Buddy, Consolidated, EasyBackfill, InOrder, KeepNodes, Leases, LocalSearch, Migrating,
    NodeSets, NonSticky, OnNodes, PackingLimits, Profiling, ProfilingSettings,
};
use blox_policies::scheduling::gavel::{Gavel, shares};
use blox_policies::scheduling::shockwave::Market;
use blox_policies::scheduling::{
    Chronus, Fifo, Gandiva, Pollux, PolluxSettings, Qssf, Shockwave, Srtf, Synthesizer, TimeSlicing,
};
use blox_testing::{Scenario, StepByStep};
use std::sync::Arc;

/// Creates one node of 4 GPUs.
fn node(cpus: f64) -> ClusterSpec {
    let mut cluster = ClusterSpec::uniform(1, 4);
    cluster.nodes[0].cpus = cpus;
    cluster
}

fn job(gpus: u32, cpus: f64, duration: f64) -> JobSpec {
    let job = JobSpec::new(Time::ZERO, GpuCount(gpus), Seconds::new(duration));
    with(job, |extras| extras.cpus = cpus)
}

/// A job of these GPUs, of one type.
fn of_type(gpus: u32, to: &str, duration: f64) -> JobSpec {
    with(job(gpus, 0.0, duration), |extras| {
        extras.gpu_types = vec![to.into()]
    })
}

#[test]
fn a_victim_whose_cpus_are_needed_is_not_spared() {
    let policy = composed(Srtf::default(), InOrder::new(Consolidated::default()));
    let mut run = Scenario::new(&node(8.0), policy);
    for n in 0..4 {
        let cpus = if n < 2 { 0.0 } else { 4.0 };
        run.submit(0.0, job(1, cpus, 10_000.0));
    }
    run.round(0.0);
    run.ended(10.0, 0);
    run.ended(10.0, 1);
    run.submit(20.0, job(1, 4.0, 100.0));
    run.round(300.0);
    assert_eq!(run.gpus(2), Some(vec![2]));
    assert_eq!(run.gpus(3), None);
    assert_eq!(run.gpus(4), Some(vec![0]));
}

/// Lists all jobs, each with a shape.
fn list(
    shape: impl Fn(View<'_>, JobId) -> Shape + Send + Sync + 'static,
) -> impl SchedulingPolicy + 'static {
    scheduling_fn(move |view, out: &mut JobQueue| {
        for job in view.active() {
            out.push(Request::with_shape(job.id(), shape(view, job.id())));
        }
        Validity::NextRound
    })
}

#[test]
fn no_placement_gives_out_more_cpus_than_there_are() {
    let anywhere = |_: View<'_>, _| Shape {
        cpus: 4.0,
        ..Shape::gpus(GpuCount(1))
    };
    let on_the_node = move |view: View<'_>, job| Shape {
        place: Place::Nodes(vec![(NodeId(0), 1)]),
        ..anywhere(view, job)
    };
    let pair = scheduling_fn(|view, out: &mut JobQueue| {
        let first = view.active().next();
        first
            .iter()
            .for_each(|job| out.push(Request::gang(job).beside(JobId(1))));
        Validity::NextRound
    });
    let policies = [
        composed(Fifo::default(), Buddy),
        composed(list(anywhere), Buddy),
        composed(TimeSlicing::new(Seconds::new(60.0)), KeepNodes),
        composed(list(on_the_node), OnNodes),
        composed(list(on_the_node), LocalSearch),
        composed(pair, InOrder::new(Consolidated::default())),
    ];
    for policy in policies {
        let mut run = Scenario::new(&node(4.0), policy);
        run.submit_all(0.0, vec![job(1, 4.0, 10_000.0); 2]);
        run.round(0.0);
        assert_eq!([run.gpus(0), run.gpus(1)], [Some(vec![0]), None]);
    }
}

#[test]
fn guest_that_needs_more_gpus_is_not_placed_beside() {
    for (gpus, expected) in [(2, Some(vec![0, 1])), (3, None), (1, Some(vec![0]))] {
        let pair = scheduling_fn(|view, out: &mut JobQueue| {
            let first = view.active().next();
            if let Some(job) = first {
                out.push(Request::gang(&job).beside(JobId(1)));
            }
            Validity::NextRound
        });
        let policy = composed(pair, InOrder::new(Consolidated::default()));
        let mut run = Scenario::new(&ClusterSpec::uniform(1, 4), policy);
        run.submit_all(0.0, [job(2, 0.0, 10_000.0), job(gpus, 0.0, 10_000.0)]);
        run.round(0.0);
        assert_eq!(run.gpus(0), Some(vec![0, 1]));
        assert_eq!(run.gpus(1), expected, "of {gpus} GPUs");
    }
}

#[test]
fn a_job_that_grows_counts_on_its_own_cpus() {
    let growing = list(|view, _| {
        let gpus = if view.now() < Time::new(300.0) { 1 } else { 2 };
        Shape {
            cpus: 2.0 * f64::from(gpus),
            ..Shape::gpus(GpuCount(gpus))
        }
    });
    let mut run = Scenario::new(&node(4.0), composed(growing, Buddy));
    run.submit(0.0, job(2, 4.0, 10_000.0));
    run.round(0.0);
    assert_eq!(run.gpus(0), Some(vec![0]));
    run.round(300.0);
    assert_eq!(run.gpus(0), Some(vec![0, 1]));
    assert_eq!(run.core.counters().preemptions, 0);
}

#[test]
fn a_job_on_a_lost_node_is_not_made_smaller_there() {
    let shrinking = list(|view, _| {
        let gpus = if view.now() < Time::new(300.0) { 4 } else { 2 };
        Shape::gpus(GpuCount(gpus))
    });
    let mut run = Scenario::new(&ClusterSpec::uniform(2, 4), composed(shrinking, Buddy));
    run.submit(0.0, job(4, 0.0, 10_000.0));
    run.round(0.0);
    run.event(10.0, Event::NodeLost { node: NodeId(0) });
    run.submit(10.0, job(2, 0.0, 10_000.0));
    run.round(300.0);
    assert_eq!(run.gpus(0), Some(vec![0, 1, 2, 3]));
    assert_eq!(run.gpus(1), Some(vec![4, 5]));
}

#[test]
fn a_quarantine_leaves_the_cordons_of_others_alone() {
    let (minute, hour) = (Seconds::new(60.0), Seconds::new(3600.0));
    let policy = composed(Fifo::default(), InOrder::new(Consolidated::default()));
    let quarantine = Quarantine::new(hour, minute, minute * 30.0);
    let policy = policy.with_cluster(quarantine).unwrap();
    let mut run = Scenario::new(&ClusterSpec::uniform(1, 4), policy);
    let id = NodeId(0);
    let cordon = |run: &Scenario| {
        let node = run.core.state().cluster().node(id);
        node.and_then(|n| n.cordoned()).map(ToString::to_string)
    };
    let flap = |run: &mut Scenario, at: f64| {
        for at in [at, at + 1.0] {
            run.event(at, Event::NodeLost { node: id });
            run.event(at, Event::NodeReturned { node: id });
        }
    };
    let drain = Event::NodeManaged {
        action: NodeAction::Cordon {
            node: id,
            why: "drained".into(),
        },
    };
    flap(&mut run, 10.0);
    run.round(20.0);
    assert_eq!(cordon(&run).as_deref(), Some("quarantine"));
    run.round(300.0);
    assert_eq!(cordon(&run), None);

    run.event(310.0, drain);
    flap(&mut run, 320.0);
    for at in [330.0, 2000.0] {
        run.round(at);
        assert_eq!(cordon(&run).as_deref(), Some("drained"), "at {at} s");
    }
}

#[test]
fn job_moved_to_make_room_stays_on_its_gpu_type() {
    let cluster = "1x2:v100,1x2:k80".parse().unwrap();
    let policy = composed(TimeSlicing::new(Seconds::new(60.0)), KeepNodes);
    let mut run = Scenario::new(&cluster, policy);
    let job = |gpus| job(gpus, 0.0, 1e6);
    run.submit_all(0.0, [of_type(1, "v100", 1e6), job(1), job(1)]);
    run.round(0.0);
    run.ended(10.0, 1);
    run.submit(20.0, job(2));
    run.round(300.0);
    // The first node comes first, and the job of the second node may go there.
    assert_eq!(run.gpus(0), Some(vec![0]));
    assert_eq!(run.gpus(2), Some(vec![1]));
    assert_eq!(run.gpus(3), Some(vec![2, 3]));
}

#[test]
fn shape_near_a_job_prefers_its_nodes_then_its_rack() {
    let racks = ["row-1 a", "row-2 a", "row-1 b", "row-1 a"];
    let mut cluster = ClusterSpec::uniform(4, 2);
    for (node, rack) in cluster.nodes.iter_mut().zip(racks) {
        node.location = rack.split(' ').map(Name::from).collect();
    }
    let near = |_: View<'_>, job: JobId| Shape {
        place: match job.0 {
            0 => Place::Any,
            _ => Place::Near(JobId(0)),
        },
        ..Shape::gpus(GpuCount([1, 2, 3][job.index()]))
    };
    let policy = composed(list(near), InOrder::new(Consolidated::default()));
    let mut run = Scenario::new(&cluster, policy);
    run.submit_all(0.0, vec![job(3, 0.0, 1e6); 3]);
    run.round(0.0);
    assert_eq!(run.gpus(0), Some(vec![0]));
    assert_eq!(run.gpus(1), Some(vec![1, 6]));
    // The other rack of the same row comes before the other row, regardless of rack names.
    assert_eq!(run.gpus(2), Some(vec![7, 4, 5]));
}

#[test]
fn a_job_over_several_nodes_touches_as_few_as_can_be() {
    let mut x = 1u32;
    let mut random = |below: u32| {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (x >> 16) % below
    };
    for _ in 0..300 {
        let policy = composed(Fifo::default(), InOrder::new(Consolidated::default()));
        let mut run = Scenario::new(&ClusterSpec::uniform(5, 4), policy);
        let sizes: Vec<u32> = (0..7).map(|_| 1 + random(9)).collect();
        let mut free = [4u32; 5];
        for (n, &size) in sizes.iter().enumerate() {
            if size > free.iter().sum() {
                break;
            }
            let spec = job(size, 0.0, 1e6);
            let now = 300.0 * n as f64;
            run.submit(now, spec);
            run.round(now);
            let mut before = free;
            before.sort_unstable_by_key(|f| std::cmp::Reverse(*f));
            let sums = before.iter().scan(0, |sum, f| {
                *sum += f;
                Some(*sum)
            });
            let least = sums.take_while(|sum| *sum < size).count() + 1;
            let mut nodes = std::collections::BTreeSet::new();
            for gpu in run.gpus(n as u32).unwrap() {
                free[gpu as usize / 4] -= 1;
                nodes.insert(gpu / 4);
            }
            assert_eq!(nodes.len(), least, "job {n} of {sizes:?}");
        }
    }
}

#[test]
fn jobs_of_one_size_placed_at_once_lie_together() {
    let policy = composed(Fifo::default(), InOrder::new(NodeSets));
    let mut run = Scenario::new(&ClusterSpec::uniform(2, 4), policy);
    run.submit_all(0.0, [1, 2, 1, 2].map(|gpus| job(gpus, 0.0, 10_000.0)));
    run.round(0.0);
    assert_eq!(run.gpus(0), Some(vec![0]));
    assert_eq!(run.gpus(1), Some(vec![4, 5]));
    assert_eq!(run.gpus(2), Some(vec![1]));
    assert_eq!(run.gpus(3), Some(vec![6, 7]));
}

#[test]
fn shares_stay_numbers_while_no_gpu_can_be_used() {
    let policy = || {
        let shares = Gavel::new(shares::Proportional);
        composed(shares, Leases::new(Consolidated::default()))
    };
    let mut run = Scenario::new(&ClusterSpec::uniform(1, 4), policy());
    run.submit(0.0, job(1, 0.0, 10_000.0));
    run.round(0.0);
    run.event(10.0, Event::NodeLost { node: NodeId(0) });
    run.submit(20.0, job(1, 0.0, 10_000.0));
    run.round(300.0);
    run.event(310.0, Event::NodeReturned { node: NodeId(0) });
    run.submit(320.0, job(1, 0.0, 10_000.0));
    run.round(600.0);
    let saved = run.policy.save().unwrap().unwrap().to_string();
    let saved = serde_json::from_str(&saved).unwrap();
    assert_eq!(policy().restore(saved), Ok(()));
}

#[test]
fn round_without_running_does_not_count_as_received() {
    let gavel = Gavel::new(shares::Proportional);
    let policy = composed(gavel, Leases::new(Consolidated::default()));
    let mut run = Scenario::new(&"1x3".parse().unwrap(), policy);
    run.submit_all(0.0, vec![job(1, 0.0, 1e6); 4]);
    let mut turns = Vec::new();
    for round in 0..6 {
        let at = 300.0 * f64::from(round);
        if round == 2 {
            let (job, attempt, secs) = (JobId(1), 1, 10.0);
            run.event(at - 100.0, Event::Ran { job, attempt, secs });
            run.crashed(at - 100.0, 1, 1, 10.0);
        }
        run.round(at);
        let runs = (0..4).filter(|n| run.gpus(*n).is_some());
        turns.push(runs.map(|n| n.to_string()).collect::<String>());
    }
    // In the first two rounds, job 1 received almost nothing.
    let expected = ["012", "013", "123", "012", "013", "123"];
    assert_eq!(turns, expected);
}

fn due(gpus: u32, duration: f64, at: f64) -> JobSpec {
    let (at, value) = (Time::new(at), 1.0);
    let deadlines = vec![Deadline { at, value }];
    with(job(gpus, 0.0, duration), |extras| {
        extras.deadlines = deadlines
    })
}

fn chronus() -> Pipeline {
    let chronus = Chronus::new(Seconds::new(240.0));
    let composition = Composition::new("chronus").placement(LocalSearch);
    let composition = composition.joint(chronus, |roles| roles.admission().scheduling());
    composition.build().unwrap()
}

#[test]
fn a_far_deadline_makes_no_long_plan() {
    let mut run = Scenario::new(&ClusterSpec::uniform(1, 4), chronus());
    run.submit_all(0.0, [due(2, 1000.0, f64::MAX), job(4, 0.0, 1e9)]);
    run.round(0.0);
    assert_eq!(run.gpus(0), None);
    // Its first lease is over, and the job has done no work.
    run.round(240.0 * 10_016.0);
    assert_eq!(run.gpus(0), Some(vec![0, 1]));
}

#[test]
fn job_needing_too_many_leases_runs_as_best_effort() {
    let mut run = Scenario::new(&ClusterSpec::uniform(1, 4), chronus());
    run.submit_all(
        0.0,
        [
            due(2, 1e12, 2e12),
            due(2, f64::MAX, f64::MAX),
            due(2, 1000.0, 1e12),
        ],
    );
    run.round(0.0);
    let classes = [0, 1, 2].map(|n| run.core.state().job(JobId(n)).unwrap().class());
    let (rest, guaranteed) = (Class::BEST_EFFORT, Class::Guaranteed);
    assert_eq!(classes, [rest, rest, guaranteed]);
}

#[test]
fn jobs_that_fit_come_before_a_wide_one() {
    let first = list(|view, job| Shape::gpus(view.job(job).map_or(GpuCount(1), |j| j.gpus())));
    let mut run = Scenario::new(&ClusterSpec::uniform(2, 8), composed(first, Buddy));
    run.submit_all(0.0, vec![job(2, 0.0, 10_000.0); 2]);
    run.round(0.0);
    run.submit_all(10.0, [job(16, 0.0, 10_000.0), job(8, 0.0, 10_000.0)]);
    run.round(300.0);
    assert_eq!(run.gpus(0), Some(vec![0, 1]));
    assert_eq!(run.gpus(1), Some(vec![2, 3]));
    assert_eq!(run.gpus(2), None);
    assert_eq!(run.gpus(3), Some((8..16).collect()));
    assert_eq!(run.core.counters().preemptions, 0);
}

#[test]
fn gpus_a_wide_job_cannot_use_go_to_later_jobs() {
    let first = list(|view, job| Shape::gpus(view.job(job).map_or(GpuCount(1), |j| j.gpus())));
    let cluster = "1x8:k80,1x8:v100".parse().unwrap();
    let mut run = Scenario::new(&cluster, composed(first, Buddy));
    run.submit_all(
        0.0,
        [
            of_type(8, "k80", 1e6),
            of_type(8, "k80", 1e6),
            job(8, 0.0, 1e6),
        ],
    );
    run.round(0.0);
    assert_eq!(run.gpus(0), Some((0..8).collect()));
    assert_eq!(run.gpus(1), None);
    assert_eq!(run.gpus(2), Some((8..16).collect()));
    run.round(300.0);
    assert_eq!(run.gpus(2), Some((8..16).collect()));
    assert_eq!(run.core.counters().preemptions, 0);
}

#[test]
fn job_that_cannot_grow_continues_without_preemption() {
    let growing = list(|view, job| match view.job(job).map(|j| j.is_placed()) {
        Some(true) => Shape::gpus(GpuCount(8)),
        _ => Shape::gpus(GpuCount(2)),
    });
    let mut run = Scenario::new(&ClusterSpec::uniform(1, 4), composed(growing, Buddy));
    run.submit(0.0, job(2, 0.0, 1e6));
    run.round(0.0);
    run.submit(10.0, job(2, 0.0, 1e6));
    run.round(300.0);
    assert_eq!(run.gpus(0), Some(vec![0, 1]));
    assert_eq!(run.gpus(1), Some(vec![2, 3]));
}

#[test]
fn growing_job_takes_no_held_gpus_without_preemption() {
    let growing = list(|view, job| match view.job(job).map(|j| j.is_placed()) {
        Some(true) => Shape::gpus(GpuCount(4)),
        _ => Shape::gpus(GpuCount(2)),
    });
    let mut run = Scenario::new(&ClusterSpec::uniform(1, 4), composed(growing, Buddy));
    run.submit_all(0.0, vec![job(2, 0.0, 1e6); 2]);
    run.round(0.0);
    run.round(300.0);
    assert_eq!(run.gpus(0), Some(vec![0, 1]));
    assert_eq!(run.gpus(1), Some(vec![2, 3]));
    run.ended(400.0, 0);
    run.round(600.0);
    assert_eq!(run.gpus(1), Some(vec![0, 1, 2, 3]));
    assert_eq!(run.core.counters().preemptions, 0);
}

#[test]
fn wide_job_moves_no_job_without_preemption() {
    let first = list(|view, job| Shape::gpus(view.job(job).map_or(GpuCount(1), |j| j.gpus())));
    let cluster = "1x8:k80,1x8:v100".parse().unwrap();
    let mut run = Scenario::new(&cluster, composed(first, Buddy));
    run.submit_all(0.0, [of_type(4, "k80", 1e6), of_type(1, "v100", 1e6)]);
    run.round(0.0);
    // By count there is room for the job, but not on one node.
    run.submit_all(10.0, vec![job(8, 0.0, 1e6); 2]);
    run.round(300.0);
    assert_eq!(run.gpus(0), Some((0..4).collect()));
    assert_eq!(run.gpus(1), Some(vec![8]));
    assert_eq!(run.gpus(2), Some((9..16).chain([4]).collect()));
    assert_eq!(run.gpus(3), None);
    assert_eq!(run.core.counters().preemptions, 0);
}

#[test]
fn rounds_without_jobs_do_not_rotate_blind_types() {
    let second = |visited: bool| {
        let gavel = Gavel::new(shares::Proportional);
        let policy = composed(gavel, InOrder::new(Consolidated::default()));
        let mut run = Scenario::new(&"1x1:k80,1x1:v100".parse().unwrap(), policy);
        run.submit(0.0, job(1, 0.0, 300.0));
        run.round(0.0);
        run.ended(200.0, 0);
        run.round(300.0);
        if visited {
            run.round(600.0);
        }
        run.submit(610.0, job(1, 0.0, 300.0));
        run.round(900.0);
        run.gpus(1)
    };
    assert_eq!(second(true), second(false));
}

#[test]
fn shockwave_plans_anew_after_the_given_rounds() {
    let shockwave = Shockwave::new(Market::DEFAULT).every(2);
    let policy = composed(shockwave, Leases::new(Consolidated::default()));
    let mut run = Scenario::new(&ClusterSpec::uniform(1, 4), policy);
    run.submit(0.0, job(1, 0.0, 1e6));
    let mut left = Vec::new();
    for round in 0..5 {
        run.round(120.0 * f64::from(round));
        let saved = run.policy.save().unwrap().unwrap();
        left.push(saved["scheduling"]["plan"].as_array().unwrap().len());
    }
    assert_eq!(left, [19, 18, 19, 18, 19]);
}

/// Forecaster that is never called.
struct NoForecast;

impl Forecaster for NoForecast {
    fn forecast(&self, _: &State, _: &dyn Scheduler, _: Horizon) -> Forecast {
        Forecast::default()
    }
}

#[test]
fn placement_wrapper_forwards_the_validity() {
    let easy = || EasyBackfill::new(Consolidated::default());
    let plain = || composed(Fifo::default(), easy());
    let synthesizer = Synthesizer::new(plain(), Arc::new(NoForecast));
    let policies = [
        plain(),
        composed(Fifo::default(), Migrating::new(easy())),
        synthesizer
            .compose(Composition::new("synthesizer"))
            .build()
            .unwrap(),
    ];
    for policy in policies {
        let mut run = Scenario::new(&ClusterSpec::uniform(1, 4), policy);
        run.submit_all(0.0, [2, 4].map(|gpus| job(gpus, 0.0, 10_000.0)));
        run.round(0.0);
        let validity = run.policy.plan(run.core.view(), &mut Plan::default());
        // The second job has a reservation.
        assert_eq!(validity, Ok(Validity::NextRound));
    }
}

/// Creates a job that leaves room for another one like it.
fn half_busy(speeds: Option<TypeSpeeds>) -> JobSpec {
    with(job(2, 0.0, 1e6), |extras| {
        extras.attributes = [("gpu_utilisation".into(), 0.4.into())].into();
        extras.speeds = speeds.map(Arc::new);
    })
}

/// Both jobs on both GPUs.
fn both() -> (Option<Vec<u32>>, Option<Vec<u32>>) {
    (Some(vec![0, 1]), Some(vec![0, 1]))
}

/// Time slices of a minute that pack jobs.
fn gandiva() -> Pipeline {
    let gandiva = Gandiva::new(Seconds::new(60.0));
    composed(gandiva, InOrder::new(Consolidated::default()))
}

#[test]
fn a_pair_on_slow_gpus_is_not_taken_for_a_slow_pair() {
    let mut run = Scenario::new(&"1x2:k80".parse().unwrap(), gandiva());
    let mut speeds = TypeSpeeds::default();
    speeds.set("k80", 0.3);
    run.submit_all(0.0, vec![half_busy(Some(speeds)); 2]);
    run.rate = |_| 0.27;
    run.round(0.0);
    run.round(60.0);
    for at in [120.0, 180.0] {
        run.round(at);
        assert_eq!((run.gpus(0), run.gpus(1)), both());
    }
}

#[test]
fn pair_with_one_job_starting_is_not_a_slow_pair() {
    let mut run = Scenario::new(&ClusterSpec::uniform(1, 2), gandiva());
    run.submit_all(0.0, vec![half_busy(None); 2]);
    run.rate = |_| 0.9;
    for at in [0.0, 60.0, 120.0] {
        run.round(at);
    }
    run.crashed(130.0, 0, 2, 0.0);
    run.decide(180.0);
    run.decide(240.0);
    run.settle(240.0);
    run.round(300.0);
    assert_eq!((run.gpus(0), run.gpus(1)), both());
}

#[test]
fn only_profiled_jobs_leave_at_the_limit() {
    let settings = ProfilingSettings {
        nodes: 1,
        ..ProfilingSettings::DEFAULT
    };
    let placement = || Profiling::new(settings.clone(), PackingLimits::DEFAULT, Oracle);
    let lucid = || composed(Qssf::default(), placement());
    // The last node profiles; the node before it would profile, too, if more jobs waited.
    let mut run = Scenario::new(&"7x4:v100,1x4:k80".parse().unwrap(), lucid());
    run.submit_all(0.0, vec![of_type(4, "v100", 10_000.0); 7]);
    run.submit(0.0, job(1, 0.0, 10_000.0));
    run.round(0.0);
    assert_eq!(run.gpus(6), Some(vec![24, 25, 26, 27]));
    assert_eq!(run.gpus(7), Some(vec![28]));
    let saved = run.policy.save().unwrap().unwrap();
    run.policy = Box::new(lucid());
    run.policy.restore(saved).unwrap();
    // A plan that is not applied takes no job off the profiler; the next plan does.
    let later = Time::new(300.0);
    run.core.consult(later, &mut *run.policy).unwrap();
    run.round(300.0);
    assert_eq!(run.gpus(6), Some(vec![24, 25, 26, 27]));
    assert_eq!(run.gpus(7), None);
    assert_eq!(run.core.counters().preemptions, 1);
}

#[test]
fn pollux_searches_with_the_smallest_population() {
    for population in [0, 1] {
        let settings = PolluxSettings {
            population,
            ..PolluxSettings::DEFAULT
        };
        let pollux = Pollux::new(settings).compose(Composition::new("pollux"));
        let mut run = Scenario::new(&ClusterSpec::uniform(1, 4), pollux.build().unwrap());
        run.submit_all(0.0, vec![job(2, 0.0, 10_000.0); 2]);
        run.round(0.0);
        assert_eq!(run.gpus(0), Some(vec![0, 1]));
        assert_eq!(run.gpus(1), Some(vec![2, 3]));
    }
}

#[test]
fn pollux_without_generations_takes_best_mutation() {
    let settings = PolluxSettings {
        generations: 0,
        ..PolluxSettings::DEFAULT
    };
    let pollux = Pollux::new(settings).compose(Composition::new("pollux"));
    let mut run = Scenario::new(&ClusterSpec::uniform(1, 4), pollux.build().unwrap());
    run.submit(0.0, job(2, 0.0, 10_000.0));
    run.round(0.0);
    assert_eq!(run.gpus(0), Some(vec![0, 1]));
}

#[test]
fn buddy_restarts_no_job_on_the_same_gpus() {
    let policy = composed(TimeSlicing::new(Seconds::new(60.0)), Buddy);
    let mut run = Scenario::new(&"1x8:t4,1x8:v100".parse().unwrap(), policy);
    run.submit(0.0, job(15, 0.0, 10_000.0));
    run.round(0.0);
    // The free GPU is of another type, so the first job leaves one of the type that the second needs.
    run.submit(10.0, of_type(1, "t4", 10_000.0));
    run.round(300.0);
    assert_eq!(run.gpus(1), Some(vec![0]));
    assert_eq!(run.round(600.0), "");
}

#[test]
fn non_sticky_without_preemption_places_running_first() {
    for preempts in [false, true] {
        let newest_first = scheduling_fn(move |view, out: &mut JobQueue| {
            let mut jobs: Vec<_> = view.active().collect();
            jobs.reverse();
            jobs.iter().for_each(|job| out.push(Request::gang(job)));
            if preempts {
                out.allow_preemption();
            }
            Validity::NextRound
        });
        let placement = NonSticky::new(Consolidated::default());
        let policy = composed(newest_first, placement);
        let mut run = Scenario::new(&ClusterSpec::uniform(1, 4), policy);
        run.submit(0.0, job(3, 0.0, 10_000.0));
        run.round(0.0);
        run.submit(10.0, job(2, 0.0, 10_000.0));
        run.decide(300.0);
        let runs = [0, 1].map(|n| run.gpus(n).is_some());
        assert_eq!(runs, [!preempts, preempts]);
    }
}

#[test]
fn a_job_over_its_quota_is_deferred_once() {
    let quota = Quota::new(QuotaBy::User, GpuCount(4));
    let policy = composed(Fifo::default(), InOrder::new(Consolidated::default()));
    let policy = policy.with_admission(quota.clone()).unwrap();
    let mut run = Scenario::new(&ClusterSpec::uniform(1, 8), policy);
    run.submit_all(0.0, vec![job(3, 0.0, 10_000.0); 3]);
    run.round(0.0);
    let answers = |run: &Scenario| {
        let mut admissions = AdmissionDecisions::default();
        quota.admit(&mut (), run.core.view(), &[], &mut admissions);
        admissions.iter().map(|(job, _)| job.0).collect::<Vec<_>>()
    };
    assert_eq!(answers(&run), [0; 0]);
    run.ended(10.0, 0);
    assert_eq!(answers(&run), [1]);
}
