//! Forecasts with clones, restarts from saved memory, journals, drafts.

use super::harness::*;
use super::rounds::gavel;
use blox_core::core::Core;
use blox_core::input::Input;
use blox_core::journal::JsonLines;
use blox_core::replay::{ReplayError, replay};
use blox_core::runtime::{Observers, Runtime};
use blox_core::{order::SortKey, policy::by_key, *};
use blox_testing::{FirstFit, StepByStep};
use std::sync::{Arc, Mutex};

fn three_jobs(policy: impl Scheduler + 'static) -> Scenario {
    let mut b = case("1x1:v100,1x1:k80", rounds(360.0), policy);
    b.submit_all(0.0, vec![job(1, 1e6); 3]);
    b
}

fn srtf() -> Pipeline {
    composed(
        "srtf",
        by_key(|j| SortKey::by(j.truth().work_left()).then(-j.submit().secs())),
        FirstFit,
    )
}

/// Returns the plans of some rounds; a job ends in the second.
fn play(b: &mut Scenario, from: u32, rounds: u32) -> Vec<String> {
    (from..from + rounds)
        .map(|r| {
            let at = 360.0 * f64::from(r);
            if r == 2 {
                b.ended(at, 2);
                b.submit(at, job(1, 77.0));
                b.submit(at, job(1, 5e5));
            }
            b.round(at)
        })
        .collect()
}

#[test]
fn a_simulation_ahead_leaves_the_original_as_it_was() {
    for make in [gavel as fn() -> Pipeline, srtf] {
        let expected = play(&mut three_jobs(make()), 0, 6);
        let mut b = three_jobs(make());
        let first = play(&mut b, 0, 2);
        let before = serde_json::to_string(b.core.state()).unwrap();
        let mut ahead = Scenario {
            core: Runtime::new(b.core.state().clone(), Box::new(rounds(360.0))),
            policy: b.policy.clone(),
            commands: Vec::new(),
            rate: |_| 1.0,
        };
        // The known events make a decision due, in the clone too.
        assert!(ahead.core.due().is_some());
        assert_eq!(play(&mut ahead, 2, 4), expected[2..]);
        assert_eq!(serde_json::to_string(b.core.state()).unwrap(), before);
        assert_eq!([first, play(&mut b, 2, 4)].concat(), expected);
        assert!(expected.iter().any(|p| !p.is_empty()));
    }
}

#[test]
fn a_restart_from_what_was_saved_decides_the_same() {
    for (make, remembers) in [(gavel as fn() -> Pipeline, true), (srtf, false)] {
        let expected = play(&mut three_jobs(make()), 0, 6);
        for stop_after in 1..5 {
            let mut b = three_jobs(make());
            play(&mut b, 0, stop_after);
            let state = serde_json::to_string(b.core.state()).unwrap();
            let memory = b.policy.save().unwrap();
            // A kept order follows from the view: it saves nothing.
            assert_eq!(memory.is_some(), remembers);
            let mut policy = make();
            if let Some(memory) = memory {
                let text = memory.to_string();
                policy
                    .restore(serde_json::from_str(&text).unwrap())
                    .unwrap();
            }
            let state: State = serde_json::from_str(&state).unwrap();
            let mut again = Scenario {
                core: Runtime::new(state, Box::new(rounds(360.0))),
                policy: Box::new(policy),
                commands: Vec::new(),
                rate: |_| 1.0,
            };
            let rest = play(&mut again, stop_after, 6 - stop_after);
            assert_eq!(rest, expected[stop_after as usize..]);
        }
    }
    let error = srtf()
        .restore(serde_json::json!({"scheduling": 1}))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "scheduling: cannot restore the memory of a policy: invalid type: integer `1`, expected unit"
    );
}

#[test]
fn undecided_job_is_admitted_after_a_restart() {
    let mut b = case("1x1", rounds(360.0), srtf());
    b.submit(5.0, job(1, 10.0));
    let state: State =
        serde_json::from_str(&serde_json::to_string(b.core.state()).unwrap()).unwrap();
    b.core = Runtime::new(state, Box::new(rounds(360.0)));
    assert_eq!(b.core.due(), Some(t(360.0)));
    assert_eq!(b.round(360.0), "place 0 on 0");
}

#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Rejects long jobs; fails at a time.
fn picky_admission(limit: f64, tired_at: f64) -> impl AdmissionPolicy {
    admission_fn(move |view, asking, out| {
        assert!(view.now() != t(tired_at), "tired");
        for &j in asking {
            if view.job(j).unwrap().truth().work_left() > limit {
                out.reject(j, Reason::QuotaReached);
            } else {
                out.accept(j);
            }
        }
    })
}

