//! Invalid compositions, and memories of the policies of a composition.

use crate::functions::{by_submission, composed, list_all};
use blox_core::order::SortKey;
use blox_core::policy::{AcceptAll, StaticCluster, by_key};
use blox_core::runtime::Runtime;
use blox_core::*;
use blox_testing::{FirstFit, StepByStep, conformance};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::{Arc, Mutex};

/// A cluster of one node with two GPUs.
fn world() -> Runtime {
    let trigger = Rounds::every(Seconds::new(300.0)).unwrap();
    let state = State::new(&ClusterSpec::uniform(1, 2)).unwrap();
    Runtime::new(state, Box::new(trigger))
}

/// Ends the running jobs, submits three, decides, and returns the applied plan.
fn round(core: &mut Runtime, n: u32, policy: &mut Pipeline) -> Vec<Action> {
    let at = Time::new(300.0 * f64::from(n));
    let running = core.view().placed().filter(|j| j.phase() == Phase::Running);
    for job in running.map(|j| j.id()).collect::<Vec<_>>() {
        let outcome = Outcome::Completed;
        let ended = Event::Ended { job, outcome };
        core.event(at, &ended, policy).unwrap();
    }
    for _ in 0..3 {
        let spec = Arc::new(JobSpec::new(at, GpuCount(1), Seconds::new(1e4)));
        let job = core.state().next_job_id();
        core.event(at, &Event::Submitted { job, spec }, policy)
            .unwrap();
    }
    core.decide(at, policy).unwrap();
    let plan = core.decision().plan.actions.clone();
    let mut commands = Vec::new();
    core.take_commands(&mut commands);
    for command in commands {
        let Command::Start { job, attempt } = command else {
            panic!("expected launches alone, found {command:?}");
        };
        let rate = 1.0;
        let started = Event::Started { job, attempt, rate };
        core.event(at, &started, policy).unwrap();
    }
    // The core continues after a panic in `on_event` or `on_launches`, and counts it.
    assert_eq!(core.observers().failed(), 0);
    plan
}

/// Saves the memory of a scheduler as text, and restores it in another one.
fn restart(from: &Pipeline, into: &mut Pipeline) {
    let text = from.save().unwrap().unwrap().to_string();
    into.restore(serde_json::from_str(&text).unwrap()).unwrap();
}

/// Accepts, orders and places jobs, and counts all of its calls.
struct Gate;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Counts {
    seed: u64,
    admissions: u32,
    schedules: u32,
    submissions: u32,
    plans: u32,
}

impl Policy for Gate {
    type Memory = Counts;

    fn initial(&self, seed: u64) -> Counts {
        let none = Counts::default();
        Counts { seed, ..none }
    }

    fn on_event(&self, counts: &mut Counts, _: View<'_>, event: &Event) {
        counts.submissions += u32::from(matches!(event, Event::Submitted { .. }));
    }

    fn on_launches(&self, counts: &mut Counts, _: View<'_>, _: &Plan) {
        counts.plans += 1;
    }
}

impl AdmissionPolicy for Gate {
    fn admit(
        &self,
        counts: &mut Counts,
        _: View<'_>,
        asking: &[JobId],
        out: &mut AdmissionDecisions,
    ) -> Validity {
        // Both roles share their counts.
        assert_eq!(counts.admissions, counts.schedules);
        counts.admissions += 1;
        asking.iter().for_each(|&job| out.accept(job));
        Validity::UntilEvent
    }
}

impl SchedulingPolicy for Gate {
    fn schedule(&self, counts: &mut Counts, view: View<'_>, out: &mut JobQueue) -> Answer {
        counts.schedules += 1;
        assert_eq!(counts.admissions, counts.schedules);
        by_submission().schedule(&mut (), view, out)
    }
}

impl PlacementPolicy for Gate {
    fn place(&self, _: &mut Counts, requests: &mut JobQueue, draft: &mut Draft<'_>) -> Answer {
        FirstFit.place(&mut (), requests, draft)
    }
}

fn gated() -> Composition {
    Composition::new("gate")
        .joint(Gate, |roles| roles.scheduling().admission())
        .placement(FirstFit)
}

