//! State machine of the scheduler daemon: the scheduler core that the simulator also uses, the
//! launches, and user requests.
//!
//! A step takes one input and returns records and effects. The records are already applied. The
//! effects may be executed only once the records are on disk.

use super::after::{ARRAY, AfterEnd, Dependency, HeldBack, InArray, JobName};
use super::ids::{ClusterId, Epoch, Millis};
use super::launches::report::is_idle;
use super::launches::{
    ClusterClock, Durable, Goal, Launches, MORE_NODES, NodeLimits, Target, sum_of,
};
use super::message::{NodeRequest, Orders, Report};
use super::record::{FORMAT, Record};
use super::timers::Timers;
use blox_core::core::{self, Core, Question};
use blox_core::trigger::DecisionTrigger;
use blox_core::{
    ActionId, AfterDrain, Command, Decision, DecisionError, Event, Feasibility, Input, JobId,
    JobSpec, Name, NodeAction, NodeId, NodeStatus, Offer, OfferId, Phase, Reason, Refused, Seconds,
    Time, View,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Input of the state machine.
#[derive(Clone, Debug)]
pub enum ControllerInput {
    /// A node reported.
    Report(Report),
    /// The policy, which runs in its own thread, answered a question or failed.
    Answer(u64, Result<Box<Decision>, DecisionError>),
    /// The policy exceeded its time limit for the open question. It receives the next question only
    /// after its late answer, because it could not answer sooner.
    Late(DecisionError),
    /// A user request.
    Request(Request),
    /// Ended jobs are in the archive.
    Archived(Vec<JobId>),
    /// The provider accepted a request, or explained why it did not.
    Provided(ActionId, Result<(), String>),
    /// A timeout may have passed.
    Tick,
}

/// User requests.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Submit a job. A second submission with the same key returns the same job.
    Submit {
        /// The client's idempotency key.
        key: Name,
        /// The specification. The scheduler sets its submission time.
        spec: JobSpec,
    },
    /// Submit the jobs of an array, or a job that depends on others. A second submission with the
    /// same key returns the same jobs.
    SubmitMany(Box<SubmitMany>),
    /// End a job.
    Cancel(JobId),
    /// Hold a waiting job back.
    Hold(JobId),
    /// Release a held job.
    Release(JobId),
    /// Change the priority of a job.
    Prioritize(JobId, i32),
    /// Make a running job release its GPUs and wait again.
    Requeue(JobId),
    /// Place nothing new on a node.
    Drain {
        /// The node.
        node: NodeId,
        /// The reason.
        why: Name,
        /// Time after which jobs that still run on the node are preempted; `None` lets them
        /// continue.
        evict_after: Option<Seconds>,
    },
    /// Use a drained node again.
    Resume(NodeId),
    /// Remove a node permanently. The node must be lost or drained, and empty.
    Remove(NodeId),
    /// The operator has powered a silent node off: its launches have ended.
    Down(NodeId),
    /// The scheduler is about to stop for up to this time. It decides nothing any more, and grants
    /// leases of this length.
    Leave(Millis),
    /// Change the price of an offer and of its nodes.
    Price {
        /// The offer.
        offer: OfferId,
        /// Price of an hour of a node, at least 0.
        price: f64,
    },
    /// The provider takes nodes of an offer back. Each is drained within the notice of the offer.
    Reclaim {
        /// The offer.
        offer: OfferId,
        /// Number of nodes.
        count: u32,
    },
}

/// Submission of the jobs of an array, or of a job that depends on others.
#[derive(Clone, Debug, PartialEq)]
pub struct SubmitMany {
    /// The client's idempotency key.
    pub key: Name,
    /// The specification of each job.
    pub spec: JobSpec,
    /// Indices in the array, ascending; empty for a single job.
    pub indices: Vec<u32>,
    /// Number of jobs of the array that may run at once; 0 for any number.
    pub at_once: u32,
    /// Conditions of all jobs.
    pub dependency: Dependency,
    /// True if a user must release the jobs.
    pub hold: bool,
}

/// Largest number of jobs in an array.
pub const LONGEST_ARRAY: usize = 4_096;

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum RequestError {
    /// There is no such job.
    #[error("there is no job {0}")]
    NoJob(JobId),
    /// The job has ended.
    #[error("job {job} is {became}: it has ended")]
    Ended {
        /// The job.
        job: JobId,
        /// Its outcome.
        became: &'static str,
    },
    /// The job ended long ago.
    #[error("job {0} has ended and is in the archive: `blox show {0}` prints it")]
    Archived(JobId),
    /// There is no such job of an array, or it ended long ago.
    #[error("job {0} is in the archive, or there is no such job: `blox show {0}` looks for it")]
    NotInArray(String),
    /// There is no such node.
    #[error("there is no node {0}")]
    NoNode(NodeId),
    /// There is no such offer.
    #[error("there is no offer {0}")]
    NoOffer(OfferId),
    /// The request is invalid in the node's state.
    #[error("node {node} {why}")]
    WrongNode {
        /// The node.
        node: NodeId,
        /// Its state, and the required action.
        why: String,
    },
    /// The reporting node is not admitted.
    #[error("{0}")]
    NotTakenIn(String),
    /// The request is invalid in the job's phase.
    #[error("job {job} is {phase}: {expected}")]
    WrongPhase {
        /// The job.
        job: JobId,
        /// Its phase.
        phase: Phase,
        /// The requirement.
        expected: &'static str,
    },
    /// The key was used for another job.
    #[error("the key `{key}` was used for job {job}, which has another specification")]
    OtherJob {
        /// The key.
        key: Name,
        /// The job that has this key.
        job: JobId,
    },
    /// The specification is invalid.
    #[error("{0}")]
    BadSpec(String),
    /// The job can never fit the cluster.
    #[error("the job {0}; request less, or add nodes first{MORE_NODES}")]
    NeverFits(Reason),
}

