//! Jobs: their specifications, and their records in the state.

pub mod loss;
pub mod nodes;
pub mod sensitivity;
pub mod spec;
pub mod speeds;
pub mod throughput;
pub mod training;
mod truth;

pub use truth::Truth;
pub(crate) use truth::Witness;

use crate::assignment::Assignment;
use crate::cluster::{Cluster, OnNode};
use crate::config::Config;
use crate::decision::AdmissionDecision;
use crate::ids::{GpuId, GpuTypeId, JobId, Name, NameId};
use crate::model::share::{Gpus, Share};
use crate::reason::Reason;
use crate::units::{GpuCount, Seconds, Time};
use nodes::NodeLimit;
use serde::{Deserialize, Serialize};
use spec::{Class, JobSpec, Submission};
use std::fmt;
use std::sync::Arc;
use training::TrainingReport;

/// Lifecycle phase of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Submitted; admission has not decided.
    Submitted,
    /// Held back by admission or by a user.
    Deferred,
    /// May run, but has no GPUs.
    Waiting,
    /// A plan allocated GPUs; the job is not running yet.
    Starting,
    /// Running.
    Running,
    /// Being stopped; its GPUs are still bound.
    Stopping,
    /// Ended.
    Ended,
}

impl Phase {
    /// Returns the name used in messages.
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

/// Metrics that a job reported: a series for each name, in order of time.
pub type Metrics = crate::sorted::SortedMap<Name, Vec<(Time, f64)>>;

/// The state's record of a live job. Queues of tens of thousands do not fit in a cache, so the
/// fields that job orders and placement read are together in the first cache lines. The record has
/// seven lines and not eight: with eight, the first lines of all records would share an eighth of
/// each cache.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[repr(C, align(64))]
pub(crate) struct Record {
    pub id: JobId,
    pub phase: Phase,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub promoted: bool,
    /// Kind of the extras of the specification.
    #[serde(skip)]
    pub extras: Wants,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub touched: bool,
    /// Time of the last update of the accounts. They are linear in time from then on.
    pub since: Time,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub service: f64,
    pub gpus: u32,
    #[serde(default, skip_serializing_if = "is_zero_count")]
    pub attempt: u32,
    pub eligible_since: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_cluster: Option<NameId>,
    /// Version of the state at the last change of the job.
    pub changed: u64,
    pub spec: Arc<JobSpec>,
    // The second line.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub work: f64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rate: f64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub gpu_service: f64,
    /// Number of bound GPUs of other jobs that a pending launch waits for.
    #[serde(default, skip_serializing_if = "is_zero_count")]
    pub blockers: u32,
    #[serde(default, skip_serializing_if = "is_zero_count")]
    pub preemptions: u32,
    #[serde(default, skip_serializing_if = "is_zero_count")]
    pub crashes: u32,
    /// True if the job's last placement is not carried out yet: some of its GPUs are still bound to
    /// other jobs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pending: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held_by_user: bool,
    pub reason: Reason,
    // From here on: fields that only launches and stops need. The first two are copies from the
    // specification.
    #[serde(skip)]
    pub iterations: f64,
    #[serde(skip)]
    pub own_rate: f64,
    /// The witness of the state.
    #[serde(skip)]
    pub witness: Witness,
    /// Node and bit mask of the allocated GPUs, if they are known to be contiguous on one node.
    #[serde(skip)]
    pub on: Option<OnNode>,
    #[serde(default, skip_serializing_if = "Bound::is_nothing")]
    pub bound: Bound,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated: Option<Assignment>,
    /// The job's accounts when its last successful launch started.
    #[serde(default, skip_serializing_if = "Before::is_unset")]
    pub before: Before,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_start: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_start: Option<Time>,
    /// GPUs still bound from before an allocation change that is in progress.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leaving: Vec<GpuId>,
    #[serde(default, skip_serializing_if = "StoredClass::is_guaranteed")]
    pub class: StoredClass,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<NameId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Config::is_none")]
    pub config: Config,
    /// Part of each GPU in the last successful launch. Here, it takes no room.
    #[serde(default, skip_serializing_if = "Share::is_whole")]
    pub share_before: Share,
    #[serde(default, skip_serializing_if = "is_zero_count")]
    pub failed_launches: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Box<Metrics>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<Arc<TrainingReport>>,
    /// The last notice; see [`JobRef::leaves_at`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<Box<Notice>>,
}

/// A class in 8 bytes: its guaranteed time, or no number for the guaranteed class.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(from = "Class", into = "Class")]
pub(crate) struct StoredClass(f64);

impl Default for StoredClass {
    fn default() -> Self {
        Class::Guaranteed.into()
    }
}

impl StoredClass {
    fn is_guaranteed(&self) -> bool {
        self.0.is_nan()
    }
}

impl From<Class> for StoredClass {
    fn from(class: Class) -> Self {
        StoredClass(match class {
            Class::Guaranteed => f64::NAN,
            Class::Spot { guaranteed } => guaranteed.secs(),
        })
    }
}

impl From<StoredClass> for Class {
    fn from(StoredClass(guaranteed): StoredClass) -> Self {
        match Seconds::try_new(guaranteed) {
            None => Class::Guaranteed,
            Some(guaranteed) => Class::Spot { guaranteed },
        }
    }
}

/// A notice to a launch.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Notice {
    pub attempt: u32,
    pub by: Time,
}

