//! Jobs: what they ask for, and what has become of them.

pub mod spec;
pub mod training;

use crate::assignment::{Assignment, BatchConfig, GpuList};
use crate::cluster::{Cluster, OnNode};
use crate::decision::Verdict;
use crate::ids::{GpuId, GpuTypeId, JobId, Name, NameId};
use crate::reason::Reason;
use crate::units::{GpuCount, Seconds, Time};
use serde::{Deserialize, Serialize};
use spec::{JobSpec, ServiceClass};
use std::fmt;
use std::sync::Arc;
use training::TrainingReport;

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Came in; admission has not answered.
    Submitted,
    /// Admission, or a user, holds it back.
    Deferred,
    /// May run; holds nothing.
    Waiting,
    /// A plan gives it GPUs; it is not running yet.
    Starting,
    /// Runs.
    Running,
    /// Was told to stop; still holds its GPUs.
    Stopping,
    /// Ended.
    Ended,
}

impl Phase {
    /// The name that messages use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Phase::Submitted => "submitted",
            Phase::Deferred => "deferred",
            Phase::Waiting => "waiting",
            Phase::Starting => "starting",
            Phase::Running => "running",
            Phase::Stopping => "stopping",
            Phase::Ended => "ended",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A job's reported numbers: a series for each name, in order of time.
pub type Metrics = std::collections::BTreeMap<Name, Vec<(Time, f64)>>;

/// Everything that the state keeps about a live job. Queues of tens of
/// thousands do not fit in a cache, so what orders and walks read lies together
/// in the first lines. Seven lines and not eight, or the first lines of all records
/// would have to share an eighth of each cache.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[repr(C, align(64))]
pub(crate) struct Record {
    pub id: JobId,
    pub phase: Phase,
    pub promoted: bool,
    /// True if its specification has extras.
    #[serde(skip)]
    pub extras: bool,
    pub touched: bool,
    /// Accounts: linear in time from `since` on.
    pub since: Time,
    pub service: f64,
    pub gpus: u32,
    pub attempt: u32,
    pub eligible_since: Time,
    pub virtual_cluster: Option<NameId>,
    /// Version of the state at the last change.
    pub changed: u64,
    pub spec: Arc<JobSpec>,
    // The second line.
    pub work: f64,
    pub rate: f64,
    pub gpu_service: f64,
    /// GPU holds of others that a pending launch waits for.
    pub blockers: u32,
    pub preemptions: u32,
    pub crashes: u32,
    pub reason: Reason,
    // Then what only launches and stops need; first, what its specification says of its work.
    #[serde(skip)]
    pub iterations: f64,
    #[serde(skip)]
    pub own_rate: f64,
    /// Where what it is promised lies, if that is known and together.
    #[serde(skip)]
    pub on: Option<OnNode>,
    pub held: Held,
    /// The plan that placed it is not carried out yet: some of its GPUs are still held.
    pub pending: bool,
    pub promised: Option<Assignment>,
    /// What it had when its last launch to start started.
    #[serde(default)]
    pub before: Before,
    pub last_start: Option<Time>,
    pub first_start: Option<Time>,
    /// GPUs still held from before a change that is being carried out.
    #[serde(default, skip_serializing_if = "GpuList::is_empty")]
    pub leaving: GpuList,
    pub failed_launches: u32,
    pub held_by_user: bool,
    pub class: ServiceClass,
    pub user: Option<NameId>,
    pub deadline: Option<Time>,
    pub accepted_at: Option<Time>,
    pub config: Option<BatchConfig>,
    pub metrics: Option<Box<Metrics>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<Arc<TrainingReport>>,
}

/// What a job holds. Most often it is what it is promised, and then is not written down twice.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Held {
    #[default]
    Nothing,
    AsPromised,
    Other(Box<Assignment>),
}

