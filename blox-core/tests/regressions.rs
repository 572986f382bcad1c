//! Errors in the core that the conformance suite found, as single cases.

use blox_core::policy::{by_key, scheduling_fn};
use blox_core::runtime::Runtime;
use blox_core::{
    Action, AdmissionDecision, Assignment, ClusterSpec, Command, Composition, Draft, DraftError,
    Event, GpuCount, GpuId, JobId, JobQueue, JobSpec, NodeAction, NodeId, Outcome, Partners,
    PlacementPolicy, Plan, PlanError, Reason, Seconds, State, Stateless, Time, Validity,
    order::SortKey,
};
use blox_testing::FirstFit;
use std::sync::Arc;

fn job(n: u32, gpus: u32) -> Event {
    let spec = JobSpec::new(Time::ZERO, GpuCount(gpus), Seconds::new(1000.0));
    Event::Submitted {
        job: JobId(n),
        spec: Arc::new(spec),
    }
}

/// Returns a state with two nodes of four GPUs, and `jobs` waiting jobs of one GPU.
fn waiting(jobs: u32) -> State {
    let mut state = State::new(&ClusterSpec::uniform(2, 4)).unwrap();
    for n in 0..jobs {
        state.apply(Time::ZERO, &job(n, 1)).unwrap();
        let accepted = Event::AdmissionDecided {
            job: JobId(n),
            admission: AdmissionDecision::Accept {
                class: None,
                deadline: None,
            },
        };
        state.apply(Time::ZERO, &accepted).unwrap();
    }
    state
}

fn place(n: u32, gpus: &[u32], partner: Option<u32>) -> Action {
    Action::Place {
        job: JobId(n),
        assignment: Assignment {
            partners: partner.map(JobId).into(),
            ..Assignment::of(gpus.iter().map(|&g| GpuId(g)))
        },
    }
}

fn stop(n: u32) -> Action {
    Action::Stop {
        job: JobId(n),
        why: Reason::NotChosen,
    }
}

fn plan(state: &mut State, actions: Vec<Action>) -> Vec<Command> {
    let plan = Plan {
        version: state.version(),
        actions,
        ..Plan::default()
    };
    state.apply_plan(&plan).unwrap();
    commands(state)
}

fn commands(state: &mut State) -> Vec<Command> {
    let mut list = Vec::new();
    state.take_commands(&mut list);
    list
}

fn started(state: &mut State, n: u32, at: f64) {
    let attempt = state.job(JobId(n)).unwrap().attempt();
    let event = Event::Started {
        job: JobId(n),
        attempt,
        rate: 1.0,
    };
    state.apply(Time::new(at), &event).unwrap();
}

fn end(state: &mut State, n: u32, at: f64) {
    let ended = Event::Ended {
        job: JobId(n),
        outcome: Outcome::Completed,
    };
    state.apply(Time::new(at), &ended).unwrap();
}

#[test]
fn a_job_held_and_released_at_once_is_asked_about_once() {
    let mut policy = Composition::new("fifo")
        .scheduling(by_key(|j| SortKey::by(j.submit().secs())))
        .placement(FirstFit)
        .build()
        .unwrap();
    let state = State::new(&ClusterSpec::uniform(1, 4)).unwrap();
    let mut core = Runtime::new(state, dyn_trigger(&policy));
    let id = JobId(0);
    for event in [
        job(0, 1),
        Event::Hold { job: id },
        Event::Release { job: id },
    ] {
        core.event(Time::ZERO, &event, &mut policy).unwrap();
    }
    core.decide(Time::ZERO, &mut policy).unwrap();
    assert_eq!(core.counters().stale_steps, 0);
    assert_eq!(core.counters().placements, 1);
}

fn dyn_trigger(policy: &blox_core::Pipeline) -> Box<dyn blox_core::DecisionTrigger> {
    let period = policy.trigger().period().unwrap();
    Box::new(blox_core::Rounds::every(period).unwrap())
}