/// Kinds of extras of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Wants {
    /// There are no extras.
    #[default]
    Bare,
    /// The extras hold only data, see [`JobRef::needs_only_gpus`].
    OnlyGpus,
    /// The extras request GPU types, a number of nodes, parts of GPUs, CPUs or memory, or the job
    /// trains.
    More,
}

/// Assignment that is bound to a job. Usually it equals the allocated one and is not stored twice.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Bound {
    #[default]
    Nothing,
    AsAllocated,
    Other(Box<Assignment>),
}

/// A job's accounts at the start of a launch.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Before {
    /// Number of the launch, from 1.
    pub attempt: u32,
    /// Number of its GPUs.
    pub width: u32,
    pub service: f64,
    pub work: f64,
}

impl Bound {
    fn is_nothing(&self) -> bool {
        matches!(self, Bound::Nothing)
    }
}

impl Before {
    fn is_unset(&self) -> bool {
        self.attempt == 0 && self.width == 0 && is_zero(&self.service) && is_zero(&self.work)
    }
}

/// Returns whether a number is 0, but not -0.
fn is_zero(number: &f64) -> bool {
    number.to_bits() == 0
}

fn is_zero_count(count: &u32) -> bool {
    *count == 0
}

impl Record {
    /// Returns the requested amount of GPUs.
    #[inline]
    pub(crate) fn amount(&self) -> Gpus {
        Gpus::of(GpuCount(self.gpus), self.share())
    }

    /// Returns the requested part of each GPU.
    #[inline]
    fn share(&self) -> Share {
        match self.extras {
            Wants::More => self.spec.extras().share,
            _ => Share::WHOLE,
        }
    }

    /// Copies frequently used fields from the specification.
    pub fn note_spec(&mut self) {
        self.extras = self.spec.extras.as_deref().map_or(Wants::Bare, |extras| {
            let bare = extras.cpus == 0.0 && extras.memory_gib == 0.0 && extras.share.is_whole();
            match extras.runs_anywhere() && extras.nodes.is_none() && bare {
                true => Wants::OnlyGpus,
                false => Wants::More,
            }
        });
        self.iterations = self.spec.work.iterations;
        self.own_rate = self.spec.work.rate;
    }