fn picky(limit: f64, longest_first: bool) -> Pipeline {
    let sign = if longest_first { -1.0 } else { 1.0 };
    let order = by_key(move |j| SortKey::by(sign * j.truth().work_left()));
    let picky = composed("picky", order, FirstFit);
    picky.with_admission(picky_admission(limit, 600.0)).unwrap()
}

/// Records the inputs of a case from its start.
fn recorded(cluster: &str, policy: Pipeline) -> (Scenario, Buffer) {
    let journal = Buffer::default();
    let mut b = case(cluster, rounds(300.0), policy);
    let state = State::new(&cluster.parse().unwrap()).unwrap();
    b.core = Runtime::new(state, Box::new(rounds(300.0)))
        .with_journal(Box::new(JsonLines::new(journal.clone())));
    (b, journal)
}

fn replayed(journal: &Buffer, cluster: &str, policy: Pipeline) -> Result<u64, ReplayError> {
    let text = journal.0.lock().unwrap().clone();
    let state = State::new(&cluster.parse().unwrap()).unwrap();
    let (trigger, none) = (Box::new(rounds(300.0)), &mut Observers::default());
    replay(&text[..], state, trigger, Box::new(policy), none)
}

#[test]
fn what_a_user_does_to_a_node_is_replayed_as_news() {
    let (mut b, journal) = recorded("2x1", srtf());
    let action = NodeAction::Cordon {
        node: NodeId(0),
        why: "drained".into(),
    };
    b.event(50.0, Event::NodeManaged { action });
    b.submit(60.0, job(1, 100.0));
    assert_eq!(b.round(300.0), "place 0 on 1");
    assert_eq!(replayed(&journal, "2x1", srtf()).unwrap(), 1);
}

#[test]
fn job_without_answer_is_deferred_in_and_beside_loop() {
    // Makes no decision about any job.
    let silent = composed("silent", by_submission(), FirstFit);
    let silent = silent.with_admission(admission_fn(|_, _, _| ())).unwrap();
    let mut b = case("1x1", rounds(300.0), silent.clone());
    b.submit(0.0, job(1, 100.0));
    let mut beside = Runtime::new(b.core.state().clone(), Box::new(rounds(300.0)));
    let decision = b.core.consult(t(0.0), &mut silent.clone()).unwrap();
    beside.consult(t(0.0), &mut silent.clone()).unwrap();
    beside.apply(t(0.0), decision, &mut silent.clone()).unwrap();
    b.core.decide(t(0.0), &mut silent.clone()).unwrap();
    for core in [&b.core, &beside] {
        let job = core.view().job(JobId(0)).unwrap();
        assert_eq!(job.phase(), Phase::Deferred);
    }
}

/// Defers jobs because of the load until an hour has passed, and then because of a quota.
#[derive(Clone)]
struct Closed;

impl Stateless for Closed {}

impl AdmissionPolicy for Closed {
    fn admit(
        &self,
        (): &mut (),
        view: View<'_>,
        asking: &[JobId],
        out: &mut AdmissionDecisions,
    ) -> Validity {
        let why = match view.now() < t(3600.0) {
            true => Reason::AdmissionLoad,
            false => Reason::QuotaReached,
        };
        for id in view.admissible().map(|j| j.id()).chain(asking.to_vec()) {
            out.defer(id, why.clone());
        }
        Validity::NextRound
    }
}

#[test]
fn another_scheduler_admits_jobs_without_gpus_anew() {
    let mut b = case("1x2", rounds(300.0), srtf());
    b.submit_all(0.0, [1, 1, 2, 1].map(|gpus| job(gpus, 1e6)));
    b.round(0.0);
    b.crashed(10.0, 0, 1, 5.0);
    b.event(20.0, Event::Hold { job: JobId(3) });
    assert_eq!(b.phases(), "0 waiting, 1 running, 2 waiting, 3 deferred");
    let mut core = Core::new(b.core.state().clone(), Box::new(rounds(300.0)));
    core.change_scheduler();
    assert_eq!(core.due(), Some(t(300.0)));
    b.core = Runtime::of(core);
    assert_eq!(
        b.phases(),
        "0 submitted, 1 running, 2 submitted, 3 deferred"
    );
    let closed = composed("closed", by_submission(), FirstFit);
    b.policy = Box::new(closed.with_admission(Closed).unwrap());
    // A job that has run stays admitted.
    assert_eq!(b.round(300.0), "place 0 on 0");
    assert_eq!(b.phases(), "0 running, 1 running, 2 deferred, 3 deferred");
    assert_eq!(b.why(2), Reason::NotChosen.to_string());
    // A job that was held waits for admission, too.
    b.event(310.0, Event::Release { job: JobId(3) });
    assert_eq!(b.phase(3), "submitted");
    b.round(600.0);
    assert_eq!(b.phase(3), "deferred");
    assert_eq!(*b.job(3).reason(), Reason::AdmissionLoad);
}

