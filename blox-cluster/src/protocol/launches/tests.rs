//! Tests of a gang on two nodes, report by report.

use super::{Durable, End};
use crate::protocol::message::{
    AttemptReport, Exit, Final, JobReport, Progress, Report, SHIM_ENDED, Status, Task, Wish,
};
use crate::protocol::scheduler::{
    Controller, ControllerInput, Effect, Request, Saved, Settings, Step,
};
use crate::protocol::{
    AttemptId, ClusterId, Epoch, Fence, Incarnation, Millis, PROTOCOL, PartId, Record, Session,
    Timers,
};
use blox_core::trigger::Rounds;
use blox_core::{
    Action, Adapts, Assignment, Config, Decision, DecisionError, Event, Extras, GpuCount, GpuId,
    GradientNoise, Input, JobId, JobSpec, Name, Node, NodeId, NodeSpec, Outcome, Phase, Reason,
    Seconds, Time, TrainingSpec, TypeLimits,
};
use blox_perf::goodput::{BatchConfig, GoodputModel};
use std::collections::BTreeMap;
use std::sync::Arc;

const JOB: JobId = JobId(0);
/// Lower than every fencing number of the scheduler's first epoch.
const FIRST_LIFE: u64 = 1 << 32;

/// Starts a scheduler that waits for two nodes.
fn begun(saved: Saved, log: &[Record], cluster: &str, now: u64, at: Time) -> Controller {
    let settings = Settings {
        timers: Timers::default().of_one_allocation(),
        wait_for_nodes: 2,
        ..Settings::default()
    };
    let trigger = Box::new(Rounds::every(Seconds::new(2.0)).unwrap());
    let cluster = ClusterId(cluster.into());
    Controller::begin(settings, saved, log, cluster, trigger, Millis(now), at).0
}

/// A scheduler, two nodes with one GPU each, and a job that takes both.
struct Gang {
    scheduler: Controller,
    now: u64,
    seq: u64,
    /// Launches on each node, by launch number.
    has: [BTreeMap<u32, Status>; 2],
    /// Last orders for each node, by launch number.
    wishes: [BTreeMap<u32, Wish>; 2],
    silent: [bool; 2],
    /// The session of each node manager.
    sessions: [u64; 2],
    /// Why each node's GPU has failed.
    failed_gpus: [Option<Name>; 2],
    /// The job's reported progress and metrics.
    reported: JobReport,
    /// True if decisions stop the job.
    preempts: bool,
    /// True if the policy has no answer.
    fails: bool,
    /// Time of a notice that decisions give the job.
    notifies: Option<Time>,
    /// Times until the stop in the last orders for each node.
    warned: [Option<Millis>; 2],
    /// Config of the next placement.
    config: Config,
    outcome: Option<Outcome>,
}

impl Gang {
    fn new() -> Self {
        Self::with(&[], 9.0)
    }

    /// Creates a world with a job of this duration in seconds.
    fn lasting(secs: f64) -> Self {
        Self::with(&[], secs)
    }

    /// Creates a world in which a job of this duration runs.
    fn running(secs: f64) -> Self {
        let mut gang = Self::lasting(secs);
        gang.runs(1, &[0, 1]);
        gang
    }

    /// Creates a world whose scheduler starts with a log.
    fn with(log: &[Record], secs: f64) -> Self {
        Self::of(log, secs, Extras::default())
    }

    /// Creates a world with a training job of batch sizes 64 to 256.
    fn training(secs: f64) -> Self {
        let limits = TypeLimits {
            per_gpu: (8, 64),
            one_gpu_rate: 300.0,
            stages: 1,
        };
        let training = TrainingSpec {
            initial_batch: 64,
            max_batch: 256,
            adapts: Adapts::All,
            restart: Seconds::new(1.0),
            types: [("".into(), limits)].into(),
        };
        let extras = Extras {
            training: Some(Arc::new(training)),
            ..Extras::default()
        };
        Self::of(&[], secs, extras)
    }

    /// Creates a world with a job that has further attributes.
    fn of(log: &[Record], secs: f64, mut extras: Extras) -> Self {
        let mut gang = Gang {
            scheduler: begun(Saved::default(), log, "c", 0, Time::ZERO),
            now: 0,
            seq: 0,
            has: Default::default(),
            wishes: Default::default(),
            silent: [false; 2],
            sessions: [1; 2],
            failed_gpus: Default::default(),
            reported: JobReport::default(),
            preempts: false,
            fails: false,
            notifies: None,
            warned: [None; 2],
            config: Config::NONE,
            outcome: None,
        };
        extras.attributes.insert("grace_s".into(), 7.into());
        let on_exit = serde_json::json!({ "42": "fail" });
        extras.attributes.entry("on_exit".into()).or_insert(on_exit);
        let spec = JobSpec::new(Time::ZERO, GpuCount(2), Seconds::new(secs)).with_extras(extras);
        gang.step(ControllerInput::Request(Request::Submit {
            key: "key".into(),
            spec,
        }));
        gang
    }

    fn ask(&mut self, request: Request) -> Result<JobId, String> {
        let mut steps =
            vec![(self.scheduler).step(Millis(self.now), ControllerInput::Request(request))];
        let reply = steps[0].reply.take().unwrap();
        self.follow(steps);
        reply.map_err(|why| why.to_string())
    }

    fn step(&mut self, input: ControllerInput) {
        let step = self.scheduler.step(Millis(self.now), input);
        self.follow(vec![step]);
        assert_eq!(self.scheduler.last_refused(), "");
    }

    /// Answers the questions of steps, and notes their orders.
    fn follow(&mut self, mut steps: Vec<Step>) {
        while let Some(Step {
            records, effects, ..
        }) = steps.pop()
        {
            for record in records {
                match record {
                    Record::Core(Input::Event {
                        event: Event::Ended { outcome, .. },
                        ..
                    }) => assert_eq!(self.outcome.replace(outcome), None),
                    Record::Core(Input::Due { .. }) => {
                        let question = self.scheduler.core().open().unwrap();
                        let decision = match self.fails {
                            true => Err(DecisionError::Failed {
                                policy: "by-file".into(),
                                message: "order.txt is missing".into(),
                            }),
                            false => Ok(Box::new(self.decision())),
                        };
                        let answer = ControllerInput::Answer(question.number, decision);
                        steps.push(self.scheduler.step(Millis(self.now), answer));
                    }
                    _ => {}
                }
            }
            for effect in effects {
                match effect {
                    Effect::Send(orders) => {
                        let node = usize::from(orders.node.as_str() == "n1");
                        let left = orders.orders.iter().find_map(|o| o.leaves_in);
                        self.warned[node] = left.or(self.warned[node]);
                        self.wishes[node] = orders
                            .orders
                            .into_iter()
                            .map(|o| (o.id.attempt, o.wish))
                            .collect();
                        for id in orders.forget {
                            self.has[node].remove(&id.attempt);
                        }
                    }
                    Effect::Provide(request) => panic!("{request}"),
                }
            }
        }
    }

    /// Submits the job, and places it on all GPUs whenever it waits and both nodes are up.
    fn decision(&self) -> Decision {
        let view = self.scheduler.view();
        let mut d = Decision {
            version: view.version(),
            ..Decision::default()
        };
        d.plan.version = view.version();
        let Some(job) = view.job(JOB) else { return d };
        if matches!(job.phase(), Phase::Submitted) {
            d.admissions.accept(JOB);
        }
        let usable = |n: &&Node| n.is_usable() && n.usable_count() == 1;
        let up = view.nodes().filter(usable).count() == 2;
        if job.phase() == Phase::Waiting && up {
            d.plan.actions.push(Action::Place {
                job: JOB,
                assignment: Assignment {
                    config: self.config.clone(),
                    ..Assignment::of(vec![GpuId(0), GpuId(1)])
                },
            });
        }
        if job.phase() == Phase::Running && self.preempts {
            let why = Reason::other("preempted");
            d.plan.actions.push(Action::Stop { job: JOB, why });
        }
        if let (Phase::Running, Some(by)) = (job.phase(), self.notifies) {
            d.plan.actions.push(Action::Notify { job: JOB, by });
        }
        d
    }