    /// Applies admission's decision at `now`; an accepted job is eligible from `moment` on. Returns
    /// the next phase, which the caller sets. Returns `None` if admission does not apply in this
    /// phase, or if a user holds the job.
    pub fn apply_admission(
        &mut self,
        admission: &AdmissionDecision,
        now: Time,
        moment: Time,
    ) -> Option<Phase> {
        if !matches!(self.phase, Phase::Submitted | Phase::Deferred) || self.held_by_user {
            return None;
        }
        Some(match admission {
            AdmissionDecision::Accept { class, deadline } => {
                if let Some(class) = class {
                    self.class = (*class).into();
                }
                if deadline.is_some() {
                    self.deadline = *deadline;
                }
                self.accepted_at = Some(now);
                self.eligible_since = moment;
                self.reason = Reason::NotYetDecided;
                Phase::Waiting
            }
            AdmissionDecision::Defer(why) => {
                self.reason = why.clone();
                Phase::Deferred
            }
            AdmissionDecision::Reject(why) => {
                self.reason = why.clone();
                Phase::Ended
            }
        })
    }

    /// Marks the job as changed at a version of the state.
    #[inline]
    pub fn touch(&mut self, version: u64, touched: &mut Vec<JobId>) {
        self.changed = version;
        if !self.touched {
            self.touched = true;
            touched.push(self.id);
        }
    }

    /// Returns the bound assignment.
    #[inline]
    pub fn bound(&self) -> Option<&Assignment> {
        match &self.bound {
            Bound::Nothing => None,
            Bound::AsAllocated => self.allocated.as_ref(),
            Bound::Other(bound) => Some(bound),
        }
    }

    /// Returns whether as many GPUs are bound as are allocated. If both ledgers agree on each
    /// allocated GPU, the GPUs are the same.
    #[inline(always)]
    pub fn is_bound_as_allocated(&self) -> bool {
        let count = |a: &Assignment| a.gpus.len();
        match &self.bound {
            Bound::Nothing => false,
            Bound::AsAllocated => true,
            Bound::Other(bound) => self.allocated.as_ref().map(count) == Some(count(bound)),
        }
    }

    /// Removes and returns the bound assignment.
    pub fn take_bound(&mut self) -> Option<Assignment> {
        match std::mem::take(&mut self.bound) {
            Bound::Nothing => None,
            Bound::AsAllocated => self.allocated.clone(),
            Bound::Other(bound) => Some(*bound),
        }
    }

    /// Returns the allocated assignment for modification. The bound assignment stays unchanged.
    pub fn allocated_mut(&mut self) -> &mut Option<Assignment> {
        if let (Bound::AsAllocated, Some(allocated)) = (&self.bound, &self.allocated) {
            self.bound = Bound::Other(Box::new(allocated.clone()));
        }
        self.on = None;
        &mut self.allocated
    }

    /// Updates the accounts to `now`.
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

    /// Records progress. Assumes that the whole launch ran at this rate.
    #[inline]
    pub fn progressed(&mut self, work: f64, rate: f64) {
        self.work = work;
        self.rate = rate;
        self.before.work = work - rate * (self.service - self.before.service);
    }

    /// Returns when a job that ends at `now` ran out of work; `now` if it did not.
    pub fn worked_until(&self, now: Time) -> Time {
        let left = (self.iterations - self.work).max(0.0);
        if self.phase != Phase::Running || (self.rate <= 0.0 && left > 0.0) {
            return now;
        }
        let secs = if left > 0.0 { left / self.rate } else { 0.0 };
        Time::new(now.secs().min(self.since.secs() + secs))
    }

    /// Records the start of a launch.
    #[inline]
    pub fn began(&mut self) {
        self.before = Before {
            attempt: self.attempt,
            width: self.bound().map_or(0, |a| a.gpus.len() as u32),
            service: self.service,
            work: self.work,
        };
        self.share_before = self.bound().map_or(Share::WHOLE, |a| a.share);
    }

