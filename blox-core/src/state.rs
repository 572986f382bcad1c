//! The scheduler's knowledge. It changes in one place: [`State::apply`].

use crate::assignment::{Assignment, GpuList};
use crate::cluster::spec::{ClusterSpec, ClusterSpecError};
use crate::cluster::{Cluster, MAX_JOBS_PER_GPU, NodeStatus};
use crate::decision::{Action, Command, NodeAction, Plan, PlanError, Verdict};
use crate::event::{Event, Outcome};
use crate::ids::{GpuId, JobId, Name, NameId, Names, NodeId};
use crate::job::spec::JobSpec;
use crate::job::{JobRef, Phase, Record};
use crate::reason::Reason;
use crate::units::Time;
use fixedbitset::FixedBitSet;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

mod at_once;

const NO_SLOT: u32 = u32::MAX;

/// An event that the state cannot take. The state is unchanged.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EventError {
    /// It lies before what the state already knows.
    #[error("an event at {at} came after the state had reached {now}")]
    TimeBackwards {
        /// The event's moment.
        at: Time,
        /// The state's.
        now: Time,
    },
    /// The job is unknown, or ended long ago.
    #[error("{event} names job {job}, which is unknown or has ended")]
    UnknownJob {
        /// Kind of event.
        event: &'static str,
        /// The job.
        job: JobId,
    },
    /// A submission whose number is not the next.
    #[error("a submission is numbered {found}, expected {expected}")]
    JobNumber {
        /// What it is numbered.
        found: JobId,
        /// What was expected.
        expected: JobId,
    },
    /// About a launch that is over, or in a phase in which it means nothing.
    #[error("{event} of launch {attempt} names job {job}, which is {phase} in launch {current}")]
    Stale {
        /// Kind of event.
        event: &'static str,
        /// The job.
        job: JobId,
        /// The launch that it is about.
        attempt: u32,
        /// The job's phase.
        phase: Phase,
        /// The job's launch.
        current: u32,
    },
    /// The node or GPU is unknown, or in no condition for it.
    #[error("{event} names {what}, which is unknown or in no condition for it")]
    UnknownNode {
        /// Kind of event.
        event: &'static str,
        /// Which.
        what: String,
    },
    /// A specification that makes no sense.
    #[error("{0}")]
    BadSpec(String),
    /// A metric that is not finite.
    #[error("metric `{name}` of job {job} is {value}, expected a finite number")]
    NotFinite {
        /// The job.
        job: JobId,
        /// The metric.
        name: Name,
        /// The number.
        value: f64,
    },
    /// A number that is not finite or is negative.
    #[error("{event} of job {job} says {value}, expected a finite number that is not negative")]
    BadNumber {
        /// Kind of event.
        event: &'static str,
        /// The job.
        job: JobId,
        /// The number.
        value: f64,
    },
}

/// What came of a plan that was found right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Steps that events later than the plan made impossible, and that were left out.
    pub stale: u32,
    /// Stops among those that were carried out.
    pub stops: u32,
    /// Placements among those that were carried out.
    pub placements: u32,
}

/// Everything known about jobs and the cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    pub(crate) now: Time,
    pub(crate) version: u64,
    /// The first decision moment from now on that comes after the last decision.
    pub(crate) next_moment: Time,
    pub(crate) decision: u64,
    slot_of: Vec<u32>,
    records: Vec<Record>,
    vacant: Vec<u32>,
    #[serde(with = "bits")]
    pub(crate) deferred: FixedBitSet,
    #[serde(with = "bits")]
    pub(crate) waiting: FixedBitSet,
    #[serde(with = "bits")]
    pub(crate) placed: FixedBitSet,
    counts: [u32; 7],
    demand: u64,
    demand_of_vc: Vec<u64>,
    pub(crate) touched: Vec<JobId>,
    gone: Vec<(JobId, u64)>,
    pub(crate) names: Names,
    pub(crate) cluster: Cluster,
    commands: Vec<Command>,
    /// Memory of the last plan's check, kept for the next.
    #[serde(skip)]
    scratch: Trial,
    /// Memory of the last plan that was carried out at once.
    #[serde(skip)]
    exchange: at_once::Exchange,
}

impl Default for State {
    fn default() -> Self {
        State {
            now: Time::ZERO,
            version: 0,
            next_moment: Time::ZERO,
            decision: 0,
            slot_of: Vec::new(),
            records: Vec::new(),
            vacant: Vec::new(),
            deferred: FixedBitSet::new(),
            waiting: FixedBitSet::new(),
            placed: FixedBitSet::new(),
            counts: [0; 7],
            demand: 0,
            demand_of_vc: Vec::new(),
            touched: Vec::new(),
            gone: Vec::new(),
            names: Names::default(),
            cluster: Cluster::default(),
            commands: Vec::new(),
            scratch: Trial::default(),
            exchange: at_once::Exchange::default(),
        }
    }
}

impl State {
    /// A cluster at time 0 without jobs.
    ///
    /// # Errors
    /// When the specification makes no sense.
    pub fn new(cluster: &ClusterSpec) -> Result<Self, ClusterSpecError> {
        cluster.check()?;
        let mut state = State::default();
        for spec in &cluster.nodes {
            let partition = spec.partition.as_ref().map(|p| state.names.intern(p));
            state.cluster.join(spec.clone(), partition, 0);
        }
        Ok(state)
    }

    /// The moment that it has reached.
    #[inline]
    pub fn now(&self) -> Time {
        self.now
    }

    /// How many events it has taken.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The cluster.
    #[inline]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The names of users, virtual clusters and partitions.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The number that the next submission gets.
    pub fn next_job_id(&self) -> JobId {
        JobId(self.slot_of.len() as u32)
    }