#[test]
fn part_with_the_same_type_takes_its_memory_over() {
    let mut b = three_jobs(gavel());
    play(&mut b, 0, 2);
    let (saved, parts) = (b.policy.save().unwrap(), b.policy.parts());
    let view = b.core.core().view();
    let mut same = gavel();
    let taken = same.take_over(view, saved.clone(), &parts);
    assert_eq!(taken.kept, ["scheduling"]);
    assert_eq!(taken.anew, [""; 0]);
    assert_eq!(same.save().unwrap(), saved);
    // With the memory of another policy, or a damaged one, it starts anew.
    let other = parts.keys().map(|role| (role.clone(), "Other".to_owned()));
    let damaged = Some(serde_json::json!({ "scheduling": "rubbish" }));
    for (saved, parts) in [(saved, other.collect()), (damaged, parts)] {
        let mut anew = gavel();
        let taken = anew.take_over(view, saved, &parts);
        assert_eq!(taken.anew, ["scheduling"]);
        assert_eq!(taken.kept, [""; 0]);
    }
}

#[test]
fn job_deferred_for_the_same_reason_has_no_new_event() {
    let closed = composed("closed", by_submission(), FirstFit);
    let closed = closed.with_admission(Closed).unwrap();
    let (mut b, journal) = recorded("1x1", closed.clone());
    b.submit_all(0.0, vec![job(1, 100.0); 2]);
    let deferrals = |journal: &Buffer| {
        let text = journal.0.lock().unwrap().clone();
        let text = String::from_utf8(text).unwrap();
        let answers = text.lines().map(|line| match serde_json::from_str(line) {
            Ok(Input::Decided { decision, .. }) => decision.admissions.iter().count(),
            _ => 0,
        });
        answers.sum::<usize>()
    };
    for (at, lines) in [(0.0, 2), (300.0, 2), (600.0, 2), (3600.0, 4), (3900.0, 4)] {
        let version = b.core.state().version();
        b.round(at);
        assert_eq!(deferrals(&journal), lines, "at {at}");
        // A decision without events consists only of its plan.
        let quiet = [300.0, 600.0, 3900.0].contains(&at);
        assert_eq!(b.core.state().version() == version + 1, quiet, "at {at}");
    }
    // A released job is decided again.
    b.event(4000.0, Event::Hold { job: JobId(0) });
    b.event(4001.0, Event::Release { job: JobId(0) });
    b.round(4200.0);
    assert_eq!(deferrals(&journal), 5);
    // Beside the loop, repeated deferrals are dropped too.
    let decision = b.core.consult(t(4500.0), &mut closed.clone()).unwrap();
    assert_eq!(decision.admissions.iter().count(), 0);
    assert_eq!(replayed(&journal, "1x1", closed).unwrap(), 6);
}

