//! A cluster driven by hand.

use blox_core::runtime::Runtime;
use blox_core::{
    Action, ActionId, AdmissionDecision, AfterDrain, Assignment, Cluster, ClusterSpec, Command,
    Decision, DecisionError, DecisionTrigger, Event, EventError, GpuId, Input, JobId, JobRef,
    JobSpec, Lens, NodeAction, NodeSpec, NodeStatus, Outcome, Phase, Reason, Refused, Rounds,
    Scheduler, State, Time,
};
use std::sync::Arc;

/// A question and its answer as two steps, for decisions that are applied late or never.
///
/// ```
/// use blox_core::{Composition, ClusterSpec, GpuCount, JobSpec, Seconds, Time};
/// use blox_core::{order::SortKey, policy::by_key};
/// use blox_testing::{FirstFit, Scenario, StepByStep};
///
/// let fifo = Composition::new("fifo")
///     .scheduling(by_key(|job| SortKey::by(job.submit().secs())))
///     .placement(FirstFit)
///     .build()?;
/// let mut case = Scenario::new(&ClusterSpec::uniform(1, 2), fifo);
/// case.submit(0.0, JobSpec::new(Time::ZERO, GpuCount(2), Seconds::new(600.0)));
/// let decision = case.core.consult(Time::ZERO, &mut *case.policy)?;
/// assert!(!case.core.has_commands());
/// case.core.apply(Time::new(9.0), decision, &mut *case.policy)?;
/// assert!(case.core.has_commands());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait StepByStep {
    /// Returns the scheduler's decision at `at` without applying it. The question stays open until
    /// [`StepByStep::apply`] or [`Input::Lost`].
    ///
    /// # Errors
    /// The scheduler panicked, or its placement policy misused the draft.
    fn consult(
        &mut self,
        at: Time,
        scheduler: &mut dyn Scheduler,
    ) -> Result<Decision, DecisionError>;

    /// Applies a decision for the open question.
    ///
    /// # Errors
    /// The plan contradicts the state that it was made from.
    fn apply(
        &mut self,
        at: Time,
        decision: Decision,
        scheduler: &mut dyn Scheduler,
    ) -> Result<(), Refused>;
}

impl StepByStep for Runtime {
    fn consult(
        &mut self,
        at: Time,
        scheduler: &mut dyn Scheduler,
    ) -> Result<Decision, DecisionError> {
        let _ = self.take(&Input::Due { at }, scheduler);
        let mut decision = Decision::default();
        let made = self
            .core()
            .decide(scheduler, &mut Lens::default(), &mut decision);
        made.map(|()| decision)
    }

    fn apply(
        &mut self,
        at: Time,
        decision: Decision,
        scheduler: &mut dyn Scheduler,
    ) -> Result<(), Refused> {
        let answer = Input::Decided {
            at,
            question: self.open().map_or(0, |open| open.number),
            decision: Box::new(decision),
            instant: Default::default(),
        };
        self.take(&answer, scheduler)
    }
}

/// A cluster driven by hand, for small cases of a scheduler. Times are in seconds.
///
/// ```
/// use blox_core::{Composition, ClusterSpec, GpuCount, JobSpec, Seconds, Time};
/// use blox_core::{order::SortKey, policy::by_key};
/// use blox_testing::{FirstFit, Scenario};
///
/// let shortest_first = Composition::new("sjf")
///     .scheduling(by_key(|job| SortKey::by(job.truth().duration().secs())))
///     .placement(FirstFit)
///     .build()?;
/// let mut case = Scenario::new(&ClusterSpec::uniform(1, 2), shortest_first);
/// let job = |secs| JobSpec::new(Time::ZERO, GpuCount(2), Seconds::new(secs));
/// case.submit(0.0, job(900.0));
/// case.submit(0.0, job(600.0));
/// assert_eq!(case.round(0.0), "place 1 on 0 1");
/// case.ended(600.0, 1);
/// assert_eq!(case.round(600.0), "place 0 on 0 1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
/// Methods panic if an event contradicts the state or a decision fails; those that begin with
/// `try_` return the error.
pub struct Scenario {
    /// The state, and the machine that changes it.
    pub core: Runtime,
    /// The scheduler.
    pub policy: Box<dyn Scheduler>,
    /// Commands that are not carried out yet.
    pub commands: Vec<Command>,
    /// Iterations a second of a started job, by its number of GPUs. The default is 1.
    pub rate: fn(usize) -> f64,
}