    /// Advances the time by two seconds. Nodes that are not silent report.
    fn beat(&mut self) {
        self.now += 2_000;
        for node in 0..2 {
            if !self.silent[node] {
                self.report(node);
            }
        }
        self.step(ControllerInput::Tick);
    }

    fn report(&mut self, node: usize) {
        self.seq += 1;
        let attempt = |(attempt, status): (&u32, &Status)| AttemptReport {
            lease_left: None,
            id: id(*attempt),
            // There is one job and one epoch, so each launch has one grant.
            fence: Fence(FIRST_LIFE + u64::from(*attempt)),
            status: status.clone(),
            port: 29_500,
            reported: self.reported.clone(),
        };
        let failed = self.failed_gpus[node].clone();
        let report = Report {
            protocol: PROTOCOL,
            absence: None,
            node: format!("n{node}").into(),
            boot: "b".into(),
            session: Session(self.sessions[node]),
            seq: self.seq,
            cluster: Some(ClusterId("c".into())),
            epoch: Epoch(1),
            incarnation: Incarnation(0),
            offer: Arc::new(NodeSpec::with_gpus(1)),
            address: "localhost".into(),
            attempts: self.has[node].iter().map(attempt).collect(),
            trouble: None,
            failed_gpus: failed.map(|why| (0, why)).into_iter().collect(),
            unknown_health: None,
        };
        self.step(ControllerInput::Report(report));
    }

    /// Ends the launches that are to end on each node.
    fn obey(&mut self) {
        for (has, wishes) in self.has.iter_mut().zip(&self.wishes) {
            let ends = |wish: &&Wish| matches!(wish, Wish::Kill | Wish::Yield(_));
            for attempt in wishes.iter().filter(|(_, wish)| ends(wish)).map(|(n, _)| n) {
                has.insert(*attempt, done(Exit::Stopped));
            }
        }
    }

    fn beats(&mut self, secs: u64) {
        for _ in 0..secs / 2 {
            self.beat();
        }
    }

    fn set(&mut self, node: usize, attempt: u32, status: Status) {
        self.has[node].insert(attempt, status);
    }

    /// Lets a launch end like this on both nodes.
    fn ends(&mut self, attempt: u32, status: Status) {
        for node in 0..2 {
            self.set(node, attempt, status.clone());
        }
        self.beat();
    }

    /// Advances until launch `attempt` runs on these nodes. It does not start on the others.
    fn runs(&mut self, attempt: u32, nodes: &[usize]) {
        for _ in 0..30 {
            if self.wishes.iter().all(|t| t.contains_key(&attempt)) {
                break;
            }
            self.beat();
        }
        for status in [Status::Prepared, Status::Running] {
            for node in 0..2 {
                if nodes.contains(&node) || status == Status::Prepared {
                    self.set(node, attempt, status.clone());
                }
            }
            self.beat();
        }
    }

    fn phase(&self) -> Option<Phase> {
        self.scheduler.view().job(JOB).map(|j| j.phase())
    }

    /// Returns the iterations that the core assumes as done.
    fn work(&self) -> f64 {
        let job = self.scheduler.view().job(JOB);
        job.map_or(f64::NAN, |j| j.work_done())
    }

    /// Returns the running time that the core assumes.
    fn attained(&self) -> f64 {
        let job = self.scheduler.view().job(JOB);
        job.map_or(f64::NAN, |j| j.attained_time().secs())
    }

    /// Kills the scheduler, and restarts it after a while.
    fn outage(&mut self, secs: u64) {
        let saved = self.scheduler.save();
        let at = self.scheduler.time(Millis(self.now + secs * 1_000));
        self.now += secs * 1_000;
        self.scheduler = begun(saved, &[], "other", self.now, at);
    }

    fn granted(&self) -> u64 {
        self.scheduler.launches().durable().fence.0 - FIRST_LIFE
    }

    fn doubt(&self) -> Option<(PartId, Millis)> {
        self.scheduler.launches().doubt(JOB, Millis(self.now))
    }

    fn accounts(&self) -> Vec<End> {
        let all = self.scheduler.launches().durable().accounts_of(JOB);
        all.map(|(_, end)| end.clone()).collect()
    }
}

fn id(attempt: u32) -> AttemptId {
    AttemptId { job: JOB, attempt }
}

fn progress(done: f64, saved: f64) -> Option<Progress> {
    Some(Progress { done, saved })
}

fn done(exit: Exit) -> Status {
    done_after(exit, 9)
}

fn done_after(exit: Exit, secs: u64) -> Status {
    Status::Done(Final {
        exit,
        exited_zero: false,
        ran: Millis::secs(secs),
        estimated: false,
        why: String::new(),
    })
}

#[test]
fn grant_from_an_old_log_is_not_the_running_launch() {
    let at = Time::ZERO;
    let first = Gang::running(9.0);
    // An old copy of the log, without the job; another job is submitted to it.
    let (id, origin, epoch) = (ClusterId("c".into()), at, Epoch(1));
    let copy = [Record::Cluster { id, origin }, Record::Epoch { epoch, at }];
    let mut g = Gang::with(&copy, 9.0);
    g.has = first.has;
    g.beats(10);
    assert_eq!(g.phase(), Some(Phase::Starting));
    assert!(g.wishes.iter().all(|t| t.get(&1) == Some(&Wish::Kill)));
}

#[test]
fn cluster_time_counts_from_the_first_start_of_a_log() {
    let begin = |saved, now, unix| begun(saved, &[], "c", now, Time::new(unix));
    let first = begin(Saved::default(), 5_000, 1e9);
    assert_eq!(first.time(Millis(6_000)), Time::new(1.0));
    let again = begin(first.save(), 0, 1e9 + 100.0);
    assert_eq!(again.time(Millis(0)), Time::new(100.0));
    assert_eq!(
        again.launches().durable().unix(Time::new(100.0)),
        1e9 + 100.0
    );
}

#[test]
fn ranks_may_end_as_far_apart_as_they_like() {
    let mut g = Gang::running(9.0);
    assert_eq!(g.phase(), Some(Phase::Running));
    g.set(0, 1, done(Exit::Completed));
    g.beats(600);
    assert_eq!(g.phase(), Some(Phase::Running));
    assert!(matches!(g.wishes[1][&1], Wish::Run(_)));
    // The first node no longer has a part of it, so the node may be removed.
    g.silent[0] = true;
    g.beats(600);
    assert_eq!(g.phase(), Some(Phase::Running));
    g.set(1, 1, done(Exit::Completed));
    g.beat();
    assert_eq!((g.outcome, g.granted()), (Some(Outcome::Completed), 1));
}

#[test]
fn ranks_ended_early_do_not_block_the_launch() {
    let mut g = Gang::new();
    g.runs(1, &[0]);
    g.set(0, 1, done(Exit::Completed));
    g.beat();
    assert_eq!(g.phase(), Some(Phase::Starting));
    g.set(1, 1, Status::Running);
    g.beats(600);
    assert_eq!(g.phase(), Some(Phase::Running));
    // A part that never starts prevents the start of the launch.
    let mut g = Gang::new();
    g.runs(1, &[0]);
    g.set(0, 1, done(Exit::Completed));
    g.beats(30);
    assert!(!matches!(g.wishes[1].get(&1), Some(Wish::Run(_))));
}