#[test]
fn journal_replays_equally_and_shows_a_changed_policy() {
    let (mut b, journal) = recorded("1x2", picky(1000.0, false));
    for secs in [300.1, 0.1 + 0.2, 900.0, 5000.0] {
        b.submit(1.0 / 3.0, job(1, secs));
    }
    b.round(300.0);
    b.ended(400.5, 1);
    // Late messages are not part of the history.
    assert!(
        b.try_event(401.0, Event::Release { job: JobId(1) })
            .is_err()
    );
    b.metric(410.0, 0, "loss", 0.1);
    let nan = Event::Metric {
        job: JobId(0),
        name: "loss".into(),
        value: f64::NAN,
    };
    assert_eq!(
        b.try_event(411.0, nan).unwrap_err().to_string(),
        "metric `loss` of job 0 is NaN, expected a finite number"
    );
    b.submit(412.0, job(1, 20.0));
    assert!(b.try_decide(600.0).is_err());
    let timeout = DecisionError::TimedOut {
        policy: "picky".into(),
        limit: Seconds::new(1.0),
    };
    let due = Input::Due { at: t(900.0) };
    b.core.take(&due, &mut *b.policy).unwrap();
    let lost = Input::Lost {
        at: t(900.0),
        question: b.core.open().unwrap().number,
        why: timeout,
    };
    b.core.take(&lost, &mut *b.policy).unwrap();
    b.core.take_commands(&mut Vec::new());
    b.round(1200.0);
    b.ended(1300.0, 4);
    b.round(1500.0);
    let again = |policy| replayed(&journal, "1x2", policy);
    assert_eq!(again(picky(1000.0, false)).unwrap(), 5);
    let text = journal.0.lock().unwrap().clone();
    let mut lines = text.split(|byte| *byte == b'\n');
    let decided = |line: &[u8]| matches!(serde_json::from_slice(line), Ok(Input::Decided { .. }));
    let decision = 1 + lines.position(decided).unwrap();
    // Another order; or another admission decision with the same placements.
    for changed in [picky(1000.0, true), picky(10_000.0, false)] {
        match again(changed).unwrap_err() {
            ReplayError::Differs { line, at, .. } => {
                assert_eq!((line, at), (decision, t(300.0)));
            }
            other => panic!("{other}"),
        }
    }
    // A policy also differs if it answers where the journal records a failed decision.
    let fit = picky(1000.0, false);
    let fit = fit.with_admission(picky_admission(1000.0, 6e6)).unwrap();
    match again(fit).unwrap_err() {
        ReplayError::Differs { at, expected, .. } => {
            assert_eq!(at, t(600.0));
            assert_eq!(expected, "policy `picky` panicked: tired");
        }
        other => panic!("{other}"),
    }
}

/// Performs random operations on its draft, and keeps its own accounts.
struct Whims;

/// State of its random number generator, which must not be 0.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
struct Whim(u64);

impl Policy for Whims {
    type Memory = Whim;

    fn initial(&self, seed: u64) -> Whim {
        Whim(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }
}

impl Whim {
    fn below(&mut self, n: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 20) % u64::from(n.max(1))) as u32
    }

    /// Checks the free GPUs and CPUs, and the use of each GPU, against the assignments of all jobs.
    fn check(draft: &Draft<'_>) {
        let view = draft.view();
        let mut taken = std::collections::BTreeMap::<GpuId, Used>::new();
        let mut cpus = vec![0.0; view.cluster().nodes().len()];
        for job in view.active() {
            if let Some(a) = draft.current(job.id()) {
                for g in &a.gpus {
                    taken.entry(*g).or_default().add(a.share);
                    cpus[view.cluster().node_of(*g).unwrap().index()] +=
                        a.cpus / a.gpus.len() as f64;
                }
            }
        }
        // At most one job of each GPU has it whole.
        assert!(
            taken.values().all(|used| used.free_fraction() >= 0.0),
            "{taken:?}"
        );
        for node in view.nodes() {
            let free: Vec<GpuId> = draft.free_gpus_on(node.id()).collect();
            for g in node.gpus() {
                let expected = node.is_usable() && !taken.contains_key(&g);
                assert_eq!(free.contains(&g), expected, "GPU {g}");
                let used = taken.get(&g).copied().unwrap_or_default();
                assert_eq!(draft.used(g), used, "GPU {g}");
            }
            let left = node.spec().cpus - cpus[node.id().index()];
            assert!((draft.free_cpus_on(node.id()) - left).abs() < 1e-9);
        }
        let counts = || view.nodes().map(|n| draft.free_on(n.id()));
        assert_eq!(draft.free_gpus(), counts().sum::<u32>());
        for count in 1..6 {
            let nodes = view.nodes().map(|n| (draft.free_on(n.id()), n.id()));
            let mut nodes: Vec<_> = nodes.filter(|(free, _)| *free >= count).collect();
            nodes.sort_unstable();
            let tightest = draft.tightest_nodes(count).map(Node::id);
            assert!(tightest.eq(nodes.iter().map(|(_, id)| *id)));
            nodes.sort_by_key(|(free, _)| std::cmp::Reverse(*free));
            let emptiest = draft.emptiest_nodes().map(Node::id);
            let emptiest = emptiest.filter(|id| draft.free_on(*id) >= count);
            assert!(emptiest.eq(nodes.iter().map(|(_, id)| *id)));
        }
    }

    /// Checks that `assign_on` takes the same GPUs as `take_from`.
    fn on_nodes(&mut self, draft: &mut Draft<'_>, job: JobId) {
        let first = self.below(4);
        let nodes = [first, (first + 1 + self.below(3)) % 4].map(NodeId);
        let nodes = nodes.map(|node| (node, self.below(4)));
        let nodes = &nodes[..1 + self.below(2) as usize];
        let count = nodes.iter().map(|(_, count)| count).sum();
        let shape = Shape {
            cpus: f64::from(self.below(2)) * 0.25,
            ..Shape::gpus(GpuCount(count))
        };
        let view = draft.view();
        let part = |(node, count): &(NodeId, u32)| draft.take_from(view.node(*node)?.id(), *count);
        let gpus: Option<Vec<GpuList>> = nodes.iter().map(part).collect();
        match draft.assign_on(job, nodes, &shape) {
            Ok(given) => {
                assert_eq!(given, gpus.is_some());
                let a = draft.current(job).filter(|_| given);
                assert_eq!(
                    a.map(|a| (a.gpus.to_vec(), a.cpus)),
                    gpus.map(|g| (g.concat(), shape.cpus))
                );
            }
            Err(DraftError::NoGpu(_)) => assert_eq!(count, 0),
            Err(DraftError::AlreadyPlaced(_)) => assert!(draft.current(job).is_some()),
            Err(other) => panic!("{other}"),
        }
    }

    fn some_assignment(&mut self, draft: &Draft<'_>, jobs: &[JobId]) -> Assignment {
        let beside = jobs[self.below(jobs.len() as u32) as usize];
        let mut a = match draft.current(beside) {
            Some(theirs) if self.below(3) == 0 => {
                let part = 1 + self.below(theirs.gpus.len() as u32) as usize;
                let mut a = Assignment::of(theirs.gpus[..part].iter().copied());
                if self.below(8) > 0 {
                    a.share = a.share.overlapping();
                }
                a
            }
            _ => {
                let n = self.below(4);
                Assignment::of((0..n).map(|_| GpuId(self.below(13))))
            }
        };
        if self.below(3) == 0 {
            a.cpus = 0.25;
        }
        a
    }
}