/// Actions to execute once the records are on disk.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Send orders to a node.
    Send(Orders),
    /// Make a request to the provider of nodes.
    Provide(NodeRequest),
}

/// Result of a step.
#[derive(Debug, Default)]
pub struct Step {
    /// Records for the log, to be written atomically. An [`Input::Due`] among them queries the
    /// policy, which decides from the state before it.
    pub records: Vec<Record>,
    /// Effects of the step.
    pub effects: Vec<Effect>,
    /// Reply to a request: the job that it was about, or the new job of a submission. A report has
    /// a reply only if its node is not admitted.
    pub reply: Option<Result<JobId, RequestError>>,
}

/// Settings of the scheduler.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The timers.
    pub timers: Timers,
    /// Time limits of requests to the provider of nodes.
    pub limits: NodeLimits,
    /// Number of nodes that must have joined before the first decision. Otherwise jobs that are too
    /// large for the first nodes would be rejected.
    pub wait_for_nodes: usize,
    /// True if nodes leave and others come, so that a decision rejects no job that the present nodes
    /// cannot hold. A submission of such a job is refused all the same.
    pub keeps_large: bool,
    /// Number of launches of a job, lost in a row without useful running time, after which the job
    /// is held.
    pub hold_after: u32,
    /// Seconds of cluster time in one second of the machine's clock. The value is 1, or larger to
    /// rehearse long runs with short programs.
    pub speed: f64,
    /// Nodes that the cluster manager can request from the provider. Earlier offers that are not
    /// among them end.
    pub offers: Vec<Offer>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            timers: Timers::default(),
            limits: NodeLimits::default(),
            wait_for_nodes: 1,
            keeps_large: false,
            hold_after: 5,
            speed: 1.0,
            offers: Vec::new(),
        }
    }
}

/// Persistent state of the scheduler at one time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Saved {
    /// The scheduler core.
    pub core: core::Saved,
    /// Launches, nodes, accounts.
    pub durable: Durable,
}

/// State of the scheduler.
pub struct Controller {
    core: Core,
    launches: Launches,
    settings: Settings,
    /// Buffer reused between steps.
    commands: Vec<Command>,
    /// The policy exceeded its time limit and has not yet returned.
    late: bool,
    clock: ClusterClock,
    refused_events: u64,
    last_refused: String,
    /// True if a job may have met its conditions.
    may_let_go: bool,
    /// True if a held job may fit, because a node has joined.
    nodes_joined: bool,
    /// True if a queued job may fit no more, because a node has left.
    nodes_left: bool,
    /// Refuses submissions, once the nodes that are waited for have come.
    feasibility: Option<Feasibility>,
    /// Records and effects of the current step.
    step: Step,
}

impl Controller {
    /// Creates a scheduler from a snapshot and the records after it. `now` is the machine's clock,
    /// `at` the Unix time. The cluster's time counts from the first start with a new log. The returned step records the start. It must be on disk before the
    /// scheduler sends any message.
    pub fn begin(
        settings: Settings,
        saved: Saved,
        log: &[Record],
        new: ClusterId,
        trigger: Box<dyn DecisionTrigger>,
        now: Millis,
        at: Time,
    ) -> (Self, Step) {
        let Saved {
            core, mut durable, ..
        } = saved;
        let mut core = Core::restore(core, trigger);
        let mut commands = Vec::new();
        for record in log {
            durable.apply(record);
            replay(&mut core, record, &mut commands);
        }
        let known = core.state().now();
        let origin = match durable.cluster {
            Some(_) => durable.origin,
            None => at,
        };
        let at = (Time::ZERO + (at - origin)).max(known);
        let clock = ClusterClock {
            began: now,
            began_at: at,
            speed: settings.speed,
            known,
        };
        let mut step = Step::default();
        step.records.push(Record::Header {
            format: FORMAT,
            program: env!("CARGO_PKG_VERSION").into(),
        });
        if durable.cluster.is_none() {
            let record = Record::Cluster { id: new, origin };
            durable.apply(&record);
            step.records.push(record);
        }
        let epoch = Epoch(durable.epoch.0 + 1);
        let record = Record::Epoch { epoch, at };
        durable.apply(&record);
        step.records.push(record);
        let open = core.open();
        let mut scheduler = Controller {
            launches: Launches::new(settings.timers, settings.limits, durable, clock),
            core,
            settings,
            commands,
            late: false,
            clock,
            refused_events: 0,
            last_refused: String::new(),
            may_let_go: true,
            nodes_joined: false,
            nodes_left: false,
            feasibility: None,
            step,
        };
        // The question that was open at the shutdown can no longer be answered.
        if let Some(Question { number, .. }) = open {
            let (question, why) = (number, DecisionError::Restarted);
            scheduler.handle(Input::Lost { at, question, why });
        }
        scheduler.offer(at);
        scheduler.settle_requests(now);
        let step = std::mem::take(&mut scheduler.step);
        (scheduler, step)
    }