#[test]
fn answer_to_another_question_changes_nothing() {
    let mut g = Gang::running(9_000.0);
    let mut tick = || {
        g.now += 100;
        g.scheduler.step(Millis(g.now), ControllerInput::Tick);
        g.scheduler.core().open().map(|question| question.number)
    };
    let open = (0..50).find_map(|_| tick()).unwrap();
    for other in [open - 1, open + 1] {
        let answer = ControllerInput::Answer(other, Ok(Box::default()));
        let step = g.scheduler.step(Millis(g.now), answer);
        assert!(step.records.is_empty(), "{:?}", step.records);
        assert_eq!(g.scheduler.last_refused(), "");
        assert_eq!(g.scheduler.core().open().map(|q| q.number), Some(open));
    }
}

#[test]
fn new_launch_waits_until_a_superseded_one_has_left() {
    let mut g = Gang::new();
    g.set(0, 9, Status::Running);
    g.beats(8);
    assert_eq!(g.wishes[0].keys().collect::<Vec<_>>(), [&9]);
    assert_eq!(g.wishes[0][&9], Wish::Kill);
    assert_eq!(g.wishes[1].get(&1), Some(&Wish::Prepare));
    g.has[0].remove(&9);
    g.beat();
    assert_eq!(g.wishes[0].get(&1), Some(&Wish::Prepare));
}

#[test]
fn node_gets_no_orders_before_its_first_report() {
    let mut g = Gang::running(9_000.0);
    g.outage(5);
    g.wishes = Default::default();
    g.step(ControllerInput::Request(Request::Cancel(JOB)));
    assert!(g.wishes.iter().all(BTreeMap::is_empty));
    g.report(0);
    assert!(matches!(g.wishes[0].get(&1), Some(Wish::Yield(_))));
    assert!(g.wishes[1].is_empty());
}

#[test]
fn starting_launch_ends_once_one_of_its_nodes_is_lost() {
    let mut g = Gang::new();
    g.runs(1, &[0]);
    g.silent[1] = true;
    g.beats(6);
    assert!(matches!(g.wishes[0].get(&1), Some(Wish::Run(_))));
    // Before the limit of a start, and before the end of the lease.
    g.beats(4);
    assert!(matches!(g.wishes[0].get(&1), Some(Wish::Yield(_))));
}

#[test]
fn rank_failing_after_others_ended_fails_the_launch() {
    let mut g = Gang::running(9.0);
    g.set(0, 1, done(Exit::Completed));
    g.beats(60);
    g.set(1, 1, done(Exit::Failed { code: 3 }));
    g.beat();
    let durable = g.scheduler.launches().durable();
    assert_eq!(durable.failures.get(&JOB), Some(&1));
    assert!(durable.backing_off.contains_key(&JOB));
}

/// Both nodes are unreachable, and the launch is given up.
fn given_up() -> Gang {
    let mut g = Gang::running(9.0);
    g.silent = [true; 2];
    g.beats(30);
    assert_eq!(g.phase(), Some(Phase::Waiting));
    g.set(0, 1, done(Exit::Completed));
    g
}

#[test]
fn work_that_was_done_out_of_reach_is_not_done_again() {
    let mut g = given_up();
    g.set(1, 1, done(Exit::Completed));
    g.silent[0] = false;
    g.beats(10);
    assert_eq!(g.phase(), Some(Phase::Waiting));
    g.silent[1] = false;
    g.beats(60);
    assert_eq!((g.outcome, g.granted()), (Some(Outcome::Completed), 1));
    assert!(
        g.accounts()
            .iter()
            .all(|e| !e.estimated && e.ran == Millis(9_000))
    );
    assert!(g.has.iter().all(BTreeMap::is_empty));
}

#[test]
fn accounts_name_running_times_that_no_node_saw() {
    let mut g = given_up();
    let lost = Final::unobserved(Exit::Lost, Millis::secs(9), "the node went down");
    g.set(1, 1, Status::Done(lost));
    g.silent = [false; 2];
    g.beats(10);
    let unobserved = g.accounts().into_iter().filter(|e| e.unobserved);
    assert_eq!(
        unobserved.map(|e| (e.exit, e.ran)).collect::<Vec<_>>(),
        [(Exit::Lost, Millis::secs(9))]
    );
    assert!(g.accounts().iter().all(|e| !e.estimated));
}

#[test]
fn scheduler_outage_is_not_counted_as_runtime() {
    for (beats, exits, saved) in [
        (100, [Exit::Stopped; 2], 112.0),
        // The core has received no event since the start.
        (1, [Exit::Stopped; 2], 112.0),
        (100, [Exit::Stopped, Exit::Cut], 0.0),
    ] {
        let mut g = Gang::running(9_000.0);
        g.beats(beats);
        let before = g.attained();
        let near = beats as f64 - 2.0..=beats as f64 + 4.0;
        assert!(near.contains(&before), "{before}");
        g.outage(3_600);
        // The leases ran out; one node needed a little longer to end its part.
        g.set(0, 1, done_after(exits[0], 110));
        g.set(1, 1, done_after(exits[1], 112));
        g.silent = [true; 2];
        g.report(0);
        g.report(1);
        assert_eq!(g.phase(), Some(Phase::Waiting));
        assert_eq!((g.attained(), g.work()), (112.0, saved));
        let job = g.scheduler.view().job(JOB).unwrap();
        assert_eq!(job.attained_gpu_time(), Seconds::new(224.0));
    }
}

#[test]
fn outage_is_not_counted_for_a_requeued_job() {
    let mut g = Gang::running(9_000.0);
    g.beats(100);
    g.outage(3_600);
    g.step(ControllerInput::Request(Request::Requeue(JOB)));
    for node in 0..2 {
        g.set(node, 1, done_after(Exit::Stopped, 112));
        g.silent[node] = true;
        g.report(node);
    }
    assert_eq!(g.phase(), Some(Phase::Waiting));
    assert_eq!((g.attained(), g.work()), (112.0, 112.0));
}

#[test]
fn runtime_since_the_last_core_event_counts() {
    let mut g = Gang::running(9_000.0);
    let start = g.now;
    g.now += 20_000;
    g.set(0, 1, done_after(Exit::Stopped, 20));
    g.report(0);
    // The core's time advances only with events.
    g.now += 20_000;
    g.set(1, 1, done_after(Exit::Stopped, 40));
    g.report(1);
    assert_eq!(
        (g.now - start, g.attained(), g.work()),
        (40_000, 40.0, 40.0)
    );
}

#[test]
fn launch_on_a_lost_node_counts_to_its_last_report() {
    // Time of the last report before the loss.
    let mut g = Gang::running(9.0);
    g.beats(100);
    let attained = g.attained();
    g.silent = [true; 2];
    g.beats(30);
    assert_eq!(g.phase(), Some(Phase::Waiting));
    assert_eq!(g.attained(), attained);
    // Last time in the log before the outage.
    let mut g = Gang::running(9.0);
    g.beats(100);
    let known = g.attained();
    g.silent = [true; 2];
    g.outage(3_600);
    g.beats(30);
    assert_eq!(g.phase(), Some(Phase::Waiting));
    assert!(
        (known - 2.0..=known).contains(&g.attained()),
        "{}",
        g.attained()
    );
    // The end was not observed, and the node does not know its time.
    let mut g = Gang::running(9.0);
    g.beats(100);
    g.set(0, 1, done_after(Exit::Lost, 0));
    g.set(1, 1, done_after(Exit::Lost, 90));
    g.beat();
    assert!(g.attained() > 98.0, "{}", g.attained());
}

