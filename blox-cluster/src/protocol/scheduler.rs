//! The scheduler daemon's machine: the scheduler core that the simulator has
//! too, the launches, and what users ask for.
//!
//! A step takes one input and gives facts and effects. The facts are applied
//! already; the effects may be carried out only once the facts are on the disk.

use super::ids::{ClusterId, Epoch, Millis};
use super::launches::report::is_idle;
use super::launches::{ClusterClock, Durable, Goal, Launches, Outcome, sum_of};
use super::message::{Orders, Report};
use super::record::{FORMAT, Record};
use super::timers::Timers;
use blox_core::cadence::Cadence;
use blox_core::core::{self, Core, Question};
use blox_core::{
    Command, DecideError, Decision, Event, Feasibility, Input, JobId, JobSpec, Name, NodeAction,
    NodeId, NodeStatus, Phase, Reason, Refused, Time, View,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What the machine hears.
#[derive(Clone, Debug)]
pub enum Heard {
    /// A node reported.
    Report(Report),
    /// The policy, beside the loop, answered a question or erred.
    Answer(u64, Result<Box<Decision>, DecideError>),
    /// The policy takes too long over the open question. It is asked again when its answer comes:
    /// what is asked meanwhile would be answered too late as well.
    Late(DecideError),
    /// A user asks for something.
    Request(Request),
    /// Time has passed.
    Tick,
}

/// What users ask for.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Take a job in. The same key again is the same job.
    Submit {
        /// The client's key for it.
        key: Name,
        /// What it asks for; the moment of submission is set here.
        spec: JobSpec,
    },
    /// End a job.
    Cancel(JobId),
    /// Hold a waiting job back.
    Hold(JobId),
    /// Let a held job go on.
    Release(JobId),
    /// Have a running job leave its GPUs and wait again.
    Requeue(JobId),
    /// Place nothing new on a node.
    Drain(NodeId, Name),
    /// Use a drained node again.
    Resume(NodeId),
    /// Have a node that is lost or drained, and empty, leave for good.
    Remove(NodeId),
}

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum RequestError {
    /// No such job.
    #[error("there is no job {0}")]
    NoJob(JobId),
    /// It has ended.
    #[error("job {job} is {became}: it has ended")]
    Ended {
        /// The job.
        job: JobId,
        /// What became of it.
        became: &'static str,
    },
    /// No such node.
    #[error("there is no node {0}")]
    NoNode(NodeId),
    /// It makes no sense as long as the node is as it is.
    #[error("node {node} {why}")]
    WrongNode {
        /// The node.
        node: NodeId,
        /// What it is, and what would be right.
        why: String,
    },
    /// The node that reports is not taken in.
    #[error("{0}")]
    NotTakenIn(String),
    /// It makes no sense in the job's phase.
    #[error("job {job} is {phase}: {expected}")]
    WrongPhase {
        /// The job.
        job: JobId,
        /// What it is.
        phase: Phase,
        /// What would be right.
        expected: &'static str,
    },
    /// The key was used for another job.
    #[error("the key `{key}` was used for job {job}, which asks for something else")]
    OtherJob {
        /// The key.
        key: Name,
        /// The job that it stands for.
        job: JobId,
    },
    /// The job makes no sense.
    #[error("{0}")]
    BadSpec(String),
    /// The cluster can never hold it.
    #[error("the job {0}; ask for less, or add nodes first{MORE_NODES}")]
    NeverFits(Reason),
}

/// The advice for a job that is too large for the nodes that came.
pub(super) const MORE_NODES: &str =
    "; if nodes were still to come, start the scheduler with --wait-for-nodes N";

/// What is to be done once the facts are on the disk.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Send orders to a node.
    Send(Orders),
}

