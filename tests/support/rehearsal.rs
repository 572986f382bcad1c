//! The cluster backend without processes: the scheduler daemon's state machine and its policy
//! thread's copy, with nodes that report as node managers do.

use blox::backend::{Core, Follower, Input, Saved as SavedCore};
use blox::core::{
    ClusterSpec, Event, JobId, JobSpec, Name, NodeActionKind, NodeSpec, Outcome, Pipeline, Time,
};
use blox_cluster::protocol::scheduler::{
    Controller, ControllerInput, Effect, Request, Saved, Settings,
};
use blox_cluster::protocol::{
    AttemptId, AttemptReport, ClusterId, Exit, Fence, Final, Incarnation, JobReport, Millis,
    NodeRequest, Orders, Progress, Record, Report, Session, Status, Task, Wish,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Seconds of cluster time in a second of the daemon's clock.
const SPEED: f64 = 10.0;
/// Interval between two reports of a node, by the daemon's clock.
const BEAT: u64 = 2_000;

/// A launch on a node.
struct Part {
    fence: Fence,
    status: Status,
    task: Arc<Task>,
    /// Work left when it started, in seconds, and the time of the start.
    began: Option<(f64, u64)>,
}

struct NodeModel {
    name: Name,
    spec: Arc<NodeSpec>,
    seq: u64,
    incarnation: Incarnation,
    parts: BTreeMap<AttemptId, Part>,
    /// The provider has switched it off, or taken it back.
    off: bool,
}

/// A cluster under the daemon's scheduler.
struct Rehearsal {
    machine: Controller,
    policy: Follower,
    nodes: Vec<NodeModel>,
    now: u64,
    /// Work left of each job, in seconds.
    left: BTreeMap<JobId, f64>,
    outcomes: BTreeMap<JobId, Outcome>,
    /// Messages of refused decisions and events.
    refused: Vec<String>,
}

/// Runs jobs to their end, and returns the outcome of each by submission order; a rejected job
/// counts as [`Outcome::Rejected`].
///
/// # Errors
/// A job has no end after `limit` seconds of cluster time, or an input was refused.
pub fn rehearse(
    scheduler: Pipeline,
    cluster: &ClusterSpec,
    jobs: &[JobSpec],
    limit: f64,
) -> Result<Vec<Outcome>, String> {
    let trigger = scheduler.trigger();
    let settings = Settings {
        wait_for_nodes: cluster.nodes.len(),
        speed: SPEED,
        ..Settings::default()
    };
    let (machine, first) = Controller::begin(
        settings,
        Saved::default(),
        &[],
        ClusterId("rehearsal".into()),
        trigger.clone(),
        Millis(0),
        Time::ZERO,
    );
    let core = Core::restore(SavedCore::default(), trigger);
    let nodes = cluster.nodes.iter().enumerate().map(|(i, spec)| NodeModel {
        name: format!("n{i}").into(),
        spec: Arc::new(spec.clone()),
        seq: 0,
        incarnation: Incarnation(0),
        parts: BTreeMap::new(),
        off: false,
    });
    let mut rehearsal = Rehearsal {
        machine,
        policy: Follower::new(core, Box::new(scheduler)),
        nodes: nodes.collect(),
        now: 0,
        left: BTreeMap::new(),
        outcomes: BTreeMap::new(),
        refused: Vec::new(),
    };
    rehearsal.follow(first.records);
    let mut coming = jobs.iter().peekable();
    while rehearsal.outcomes.len() < jobs.len() {
        let at = rehearsal.now as f64 / 1e3 * SPEED;
        if at > limit {
            let ended = &rehearsal.outcomes;
            let known = (0..jobs.len() as u32).map(JobId);
            let left: Vec<String> = known
                .filter(|job| !ended.contains_key(job))
                .map(|job| job.to_string())
                .collect();
            return Err(format!("jobs {} never end", left.join(", ")));
        }
        while let Some(spec) = coming.next_if(|spec| spec.submit.secs() <= at) {
            rehearsal.submit(spec);
        }
        rehearsal.beat();
        if let Some(why) = rehearsal.refused.pop() {
            return Err(why);
        }
    }
    Ok(rehearsal.outcomes.into_values().collect())
}

impl Rehearsal {
    fn submit(&mut self, spec: &JobSpec) {
        let job = self.machine.core().state().next_job_id();
        self.left.insert(job, spec.duration().secs());
        let key = format!("key-{job}").into();
        let spec = spec.clone();
        self.step(ControllerInput::Request(Request::Submit { key, spec }));
    }

    /// All nodes work for one interval and report.
    fn beat(&mut self) {
        self.now += BEAT;
        for node in 0..self.nodes.len() {
            if self.nodes[node].off {
                continue;
            }
            self.work(node);
            let report = self.report(node);
            self.step(ControllerInput::Report(report));
        }
        self.step(ControllerInput::Tick);
    }

    /// Ends the launches on a node whose work is done.
    fn work(&mut self, node: usize) {
        for (id, part) in &mut self.nodes[node].parts {
            if let (Status::Running, Some((left, from))) = (&part.status, part.began)
                && left <= (self.now - from) as f64 / 1e3 * SPEED
            {
                self.left.insert(id.job, 0.0);
                part.status = ended(Exit::Completed, self.now - from);
            }
        }
    }

    fn report(&mut self, node: usize) -> Report {
        let model = &mut self.nodes[node];
        model.seq += 1;
        let now = self.now;
        let attempt = |(id, part): (&AttemptId, &Part)| {
            let spec = &part.task.spec;
            let progress = part.began.map(|(left, from)| {
                let left = (left - (now - from) as f64 / 1e3 * SPEED).max(0.0);
                let share = 1.0 - left / spec.duration().secs();
                let done = spec.work.iterations * share;
                Progress { done, saved: done }
            });
            AttemptReport {
                lease_left: None,
                id: *id,
                fence: part.fence,
                status: part.status.clone(),
                port: 29_500,
                reported: JobReport {
                    progress,
                    metrics: BTreeMap::new(),
                },
            }
        };
        Report {
            protocol: blox_cluster::protocol::PROTOCOL,
            absence: None,
            node: model.name.clone(),
            boot: "boot".into(),
            session: Session(1),
            seq: model.seq,
            cluster: self.machine.launches().durable().cluster.clone(),
            epoch: self.machine.launches().durable().epoch,
            incarnation: model.incarnation,
            offer: Arc::clone(&model.spec),
            address: "localhost".into(),
            attempts: model.parts.iter().map(attempt).collect(),
            trouble: None,
            failed_gpus: Default::default(),
            unknown_health: None,
        }
    }

    fn step(&mut self, input: ControllerInput) {
        let before = self.machine.refused_events();
        let step = self.machine.step(Millis(self.now), input);
        if let Some(Err(why)) = &step.reply {
            self.refused.push(why.to_string());
        }
        if self.machine.refused_events() != before {
            self.refused.push(self.machine.last_refused().to_owned());
        }
        let mut accepted = Vec::new();
        for effect in step.effects {
            match effect {
                Effect::Send(orders) => self.obey(&orders),
                Effect::Provide(request) => {
                    self.provide(&request);
                    accepted.push(request.id);
                }
            }
        }
        self.follow(step.records);
        for id in accepted {
            self.step(ControllerInput::Provided(id, Ok(())));
        }
    }

    /// Carries out a request for nodes.
    fn provide(&mut self, request: &NodeRequest) {
        let comes = matches!(
            request.action,
            NodeActionKind::PowerOn | NodeActionKind::Grow
        );
        for name in &request.names {
            let of_name =
                |n: &&mut NodeModel| n.name == *name || n.spec.name.as_ref() == Some(name);
            match self.nodes.iter_mut().find(of_name) {
                Some(node) => node.off = !comes,
                None if comes => self.nodes.push(NodeModel {
                    name: name.clone(),
                    spec: Arc::new(NodeSpec {
                        name: Some(name.clone()),
                        ..request.spec.clone()
                    }),
                    seq: 0,
                    incarnation: Incarnation(0),
                    parts: BTreeMap::new(),
                    off: false,
                }),
                None => {}
            }
        }
    }

    /// The policy's copy follows the core and answers its questions.
    fn follow(&mut self, records: Vec<Record>) {
        for record in records {
            let Record::Core(input) = record else {
                continue;
            };
            match &input {
                Input::Event {
                    event: Event::Ended { job, outcome },
                    ..
                } => drop(self.outcomes.insert(*job, *outcome)),
                Input::Decided { decision, .. } => {
                    for (job, admission) in decision.admissions.iter() {
                        if let blox::core::AdmissionDecision::Reject(_) = admission {
                            self.outcomes.insert(*job, Outcome::Rejected);
                        }
                    }
                }
                Input::Lost { why, .. } => self.refused.push(why.to_string()),
                _ => {}
            }
            if let Err(why) = self.policy.follow(&input) {
                self.refused.push(why.to_string());
            }
            if let Input::Due { .. } = input
                && let Some(question) = self.policy.core().open()
            {
                let answer = self.policy.decide(Box::default());
                self.step(ControllerInput::Answer(question.number, answer));
            }
        }
    }

    fn obey(&mut self, orders: &Orders) {
        let Some(node) = self.nodes.iter_mut().find(|n| n.name == orders.node) else {
            return;
        };
        node.incarnation = orders.incarnation;
        for order in &orders.orders {
            if let (None, Some(task)) = (node.parts.get(&order.id), &order.task) {
                let part = Part {
                    fence: order.fence,
                    status: Status::Prepared,
                    task: Arc::clone(task),
                    began: None,
                };
                node.parts.insert(order.id, part);
            }
            let Some(part) = node.parts.get_mut(&order.id) else {
                continue;
            };
            let open = !matches!(part.status, Status::Done(_));
            match order.wish {
                Wish::Run(_) if open && part.began.is_none() => {
                    let left = self.left.get(&order.id.job).copied().unwrap_or_default();
                    part.status = Status::Running;
                    part.began = Some((left, self.now));
                }
                Wish::Yield(_) | Wish::Kill if open => match part.began {
                    Some((left, from)) => {
                        let left = left - (self.now - from) as f64 / 1e3 * SPEED;
                        self.left.insert(order.id.job, left.max(0.0));
                        part.status = ended(Exit::Stopped, self.now - from);
                    }
                    None => part.status = ended(Exit::NeverRan, 0),
                },
                _ => {}
            }
        }
        node.parts.retain(|id, _| !orders.forget.contains(id));
    }
}

fn ended(exit: Exit, ran: u64) -> Status {
    Status::Done(Final {
        exit,
        ran: Millis(ran),
        estimated: false,
        why: String::new(),
        exited_zero: false,
    })
}
