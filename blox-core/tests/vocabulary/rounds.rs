//! Shares over rounds, leases, timers, promotion, eligibility.

use super::harness::*;
use blox_core::drive::{Backend, drive};
use blox_core::input::Input;
use blox_core::order::SortKey;
use blox_core::policy::{KeyFn, by_key};
use blox_core::*;
use blox_testing::FirstFit;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A job, or a pair, on a GPU type for a fraction of the time.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Share {
    jobs: Vec<JobId>,
    gpu_type: GpuTypeId,
    fraction: f64,
}

/// The inner policy: a matrix of time fractions, kept until the set of jobs changes.
pub trait SharePolicy: Clone + Send + Sync + Serialize + DeserializeOwned + 'static {
    fn shares(&mut self, view: View<'_>) -> Vec<Share>;
}

/// Jobs 0 and 1 share the fast type equally with job 2; all take turns on the slow one.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Halves {
    solved: u32,
    jobs: Vec<JobId>,
    kept: Vec<Share>,
}

impl SharePolicy for Halves {
    fn shares(&mut self, view: View<'_>) -> Vec<Share> {
        let jobs: Vec<JobId> = view.active().map(|j| j.id()).collect();
        if jobs != self.jobs {
            self.solved += 1;
            let (fast, slow) = (GpuTypeId(0), GpuTypeId(1));
            let share = |jobs: &[u32], gpu_type, fraction| Share {
                jobs: jobs.iter().map(|j| JobId(*j)).collect(),
                gpu_type,
                fraction,
            };
            self.kept = vec![
                share(&[0, 1], fast, 0.5),
                share(&[2], fast, 0.5),
                share(&[2], slow, 0.5),
                share(&[0], slow, 0.25),
                share(&[1], slow, 0.25),
            ];
            self.kept
                .retain(|s| s.jobs.iter().all(|j| jobs.contains(j)));
            self.jobs = jobs;
        }
        self.kept.clone()
    }
}

/// The round mechanism: jobs that received least of their share come first.
pub struct ShareRounds<S> {
    inner: S,
}

/// The inner policy with its memory, and the rounds received, by jobs and type.
#[derive(Clone, Serialize, Deserialize)]
pub struct Received<S> {
    inner: S,
    received: BTreeMap<String, f64>,
}

impl<S: SharePolicy> ShareRounds<S> {
    pub fn new(inner: S) -> Self {
        ShareRounds { inner }
    }
}

impl<S: SharePolicy> Policy for ShareRounds<S> {
    type Memory = Received<S>;

    fn initial(&self, _: u64) -> Received<S> {
        Received {
            inner: self.inner.clone(),
            received: BTreeMap::new(),
        }
    }
}

impl<S: SharePolicy> SchedulingPolicy for ShareRounds<S> {
    fn schedule(&self, memory: &mut Self::Memory, view: View<'_>, out: &mut JobQueue) -> Answer {
        out.stop_unlisted();
        let name = |s: &Share| format!("{:?} on {}", s.jobs, s.gpu_type);
        let mut order: Vec<(f64, usize, Share)> = memory
            .inner
            .shares(view)
            .into_iter()
            .enumerate()
            .map(|(i, s)| {
                let received = memory.received.get(&name(&s)).copied().unwrap_or(0.0);
                // Shares without any received round come first, larger ones before smaller.
                let priority = if received == 0.0 {
                    1e9 * s.fraction
                } else {
                    s.fraction / received
                };
                (priority, i, s)
            })
            .collect();
        order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut left: BTreeMap<GpuTypeId, u32> = BTreeMap::new();
        for n in view.nodes() {
            *left.entry(n.gpu_type()).or_default() += n.usable_count();
        }
        let mut chosen: Vec<JobId> = Vec::new();
        for (_, _, s) in order {
            let room = left.get_mut(&s.gpu_type).unwrap();
            if *room == 0 || s.jobs.iter().any(|j| chosen.contains(j)) {
                continue;
            }
            *room -= 1;
            chosen.extend(&s.jobs);
            *memory.received.entry(name(&s)).or_default() += 1.0;
            let mut shape = Shape::gpus(GpuCount(1));
            shape.gpu_type = Some(s.gpu_type);
            let request = Request::with_shape(s.jobs[0], shape);
            let guest = s.jobs.get(1).copied();
            out.push(guest.into_iter().fold(request, Request::beside));
        }
        Ok(Validity::NextRound)
    }
}