/// A job's accounts at the start of a launch.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Before {
    /// The launch, from 1.
    pub attempt: u32,
    /// The GPUs that it has.
    pub width: u32,
    pub service: f64,
    pub work: f64,
}

impl Record {
    /// Notes what its specification says and is often asked for.
    pub fn note_spec(&mut self) {
        self.extras = self.spec.extras.is_some();
        self.iterations = self.spec.work.iterations;
        self.own_rate = self.spec.work.rate;
    }

    /// Admission's answer at `now`, which makes it eligible from `moment` on. Returns the phase
    /// that follows, for the caller to write down; `None` if admission has no say, or a user holds
    /// the job.
    pub fn judge(&mut self, verdict: &Verdict, now: Time, moment: Time) -> Option<Phase> {
        if !matches!(self.phase, Phase::Submitted | Phase::Deferred) || self.held_by_user {
            return None;
        }
        Some(match verdict {
            Verdict::Accept { class, deadline } => {
                if let Some(class) = class {
                    self.class = *class;
                }
                if deadline.is_some() {
                    self.deadline = *deadline;
                }
                self.accepted_at = Some(now);
                self.eligible_since = moment;
                self.reason = Reason::NotYetDecided;
                Phase::Waiting
            }
            Verdict::Defer(why) => {
                self.reason = why.clone();
                Phase::Deferred
            }
            Verdict::Reject(why) => {
                self.reason = why.clone();
                Phase::Ended
            }
        })
    }

    /// It has changed, by what led to a version of the state.
    #[inline]
    pub fn touch(&mut self, version: u64, touched: &mut Vec<JobId>) {
        self.changed = version;
        if !self.touched {
            self.touched = true;
            touched.push(self.id);
        }
    }

    /// Returns what it holds.
    #[inline]
    pub fn held(&self) -> Option<&Assignment> {
        match &self.held {
            Held::Nothing => None,
            Held::AsPromised => self.promised.as_ref(),
            Held::Other(held) => Some(held),
        }
    }

    /// It holds nothing any more; says what it held.
    pub fn take_held(&mut self) -> Option<Assignment> {
        match std::mem::take(&mut self.held) {
            Held::Nothing => None,
            Held::AsPromised => self.promised.clone(),
            Held::Other(held) => Some(*held),
        }
    }

    /// Returns what it is promised, to be changed: it goes on to hold what it holds.
    pub fn promised_mut(&mut self) -> &mut Option<Assignment> {
        if let (Held::AsPromised, Some(promised)) = (&self.held, &self.promised) {
            self.held = Held::Other(Box::new(promised.clone()));
        }
        self.on = None;
        &mut self.promised
    }

    /// Brings the accounts up to `now`.
    #[inline]
    pub fn settle(&mut self, now: Time) {
        if self.phase == Phase::Running {
            let dt = now.secs() - self.since.secs();
            self.work = self.work_at(dt);
            self.service += dt;
            self.gpu_service += dt * self.width();
        }
        self.since = now;
    }

    /// A launch has started.
    #[inline]
    pub fn began(&mut self) {
        self.before = Before {
            attempt: self.attempt,
            width: self.held().map_or(0, |a| a.gpus.len() as u32),
            service: self.service,
            work: self.work,
        };
    }

    /// Takes back what was counted of the last launch beyond the time that it ran.
    pub fn ran_for(&mut self, now: Time, secs: f64) {
        self.settle(now);
        let before = self.before;
        let excess = self.service - before.service - secs;
        if excess > 0.0 {
            self.service = before.service + secs;
            let width = f64::from(before.width);
            self.gpu_service = (self.gpu_service - excess * width).max(0.0);
            // A change under way has done nothing yet. What an end said stands.
            if self.held().is_some() {
                let work = before.work + self.rate * secs;
                self.work = self.work.min(work.max(0.0));
            }
        }
    }

    #[inline]
    fn work_at(&self, dt: f64) -> f64 {
        (self.work + self.rate * dt).min(self.iterations.max(self.work))
    }

