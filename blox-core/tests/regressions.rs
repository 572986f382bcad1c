//! Errors in the core that the conformance suite found, as single cases.

use crate::functions::{any_number, by_submission, composed, list, placement_fn};
use blox_core::policy::{ByKey, by_key, scheduling_fn};
use blox_core::{
    Action, AdmissionDecision, AfterDrain, Assignment, ClusterSpec, Command, DraftError, Event,
    GpuCount, GpuId, JobId, JobSpec, NodeAction, NodeId, Outcome, Pipeline, PlacementPolicy, Plan,
    Reason, Seconds, Share, State, Time, Validity, order::SortKey,
};
use blox_testing::{FirstFit, Scenario};
use std::sync::Arc;

fn one_gpu() -> JobSpec {
    JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(1000.0))
}

fn job(n: u32) -> Event {
    let (job, spec) = (JobId(n), Arc::new(one_gpu()));
    Event::Submitted { job, spec }
}

/// Returns nodes with `jobs` submitted jobs of one GPU, and rounds of 300 s.
fn submitted(nodes: usize, gpus: u32, jobs: usize, policy: Pipeline) -> Scenario {
    let mut case = Scenario::new(&ClusterSpec::uniform(nodes, gpus), policy);
    case.submit_all(0.0, vec![one_gpu(); jobs]);
    case
}

/// Orders jobs by their number.
fn by_number() -> ByKey {
    by_key(|j| SortKey::by(f64::from(j.id().0)))
}

