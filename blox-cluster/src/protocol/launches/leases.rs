//! Tests of leases and planned absences with a scheduler, a node manager and shims.

use super::due::{AWAY, SILENT};
use crate::protocol::node::{Found, Identity, Node, NodeEffect, NodeInput, ShimMessage};
use crate::protocol::scheduler::{
    Controller, ControllerInput, Effect, Request, Saved, Settings, Step,
};
use crate::protocol::shim::{Shim, ShimEffect, ShimInput};
use crate::protocol::{
    AttemptId, ClusterId, Epoch, Fence, Incarnation, Millis, Orders, PartId, Record, Report,
    Session, Status, Task, Timers,
};
use blox_core::trigger::Rounds;
use blox_core::{
    Action, Assignment, Decision, Event, Extras, GpuCount, GpuId, Input, JobId, JobSpec, NodeId,
    NodeSpec, NodeStatus, Phase, Seconds, Time,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Interval of the steps.
const STEP: u64 = 100;

/// A launch on the disk of the node.
struct OnDisk {
    fence: Fence,
    task: Arc<Task>,
    lease: Millis,
    shim: Shim,
}

/// A scheduler, and a node with a GPU for each job.
struct Pair {
    scheduler: Option<Controller>,
    /// All records.
    log: Vec<Record>,
    manager: Option<Node>,
    /// Epoch and incarnation on the node's disk.
    seen: (Epoch, Incarnation),
    session: u64,
    boot: &'static str,
    launches: BTreeMap<AttemptId, OnDisk>,
    now: u64,
    reports: Vec<Report>,
    orders: Vec<Orders>,
    /// Time at which each job was signaled or killed.
    noticed: BTreeMap<JobId, u64>,
    /// Time at which the scheduler recorded the end of each job's launch.
    given_up: BTreeMap<JobId, u64>,
    /// False if shims do not state their leases, as in an earlier version.
    states_leases: bool,
    /// True if the node receives no orders, although its reports arrive.
    is_deaf: bool,
}

impl Pair {
    /// Creates a pair with a running job for each of these leases in seconds; 0 for the default.
    fn running(leases: &[u32]) -> Self {
        let mut pair = Pair {
            scheduler: None,
            log: Vec::new(),
            manager: None,
            seen: (Epoch(0), Incarnation(0)),
            session: 0,
            boot: "b",
            launches: BTreeMap::new(),
            now: 0,
            reports: Vec::new(),
            orders: Vec::new(),
            noticed: BTreeMap::new(),
            given_up: BTreeMap::new(),
            states_leases: true,
            is_deaf: false,
        };
        pair.start_scheduler();
        pair.start_manager();
        for (i, lease) in leases.iter().enumerate() {
            pair.submit(i, *lease);
        }
        pair.seconds(20.0);
        for i in 0..leases.len() {
            assert_eq!(pair.phase(i as u32), Some(Phase::Running), "job {i}");
        }
        pair
    }

    /// Submits a job with a lease in seconds; 0 for the default.
    fn submit(&mut self, job: usize, lease: u32) {
        let mut extras = Extras::default();
        if lease > 0 {
            extras.attributes.insert("lease_s".into(), lease.into());
        }
        let long = Seconds::new(1e6);
        let spec = JobSpec::new(Time::ZERO, GpuCount(1), long).with_extras(extras);
        let key = format!("{job}").into();
        self.input(ControllerInput::Request(Request::Submit { key, spec }));
    }

    fn start_scheduler(&mut self) {
        let trigger = Box::new(Rounds::every(Seconds::new(1.0)).unwrap());
        let cluster = ClusterId("c".into());
        let (now, at) = (Millis(self.now), Time::new(self.now as f64 / 1000.0));
        let (saved, settings) = (Saved::default(), Settings::default());
        let (scheduler, step) =
            Controller::begin(settings, saved, &self.log, cluster, trigger, now, at);
        self.scheduler = Some(scheduler);
        self.took(step);
    }

    fn start_manager(&mut self) {
        self.session += 1;
        let who = Identity {
            node: "n".into(),
            boot: self.boot.into(),
            session: Session(self.session),
            cluster: (self.seen.0 > Epoch(0)).then(|| ClusterId("c".into())),
            epoch: self.seen.0,
            incarnation: self.seen.1,
            offer: Arc::new(NodeSpec::with_gpus(2)),
            address: "localhost".into(),
        };
        let states = self.states_leases;
        let found = self.launches.iter().map(|(id, l)| Found {
            id: *id,
            fence: l.fence,
            task: Arc::clone(&l.task),
            port: 0,
            lease: l.lease,
            followed: states.then(|| l.shim.lease()),
            done: None,
            reported: Default::default(),
        });
        let found = found.collect();
        let node = Node::new(Timers::default(), who, found, Millis(self.now));
        self.manager = Some(node);
    }

    fn phase(&self, job: u32) -> Option<Phase> {
        let view = self.scheduler.as_ref()?.view();
        view.job(JobId(job)).map(|j| j.phase())
    }

    fn node(&self) -> (NodeStatus, Option<String>) {
        let view = self.scheduler.as_ref().unwrap().view();
        let node = view.node(NodeId(0)).unwrap();
        (node.status(), node.cordoned().map(|why| why.to_string()))
    }

    fn absent(&self) -> bool {
        let scheduler = self.scheduler.as_ref().unwrap();
        !scheduler.launches().durable().absent.is_empty()
    }

    fn input(&mut self, input: ControllerInput) {
        if let Some(scheduler) = &mut self.scheduler {
            let step = scheduler.step(Millis(self.now), input);
            self.took(step);
        }
    }

    fn took(&mut self, step: Step) {
        let asked = |r: &Record| matches!(r, Record::Core(Input::Due { .. }));
        let asks = step.records.iter().any(asked);
        for record in &step.records {
            if let Record::Part { part, .. } = record {
                self.given_up.entry(part.id.job).or_insert(self.now);
            }
        }
        self.log.extend(step.records);
        for effect in step.effects {
            if let Effect::Send(orders) = effect {
                self.orders.push(orders);
            }
        }
        if asks {
            let decision = Box::new(self.decision());
            let question = self.scheduler.as_ref().unwrap().core().open().unwrap();
            self.input(ControllerInput::Answer(question.number, Ok(decision)));
        }
    }

    /// Places each waiting job on the GPU with its number.
    fn decision(&self) -> Decision {
        let view = self.scheduler.as_ref().unwrap().view();
        let mut d = Decision {
            version: view.version(),
            ..Decision::default()
        };
        d.plan.version = view.version();
        let usable = view.nodes().any(|n| n.is_usable());
        let known = (0..2).filter_map(|job| view.job(JobId(job)));
        for job in known {
            match job.phase() {
                Phase::Submitted => d.admissions.accept(job.id()),
                Phase::Waiting if usable => d.plan.actions.push(Action::Place {
                    job: job.id(),
                    assignment: Assignment::of(vec![GpuId(job.id().0)]),
                }),
                _ => {}
            }
        }
        d
    }

    fn manage(&mut self, input: NodeInput) {
        let Some(manager) = &mut self.manager else {
            return;
        };
        for effect in manager.step(Millis(self.now), input) {
            match effect {
                NodeEffect::Remember(_, epoch, incarnation, _) => self.seen = (epoch, incarnation),
                NodeEffect::Send(report) => self.reports.push(report),
                NodeEffect::Spawn {
                    id,
                    fence,
                    task,
                    lease,
                    ..
                } => {
                    let shim = Shim::new(Timers::default(), lease, 1, Millis(self.now));
                    let launch = OnDisk {
                        fence,
                        task,
                        lease,
                        shim,
                    };
                    self.launches.insert(id, launch);
                }
                NodeEffect::Control(id, control) => {
                    let launch = self.launches.get_mut(&id).unwrap();
                    launch.lease = control.lease;
                    self.shim(id, ShimInput::Control(control));
                }
                NodeEffect::Warn(..) | NodeEffect::Destroy(_) | NodeEffect::Forget(_) => {}
            }
        }
    }

    fn shim(&mut self, id: AttemptId, input: ShimInput) {
        let shim = &mut self.launches.get_mut(&id).unwrap().shim;
        for effect in shim.step(Millis(self.now), input) {
            if matches!(effect, ShimEffect::Term | ShimEffect::KillAll) {
                self.noticed.entry(id.job).or_insert(self.now);
            }
        }
    }

    fn step(&mut self) {
        self.now += STEP;
        let ids: Vec<AttemptId> = self.launches.keys().copied().collect();
        for id in ids {
            self.shim(id, ShimInput::Tick);
            self.manage(NodeInput::Shim(id, ShimMessage::Running));
            if self.states_leases {
                let end = self.launches[&id].shim.lease();
                self.manage(NodeInput::Shim(id, ShimMessage::Lease(end)));
            }
        }
        self.manage(NodeInput::Tick);
        for report in std::mem::take(&mut self.reports) {
            self.input(ControllerInput::Report(report));
        }
        self.input(ControllerInput::Tick);
        let mut orders = std::mem::take(&mut self.orders);
        if self.is_deaf {
            orders.clear();
        }
        for orders in orders {
            self.manage(NodeInput::Orders(orders, 29_500));
        }
    }

    fn seconds(&mut self, secs: f64) {
        let until = self.now + (secs * 1000.0) as u64;
        while self.now < until {
            self.step();
        }
    }

    /// Stops the scheduler as planned, for an hour at most.
    fn stop_scheduler(&mut self) {
        self.input(ControllerInput::Request(Request::Leave(Millis::secs(3600))));
        let short = |pair: &Pair| {
            let launches = pair.scheduler.as_ref().unwrap().launches();
            launches.without_long_lease()
        };
        assert_eq!(short(self), [NodeId(0)]);
        self.seconds(2.5);
        assert_eq!(short(self), []);
        self.scheduler = None;
    }

    /// Switches the node off. No process is left.
    fn switch_off(&mut self) {
        self.manager = None;
        self.launches.clear();
    }

    /// Returns the seconds since `from` at which the launch of each job was given up.
    fn given_up_after(&self, from: u64) -> Vec<f64> {
        let all = self.given_up.values();
        all.map(|at| (at - from) as f64 / 1000.0).collect()
    }
}

#[test]
fn job_with_a_short_lease_moves_before_another() {
    let mut pair = Pair::running(&[15, 0]);
    let last = pair.scheduler.as_ref().unwrap().launches();
    let last = last.last_report_at(NodeId(0)).unwrap().0;
    pair.switch_off();
    let silent = (NodeStatus::Up, Some(SILENT.to_owned()));
    pair.seconds(9.0);
    assert_eq!(pair.node(), silent);
    pair.seconds(120.0);
    assert_eq!(pair.node(), silent);
    pair.seconds(21.0);
    // No job runs on there any longer.
    assert_eq!(pair.node(), (NodeStatus::Lost, None));
    // The first tick after 20.3 s and after 142.7 s.
    assert_eq!(pair.given_up_after(last), [20.4, 142.8]);
}

#[test]
fn jobs_outlive_a_killed_node_manager_by_their_leases() {
    let mut pair = Pair::running(&[15, 0]);
    pair.manager = None;
    pair.seconds(120.0);
    // Only the job that asked for a short lease.
    assert_eq!(pair.noticed.keys().collect::<Vec<_>>(), [&JobId(0)]);
    pair.start_manager();
    pair.seconds(300.0);
    assert_eq!(
        (pair.noticed.len(), pair.phase(1)),
        (1, Some(Phase::Running))
    );
    assert_eq!(pair.node(), (NodeStatus::Up, None));
    let granted = |r: &&Record| matches!(r, Record::Granted { id, .. } if id.job == JobId(1));
    assert_eq!(pair.log.iter().filter(granted).count(), 1);
}

#[test]
fn jobs_outlive_a_lost_scheduler_by_their_leases() {
    let mut pair = Pair::running(&[15, 0]);
    pair.scheduler = None;
    pair.seconds(120.0);
    // Only the job that asked for a short lease.
    assert_eq!(pair.noticed.keys().collect::<Vec<_>>(), [&JobId(0)]);
    pair.start_scheduler();
    pair.seconds(300.0);
    assert_eq!(pair.noticed.len(), 1);
    assert_eq!(pair.phase(1), Some(Phase::Running));
    // Without a scheduler for longer, a job is signaled 5 s before its lease ends.
    let mut pair = Pair::running(&[0]);
    pair.scheduler = None;
    let from = pair.now;
    pair.seconds(140.0);
    let after = pair.noticed[&JobId(0)] - from;
    assert!((128_000..=130_000).contains(&after), "{after}");
}

#[test]
fn restarted_scheduler_waits_for_the_granted_leases() {
    let mut pair = Pair::running(&[15, 0]);
    pair.switch_off();
    pair.scheduler = None;
    pair.seconds(5.0);
    pair.start_scheduler();
    let from = pair.now;
    pair.seconds(150.0);
    assert_eq!(pair.given_up_after(from), [20.4, 142.8]);
}

#[test]
fn launch_of_an_earlier_version_keeps_its_lease() {
    let mut pair = Pair::running(&[0]);
    for record in &mut pair.log {
        if let Record::Granted { launch, .. } = record {
            launch.lease = None;
        }
    }
    pair.switch_off();
    pair.start_scheduler();
    let from = pair.now;
    pair.seconds(30.0);
    assert_eq!(pair.given_up_after(from), [20.4]);
}

#[test]
fn planned_hour_without_a_scheduler_is_not_noticed() {
    let mut pair = Pair::running(&[15, 0]);
    pair.stop_scheduler();
    pair.seconds(3_580.0);
    assert_eq!(pair.noticed, BTreeMap::new());
    pair.start_scheduler();
    assert!(pair.absent());
    pair.seconds(5.0);
    // The long leases are taken back, and the normal ones count.
    assert!(!pair.absent());
    let left = |pair: &Pair, job| {
        let id = AttemptId {
            job: JobId(job),
            attempt: 1,
        };
        pair.launches[&id].shim.lease().0 - pair.now
    };
    assert!(left(&pair, 0) <= 15_000 && left(&pair, 1) <= 135_000);
    pair.seconds(60.0);
    assert_eq!((pair.noticed.len(), pair.given_up.len()), (0, 0));
    let last = pair.scheduler.as_ref().unwrap().launches();
    let last = last.last_report_at(NodeId(0)).unwrap().0;
    pair.switch_off();
    pair.seconds(150.0);
    assert_eq!(pair.given_up_after(last), [20.4, 142.8]);
}

#[test]
fn node_off_in_a_planned_absence_holds_its_jobs() {
    let off = || {
        let mut pair = Pair::running(&[15]);
        pair.stop_scheduler();
        pair.seconds(60.0);
        pair.switch_off();
        pair.start_scheduler();
        pair
    };
    // 3600 s, 2 % and 5 s after the start.
    let mut pair = off();
    let from = pair.now;
    pair.seconds(3_700.0);
    assert_eq!(pair.given_up_after(from), [3_677.1]);
    // Its operator declares it down.
    let mut pair = off();
    pair.input(ControllerInput::Request(Request::Down(NodeId(0))));
    assert_eq!(pair.given_up.len(), 0, "it may still report");
    pair.seconds(9.0);
    pair.input(ControllerInput::Request(Request::Down(NodeId(0))));
    assert_eq!(pair.given_up.len(), 1);
    assert!(!pair.absent());
    // It reports after a reboot.
    let mut pair = off();
    pair.seconds(20.0);
    pair.boot = "another";
    let from = pair.now;
    pair.start_manager();
    pair.seconds(10.0);
    assert_eq!(pair.given_up_after(from), [0.1]);
    assert!(!pair.absent());
    assert_eq!(pair.phase(0), Some(Phase::Running), "its second launch");
}

#[test]
fn lost_node_gets_no_long_lease() {
    let mut pair = Pair::running(&[15]);
    let last = pair.scheduler.as_ref().unwrap().launches();
    let last = last.last_report_at(NodeId(0)).unwrap().0;
    pair.switch_off();
    pair.seconds(9.0);
    pair.input(ControllerInput::Request(Request::Leave(Millis::secs(3600))));
    let launches = pair.scheduler.as_ref().unwrap().launches();
    assert_eq!(launches.without_long_lease(), [NodeId(0)]);
    assert!(!pair.absent());
    pair.seconds(20.0);
    assert_eq!(pair.given_up_after(last), [20.4]);
}

#[test]
fn launch_that_was_only_prepared_has_no_long_lease() {
    let mut pair = Pair::running(&[0]);
    pair.submit(1, 0);
    let id = AttemptId {
        job: JobId(1),
        attempt: 1,
    };
    let node = NodeId(0);
    let status = |pair: &Pair| {
        let launches = pair.scheduler.as_ref().unwrap().launches();
        let seen = launches.seen.get(&PartId { id, node });
        seen.map(|seen| seen.status.clone())
    };
    let granted = |r: &Record| matches!(r, Record::Granted { id: i, .. } if *i == id);
    while !pair.log.iter().any(granted) {
        pair.step();
    }
    // The order to prepare it has arrived, and the order to run it is lost.
    pair.is_deaf = true;
    pair.seconds(3.0);
    assert_eq!(status(&pair), Some(Status::Prepared));
    starts_anew_in_a_planned_absence(&mut pair);
}

#[test]
fn launch_that_was_never_received_has_no_long_lease() {
    let mut pair = Pair::running(&[0]);
    pair.is_deaf = true;
    pair.submit(1, 0);
    pair.seconds(3.0);
    // The log of an earlier version does not state which launches nodes were ordered to run.
    let of_second = |r: &&mut Record| matches!(r, Record::Granted { id, .. } if id.job == JobId(1));
    match pair.log.iter_mut().find(of_second) {
        Some(Record::Granted { launch, .. }) => launch.lease = None,
        _ => panic!("no launch"),
    }
    pair.start_scheduler();
    pair.seconds(3.0);
    starts_anew_in_a_planned_absence(&mut pair);
}

/// Starts all anew, while the second launch is not on the node's disk. It is given up after its
/// normal lease.
fn starts_anew_in_a_planned_absence(pair: &mut Pair) {
    pair.input(ControllerInput::Request(Request::Leave(Millis::secs(3600))));
    pair.seconds(2.5);
    assert!(pair.absent());
    // The node manager starts anew.
    (pair.scheduler, pair.manager, pair.is_deaf) = (None, None, false);
    let last = pair.now;
    pair.start_scheduler();
    pair.start_manager();
    pair.seconds(200.0);
    let after = pair.given_up_after(last);
    assert!(matches!(after[..], [s] if s < 143.0), "{after:?}");
    assert_eq!(pair.phase(1), Some(Phase::Running));
    // The launch that it had reported goes on.
    assert_eq!(pair.given_up.keys().collect::<Vec<_>>(), [&JobId(1)]);
}

#[test]
fn manager_that_is_away_as_planned_is_not_lost() {
    let mut pair = Pair::running(&[15, 0]);
    pair.manage(NodeInput::Leave(Millis::secs(3600)));
    assert!(!pair.manager.as_ref().unwrap().can_leave());
    pair.seconds(1.0);
    assert!(pair.manager.as_ref().unwrap().can_leave());
    pair.manager = None;
    pair.seconds(1_800.0);
    // The scheduler may restart meanwhile.
    pair.scheduler = None;
    pair.start_scheduler();
    pair.seconds(600.0);
    let away = (NodeStatus::Up, Some(AWAY.to_owned()));
    assert_eq!(pair.node(), away);
    pair.start_manager();
    pair.seconds(5.0);
    assert_eq!(pair.node(), (NodeStatus::Up, None));
    assert!(!pair.absent());
    assert_eq!((pair.noticed.len(), pair.given_up.len()), (0, 0));
    assert_eq!(pair.scheduler.as_ref().unwrap().refused_events(), 0);
    // A manager that stays away for longer is lost, and its jobs start elsewhere.
    pair.manage(NodeInput::Leave(Millis::secs(60)));
    pair.seconds(2.0);
    pair.manager = None;
    let from = pair.now;
    pair.seconds(150.0);
    assert_eq!(pair.node().0, NodeStatus::Lost);
    let after = pair.given_up_after(from);
    assert!(after[0] > 60.0 && after[0] < 67.0, "{after:?}");
    let noticed = (pair.noticed[&JobId(0)] - from) as f64 / 1000.0;
    assert!((50.0..56.0).contains(&noticed), "{noticed}");
}

#[test]
fn scheduler_that_is_about_to_stop_decides_nothing() {
    let mut pair = Pair::running(&[0]);
    pair.input(ControllerInput::Request(Request::Leave(Millis::secs(60))));
    let before = pair.log.len();
    let spec = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(1.0));
    let key = "late".into();
    pair.input(ControllerInput::Request(Request::Submit { key, spec }));
    pair.seconds(10.0);
    let decides = |r: &Record| matches!(r, Record::Core(Input::Due { .. }));
    assert!(!pair.log[before..].iter().any(decides));
    assert_eq!(pair.phase(1), Some(Phase::Submitted));
    // The submission is on disk, and the next run decides.
    pair.start_scheduler();
    pair.seconds(10.0);
    assert_eq!(pair.phase(1), Some(Phase::Running));
}