/// What came of a step.
#[derive(Debug, Default)]
pub struct Step {
    /// Facts for the log, to be written as one. An [`Input::Due`] among them asks the policy, which
    /// decides from what comes before it.
    pub records: Vec<Record>,
    /// What follows.
    pub effects: Vec<Effect>,
    /// The job that a request was about; for a submission its number. To a report only why
    /// its node is not taken in.
    pub reply: Option<Result<JobId, RequestError>>,
}

/// How the machine was told to behave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The timers.
    pub timers: Timers,
    /// Nodes that must have come before the first decision: what looks too
    /// large for half a cluster would be turned away for good.
    pub wait_for_nodes: usize,
    /// Seconds of the cluster's time in a second of the machine's clock: 1, or
    /// more to rehearse on small programs what would take hours.
    pub speed: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            timers: Timers::default(),
            wait_for_nodes: 1,
            speed: 1.0,
        }
    }
}

/// Everything that lasts, at one moment.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Saved {
    /// The scheduler core.
    pub core: core::Saved,
    /// Launches, nodes, accounts.
    pub durable: Durable,
}

/// The machine.
pub struct Scheduler {
    core: Core,
    launches: Launches,
    settings: Settings,
    /// Memory of steps.
    commands: Vec<Command>,
    /// The policy has lost its turn, and thinks still.
    late: bool,
    clock: ClusterClock,
    refused_events: u64,
    last_refused: String,
    /// Refuses submissions, once the nodes that are waited for have come.
    feasibility: Option<Feasibility>,
}

