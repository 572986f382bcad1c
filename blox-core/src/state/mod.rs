//! State of jobs and cluster. Events change it with [`State::apply`], plans with
//! [`State::apply_plan`].

use crate::assignment::GpuList;
use crate::cluster::Cluster;
use crate::cluster::spec::{ClusterSpec, ClusterSpecError};
use crate::decision::{AfterDrain, Command, Plan, PlanError};
use crate::event::Event;
use crate::ids::{JobId, Name, NameId, Names};
use crate::input::Instant;
use crate::job::spec::JobSpec;
use crate::job::{JobRef, Phase, Record, Witness};
use crate::model::share::Gpus;
use crate::reason::Reason;
use crate::sorted::SortedMap;
use crate::units::{GpuCount, Seconds, Time};
use serde::{Deserialize, Deserializer, Serialize};
use std::sync::Arc;

mod at_once;
mod books;
mod check;
mod commit;
pub mod event;
mod events;
pub mod input;
pub(crate) mod lens;
pub(crate) mod live;
pub mod room;
pub mod view;

const NO_SLOT: u32 = u32::MAX;

/// Error for an event that contradicts the state. The state is unchanged.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EventError {
    /// The event is earlier than the state's time.
    #[error("an event at {at} is before the time of the state, {now}")]
    TimeBackwards {
        /// Time of the event.
        at: Time,
        /// Time of the state.
        now: Time,
    },
    /// The job is unknown or has ended.
    #[error("{event} names job {job}, which is unknown or has ended")]
    UnknownJob {
        /// Kind of event.
        event: &'static str,
        /// The job.
        job: JobId,
    },
    /// The number of a submitted job is not the next one.
    #[error("a submission is numbered {found}, expected {expected}")]
    JobNumber {
        /// Number of the submitted job.
        found: JobId,
        /// Number that was expected.
        expected: JobId,
    },
    /// The event is about another launch, or does not apply in the job's phase.
    #[error("{event} of launch {attempt} names job {job}, which is {phase} in launch {current}")]
    Stale {
        /// Kind of event.
        event: &'static str,
        /// The job.
        job: JobId,
        /// Launch that the event is about.
        attempt: u32,
        /// Phase of the job.
        phase: Phase,
        /// Current launch of the job.
        current: u32,
    },
    /// The node or GPU is unknown, or the event does not apply in its status.
    #[error("{event} names {what}, which is unknown or not in a state for it")]
    UnknownNode {
        /// Kind of event.
        event: &'static str,
        /// The node or GPU.
        what: String,
    },
    /// The specification of a job or node is invalid.
    #[error("{0}")]
    BadSpec(String),
    /// The value of a metric is not finite.
    #[error("metric `{name}` of job {job} is {value}, expected a finite number")]
    NotFinite {
        /// The job.
        job: JobId,
        /// The metric.
        name: Name,
        /// The number.
        value: f64,
    },
    /// A number of the event is negative, too large or not finite.
    #[error(
        "{event} of job {job} has the value {value}, expected a finite number that is not negative"
    )]
    BadNumber {
        /// Kind of event.
        event: &'static str,
        /// The job.
        job: JobId,
        /// The number.
        value: f64,
    },
}

/// Result of applying a valid plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Applied {
    /// Number of steps left out because events later than the plan made them impossible.
    pub stale: u32,
    /// Number of stops that were applied.
    pub stops: u32,
    /// Number of placements that were applied.
    pub placements: u32,
    /// Number of stops and launches that took no time and are complete.
    pub done: u32,
}

fn is_nothing(amount: &Gpus) -> bool {
    *amount == Gpus::default()
}

/// The copies of a service that run on while its GPUs change in place.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Kept {
    gpus: GpuList,
    since: Time,
}

/// State of all jobs and of the cluster.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct State {
    pub(crate) now: Time,
    pub(crate) version: u64,
    /// First decision moment at or after `now` that comes after the last decision.
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
    demand: Gpus,
    demand_of_vc: Vec<Gpus>,
    /// Number of GPUs on which at least one job runs.
    busy: u32,
    /// The parts of these GPUs that no running job has.
    #[serde(default, skip_serializing_if = "is_nothing")]
    unused: Gpus,
    /// GPU-seconds of busy GPUs until the last change of their number, and the time of it.
    #[serde(default)]
    busy_time: (f64, Time),
    /// Services in a change, with the GPUs on which copies run on.
    #[serde(default, skip_serializing_if = "SortedMap::is_empty")]
    kept: SortedMap<JobId, Kept>,
    pub(crate) touched: Vec<JobId>,
    gone: Vec<(JobId, u64)>,
    /// Jobs without an admission decision, in the order in which admission gets them.
    #[serde(default)]
    pub(crate) asking: Vec<JobId>,
    /// Live services and jobs with a notice, in order of submission.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) timed: Vec<JobId>,
    pub(crate) names: Names,
    #[serde(deserialize_with = "cluster")]
    pub(crate) cluster: Cluster,
    commands: Vec<Command>,
    /// Notes whether policies read the truth about jobs.
    #[serde(skip)]
    pub(crate) witness: Witness,
    /// The last check of a plan, whose buffers the next check reuses.
    #[serde(skip)]
    trial: Option<Box<check::Trial>>,
}