pub fn gavel() -> Pipeline {
    composed("gavel", ShareRounds::new(Halves::default()), Shapes)
}

#[test]
fn gavel_shares_over_rounds_with_a_pair() {
    let mut b = case("1x1:v100,1x1:k80", rounds(360.0), gavel());
    b.submit_all(0.0, vec![job(1, 1e6); 3]);
    assert_eq!(
        b.round(0.0),
        "place 0 on 0; place 1 on 0 overlapping; place 2 on 1"
    );
    assert_eq!(b.phases(), "0 running, 1 running, 2 running");
    assert_eq!(beside_of(&b, 0), [1]);
    assert_eq!(
        b.round(360.0),
        "stop 1; stop 2; stop 0; place 2 on 0; place 0 on 1"
    );
    assert_eq!(b.phases(), "0 running, 1 waiting, 2 running");
    assert!(beside_of(&b, 0).is_empty());
    assert_eq!(b.round(720.0), "stop 0; place 1 on 1");
    assert_eq!(
        b.round(1080.0),
        "stop 1; stop 2; place 0 on 0; place 1 on 0 overlapping; place 2 on 1"
    );
    // One job of a pair ends, and the other continues alone. Shares are computed again, and in the
    // next round it belongs to no pair.
    b.ended(1100.0, 1);
    assert_eq!(b.phases(), "0 running, 2 running");
    assert!(beside_of(&b, 0).is_empty());
    assert_eq!(
        b.round(1440.0),
        "stop 2; stop 0; place 2 on 0; place 0 on 1"
    );
}

/// GPUs are leased for two rounds. A job whose lease ends goes to the end of the queue, and keeps
/// its GPUs if no other job needs them.
struct Leases;

#[derive(Clone, Default, Serialize, Deserialize)]
struct LeaseEnds {
    ends: BTreeMap<JobId, Time>,
}

impl Policy for Leases {
    type Memory = LeaseEnds;

    fn initial(&self, _: u64) -> LeaseEnds {
        LeaseEnds::default()
    }

    fn on_event(&self, memory: &mut LeaseEnds, _: View<'_>, event: &Event) {
        if let Event::Ended { job, .. } = event {
            memory.ends.remove(job);
        }
    }
}

impl SchedulingPolicy for Leases {
    fn schedule(&self, memory: &mut Self::Memory, view: View<'_>, out: &mut JobQueue) -> Answer {
        let now = view.now();
        let over = |ends: &BTreeMap<JobId, Time>, j: JobId| ends.get(&j).is_none_or(|e| *e <= now);
        out.stop_unlisted();
        let mut order: Vec<JobId> = view.active().map(|j| j.id()).collect();
        // Running leases first, then jobs without an earlier lease, then the others.
        order.sort_by_key(|j| match memory.ends.get(j) {
            Some(e) if *e > now => (0, *e),
            None => (1, Time::ZERO),
            Some(e) => (2, *e),
        });
        let mut room = view.usable_gpus();
        for j in order {
            let job = view.job(j).unwrap();
            if job.gpus() > room {
                continue;
            }
            room = GpuCount(room.get() - job.gpus().get());
            if over(&memory.ends, j) {
                memory.ends.insert(j, now + Seconds::new(200.0));
            }
            out.push(Request::gang(&job));
        }
        match memory.ends.values().filter(|e| **e > now).min() {
            Some(e) => Ok(Validity::Until(*e)),
            None => Ok(Validity::UntilEvent),
        }
    }
}

#[test]
fn two_round_lease_ends_and_is_renewed_or_passed_on() {
    let policy = composed("leases", Leases, Shapes);
    let mut b = case("1x1", rounds(100.0), policy);
    b.submit_all(0.0, vec![job(1, 1e6); 2]);
    assert_eq!(b.core.due(), Some(t(0.0)));
    assert_eq!(b.round(0.0), "place 0 on 0");
    // A plan with changes is followed by another decision; the next one is at the end of the lease.
    assert_eq!(b.core.due(), Some(t(100.0)));
    assert_eq!(b.round(100.0), "");
    assert_eq!(b.core.due(), Some(t(200.0)));
    assert_eq!(b.round(200.0), "stop 0; place 1 on 0");
    assert_eq!(b.round(300.0), "");
    assert_eq!(b.core.due(), Some(t(400.0)));
    assert_eq!(b.round(400.0), "stop 1; place 0 on 0");
    b.cancelled(450.0, 1);
    assert_eq!(b.round(500.0), "");
    // No other job needs the GPU: the lease is renewed without a step.
    assert_eq!(b.round(600.0), "");
    assert_eq!(b.core.due(), Some(t(800.0)));
    assert_eq!(b.phases(), "0 running");
}