#[test]
fn work_done_partly_out_of_reach_is_repeated() {
    let mut g = given_up();
    g.set(1, 1, done(Exit::Cut));
    g.silent = [false; 2];
    g.beats(10);
    assert_eq!((g.outcome, g.granted()), (None, 2));
}

#[test]
fn lost_node_lets_ranks_on_others_save_their_work() {
    let mut g = Gang::running(9.0);
    g.silent[0] = true;
    g.beats(30);
    assert_eq!(g.wishes[1].get(&1), Some(&Wish::Yield(Millis::secs(7))));
    // Until both have reported, nothing of the job starts elsewhere.
    g.silent[0] = false;
    g.has[0].clear();
    g.beats(6);
    assert_eq!(g.granted(), 1);
    g.set(1, 1, done(Exit::Stopped));
    g.beats(6);
    assert_eq!((g.outcome, g.granted()), (None, 2));
    assert_eq!(g.scheduler.launches().durable().failures.get(&JOB), None);
}

#[test]
fn launch_lost_by_a_new_manager_is_not_restarted() {
    let mut g = Gang::running(9.0);
    g.sessions[1] = 2;
    g.has[1].clear();
    g.beat();
    // It does not even receive an order to end it, since it would report that it never ran.
    assert_eq!(g.wishes[1], BTreeMap::new());
    assert!(matches!(g.wishes[0].get(&1), Some(Wish::Yield(_))));
    g.set(0, 1, done(Exit::Stopped));
    // Until the lease of a part that may still run is over: 20.3 s after the last report.
    g.beats(18);
    assert_eq!((g.accounts().len(), g.granted()), (1, 1));
    assert_eq!(g.wishes[1], BTreeMap::new());
    g.beats(6);
    let ends: Vec<Exit> = g.accounts().iter().map(|e| e.exit).collect();
    assert_eq!(ends, [Exit::Stopped, Exit::Lost]);
    assert_eq!((g.outcome, g.granted()), (None, 2));
    // Orders that it had not received before are repeated.
    g.beats(10);
    g.sessions[1] = 3;
    g.beat();
    assert_eq!(g.wishes[1].get(&2), Some(&Wish::Prepare));
}

#[test]
fn launch_that_no_node_was_to_run_is_not_doubted() {
    let mut g = Gang::new();
    g.beats(4);
    assert_eq!(g.wishes[1].get(&1), Some(&Wish::Prepare));
    // The scheduler and a node manager are started anew before all parts are prepared.
    g.outage(4);
    g.sessions[1] = 2;
    g.wishes = Default::default();
    g.beats(4);
    assert_eq!(g.wishes[1].get(&1), Some(&Wish::Prepare));
    g.runs(1, &[0, 1]);
    assert_eq!((g.phase(), g.accounts().len()), (Some(Phase::Running), 0));
    // From the order to run it on, a manager that no longer has it may have run it.
    g.outage(4);
    g.sessions[1] = 3;
    g.has[1].clear();
    assert_eq!(g.doubt(), None);
    g.beats(4);
    assert!(matches!(g.wishes[0].get(&1), Some(Wish::Yield(_))));
    let (part, left) = g.doubt().unwrap();
    assert_eq!((part.node, part.id.attempt), (NodeId(1), 1));
    assert!((10_000..20_000).contains(&left.0), "{left:?}");
    g.ends(1, done(Exit::Stopped));
    g.beats(60);
    assert_eq!(g.doubt(), None);
}

#[test]
fn launch_whose_gpu_fails_first_is_placed_anew() {
    let mut g = Gang::new();
    g.beats(4);
    assert_eq!(g.wishes[1].get(&1), Some(&Wish::Prepare));
    g.failed_gpus[1] = Some("failed: Xid 79".into());
    g.beat();
    for wishes in &g.wishes {
        assert!(matches!(wishes.get(&1), Some(Wish::Yield(_))));
    }
    g.ends(1, done(Exit::Stopped));
    g.beats(30);
    assert_eq!((g.phase(), g.granted()), (Some(Phase::Waiting), 1));
    let why = g.scheduler.launches().failure_of_gpu(NodeId(1), 0);
    assert_eq!(why.map(Name::as_str), Some("failed: Xid 79"));
    g.failed_gpus[1] = None;
    g.beats(6);
    g.runs(2, &[0, 1]);
    assert_eq!((g.phase(), g.granted()), (Some(Phase::Running), 2));
    let why = g.scheduler.launches().failure_of_gpu(NodeId(1), 0);
    assert_eq!(why, None);
}

#[test]
fn saved_work_counts_after_nodes_forget_the_launch() {
    let mut g = Gang::new();
    g.reported.progress = progress(6.0, 5.0);
    g.runs(1, &[0, 1]);
    g.sessions = [2; 2];
    g.has = Default::default();
    g.beats(26);
    assert_eq!((g.granted(), g.work()), (2, 5.0));
}

#[test]
fn failed_rank_gives_other_nodes_the_kill_timeout() {
    let mut g = Gang::running(9.0);
    g.set(0, 1, done(Exit::Failed { code: 3 }));
    g.beat();
    let kill = Settings::default().timers.kill;
    assert_eq!(g.wishes[1].get(&1), Some(&Wish::Yield(kill)));
}

/// The end of a launch whose shim ended.
fn shimless() -> Status {
    let Status::Done(mut end) = done(Exit::Lost) else {
        unreachable!()
    };
    end.why = SHIM_ENDED.to_owned();
    Status::Done(end)
}

/// Returns the seconds from the end of launch `attempt` to the orders for the next one.
fn delay_after(g: &mut Gang, attempt: u32) -> u64 {
    g.ends(attempt, shimless());
    let ended = g.now;
    while !g.wishes.iter().all(|w| w.contains_key(&(attempt + 1))) {
        assert!(g.now - ended < 200_000, "no launch after {attempt}");
        g.beat();
    }
    (g.now - ended) / 1_000
}

/// A job whose shims die is started again after growing delays, and then held.
#[test]
fn lost_launches_in_a_row_hold_the_job() {
    let mut g = Gang::running(5_000.0);
    let mut delays = Vec::new();
    for attempt in 1..5 {
        delays.push(delay_after(&mut g, attempt));
        g.runs(attempt + 1, &[0, 1]);
    }
    let near = |got: &u64, wanted: u64| (wanted..wanted + 5).contains(got);
    let wanted = [0, 10, 20, 40];
    assert!(
        delays
            .iter()
            .zip(wanted)
            .all(|(got, wanted)| near(got, wanted)),
        "{delays:?}"
    );
    g.ends(5, shimless());
    g.beats(1_000);
    assert_eq!((g.phase(), g.granted()), (Some(Phase::Deferred), 5));
    let wasted = g.scheduler.launches().durable().wasted[&JOB].clone();
    assert_eq!((wasted.in_row, wasted.held), (5, true));
    assert_eq!(wasted.why, format!("{SHIM_ENDED} (node 0)"));
    // The user's release starts the count anew.
    g.step(ControllerInput::Request(Request::Release(JOB)));
    g.runs(6, &[0, 1]);
    assert_eq!(g.phase(), Some(Phase::Running));
    assert!(g.scheduler.launches().durable().wasted.is_empty());
}