impl std::fmt::Debug for Scenario {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut fields = f.debug_struct("Scenario");
        fields
            .field("phases", &self.phases())
            .finish_non_exhaustive()
    }
}

impl Scenario {
    /// Creates an empty cluster with rounds of the default length.
    pub fn new(cluster: &ClusterSpec, scheduler: impl Scheduler + 'static) -> Self {
        Scenario::deciding(cluster, Rounds::default(), scheduler)
    }

    /// Creates an empty cluster whose decisions are due as `trigger` says.
    pub fn deciding(
        cluster: &ClusterSpec,
        trigger: impl DecisionTrigger + 'static,
        scheduler: impl Scheduler + 'static,
    ) -> Self {
        let state = State::new(cluster).expect("the cluster is valid");
        Scenario {
            core: Runtime::new(state, Box::new(trigger)),
            policy: Box::new(scheduler),
            commands: Vec::new(),
            rate: |_| 1.0,
        }
    }

    /// Submits a job. Its time of submission becomes `at`.
    pub fn submit(&mut self, at: f64, mut spec: JobSpec) -> JobId {
        spec.submit = Time::new(at);
        let job = self.core.state().next_job_id();
        let spec = Arc::new(spec);
        self.event(at, Event::Submitted { job, spec });
        job
    }

    /// Submits jobs, each with `at` as its time of submission.
    pub fn submit_all(&mut self, at: f64, specs: impl IntoIterator<Item = JobSpec>) {
        for spec in specs {
            self.submit(at, spec);
        }
    }

    /// Applies an event.
    pub fn event(&mut self, at: f64, event: Event) {
        self.try_event(at, event).unwrap();
    }

    /// Applies an event.
    ///
    /// # Errors
    /// The event contradicts the state.
    pub fn try_event(&mut self, at: f64, event: Event) -> Result<(), EventError> {
        let result = self.core.event(Time::new(at), &event, &mut *self.policy);
        self.core.take_commands(&mut self.commands);
        result
    }

    /// Reports a launch as started.
    pub fn started(&mut self, at: f64, job: u32, attempt: u32) {
        let gpus = self.job(job).bound().map_or(0, |a| a.gpus.len());
        let (job, rate) = (JobId(job), (self.rate)(gpus));
        self.event(at, Event::Started { job, attempt, rate });
    }

    /// Reports a launch as stopped.
    pub fn stopped(&mut self, at: f64, job: u32, attempt: u32) {
        let (job, work) = (JobId(job), None);
        self.event(at, Event::Stopped { job, attempt, work });
    }

    /// Reports a job as completed.
    pub fn ended(&mut self, at: f64, job: u32) {
        let (job, outcome) = (JobId(job), Outcome::Completed);
        self.event(at, Event::Ended { job, outcome });
    }

    /// Reports a job as cancelled.
    pub fn cancelled(&mut self, at: f64, job: u32) {
        let (job, outcome) = (JobId(job), Outcome::Cancelled);
        self.event(at, Event::Ended { job, outcome });
    }

    /// Reports a crash of a launch, after which `work` iterations are kept.
    pub fn crashed(&mut self, at: f64, job: u32, attempt: u32, work: f64) {
        let (job, why) = (JobId(job), Reason::Crashed);
        let crashed = Event::Crashed {
            job,
            attempt,
            work,
            why,
        };
        self.event(at, crashed);
    }

    /// Reports a launch that failed to start.
    pub fn launch_failed(&mut self, at: f64, job: u32, attempt: u32, why: &str) {
        let (job, why) = (JobId(job), why.into());
        self.event(at, Event::LaunchFailed { job, attempt, why });
    }