    /// Brings the offers of the core in line with the settings.
    fn offer(&mut self, at: Time) {
        for offer in changed_offers(&self.core, &self.settings.offers) {
            let offer = Box::new(offer);
            self.handle(Input::Event {
                at,
                event: Event::Offered { offer },
            });
        }
    }

    /// Refuses submissions of jobs that can never fit the cluster, by the rule of the scheduler's
    /// decisions.
    pub fn refuse_by(&mut self, rule: Feasibility) {
        self.feasibility = Some(rule);
    }

    /// Returns the persistent state.
    pub fn save(&self) -> Saved {
        Saved {
            core: self.core.save(),
            durable: self.launches.durable().clone(),
        }
    }

    /// Returns the name of a node in listings, or its number.
    pub fn node_name(&self, node: NodeId) -> String {
        let name = self.view().node(node).and_then(|n| n.spec().name.clone());
        name.map_or_else(|| node.to_string(), |name| name.to_string())
    }

    /// Returns the state of the scheduler core.
    pub fn view(&self) -> View<'_> {
        self.core.view()
    }

    /// Returns the scheduler core.
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// Returns the launches.
    pub fn launches(&self) -> &Launches {
        &self.launches
    }

    /// Returns ended jobs to archive if the scheduler keeps more than `keep`: the oldest, and at most
    /// a few hundred at once. A batch is due only when it is large enough to be worth a file access.
    pub fn to_archive(&self, keep: usize) -> Vec<JobId> {
        const BATCH: usize = 512;
        let durable = self.launches.durable();
        let live = self.core.state().live_jobs() as usize;
        let excess = durable.jobs.len().saturating_sub(live + keep);
        match excess >= BATCH.min(keep / 4 + 1) {
            true => durable.oldest_ended(excess.min(BATCH)),
            false => Vec::new(),
        }
    }

    /// Returns the number of events that contradicted the core's state. It should be zero, because
    /// delayed messages are filtered.
    pub fn refused_events(&self) -> u64 {
        self.refused_events
    }

    /// Returns the core's message about the last refused event; empty if there was none.
    pub fn last_refused(&self) -> &str {
        &self.last_refused
    }

    /// Returns the cluster's time at a time of this machine's clock.
    pub fn time(&self, now: Millis) -> Time {
        self.clock.time(now)
    }

    /// Processes an input.
    ///
    /// A decision that became due earlier is requested first, from the state without this input.
    pub fn step(&mut self, now: Millis, input: ControllerInput) -> Step {
        // The next run of the scheduler asks again.
        if self.launches.is_leaving() && matches!(input, ControllerInput::Answer(..)) {
            return Step::default();
        }
        let at = self.time(now).max(self.core.state().now());
        self.ask(at, |due, at| due < at);
        match input {
            ControllerInput::Report(r) => {
                self.launches.report(now, self.core.view(), &r);
                let refused = self.launches.out.refused.take();
                self.step.reply = refused.map(|why| Err(RequestError::NotTakenIn(why)));
            }
            ControllerInput::Tick => {
                self.try_again(at);
                self.launches.tick(now, self.core.view());
            }
            ControllerInput::Answer(question, answer) => {
                self.late = false;
                // An answer to a question that is no longer open is late and is ignored.
                if self.core.open().is_some_and(|q| q.number == question) {
                    let input = match answer {
                        Ok(decision) => Input::Decided {
                            at,
                            question,
                            decision,
                            instant: Default::default(),
                        },
                        Err(why) => Input::Lost { at, question, why },
                    };
                    self.handle(input);
                }
            }
            ControllerInput::Late(why) => {
                if let Some(Question { number, .. }) = self.core.open() {
                    self.late = true;
                    let question = number;
                    self.handle(Input::Lost { at, question, why });
                }
            }
            ControllerInput::Archived(jobs) => self.fact(Record::Archived { jobs }),
            ControllerInput::Provided(id, answer) => self.launches.provided(id, answer),
            ControllerInput::Request(request) => {
                self.step.reply = Some(self.request(now, at, request));
            }
        }
        self.settle(now, at);
        self.ask(at, |due, at| due <= at);
        std::mem::take(&mut self.step)
    }

    /// Returns orders for a node while the log cannot be written. They repeat the `last` orders in
    /// reply to a newer report, so that running launches keep their leases.
    pub fn repeat(&mut self, now: Millis, report: &Report, last: &Orders) -> Option<Orders> {
        self.launches.repeat(now, report, last)
    }

    /// Processes events and commands until no further ones result.
    fn settle(&mut self, now: Millis, at: Time) {
        loop {
            self.launches.advance(now, self.core.view());
            self.step.records.append(&mut self.launches.out.records);
            for event in std::mem::take(&mut self.launches.out.events) {
                match event {
                    // A state of a version without this event cannot accept it.
                    Event::Ran { .. }
                    // The launch may just have ended for the core.
                    | Event::Progress { .. }
                    | Event::Metric { .. } => self.try_event(at, event),
                    event => {
                        self.nodes_joined |= matches!(event, Event::NodeJoined { .. });
                        self.nodes_left |= matches!(event, Event::NodeLeft { .. });
                        self.handle(Input::Event { at, event })
                    }
                };
            }
            for (job, times) in std::mem::take(&mut self.launches.out.failed) {
                self.back_off(at, job, times);
            }
            for (job, why) in std::mem::take(&mut self.launches.out.lost) {
                self.note_lost(at, job, why);
            }
            for command in std::mem::take(&mut self.commands) {
                self.launches.command(now, self.core.view(), &command);
            }
            self.follow_nodes(at);
            self.let_go(at);
            if self.launches.out.moved.is_empty() && self.launches.out.events.is_empty() {
                break;
            }
        }
        self.settle_requests(now);
        self.launches.orders();
        self.step.records.append(&mut self.launches.out.records);
        let orders = std::mem::take(&mut self.launches.out.orders).into_iter();
        self.step.effects.extend(orders.map(Effect::Send));
    }

    fn settle_requests(&mut self, now: Millis) {
        self.launches.settle_requests(now, self.core.view());
        self.step.records.append(&mut self.launches.out.records);
        let requests = std::mem::take(&mut self.launches.out.requests).into_iter();
        self.step.effects.extend(requests.map(Effect::Provide));
    }

    /// Counts the end of a shim of a job against its node.
    #[cfg(test)]
    pub(super) fn note_shim(&mut self, now: Millis, node: NodeId, job: JobId) {
        self.launches.note_shim(now, node, job);
    }

    /// Counts a lost launch of a job. The first in a row has no delay, because its node may have
    /// been lost. Further ones have the delay of a failure, and after the last the job is held.
    fn note_lost(&mut self, at: Time, job: JobId, why: String) {
        let before = self.launches.durable().wasted.get(&job);
        let times = before.map_or(0, |wasted| wasted.in_row).saturating_add(1);
        let held = times >= self.settings.hold_after && self.try_event(at, Event::Hold { job });
        let why = Some(why);
        self.fact(Record::Wasted { job, why, held });
        if !held && times > 1 {
            self.back_off(at, job, times - 1);
        }
    }

    /// Holds a failed job for its retry delay.
    fn back_off(&mut self, at: Time, job: JobId, times: u32) {
        let event = Event::Hold { job };
        if self.try_event(at, event) {
            let wait = self.settings.timers.back_off_after(times);
            let until = Some(at + self.clock.length(wait));
            self.fact(Record::BackOff { job, until });
        }
    }

    /// Releases failed jobs whose retry delay is over.
    fn try_again(&mut self, at: Time) {
        for job in self.launches.retries(at) {
            self.fact(Record::BackOff { job, until: None });
            self.try_event(at, Event::Release { job });
            self.hold_unfit(at, job);
        }
    }

    /// Adds a record that the core does not process.
    fn fact(&mut self, record: Record) {
        self.launches.apply(&record);
        self.step.records.push(record);
    }

    /// Sends the core an event that it may refuse without counting the refusal.
    fn try_event(&mut self, at: Time, event: Event) -> bool {
        let before = self.refused_events;
        let taken = self.handle(Input::Event { at, event });
        self.refused_events = before;
        taken
    }

    /// Sends an input to the core, and adds a record if the core accepts it.
    fn handle(&mut self, input: Input) -> bool {
        let result = self.core.handle(&input, &mut (), &mut self.commands);
        match result {
            // A refused plan is a lost turn, which replay must repeat.
            Ok(()) | Err(Refused::Plan(_)) => {
                self.may_let_go |= matches!(
                    input,
                    Input::Decided { .. }
                        | Input::Event {
                            event: Event::Ended { .. },
                            ..
                        }
                );
                let record = Record::Core(input);
                self.launches.apply(&record);
                self.step.records.push(record);
                true
            }
            Err(error) => {
                self.refused_events += 1;
                self.last_refused = error.to_string();
                false
            }
        }
    }

    /// Queries the policy if a decision is due.
    fn ask(&mut self, at: Time, by: fn(Time, Time) -> bool) {
        let Some(due) = self.core.due().filter(|due| by(*due, at)) else {
            return;
        };
        if self.late || self.launches.is_leaving() || !self.has_nodes() {
            return;
        }
        // If several decision times have passed without a question, only the present time counts.
        let missed = self
            .core
            .trigger()
            .following(due)
            .is_some_and(|next| next <= at);
        let moment = match missed {
            true => at,
            false => due.max(self.core.state().now()),
        };
        self.handle(Input::Due { at: moment });
    }

    /// Returns whether the nodes that are waited for have come.
    fn has_nodes(&self) -> bool {
        self.core.state().cluster().nodes().len() >= self.settings.wait_for_nodes
    }

    fn request(&mut self, now: Millis, at: Time, request: Request) -> Result<JobId, RequestError> {
        match request {
            Request::Submit { key, spec } => self.submit(
                at,
                SubmitMany {
                    key,
                    spec,
                    indices: Vec::new(),
                    at_once: 0,
                    dependency: Dependency::default(),
                    hold: false,
                },
            ),
            Request::SubmitMany(many) => self.submit(at, *many),
            Request::Cancel(job) => match self.phase(job) {
                // The job has ended, as requested.
                Err(RequestError::Ended { .. } | RequestError::Archived(_)) => Ok(job),
                phase => {
                    phase?;
                    let view = self.core.view();
                    self.launches.end_job(view, job, Goal::Cancel);
                    Ok(job)
                }
            },
            Request::Hold(job) if self.launches.durable().held_back.contains_key(&job) => {
                self.hold_back(job, |held| held.by_user = true);
                Ok(job)
            }
            Request::Hold(job) if self.launches.durable().backing_off.contains_key(&job) => {
                // The job is already held; only its automatic release is cancelled.
                self.fact(Record::BackOff { job, until: None });
                Ok(job)
            }
            Request::Hold(job) => {
                let expected = "only a job that waits can be held; requeue it first";
                self.user_event(at, job, Event::Hold { job }, expected)
            }
            Request::Release(job) if self.launches.durable().held_back.contains_key(&job) => {
                let held = &self.launches.durable().held_back[&job];
                if !held.by_user {
                    let expected = match held.unfit.is_empty() {
                        true => "it is not held, but waits for other jobs",
                        false => "it waits for nodes on which it fits",
                    };
                    let phase = self.phase(job)?;
                    return Err(RequestError::WrongPhase {
                        job,
                        phase,
                        expected,
                    });
                }
                self.hold_back(job, |held| held.by_user = false);
                Ok(job)
            }
            Request::Prioritize(job, priority) => {
                let event = Event::Prioritized { job, priority };
                self.user_event(at, job, event, "its priority cannot change")
            }
            Request::Release(job) => {
                let expected = "it is not held";
                let released = self.user_event(at, job, Event::Release { job }, expected)?;
                if self.launches.durable().backing_off.contains_key(&job) {
                    self.fact(Record::BackOff { job, until: None });
                }
                if self.launches.durable().wasted.contains_key(&job) {
                    let (why, held) = (None, false);
                    self.fact(Record::Wasted { job, why, held });
                }
                self.hold_unfit(at, job);
                Ok(released)
            }
            Request::Requeue(job) => {
                let phase = self.phase(job)?;
                if self.launches.requeue(job) {
                    return Ok(job);
                }
                Err(RequestError::WrongPhase {
                    job,
                    phase,
                    expected: "it waits already",
                })
            }
            Request::Drain {
                node,
                why,
                evict_after,
            } => {
                let action = match evict_after {
                    None => NodeAction::Cordon { node, why },
                    Some(time) => NodeAction::Drain {
                        node,
                        by: at + time,
                        then: AfterDrain::Stay,
                        why,
                    },
                };
                self.node_action(at, node, action)
            }
            Request::Resume(node) => self.node_action(at, node, NodeAction::Uncordon { node }),
            Request::Remove(node) => self.remove(at, node),
            Request::Down(node) => self.down(now, node),
            Request::Leave(absence) => {
                self.launches.leave(absence);
                Ok(JobId(0))
            }
            Request::Price { offer, price } => {
                self.offer_event(at, offer, Event::Priced { offer, price })
            }
            Request::Reclaim { offer, count } => {
                self.offer_event(at, offer, Event::Reclaimed { offer, count })
            }
        }
    }

    fn offer_event(
        &mut self,
        at: Time,
        offer: OfferId,
        event: Event,
    ) -> Result<JobId, RequestError> {
        match self.try_event(at, event) {
            true => Ok(JobId(0)),
            false => Err(RequestError::NoOffer(offer)),
        }
    }

    fn submit(&mut self, at: Time, many: SubmitMany) -> Result<JobId, RequestError> {
        let SubmitMany { key, spec, .. } = many;
        let spec = in_time_of(spec, self.launches.durable().unix(Time::ZERO));
        let indices = many.indices;
        let first = match self.launches.durable().keys.get(&key) {
            Some(&job) => job,
            None => self.core.state().next_job_id(),
        };
        let place = |index: u32| InArray {
            id: first,
            index,
            count: indices.len() as u32,
            min: indices.first().copied().unwrap_or(0),
            max: indices.last().copied().unwrap_or(0),
        };
        let all: Vec<JobSpec> = match indices.is_empty() {
            true => vec![spec],
            false => indices.iter().map(|i| in_array(&spec, place(*i))).collect(),
        };
        if self.launches.durable().keys.contains_key(&key) {
            let job = first;
            let brief = self.launches.durable().jobs.get(&job);
            let known = brief.and_then(|b| Some((b.sum?, b.submit)));
            let same = match (known, self.core.view().job(job)) {
                // The priority of the job may have changed since.
                (Some((sum, at)), _) => sum_of(&submitted(all[0].clone(), at)) == Some(sum),
                (None, Some(j)) => *j.truth().spec() == submitted(all[0].clone(), j.spec().submit),
                (None, None) => true,
            };
            return match same {
                true => Ok(job),
                false => Err(RequestError::OtherJob { key, job }),
            };
        }
        let mut held = self.conditions(&many.dependency, many.at_once)?;
        held.by_user = many.hold;
        let mut jobs = Vec::with_capacity(all.len());
        for spec in all {
            let spec = submitted(spec, at);
            // The jobs of an array differ only in their index.
            if jobs.is_empty() {
                spec.check()
                    .map_err(|e| RequestError::BadSpec(e.to_string()))?;
            }
            let spec = Arc::new(spec);
            if let Some(rule) = (self.feasibility.as_ref())
                .filter(|_| jobs.is_empty())
                .filter(|_| self.has_nodes())
            {
                let fits = rule.check(self.core.state(), &spec);
                fits.map_err(RequestError::NeverFits)?;
            }
            let job = self.core.state().next_job_id();
            let event = Event::Submitted { job, spec };
            if !self.handle(Input::Event { at, event }) {
                return Err(RequestError::BadSpec(
                    "the scheduler cannot take it".to_owned(),
                ));
            }
            jobs.push(job);
        }
        self.fact(Record::Key { key, job: first });
        for job in jobs.into_iter().filter(|_| held.has_conditions()) {
            self.try_event(at, Event::Hold { job });
            let by = Some(Box::new(held.clone()));
            let never = String::new();
            self.fact(Record::HeldBack { job, by, never });
            self.may_let_go = true;
        }
        Ok(first)
    }

    /// Returns the conditions of a new job.
    fn conditions(&self, dependency: &Dependency, at_once: u32) -> Result<HeldBack, RequestError> {
        let mut after = Vec::new();
        for (kind, name) in &dependency.after {
            let durable = self.launches.durable();
            let jobs = match kind {
                AfterEnd::AfterAny => durable.named(*name),
                AfterEnd::AfterOk | AfterEnd::AfterNotOk => durable.targets(*name),
            };
            if jobs.is_empty() {
                let (JobName::Job(job) | JobName::InArray(job, _)) = *name;
                return Err(match name {
                    _ if job >= self.core.state().next_job_id() => RequestError::NoJob(job),
                    JobName::Job(job) => RequestError::Archived(*job),
                    JobName::InArray(array, index) => {
                        RequestError::NotInArray(format!("{array}_{index}"))
                    }
                });
            }
            after.extend(jobs.into_iter().map(|job| (*kind, job)));
        }
        Ok(HeldBack {
            after,
            singleton: dependency.singleton,
            at_once,
            ..HeldBack::default()
        })
    }

    /// Returns why a live job could never run on the present nodes; `None` if it could, and without
    /// nodes.
    fn unfit(&self, job: JobId) -> Option<String> {
        let view = self.core.view();
        let there = self.has_nodes() && view.installed_gpus().get() > 0;
        let rule = self.feasibility.as_ref().filter(|_| there)?;
        let checked = rule.check_live(view, &view.job(job)?);
        checked.err().map(|why| why.to_string())
    }

    /// Holds a job that waits for GPUs if it could never run, since nodes have left. It would keep all
    /// others waiting under many schedulers.
    fn hold_unfit(&mut self, at: Time, job: JobId) {
        let unfit = self.unfit(job);
        if let Some(unfit) = unfit.filter(|_| self.try_event(at, Event::Hold { job })) {
            let held = HeldBack {
                unfit,
                ..HeldBack::default()
            };
            let (by, never) = (Some(Box::new(held)), String::new());
            self.fact(Record::HeldBack { job, by, never });
        }
    }

    /// Holds queued jobs that fit no more after nodes have left, and lets jobs go that fit again after
    /// nodes have joined. Without nodes, nothing changes.
    fn follow_nodes(&mut self, at: Time) {
        let joined = std::mem::take(&mut self.nodes_joined);
        if !(joined || self.nodes_left) || self.core.view().installed_gpus().get() == 0 {
            return;
        }
        if joined {
            let all = self.launches.durable().held_back.iter();
            let unfit = all.filter(|(_, held)| !held.unfit.is_empty());
            let now = unfit.map(|(job, held)| (*job, held, self.unfit(*job).unwrap_or_default()));
            let changed = now.filter(|(_, held, why)| held.unfit != *why);
            let changed: Vec<_> = changed.map(|(job, _, why)| (job, why)).collect();
            for (job, why) in changed {
                self.hold_back(job, |held| held.unfit = why);
            }
        }
        if std::mem::take(&mut self.nodes_left) {
            let view = self.core.view();
            // Jobs that a user or a condition holds are checked at their release.
            let queued = view.submitted().chain(view.admissible());
            let queued: Vec<JobId> = queued.chain(view.waiting()).map(|job| job.id()).collect();
            queued.into_iter().for_each(|job| self.hold_unfit(at, job));
        }
    }

    /// Changes the conditions of a job.
    fn hold_back(&mut self, job: JobId, change: impl FnOnce(&mut HeldBack)) {
        if let Some(held) = self.launches.durable().held_back.get(&job) {
            let mut held = held.clone();
            change(&mut held);
            let (by, never) = (Some(Box::new(held)), String::new());
            self.fact(Record::HeldBack { job, by, never });
            self.may_let_go = true;
        }
    }

    /// Releases the jobs that have met their conditions, and cancels those that never can.
    fn let_go(&mut self, at: Time) {
        let is_due = std::mem::take(&mut self.may_let_go);
        if !is_due || self.launches.durable().held_back.is_empty() {
            return;
        }
        // The end of a job changes nothing for a job that only its user holds.
        let changes = |held: &HeldBack| !held.by_user || !held.after.is_empty() || held.singleton;
        let all = self.launches.durable().held_back.iter();
        let due: Vec<JobId> = all
            .filter(|(_, h)| changes(h))
            .map(|(job, _)| *job)
            .collect();
        let mut places: BTreeMap<JobId, u32> = BTreeMap::new();
        let mut first_of_name = None;
        for job in due {
            let durable = self.launches.durable();
            let Some(held) = durable.held_back.get(&job) else {
                continue;
            };
            let array = durable.jobs.get(&job).and_then(|b| b.array);
            // A job that only waits for a place in a full array.
            if held.after.is_empty()
                && !held.singleton
                && held.at_once > 0
                && array.is_some_and(|array| places.get(&array.id) == Some(&0))
            {
                continue;
            }
            let held = held.clone();
            let mut rest = held.clone();
            let mut never = String::new();
            rest.after.retain(|(kind, of)| match durable.target(*of) {
                Target::Live => true,
                Target::Ended(completed) if kind.is_met_by(completed) => false,
                Target::Unknown if *kind == AfterEnd::AfterAny => false,
                _ => {
                    let became = durable.became(*of).unwrap_or("in the archive");
                    let (kind, of) = (kind.as_str(), durable.called(*of));
                    never = format!("{kind}:{of} can never be met: job {of} is {became}");
                    true
                }
            });
            if !never.is_empty() {
                let by = None;
                self.fact(Record::HeldBack { job, by, never });
                let view = self.core.view();
                self.launches.end_job(view, job, Goal::Cancel);
                continue;
            }
            if rest.singleton && rest.after.is_empty() {
                let first = first_of_name.get_or_insert_with(|| first_of_names(durable));
                let brief = durable.jobs.get(&job);
                let name = brief.map(|b| (b.user.clone(), b.name.clone()));
                rest.singleton = name.and_then(|n| first.get(&n)) != Some(&job);
            }
            let is_next = rest.after.is_empty() && !rest.singleton && rest.unfit.is_empty();
            if let Some(array) = array.filter(|_| is_next && rest.at_once > 0) {
                let free = places.entry(array.id).or_insert_with(|| {
                    let all = durable.array(array.id).map(|(job, _)| job);
                    let live = all.filter(|job| durable.target(*job) == Target::Live);
                    let run = live.filter(|job| !durable.held_back.contains_key(job));
                    rest.at_once.saturating_sub(run.count() as u32)
                });
                if *free > 0 && !rest.by_user {
                    *free -= 1;
                    rest.at_once = 0;
                }
            }
            let goes = is_next && (rest.at_once == 0 || array.is_none()) && !rest.by_user;
            if goes && let Some(unfit) = self.unfit(job) {
                rest.unfit = unfit;
            }
            if goes && rest.unfit.is_empty() {
                let (by, never) = (None, String::new());
                self.fact(Record::HeldBack { job, by, never });
                self.try_event(at, Event::Release { job });
            } else if rest != held {
                let (by, never) = (Some(Box::new(rest)), String::new());
                self.fact(Record::HeldBack { job, by, never });
            }
        }
    }

    fn phase(&self, job: JobId) -> Result<Phase, RequestError> {
        let live = self.core.view().job(job).map(|j| j.phase());
        let ended = || match self.launches.durable().became(job) {
            Some(became) => RequestError::Ended { job, became },
            None if job < self.core.state().next_job_id() => RequestError::Archived(job),
            None => RequestError::NoJob(job),
        };
        live.filter(|p| *p != Phase::Ended).ok_or_else(ended)
    }

    fn user_event(
        &mut self,
        at: Time,
        job: JobId,
        event: Event,
        expected: &'static str,
    ) -> Result<JobId, RequestError> {
        let phase = self.phase(job)?;
        // This is the user's error, not a contradiction in the state.
        if self.try_event(at, event) {
            return Ok(job);
        }
        Err(RequestError::WrongPhase {
            job,
            phase,
            expected,
        })
    }

    fn remove(&mut self, at: Time, node: NodeId) -> Result<JobId, RequestError> {
        let view = self.core.view();
        let there = view.node(node).filter(|n| n.status() != NodeStatus::Left);
        let n = there.ok_or(RequestError::NoNode(node))?;
        let wrong = |why: String| Err(RequestError::WrongNode { node, why });
        if n.status() == NodeStatus::Up && n.cordoned().is_none() {
            return wrong("is up: drain it first".to_owned());
        }
        // A part that is not open is over: the node reported its end, or its fence time has passed.
        if let Some(job) = self.launches.job_on(node) {
            return wrong(format!("cannot leave yet: job {job} may still run on it"));
        }
        if !is_idle(view, n) {
            return wrong("cannot leave yet: a job holds GPUs of it".to_owned());
        }
        let event = Event::NodeLeft { node };
        self.handle(Input::Event { at, event });
        self.launches.part_with(node);
        self.nodes_left = true;
        Ok(JobId(0))
    }

    fn down(&mut self, now: Millis, node: NodeId) -> Result<JobId, RequestError> {
        let there = self.core.view().node(node);
        there
            .filter(|n| n.status() != NodeStatus::Left)
            .ok_or(RequestError::NoNode(node))?;
        match self.launches.declare_down(now, self.core.view(), node) {
            true => Ok(JobId(0)),
            false => {
                let secs = self.settings.timers.lost.as_secs();
                let why = format!(
                    "reports: only a node that has been silent for {secs} s can be declared down"
                );
                Err(RequestError::WrongNode { node, why })
            }
        }
    }

    fn node_action(
        &mut self,
        at: Time,
        node: NodeId,
        action: NodeAction,
    ) -> Result<JobId, RequestError> {
        let status = self.core.view().node(node).map(|n| n.status());
        if status.is_none_or(|s| s == NodeStatus::Left) {
            return Err(RequestError::NoNode(node));
        }
        let event = Event::NodeManaged { action };
        self.handle(Input::Event { at, event });
        Ok(JobId(0))
    }
}