#[test]
fn released_spared_and_released_again_is_one_stop() {
    #[derive(Clone)]
    struct Wavering;
    impl Stateless for Wavering {}
    impl PlacementPolicy for Wavering {
        fn place(
            &self,
            (): &mut (),
            r: &mut JobQueue,
            draft: &mut Draft<'_>,
        ) -> Result<Validity, DraftError> {
            if draft.current(JobId(0)).is_none() {
                return FirstFit.place(&mut (), r, draft);
            }
            draft.release(JobId(0), Reason::NotChosen)?;
            draft.spare(JobId(0))?;
            draft.release(JobId(0), Reason::NotChosen)?;
            Ok(Validity::UntilEvent)
        }
    }
    let mut policy = Composition::new("wavering")
        .scheduling(scheduling_fn(|view, out: &mut JobQueue| {
            for job in view.active() {
                out.push(blox_core::Request::gang(&job));
            }
            Validity::NextRound
        }))
        .placement(Wavering)
        .build()
        .unwrap();
    let state = State::new(&ClusterSpec::uniform(1, 4)).unwrap();
    let mut core = Runtime::new(state, dyn_trigger(&policy));
    core.event(Time::ZERO, &job(0, 1), &mut policy).unwrap();
    core.decide(Time::ZERO, &mut policy).unwrap();
    core.decide(Time::new(300.0), &mut policy).unwrap();
    assert_eq!(core.counters().refused_plans, 0);
    assert_eq!(core.plan().stops(), 1);
}

#[test]
fn a_launch_on_what_a_change_leaves_comes_after_the_change() {
    let mut state = waiting(2);
    plan(&mut state, vec![place(0, &[0], None)]);
    started(&mut state, 0, 0.0);
    state
        .apply(
            Time::new(10.0),
            &Event::Metric {
                job: JobId(0),
                name: "loss".into(),
                value: 1.0,
            },
        )
        .unwrap();
    // The newcomer is listed first, but the change is applied first. Until the change is done, its
    // old GPU is not free.
    let changes = plan(
        &mut state,
        vec![place(1, &[0], None), place(0, &[1, 2], None)],
    );
    assert!(
        matches!(changes[..], [Command::Change { job: JobId(0), .. }]),
        "{changes:?}"
    );
    // So far, the job ran on one GPU.
    let gpu_time = state.job(JobId(0)).unwrap().attained_gpu_time();
    assert_eq!(gpu_time, Seconds::new(10.0));
    started(&mut state, 0, 20.0);
    let starts = commands(&mut state);
    assert!(
        matches!(starts[..], [Command::Start { job: JobId(1), .. }]),
        "{starts:?}"
    );
}

#[test]
fn a_job_that_ends_with_a_change_pending_is_not_launched_again() {
    let mut state = waiting(2);
    plan(&mut state, vec![place(0, &[0], None), place(1, &[1], None)]);
    started(&mut state, 0, 0.0);
    started(&mut state, 1, 0.0);
    // Job 0 waits for the GPU that job 1 must leave.
    let stops = plan(&mut state, vec![stop(1), place(0, &[1], None)]);
    assert!(
        matches!(stops[..], [Command::Stop { job: JobId(1), .. }]),
        "{stops:?}"
    );
    end(&mut state, 0, 5.0);
    end(&mut state, 1, 6.0);
    assert_eq!(commands(&mut state), []);
}

#[test]
fn of_jobs_that_change_places_one_stops_and_may_end_before_it_has() {
    let mut state = waiting(2);
    plan(&mut state, vec![place(0, &[0], None), place(1, &[1], None)]);
    started(&mut state, 0, 0.0);
    started(&mut state, 1, 0.0);
    // Otherwise each would wait for the other forever.
    let stops = plan(&mut state, vec![place(0, &[1], None), place(1, &[0], None)]);
    assert!(
        matches!(stops[..], [Command::Stop { job: JobId(0), .. }]),
        "{stops:?}"
    );
    end(&mut state, 0, 5.0);
    let changes = commands(&mut state);
    assert!(
        matches!(changes[..], [Command::Change { job: JobId(1), .. }]),
        "{changes:?}"
    );
}