fn error(composition: Composition) -> ComposeError {
    composition.build().err().expect("the parts do not fit")
}

#[test]
fn two_parts_for_one_role_are_refused() {
    let complete = || {
        Composition::new("both")
            .cluster(StaticCluster)
            .admission(AcceptAll)
            .scheduling(by_submission())
            .placement(FirstFit)
    };
    assert!(complete().build().is_ok());
    let twice = |role| {
        let name = "both".into();
        ComposeError::Twice { name, role }
    };
    let second = complete().cluster(StaticCluster);
    assert_eq!(error(second), twice(Role::Cluster));
    let second = complete().admission(AcceptAll);
    assert_eq!(error(second), twice(Role::Admission));
    let second = complete().scheduling(by_submission());
    assert_eq!(error(second), twice(Role::Scheduling));
    let second = complete().placement(FirstFit);
    assert_eq!(error(second), twice(Role::Placement));
    assert_eq!(
        twice(Role::Placement).to_string(),
        "scheduler `both`: two components have the role `placement`, expected one"
    );
}

#[test]
fn a_role_of_a_joint_part_is_taken() {
    let twice = |role| {
        let name = "gate".into();
        ComposeError::Twice { name, role }
    };
    assert_eq!(
        error(gated().admission(AcceptAll)),
        twice(Role::Admission),
        "after it"
    );
    let before = Composition::new("gate").admission(AcceptAll);
    let before = before.joint(Gate, |roles| roles.scheduling().admission());
    assert_eq!(error(before.placement(FirstFit)), twice(Role::Admission));
    // If there are several errors, the first is reported.
    let several = gated().scheduling(by_submission()).admission(AcceptAll);
    assert_eq!(error(several), twice(Role::Scheduling));
}

#[test]
fn a_role_without_a_default_is_missed() {
    let missing = |role| {
        let name = "part".into();
        ComposeError::Missing { name, role }
    };
    let unordered = Composition::new("part").placement(FirstFit);
    assert_eq!(error(unordered), missing(Role::Scheduling));
    let unplaced = Composition::new("part").scheduling(by_submission());
    assert_eq!(error(unplaced), missing(Role::Placement));
    assert_eq!(
        missing(Role::Scheduling).to_string(),
        "scheduler `part`: no component has the role `scheduling`, expected one"
    );
}

#[test]
fn a_part_without_a_role_is_refused() {
    let idle = gated().joint(Gate, |roles| roles);
    let expected = "scheduler `gate`: a component has no role, expected at least one";
    assert_eq!(error(idle).to_string(), expected);
}

#[test]
fn a_role_named_twice_by_one_part_is_one_role() {
    let gate = Composition::new("gate").joint(Gate, |roles| roles.scheduling().scheduling());
    let policy = gate.placement(FirstFit).build().unwrap();
    assert_eq!(policy.roles_beside(Role::Scheduling), [Role::Scheduling]);
}

#[test]
fn a_role_that_is_taken_with_others_is_not_replaced() {
    let joint = Composition::new("gate")
        .joint(Gate, |roles| roles.scheduling().placement())
        .build()
        .unwrap();
    let both = [Role::Scheduling, Role::Placement];
    assert_eq!(joint.roles_beside(Role::Placement), both);
    let shared = ComposeError::Shared {
        name: "gate".into(),
        role: Role::Placement,
        roles: "scheduling+placement".into(),
    };
    let refused = joint.clone().with_placement(FirstFit).err();
    assert_eq!(refused.as_ref(), Some(&shared));
    assert_eq!(
        shared.to_string(),
        "scheduler `gate`: one component has the roles scheduling+placement, \
         so no other component can have `placement`"
    );
    // Roles that the policy does not have are free.
    let joint = joint.with_admission(AcceptAll).unwrap();
    assert!(joint.with_cluster(StaticCluster).is_ok());

    let refused = gated().build().unwrap().with_admission(AcceptAll).err();
    assert_eq!(
        refused,
        Some(ComposeError::Shared {
            name: "gate".into(),
            role: Role::Admission,
            roles: "admission+scheduling".into(),
        })
    );
    assert!(gated().build().unwrap().with_placement(FirstFit).is_ok());
}