/// Translates the need of a service from Unix time to the cluster's time, which is 0 at `origin`.
fn in_time_of(mut spec: JobSpec, origin: f64) -> JobSpec {
    if let Some(need) = spec.extras.as_mut().and_then(|e| e.need.as_mut()) {
        *need = need.since(Seconds::new(origin));
    }
    spec
}

/// Returns the first job that has not ended, by user and name.
fn first_of_names(durable: &Durable) -> BTreeMap<(String, String), JobId> {
    let mut first = BTreeMap::new();
    for (job, brief) in durable.jobs.iter().filter(|(_, b)| b.ended.is_none()) {
        let name = (brief.user.clone(), brief.name.clone());
        first.entry(name).or_insert(*job);
    }
    first
}

/// Returns the specification of a job of an array.
fn in_array(spec: &JobSpec, place: InArray) -> JobSpec {
    let mut spec = spec.clone();
    let extras = spec.extras.get_or_insert_default();
    // The values always have a JSON form.
    let place = serde_json::to_value(place).unwrap_or_default();
    extras.attributes.insert(ARRAY.into(), place);
    spec
}

/// Returns the offers of a start that the core does not have so. Offers that the start does not have
/// end.
pub(crate) fn changed_offers(core: &Core, offers: &[Offer]) -> Vec<Offer> {
    let known = core.state().cluster().offers();
    let known: Vec<Offer> = known.map(|(_, offer)| offer.clone()).collect();
    let is_over = |known: &Offer| offers.iter().all(|offer| offer.name != known.name);
    let over = known
        .iter()
        .filter(|known| known.most > 0 && is_over(known));
    let over = over.map(|known| Offer {
        most: 0,
        ..known.clone()
    });
    let changed = offers.iter().filter(|offer| !known.contains(offer));
    over.chain(changed.cloned()).collect()
}

/// Applies a record of the log to a core.
pub(crate) fn replay(core: &mut Core, record: &Record, commands: &mut Vec<Command>) {
    match record {
        Record::Core(input) => {
            // Replay repeats an earlier refusal.
            let _ = core.handle(input, &mut (), commands);
            commands.clear();
        }
        record if record.is_change() => core.change_scheduler(),
        _ => {}
    }
}

/// Sets the submission time of a specification and shifts its deadlines accordingly.
fn submitted(mut spec: JobSpec, at: Time) -> JobSpec {
    let since = at - spec.submit;
    spec.submit = at;
    if let Some(extras) = &mut spec.extras {
        for deadline in &mut extras.deadlines {
            deadline.at += since;
        }
    }
    spec
}