#[test]
fn a_pair_that_moves_together_stays_a_pair() {
    let mut state = waiting(2);
    plan(
        &mut state,
        vec![place(0, &[0], None), place(1, &[0], Some(0))],
    );
    plan(
        &mut state,
        vec![
            stop(0),
            stop(1),
            place(0, &[1], None),
            place(1, &[1], Some(0)),
        ],
    );
    let partners = |n| {
        let job = state.job(JobId(n)).unwrap();
        job.assignment().unwrap().partners.clone()
    };
    assert_eq!(
        (partners(0), partners(1)),
        (JobId(1).into(), JobId(0).into())
    );
}

#[test]
fn a_plan_beside_a_job_that_it_moves_away_is_refused() {
    let mut state = waiting(3);
    plan(&mut state, vec![place(0, &[0], None), place(2, &[2], None)]);
    let wrong = Plan {
        version: state.version(),
        actions: vec![place(1, &[0], Some(0)), place(0, &[2], Some(2))],
        ..Plan::default()
    };
    let not_beside = PlanError::NotBeside {
        job: JobId(1),
        partner: JobId(0),
    };
    assert_eq!(state.apply_plan(&wrong), Err(not_beside));
    // Nothing of the plan was applied.
    let on = |n| state.job(JobId(n)).unwrap().assignment().cloned();
    assert_eq!(on(0), Some(Assignment::of([GpuId(0)])));
    assert_eq!(on(1), None);
    assert_eq!(commands(&mut state), []);
}

#[test]
fn a_draft_that_moves_a_partner_away_after_the_pair_was_made_names_no_partner() {
    /// Places job 1 beside job 0, and job 0 beside job 2.
    #[derive(Clone)]
    struct Matchmaker;
    impl Stateless for Matchmaker {}
    impl PlacementPolicy for Matchmaker {
        fn place(
            &self,
            (): &mut (),
            r: &mut JobQueue,
            draft: &mut Draft<'_>,
        ) -> Result<Validity, DraftError> {
            if draft.current(JobId(0)).is_none() {
                return FirstFit.place(&mut (), r, draft);
            }
            let beside = |n, gpu| Assignment {
                partners: JobId(n).into(),
                ..Assignment::of([GpuId(gpu)])
            };
            draft.release(JobId(1), Reason::NotChosen)?;
            draft.assign(JobId(1), beside(0, 0))?;
            draft.reassign(JobId(0), beside(2, 2))?;
            Ok(Validity::UntilEvent)
        }
    }
    let mut policy = Composition::new("matchmaker")
        .scheduling(by_key(|j| SortKey::by(f64::from(j.id().0))))
        .placement(Matchmaker)
        .build()
        .unwrap();
    let state = State::new(&ClusterSpec::uniform(1, 3)).unwrap();
    let mut core = Runtime::new(state, dyn_trigger(&policy));
    for n in 0..3 {
        core.event(Time::ZERO, &job(n, 1), &mut policy).unwrap();
    }
    core.decide(Time::ZERO, &mut policy).unwrap();
    core.decide(Time::new(300.0), &mut policy).unwrap();
    assert_eq!(core.counters().refused_plans, 0);
    let partners = |n| {
        let job = core.state().job(JobId(n)).unwrap();
        job.assignment().unwrap().partners.clone()
    };
    assert_eq!(
        [partners(0), partners(1), partners(2)],
        [JobId(2).into(), Partners::default(), JobId(0).into()]
    );
}