/// Lets each job run from a given moment on.
#[derive(Clone)]
struct Appointments(Vec<(JobId, Time)>);

impl Stateless for Appointments {}

impl SchedulingPolicy for Appointments {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Answer {
        let mut next = Validity::UntilEvent;
        for (id, at) in &self.0 {
            match view.job(*id) {
                Some(job) if *at <= view.now() => out.push(Request::gang(&job)),
                Some(_) => next = next.and(Validity::Until(*at)),
                None => {}
            }
        }
        Ok(next)
    }
}

/// Injects events at their moments, answers commands at once, and records decisions.
struct Script {
    events: std::collections::VecDeque<(Time, Event)>,
    rate: f64,
    due: Vec<Time>,
}

impl Backend for Script {
    type Error = String;

    fn next(&mut self, due: Option<Time>, _: View<'_>) -> Result<Option<Input>, String> {
        let event_first = match (self.events.front(), due) {
            (Some((at, _)), Some(due)) => *at <= due,
            (Some(_), None) => true,
            (None, _) => false,
        };
        if event_first {
            let (at, event) = self.events.pop_front().unwrap();
            return Ok(Some(Input::Event { at, event }));
        }
        self.due.extend(due);
        Ok(due.map(|at| Input::Due { at }))
    }

    fn carry_out(&mut self, view: View<'_>, commands: &[Command]) -> Result<(), String> {
        for c in commands {
            let Command::Start { job, attempt } = c else {
                return Err(format!("unexpected: {c:?}"));
            };
            let (job, attempt, rate) = (*job, *attempt, self.rate);
            self.events
                .push_front((view.now(), Event::Started { job, attempt, rate }));
        }
        Ok(())
    }

    fn refused(&mut self, _: Time, _: &Event, error: EventError) -> Result<(), String> {
        Err(error.to_string())
    }

    fn lost_turn(&mut self, _: Time, error: DecisionError) -> Result<(), String> {
        Err(error.to_string())
    }
}

#[test]
fn a_timer_wakes_its_policy_exactly_then() {
    let mut policy = composed(
        "appointments",
        Appointments(vec![(JobId(0), t(137.5)), (JobId(1), t(250.25))]),
        Shapes,
    );
    let state = State::new(&"1x2".parse().unwrap()).unwrap();
    let mut core = blox_core::runtime::Runtime::new(state, Box::new(OnEvent::default()));
    let submit = |at: f64, n: u32| {
        let mut spec = job(1, 1e6);
        spec.submit = t(at);
        (
            t(at),
            Event::Submitted {
                job: JobId(n),
                spec: Arc::new(spec),
            },
        )
    };
    let mut backend = Script {
        events: [submit(0.0, 0), submit(50.0, 1)].into(),
        rate: 1.0,
        due: Vec::new(),
    };
    drive(&mut core, &mut policy, &mut backend).unwrap();
    assert_eq!(backend.due, [t(0.0), t(50.0), t(137.5), t(250.25)]);
    let start = |j: u32| core.state().job(JobId(j)).unwrap().first_start();
    assert_eq!((start(0), start(1)), (Some(t(137.5)), Some(t(250.25))));
}

