//! The scheduler's knowledge. It changes in one place: [`State::apply`].

use crate::cluster::Cluster;
use crate::cluster::spec::{ClusterSpec, ClusterSpecError};
use crate::decision::{Command, Plan, PlanError};
use crate::event::Event;
use crate::ids::{JobId, Name, NameId, Names};
use crate::job::spec::JobSpec;
use crate::job::{JobRef, Phase, Record};
use crate::units::Time;
use serde::{Deserialize, Deserializer, Serialize};
use std::sync::Arc;

mod at_once;
mod books;
mod check;
mod commit;
mod events;
pub(crate) mod live;

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
    /// True if the stops and launches took no time and are complete.
    pub instant: bool,
}

/// Everything known about jobs and the cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    pub(crate) now: Time,
    pub(crate) version: u64,
    /// The first decision moment from now on that comes after the last decision.
    pub(crate) next_moment: Time,
    pub(crate) decision: u64,
    slots: live::Slots,
    #[serde(deserialize_with = "records")]
    records: Vec<Record>,
    vacant: Vec<u32>,
    pub(crate) deferred: live::JobSet,
    pub(crate) waiting: live::JobSet,
    pub(crate) placed: live::JobSet,
    counts: [u32; 7],
    demand: u64,
    demand_of_vc: Vec<u64>,
    /// GPUs on which a job runs.
    busy: u32,
    pub(crate) touched: Vec<JobId>,
    gone: Vec<(JobId, u64)>,
    /// Jobs that admission has not been asked about, in the order in which they ask.
    #[serde(default)]
    pub(crate) asking: Vec<JobId>,
    pub(crate) names: Names,
    pub(crate) cluster: Cluster,
    commands: Vec<Command>,
    /// Memory of the last plan's check, kept for the next.
    #[serde(skip)]
    scratch: check::Trial,
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
            slots: live::Slots::default(),
            records: Vec::new(),
            vacant: Vec::new(),
            deferred: live::JobSet::default(),
            waiting: live::JobSet::default(),
            placed: live::JobSet::default(),
            counts: [0; 7],
            demand: 0,
            demand_of_vc: Vec::new(),
            busy: 0,
            touched: Vec::new(),
            gone: Vec::new(),
            asking: Vec::new(),
            names: Names::default(),
            cluster: Cluster::default(),
            commands: Vec::new(),
            scratch: check::Trial::default(),
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

    /// Returns how many events it has taken.
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
        self.slots.next()
    }

    /// A live job, or one that ended in the last event.
    #[inline]
    pub fn job(&self, id: JobId) -> Option<JobRef<'_>> {
        let rec = self.record(id)?;
        let now = self.now;
        Some(JobRef { rec, now })
    }

    /// Returns how many live jobs are in a phase.
    #[inline]
    pub fn count(&self, phase: Phase) -> u32 {
        self.counts[phase as usize]
    }

    /// Returns how many jobs have come in and not ended.
    pub fn live_jobs(&self) -> u32 {
        self.counts[..Phase::Ended as usize].iter().sum()
    }

    /// GPUs on which at least one job runs.
    #[inline]
    pub fn busy_gpus(&self) -> u32 {
        self.busy
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
        self.forget_launched();
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
            self.slots.remove(id);
            self.records[s].spec = ended_spec();
            self.records[s].metrics = None;
            self.records[s].report = None;
            self.vacant.push(s as u32);
        }
    }

    /// A decision made from version `seen` is over: what was touched until then
    /// is old news. What was touched later, no decision has seen yet; nothing was if `quiet`.
    pub(crate) fn close_decision(&mut self, seen: u64, quiet: bool) {
        let mut touched = std::mem::take(&mut self.touched);
        for &id in &touched {
            if let Some(s) = self.slot(id) {
                self.records[s].touched = false;
            }
        }
        if quiet {
            touched.clear();
            self.cluster.clear_dirty();
        } else {
            touched.retain(|&id| {
                let s = self.slot(id).filter(|&s| self.records[s].changed > seen);
                s.inspect(|&s| self.records[s].touched = true).is_some()
            });
        }
        self.touched = touched;
        self.decision += 1;
        self.gone.retain(|(_, version)| *version > seen);
    }

    /// A turn was lost: what was kept from decision to decision may hold half of it.
    pub(crate) fn break_continuity(&mut self) {
        self.decision += 1;
    }

    /// Jobs that admission has answered about ask no more.
    pub(crate) fn forget_askers(&mut self) {
        if self.asking.is_empty() {
            return;
        }
        let mut asking = std::mem::take(&mut self.asking);
        asking.retain(|id| {
            self.record(*id)
                .is_some_and(|r| r.phase == Phase::Submitted)
        });
        self.asking = asking;
    }

    /// Returns how many jobs are in each phase, and the GPUs that all ask for and each virtual
    /// cluster.
    pub(crate) fn counted(&self) -> (&[u32; 7], u64, &[u64]) {
        (&self.counts, self.demand, &self.demand_of_vc)
    }

    /// Marks a job so that kept orders look at it again.
    pub(crate) fn touch(&mut self, id: JobId) {
        if let Some(s) = self.slot(id) {
            self.touch_slot(s);
        }
    }

    /// Returns whether `plan` is right for the version that it was made from, and if so applies it:
    /// the steps that later events made impossible are left out.
    ///
    /// # Errors
    /// The plan contradicts the very version that it was made from; nothing of
    /// it is applied.
    pub fn apply_plan(&mut self, plan: &Plan) -> Result<Applied, PlanError> {
        self.commit(plan, plan.version, false)
    }

    /// As [`State::apply_plan`], for a plan made from version `seen` and from what its own
    /// decision changed before it. If `instant`, stops and launches take no time, where the plan
    /// consists of nothing else; `seen` must then be the state's version.
    pub(crate) fn commit(
        &mut self,
        plan: &Plan,
        seen: u64,
        instant: bool,
    ) -> Result<Applied, PlanError> {
        if seen > self.version {
            return Err(PlanError::FutureVersion {
                found: seen,
                current: self.version,
            });
        }
        if instant && let Some(applied) = self.carry_out(plan) {
            return Ok(applied);
        }
        self.forget_launched();
        let mut trial = std::mem::take(&mut self.scratch);
        trial.clear();
        let result = self.check(plan, seen, &mut trial);
        let result = match result {
            Ok(()) => {
                self.version += 1;
                self.commit_plan(plan, &mut trial);
                Ok(trial.applied(plan))
            }
            Err(why) => {
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

fn records<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<Record>, D::Error> {
    let mut records = Vec::<Record>::deserialize(d)?;
    records.iter_mut().for_each(Record::note_spec);
    Ok(records)
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

#[cfg(test)]
mod tests;