    /// Reports a number of a job.
    pub fn metric(&mut self, at: f64, job: u32, name: &str, value: f64) {
        let (job, name) = (JobId(job), name.into());
        self.event(at, Event::Metric { job, name, value });
    }

    /// Returns the steps of a decision made now, for instance `stop 0; place 1 on 2 3`.
    ///
    /// Node actions come first (`grow 2 of small`, `drain 0 by 600 then leave`), then rejected jobs
    /// (`reject 3`), then the plan. In the plan, a config follows the GPUs (`place 1 on 2 3 as tp=2`), and
    /// a notice is `notify 0 by 900`.
    pub fn decide(&mut self, at: f64) -> String {
        self.try_decide(at).unwrap_or_else(|e| panic!("{e}"))
    }

    /// Returns the steps of a decision made now.
    ///
    /// # Errors
    /// The scheduler fails, or its plan is invalid.
    pub fn try_decide(&mut self, at: f64) -> Result<String, DecisionError> {
        let decided = self.core.decide(Time::new(at), &mut *self.policy);
        self.core.take_commands(&mut self.commands);
        decided.map(|()| self.steps())
    }

    /// Returns the steps of the last decision.
    pub fn steps(&self) -> String {
        let (cluster, decision) = (self.core.state().cluster(), self.core.decision());
        let managed = decision.actions.iter().map(|a| node_text(cluster, a));
        let judged = decision.admissions.iter();
        let rejected = judged.filter(|(_, its)| matches!(its, AdmissionDecision::Reject(_)));
        let rejected = rejected.map(|(job, _)| format!("reject {job}"));
        let planned = decision.plan.actions.iter().map(text);
        let all: Vec<String> = managed.chain(rejected).chain(planned).collect();
        all.join("; ")
    }

    /// Removes the commands and returns their text, for instance `stop 0.1; start 1.1`. A number of a
    /// launch follows each job.
    pub fn take_commands(&mut self) -> String {
        let cluster = self.core.state().cluster();
        let all = self.commands.drain(..).map(|c| command_text(cluster, &c));
        all.collect::<Vec<_>>().join("; ")
    }

    /// Carries out all commands at once, and all that follow from them. Skips commands that later
    /// plans made obsolete. Requested nodes join, and idle nodes leave.
    pub fn settle(&mut self, at: f64) {
        while !self.commands.is_empty() {
            for command in std::mem::take(&mut self.commands) {
                let phase = |job: JobId, attempt: u32| {
                    let job = self.core.state().job(job);
                    job.filter(|j| j.attempt() == attempt).map(|j| j.phase())
                };
                match command {
                    Command::Stop { job, attempt, .. }
                        if phase(job, attempt) == Some(Phase::Stopping) =>
                    {
                        self.stopped(at, job.0, attempt);
                    }
                    Command::Start { job, attempt } | Command::Change { job, attempt, .. }
                        if phase(job, attempt) == Some(Phase::Starting) =>
                    {
                        self.started(at, job.0, attempt);
                    }
                    Command::Finish { job } => {
                        let outcome = Outcome::Terminated;
                        self.event(at, Event::Ended { job, outcome });
                    }
                    Command::Node { id, action } => self.carry_out(at, id, &action),
                    _ => {}
                }
            }
        }
    }

    fn carry_out(&mut self, at: f64, id: ActionId, action: &NodeAction) {
        let cluster = self.core.state().cluster();
        let status = |node| cluster.node(node).map(|node| node.status());
        let events: Vec<Event> = match *action {
            NodeAction::Grow { offer, .. } => {
                let names = cluster.growth(id).map_or(&[][..], |growth| &growth.names);
                let spec = cluster.offer(offer).map(|offer| offer.spec.clone());
                let join = |(name, spec): (_, NodeSpec)| Event::NodeJoined {
                    spec: Box::new(NodeSpec { name, ..spec }),
                };
                let specs = std::iter::repeat(spec.unwrap_or_default());
                names
                    .iter()
                    .cloned()
                    .map(Some)
                    .zip(specs)
                    .map(join)
                    .collect()
            }
            NodeAction::Drain { node, .. } if status(node) != Some(NodeStatus::Left) => {
                vec![Event::NodeLeft { node }]
            }
            NodeAction::Power { node, on: true } => vec![Event::NodeReturned { node }],
            _ => Vec::new(),
        };
        for event in events {
            self.event(at, event);
        }
    }