    #[inline]
    fn width(&self) -> f64 {
        self.held().map_or(0.0, |a| a.gpus.len() as f64)
    }
}

/// A job as it stands at the view's moment.
#[derive(Clone, Copy)]
pub struct JobRef<'a> {
    pub(crate) rec: &'a Record,
    pub(crate) now: Time,
}

impl<'a> JobRef<'a> {
    /// Its number.
    #[inline]
    pub fn id(&self) -> JobId {
        self.rec.id
    }
    /// Returns what it asked for. The work in it is the truth: a policy that reads it is an oracle.
    #[inline]
    pub fn spec(&self) -> &'a JobSpec {
        &self.rec.spec
    }
    /// Returns whether it says more of itself than its GPUs and its work: its specification has
    /// [extras](crate::Extras).
    #[inline]
    pub fn has_extras(&self) -> bool {
        self.rec.extras
    }
    /// Returns whether it accepts GPUs of a type: it lists the type, or lists none
    /// ([`Extras::gpu_types`](crate::Extras::gpu_types)).
    #[inline]
    pub fn accepts(&self, cluster: &Cluster, gpu_type: GpuTypeId) -> bool {
        !self.rec.extras || accepts(&self.rec.spec, cluster, gpu_type)
    }
    /// Iterations a second that it says it does on the GPUs that it asked for.
    #[inline]
    pub fn own_rate(&self) -> f64 {
        self.rec.own_rate
    }
    /// Returns where it stands.
    #[inline]
    pub fn phase(&self) -> Phase {
        self.rec.phase
    }
    /// GPUs that it asked for.
    #[inline]
    pub fn gpus(&self) -> GpuCount {
        GpuCount(self.rec.gpus)
    }
    /// When it was submitted.
    #[inline]
    pub fn submit(&self) -> Time {
        self.rec.spec.submit
    }
    /// Returns how long ago it was submitted.
    #[inline]
    pub fn age(&self) -> Seconds {
        self.now - self.submit()
    }
    /// When admission took it, if it has.
    pub fn accepted_at(&self) -> Option<Time> {
        self.rec.accepted_at
    }
    /// The first decision moment that could have launched it and did not;
    /// meaningful while it waits.
    #[inline]
    pub fn eligible_since(&self) -> Time {
        self.rec.eligible_since
    }
    /// Time for which it ran, whatever its size. It falls when the end of a launch is heard of
    /// late: see [`Event::Ran`](crate::Event::Ran).
    #[inline]
    pub fn attained_time(&self) -> Seconds {
        Seconds::new(self.rec.service + self.running_for())
    }
    /// GPU-seconds for which it ran; they fall as its time does.
    #[inline]
    pub fn attained_gpu_time(&self) -> Seconds {
        Seconds::new(self.rec.gpu_service + self.running_for() * self.rec.width())
    }
    /// Iterations done.
    #[inline]
    pub fn work_done(&self) -> f64 {
        self.rec.work_at(self.running_for())
    }
    /// The same as it stands at another moment, if nothing changes until then.
    #[inline]
    pub(crate) fn at(self, now: Time) -> Self {
        JobRef { now, ..self }
    }
    /// Iterations done by a moment, if nothing changes until then. It lies after the last change.
    pub fn work_done_by(&self, at: Time) -> f64 {
        match self.rec.phase {
            Phase::Running => self.rec.work_at(at.secs() - self.rec.since.secs()),
            _ => self.rec.work,
        }
    }
    /// Iterations left: the truth.
    #[inline]
    pub fn work_left(&self) -> f64 {
        (self.rec.iterations - self.work_done()).max(0.0)
    }
    /// Iterations a second now; 0 unless it runs.
    pub fn rate(&self) -> f64 {
        if self.rec.phase == Phase::Running {
            self.rec.rate
        } else {
            0.0
        }
    }
    /// Returns what the plans give it, if anything.
    #[inline]
    pub fn assignment(&self) -> Option<&'a Assignment> {
        self.rec.promised.as_ref()
    }
    /// Returns what it was last told to run on, if it has not left it: what it holds, and until a
    /// change is done, what it had before beside it (see
    /// [`Cluster::held_by`](crate::Cluster::held_by)).
    pub fn held(&self) -> Option<&'a Assignment> {
        self.rec.held()
    }
    /// When it ran first.
    pub fn first_start(&self) -> Option<Time> {
        self.rec.first_start
    }
    /// When it ran last.
    pub fn last_start(&self) -> Option<Time> {
        self.rec.last_start
    }
    /// Returns how often a plan stopped it.
    pub fn preemptions(&self) -> u32 {
        self.rec.preemptions
    }
    /// Returns how often it was launched; the number of the current launch.
    #[inline]
    pub fn attempt(&self) -> u32 {
        self.rec.attempt
    }
    /// Returns how often it lost its processes without being told to stop.
    pub fn crashes(&self) -> u32 {
        self.rec.crashes
    }
    /// Returns how often its launch failed.
    pub fn failed_launches(&self) -> u32 {
        self.rec.failed_launches
    }
    /// Returns whether it comes before all that are not promoted.
    #[inline]
    pub fn promoted(&self) -> bool {
        self.rec.promoted
    }
    /// Its owner.
    pub fn user(&self) -> Option<NameId> {
        self.rec.user
    }
    /// Its virtual cluster.
    #[inline]
    pub fn virtual_cluster(&self) -> Option<NameId> {
        self.rec.virtual_cluster
    }
    /// Guaranteed or best effort, as admission took it.
    pub fn class(&self) -> ServiceClass {
        self.rec.class
    }
    /// The deadline that counts: admission's, else its own first one.
    pub fn deadline(&self) -> Option<Time> {
        self.rec.deadline
    }
    /// The batch that it runs with, if anybody said.
    pub fn config(&self) -> Option<BatchConfig> {
        self.rec.config
    }
    /// Returns why it is where it is.
    pub fn reason(&self) -> &'a Reason {
        &self.rec.reason
    }
    /// The numbers that it reported, oldest first; empty if none.
    pub fn metric(&self, name: &str) -> &'a [(Time, f64)] {
        self.rec
            .metrics
            .as_ref()
            .and_then(|m| m.get(name))
            .map_or(&[], Vec::as_slice)
    }
    /// Returns what it last reported about its training, if it has.
    pub fn report(&self) -> Option<&'a TrainingReport> {
        self.rec.report.as_deref()
    }
    /// Returns whether a plan gives it GPUs now.
    #[inline]
    pub fn is_placed(&self) -> bool {
        self.rec.promised.is_some()
    }

    #[inline]
    fn running_for(&self) -> f64 {
        if self.rec.phase == Phase::Running {
            self.now.secs() - self.rec.since.secs()
        } else {
            0.0
        }
    }
}

/// See [`JobRef::accepts`].
pub(crate) fn accepts(spec: &JobSpec, cluster: &Cluster, gpu_type: GpuTypeId) -> bool {
    let listed = &spec.extras().gpu_types;
    let name = || cluster.gpu_types().get(NameId(gpu_type.0));
    listed.is_empty() || name().is_some_and(|name| listed.contains(name))
}

/// Returns whether a job accepts the types of all these GPUs.
pub(crate) fn accepts_all(spec: &JobSpec, cluster: &Cluster, gpus: &[GpuId]) -> bool {
    spec.extras().gpu_types.is_empty()
        || gpus.iter().all(|gpu| {
            let node = cluster.node_of(*gpu).and_then(|node| cluster.node(node));
            node.is_some_and(|node| accepts(spec, cluster, node.gpu_type()))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn a_record_has_an_odd_number_of_lines() {
        assert_eq!(size_of::<Record>(), 7 * 64);
    }
}