#[test]
fn a_joint_part_has_one_memory() {
    let mut policy = gated().seed(11).build().unwrap();
    let mut core = world();
    for n in 0..3 {
        assert_eq!(round(&mut core, n, &mut policy).len(), 2);
    }
    // Each event and plan is reported to the policy once, however many roles it has.
    let expected = Counts {
        seed: 11,
        admissions: 3,
        schedules: 3,
        submissions: 9,
        plans: 3,
    };
    assert_eq!(policy.policy::<Gate>().unwrap().1, &expected);
    let saved = policy.save().unwrap();
    assert_eq!(saved, Some(json!({ "admission+scheduling": expected })));
    let mut fresh = gated().build().unwrap();
    restart(&policy, &mut fresh);
    assert_eq!(fresh.policy::<Gate>().unwrap().1, &expected);
    // A clone continues separately.
    let mut clone = policy.clone();
    let mut ahead = Runtime::new(core.state().clone(), clone.trigger());
    round(&mut ahead, 3, &mut clone);
    assert_eq!(clone.policy::<Gate>().unwrap().1.plans, 4);
    assert_eq!(policy.policy::<Gate>().unwrap().1, &expected);

    let two = Composition::new("two")
        .admission(Gate)
        .scheduling(by_submission())
        .placement(FirstFit);
    let error = two.build().unwrap().restore(saved.unwrap()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot restore the memory of a policy: no component has the roles `admission+scheduling`"
    );
}

#[test]
fn seeds_reach_the_memories() {
    let policy = gated().seed(7).build().unwrap();
    let seed = |policy: &Pipeline| policy.policy::<Gate>().unwrap().1.seed;
    assert_eq!(seed(&policy), 7);
    let mut policy = policy.with_seed(8);
    assert_eq!(seed(&policy), 8);
    // With a seed, it starts from its initial memory.
    round(&mut world(), 0, &mut policy);
    assert_eq!(policy.policy::<Gate>().unwrap().1.plans, 1);
    let policy = policy.with_seed(9);
    let start = Gate.initial(9);
    assert_eq!(policy.policy::<Gate>().unwrap().1, &start);
    // A policy that is added later also gets the seed.
    let plain = composed("plain", by_submission(), FirstFit).with_seed(10);
    assert!(plain.policy::<Gate>().is_none());
    assert_eq!(seed(&plain.with_admission(Gate).unwrap()), 10);
}

/// First in, first out; in reverse order while an odd number of jobs have ended.
struct Moody;

impl Policy for Moody {
    /// Number of ended jobs.
    type Memory = u32;

    fn initial(&self, _: u64) -> u32 {
        0
    }

    fn on_event(&self, ended: &mut u32, _: View<'_>, event: &Event) {
        *ended += u32::from(matches!(event, Event::Ended { .. }));
    }
}

impl SchedulingPolicy for Moody {
    fn schedule(&self, ended: &mut u32, view: View<'_>, out: &mut JobQueue) -> Answer {
        list_all(view, *ended % 2 == 1, out);
        Ok(Validity::UntilEvent)
    }
}

/// A decorator that skips some decisions at random.
struct Pausing<P>(P);

impl<P: SchedulingPolicy> Policy for Pausing<P> {
    type Memory = With<u64, P::Memory>;

    fn initial(&self, seed: u64) -> Self::Memory {
        let inner = self.0.initial(seed);
        With { own: seed, inner }
    }

    fn check_job(&self, job: &Submission) -> Result<(), MissingData> {
        self.0.check_job(job)
    }

    fn on_event(&self, memory: &mut Self::Memory, view: View<'_>, event: &Event) {
        self.0.on_event(&mut memory.inner, view, event);
    }

    fn on_launches(&self, memory: &mut Self::Memory, view: View<'_>, plan: &Plan) {
        self.0.on_launches(&mut memory.inner, view, plan);
    }
}

impl<P: SchedulingPolicy> SchedulingPolicy for Pausing<P> {
    fn schedule(&self, memory: &mut Self::Memory, view: View<'_>, out: &mut JobQueue) -> Answer {
        let state = &mut memory.own;
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        if z >> 62 != 0 {
            self.0.schedule(&mut memory.inner, view, out)?;
        }
        Ok(Validity::NextRound)
    }
}