    /// Withdraws what was counted of the last launch beyond its running time of `secs`.
    pub fn ran_for(&mut self, now: Time, secs: f64) {
        self.settle(now);
        let before = self.before;
        let excess = self.service - before.service - secs;
        if excess > 0.0 {
            self.service = before.service + secs;
            let width = f64::from(before.width) * self.share_before.fraction();
            self.gpu_service = (self.gpu_service - excess * width).max(0.0);
            // A change in progress has done nothing yet. Work that the end of a launch reported
            // stays.
            if self.bound().is_some() {
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
        self.bound().map_or(0.0, Assignment::width)
    }
}

/// A job at the moment of the view.
#[derive(Clone, Copy)]
pub struct JobRef<'a> {
    pub(crate) rec: &'a Record,
    pub(crate) now: Time,
}

impl<'a> JobRef<'a> {
    /// Returns the job's number.
    #[inline]
    pub fn id(&self) -> JobId {
        self.rec.id
    }
    /// Returns what the user stated at submission. The work of the job is in [`JobRef::truth`].
    #[inline]
    pub fn spec(&self) -> &'a Submission {
        &self.rec.spec.submission
    }
    /// Returns what a real cluster does not know about the job: its work, and how much is left.
    ///
    /// This is the only access to it. A run notes which scheduler reads the truth
    /// ([`Core::knew_truth`](crate::core::Core::knew_truth)), so that tables mark it. A run may also
    /// forbid it. Execution models, collectors and backends may read it in any case.
    ///
    /// ```
    /// # use blox_core::{ClusterSpec, Event, GpuCount, JobId, JobSpec, State, Time};
    /// use blox_core::Seconds;
    /// use blox_core::estimate::{Estimator, Oracle};
    ///
    /// # let mut state = State::new(&ClusterSpec::uniform(1, 4))?;
    /// # let spec = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(500.0)).into();
    /// # state.apply(Time::ZERO, &Event::Submitted { job: JobId(0), spec })?;
    /// # let job = state.job(JobId(0)).expect("it was submitted");
    /// let remaining = job.truth().remaining();
    /// assert_eq!(remaining, Seconds::new(500.0)); // a job of 500 s that has not run yet
    /// assert_eq!(Oracle.remaining(&job), Some(remaining));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn truth(&self) -> Truth<'a> {
        self.rec.witness.note();
        Truth::of(*self)
    }
    /// Returns whether the specification has [extras](crate::Extras).
    #[inline]
    pub fn has_extras(&self) -> bool {
        self.rec.extras != Wants::Bare
    }
    /// Returns whether the job needs only a number of whole GPUs: it runs on every GPU type and any
    /// nodes, and requests neither CPUs nor memory.
    #[inline]
    pub fn needs_only_gpus(&self) -> bool {
        self.rec.extras != Wants::More
    }
    /// Returns the nodes on which the job must run; `None` if it may run on any nodes.
    #[inline]
    pub fn node_limit(&self) -> Option<NodeLimit> {
        match self.rec.extras {
            Wants::More => self.rec.spec.node_limit(),
            _ => None,
        }
    }
    /// Returns whether the job accepts GPUs of a type; see [`Extras::runs_on`](crate::Extras::runs_on).
    #[inline]
    pub fn accepts(&self, cluster: &Cluster, gpu_type: GpuTypeId) -> bool {
        !self.has_extras() || accepts(&self.rec.spec, cluster, gpu_type)
    }
    /// See [`JobRef::accepts`]. The name is empty if nodes state no type.
    #[inline]
    pub(crate) fn runs_on_type(&self, gpu_type: &str) -> bool {
        !self.has_extras() || self.rec.spec.extras().runs_on(gpu_type)
    }
    /// Returns the iterations a second on the requested GPUs, according to the specification.
    #[inline]
    pub fn own_rate(&self) -> f64 {
        self.rec.own_rate
    }
    /// Returns the iterations a second on `gpus` GPUs: the profiled rate, else the job's own rate
    /// on its requested GPUs. Returns `None` if unknown.
    #[inline]
    pub fn rate_at(&self, gpus: GpuCount) -> Option<f64> {
        self.spec().rate_at(gpus, self.rec.own_rate)
    }
    /// Returns the phase.
    #[inline]
    pub fn phase(&self) -> Phase {
        self.rec.phase
    }
    /// Returns the number of requested GPUs.
    #[inline]
    pub fn gpus(&self) -> GpuCount {
        GpuCount(self.rec.gpus)
    }
    /// Returns the requested amount of GPUs: their number times the part of each.
    #[inline]
    pub fn amount(&self) -> Gpus {
        self.rec.amount()
    }
    /// Returns the part of each GPU that the job requests.
    #[inline]
    pub fn share(&self) -> Share {
        self.rec.share()
    }
    /// Returns the time of submission.
    #[inline]
    pub fn submit(&self) -> Time {
        self.rec.spec.submit
    }
    /// Returns the time of the view.
    #[inline]
    pub fn now(&self) -> Time {
        self.now
    }
    /// Returns the time since submission.
    #[inline]
    pub fn age(&self) -> Seconds {
        self.now - self.submit()
    }
    /// Returns the time of acceptance by admission; `None` if the job is not accepted.
    pub fn accepted_at(&self) -> Option<Time> {
        self.rec.accepted_at
    }
    /// Returns the first decision moment that could have launched the job and did not. Meaningful
    /// while the job waits.
    #[inline]
    pub fn eligible_since(&self) -> Time {
        self.rec.eligible_since
    }
    /// Attained service: the running time, independent of the number of GPUs. It falls if the end
    /// of a launch is reported late: see [`Event::Ran`](crate::Event::Ran).
    #[inline]
    pub fn attained_time(&self) -> Seconds {
        Seconds::new(self.rec.service + self.running_for())
    }
    /// Attained service in GPU-seconds. A part of a GPU counts as its part. It falls together with
    /// the running time.
    #[inline]
    pub fn attained_gpu_time(&self) -> Seconds {
        Seconds::new(self.rec.gpu_service + self.running_for() * self.rec.width())
    }
    /// Returns the iterations done.
    #[inline]
    pub fn work_done(&self) -> f64 {
        self.rec.work_at(self.running_for())
    }
    /// Returns the job at another moment, if nothing changes until then.
    #[inline]
    pub(crate) fn at(self, now: Time) -> Self {
        JobRef { now, ..self }
    }
    /// Returns the iterations done by a moment after the last change, if nothing changes until
    /// then.
    pub fn work_done_by(&self, at: Time) -> f64 {
        match self.rec.phase {
            Phase::Running => self.rec.work_at(at.secs() - self.rec.since.secs()),
            _ => self.rec.work,
        }
    }
    /// Returns when an ended job stopped working: before its end if that was seen later than its
    /// last iteration. `None` for a live job.
    pub fn worked_until(&self) -> Option<Time> {
        (self.rec.phase == Phase::Ended).then_some(self.rec.since)
    }
    /// Returns the current iterations a second; 0 unless the job runs.
    pub fn rate(&self) -> f64 {
        if self.rec.phase == Phase::Running {
            self.rec.rate
        } else {
            0.0
        }
    }
    /// Returns the allocated assignment, if any.
    #[inline]
    pub fn assignment(&self) -> Option<&'a Assignment> {
        self.rec.allocated.as_ref()
    }
    /// Returns the bound assignment: the assignment of the last start or change command, unless the
    /// job has left it. During an allocation change, the job also keeps its previous GPUs (see
    /// [`Cluster::bound_to`](crate::Cluster::bound_to)).
    pub fn bound(&self) -> Option<&'a Assignment> {
        self.rec.bound()
    }
    /// Returns the GPUs that the job still occupies until a change of its assignment is done.
    pub fn leaving(&self) -> &'a [GpuId] {
        &self.rec.leaving
    }
    /// Returns whether the job's user holds it back.
    pub fn held_by_user(&self) -> bool {
        self.rec.held_by_user
    }
    /// Returns the time of the first start.
    pub fn first_start(&self) -> Option<Time> {
        self.rec.first_start
    }
    /// Returns the time of the last start.
    pub fn last_start(&self) -> Option<Time> {
        self.rec.last_start
    }
    /// Returns how often decisions stopped the job while it was running or starting. A move counts
    /// if the plan stops the job. Changes in place, crashes and requests of users do not count.
    pub fn preemptions(&self) -> u32 {
        self.rec.preemptions
    }
    /// Returns the number of launches, which is the number of the current launch.
    #[inline]
    pub fn attempt(&self) -> u32 {
        self.rec.attempt
    }
    /// Returns the number of crashes: the job lost its processes without being stopped.
    pub fn crashes(&self) -> u32 {
        self.rec.crashes
    }
    /// Returns the number of failed launches.
    pub fn failed_launches(&self) -> u32 {
        self.rec.failed_launches
    }
    /// Returns whether the job is promoted: it is ordered before all jobs that are not.
    #[inline]
    pub fn promoted(&self) -> bool {
        self.rec.promoted
    }
    /// Returns the owner.
    pub fn user(&self) -> Option<NameId> {
        self.rec.user
    }
    /// Returns the virtual cluster.
    #[inline]
    pub fn virtual_cluster(&self) -> Option<NameId> {
        self.rec.virtual_cluster
    }
    /// Returns the class as admitted: guaranteed or spot.
    pub fn class(&self) -> Class {
        self.rec.class.into()
    }
    /// Returns the end of the guaranteed time of a running spot job, from its last start on. Stopping
    /// the job before is possible, and counted as a broken guarantee.
    pub fn protected_until(&self) -> Option<Time> {
        let (Class::Spot { guaranteed }, Phase::Running) = (self.class(), self.rec.phase) else {
            return None;
        };
        Some(self.rec.last_start? + guaranteed)
    }
    /// Returns the time by which the job must leave its GPUs, if it got a notice
    /// ([`JobQueue::notify`](crate::JobQueue::notify)). A decision at this time or later stops it.
    pub fn leaves_at(&self) -> Option<Time> {
        let notice = self.rec.notice.as_ref()?;
        // A stop, a crash or an end makes the notice void.
        let here = notice.attempt == self.rec.attempt && self.rec.bound().is_some();
        (here && self.rec.phase != Phase::Stopping).then_some(notice.by)
    }
    /// Returns the amount of GPUs that a service needs now: its [`share`](JobRef::share) of the number
    /// that [`Submission::need_at`] returns. Returns `None` for a job that is no service.
    #[inline]
    pub fn need(&self) -> Option<Gpus> {
        match self.rec.extras {
            Wants::Bare => None,
            _ => {
                let count = self.rec.spec.need_at(self.now)?;
                Some(Gpus::of(count, self.share()))
            }
        }
    }
    /// Returns the effective deadline: admission's, else the first one of the specification.
    pub fn deadline(&self) -> Option<Time> {
        self.rec.deadline
    }
    /// Returns the config of the job; without knobs if none was chosen.
    pub fn config(&self) -> &'a Config {
        &self.rec.config
    }
    /// Returns the reason for the current phase.
    pub fn reason(&self) -> &'a Reason {
        &self.rec.reason
    }
    /// Returns the reported values of a metric, oldest first; empty if there are none.
    pub fn metric(&self, name: &str) -> &'a [(Time, f64)] {
        let series = self.rec.metrics.as_ref().and_then(|all| all.get(name));
        series.map_or(&[], Vec::as_slice)
    }
    /// Returns all reported metrics in order of their names, each with its values, oldest first.
    pub fn metrics(&self) -> impl Iterator<Item = (&'a Name, &'a [(Time, f64)])> + use<'a> {
        let all = self.rec.metrics.iter().flat_map(|all| all.iter());
        all.map(|(name, series)| (name, series.as_slice()))
    }
    /// Returns the job's last training report, if any.
    pub fn report(&self) -> Option<&'a TrainingReport> {
        self.rec.report.as_deref()
    }
    /// Returns whether GPUs are allocated to the job now.
    #[inline]
    pub fn is_placed(&self) -> bool {
        self.rec.allocated.is_some()
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
pub(crate) fn accepts(spec: &Submission, cluster: &Cluster, gpu_type: GpuTypeId) -> bool {
    let name = || cluster.gpu_types().get(NameId(gpu_type.0));
    let extras = spec.extras();
    extras.runs_anywhere() || name().is_some_and(|name| extras.runs_on(name))
}

/// Returns whether a job accepts the types of all given GPUs.
pub(crate) fn accepts_all(spec: &Submission, cluster: &Cluster, gpus: &[GpuId]) -> bool {
    spec.extras().runs_anywhere()
        || gpus.iter().all(|gpu| {
            let node = cluster.node_with(*gpu);
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