    /// A live job, or one that ended in the last event.
    #[inline]
    pub fn job(&self, id: JobId) -> Option<JobRef<'_>> {
        self.slot(id).map(|s| JobRef {
            rec: &self.records[s],
            now: self.now,
        })
    }

    /// How many live jobs are in a phase.
    #[inline]
    pub fn count(&self, phase: Phase) -> u32 {
        self.counts[phase as usize]
    }

    /// How many jobs have come in and not ended.
    pub fn live_jobs(&self) -> u32 {
        self.counts[..Phase::Ended as usize].iter().sum()
    }

    /// GPUs asked for by all jobs that wait or are placed.
    #[inline]
    pub fn demand(&self) -> u64 {
        self.demand
    }

    /// GPUs asked for by the waiting and placed jobs of one virtual cluster.
    pub fn demand_of(&self, virtual_cluster: NameId) -> u64 {
        self.demand_of_vc
            .get(virtual_cluster.index())
            .copied()
            .unwrap_or(0)
    }

    /// Takes an event. Commands that follow are in [`State::take_commands`].
    ///
    /// # Errors
    /// The event contradicts the state, which is then unchanged. On a real
    /// cluster that is a late or repeated message: count it and go on.
    pub fn apply(&mut self, at: Time, event: &Event) -> Result<(), EventError> {
        if at < self.now {
            return Err(EventError::TimeBackwards { at, now: self.now });
        }
        let before = (self.now, self.version);
        self.now = at;
        self.version += 1;
        let result = self.apply_now(event);
        if result.is_err() {
            (self.now, self.version) = before;
        }
        result
    }

    /// Moves on to a moment without an event.
    pub(crate) fn advance(&mut self, at: Time) {
        self.now = self.now.max(at);
    }

    #[inline]
    pub(crate) fn has_commands(&self) -> bool {
        !self.commands.is_empty()
    }

    /// The commands that events and plans led to since the last call.
    pub fn take_commands(&mut self, into: &mut Vec<Command>) {
        into.append(&mut self.commands);
    }

    /// Forgets a job that has ended. Its number is never given again.
    pub fn retire(&mut self, id: JobId) {
        if let Some(s) = self.slot(id)
            && self.records[s].phase == Phase::Ended
        {
            self.gone.push((id, self.version));
            self.slot_of[id.index()] = NO_SLOT;
            self.records[s].spec = ended_spec();
            self.records[s].metrics = None;
            self.vacant.push(s as u32);
        }
    }

    /// A decision made from version `seen` is over: what was touched until then
    /// is old news. What was touched later, no decision has seen yet.
    pub(crate) fn close_decision(&mut self, seen: u64) {
        let mut touched = std::mem::take(&mut self.touched);
        touched.retain(|&id| match self.slot(id) {
            Some(s) => {
                let rec = &mut self.records[s];
                rec.touched = rec.changed > seen;
                rec.touched
            }
            None => false,
        });
        self.touched = touched;
        if seen >= self.version {
            self.cluster.clear_dirty();
        }
        self.decision += 1;
        self.gone.retain(|(_, version)| *version > seen);
    }

    /// A turn was lost: what was kept from decision to decision may hold half of it.
    pub(crate) fn break_continuity(&mut self) {
        self.decision += 1;
    }

    /// Jobs that admission has not been asked about, in order of submission.
    pub(crate) fn submitted_jobs(&self) -> Vec<JobId> {
        if self.count(Phase::Submitted) == 0 {
            return Vec::new();
        }
        let mut jobs: Vec<JobId> = self
            .records
            .iter()
            .filter(|r| r.phase == Phase::Submitted)
            .map(|r| r.id)
            .collect();
        jobs.sort_unstable();
        jobs
    }

    /// Marks a job so that kept orders look at it again.
    pub(crate) fn touch(&mut self, id: JobId) {
        if let Some(s) = self.slot(id) {
            self.touch_slot(s);
        }
    }

    /// Whether `plan` is right for the version that it was made from, and if
    /// so applies it: the steps that later events made impossible are left out.
    ///
    /// # Errors
    /// The plan contradicts the very version that it was made from; nothing of
    /// it is applied.
    pub fn apply_plan(&mut self, plan: &Plan) -> Result<Applied, PlanError> {
        if plan.version > self.version {
            return Err(PlanError::FutureVersion {
                found: plan.version,
                current: self.version,
            });
        }
        self.check_and_commit(plan, self.version + 1)
    }

    fn check_and_commit(&mut self, plan: &Plan, next_version: u64) -> Result<Applied, PlanError> {
        let mut trial = std::mem::take(&mut self.scratch);
        trial.clear();
        let result = match self.try_plan(plan, &mut trial) {
            Ok(()) => {
                self.version = next_version;
                self.commit_plan(plan, &trial);
                Ok(trial.applied(plan))
            }
            Err(why) => {
                self.undo(&mut trial);
                for action in &plan.actions {
                    self.touch(action.job());
                }
                Err(why)
            }
        };
        self.scratch = trial;
        result
    }
}

/// What checking a plan changed, to be undone if it is wrong.
#[derive(Clone, Debug, Default)]
struct Trial {
    released: Vec<Released>,
    /// Slots of placed jobs in the plan's order.
    placed: Vec<u32>,
    /// Indices of steps to leave out, ascending.
    left_out: Vec<u32>,
    stale: u32,
    /// Whether any of its jobs was or is to be beside another.
    paired: bool,
}

/// A promise that a plan takes back. The job's record holds its index, plus one, as `mark`.
#[derive(Clone, Debug)]
struct Released {
    slot: u32,
    stopped: bool,
    old: Assignment,
}