fn moody(part: impl SchedulingPolicy) -> Pipeline {
    composed("moody", part, FirstFit).with_seed(5)
}

#[test]
fn the_memory_of_a_decorator_is_restored() {
    let mut policy = moody(Pausing(Moody));
    let mut core = world();
    let first: Vec<_> = (0..4).map(|n| round(&mut core, n, &mut policy)).collect();
    let memory = policy.policy::<Pausing<Moody>>().unwrap().1.clone();
    let placed = first.iter().map(Vec::len).sum::<usize>() as u32;
    let running = core.view().placed().count() as u32;
    assert!(running < placed, "{first:?}");
    let own = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(4).wrapping_add(5);
    let inner = placed - running;
    assert_eq!(memory, With { own, inner });
    let saved = json!({ "scheduling": { "own": own, "inner": inner } });
    assert_eq!(policy.save().unwrap(), Some(saved));

    let mut again = moody(Pausing(Moody)).with_seed(6);
    assert_ne!(again.policy::<Pausing<Moody>>().unwrap().1, &memory);
    restart(&policy, &mut again);
    assert_eq!(again.policy::<Pausing<Moody>>().unwrap().1, &memory);
    let state = serde_json::to_string(core.state()).unwrap();
    let state = serde_json::from_str(&state).unwrap();
    let mut restarted = Runtime::new(state, again.trigger());
    let mut pauses = 0;
    for n in 4..12 {
        let expected = round(&mut core, n, &mut policy);
        assert_eq!(round(&mut restarted, n, &mut again), expected, "round {n}");
        pauses += u32::from(expected.is_empty());
    }
    assert!((1..8).contains(&pauses), "{pauses}");
    assert_eq!(again.save().unwrap(), policy.save().unwrap());

    let wrong = json!({ "scheduling": { "own": 5 } });
    let error = policy.restore(wrong).unwrap_err();
    assert_eq!(
        error.to_string(),
        "scheduling: cannot restore the memory of a policy: found no field `inner`"
    );
}

#[test]
fn a_part_behind_a_pointer_is_a_part() {
    let part: Arc<dyn AnyScheduling> = Arc::new(Moody);
    let mut policy = moody(Arc::clone(&part));
    let mut plain = moody(Moody);
    let (mut core, mut beside) = (world(), world());
    for n in 0..8 {
        let expected = round(&mut beside, n, &mut plain);
        assert_eq!(round(&mut core, n, &mut policy), expected, "round {n}");
    }
    assert_eq!(policy.save().unwrap(), plain.save().unwrap());
    let (_, memory) = policy.policy::<Arc<dyn AnyScheduling>>().unwrap();
    assert_eq!(memory.get::<u32>(), Some(&14));
    // The policy is also found behind its pointer.
    assert_eq!(policy.policy::<Moody>().unwrap().1, &14);
    // One policy in two schedulers has a separate memory in each.
    let other = moody(Arc::clone(&part));
    let (_, memory) = other.policy::<Arc<dyn AnyScheduling>>().unwrap();
    assert_eq!(memory.get::<u32>(), Some(&0));
    // The memories of a pointer and of its target have the same saved form.
    let mut restored = moody(Moody);
    restart(&policy, &mut restored);
    assert_eq!(restored.policy::<Moody>().unwrap().1, &14);
    let error = policy
        .restore(json!({ "scheduling": "seven" }))
        .unwrap_err();
    assert!(error.to_string().starts_with("scheduling: "), "{error}");
}

#[test]
fn a_part_with_memory_misses_its_entry() {
    let mut policy = moody(Moody);
    let error = policy.restore(json!({})).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot restore the memory of a policy: found nothing for the part with the roles `scheduling`"
    );
}

#[test]
fn decorators_and_pointers_conform() {
    let pointer = || Arc::new(Moody) as Arc<dyn AnyScheduling>;
    let builders: [&(dyn Fn() -> Pipeline + Sync); 3] =
        [&|| moody(Pausing(Moody)), &|| moody(pointer()), &|| {
            moody(Pausing(pointer()))
        }];
    for build in builders {
        let report = conformance(|seed| build().with_seed(seed))
            .cases(32)
            .check();
        match report {
            Ok(report) => assert!(report.shadows > 25, "{report:?}"),
            Err(failure) => panic!("{failure}"),
        }
    }
}

