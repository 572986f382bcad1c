//! Elastic shares with deadlines, CPUs given up by peers, shapes and batches.

use super::harness::*;
use blox_core::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Profiled iterations a second at the levels 1, 2 and 4.
fn profiled(gpus: usize) -> f64 {
    [0.0, 1.0, 1.8, 1.8, 3.0][gpus]
}

/// Admission and scheduling in one policy: admission plans for all jobs, and rejects a job that
/// would make another one late.
struct ElasticFlow;

#[derive(Clone, Default, Serialize, Deserialize)]
struct Planned {
    plan: BTreeMap<JobId, u32>,
    planned: u32,
}

impl Policy for ElasticFlow {
    type Memory = Planned;

    fn initial(&self, _: u64) -> Planned {
        Planned::default()
    }

    fn on_event(&self, memory: &mut Planned, _: View<'_>, event: &Event) {
        if let Event::Ended { job, .. } = event {
            memory.plan.remove(job);
        }
    }
}

impl ElasticFlow {
    /// Returns the smallest level that meets the deadline from now on.
    fn minimum_share(view: View<'_>, job: JobId) -> Option<u32> {
        let job = view.job(job)?;
        let left = job.deadline()? - view.now();
        let mut levels = job.spec().extras().levels.iter().map(|l| l.get());
        levels.find(|l| job.truth().work_left() <= profiled(*l as usize) * left.secs() + 1e-9)
    }

    /// Plans the minimum of all jobs, then assigns the rest to the first jobs that can double.
    fn plan_all(view: View<'_>, jobs: &[JobId]) -> Option<BTreeMap<JobId, u32>> {
        let room = view.usable_gpus().get();
        let mut plan = BTreeMap::new();
        for j in jobs {
            plan.insert(*j, ElasticFlow::minimum_share(view, *j)?);
        }
        let mut left = room.checked_sub(plan.values().sum())?;
        while let Some((_, share)) = plan.iter_mut().find(|(_, s)| **s <= left && **s < 4) {
            left -= *share;
            *share *= 2;
        }
        Some(plan)
    }
}

impl AdmissionPolicy for ElasticFlow {
    fn admit(
        &self,
        memory: &mut Self::Memory,
        view: View<'_>,
        asking: &[JobId],
        out: &mut AdmissionDecisions,
    ) -> Validity {
        let mut jobs: Vec<JobId> = memory.plan.keys().copied().collect();
        for &job in asking {
            jobs.push(job);
            match ElasticFlow::plan_all(view, &jobs) {
                Some(plan) => {
                    memory.plan = plan;
                    memory.planned += 1;
                    out.accept(job);
                }
                None => {
                    jobs.pop();
                    out.reject(job, Reason::DeadlineUnreachable);
                }
            }
        }
        Validity::UntilEvent
    }
}

impl SchedulingPolicy for ElasticFlow {
    fn schedule(&self, memory: &mut Self::Memory, view: View<'_>, out: &mut JobQueue) -> Answer {
        let jobs: Vec<JobId> = memory.plan.keys().copied().collect();
        // The plan of admission stays valid; only the end of a job requires a new one.
        if view.waiting_count() == 0
            && let Some(plan) = ElasticFlow::plan_all(view, &jobs)
        {
            memory.plan = plan;
        }
        for (job, gpus) in &memory.plan {
            out.push(Request::with_shape(*job, Shape::gpus(GpuCount(*gpus))));
        }
        Ok(Validity::UntilEvent)
    }
}

/// Grows and shrinks jobs in place.
fn in_place() -> impl PlacementPolicy {
    placement_fn(|requests, draft| {
        let wanted = |r: &Request| r.shapes[0].gpus.get() as usize;
        let list = requests.all(draft.view()).into_owned();
        for shrinking in [true, false] {
            for r in &list {
                let Some(now) = draft.current(r.job).cloned() else {
                    if !shrinking {
                        let free: GpuList = draft.free_gpus_on(NodeId(0)).take(wanted(r)).collect();
                        draft.assign(r.job, Assignment::of(free))?;
                    }
                    continue;
                };
                let mut gpus = now.gpus.clone();
                gpus.truncate(wanted(r));
                let more = wanted(r) - gpus.len();
                if gpus.len() == now.gpus.len() && more == 0 || shrinking == (more > 0) {
                    continue;
                }
                gpus.extend(draft.free_gpus_on(NodeId(0)).take(more));
                draft.reassign(r.job, Assignment::of(gpus))?;
            }
        }
        Ok(Validity::UntilEvent)
    })
}