#[test]
fn shim_of_an_earlier_version_keeps_its_long_lease() {
    let mut pair = Pair::running(&[15]);
    pair.states_leases = false;
    pair.scheduler = None;
    pair.manager = None;
    pair.start_manager();
    pair.start_scheduler();
    pair.seconds(5.0);
    pair.stop_scheduler();
    pair.seconds(60.0);
    pair.start_scheduler();
    pair.seconds(20.0);
    // Nothing proves that it follows the shorter lease.
    assert!(pair.absent());
    pair.switch_off();
    pair.seconds(200.0);
    assert_eq!(pair.given_up, BTreeMap::new());
}

#[test]
fn silence_in_a_planned_absence_is_no_loss() {
    let mut pair = Pair::running(&[0]);
    for _ in 0..3 {
        pair.stop_scheduler();
        pair.start_scheduler();
        let mut manager = pair.manager.take();
        pair.seconds(10.0);
        assert_eq!(pair.node(), (NodeStatus::Up, Some(SILENT.to_owned())));
        std::mem::swap(&mut pair.manager, &mut manager);
        pair.seconds(10.0);
        assert_eq!(pair.node(), (NodeStatus::Up, None));
    }
    let lost = |r: &Record| {
        matches!(
            r,
            Record::Core(Input::Event {
                event: Event::NodeLost { .. },
                ..
            })
        )
    };
    assert!(!pair.log.iter().any(lost));
    assert_eq!((pair.noticed.len(), pair.given_up.len()), (0, 0));
}