#[test]
fn a_launch_that_waits_for_a_lost_node_is_not_changed_in_place_there() {
    /// Places job 0, then job 1 instead, then job 1 on fewer GPUs of the same node.
    #[derive(Clone)]
    struct Shrinking;
    impl Stateless for Shrinking {}
    impl PlacementPolicy for Shrinking {
        fn place(
            &self,
            (): &mut (),
            _: &mut JobQueue,
            draft: &mut Draft<'_>,
        ) -> Result<Validity, DraftError> {
            let on = |gpus: &[u32]| Assignment::of(gpus.iter().map(|&g| GpuId(g)));
            if draft.current(JobId(1)).is_some() {
                let no = DraftError::NotFree {
                    gpu: GpuId(0),
                    job: JobId(1),
                };
                assert_eq!(draft.reassign(JobId(1), on(&[0])), Err(no));
                // The job may keep its GPUs, and leave them for free ones.
                draft.reassign(JobId(1), on(&[0, 1]))?;
                draft.release(JobId(1), Reason::NotChosen)?;
                draft.spare(JobId(1))?;
                draft.reassign(JobId(1), on(&[4]))?;
            } else if draft.current(JobId(0)).is_some() {
                draft.release(JobId(0), Reason::NotChosen)?;
                draft.assign(JobId(1), on(&[0, 1]))?;
            } else {
                draft.assign(JobId(0), on(&[0]))?;
            }
            Ok(Validity::UntilEvent)
        }
    }
    let mut policy = Composition::new("shrinking")
        .scheduling(by_key(|j| SortKey::by(f64::from(j.id().0))))
        .placement(Shrinking)
        .build()
        .unwrap();
    let state = State::new(&ClusterSpec::uniform(2, 4)).unwrap();
    let mut core = Runtime::new(state, dyn_trigger(&policy));
    for n in [0, 1] {
        core.event(Time::ZERO, &job(n, 1), &mut policy).unwrap();
    }
    core.decide(Time::ZERO, &mut policy).unwrap();
    core.decide(Time::new(300.0), &mut policy).unwrap();
    let lost = Event::NodeLost { node: NodeId(0) };
    core.event(Time::new(310.0), &lost, &mut policy).unwrap();
    core.decide(Time::new(600.0), &mut policy).unwrap();
    let on = |n| core.state().job(JobId(n)).unwrap().assignment().cloned();
    assert_eq!(on(1), Some(Assignment::of([GpuId(4)])));
}

#[test]
fn a_waiting_job_held_and_released_is_offered_once_a_walk() {
    #[derive(Clone)]
    struct Asking;
    impl Stateless for Asking {}
    impl PlacementPolicy for Asking {
        fn place(
            &self,
            (): &mut (),
            r: &mut JobQueue,
            draft: &mut Draft<'_>,
        ) -> Result<Validity, DraftError> {
            while let Some(request) = draft.next_candidate(r) {
                draft.explain(request.job, Reason::NotChosen);
                draft.candidate_blocked(r);
                // Before that time, the next entry in order is never reached.
                if draft.view().now() < Time::new(600.0) {
                    break;
                }
            }
            Ok(Validity::UntilEvent)
        }
    }
    let mut policy = Composition::new("asking")
        .scheduling(by_key(|j| SortKey::by(j.submit().secs())))
        .placement(Asking)
        .build()
        .unwrap();
    let state = State::new(&ClusterSpec::uniform(1, 4)).unwrap();
    let mut core = Runtime::new(state, dyn_trigger(&policy));
    for n in 0..2 {
        core.event(Time::ZERO, &job(n, 1), &mut policy).unwrap();
    }
    core.decide(Time::ZERO, &mut policy).unwrap();
    let hold = Event::Hold { job: JobId(1) };
    core.event(Time::new(10.0), &hold, &mut policy).unwrap();
    core.decide(Time::new(300.0), &mut policy).unwrap();
    let release = Event::Release { job: JobId(1) };
    core.event(Time::new(310.0), &release, &mut policy).unwrap();
    core.decide(Time::new(600.0), &mut policy).unwrap();
    let offered: Vec<JobId> = core.plan().waits.iter().map(|(job, _)| *job).collect();
    assert_eq!(offered, [JobId(0), JobId(1)]);
}