impl PlacementPolicy for Whims {
    fn place(&self, memory: &mut Whim, _: &mut JobQueue, draft: &mut Draft<'_>) -> Answer {
        let jobs: Vec<JobId> = draft.view().active().map(|j| j.id()).collect();
        if jobs.is_empty() {
            return Ok(Validity::UntilEvent);
        }
        let mut marks = vec![draft.savepoint()];
        for _ in 0..memory.below(25) {
            let job = jobs[memory.below(jobs.len() as u32) as usize];
            // Most of these operations are impossible; a failed one must change nothing.
            match memory.below(9) {
                8 => memory.on_nodes(draft, job),
                0 | 1 => {
                    let a = memory.some_assignment(draft, &jobs);
                    let _ = draft.assign(job, a);
                }
                2 | 3 => {
                    let _ = draft.release(job, Reason::NotChosen);
                }
                4 => {
                    let _ = draft.spare(job);
                }
                5 => {
                    let a = memory.some_assignment(draft, &jobs);
                    let _ = draft.reassign(job, a);
                }
                6 => marks.push(draft.savepoint()),
                _ => {
                    let i = memory.below(marks.len() as u32) as usize;
                    draft.rollback(marks[i]);
                    marks.truncate(i + 1);
                }
            }
            Whim::check(draft);
        }
        Ok(Validity::UntilEvent)
    }
}

#[test]
fn whatever_a_draft_allows_is_a_right_plan() {
    let nothing = scheduling_fn(|_: View<'_>, _: &mut JobQueue| Validity::NextRound);
    for seed in 1..200u64 {
        let policy = composed("whim", nothing.clone(), Whims).with_seed(seed);
        let cluster = ["3x4", "6x2"][seed as usize % 2];
        let mut b = case(cluster, rounds(1.0), policy);
        let mut chance = Whim(seed | 1 << 40);
        for r in 0..40 {
            let at = f64::from(r);
            if b.core.state().next_job_id().0 < 10 {
                b.submit(at, job(1, 1e6));
            }
            let node = NodeId(chance.below(3));
            let usable = b.core.state().cluster().node(node).unwrap().is_usable();
            let action = match (usable, chance.below(4)) {
                (true, 0) => Some(NodeAction::Cordon {
                    node,
                    why: "odd".into(),
                }),
                (false, 1..) => Some(NodeAction::Uncordon { node }),
                _ => None,
            };
            if let Some(action) = action {
                b.event(at, Event::NodeManaged { action });
            }
            if let Err(e) = b.try_decide(at) {
                panic!("seed {seed}, round {r}: {e}");
            }
            if chance.below(3) > 0 {
                b.settle(at);
            }
        }
    }
}