#[test]
fn time_limit_counts_all_launches_and_ends_the_job() {
    let extras = Extras {
        attributes: [("time_limit_s".into(), 100.into())].into(),
        ..Extras::default()
    };
    let ran = |exit, secs: u64| {
        let Status::Done(mut end) = done(exit) else {
            unreachable!()
        };
        end.ran = Millis::secs(secs);
        Status::Done(end)
    };
    let mut g = Gang::of(&[], 5_000.0, extras);
    g.runs(1, &[0, 1]);
    let left = |g: &Gang, attempt: u32| {
        let launches = g.scheduler.launches();
        launches.time_left(id(attempt), &launches.durable().attempts[&id(attempt)])
    };
    assert_eq!(left(&g, 1), Some(Millis::secs(100)));
    g.step(ControllerInput::Request(Request::Requeue(JOB)));
    g.ends(1, ran(Exit::Stopped, 60));
    g.runs(2, &[0, 1]);
    assert_eq!(left(&g, 2), Some(Millis::secs(40)));
    g.ends(2, ran(Exit::TimedOut, 41));
    assert_eq!(g.outcome, Some(Outcome::TimedOut));
}

/// The shims of three jobs end on a node: it is cordoned for a while, and the other is not.
#[test]
fn node_on_which_shims_end_is_in_quarantine() {
    let mut g = Gang::running(5_000.0);
    let now = |g: &Gang| Millis(g.now);
    for job in 7..10 {
        let at = now(&g);
        g.scheduler.note_shim(at, NodeId(1), JobId(job));
        let at = now(&g);
        g.scheduler.note_shim(at, NodeId(0), JobId(7));
    }
    g.beat();
    let cordons = |g: &Gang| {
        let view = g.scheduler.view();
        [0, 1].map(|n| view.node(NodeId(n)).and_then(|n| n.cordoned()).cloned())
    };
    let [None, Some(why)] = cordons(&g) else {
        panic!("{:?}", cordons(&g));
    };
    assert_eq!(
        why.as_str(),
        "in quarantine: the shims of 3 jobs ended on it"
    );
    // The second node stays, although it is no better.
    for job in 7..10 {
        let at = now(&g);
        g.scheduler.note_shim(at, NodeId(0), JobId(job));
    }
    g.beat();
    assert_eq!(cordons(&g)[0], None);
    g.beats(56);
    assert!(cordons(&g)[1].is_some());
    g.beats(10);
    assert_eq!(cordons(&g)[1], None);
}

#[test]
fn useful_running_time_forgets_lost_launches() {
    let lost = |g: &Gang| {
        let wasted = g.scheduler.launches().durable().wasted.get(&JOB);
        wasted.map_or(0, |wasted| wasted.in_row)
    };
    let ran = |secs: u64| {
        let Status::Done(mut end) = shimless() else {
            unreachable!()
        };
        end.ran = Millis::secs(secs);
        Status::Done(end)
    };
    let mut g = Gang::running(5_000.0);
    g.ends(1, ran(599));
    assert_eq!(lost(&g), 1);
    g.runs(2, &[0, 1]);
    g.ends(2, ran(600));
    assert_eq!(lost(&g), 0);
    // Saved work counts after a shorter time, and not after an instant.
    g.reported.progress = progress(6.0, 5.0);
    g.runs(3, &[0, 1]);
    g.ends(3, ran(29));
    assert_eq!(lost(&g), 1);
    g.reported.progress = progress(9.0, 8.0);
    g.runs(4, &[0, 1]);
    g.ends(4, ran(30));
    assert_eq!(lost(&g), 0);
}

/// A job whose first launch saves 5 iterations and is then replaced by a second launch.
fn saved_five() -> Gang {
    let mut g = Gang::new();
    g.reported.progress = progress(6.0, 5.0);
    g.runs(1, &[0, 1]);
    g.step(ControllerInput::Request(Request::Requeue(JOB)));
    for node in 0..2 {
        g.set(node, 1, done(Exit::Cut));
    }
    g.reported.progress = None;
    g.beat();
    assert_eq!(g.work(), 5.0);
    g.runs(2, &[0, 1]);
    assert_eq!(g.phase(), Some(Phase::Running));
    g
}

#[test]
fn launch_without_progress_takes_no_work_back() {
    let mut g = saved_five();
    g.ends(2, done(Exit::Failed { code: 3 }));
    assert_eq!((g.phase(), g.work()), (Some(Phase::Deferred), 5.0));
    // Neither does a launch that has saved nothing yet.
    let mut g = saved_five();
    g.reported.progress = progress(6.0, 0.0);
    g.beat();
    g.ends(2, done(Exit::Cut));
    assert_eq!(g.work(), 5.0);
}

#[test]
fn node_is_lost_only_if_it_is_silent() {
    let why = |g: &Gang| g.scheduler.view().job(JOB).map(|j| j.reason().to_string());
    assert_eq!(why(&given_up()).as_deref(), Some("node lost"));
    let mut g = Gang::running(9.0);
    let Status::Done(mut end) = done(Exit::Lost) else {
        return;
    };
    end.why = SHIM_ENDED.to_owned();
    g.set(0, 1, Status::Done(end));
    g.set(1, 1, done(Exit::Cut));
    g.beat();
    assert_eq!(why(&g).as_deref(), Some(SHIM_ENDED));
}

#[test]
fn first_failure_decides_the_outcome_of_a_job() {
    // The rank on the lower-numbered node fails as a consequence.
    let mut g = Gang::running(9.0);
    for (node, code) in [(1, 42), (0, 1)] {
        g.set(node, 1, done(Exit::Failed { code }));
        g.report(node);
    }
    g.beat();
    assert_eq!(g.outcome, Some(Outcome::Failed));
}

#[test]
fn progress_reported_with_the_end_counts() {
    let mut g = Gang::running(9.0);
    g.step(ControllerInput::Request(Request::Requeue(JOB)));
    g.reported.progress = progress(5.0, 5.0);
    g.ends(1, done(Exit::Stopped));
    assert_eq!((g.phase(), g.work()), (Some(Phase::Waiting), 5.0));
}

/// The readings of the loss that reached the core, in seconds since the first.
fn losses(g: &Gang) -> Vec<(f64, f64)> {
    let job = g.scheduler.view().job(JOB);
    let all = job.map_or(&[][..], |j| j.metric("loss"));
    let at = |(t, loss): &(Time, f64)| ((*t - all[0].0).secs(), *loss);
    all.iter().map(at).collect()
}

/// Reports this progress and loss for the job.
fn report_progress(g: &mut Gang, done: f64, loss: f64) {
    g.reported.progress = progress(done, 0.0);
    g.reported.metrics.insert("loss".into(), loss);
}

#[test]
fn job_reports_reach_policies_at_intervals() {
    let mut g = Gang::running(5_000.0);
    let speed = |g: &Gang| g.scheduler.view().job(JOB).map(|j| j.rate());
    assert_eq!(speed(&g), Some(1.0));
    // The job runs at 0.25 iterations per second. Every report has a reading, and one in five is
    // forwarded.
    for step in 0..50 {
        report_progress(&mut g, f64::from(step) * 0.5, 1.0 / f64::from(step + 1));
        g.beat();
        if step == 0 {
            // A single reading gives no speed.
            assert_eq!((g.work(), speed(&g)), (0.0, Some(1.0)));
        }
    }
    let expected: Vec<_> = (0..10).map(|i| 5.0 * f64::from(i)).collect();
    let expected: Vec<_> = expected
        .iter()
        .map(|s| (s * 2.0, 1.0 / (s + 1.0)))
        .collect();
    assert_eq!(losses(&g), expected);
    assert_eq!(speed(&g), Some(0.25));
    // Progress that the core extrapolated since the last reading at the measured speed.
    assert!((22.5..=25.0).contains(&g.work()), "{}", g.work());
    // An unchanged value is not a new reading, although the job continues.
    for step in 50..70 {
        report_progress(&mut g, f64::from(step) * 0.5, 0.01);
        g.beat();
    }
    assert_eq!(losses(&g)[10..], [(100.0, 0.01)]);
    // After 1,000 s of running time, a reading is forwarded every 10 s; after 2,000 s, every 20 s.
    g.reported.progress = None;
    for step in 0..1_000u32 {
        g.reported.metrics.insert("loss".into(), f64::from(step));
        g.beat();
    }
    let between: Vec<f64> = losses(&g).windows(2).map(|w| w[1].0 - w[0].0).collect();
    assert_eq!(between[20], 10.0);
    assert_eq!(between.last(), Some(&22.0));
}