#[test]
fn policies_are_notified_of_launches_once_a_plan() {
    /// Records its calls.
    struct Listener(Arc<Mutex<Vec<String>>>);
    impl Policy for Listener {
        type Memory = u8;

        fn initial(&self, _: u64) -> u8 {
            0
        }

        fn on_event(&self, _: &mut u8, _: View<'_>, event: &Event) {
            let launch = matches!(event, Event::Started { .. } | Event::Stopped { .. });
            assert!(!launch, "{event:?}");
            if let Event::Submitted { spec, .. } = event {
                assert_eq!(spec.work.iterations, 0.0, "the true work");
            }
            if let Event::Ended { job, .. } = event {
                self.0.lock().unwrap().push(format!("end {job}"));
            }
        }

        fn on_launches(&self, _: &mut u8, view: View<'_>, plan: &Plan) {
            let mut line = String::from("plan");
            for action in &plan.actions {
                let Action::Place { job, .. } = action else {
                    panic!("expected placements alone, found {action:?}");
                };
                assert!(view.job(*job).unwrap().is_placed(), "as applied");
                line += &format!(" {job}");
            }
            self.0.lock().unwrap().push(line);
        }
    }
    impl ClusterManager for Listener {
        fn manage(&self, _: &mut u8, _: View<'_>, _: &mut NodeActions) -> Validity {
            Validity::UntilEvent
        }
    }
    let calls = Arc::<Mutex<Vec<String>>>::default();
    let policy = composed("listener", by_submission(), FirstFit);
    let mut policy = policy.with_cluster(Listener(Arc::clone(&calls))).unwrap();
    let mut core = world();
    round(&mut core, 0, &mut policy);
    // A decision without a plan is not reported.
    core.decide(Time::new(1.0), &mut policy).unwrap();
    assert!(core.decision().plan.is_empty());
    round(&mut core, 1, &mut policy);
    let so_far = || std::mem::take(&mut *calls.lock().unwrap()).join(", ");
    assert_eq!(so_far(), "plan 0 1, end 0, end 1, plan 2 3");

    // If it decides beside the loop, the plan is reported when it is applied.
    let mut core = world();
    let spec = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(1e4));
    let (job, spec) = (JobId(0), Arc::new(spec));
    let submitted = Event::Submitted { job, spec };
    core.event(Time::ZERO, &submitted, &mut policy).unwrap();
    let decision = core.consult(Time::ZERO, &mut policy).unwrap();
    assert_eq!(so_far(), "");
    core.apply(Time::ZERO, decision, &mut policy).unwrap();
    assert_eq!(so_far(), "plan 0");
}

#[test]
fn scheduler_without_memory_saves_and_restores_none() {
    let mut plain = composed("plain", by_submission(), FirstFit);
    assert_eq!(plain.save().unwrap(), None);
    let error = plain.restore(json!({ "cluster+placement": 1 }));
    assert_eq!(
        error.unwrap_err().to_string(),
        "cannot restore the memory of a policy: no component has the roles `cluster+placement`"
    );
    let error = plain.restore(json!([1])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot restore the memory of a policy: found [1], expected an entry a part"
    );
}