#[test]
fn a_job_is_spared_only_where_its_cpus_are_left() {
    /// Job 0 on GPU 0, then job 1 on GPU 1 with CPUs that are only left after job 0's release.
    #[derive(Clone)]
    struct Sparing;
    impl Stateless for Sparing {}
    impl PlacementPolicy for Sparing {
        fn place(
            &self,
            (): &mut (),
            _: &mut JobQueue,
            draft: &mut Draft<'_>,
        ) -> Result<Validity, DraftError> {
            let on = |gpu, cpus| Assignment {
                cpus,
                ..Assignment::of([GpuId(gpu)])
            };
            if draft.current(JobId(0)).is_none() {
                draft.assign(JobId(0), on(0, 4.0))?;
                return Ok(Validity::UntilEvent);
            }
            let start = draft.savepoint();
            draft.release(JobId(0), Reason::NotChosen)?;
            draft.assign(JobId(1), on(1, 4.0))?;
            draft.spare(JobId(0))?;
            draft.rollback(start);
            draft.release(JobId(0), Reason::NotChosen)?;
            draft.assign(JobId(1), on(1, 6.0))?;
            assert!(!draft.has_resources(&on(0, 4.0)));
            assert!(draft.has_resources(&on(0, 2.0)));
            let (node, job) = (NodeId(0), JobId(0));
            let no = DraftError::TooLittleLeft { node, job };
            assert_eq!(draft.spare(job), Err(no));
            let no = DraftError::NotFree { gpu: GpuId(1), job };
            assert_eq!(draft.spare_as(job, on(1, 2.0)), Err(no));
            assert_eq!(draft.current(job), None);
            // Job 0 continues with fewer CPUs.
            draft.spare_as(job, on(0, 2.0))?;
            Ok(Validity::UntilEvent)
        }
    }
    let mut policy = Composition::new("sparing")
        .scheduling(by_key(|j| SortKey::by(f64::from(j.id().0))))
        .placement(Sparing)
        .build()
        .unwrap();
    let mut cluster = ClusterSpec::uniform(1, 2);
    cluster.nodes[0].cpus = 8.0;
    let mut core = Runtime::new(State::new(&cluster).unwrap(), dyn_trigger(&policy));
    for n in [0, 1] {
        core.event(Time::ZERO, &job(n, 1), &mut policy).unwrap();
    }
    core.decide(Time::ZERO, &mut policy).unwrap();
    core.decide(Time::new(300.0), &mut policy).unwrap();
    let cpus = |n| {
        core.state()
            .job(JobId(n))
            .unwrap()
            .assignment()
            .unwrap()
            .cpus
    };
    assert_eq!([cpus(0), cpus(1)], [2.0, 6.0]);
    assert_eq!(core.counters().preemptions, 0);
}