// Applying events.
impl State {
    fn apply_now(&mut self, event: &Event) -> Result<(), EventError> {
        match event {
            Event::Submitted { job, spec } => self.submitted(*job, spec),
            Event::Started { job, attempt, rate } => {
                let s = self.current("a start", *job, *attempt, &[Phase::Starting])?;
                number("a start", *job, *rate)?;
                let now = self.now;
                let rec = &mut self.records[s];
                rec.rate = *rate;
                rec.since = now;
                rec.first_start.get_or_insert(now);
                rec.last_start = Some(now);
                self.set_phase(s, Phase::Running);
                // A change is done: what it had before is left now.
                let (id, left) = (
                    self.records[s].id,
                    std::mem::take(&mut self.records[s].leaving),
                );
                self.unhold(id, &left);
                Ok(())
            }
            Event::LaunchFailed { job, attempt, why } => {
                // A stop may have been ordered while the failure was on its way.
                let starting = [Phase::Starting, Phase::Stopping];
                let s = self.current("a failed launch", *job, *attempt, &starting)?;
                self.records[s].failed_launches += 1;
                self.fall_back(s, Reason::LaunchFailed(why.clone()));
                Ok(())
            }
            Event::Stopped { job, attempt, work } => {
                let s = self.current("a stop", *job, *attempt, &[Phase::Stopping])?;
                if let Some(work) = work {
                    number("a stop", *job, *work)?;
                    self.records[s].work = *work;
                }
                self.leave(s);
                if self.records[s].promised.is_some() {
                    self.set_phase(s, Phase::Starting);
                    self.dispatch_if_clear(s);
                } else {
                    self.let_wait(s);
                }
                Ok(())
            }
            Event::Crashed {
                job,
                attempt,
                work,
                why,
            } => {
                let running = [Phase::Starting, Phase::Running, Phase::Stopping];
                let s = self.current("a crash", *job, *attempt, &running)?;
                number("a crash", *job, *work)?;
                let now = self.now;
                let rec = &mut self.records[s];
                rec.settle(now);
                rec.work = *work;
                rec.crashes += 1;
                self.fall_back(s, why.clone());
                Ok(())
            }
            Event::Ended { job, outcome } => {
                let s = self.known("an end", *job)?;
                self.ended(s, *outcome);
                Ok(())
            }
            Event::Progress {
                job,
                attempt,
                work,
                rate,
            } => {
                let s = self.current("progress", *job, *attempt, &[Phase::Running])?;
                number("progress", *job, *work)?;
                number("progress", *job, *rate)?;
                let now = self.now;
                let rec = &mut self.records[s];
                rec.settle(now);
                rec.work = *work;
                rec.rate = *rate;
                self.touch_slot(s);
                Ok(())
            }
            Event::BatchChanged { job, config } => {
                let s = self.known("a batch change", *job)?;
                self.records[s].config = Some(*config);
                self.touch_slot(s);
                Ok(())
            }
            Event::Metric { job, name, value } => {
                let s = self.known("a metric", *job)?;
                // Losses do become NaN; JSON, and so the journal, cannot hold it.
                if !value.is_finite() {
                    return Err(EventError::NotFinite {
                        job: *job,
                        name: name.clone(),
                        value: *value,
                    });
                }
                let now = self.now;
                self.records[s]
                    .metrics
                    .get_or_insert_default()
                    .entry(name.clone())
                    .or_default()
                    .push((now, *value));
                self.touch_slot(s);
                Ok(())
            }
            Event::Hold { job } => {
                let s = self.known("a hold", *job)?;
                let rec = &mut self.records[s];
                if !matches!(
                    rec.phase,
                    Phase::Submitted | Phase::Deferred | Phase::Waiting
                ) {
                    return Err(stale("a hold", rec, rec.attempt));
                }
                rec.held_by_user = true;
                rec.reason = Reason::HeldByUser;
                self.set_phase(s, Phase::Deferred);
                Ok(())
            }
            Event::Release { job } => {
                let s = self.known("a release", *job)?;
                let rec = &mut self.records[s];
                if !rec.held_by_user {
                    return Err(stale("a release", rec, rec.attempt));
                }
                rec.held_by_user = false;
                if rec.accepted_at.is_some() {
                    self.let_wait(s);
                } else {
                    self.set_phase(s, Phase::Submitted);
                }
                Ok(())
            }
            Event::NodeJoined { spec } => {
                ClusterSpec {
                    nodes: vec![(**spec).clone()],
                }
                .check()
                .map_err(|e| EventError::BadSpec(e.to_string()))?;
                let partition = spec.partition.as_ref().map(|p| self.names.intern(p));
                self.cluster.join((**spec).clone(), partition, self.version);
                Ok(())
            }
            Event::NodeLost { node } => {
                self.node_status("a lost node", *node, &[NodeStatus::Up], NodeStatus::Lost)
            }
            Event::NodeReturned { node } => self.node_status(
                "a returning node",
                *node,
                &[NodeStatus::Lost, NodeStatus::Off],
                NodeStatus::Up,
            ),
            Event::NodeLeft { node } => self.node_status(
                "a leaving node",
                *node,
                &[NodeStatus::Up, NodeStatus::Lost, NodeStatus::Off],
                NodeStatus::Left,
            ),
            Event::GpuFailed { gpu } => self.gpu_health("a failed GPU", *gpu, false),
            Event::GpuRepaired { gpu } => self.gpu_health("a repaired GPU", *gpu, true),
            Event::Judged { job, verdict } => self.judged(*job, verdict),
            Event::NodeManaged { action } => self.managed(action),
            Event::Planned { plan } => self
                .check_and_commit(
                    &Plan {
                        // In a journal the plan was checked against this very version.
                        version: self.version,
                        ..(**plan).clone()
                    },
                    self.version,
                )
                .map(|_| ())
                .map_err(|e| EventError::BadSpec(e.to_string())),
        }
    }