#[test]
fn check_too_large_job_is_refused_unless_it_grows() {
    /// Can request nodes.
    struct Grows;

    impl Stateless for Grows {}

    impl ClusterManager for Grows {
        fn manage(&self, (): &mut (), _: View<'_>, _: &mut NodeActions) -> Validity {
            Validity::UntilEvent
        }

        fn actions(&self) -> NodeActionKinds {
            NodeActionKinds::of(&[NodeActionKind::Grow])
        }
    }

    let pipeline = || composed("fifo", by_submission(), FirstFit);
    let job = |gpus| {
        let job = JobSpec::new(Time::ZERO, GpuCount(gpus), Seconds::new(1.0));
        Arc::new(job.owned_by("ada"))
    };
    let rule = pipeline().feasibility();
    assert_eq!(rule.check(&State::default(), &job(9)), Ok(()));
    let cluster: ClusterSpec = "1x4".parse().unwrap();
    let state = State::new(&cluster).unwrap();
    assert_eq!(rule.check(&state, &job(4)), Ok(()));
    assert_eq!(
        rule.check(&state, &job(9)),
        Err(Reason::never_fits(GpuCount(9), GpuCount(4)))
    );
    let offered = |gpus, cluster: &ClusterSpec| {
        let offer = Offer::new("big", NodeSpec::with_gpus(gpus), 1);
        let offers = vec![offer];
        let nodes = cluster.nodes.clone();
        State::new(&ClusterSpec {
            nodes,
            offers,
            ..ClusterSpec::default()
        })
        .unwrap()
    };
    let with = || pipeline().with_cluster(Grows).unwrap();
    let none = ClusterSpec::default();
    // Offers count if the manager requests nodes, also without any node.
    for (grows, state, most) in [
        (pipeline().awaiting_growth(true), state.clone(), 99),
        (with(), state.clone(), 4),
        (with(), offered(5, &cluster), 9),
        (with(), offered(5, &none), 5),
        (pipeline(), offered(5, &cluster), 4),
        (
            pipeline().with_cluster(StaticCluster).unwrap(),
            state.clone(),
            4,
        ),
    ] {
        let rule = grows.feasibility();
        assert_eq!(rule.check(&state, &job(most)), Ok(()));
        let too_many = rule.check(&state, &job(most + 1));
        let expected = match most {
            99 => Ok(()),
            most => Err(Reason::never_fits(GpuCount(most + 1), GpuCount(most))),
        };
        assert_eq!(too_many, expected);
        // The decision about the job is the same.
        let decided = |gpus| {
            let mut core = Runtime::new(state.clone(), Box::new(Rounds::default()));
            let mut policy = grows.clone();
            let (job, spec) = (JobId(0), job(gpus));
            let submitted = Event::Submitted { job, spec };
            core.event(Time::ZERO, &submitted, &mut policy).unwrap();
            core.decide(Time::ZERO, &mut policy).unwrap();
            core.view()
                .job(job)
                .is_some_and(|job| job.phase() != Phase::Ended)
        };
        assert_eq!([most, most + 1].map(decided), [true, too_many.is_ok()]);
    }
}

#[test]
fn rounds_without_a_length_are_refused_by_name() {
    for period in [0.0, -1.0] {
        let composition = Composition::new("fifo").in_rounds(Seconds::new(period));
        let built = composition
            .scheduling(by_submission())
            .placement(FirstFit)
            .build();
        let error = built.err().unwrap().to_string();
        let sentence = format!("scheduler `fifo`: a round takes {period} s, expected more than 0");
        assert_eq!(error, sentence);
    }
}

#[test]
fn job_without_needed_data_is_an_error_by_name() {
    let by_user = || {
        by_key(|_| SortKey::by(0.0)).checking(|job| match job.user {
            Some(_) => Ok(()),
            None => Err(MissingData("a user".into())),
        })
    };
    let job = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(60.0));
    let submit = |job: JobSpec| {
        let mut core = world();
        let (job, spec) = (JobId(0), Arc::new(job));
        let submitted = Event::Submitted { job, spec };
        // The decorator forwards the check.
        let mut policy = composed("by-user", Pausing(by_user()), FirstFit);
        core.event(Time::ZERO, &submitted, &mut policy).unwrap();
        core.decide(Time::ZERO, &mut policy).map(|_| ())
    };
    let sentence = "policy `by-user`: job 0 lacks a user";
    let error = submit(job.clone()).unwrap_err();
    assert_eq!(error.to_string(), sentence);
    submit(job.clone().owned_by("ada")).unwrap();
    // A cluster refuses the job at submission, even if it has no nodes yet.
    let rule = composed("by-user", by_user(), FirstFit).feasibility();
    let refused = rule.check(&State::default(), &Arc::new(job.clone()));
    assert_eq!(refused, Err(Reason::other("the job lacks a user")));
    let owned = Arc::new(job.owned_by("ada"));
    assert_eq!(rule.check(&State::default(), &owned), Ok(()));
}