fn elastic(work: f64, deadline: f64) -> JobSpec {
    job(4, work).with_extras(Extras {
        levels: vec![GpuCount(1), GpuCount(2), GpuCount(4)],
        deadlines: vec![Deadline {
            at: t(deadline),
            value: 1.0,
        }],
        ..Extras::default()
    })
}

#[test]
fn elastic_flow_admits_by_the_plan_and_schedules_it() {
    let policy = Composition::new("elastic-flow")
        .joint(ElasticFlow, |roles| roles.admission().scheduling())
        .placement(in_place())
        .build()
        .unwrap();
    let mut b = case("1x4", OnEvent::default(), policy);
    b.rate = profiled;
    // The minimum shares are 1 and 2; a third job would need 2 more.
    b.submit(0.0, elastic(100.0, 100.0));
    b.submit(0.0, elastic(170.0, 100.0));
    b.submit(0.0, elastic(170.0, 100.0));
    assert_eq!(b.round(0.0), "reject 2; place 0 on 0 1; place 1 on 2 3");
    assert_eq!(b.phases(), "0 running, 1 running");
    // A later job fits at its minimum if job 0 returns its additional GPU. At 10 s, 82 of 100
    // iterations are left, so that one GPU is enough.
    b.submit(10.0, elastic(80.0, 100.0));
    assert_eq!(b.decide(10.0), "place 0 on 0; place 3 on 1");
    assert_eq!(b.take_commands(), "change 0.2");
    b.started(10.0, 0, 2);
    assert_eq!(b.take_commands(), "start 3.1");
    b.started(10.0, 3, 1);
    // After the end of a job, another one grows in place, without a stop.
    b.ended(60.0, 3);
    assert_eq!(b.round(60.0), "place 0 on 0 1");
    b.ended(80.0, 0);
    assert_eq!(b.round(80.0), "place 1 on 2 3 0 1");
    assert_eq!(b.phases(), "1 running");
    let j = b.job(1);
    assert_eq!((j.preemptions(), j.attempt(), j.rate()), (0, 2, 3.0));
    assert_eq!(j.work_done(), 144.0);
}

const PROPORTIONAL: f64 = 3.0;

/// First in, first out by GPUs. A job without its requested CPUs takes them from peers that have
/// more than their proportional share.
fn tune() -> impl PlacementPolicy {
    placement_fn(|requests, draft| {
        let node = NodeId(0);
        let list = requests.all(draft.view()).into_owned();
        let mut there: Vec<JobId> = list
            .iter()
            .map(|r| r.job)
            .filter(|j| draft.current(*j).is_some())
            .collect();
        for r in &list {
            if draft.current(r.job).is_some() {
                continue;
            }
            let shape = &r.shapes[0];
            let Some(gpus) = draft.take_from(node, shape.gpus.get()) else {
                continue;
            };
            let mut wanted = Assignment::of(gpus);
            wanted.cpus = shape.cpus;
            let before = draft.savepoint();
            for peer in there.iter().rev() {
                if draft.free_cpus_on(node) >= wanted.cpus {
                    break;
                }
                let mut less = draft.current(*peer).unwrap().clone();
                less.cpus = less.cpus.min(PROPORTIONAL * less.gpus.len() as f64);
                draft.reassign(*peer, less)?;
            }
            if draft.free_cpus_on(node) < wanted.cpus {
                // If it still does not fit, no job gives up anything for it.
                draft.rollback(before);
                continue;
            }
            draft.assign(r.job, wanted)?;
            there.push(r.job);
        }
        Ok(Validity::UntilEvent)
    })
}

fn with_cpus(cpus: f64) -> JobSpec {
    job(1, 1e6).with_extras(Extras {
        cpus,
        ..Extras::default()
    })
}

fn node_with_cpus() -> ClusterSpec {
    let mut node = NodeSpec::with_gpus(4);
    (node.cpus, node.memory_gib) = (12.0, 100.0);
    ClusterSpec {
        nodes: vec![node],
        ..ClusterSpec::default()
    }
}