    fn submitted(&mut self, job: JobId, spec: &Arc<JobSpec>) -> Result<(), EventError> {
        if job != self.next_job_id() {
            return Err(EventError::JobNumber {
                found: job,
                expected: self.next_job_id(),
            });
        }
        spec.check()
            .map_err(|e| EventError::BadSpec(format!("job {job}: {e}")))?;
        let user = spec.user.as_ref().map(|n| self.names.intern(n));
        let virtual_cluster = spec.virtual_cluster.as_ref().map(|n| self.names.intern(n));
        let extras = spec.extras.as_deref();
        let record = Record {
            id: job,
            phase: Phase::Submitted,
            promoted: false,
            held_by_user: false,
            pending: false,
            touched: false,
            mark: 0,
            gpus: spec.gpus.get(),
            blockers: 0,
            attempt: 0,
            leaving: GpuList::new(),
            since: self.now,
            work: 0.0,
            rate: 0.0,
            service: 0.0,
            gpu_service: 0.0,
            eligible_since: self.now,
            first_start: None,
            last_start: None,
            promised: None,
            held: None,
            spec: Arc::clone(spec),
            preemptions: 0,
            crashes: 0,
            failed_launches: 0,
            user,
            virtual_cluster,
            class: extras.map_or_else(Default::default, |e| e.class),
            deadline: extras.and_then(|e| e.deadlines.first()).map(|d| d.at),
            accepted_at: None,
            config: None,
            reason: Reason::NotYetDecided,
            metrics: None,
            changed: self.version,
        };
        self.counts[Phase::Submitted as usize] += 1;
        let slot = match self.vacant.pop() {
            Some(s) => {
                self.records[s as usize] = record;
                s
            }
            None => {
                self.records.push(record);
                (self.records.len() - 1) as u32
            }
        };
        self.slot_of.push(slot);
        let room = self.slot_of.len();
        if self.waiting.len() < room {
            // Grown in steps: a bit set reallocates at every growth otherwise.
            let room = room.next_power_of_two().max(1024);
            self.deferred.grow(room);
            self.waiting.grow(room);
            self.placed.grow(room);
        }
        self.touch_slot(slot as usize);
        Ok(())
    }

    fn judged(&mut self, job: JobId, verdict: &Verdict) -> Result<(), EventError> {
        let s = self.known("a verdict", job)?;
        let rec = &mut self.records[s];
        if !matches!(rec.phase, Phase::Submitted | Phase::Deferred) || rec.held_by_user {
            return Err(stale("a verdict", rec, rec.attempt));
        }
        match verdict {
            Verdict::Accept { class, deadline } => {
                if let Some(class) = class {
                    rec.class = *class;
                }
                if deadline.is_some() {
                    rec.deadline = *deadline;
                }
                rec.accepted_at = Some(self.now);
                self.let_wait(s);
            }
            Verdict::Defer(why) => {
                rec.reason = why.clone();
                self.set_phase(s, Phase::Deferred);
            }
            Verdict::Reject(why) => {
                rec.reason = why.clone();
                self.ended(s, Outcome::Rejected);
            }
        }
        Ok(())
    }

    fn managed(&mut self, action: &NodeAction) -> Result<(), EventError> {
        let version = self.version;
        let unknown = |what: NodeId| EventError::UnknownNode {
            event: "a cluster manager's action",
            what: format!("node {what}"),
        };
        let known =
            |state: &State, node: NodeId| state.cluster.node(node).map(|_| ()).ok_or(unknown(node));
        match action {
            NodeAction::Cordon { node, why } => {
                known(self, *node)?;
                self.cluster
                    .change_node(*node, version, |n| n.cordon = Some(why.clone()));
            }
            NodeAction::Uncordon { node } => {
                known(self, *node)?;
                self.cluster
                    .change_node(*node, version, |n| n.cordon = None);
            }
            NodeAction::Move { node, partition } => {
                known(self, *node)?;
                let partition = partition.as_ref().map(|p| self.names.intern(p));
                self.cluster
                    .change_node(*node, version, |n| n.partition = partition);
            }
            NodeAction::Power { node, on } => {
                let n = self.cluster.node(*node).ok_or(unknown(*node))?;
                let idle = n.gpus().all(|g| self.cluster.held_by(g).next().is_none());
                if !on {
                    if n.status() != NodeStatus::Up || !idle || n.promised != 0 {
                        return Err(unknown(*node));
                    }
                    self.cluster
                        .change_node(*node, version, |n| n.status = NodeStatus::Off);
                }
                self.commands.push(Command::Node(action.clone()));
            }
            NodeAction::Grow { like: node, .. } | NodeAction::Shrink { node } => {
                known(self, *node)?;
                self.commands.push(Command::Node(action.clone()));
            }
        }
        Ok(())
    }

    fn node_status(
        &mut self,
        event: &'static str,
        node: NodeId,
        from: &[NodeStatus],
        to: NodeStatus,
    ) -> Result<(), EventError> {
        match self.cluster.node(node) {
            Some(n) if from.contains(&n.status()) => {
                self.cluster
                    .change_node(node, self.version, |n| n.status = to);
                Ok(())
            }
            _ => Err(EventError::UnknownNode {
                event,
                what: format!("node {node}"),
            }),
        }
    }

    fn gpu_health(
        &mut self,
        event: &'static str,
        gpu: GpuId,
        healthy: bool,
    ) -> Result<(), EventError> {
        let Some(node) = self.cluster.node_of(gpu) else {
            return Err(EventError::UnknownNode {
                event,
                what: format!("GPU {gpu}"),
            });
        };
        self.cluster.change_node(node, self.version, |n| {
            let bit = 1u64 << (gpu.0 - n.first_gpu);
            if healthy {
                n.failed &= !bit;
            } else {
                n.failed |= bit;
            }
        });
        Ok(())
    }

    /// A job that lost its launch waits again.
    fn fall_back(&mut self, s: usize, why: Reason) {
        self.leave(s);
        self.unpromise(s);
        self.records[s].reason = why;
        self.let_wait(s);
    }

    fn ended(&mut self, s: usize, outcome: Outcome) {
        let now = self.now;
        self.records[s].settle(now);
        if outcome == Outcome::Completed {
            // What the rate says may miss the end by a rounding error.
            let rec = &mut self.records[s];
            rec.work = rec.spec.work.iterations.max(rec.work);
        }
        self.leave(s);
        self.unpromise(s);
        self.set_phase(s, Phase::Ended);
    }

    /// Gives up what the job holds. Launches that waited for it go on.
    fn leave(&mut self, s: usize) {
        let rec = &mut self.records[s];
        let id = rec.id;
        let leaving = std::mem::take(&mut rec.leaving);
        let held = rec.held.take();
        self.unhold(id, &leaving);
        if let Some(held) = held {
            self.unhold(id, &held.gpus);
        }
    }