/// Returns a state with two nodes of four GPUs, and `jobs` waiting jobs of one GPU.
fn waiting(jobs: u32) -> State {
    let mut state = State::new(&ClusterSpec::uniform(2, 4)).unwrap();
    for n in 0..jobs {
        state.apply(Time::ZERO, &job(n)).unwrap();
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

fn place(n: u32, gpus: &[u32], beside: Option<u32>) -> Action {
    Action::Place {
        job: JobId(n),
        assignment: Assignment {
            share: match beside {
                Some(_) => Share::WHOLE.overlapping(),
                None => Share::WHOLE,
            },
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

/// Returns the kinds of commands and their jobs.
fn named(commands: &[Command]) -> Vec<(&'static str, u32)> {
    let one = |command: &Command| match command {
        Command::Start { job, .. } => ("Start", job.0),
        Command::Stop { job, .. } => ("Stop", job.0),
        Command::Change { job, .. } => ("Change", job.0),
        other => panic!("{other:?}"),
    };
    commands.iter().map(one).collect()
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
fn job_held_and_released_at_once_is_admitted_once() {
    let mut case = submitted(1, 4, 1, composed("fifo", by_submission(), FirstFit));
    let job = JobId(0);
    case.event(0.0, Event::Hold { job });
    case.event(0.0, Event::Release { job });
    case.decide(0.0);
    assert_eq!(case.core.counters().stale_steps, 0);
    assert_eq!(case.core.counters().placements, 1);
}

#[test]
fn released_spared_and_released_again_is_one_stop() {
    let wavering = placement_fn(|requests, draft| {
        if draft.current(JobId(0)).is_none() {
            return FirstFit.place(&mut (), requests, draft);
        }
        draft.release(JobId(0), Reason::NotChosen)?;
        draft.spare(JobId(0))?;
        draft.release(JobId(0), Reason::NotChosen)?;
        Ok(Validity::UntilEvent)
    });
    let all = scheduling_fn(|view, out| {
        list(view.active(), out);
        Validity::NextRound
    });
    let mut case = submitted(1, 4, 1, composed("wavering", all, wavering));
    case.decide(0.0);
    case.decide(300.0);
    assert_eq!(case.core.counters().refused_plans, 0);
    assert_eq!(case.core.decision().plan.stops(), 1);
}

#[test]
fn launch_on_gpus_left_by_a_change_waits_for_it() {
    let mut state = waiting(2);
    plan(&mut state, vec![place(0, &[0], None)]);
    started(&mut state, 0, 0.0);
    let metric = Event::Metric {
        job: JobId(0),
        name: "loss".into(),
        value: 1.0,
    };
    state.apply(Time::new(10.0), &metric).unwrap();
    // The newcomer is listed first, but the change is applied first. Until the change is done, its
    // old GPU is not free.
    let changes = plan(
        &mut state,
        vec![place(1, &[0], None), place(0, &[1, 2], None)],
    );
    assert_eq!(named(&changes), [("Change", 0)]);
    // So far, the job ran on one GPU.
    let gpu_time = state.job(JobId(0)).unwrap().attained_gpu_time();
    assert_eq!(gpu_time, Seconds::new(10.0));
    started(&mut state, 0, 20.0);
    let starts = commands(&mut state);
    assert_eq!(named(&starts), [("Start", 1)]);
}

#[test]
fn job_ended_with_a_pending_change_is_not_relaunched() {
    let mut state = waiting(2);
    plan(&mut state, vec![place(0, &[0], None), place(1, &[1], None)]);
    started(&mut state, 0, 0.0);
    started(&mut state, 1, 0.0);
    // Job 0 waits for the GPU that job 1 must leave.
    let stops = plan(&mut state, vec![stop(1), place(0, &[1], None)]);
    assert_eq!(named(&stops), [("Stop", 1)]);
    end(&mut state, 0, 5.0);
    end(&mut state, 1, 6.0);
    assert_eq!(commands(&mut state), []);
}

#[test]
fn one_of_two_swapped_jobs_stops_and_may_end_early() {
    let mut state = waiting(2);
    plan(&mut state, vec![place(0, &[0], None), place(1, &[1], None)]);
    started(&mut state, 0, 0.0);
    started(&mut state, 1, 0.0);
    // Otherwise each would wait for the other forever.
    let stops = plan(&mut state, vec![place(0, &[1], None), place(1, &[0], None)]);
    assert_eq!(named(&stops), [("Stop", 0)]);
    end(&mut state, 0, 5.0);
    let changes = commands(&mut state);
    assert_eq!(named(&changes), [("Change", 1)]);
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
    let jobs = state.cluster().allocated_to(GpuId(1));
    assert_eq!(jobs.collect::<Vec<_>>(), [JobId(0), JobId(1)]);
}

#[test]
fn launch_waiting_for_a_lost_node_is_not_changed() {
    // Places job 0, then job 1 instead, then job 1 on fewer GPUs of the same node.
    let shrinking = placement_fn(|_, draft| {
        let on = |gpus: &[u32]| Assignment::of(gpus.iter().map(|&g| GpuId(g)));
        if draft.current(JobId(1)).is_some() {
            let (gpu, job) = (GpuId(0), JobId(1));
            let no = DraftError::NotFree { gpu, job };
            assert_eq!(draft.reassign(job, on(&[0])), Err(no));
            // The job may keep its GPUs, and leave them for free ones.
            draft.reassign(job, on(&[0, 1]))?;
            draft.release(job, Reason::NotChosen)?;
            draft.spare(job)?;
            draft.reassign(job, on(&[4]))?;
        } else if draft.current(JobId(0)).is_some() {
            draft.release(JobId(0), Reason::NotChosen)?;
            draft.assign(JobId(1), on(&[0, 1]))?;
        } else {
            draft.assign(JobId(0), on(&[0]))?;
        }
        Ok(Validity::UntilEvent)
    });
    let mut case = submitted(2, 4, 2, composed("shrinking", any_number(), shrinking));
    case.decide(0.0);
    case.decide(300.0);
    case.event(310.0, Event::NodeLost { node: NodeId(0) });
    case.decide(600.0);
    assert_eq!(case.gpus(1), Some(vec![4]));
}

#[test]
fn held_and_released_job_is_offered_once_a_pass() {
    let asking = placement_fn(|requests, draft| {
        while let Some(request) = draft.next_candidate(requests) {
            draft.explain(request.job, Reason::NotChosen);
            draft.candidate_blocked(requests);
            // Before that time, the next entry in order is never reached.
            if draft.view().now() < Time::new(600.0) {
                break;
            }
        }
        Ok(Validity::UntilEvent)
    });
    let order = by_key(|j| SortKey::by(j.submit().secs()));
    let mut case = submitted(1, 4, 2, composed("asking", order, asking));
    case.decide(0.0);
    case.event(10.0, Event::Hold { job: JobId(1) });
    case.decide(300.0);
    case.event(310.0, Event::Release { job: JobId(1) });
    case.decide(600.0);
    let waits = case.core.decision().plan.waits.iter();
    let offered: Vec<JobId> = waits.map(|(job, _)| *job).collect();
    assert_eq!(offered, [JobId(0), JobId(1)]);
}

#[test]
fn a_job_is_spared_only_where_its_cpus_are_left() {
    // Job 0 on GPU 0, then job 1 on GPU 1 with CPUs that are only left after job 0's release.
    let sparing = placement_fn(|_, draft| {
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
        let its = draft.view().job(JobId(0)).expect("it was submitted");
        assert!(!draft.fits(&its, &on(0, 4.0)) && draft.fits(&its, &on(0, 2.0)));
        let (node, job) = (NodeId(0), JobId(0));
        let no = DraftError::TooLittleLeft { node, job };
        assert_eq!(draft.spare(job), Err(no));
        let no = DraftError::NotFree { gpu: GpuId(1), job };
        assert_eq!(draft.spare_as(job, on(1, 2.0)), Err(no));
        assert_eq!(draft.current(job), None);
        // Job 0 continues with fewer CPUs.
        draft.spare_as(job, on(0, 2.0))?;
        Ok(Validity::UntilEvent)
    });
    let mut cluster = ClusterSpec::uniform(1, 2);
    cluster.nodes[0].cpus = 8.0;
    let mut case = Scenario::new(&cluster, composed("sparing", by_number(), sparing));
    case.submit_all(0.0, [one_gpu(), one_gpu()]);
    case.decide(0.0);
    case.decide(300.0);
    let cpus = |n| case.assignment(n).unwrap().cpus;
    assert_eq!([cpus(0), cpus(1)], [2.0, 6.0]);
    assert_eq!(case.core.counters().preemptions, 0);
}

#[test]
fn a_candidate_without_an_answer_is_not_lost() {
    for looks in [1, 2] {
        // Places one job in each decision. Stops after viewing one or two more candidates without
        // a result.
        let one_a_pass = placement_fn(move |requests, draft| {
            let mut left = looks;
            let mut placed = false;
            while let Some(request) = draft.next_candidate(requests) {
                if placed {
                    left -= 1;
                    if left == 0 {
                        break;
                    }
                    continue;
                }
                let gpus = draft.take_from(NodeId(0), 1).unwrap();
                draft.assign(request.job, Assignment::of(gpus))?;
                draft.candidate_placed(requests);
                placed = true;
            }
            Ok(Validity::UntilEvent)
        });
        let order = by_key(|j| SortKey::by(j.submit().secs()));
        let mut case = submitted(1, 8, 4, composed("one-a-pass", order, one_a_pass));
        for round in 0..4 {
            case.decide(300.0 * f64::from(round));
            let placed = |n: &u32| case.job(*n).is_placed();
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
    let power = |node, on| NodeAction::Power { node, on };
    let refused = [
        power(NodeId(0), true),
        power(left, true),
        power(left, false),
        give_back(1),
    ];
    let before = serde_json::to_string(&state).unwrap();
    for action in refused {
        let event = Event::NodeManaged { action };
        let result = state.apply(Time::new(5.0), &event);
        assert!(result.is_err(), "{event:?}");
        assert_eq!(commands(&mut state), [], "{event:?}");
        let after = serde_json::to_string(&state).unwrap();
        assert_eq!(after, before, "{event:?}");
    }
}

#[test]
fn a_node_with_a_job_drains_before_it_leaves() {
    let mut state = waiting(1);
    let leaves = |node| Event::NodeManaged {
        action: give_back(node),
    };
    plan(&mut state, vec![place(0, &[0], None)]);
    state.apply(Time::ZERO, &leaves(0)).unwrap();
    assert_eq!(commands(&mut state), []);
    assert_eq!(state.cluster().nodes()[0].wanted(), None);
    assert!(state.cluster().nodes()[0].drain().is_some());
    state.apply(Time::ZERO, &leaves(1)).unwrap();
    assert_eq!(commands(&mut state).len(), 1);
    // It leaves only once.
    assert!(state.apply(Time::ZERO, &leaves(1)).is_err());
}

fn give_back(node: u32) -> NodeAction {
    NodeAction::Drain {
        node: NodeId(node),
        by: Time::ZERO,
        then: AfterDrain::Leave,
        why: "idle".into(),
    }
}

#[test]
fn reason_is_cleared_when_the_job_is_not_held_back() {
    let mut state = State::new(&ClusterSpec::uniform(2, 4)).unwrap();
    let why = |state: &State| state.job(JobId(0)).unwrap().reason().clone();
    let judged = |admission| Event::AdmissionDecided {
        job: JobId(0),
        admission,
    };
    state.apply(Time::ZERO, &job(0)).unwrap();
    let deferred = judged(AdmissionDecision::Defer(Reason::AdmissionLoad));
    state.apply(Time::ZERO, &deferred).unwrap();
    assert_eq!(why(&state), Reason::AdmissionLoad);
    let accepted = judged(AdmissionDecision::Accept {
        class: None,
        deadline: None,
    });
    state.apply(Time::ZERO, &accepted).unwrap();
    assert_eq!(why(&state), Reason::NotYetDecided);
    let job = JobId(0);
    state.apply(Time::ZERO, &Event::Hold { job }).unwrap();
    assert_eq!(why(&state), Reason::HeldByUser);
    state.apply(Time::ZERO, &Event::Release { job }).unwrap();
    assert_eq!(why(&state), Reason::NotYetDecided);
}