impl State {
    /// Creates the state of a cluster without jobs at time 0.
    ///
    /// # Errors
    /// The specification is invalid.
    pub fn new(cluster: &ClusterSpec) -> Result<Self, ClusterSpecError> {
        cluster.check()?;
        let mut state = State::default();
        state.cluster.set_network(&cluster.network);
        for spec in &cluster.nodes {
            let partition = spec.partition.as_ref().map(|p| state.names.intern(p));
            state.cluster.join(spec.clone(), partition, None, 0);
        }
        for offer in &cluster.offers {
            state.cluster.add_offer(0, offer);
        }
        Ok(state)
    }

    /// Shares the witness with all jobs, after a state was read.
    pub(crate) fn share_witness(&mut self) {
        for record in &mut self.records {
            record.witness = self.witness.clone();
        }
    }

    /// Returns the time of the state.
    #[inline]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns the version of the state. Every event and every plan increases it.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the cluster.
    #[inline]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Returns the names of users, virtual clusters and partitions.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Returns the number of the next submitted job.
    pub fn next_job_id(&self) -> JobId {
        self.slots.next()
    }

    /// Returns a job that is live, or that has ended and is not [retired](State::retire) yet.
    #[inline]
    pub fn job(&self, id: JobId) -> Option<JobRef<'_>> {
        let rec = self.record(id)?;
        let now = self.now;
        Some(JobRef { rec, now })
    }

    /// Returns the number of jobs in a phase; for [`Phase::Ended`], of all jobs that have ended.
    #[inline]
    pub fn count(&self, phase: Phase) -> u32 {
        self.counts[phase as usize]
    }

    /// Returns the number of submitted jobs that have not ended.
    pub fn live_jobs(&self) -> u32 {
        self.counts[..Phase::Ended as usize].iter().sum()
    }

    /// Returns the number of GPUs on which at least one job runs.
    #[inline]
    pub fn busy_gpus(&self) -> u32 {
        self.busy
    }

    /// Returns the amount of GPUs that running jobs have: the sum of their parts, at most 1 a GPU.
    pub fn used_gpus(&self) -> Gpus {
        Gpus::from(GpuCount(self.busy)) - self.unused
    }

    /// Returns the GPU-seconds in which at least one job ran on the GPU. A GPU that several jobs
    /// share counts once.
    pub fn busy_gpu_time(&self) -> Seconds {
        let (time, since) = self.busy_time;
        Seconds::new(time + f64::from(self.busy) * (self.now - since).secs())
    }

    /// Counts the time of the busy GPUs. Call it before their number changes.
    #[inline]
    fn count_busy_time(&mut self) {
        self.busy_time = (self.busy_gpu_time().secs(), self.now);
    }

    /// Returns the amount of GPUs requested by all waiting and placed jobs.
    #[inline]
    pub fn demand(&self) -> Gpus {
        self.demand
    }

    /// Returns the amount of GPUs requested by the waiting and placed jobs of one virtual cluster.
    pub fn demand_of(&self, virtual_cluster: NameId) -> Gpus {
        self.demand_of_vc
            .get(virtual_cluster.index())
            .copied()
            .unwrap_or_default()
    }

    /// Applies an event. [`State::take_commands`] returns the resulting commands.
    ///
    /// # Errors
    /// The event contradicts the state, which is then unchanged. On a real cluster, such an event
    /// is a late or repeated message: count it and continue.
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

    /// Advances the time to `at` without an event. An earlier time has no effect.
    pub fn advance(&mut self, at: Time) {
        self.now = self.now.max(at);
    }

    /// Sets the work done and the rate of a live job, for the forecast of a copy. The rate counts
    /// only if the job runs. Without such a job, the call has no effect.
    ///
    /// `work` is in iterations, `rate` in iterations a second; both are finite and at least 0.
    pub fn assume(&mut self, job: JobId, work: f64, rate: f64) {
        let now = self.now;
        let Some(s) = self.slot(job) else { return };
        let record = &mut self.records[s];
        record.settle(now);
        record.progressed(work, rate);
        self.touch_slot(s);
    }

    #[inline]
    pub(crate) fn has_commands(&self) -> bool {
        !self.commands.is_empty()
    }

    /// Appends the commands that events and plans caused since the last call to `into`.
    pub fn take_commands(&mut self, into: &mut Vec<Command>) {
        into.append(&mut self.commands);
    }

    /// Removes a job if it has ended. Its number is never reused.
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

    /// Ends a decision that was made from version `seen`. Jobs that changed later stay marked as
    /// touched for the next decision; all other marks are cleared. `quiet` states that nothing
    /// changed later.
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

    /// Returns whether a drained node is idle and has a next step.
    #[cold]
    pub(crate) fn has_drained_node(&self) -> bool {
        let mut draining = self.cluster.draining();
        draining.any(|(node, drain)| drain.then != AfterDrain::Stay && self.cluster.is_idle(node))
    }

    /// Invalidates the orders kept between decisions. After a lost turn they may be half updated.
    pub(crate) fn break_continuity(&mut self) {
        self.decision += 1;
    }

    /// Makes each job without GPUs wait for admission again, because another admission policy decides
    /// from now on. Jobs that a user holds do so once they are released.
    #[cold]
    pub(crate) fn reopen_admission(&mut self) {
        let deferred = self.deferred.iter().filter(|id| {
            let record = self.record(*id);
            record.is_some_and(|rec| !rec.held_by_user)
        });
        let waiting: Vec<JobId> = deferred.chain(self.waiting.iter()).collect();
        let held: Vec<JobId> = self.deferred.iter().collect();
        for id in held.iter().chain(&waiting) {
            if let Some(s) = self.slot(*id) {
                self.records[s].accepted_at = None;
            }
        }
        for id in &waiting {
            if let Some(s) = self.slot(*id) {
                self.records[s].reason = Reason::NotYetDecided;
                self.set_phase(s, Phase::Submitted);
            }
        }
        self.asking.extend(waiting);
        // In order of submission.
        self.asking.sort_unstable();
        self.asking.dedup();
    }

    /// Removes jobs with an admission decision from the list of jobs for admission.
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

    /// Marks a job as touched, so that kept orders update it.
    pub(crate) fn touch(&mut self, id: JobId) {
        if let Some(s) = self.slot(id) {
            self.touch_slot(s);
        }
    }

    /// Checks `plan` against the version that it was made from, and applies it. Steps that later
    /// events made impossible are left out.
    ///
    /// # Errors
    /// The plan contradicts the version that it was made from. No step is applied.
    pub fn apply_plan(&mut self, plan: &Plan) -> Result<Applied, PlanError> {
        self.commit(plan, plan.version, Instant::Nothing)
    }

    /// Like [`State::apply_plan`], for a plan made from version `seen` and the earlier changes of
    /// its own decision. The effect of a stop or launch is a command, and its report follows as an
    /// event. If `instant` includes it, the effect is the phase that the report would cause. This
    /// requires that `seen` is the state's version, and that all stops and launches are plain; see
    /// [`State::commit_at_once`].
    pub(crate) fn commit(
        &mut self,
        plan: &Plan,
        seen: u64,
        instant: Instant,
    ) -> Result<Applied, PlanError> {
        if seen > self.version {
            return Err(PlanError::FutureVersion {
                found: seen,
                current: self.version,
            });
        }
        let mut trial = self.trial.take().unwrap_or_default();
        trial.clear(&self.cluster);
        let checked = self.check(plan, seen, &mut trial);
        let result = match checked {
            Ok(()) if instant != Instant::Nothing && trial.is_plain(&self.cluster) => {
                Ok(self.commit_at_once(plan, &mut trial, instant))
            }
            Ok(()) => Ok(self.commit_steps(plan, &mut trial)),
            Err(why) => {
                for action in &plan.actions {
                    self.touch(action.job());
                }
                Err(why)
            }
        };
        self.trial = Some(trial);
        result
    }

    /// Applies a checked plan step by step.
    #[inline(never)]
    fn commit_steps(&mut self, plan: &Plan, trial: &mut check::Trial) -> Applied {
        self.version += 1;
        self.commit_plan(plan, trial);
        trial.applied(plan)
    }
}

fn records<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<Record>, D::Error> {
    let mut records = Vec::<Record>::deserialize(d)?;
    records.iter_mut().for_each(Record::note_spec);
    Ok(records)
}

fn cluster<'de, D: Deserializer<'de>>(d: D) -> Result<Cluster, D::Error> {
    let mut cluster = Cluster::deserialize(d)?;
    cluster.count_kinds();
    cluster.link_nodes();
    Ok(cluster)
}

/// Returns the specification that replaces the one of a removed job, whose memory is freed.
fn ended_spec() -> Arc<JobSpec> {
    static NONE: std::sync::OnceLock<Arc<JobSpec>> = std::sync::OnceLock::new();
    let none = || JobSpec::new(Time::ZERO, GpuCount(1), Seconds::ZERO).into();
    Arc::clone(NONE.get_or_init(none))
}

#[cfg(test)]
mod tests;