impl Scheduler {
    /// A scheduler that begins, with what was saved and what the log holds
    /// since. `now` is the machine's clock, `at` the time of the cluster. The
    /// first step tells of the beginning, and must be on the disk before the
    /// scheduler speaks to anybody.
    pub fn begin(
        settings: Settings,
        saved: Saved,
        log: &[Record],
        new: ClusterId,
        cadence: Box<dyn Cadence>,
        now: Millis,
        at: Time,
    ) -> (Self, Step) {
        let Saved {
            core, mut durable, ..
        } = saved;
        let mut core = Core::restore(core, cadence);
        let mut commands = Vec::new();
        for record in log {
            durable.apply(record);
            if let Record::Core(input) = record {
                // What it refused then, it refuses now.
                let _ = core.handle(input, &mut (), &mut commands);
                commands.clear();
            }
        }
        let known = core.state().now();
        let at = at.max(known);
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
            let record = Record::Cluster { id: new };
            durable.apply(&record);
            step.records.push(record);
        }
        let epoch = Epoch(durable.epoch.0 + 1);
        let record = Record::Epoch { epoch, at };
        durable.apply(&record);
        step.records.push(record);
        let open = core.open();
        let mut scheduler = Scheduler {
            launches: Launches::new(settings.timers, durable, clock),
            core,
            settings,
            commands,
            late: false,
            clock,
            refused_events: 0,
            last_refused: String::new(),
            feasibility: None,
        };
        // Nobody knows any more from what it would have been answered.
        if let Some(Question { number, .. }) = open {
            let (question, why) = (number, DecideError::Restarted);
            scheduler.tell(Input::Lost { at, question, why }, &mut step);
        }
        (scheduler, step)
    }

    /// Refuses from now on what the cluster can never hold, as the scheduler's decisions do later.
    pub fn refuse_by(&mut self, rule: Feasibility) {
        self.feasibility = Some(rule);
    }

    /// Everything that lasts.
    pub fn save(&self) -> Saved {
        Saved {
            core: self.core.save(),
            durable: self.launches.durable().clone(),
        }
    }

    /// Returns what the scheduler core knows.
    pub fn view(&self) -> View<'_> {
        self.core.view()
    }

    /// The scheduler core.
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// The launches.
    pub fn launches(&self) -> &Launches {
        &self.launches
    }

    /// Events that contradicted the core's state. There should be none: the
    /// launches filter what comes late.
    pub fn refused_events(&self) -> u64 {
        self.refused_events
    }

    /// Returns what the core said of the last of them; empty if there was none.
    pub fn last_refused(&self) -> &str {
        &self.last_refused
    }

    /// The cluster's time at a moment of this machine's clock.
    pub fn time(&self, now: Millis) -> Time {
        self.clock.time(now)
    }

    /// Hears something at a moment.
    ///
    /// A decision moment that has come by then is taken first: its question knows nothing of what
    /// is heard later.
    pub fn step(&mut self, now: Millis, heard: Heard) -> Step {
        let at = self.time(now).max(self.core.state().now());
        let mut step = Step::default();
        let mut out = Outcome::default();
        self.ask(at, |due, at| due < at, &mut step);
        match heard {
            Heard::Report(r) => {
                self.launches.report(now, self.core.view(), &r, &mut out);
                let refused = out.refused.take();
                step.reply = refused.map(|why| Err(RequestError::NotTakenIn(why)));
            }
            Heard::Tick => {
                self.try_again(at, &mut step);
                self.launches.tick(now, self.core.view(), &mut out);
            }
            Heard::Answer(question, answer) => {
                self.late = false;
                // The answer to a question that is not open has come too late.
                if self.core.open().is_some_and(|q| q.number == question) {
                    let input = match answer {
                        Ok(decision) => Input::Decided {
                            at,
                            question,
                            decision,
                            instant: false,
                        },
                        Err(why) => Input::Lost { at, question, why },
                    };
                    self.tell(input, &mut step);
                }
            }
            Heard::Late(why) => {
                if let Some(Question { number, .. }) = self.core.open() {
                    self.late = true;
                    let question = number;
                    self.tell(Input::Lost { at, question, why }, &mut step);
                }
            }
            Heard::Request(request) => {
                step.reply = Some(self.request(at, request, &mut out, &mut step));
            }
        }
        self.settle(now, at, &mut out, &mut step);
        self.ask(at, |due, at| due <= at, &mut step);
        step
    }

    /// Orders for a node while nothing can be written down: what it was told `last`, in answer to
    /// a newer report, so that what runs goes on.
    pub fn repeat(&mut self, now: Millis, report: &Report, last: &Orders) -> Option<Orders> {
        self.launches.repeat(now, report, last)
    }

    /// When time alone brings something about, at the latest.
    pub fn due(&self) -> Option<Time> {
        self.core.due()
    }

    /// Until nothing follows from anything any more.
    fn settle(&mut self, now: Millis, at: Time, out: &mut Outcome, step: &mut Step) {
        loop {
            self.launches.advance(now, self.core.view(), out);
            step.records.append(&mut out.records);
            for event in std::mem::take(&mut out.events) {
                match event {
                    // A state that was saved before there was this cannot take it.
                    Event::Ran { .. }
                    // Of a launch about whose end the core hears just now.
                    | Event::Progress { .. }
                    | Event::Metric { .. } => self.told_quietly(at, event, step),
                    event => self.tell(Input::Event { at, event }, step),
                };
            }
            for (job, times) in std::mem::take(&mut out.failed) {
                self.back_off(at, job, times, step);
            }
            for command in std::mem::take(&mut self.commands) {
                self.launches.command(now, self.core.view(), &command, out);
            }
            if out.moved.is_empty() && out.events.is_empty() {
                break;
            }
        }
        step.records.append(&mut out.records);
        self.launches.orders(out);
        step.effects.extend(
            std::mem::take(&mut out.orders)
                .into_iter()
                .map(Effect::Send),
        );
    }

    /// A job that failed is held for a while.
    fn back_off(&mut self, at: Time, job: JobId, times: u32, step: &mut Step) {
        let event = Event::Hold { job };
        if self.told_quietly(at, event, step) {
            let wait = self.settings.timers.back_off_after(times);
            let until = Some(at + self.clock.length(wait));
            self.fact(Record::BackOff { job, until }, step);
        }
    }

    /// Jobs that have waited long enough since they failed.
    fn try_again(&mut self, at: Time, step: &mut Step) {
        let all = self.launches.durable().backing_off.iter();
        let due: Vec<JobId> = all.filter(|(_, u)| **u <= at).map(|(j, _)| *j).collect();
        for job in due {
            self.fact(Record::BackOff { job, until: None }, step);
            self.told_quietly(at, Event::Release { job }, step);
        }
    }

    /// A fact for the log that the core does not take.
    fn fact(&mut self, record: Record, step: &mut Step) {
        self.launches.record(record.clone());
        step.records.push(record);
    }

    /// Tells the core what it may refuse.
    fn told_quietly(&mut self, at: Time, event: Event, step: &mut Step) -> bool {
        let before = self.refused_events;
        let taken = self.tell(Input::Event { at, event }, step);
        self.refused_events = before;
        taken
    }

    /// Hands an input to the core, and to the log what it took.
    fn tell(&mut self, input: Input, step: &mut Step) -> bool {
        let result = self.core.handle(&input, &mut (), &mut self.commands);
        match result {
            // A plan that was refused is a lost turn, and a copy must lose it too.
            Ok(()) | Err(Refused::Plan(_)) => {
                let record = Record::Core(input);
                self.launches.record(record.clone());
                step.records.push(record);
                true
            }
            Err(error) => {
                self.refused_events += 1;
                self.last_refused = error.to_string();
                false
            }
        }
    }

    /// Has the policy asked if a decision is due `by` now.
    fn ask(&mut self, at: Time, by: fn(Time, Time) -> bool, step: &mut Step) {
        let Some(due) = self.core.due().filter(|due| by(*due, at)) else {
            return;
        };
        if self.late || !self.has_nodes() {
            return;
        }
        // Of the moments that have passed while there was no scheduler, or while it was not asked,
        // only the present counts.
        let missed = self
            .core
            .cadence()
            .following(due)
            .is_some_and(|next| next <= at);
        let moment = match missed {
            true => at,
            false => due.max(self.core.state().now()),
        };
        self.tell(Input::Due { at: moment }, step);
        // The policy is asked by the fact itself.
        self.commands
            .retain(|command| !matches!(command, Command::Ask { .. }));
    }

    /// Returns whether the nodes that are waited for have come.
    fn has_nodes(&self) -> bool {
        self.core.state().cluster().nodes().len() >= self.settings.wait_for_nodes
    }

    fn request(
        &mut self,
        at: Time,
        request: Request,
        out: &mut Outcome,
        step: &mut Step,
    ) -> Result<JobId, RequestError> {
        match request {
            Request::Submit { key, spec } => self.submit(at, key, spec, step),
            Request::Cancel(job) => match self.phase(job) {
                // That is what was wanted.
                Err(RequestError::Ended { .. }) => Ok(job),
                phase => {
                    phase?;
                    let view = self.core.view();
                    self.launches.end_job(view, job, Goal::Cancel, out);
                    Ok(job)
                }
            },
            Request::Hold(job) if self.launches.durable().backing_off.contains_key(&job) => {
                // It is held already; only it is not let go by time any more.
                self.fact(Record::BackOff { job, until: None }, step);
                Ok(job)
            }
            Request::Hold(job) => {
                let expected = "only a job that waits can be held; requeue it first";
                self.user_event(at, job, Event::Hold { job }, expected, step)
            }
            Request::Release(job) => {
                let expected = "it is not held";
                let released = self.user_event(at, job, Event::Release { job }, expected, step)?;
                if self.launches.durable().backing_off.contains_key(&job) {
                    self.fact(Record::BackOff { job, until: None }, step);
                }
                Ok(released)
            }
            Request::Requeue(job) => {
                let phase = self.phase(job)?;
                if self.launches.requeue(job, out) {
                    return Ok(job);
                }
                Err(RequestError::WrongPhase {
                    job,
                    phase,
                    expected: "it waits already",
                })
            }
            Request::Drain(node, why) => {
                self.node_action(at, node, NodeAction::Cordon { node, why }, step)
            }
            Request::Resume(node) => {
                self.node_action(at, node, NodeAction::Uncordon { node }, step)
            }
            Request::Remove(node) => self.remove(at, node, step),
        }
    }

    fn submit(
        &mut self,
        at: Time,
        key: Name,
        spec: JobSpec,
        step: &mut Step,
    ) -> Result<JobId, RequestError> {
        if let Some(&job) = self.launches.durable().keys.get(&key) {
            let same = match self.core.view().job(job) {
                Some(j) => *j.spec() == submitted(spec, j.spec().submit),
                None => {
                    let brief = self.launches.durable().jobs.get(&job);
                    let known = brief.and_then(|b| Some((b.sum?, b.submit)));
                    known.is_none_or(|(sum, at)| sum_of(&submitted(spec, at)) == Some(sum))
                }
            };
            return match same {
                true => Ok(job),
                false => Err(RequestError::OtherJob { key, job }),
            };
        }
        let spec = submitted(spec, at);
        spec.check()
            .map_err(|e| RequestError::BadSpec(e.to_string()))?;
        let spec = Arc::new(spec);
        if let Some(rule) = self.feasibility.as_ref().filter(|_| self.has_nodes()) {
            let fits = rule.check(self.core.state(), &spec);
            fits.map_err(RequestError::NeverFits)?;
        }
        let job = self.core.state().next_job_id();
        let event = Event::Submitted { job, spec };
        if !self.tell(Input::Event { at, event }, step) {
            return Err(RequestError::BadSpec(
                "the scheduler cannot take it".to_owned(),
            ));
        }
        self.fact(Record::Key { key, job }, step);
        Ok(job)
    }

    fn phase(&self, job: JobId) -> Result<Phase, RequestError> {
        let live = self.core.view().job(job).map(|j| j.phase());
        let ended = || match self.launches.durable().became(job) {
            Some(became) => RequestError::Ended { job, became },
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
        step: &mut Step,
    ) -> Result<JobId, RequestError> {
        let phase = self.phase(job)?;
        // The user's mistake, not ours.
        if self.told_quietly(at, event, step) {
            return Ok(job);
        }
        Err(RequestError::WrongPhase {
            job,
            phase,
            expected,
        })
    }

    fn remove(&mut self, at: Time, node: NodeId, step: &mut Step) -> Result<JobId, RequestError> {
        let view = self.core.view();
        let there = view.node(node).filter(|n| n.status() != NodeStatus::Left);
        let n = there.ok_or(RequestError::NoNode(node))?;
        let wrong = |why: String| Err(RequestError::WrongNode { node, why });
        if n.status() == NodeStatus::Up && n.cordoned().is_none() {
            return wrong("is up: drain it first".to_owned());
        }
        // What is not open is over: the node said so, or its fence has passed.
        if let Some(job) = self.launches.job_on(node) {
            return wrong(format!("cannot leave yet: job {job} may still run on it"));
        }
        if !is_idle(view, n) {
            return wrong("cannot leave yet: a job holds GPUs of it".to_owned());
        }
        let event = Event::NodeLeft { node };
        self.tell(Input::Event { at, event }, step);
        self.launches.part_with(node);
        Ok(JobId(0))
    }

    fn node_action(
        &mut self,
        at: Time,
        node: NodeId,
        action: NodeAction,
        step: &mut Step,
    ) -> Result<JobId, RequestError> {
        let status = self.core.view().node(node).map(|n| n.status());
        if status.is_none_or(|s| s == NodeStatus::Left) {
            return Err(RequestError::NoNode(node));
        }
        let event = Event::NodeManaged { action };
        self.tell(Input::Event { at, event }, step);
        Ok(JobId(0))
    }
}

/// A job as it came in at a moment: its deadlines count from then.
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

impl Launches {
    /// Takes a fact that its caller puts into the log.
    fn record(&mut self, record: Record) {
        let mut out = Outcome::default();
        self.note(&mut out, record);
    }
}