#[test]
fn a_job_that_gets_no_further_is_not_taken_to() {
    let mut g = Gang::running(5_000.0);
    let speed = |g: &Gang| g.scheduler.view().job(JOB).map(|j| j.rate());
    report_progress(&mut g, 100.0, 0.5);
    g.beats(1_000);
    // The specification has one iteration per second, and the job has reported no progress.
    assert!((100.0..=112.0).contains(&g.work()), "{}", g.work());
    assert_eq!(speed(&g), Some(1.0));
    report_progress(&mut g, 600.0, 0.5);
    g.beats(1_000);
    assert!((600.0..=612.0).contains(&g.work()), "{}", g.work());
    let slow = 500.0 / 2_000.0;
    let found = speed(&g).unwrap();
    assert!((slow..slow * 1.05).contains(&found), "{found}");
}

#[test]
fn nonsense_of_a_job_does_not_spoil_what_is_kept() {
    let mut g = Gang::training(50_000.0);
    g.runs(1, &[0, 1]);
    report_progress(&mut g, 0.0, 0.5);
    g.beats(3_000);
    for x in [1.7e308, 1e-320, 1e30, f64::MAX] {
        let names = ["pass_s", "step_s", "grad_sqr", "grad_var", "batch_per_gpu"];
        let numbers = names.map(|name| (name.into(), x));
        g.reported.metrics.extend(numbers);
        g.reported.progress = progress(x, 0.0);
        g.beats(100);
        let saved = serde_json::to_string(&g.scheduler.save()).unwrap();
        assert!(
            serde_json::from_str::<Saved>(&saved).is_ok(),
            "{x}: {saved}"
        );
        let job = g.scheduler.view().job(JOB).unwrap();
        assert!(job.rate().is_finite() && job.work_done().is_finite(), "{x}");
    }
}

#[test]
fn the_last_word_of_a_launch_is_passed_on_at_once() {
    let mut g = Gang::running(9.0);
    report_progress(&mut g, 1.0, 0.5);
    g.beat();
    report_progress(&mut g, 3.0, 0.25);
    g.beat();
    assert_eq!(losses(&g), [(0.0, 0.5)]);
    for node in 0..2 {
        g.set(node, 1, done(Exit::Failed { code: 3 }));
    }
    report_progress(&mut g, 4.0, 0.125);
    g.beat();
    assert_eq!(losses(&g), [(0.0, 0.5), (4.0, 0.125)]);
    // Unsaved work is lost.
    assert_eq!(g.work(), 0.0);
}

#[test]
fn a_job_that_went_back_is_measured_from_there() {
    let mut g = Gang::running(5_000.0);
    let mut goes_on = |from: f64, by: f64| {
        for step in 0..30 {
            report_progress(&mut g, from + by * f64::from(step), 1.0);
            g.beat();
        }
        g.scheduler.view().job(JOB).map(|j| j.rate())
    };
    assert_eq!(goes_on(100.0, 4.0), Some(2.0));
    assert_eq!(goes_on(50.0, 1.0), Some(0.5));
}

#[test]
fn the_numbers_of_rank_0_count_and_others_fill_in() {
    let mut g = Gang::running(9.0);
    let all = |g: &Gang| {
        let report = g.scheduler.launches().job_report(id(1));
        let progress = report.progress.map(|p| (p.done, p.saved));
        let metrics = report.metrics.iter().map(|(n, v)| (n.to_string(), *v));
        (progress, metrics.collect::<Vec<_>>())
    };
    for node in [1, 0] {
        let x = f64::from(node as u32);
        g.reported.progress = progress(5.0 + x, 4.0 - x);
        let own = ["a", "b"][node];
        g.reported.metrics = [("loss".into(), x), (own.into(), 7.0)].into();
        g.report(node);
    }
    let named = |n: &str, v| (n.to_owned(), v);
    let expected = vec![named("a", 7.0), named("b", 7.0), named("loss", 0.0)];
    assert_eq!(all(&g), (Some((6.0, 4.0)), expected.clone()));
    // An empty report keeps the last reported values.
    g.reported = JobReport::default();
    g.beat();
    assert_eq!(all(&g), (Some((6.0, 4.0)), expected));
}

#[test]
fn steps_of_a_training_job_become_a_goodput_model() {
    let mut g = Gang::training(5_000.0);
    let report = |g: &Gang| {
        let job = g.scheduler.view().job(JOB);
        job.and_then(|j| j.report().cloned())
    };
    let report_numbers = |g: &mut Gang, numbers: &[(&str, f64)]| {
        let numbers = numbers.iter().map(|(name, x)| ((*name).into(), *x));
        g.reported.metrics.extend(numbers);
        g.beats(10);
    };
    let batch = |g: &Gang, attempt: u32| {
        let parts = &g.scheduler.launches().durable().attempts[&id(attempt)]
            .launch
            .parts;
        BatchConfig::of(&parts[0].1.config).map(|b| (b.per_gpu, b.accumulation))
    };
    g.runs(1, &[0, 1]);
    // The batch configuration of the specification on two GPUs.
    assert_eq!(batch(&g, 1), Some((32, 0)));
    // The step time is not reported yet.
    report_numbers(&mut g, &[("pass_s", 0.1), ("grad_sqr", 1.0)]);
    assert_eq!(report(&g), None);
    report_numbers(&mut g, &[("step_s", 0.15)]);
    let first = report(&g).unwrap();
    let speed = first.speed[""];
    assert_eq!(speed.most_gpus, GpuCount(2));
    // From a single configuration, AdaptDL's fit stops early: only the pass time is as reported.
    let pass = speed.params.pass(32.0);
    assert!((pass - 0.1).abs() < 0.001, "{pass}");
    // The gradient noise is not reported yet.
    assert_eq!(first.noise, GradientNoise { sqr: 1.0, var: 0.0 });
    // Nearly equal values are not news.
    report_numbers(&mut g, &[("step_s", 0.152)]);
    assert_eq!(report(&g), Some(first));
    report_numbers(&mut g, &[("grad_var", 300.0)]);
    let noise = report(&g).map(|r| (r.noise.sqr, r.noise.var));
    assert_eq!(noise, Some((1.0, 300.0)));
    // The job uses another batch size by itself; both configurations are stored.
    let other = [("batch_per_gpu", 64.0), ("pass_s", 0.18), ("step_s", 0.23)];
    report_numbers(&mut g, &other);
    let params = report(&g).unwrap().speed[""].params;
    for (per_gpu, seconds) in [(32.0, 0.15), (64.0, 0.23)] {
        let step = params.step(2, 2, per_gpu, 0);
        assert!((step / seconds - 1.0).abs() < 0.1, "{step} of {seconds}");
    }
    let durable = g.scheduler.launches().durable();
    let text = serde_json::to_string(durable).unwrap();
    assert_eq!(&serde_json::from_str::<Durable>(&text).unwrap(), durable);
    // The next launch starts with a more efficient batch size, and at the modelled speed.
    g.step(ControllerInput::Request(Request::Requeue(JOB)));
    g.ends(1, done(Exit::Stopped));
    g.reported = JobReport::default();
    g.runs(2, &[0, 1]);
    assert_eq!(batch(&g, 2), Some((64, 1)));
    let model = GoodputModel {
        speed: params,
        noise: GradientNoise {
            sqr: 1.0,
            var: 300.0,
        },
        initial_batch: 64,
    };
    let rate = g.scheduler.view().job(JOB).map(|j| j.rate());
    assert_eq!(rate, Some(model.goodput(2, 2, 64, 1) / 64.0));
    // Nothing is stored of a job that has ended.
    g.step(ControllerInput::Request(Request::Cancel(JOB)));
    g.ends(2, done(Exit::Cut));
    assert_eq!(g.outcome, Some(Outcome::Cancelled));
    assert!(g.scheduler.launches().durable().steps.is_empty());
}