#[test]
fn a_timer_that_has_rung_does_not_ring_for_ever() {
    let stubborn = scheduling_fn(|view: View<'_>, _: &mut JobQueue| Validity::Until(view.now()));
    let policy = composed("stubborn", stubborn, FirstFit);
    let mut b = case("1x1", OnEvent::default(), policy);
    b.submit(5.0, job(1, 1.0));
    b.round(5.0);
    assert_eq!(b.core.due(), None);
}

/// Shortest job first. A job that has waited for 600 s is promoted permanently.
#[derive(Clone)]
struct Guarded {
    key: KeyFn,
    stable: bool,
}

impl Stateless for Guarded {}

impl SchedulingPolicy for Guarded {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Answer {
        for j in view.waiting() {
            if view.now() - j.eligible_since() >= Seconds::new(600.0) {
                out.promote(j.id());
            }
        }
        out.keep(view, &self.key);
        if self.stable {
            Ok(Validity::UntilEvent)
        } else {
            Ok(Validity::NextRound)
        }
    }
}

#[test]
fn a_promoted_job_comes_first_and_stays_first() {
    let policy = composed(
        "guarded",
        Guarded {
            key: Arc::new(|j| SortKey::by(j.truth().duration().secs())),
            stable: false,
        },
        FirstFit,
    );
    let mut b = case("1x1", rounds(300.0), policy);
    b.submit_all(0.0, [job(1, 10.0), job(1, 5000.0)]);
    assert_eq!(b.round(0.0), "place 0 on 0");
    assert_eq!(b.round(300.0), "");
    assert_eq!(b.round(600.0), "promote 1");
    assert!(b.job(1).promoted());
    // A repeated promotion is no change.
    assert_eq!(b.round(900.0), "");
    b.ended(1000.0, 0);
    b.submit(1000.0, job(1, 20.0));
    assert_eq!(b.round(1200.0), "place 1 on 0");
    b.crashed(1300.0, 1, 1, 0.0);
    // Shorter jobs were submitted meanwhile; the promoted job still precedes them.
    b.submit(1310.0, job(1, 1.0));
    assert_eq!(b.round(1500.0), "place 1 on 0");
    b.ended(1600.0, 1);
    assert_eq!(b.round(1800.0), "promote 2; place 2 on 0");
}

#[test]
fn eligible_since_is_the_first_possible_decision() {
    let mut b = case(
        "1x1",
        rounds(300.0),
        Scripted::new([vec![place(0, &[0])], vec![stop(0), place(1, &[0])]]),
    );
    b.submit(0.0, job(1, 1e6));
    b.round(0.0);
    b.submit(10.0, job(1, 1e6));
    b.submit(20.0, job(1, 1e6));
    b.decide(300.0);
    // A new job: the first decision that considered it.
    assert_eq!(b.job(2).eligible_since(), t(300.0));
    // Preempted in this decision: the next one, however long the job takes to leave.
    assert_eq!(b.take_commands(), "stop 0.1");
    b.stopped(330.0, 0, 1);
    assert_eq!(b.job(0).eligible_since(), t(600.0));
    b.settle(330.0);
    b.crashed(700.0, 1, 1, 0.0);
    assert_eq!(b.job(1).eligible_since(), t(900.0));
}

#[test]
fn a_walk_cut_short_loses_no_job_of_a_kept_order() {
    /// Takes candidates from the requests, then panics once.
    #[derive(Clone)]
    struct Clumsy {
        panics: u32,
    }
    impl Policy for Clumsy {
        /// Number of remaining panics.
        type Memory = u32;

        fn initial(&self, _: u64) -> u32 {
            self.panics
        }
    }
    impl PlacementPolicy for Clumsy {
        fn place(&self, memory: &mut u32, r: &mut JobQueue, d: &mut Draft<'_>) -> Answer {
            if *memory > 0 {
                *memory -= 1;
                d.next_candidate(r);
                d.candidate_blocked(r);
                d.next_candidate(r);
                panic!("clumsy");
            }
            FirstFit.place(&mut (), r, d)
        }
    }
    let policy = composed(
        "clumsy",
        by_key(|j| SortKey::by(j.truth().duration().secs())),
        Clumsy { panics: 1 },
    );
    let mut b = case("1x4", rounds(300.0), policy);
    b.submit_all(0.0, [40.0, 30.0, 20.0, 10.0].map(|secs| job(1, secs)));
    let error = b.try_decide(0.0).unwrap_err();
    assert_eq!(error.to_string(), "policy `clumsy` panicked: clumsy");
    assert_eq!(
        b.round(300.0),
        "place 3 on 0; place 2 on 1; place 1 on 2; place 0 on 3"
    );
}

#[test]
fn key_changed_by_an_event_is_computed_again() {
    let policy = composed(
        "by loss",
        by_key(|j| SortKey::by(j.metric("loss").last().map_or(0.0, |m| m.1))),
        FirstFit,
    );
    let mut b = case("1x1", rounds(300.0), policy);
    b.submit_all(0.0, vec![job(1, 1e6); 3]);
    assert_eq!(b.round(0.0), "place 0 on 0");
    b.metric(10.0, 1, "loss", 5.0);
    b.ended(20.0, 0);
    assert_eq!(b.round(300.0), "place 2 on 0");
    b.ended(320.0, 2);
    assert_eq!(b.round(600.0), "place 1 on 0");
}