    /// Decides, and carries out all commands at once. Returns the steps of the decision.
    pub fn round(&mut self, at: f64) -> String {
        let steps = self.decide(at);
        self.settle(at);
        steps
    }

    /// Returns the phase of a job, or `gone`.
    pub fn phase(&self, job: u32) -> &'static str {
        let job = self.core.state().job(JobId(job));
        job.map_or("gone", |j| j.phase().as_str())
    }

    /// Returns the phases, for instance `0 running, 1 waiting`.
    pub fn phases(&self) -> String {
        let known = (0..self.core.state().next_job_id().0)
            .filter(|j| self.core.state().job(JobId(*j)).is_some());
        let all: Vec<String> = known.map(|j| format!("{j} {}", self.phase(j))).collect();
        all.join(", ")
    }

    /// Returns a job that is not gone.
    pub fn job(&self, job: u32) -> JobRef<'_> {
        self.core.state().job(JobId(job)).unwrap()
    }

    /// Returns the reason why a job got no GPUs in the last decision.
    pub fn why(&self, job: u32) -> String {
        self.core.reason_for(JobId(job)).to_string()
    }

    /// Returns the ledgers of a GPU, for instance `allocated to 1, bound to 0`.
    pub fn ledgers(&self, gpu: u32) -> String {
        let list = |ids: &mut dyn Iterator<Item = JobId>| {
            let ids: Vec<String> = ids.map(|j| j.to_string()).collect();
            match ids.is_empty() {
                true => "none".to_owned(),
                false => ids.join("+"),
            }
        };
        let c = self.core.state().cluster();
        format!(
            "allocated to {}, bound to {}",
            list(&mut c.allocated_to(GpuId(gpu))),
            list(&mut c.bound_to(GpuId(gpu)))
        )
    }

    /// Returns the allocated GPUs of a job.
    pub fn gpus(&self, job: u32) -> Option<Vec<u32>> {
        let gpus = &self.assignment(job)?.gpus;
        Some(gpus.iter().map(|gpu| gpu.0).collect())
    }

    /// Returns the assignment of a job.
    pub fn assignment(&self, job: u32) -> Option<&Assignment> {
        self.core.state().job(JobId(job))?.assignment()
    }
}

/// Formats a step of a plan, for instance `place 0 on 2 3 overlapping with 8 cpus as tp=2`.
fn text(step: &Action) -> String {
    match step {
        Action::Stop { job, .. } => format!("stop {job}"),
        Action::Place { job, assignment: a } => {
            let mut s = format!("place {job} on");
            for g in &a.gpus {
                s += &format!(" {g}");
            }
            if a.share.overlaps() {
                s += " overlapping";
            }
            if a.cpus != 0.0 {
                s += &format!(" with {} cpus", a.cpus);
            }
            if !a.config.is_none() {
                s += &format!(" as {}", a.config);
            }
            s
        }
        Action::Finish { job, .. } => format!("finish {job}"),
        Action::Promote { job } => format!("promote {job}"),
        Action::Notify { job, by } => format!("notify {job} by {}", by.secs()),
        other => format!("{other:?}"),
    }
}

/// Formats an action on a node, for instance `cordon 0`.
fn node_text(cluster: &Cluster, action: &NodeAction) -> String {
    let name = action.name();
    match action {
        NodeAction::Grow { offer, count } => match cluster.offer(*offer) {
            Some(offer) => format!("{name} {count} of {}", offer.name),
            None => format!("{name} {count}"),
        },
        NodeAction::Drain { node, by, then, .. } => {
            let then = match then {
                AfterDrain::Leave => " then leave",
                AfterDrain::Off => " then off",
                _ => "",
            };
            format!("{name} {node} by {}{then}", by.secs())
        }
        NodeAction::Move { node, partition } => {
            let to = partition.as_ref().map_or("all", |name| name.as_str());
            format!("{name} {node} to {to}")
        }
        NodeAction::Power { node, on } => {
            format!("{name} {node} {}", if *on { "on" } else { "off" })
        }
        NodeAction::Cordon { node, .. } | NodeAction::Uncordon { node } => {
            format!("{name} {node}")
        }
        other => format!("{other:?}"),
    }
}