#[test]
fn a_job_has_sixteen_names_and_no_more() {
    let mut g = Gang::running(5_000.0);
    for step in 0..5u32 {
        let names = (0..10).map(|i| format!("m{}", step * 10 + i).as_str().into());
        g.reported.metrics = names.map(|n| (n, 0.5)).collect();
        g.beats(10);
    }
    let durable = g.scheduler.launches().durable();
    let names: Vec<_> = durable.jobs[&JOB].metrics.keys().collect();
    assert_eq!(names.len(), 16);
    // Parts that the node reports are handled as before.
    assert_eq!(names[15].as_str(), "m9");
    g.reported.metrics = [("m9".into(), 0.25), ("m99".into(), 1.0)].into();
    g.beats(10);
    let readings = |name| g.scheduler.view().job(JOB).map(|j| j.metric(name).len());
    assert_eq!((readings("m9"), readings("m99")), (Some(2), Some(0)));
}

/// Every rank exited with 0 after an order to stop.
fn stopped_with_zero() -> Status {
    Status::Done(Final {
        exit: Exit::Stopped,
        exited_zero: true,
        ran: Millis::secs(9),
        estimated: false,
        why: "ordered to stop".to_owned(),
    })
}

/// A job of 100 iterations that is requeued and whose ranks end like this, with this progress.
fn put_back(ends: [Status; 2], done: Option<(f64, f64)>, extras: Extras) -> Gang {
    let mut g = Gang::of(&[], 100.0, extras);
    g.runs(1, &[0, 1]);
    g.step(ControllerInput::Request(Request::Requeue(JOB)));
    g.reported.progress = done.map(|(done, saved)| Progress { done, saved });
    for (node, end) in ends.into_iter().enumerate() {
        g.set(node, 1, end);
    }
    g.beat();
    g
}

#[test]
fn launch_zero_after_a_stop_is_resumed() {
    let zero = || [stopped_with_zero(), stopped_with_zero()];
    // The known work is kept: what was saved, else what was done.
    for (progress, work) in [
        ((40.0, 30.0), 30.0),
        ((40.0, 0.0), 40.0),
        ((99.9, 0.0), 99.9),
    ] {
        let g = put_back(zero(), Some(progress), Extras::default());
        assert_eq!((g.outcome, g.phase()), (None, Some(Phase::Waiting)));
        assert_eq!(g.work(), work);
    }
    let mut g = put_back(zero(), None, Extras::default());
    assert_eq!((g.outcome, g.phase()), (None, Some(Phase::Waiting)));
    g.reported = JobReport::default();
    g.runs(2, &[0, 1]);
    assert_eq!(g.phase(), Some(Phase::Running));
    g.ends(2, done(Exit::Completed));
    let durable = g.scheduler.launches().durable();
    assert_eq!(durable.failures.get(&JOB), None);
    assert_eq!((g.outcome, g.granted()), (Some(Outcome::Completed), 2));
}

#[test]
fn launch_zero_after_all_iterations_is_completed() {
    for ends in [
        [stopped_with_zero(), stopped_with_zero()],
        [done(Exit::Completed), stopped_with_zero()],
    ] {
        let g = put_back(ends, Some((100.0, 0.0)), Extras::default());
        assert_eq!(g.outcome, Some(Outcome::Completed));
    }
    // Exit code 75 states that work remains, whatever the iterations say.
    let ends = [done(Exit::Stopped), stopped_with_zero()];
    let g = put_back(ends, Some((100.0, 0.0)), Extras::default());
    assert_eq!((g.outcome, g.phase()), (None, Some(Phase::Waiting)));
}

#[test]
fn nodes_learn_of_a_notice_before_the_stop() {
    let mut g = Gang::running(900.0);
    let by = g.scheduler.time(Millis(g.now)) + Seconds::new(700.0);
    g.notifies = Some(by);
    while g.warned.contains(&None) {
        g.beat();
    }
    let left = |g: &Gang| by - g.scheduler.time(Millis(g.now));
    let near = |g: &Gang| {
        let warned = g.warned.map(|left| left.unwrap().as_secs());
        let left = left(g).secs();
        warned.iter().all(|w| (w - left).abs() <= 4.0)
    };
    assert!(near(&g), "{:?}", g.warned);
    assert_eq!(g.phase(), Some(Phase::Running));
    // A restarted scheduler still knows the notice.
    g.warned = [None; 2];
    g.outage(10);
    g.beats(6);
    assert!(near(&g), "{:?}", g.warned);
}

#[test]
fn running_job_outlasts_decisions_that_fail() {
    let mut g = Gang::running(900.0);
    (g.fails, g.preempts) = (true, true);
    g.beats(900);
    let failed = g.scheduler.core().counters().failed_decisions;
    assert!(failed > 1, "{failed}");
    assert_eq!(g.phase(), Some(Phase::Running));
    assert!(matches!(g.wishes[0][&1], Wish::Run(_)));
    // The next answer counts.
    g.fails = false;
    g.beats(60);
    assert_eq!(g.phase(), Some(Phase::Stopping));
}

#[test]
fn launch_completed_while_stopping_has_last_progress() {
    let mut g = Gang::running(100.0);
    g.preempts = true;
    while g.phase() == Some(Phase::Running) {
        g.beat();
    }
    assert_eq!(g.phase(), Some(Phase::Stopping));
    g.reported.progress = progress(100.0, 100.0);
    for node in 0..2 {
        g.set(node, 1, stopped_with_zero());
    }
    g.beat();
    assert_eq!(g.outcome, Some(Outcome::Completed));
    let durable = g.scheduler.launches().durable();
    assert_eq!(durable.jobs[&JOB].done, Some(100.0));
}

#[test]
fn launch_zero_that_means_complete_is_completed() {
    let rules = serde_json::json!({ "0": "complete" });
    let extras = Extras {
        attributes: [("on_exit".into(), rules)].into(),
        ..Extras::default()
    };
    let ends = [stopped_with_zero(), stopped_with_zero()];
    let g = put_back(ends, None, extras);
    assert_eq!(g.outcome, Some(Outcome::Completed));
}

#[test]
fn launch_zero_after_a_lost_lease_is_resumed() {
    let mut g = Gang::running(100.0);
    for node in 0..2 {
        g.set(node, 1, stopped_with_zero());
    }
    g.beat();
    assert_eq!((g.outcome, g.phase()), (None, Some(Phase::Waiting)));
    let durable = g.scheduler.launches().durable();
    assert_eq!(durable.failures.get(&JOB), None);
}