    fn unhold(&mut self, id: JobId, gpus: &[GpuId]) {
        for &gpu in gpus {
            self.cluster.unhold(id, gpu);
            let promised = self.cluster.promised_owners(gpu);
            if promised.contains(id) {
                // Nobody waited for it here: see `recount`.
                continue;
            }
            for owner in promised.iter() {
                let Some(o) = self.slot(owner) else { continue };
                if self.records[o].pending {
                    self.records[o].blockers = self.records[o].blockers.saturating_sub(1);
                    self.dispatch_if_clear(o);
                }
            }
        }
    }

    fn unpromise(&mut self, s: usize) {
        self.records[s].pending = false;
        if let Some(a) = self.records[s].promised.take() {
            self.cluster.unpromise(self.records[s].id, &a);
            if let Some(p) = a.partner {
                self.pair_up(p);
            }
        }
    }

    /// The ledger is the truth about who runs beside whom.
    fn pair_up(&mut self, id: JobId) {
        let Some(s) = self.slot(id) else { return };
        let Some(a) = &mut self.records[s].promised else {
            return;
        };
        let mut owners = self.cluster.promised_owners(a.gpus[0]).iter();
        let partner = owners.find(|&o| o != id);
        if a.partner != partner {
            a.partner = partner;
            self.touch_slot(s);
        }
    }

    fn let_wait(&mut self, s: usize) {
        self.records[s].eligible_since = self.next_moment.max(self.now);
        self.set_phase(s, Phase::Waiting);
    }

    fn set_phase(&mut self, s: usize, phase: Phase) {
        let rec = &mut self.records[s];
        let old = std::mem::replace(&mut rec.phase, phase);
        self.counts[old as usize] -= 1;
        self.counts[phase as usize] += 1;
        let group = |p: Phase| match p {
            Phase::Submitted | Phase::Ended => 0,
            Phase::Deferred => 1,
            Phase::Waiting => 2,
            Phase::Starting | Phase::Running | Phase::Stopping => 3,
        };
        let (was, is) = (group(old), group(phase));
        if was != is {
            self.change_group(s, was, is);
        }
        self.touch_slot(s);
    }

    /// From one list of jobs to another: none, deferred, waiting, placed.
    fn change_group(&mut self, s: usize, was: u8, is: u8) {
        let rec = &self.records[s];
        let (index, gpus, vc) = (rec.id.index(), u64::from(rec.gpus), rec.virtual_cluster);
        match was {
            1 => self.deferred.set(index, false),
            2 => self.waiting.set(index, false),
            3 => self.placed.set(index, false),
            _ => {}
        }
        match is {
            1 => self.deferred.insert(index),
            2 => self.waiting.insert(index),
            3 => self.placed.insert(index),
            _ => {}
        }
        if (was >= 2) != (is >= 2) {
            let sign = is >= 2;
            self.demand = add(self.demand, gpus, sign);
            if let Some(vc) = vc {
                if self.demand_of_vc.len() <= vc.index() {
                    self.demand_of_vc.resize(vc.index() + 1, 0);
                }
                let d = &mut self.demand_of_vc[vc.index()];
                *d = add(*d, gpus, sign);
            }
        }
    }

    #[inline]
    fn touch_slot(&mut self, s: usize) {
        let rec = &mut self.records[s];
        rec.changed = self.version;
        if !rec.touched {
            rec.touched = true;
            self.touched.push(rec.id);
        }
    }