fn command_text(cluster: &Cluster, c: &Command) -> String {
    match c {
        Command::Stop { job, attempt, .. } => format!("stop {job}.{attempt}"),
        Command::Start { job, attempt } => format!("start {job}.{attempt}"),
        Command::Change { job, attempt, .. } => format!("change {job}.{attempt}"),
        Command::Notify { job, attempt, by } => format!("notify {job}.{attempt} by {}", by.secs()),
        Command::Node { action, .. } => node_text(cluster, action),
        other => format!("{other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FirstFit;
    use blox_core::policy::scheduling_fn;
    use blox_core::{
        ClusterManager, Composition, Config, GpuCount, NodeActionKind, NodeActionKinds,
        NodeActions, Offer, Request, Seconds, Shape, Stateless, Validity, View,
    };

    /// Rents a node for each waiting job, and returns idle ones from 600 s on.
    struct Renting;

    impl Stateless for Renting {}

    impl ClusterManager for Renting {
        fn manage(&self, (): &mut (), view: View<'_>, out: &mut NodeActions) -> Validity {
            let waiting = view.active().filter(|job| !job.is_placed()).count() as u32;
            let offers = view.cluster().offers().map(|(offer, _)| offer);
            out.extend(offers.map(|offer| NodeAction::Grow {
                offer,
                count: waiting,
            }));
            out.retain(|_| waiting > 0 && view.nodes().next().is_none());
            if view.now() >= Time::new(600.0) {
                out.extend(view.nodes().map(|node| NodeAction::Drain {
                    node: node.id(),
                    by: view.now(),
                    then: AfterDrain::Leave,
                    why: "idle".into(),
                }));
            }
            Validity::NextRound
        }

        fn actions(&self) -> NodeActionKinds {
            NodeActionKinds::of(&[NodeActionKind::Grow, NodeActionKind::Leave])
        }
    }

    #[test]
    fn steps_show_nodes_rejections_configs_and_notices() {
        let scheduling = scheduling_fn(|view: View<'_>, out: &mut blox_core::JobQueue| {
            for job in view.active() {
                let shape = Shape::gang(&job).with(Config::of([("tp", 2.0)]));
                out.push(Request::with_shape(job.id(), shape));
                if view.now() == Time::new(300.0) {
                    out.notify(job.id(), Time::new(900.0));
                }
            }
            Validity::NextRound
        });
        let policy = Composition::new("renting")
            .cluster(Renting)
            .scheduling(scheduling)
            .placement(FirstFit)
            .build()
            .unwrap();
        let offer = Offer::new("small", NodeSpec::with_gpus(2), 4);
        let mut case = Scenario::new(&ClusterSpec::of_offers(vec![offer]), policy);
        let job = |gpus| JobSpec::new(Time::ZERO, GpuCount(gpus), Seconds::new(9000.0));
        case.submit_all(0.0, [job(2), job(9)]);
        // The manager sees a job once admission has accepted it.
        assert_eq!(case.decide(0.0), "reject 1");
        assert_eq!(case.decide(1.0), "grow 1 of small");
        case.settle(1.0);
        assert_eq!(case.round(2.0), "place 0 on 0 1 as tp=2");
        assert_eq!(case.decide(300.0), "notify 0 by 900");
        assert_eq!(case.take_commands(), "notify 0.1 by 900");
        case.ended(400.0, 0);
        assert_eq!(case.round(600.0), "drain 0 by 600 then leave");
        let nodes = case.core.state().cluster().nodes();
        assert!(nodes.iter().all(|node| node.status() == NodeStatus::Left));
    }
}