#[test]
fn launch_bad_file_is_a_failure_with_its_reason() {
    let bad = || {
        Status::Done(Final {
            exit: Exit::BadFile,
            exited_zero: false,
            ran: Millis::secs(9),
            estimated: false,
            why: "/x/progress is a folder, expected a regular file".to_owned(),
        })
    };
    let attributes = [("max_retries".into(), 1.into())];
    let extras = Extras {
        attributes: attributes.into(),
        ..Extras::default()
    };
    let mut g = Gang::of(&[], 9.0, extras);
    g.runs(1, &[0, 1]);
    g.set(0, 1, bad());
    g.beat();
    // The other ranks have the time limit that follows the failure of a rank.
    let kill = Settings::default().timers.kill;
    assert_eq!(g.wishes[1].get(&1), Some(&Wish::Yield(kill)));
    g.set(1, 1, done(Exit::Cut));
    g.beat();
    let why = &g.accounts()[0].why;
    assert_eq!(why, "/x/progress is a folder, expected a regular file");
    let durable = g.scheduler.launches().durable();
    assert_eq!(durable.failures.get(&JOB), Some(&1));
    assert_eq!(g.outcome, None);
    g.runs(2, &[0, 1]);
    for node in 0..2 {
        g.set(node, 2, bad());
    }
    g.beat();
    assert_eq!((g.outcome, g.granted()), (Some(Outcome::Failed), 2));
}

#[test]
fn launch_after_a_restart_waits_for_its_address() {
    let mut g = Gang::new();
    g.runs(1, &[0]);
    g.set(0, 1, done(Exit::Completed));
    g.beat();
    assert!(matches!(g.wishes[1][&1], Wish::Run(_)));
    // The new run of the scheduler does not know the port of the first node.
    g.outage(1);
    g.beat();
    assert_eq!(g.wishes[1][&1], Wish::Prepare);
    g.beats(30);
    assert!(matches!(g.wishes[1][&1], Wish::Yield(_)));
}

#[test]
fn hold_in_the_retry_delay_cancels_the_retry() {
    let mut g = Gang::running(9.0);
    g.set(0, 1, done(Exit::Failed { code: 3 }));
    g.set(1, 1, done(Exit::Cut));
    g.beat();
    let retries = |g: &Gang| g.scheduler.launches().durable().backing_off.len();
    assert_eq!(retries(&g), 1);
    g.step(ControllerInput::Request(Request::Hold(JOB)));
    assert_eq!(retries(&g), 0);
    g.beats(60);
    assert_eq!(g.granted(), 1);
    g.step(ControllerInput::Request(Request::Release(JOB)));
    g.beats(10);
    assert_eq!(g.granted(), 2);
}

#[test]
fn remove_of_a_node_with_an_open_launch_fails() {
    let mut g = Gang::running(9.0);
    g.silent[1] = true;
    g.beats(10);
    let remove = |g: &mut Gang| {
        let request = ControllerInput::Request(Request::Remove(NodeId(1)));
        let step = g.scheduler.step(Millis(g.now), request);
        step.reply.unwrap().map_err(|e| e.to_string())
    };
    let why = remove(&mut g).unwrap_err();
    assert!(why.contains("job 0 may still run on it"), "{why}");
    g.set(0, 1, done(Exit::Stopped));
    g.beats(16);
    assert!(remove(&mut g).is_ok());
}

#[test]
fn knobs_of_a_config_reach_each_part() {
    let mut g = Gang::training(1e4);
    g.config = Config::of([("tp", 2.0)]);
    g.runs(1, &[0, 1]);
    let parts = &g.scheduler.launches().durable().attempts[&id(1)]
        .launch
        .parts;
    assert_eq!(parts.len(), 2);
    for (_, task) in parts {
        let knobs = "accumulation=0 batch_per_gpu=32 tp=2";
        assert_eq!(task.config.to_string(), knobs);
        // A log from before there were configs has a batch.
        let mut old = serde_json::to_value(&**task).unwrap();
        let fields = old.as_object_mut().unwrap();
        fields.remove("config");
        let batch = serde_json::json!({ "per_gpu": 32, "accumulation": 0 });
        fields.insert("batch".into(), batch);
        let old: Task = serde_json::from_value(old).unwrap();
        assert_eq!(old.config.with("tp", 2.0), task.config);
    }
}

/// Returns a job in each of its states, with the name of the state.
fn each_state() -> Vec<(&'static str, Gang)> {
    let mut all = Vec::new();
    let mut submitted = Gang::new();
    submitted.silent = [true; 2];
    all.push(("submitted", submitted));
    let mut held = Gang::new();
    held.silent[1] = true;
    held.beat();
    held.ask(Request::Hold(JOB)).unwrap();
    all.push(("held", held));
    let mut starting = Gang::new();
    starting.beats(4);
    assert_eq!(starting.phase(), Some(Phase::Starting));
    all.push(("starting", starting));
    all.push(("running", Gang::running(9.0)));
    let mut stopping = Gang::running(9.0);
    stopping.ask(Request::Requeue(JOB)).unwrap();
    stopping.beat();
    all.push(("stopping", stopping));
    let mut lost = Gang::running(9.0);
    lost.silent[0] = true;
    lost.beats(12);
    all.push(("on a lost node", lost));
    let mut ended = Gang::running(9.0);
    ended.ends(1, done(Exit::Completed));
    assert_eq!(ended.outcome, Some(Outcome::Completed));
    all.push(("completed", ended));
    all
}

#[test]
fn each_request_has_one_answer_in_each_state() {
    let requests = [
        ("cancel", Request::Cancel(JOB)),
        ("hold", Request::Hold(JOB)),
        ("release", Request::Release(JOB)),
        ("requeue", Request::Requeue(JOB)),
        ("priority", Request::Prioritize(JOB, 3)),
    ];
    let waits = "only a job that waits can be held; requeue it first";
    let (free, queued, over) = ("it is not held", "it waits already", "it has ended");
    let done = "done";
    // Submitted, held, starting, running, stopping, on a lost node, completed.
    let answers = [
        [done; 7],
        [done, done, waits, waits, waits, waits, over],
        [free, done, free, free, free, free, over],
        [queued, queued, done, done, done, done, over],
        [done, done, done, done, done, done, over],
    ];
    for ((name, request), answers) in requests.into_iter().zip(answers) {
        for ((state, mut g), expected) in each_state().into_iter().zip(answers) {
            let mut ask = || match g.ask(request.clone()) {
                Ok(_) => done.to_owned(),
                Err(why) => why.rsplit(": ").next().unwrap().to_owned(),
            };
            assert_eq!(ask(), expected, "{name} of a job that is {state}");
            // A repeated request changes nothing.
            let again = if (name, state) == ("release", "held") {
                free
            } else {
                expected
            };
            assert_eq!(ask(), again, "{name} again of a job that is {state}");
            if name != "cancel" {
                continue;
            }
            g.silent = [false; 2];
            for _ in 0..30 {
                g.obey();
                g.beat();
            }
            let expected = match state {
                "completed" => Outcome::Completed,
                _ => Outcome::Cancelled,
            };
            assert_eq!(g.outcome, Some(expected), "{state}");
            assert_eq!(g.scheduler.view().cluster().free_gpus(), 2, "{state}");
        }
    }
    let unknown = Gang::new().ask(Request::Cancel(JobId(7)));
    assert_eq!(unknown, Err("there is no job 7".into()));
}

#[test]
fn loss_of_all_nodes_starts_each_job_once_again() {
    let mut g = Gang::running(9.0);
    g.silent = [true; 2];
    g.beats(120);
    assert_eq!((g.outcome, g.granted()), (None, 1));
    assert_eq!(g.phase(), Some(Phase::Waiting));
    // One node alone is not enough for the job.
    g.has.iter_mut().for_each(BTreeMap::clear);
    g.silent[0] = false;
    g.beats(20);
    assert_eq!(g.granted(), 1);
    g.silent[1] = false;
    g.beats(20);
    assert_eq!((g.outcome, g.granted()), (None, 2));
    assert_eq!(g.scheduler.launches().durable().failures.get(&JOB), None);
}