    #[inline]
    fn slot(&self, id: JobId) -> Option<usize> {
        match self.slot_of.get(id.index()) {
            Some(&s) if s != NO_SLOT => Some(s as usize),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn record(&self, id: JobId) -> Option<&Record> {
        self.slot(id).map(|s| &self.records[s])
    }

    fn known(&self, event: &'static str, job: JobId) -> Result<usize, EventError> {
        self.slot(job)
            .filter(|&s| self.records[s].phase != Phase::Ended)
            .ok_or(EventError::UnknownJob { event, job })
    }

    fn current(
        &self,
        event: &'static str,
        job: JobId,
        attempt: u32,
        phases: &[Phase],
    ) -> Result<usize, EventError> {
        let s = self.known(event, job)?;
        let rec = &self.records[s];
        // A pending launch has no attempt of its own yet: nothing can be reported of it.
        let silent = rec.held.is_none();
        if rec.attempt != attempt || !phases.contains(&rec.phase) || silent {
            return Err(stale(event, rec, attempt));
        }
        Ok(s)
    }
}

// Plans.
impl State {
    fn try_plan(&mut self, plan: &Plan, trial: &mut Trial) -> Result<(), PlanError> {
        for (i, action) in plan.actions.iter().enumerate() {
            let job = action.job();
            let Some(s) = self
                .slot(job)
                .filter(|&s| self.records[s].phase != Phase::Ended)
            else {
                if self.ended_after(job, plan.version) {
                    trial.leave_out(i);
                    continue;
                }
                return Err(PlanError::UnknownJob { job });
            };
            let rec = &self.records[s];
            let fits = match action {
                // The same plan may place the job first and stop it in a later step.
                Action::Stop { .. } => {
                    rec.promised.is_some() || trial.released_of(rec).is_some_and(|r| !r.stopped)
                }
                Action::Place { .. } => !matches!(rec.phase, Phase::Submitted | Phase::Deferred),
                Action::Finish { .. } | Action::Promote { .. } => true,
            };
            if !fits {
                if rec.changed > plan.version {
                    trial.leave_out(i);
                    continue;
                }
                return Err(PlanError::WrongPhase {
                    job,
                    what: Name::from(match action {
                        Action::Stop { .. } => "stop",
                        _ => "place",
                    }),
                    phase: Name::from(rec.phase.as_str()),
                });
            }
            let stopped = matches!(action, Action::Stop { .. });
            if stopped && rec.mark != 0 {
                trial.released[rec.mark as usize - 1].stopped = true;
            } else if (stopped || matches!(action, Action::Place { .. }))
                && let Some(old) = self.records[s].promised.take()
            {
                self.cluster.unpromise(job, &old);
                trial.paired |= old.partner.is_some();
                trial.released.push(Released {
                    slot: s as u32,
                    stopped,
                    old,
                });
                self.records[s].mark = trial.released.len() as u32;
            }
        }
        for (i, action) in plan.actions.iter().enumerate() {
            let Action::Place { job, assignment } = action else {
                continue;
            };
            if trial.is_left_out(i) {
                continue;
            }
            let Some(s) = self.slot(*job) else { continue };
            match self.try_place(s, *job, assignment, trial) {
                Ok(()) => {
                    self.cluster.promise(*job, assignment);
                    self.records[s].promised = Some(assignment.clone());
                    trial.paired |= assignment.partner.is_some();
                    trial.placed.push(s as u32);
                }
                Err(_) if self.changed_since(assignment, *job, plan.version) => trial.leave_out(i),
                Err(why) => return Err(why),
            }
        }
        if !trial.paired {
            return Ok(());
        }
        for &s in &trial.placed {
            let rec = &self.records[s as usize];
            let Some(a) = &rec.promised else { continue };
            let Some(partner) = a.partner else { continue };
            let owners = self.cluster.promised_owners(a.gpus[0]);
            if partner != rec.id && owners.contains(partner) {
                continue;
            }
            // A partner that went meanwhile, or whose own step came too late,
            // leaves the job alone on its GPUs.
            let late = |&i: &u32| plan.actions[i as usize].job() == partner;
            let gone = self.ended_after(partner, plan.version)
                || self
                    .record(partner)
                    .is_some_and(|p| p.changed > plan.version)
                || trial.left_out.iter().any(late);
            if !gone {
                return Err(PlanError::NotBeside {
                    job: rec.id,
                    partner,
                });
            }
        }
        Ok(())
    }

    fn try_place(
        &self,
        s: usize,
        job: JobId,
        a: &Assignment,
        trial: &Trial,
    ) -> Result<(), PlanError> {
        if a.gpus.is_empty() {
            return Err(PlanError::NoGpu { job });
        }
        if self.records[s].promised.is_some() {
            // Placed twice in one plan.
            return Err(PlanError::GpuTwice {
                job,
                gpu: a.gpus[0],
                owner: job,
            });
        }
        let before = trial.before(&self.records[s]);
        for (i, &gpu) in a.gpus.iter().enumerate() {
            let Some(node) = self.cluster.node_of(gpu).and_then(|n| self.cluster.node(n)) else {
                return Err(PlanError::UnusableGpu { job, gpu });
            };
            let bit = 1u64 << (gpu.0 - node.first_gpu);
            // A job may stay where it is on a node that takes nothing new.
            let stays = before.is_some_and(|b| b.gpus.contains(&gpu));
            if node.status != NodeStatus::Up
                || (!stays && (node.cordon.is_some() || node.failed & bit != 0))
            {
                return Err(PlanError::UnusableGpu { job, gpu });
            }
            if a.gpus[..i].contains(&gpu) {
                return Err(PlanError::GpuTwice {
                    job,
                    gpu,
                    owner: job,
                });
            }
            let mut others = 0;
            for owner in self.cluster.promised_owners(gpu).iter() {
                others += 1;
                let theirs = self.record(owner).and_then(|o| o.promised.as_ref());
                let agreed = theirs.is_some_and(|t| {
                    (a.partner == Some(owner) || t.partner == Some(job)) && t.same_gpus(a)
                });
                if !agreed || others == MAX_JOBS_PER_GPU {
                    return Err(PlanError::GpuTwice { job, gpu, owner });
                }
            }
        }
        self.check_resources(job, a)
    }

    #[inline]
    fn check_resources(&self, job: JobId, a: &Assignment) -> Result<(), PlanError> {
        if a.cpus == 0.0 && a.memory_gib == 0.0 {
            return Ok(());
        }
        self.check_amounts(job, a)
    }

    fn check_amounts(&self, job: JobId, a: &Assignment) -> Result<(), PlanError> {
        for (what, amount) in [("CPUs", a.cpus), ("memory", a.memory_gib)] {
            if !(amount.is_finite() && amount >= 0.0) {
                return Err(PlanError::BadAmount {
                    job,
                    what: Name::from(what),
                    amount: amount.to_string(),
                });
            }
        }
        let gpus = a.gpus.len() as f64;
        for (i, &gpu) in a.gpus.iter().enumerate() {
            let Some(id) = self.cluster.node_of(gpu) else {
                continue;
            };
            if a.gpus[..i]
                .iter()
                .any(|g| self.cluster.node_of(*g) == Some(id))
            {
                continue;
            }
            let Some(node) = self.cluster.node(id) else {
                continue;
            };
            let here = a
                .gpus
                .iter()
                .filter(|g| self.cluster.node_of(**g) == Some(id))
                .count() as f64;
            let parts = [
                ("CPUs", a.cpus, node.cpus_promised, node.spec.cpus),
                (
                    "memory",
                    a.memory_gib,
                    node.memory_promised,
                    node.spec.memory_gib,
                ),
            ];
            for (what, amount, promised, capacity) in parts {
                let total = promised + amount * here / gpus;
                // Sums of shares carry rounding errors; a capacity of 0 is unknown.
                if amount > 0.0 && capacity > 0.0 && total > capacity * (1.0 + 1e-9) + 1e-9 {
                    return Err(PlanError::Overcommitted {
                        job,
                        node: id,
                        what: Name::from(what),
                        total,
                        capacity,
                    });
                }
            }
        }
        Ok(())
    }

    fn undo(&mut self, trial: &mut Trial) {
        for &s in trial.placed.iter().rev() {
            let rec = &mut self.records[s as usize];
            if let Some(a) = rec.promised.take() {
                self.cluster.unpromise(rec.id, &a);
            }
        }
        for released in trial.released.drain(..).rev() {
            let rec = &mut self.records[released.slot as usize];
            rec.mark = 0;
            self.cluster.promise(rec.id, &released.old);
            rec.promised = Some(released.old);
        }
    }

    fn commit_plan(&mut self, plan: &Plan, trial: &Trial) {
        for released in &trial.released {
            self.commit_release(released);
        }
        for (i, action) in plan.actions.iter().enumerate() {
            let Some(s) = self.slot(action.job()) else {
                continue;
            };
            if trial.is_left_out(i) {
                // Whoever planned it takes it for done.
                self.touch_slot(s);
                continue;
            }
            match action {
                Action::Stop { why, .. } => self.commit_stop(s, why),
                Action::Finish { job, why } => {
                    self.records[s].reason = why.clone();
                    self.commands.push(Command::Finish { job: *job });
                }
                Action::Promote { .. } => {
                    self.records[s].promoted = true;
                    self.touch_slot(s);
                }
                Action::Place { .. } => {}
            }
        }
        if trial.paired {
            self.pair_up_all(trial);
        }
        for &s in &trial.placed {
            self.commit_place(s as usize, trial);
        }
        // What launches wait for changes where jobs were placed or taken away;
        // there, only those placed and their partners have promises.
        let mut in_place = false;
        if trial.paired {
            self.recount_all(trial);
        } else {
            for &s in &trial.placed {
                self.recount(s as usize);
                self.dispatch_if_clear(s as usize);
                in_place |= self.waits_in_place(s as usize);
            }
        }
        if trial.paired || in_place {
            for &s in &trial.placed {
                // Jobs that change places would wait for one another for ever.
                if self.waits_in_a_circle(s as usize) {
                    self.commit_stop(s as usize, &Reason::WaitingForGpus);
                }
            }
        }
        for released in &trial.released {
            self.records[released.slot as usize].mark = 0;
        }
    }

    /// Names partners anew wherever the plan made or broke a pair.
    fn pair_up_all(&mut self, trial: &Trial) {
        for released in &trial.released {
            if let Some(p) = released.old.partner {
                self.pair_up(p);
            }
        }
        for &s in &trial.placed {
            self.pair_up(self.records[s as usize].id);
            if let Some(p) = self.partner_of(s as usize) {
                self.pair_up(self.records[p].id);
            }
        }
    }

    /// Counts anew what launches wait for, with partners, and starts those that wait for nothing.
    fn recount_all(&mut self, trial: &Trial) {
        for &s in &trial.placed {
            self.recount(s as usize);
            if let Some(p) = self.partner_of(s as usize) {
                self.recount(p);
            }
        }
        for released in &trial.released {
            if let Some(p) = released.old.partner.and_then(|p| self.slot(p)) {
                self.recount(p);
            }
        }
        for &s in &trial.placed {
            self.dispatch_if_clear(s as usize);
            if let Some(p) = self.partner_of(s as usize) {
                self.dispatch_if_clear(p);
            }
        }
    }

    /// A change in place that came too late leaves the job where it is, or
    /// stops it if what it has is given away.
    fn commit_release(&mut self, released: &Released) {
        let s = released.slot as usize;
        if self.records[s].promised.is_some() || released.stopped {
            return;
        }
        let (id, old) = (self.records[s].id, &released.old);
        let partner = old.partner.and_then(|p| self.record(p));
        let free = old.gpus.iter().all(|&g| {
            self.cluster.promised_owners(g).iter().all(|o| {
                partner.is_some_and(|p| {
                    p.id == o && p.promised.as_ref().is_some_and(|pa| pa.same_gpus(old))
                })
            })
        });
        if free && self.check_resources(id, old).is_ok() {
            self.cluster.promise(id, old);
            self.records[s].promised = Some(old.clone());
            self.pair_up(id);
        } else {
            self.commit_stop(s, &Reason::NotChosen);
        }
    }

    fn commit_stop(&mut self, s: usize, why: &Reason) {
        let now = self.now;
        let rec = &mut self.records[s];
        rec.settle(now);
        rec.reason = why.clone();
        if rec.promised.is_none() {
            rec.pending = false;
        }
        let (job, attempt) = (rec.id, rec.attempt);
        if rec.held.is_none() {
            // Never started: there is nothing to stop.
            if rec.promised.is_none() {
                self.let_wait(s);
            }
        } else if rec.phase == Phase::Stopping {
            self.touch_slot(s);
        } else {
            rec.preemptions += 1;
            self.set_phase(s, Phase::Stopping);
            self.commands.push(Command::Stop {
                job,
                attempt,
                why: why.clone(),
            });
        }
    }

    fn commit_place(&mut self, s: usize, trial: &Trial) {
        let now = self.now;
        let rec = &mut self.records[s];
        let Some(new) = &rec.promised else { return };
        let goes_on = matches!(rec.phase, Phase::Running | Phase::Starting);
        if goes_on && trial.before(rec).is_some_and(|b| b.same_grant(new)) {
            return;
        }
        if goes_on && rec.held.as_ref().is_some_and(|h| h.same_grant(new)) {
            // Back to what it has before the change was carried out.
            rec.pending = false;
            self.touch_slot(s);
            return;
        }
        rec.settle(now);
        rec.pending = true;
        if rec.phase == Phase::Waiting {
            self.set_phase(s, Phase::Starting);
        } else {
            self.touch_slot(s);
        }
    }

    fn partner_of(&self, s: usize) -> Option<usize> {
        let a = self.records[s].promised.as_ref()?;
        a.partner.and_then(|p| self.slot(p))
    }

    /// Counts what a pending launch waits for: holds, by others, of its GPUs
    /// that are not promised to them any more.
    fn recount(&mut self, s: usize) {
        let rec = &self.records[s];
        if !rec.pending {
            return;
        }
        let mut blockers = 0;
        for &gpu in rec.promised.iter().flat_map(|a| &a.gpus) {
            let promised = self.cluster.promised_owners(gpu);
            let holders = self.cluster.held_owners(gpu).iter();
            blockers += holders
                .filter(|&h| h != rec.id && !promised.contains(h))
                .count() as u32;
        }
        let rec = &mut self.records[s];
        rec.blockers = blockers;
        if blockers > 0 && rec.phase != Phase::Stopping {
            rec.reason = Reason::WaitingForGpus;
        }
    }

    /// Whether a change in place waits for GPUs.
    fn waits_in_place(&self, s: usize) -> bool {
        let rec = &self.records[s];
        rec.pending && rec.held.is_some() && rec.phase != Phase::Stopping
    }

    /// Whether a change in place waits for GPUs that come free only after it.
    fn waits_in_a_circle(&self, start: usize) -> bool {
        let waits = |s: usize| self.waits_in_place(s);
        if !waits(start) {
            return false;
        }
        let mut seen = vec![start];
        let mut next = 0;
        while let Some(&s) = seen.get(next) {
            next += 1;
            for &gpu in self.records[s].promised.iter().flat_map(|a| &a.gpus) {
                let promised = self.cluster.promised_owners(gpu);
                for holder in self.cluster.held_owners(gpu).iter() {
                    let Some(h) = self.slot(holder) else { continue };
                    if h == s || promised.contains(holder) || !waits(h) {
                        continue;
                    }
                    if h == start {
                        return true;
                    }
                    if !seen.contains(&h) {
                        seen.push(h);
                    }
                }
            }
        }
        false
    }

    fn dispatch_if_clear(&mut self, s: usize) {
        let now = self.now;
        let rec = &mut self.records[s];
        if !rec.pending || rec.blockers > 0 || rec.phase == Phase::Stopping {
            return;
        }
        let Some(new) = rec.promised.clone() else {
            return;
        };
        // Until now it had what it held.
        rec.settle(now);
        rec.pending = false;
        rec.attempt += 1;
        if new.config.is_some() {
            rec.config = new.config;
        }
        let (job, attempt) = (rec.id, rec.attempt);
        for &gpu in &new.gpus {
            if !self.cluster.held_owners(gpu).contains(job) {
                self.cluster.hold(job, gpu);
            }
        }
        match rec.held.replace(new) {
            Some(old) => {
                // It has left these only when it says that the change is done.
                for gpu in &old.gpus {
                    if !rec.leaving.contains(gpu) {
                        rec.leaving.push(*gpu);
                    }
                }
                let new = rec.held.iter().flat_map(|new| &new.gpus);
                for gpu in new {
                    rec.leaving.retain(|g| g != gpu);
                }
                self.set_phase(s, Phase::Starting);
                self.commands.push(Command::Change { job, attempt, old });
            }
            None => self.commands.push(Command::Start { job, attempt }),
        }
    }

    fn ended_after(&self, job: JobId, version: u64) -> bool {
        let recently = self
            .record(job)
            .is_some_and(|r| r.phase == Phase::Ended && r.changed > version);
        recently || self.gone.iter().any(|(j, v)| *j == job && *v > version)
    }

    /// Whether the job, or anything that it would be placed on, changed after `version`.
    fn changed_since(&self, a: &Assignment, job: JobId, version: u64) -> bool {
        let job_changed = |j: JobId| self.record(j).is_some_and(|r| r.changed > version);
        job_changed(job)
            || a.gpus.iter().any(|&g| {
                self.cluster
                    .node_of(g)
                    .and_then(|n| self.cluster.node(n))
                    .is_some_and(|n| n.changed > version)
                    || self.cluster.promised_to(g).any(job_changed)
            })
    }
}

impl Trial {
    fn clear(&mut self) {
        self.released.clear();
        self.placed.clear();
        self.left_out.clear();
        self.stale = 0;
        self.paired = false;
    }
    fn applied(&self, plan: &Plan) -> Applied {
        let steps = plan.actions.iter().enumerate();
        let stops =
            steps.filter(|(i, a)| matches!(a, Action::Stop { .. }) && !self.is_left_out(*i));
        Applied {
            stale: self.stale,
            stops: stops.count() as u32,
            placements: self.placed.len() as u32,
        }
    }
    /// What the job was promised before the plan, if the plan takes it back.
    fn before(&self, rec: &Record) -> Option<&Assignment> {
        self.released_of(rec).map(|r| &r.old)
    }
    fn released_of(&self, rec: &Record) -> Option<&Released> {
        match rec.mark {
            0 => None,
            m => self.released.get(m as usize - 1),
        }
    }
    fn leave_out(&mut self, i: usize) {
        let i = i as u32;
        if let Err(at) = self.left_out.binary_search(&i) {
            self.left_out.insert(at, i);
            self.stale += 1;
        }
    }
    fn is_left_out(&self, i: usize) -> bool {
        !self.left_out.is_empty() && self.left_out.binary_search(&(i as u32)).is_ok()
    }
}

fn add(total: u64, amount: u64, plus: bool) -> u64 {
    if plus {
        total + amount
    } else {
        total.saturating_sub(amount)
    }
}

fn number(event: &'static str, job: JobId, value: f64) -> Result<(), EventError> {
    if value.is_finite() && value >= 0.0 {
        Ok(())
    } else {
        Err(EventError::BadNumber { event, job, value })
    }
}

fn stale(event: &'static str, rec: &Record, attempt: u32) -> EventError {
    EventError::Stale {
        event,
        job: rec.id,
        attempt,
        phase: rec.phase,
        current: rec.attempt,
    }
}

/// Stands in for the specification of a job that is gone, so that its memory is free.
fn ended_spec() -> Arc<JobSpec> {
    static NONE: std::sync::OnceLock<Arc<JobSpec>> = std::sync::OnceLock::new();
    Arc::clone(NONE.get_or_init(|| {
        Arc::new(JobSpec::new(
            Time::ZERO,
            crate::units::GpuCount(1),
            crate::units::Seconds::ZERO,
        ))
    }))
}

/// A set as the list of its members: the bit set's own form is bytes, which
/// JSON cannot give back.
mod bits {
    use fixedbitset::FixedBitSet;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(set: &FixedBitSet, s: S) -> Result<S::Ok, S::Error> {
        let members: Vec<u32> = set.ones().map(|i| i as u32).collect();
        (set.len() as u32, members).serialize(s)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<FixedBitSet, D::Error> {
        let (room, members) = <(u32, Vec<u32>)>::deserialize(d)?;
        let mut set = FixedBitSet::with_capacity(room as usize);
        for member in members {
            if member >= room {
                return Err(serde::de::Error::custom("a member beyond the set"));
            }
            set.insert(member as usize);
        }
        Ok(set)
    }
}

#[cfg(test)]
mod tests;