#[test]
fn synergy_tune_takes_cpus_from_peers_placed_before() {
    let everybody = scheduling_fn(|view: View<'_>, out: &mut JobQueue| {
        list(view.active(), out);
        Validity::NextRound
    });
    let policy = composed("synergy", everybody, tune());
    let mut b = Scenario::deciding(&node_with_cpus(), rounds(300.0), policy);
    b.submit_all(0.0, [with_cpus(8.0), with_cpus(6.0), with_cpus(12.0)]);
    // Job 0 was placed with 8 CPUs earlier in this decision. Job 2 gets nothing, and the CPUs taken
    // for it are returned.
    assert_eq!(
        b.round(0.0),
        "place 0 on 0 with 3 cpus; place 1 on 1 with 6 cpus"
    );
    let node = b.core.state().cluster().node(NodeId(0)).unwrap();
    assert_eq!(node.free_cpus(), 3.0);
    // A running job gives up some CPUs in place, without a stop.
    b.submit(10.0, with_cpus(5.0));
    assert_eq!(
        b.decide(300.0),
        "place 1 on 1 with 3 cpus; place 3 on 2 with 5 cpus"
    );
    assert_eq!(b.take_commands(), "change 1.2; start 3.1");
    let node = b.core.state().cluster().node(NodeId(0)).unwrap();
    assert_eq!(node.free_cpus(), 1.0);
}

#[test]
fn cpus_and_memory_are_not_given_twice() {
    let with = |n: u32, gpu: u32, cpus: f64, memory_gib: f64| {
        let mut assignment = on(&[gpu]);
        (assignment.cpus, assignment.memory_gib) = (cpus, memory_gib);
        Action::Place {
            job: JobId(n),
            assignment,
        }
    };
    let plans = [
        vec![with(0, 0, 8.0, 60.0), with(1, 1, 6.0, 0.0)],
        vec![with(0, 0, 8.0, 60.0), with(1, 1, 4.0, 41.0)],
        vec![with(0, 0, 8.0, 60.0), with(1, 1, 4.0, 40.0)],
        // CPUs that a job gives up in a plan are free for another job in the same plan, in any
        // order.
        vec![with(2, 2, 5.0, 0.0), with(0, 0, 3.0, 60.0)],
    ];
    let mut b = Scenario::deciding(&node_with_cpus(), rounds(300.0), Scripted::new(plans));
    b.submit_all(0.0, vec![job(1, 1e6); 3]);
    assert_eq!(
        b.try_decide(0.0).unwrap_err().to_string(),
        "policy `scripted`: the plan gives job 1 CPUs on node 0, which then holds 14 of 12"
    );
    assert_eq!(
        b.try_decide(300.0).unwrap_err().to_string(),
        "policy `scripted`: the plan gives job 1 memory on node 0, which then holds 101 of 100"
    );
    b.round(600.0);
    b.round(900.0);
    assert_eq!(b.phases(), "0 running, 1 running, 2 running");
    // The shorthand specifies no CPUs of nodes, so they are not counted.
    let mut b = case(
        "1x1",
        rounds(300.0),
        Scripted::new([vec![with(0, 0, 8.0, 0.0)]]),
    );
    b.submit(0.0, job(1, 1e6));
    assert_eq!(b.decide(0.0), "place 0 on 0 with 8 cpus");
}

/// Shapes of (type, count), best goodput first. It depends on the batch that the job itself chose.
fn sia() -> impl SchedulingPolicy {
    scheduling_fn(|view: View<'_>, out: &mut JobQueue| {
        let ty = |name: &str| {
            view.cluster()
                .gpu_types()
                .find(name)
                .map(|n| GpuTypeId(n.0))
        };
        for job in view.active() {
            let batch = job.config().get("batch_per_gpu");
            let large = batch.is_some_and(|samples| samples >= 64.0);
            let (gpus, name) = if large { (2, "a100") } else { (1, "t4") };
            let mut best = Shape::gpus(GpuCount(gpus));
            best.gpu_type = ty(name);
            let mut second = Shape::gpus(GpuCount(1));
            second.gpu_type = ty("a100");
            let mut request = Request::with_shape(job.id(), best);
            request.shapes.push(second);
            out.push(request);
        }
        Validity::UntilEvent
    })
}

#[test]
fn sia_shapes_follow_the_batch_that_a_job_chose() {
    let policy = composed("sia", sia(), Shapes);
    let mut b = case("2x1:t4,1x4:a100", OnEvent::default(), policy);
    b.submit_all(0.0, vec![job(1, 1e6); 3]);
    // The third job finds no t4 and takes its second shape.
    assert_eq!(b.round(0.0), "place 0 on 0; place 1 on 1; place 2 on 2");
    let config = Config::of([("batch_per_gpu", 64.0)]);
    b.event(
        100.0,
        Event::BatchChanged {
            job: JobId(0),
            config: config.clone(),
        },
    );
    assert_eq!(b.job(0).config(), &config);
    assert_eq!(b.core.due(), Some(t(100.0)));
    assert_eq!(
        b.decide(100.0),
        "stop 0; stop 2; place 0 on 2 3; place 2 on 0"
    );
}