#[test]
fn a_candidate_without_an_answer_is_not_lost() {
    /// Places one job in each decision. Stops after viewing one or two more candidates without a
    /// result.
    #[derive(Clone)]
    struct OneAWalk(u32);
    impl Stateless for OneAWalk {}
    impl PlacementPolicy for OneAWalk {
        fn place(
            &self,
            (): &mut (),
            r: &mut JobQueue,
            draft: &mut Draft<'_>,
        ) -> Result<Validity, DraftError> {
            let mut left = self.0;
            let mut placed = false;
            while let Some(request) = draft.next_candidate(r) {
                if placed {
                    left -= 1;
                    if left == 0 {
                        break;
                    }
                    continue;
                }
                let gpus = draft.take_from(NodeId(0), 1).unwrap();
                draft.assign(request.job, Assignment::of(gpus))?;
                draft.candidate_placed(r);
                placed = true;
            }
            Ok(Validity::UntilEvent)
        }
    }
    for looks in [1, 2] {
        let mut policy = Composition::new("one-a-walk")
            .scheduling(by_key(|j| SortKey::by(j.submit().secs())))
            .placement(OneAWalk(looks))
            .build()
            .unwrap();
        let state = State::new(&ClusterSpec::uniform(1, 8)).unwrap();
        let mut core = Runtime::new(state, dyn_trigger(&policy));
        for n in 0..4 {
            core.event(Time::ZERO, &job(n, 1), &mut policy).unwrap();
        }
        for round in 0..4 {
            let at = Time::new(300.0 * f64::from(round));
            core.decide(at, &mut policy).unwrap();
            let placed = |n: &u32| core.state().job(JobId(*n)).unwrap().is_placed();
            let placed: Vec<u32> = (0..4).filter(placed).collect();
            assert_eq!(placed, (0..=round).collect::<Vec<_>>(), "looks at {looks}");
        }
    }
}

#[test]
fn what_no_node_can_do_is_refused_without_effect() {
    let mut state = waiting(1);
    let left = NodeId(1);
    state
        .apply(Time::ZERO, &Event::NodeLeft { node: left })
        .unwrap();
    let refused = [
        NodeAction::Power {
            node: NodeId(0),
            on: true,
        },
        NodeAction::Power {
            node: left,
            on: true,
        },
        NodeAction::Power {
            node: left,
            on: false,
        },
        NodeAction::Shrink { node: left },
    ];
    let before = serde_json::to_string(&state).unwrap();
    for action in refused {
        let event = Event::NodeManaged {
            action: action.clone(),
        };
        let result = state.apply(Time::new(5.0), &event);
        assert!(result.is_err(), "{action:?}");
        assert_eq!(commands(&mut state), [], "{action:?}");
        let after = serde_json::to_string(&state).unwrap();
        assert_eq!(after, before, "{action:?}");
    }
}

#[test]
fn a_node_with_a_job_is_not_given_back() {
    let mut state = waiting(1);
    let shrink = |node| Event::NodeManaged {
        action: NodeAction::Shrink { node: NodeId(node) },
    };
    plan(&mut state, vec![place(0, &[0], None)]);
    assert!(state.apply(Time::ZERO, &shrink(0)).is_err());
    assert_eq!(commands(&mut state), []);
    state.apply(Time::ZERO, &shrink(1)).unwrap();
    assert_eq!(commands(&mut state).len(), 1);
}

#[test]
fn why_a_job_was_held_back_is_forgotten_when_it_is_not_any_more() {
    let mut state = State::new(&ClusterSpec::uniform(2, 4)).unwrap();
    let why = |state: &State| state.job(JobId(0)).unwrap().reason().clone();
    let judged = |admission| Event::AdmissionDecided {
        job: JobId(0),
        admission,
    };
    state.apply(Time::ZERO, &job(0, 1)).unwrap();
    let deferred = judged(AdmissionDecision::Defer(Reason::AdmissionLoad));
    state.apply(Time::ZERO, &deferred).unwrap();
    assert_eq!(why(&state), Reason::AdmissionLoad);
    let accepted = judged(AdmissionDecision::Accept {
        class: None,
        deadline: None,
    });
    state.apply(Time::ZERO, &accepted).unwrap();
    assert_eq!(why(&state), Reason::NotYetDecided);
    let (hold, release) = (
        Event::Hold { job: JobId(0) },
        Event::Release { job: JobId(0) },
    );
    state.apply(Time::ZERO, &hold).unwrap();
    assert_eq!(why(&state), Reason::HeldByUser);
    state.apply(Time::ZERO, &release).unwrap();
    assert_eq!(why(&state), Reason::NotYetDecided);
}
