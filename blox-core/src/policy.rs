//! The traits that a scheduler is composed of: cluster manager, admission, scheduling and placement
//! policy; and of what watches them. Launching and preempting are the backend's
//! ([`drive::Backend`](crate::drive::Backend)).
//!
//! A policy reads a [`View`] and answers. It is synchronous and deterministic,
//! does no input or output, takes time from the view and randomness from a
//! generator of its own that it was given a seed for. It can be cloned (to look
//! ahead), saved and restored (a daemon that starts again).

use crate::decision::{NodeActions, Outlook, Plan, Verdicts};
use crate::draft::{Draft, DraftError};
use crate::event::Event;
use crate::ids::JobId;
use crate::job::JobRef;
use crate::order::SortKey;
use crate::reason::Reason;
use crate::request::Requests;
use crate::view::View;
use dyn_clone::DynClone;
use serde_json::Value;
use std::any::Any;
use std::sync::Arc;

/// Makes boxes of a part's trait cloneable.
#[doc(hidden)]
#[macro_export]
macro_rules! dyn_part {
    ($name:ident) => {
        ::dyn_clone::clone_trait_object!($name);
    };
}

/// What every part of a scheduler can do: be told what happened, be cloned, saved and restored.
///
/// A part whose memory follows from the view (a kept order, a cache) saves
/// nothing and builds it anew; a part that remembers more must save it:
///
/// ```
/// use blox_core::{Composition, Event, JobRef, Name, Outlook, Part, Request, Requests};
/// use blox_core::{RestoreError, SchedulingPolicy, View};
/// use serde_json::Value;
/// use std::collections::BTreeMap;
///
/// /// Jobs of users who have had least done come first.
/// #[derive(Clone, Default)]
/// struct LeastDone {
///     ended: BTreeMap<Name, u32>,
/// }
///
/// impl LeastDone {
///     fn of(&self, job: &JobRef<'_>) -> u32 {
///         let user = job.spec().user.as_ref();
///         user.and_then(|u| self.ended.get(u)).copied().unwrap_or(0)
///     }
/// }
///
/// impl Part for LeastDone {
///     fn observe(&mut self, view: View<'_>, event: &Event) {
///         // After this the job is in no view: here is the last chance to note it.
///         if let Event::Ended { job, .. } = event
///             && let Some(user) = view.job(*job).and_then(|j| j.spec().user.clone())
///         {
///             *self.ended.entry(user).or_default() += 1;
///         }
///     }
///
///     fn observes_launches(&self) -> bool {
///         false // `observe` looks at ends alone
///     }
///
///     fn save(&self) -> Option<Value> {
///         serde_json::to_value(&self.ended).ok()
///     }
///
///     fn restore(&mut self, memory: Value) -> Result<(), RestoreError> {
///         self.ended = serde_json::from_value(memory)?;
///         Ok(())
///     }
/// }
///
/// impl SchedulingPolicy for LeastDone {
///     fn schedule(&mut self, view: View<'_>, out: &mut Requests) -> Outlook {
///         let mut jobs: Vec<_> = view.active().collect();
///         jobs.sort_by_key(|job| self.of(job));
///         for job in &jobs {
///             out.push(Request::gang(job));
///         }
///         Outlook::NextRound
///     }
/// }
///
/// // It is saved and restored in the middle of hundreds of runs here, among other things.
/// # use blox_core::testing::{conformance, FirstFit};
/// conformance(|_seed| {
///     let scheduling = LeastDone::default();
///     Composition::new("least-done").scheduling(scheduling).placement(FirstFit).build()
/// })
/// # .cases(30)
/// .check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no part of a scheduler",
    note = "a policy is a part: derive `Clone` and write `impl Part for {Self} {{}}`"
)]
pub trait Part: Send + DynClone {
    /// Something happened; the view already shows it.
    fn observe(&mut self, view: View<'_>, event: &Event) {
        let _ = (view, event);
    }

    /// Whether [`Part::observe`] cares for launches and stops ([`Event::Started`] and
    /// [`Event::Stopped`]). Where nobody does, nothing is journaled and neither takes any
    /// time, a plan is carried out in one go, and nobody is told of them.
    ///
    /// `true` is always right, and makes a simulation slower: every stop and launch is a command and a
    /// report of its own. Return `false` if there is no `observe`, or if it passes over both.
    fn observes_launches(&self) -> bool {
        true
    }

    /// What it remembers beyond the view; `None` if nothing.
    fn save(&self) -> Option<Value> {
        None
    }

    /// Takes back what [`Part::save`] gave; whoever has that has this, too.
    ///
    /// # Errors
    /// The memory is not one of this part's. Where nothing else is said, none is.
    fn restore(&mut self, memory: Value) -> Result<(), RestoreError> {
        Err(RestoreError::nowhere(&memory))
    }
}

/// A memory that a part cannot take back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot restore: {why}")]
pub struct RestoreError {
    why: String,
}

impl RestoreError {
    /// With what is wrong.
    pub fn new(why: impl Into<String>) -> Self {
        RestoreError { why: why.into() }
    }

    /// Of a part that has no `restore`, for which there is a memory nevertheless.
    fn nowhere(memory: &Value) -> Self {
        let mut saved = memory.to_string();
        if let Some((end, _)) = saved.char_indices().nth(80) {
            saved.replace_range(end.., "...");
        }
        RestoreError::new(format!(
            "{saved} was saved, but this part has no `restore`: either it needs one beside its `save`, or another part saved this"
        ))
    }

    /// With the part that cannot.
    pub(crate) fn of(self, part: &str) -> Self {
        RestoreError::new(format!("{part}: {}", self.why))
    }
}

impl From<serde_json::Error> for RestoreError {
    fn from(e: serde_json::Error) -> Self {
        RestoreError::new(e.to_string())
    }
}

/// Which jobs may enter (Blox's admission policy).
pub trait AdmissionPolicy: Part {
    /// Answers about the jobs in `asking`, which came in since the last
    /// decision, in order of submission. It may also answer about any job of
    /// [`View::deferred`]. A job of `asking` without an answer is deferred.
    fn admit(&mut self, view: View<'_>, asking: &[JobId], out: &mut Verdicts) -> Outlook;
}
dyn_part!(AdmissionPolicy);

/// Which nodes may be used (Blox's cluster management policy).
pub trait ClusterManager: Part {
    /// Called at every decision, before admission.
    fn manage(&mut self, view: View<'_>, out: &mut NodeActions) -> Outlook;
}
dyn_part!(ClusterManager);

/// Which jobs should run, in what order, with how much (Blox's scheduling policy).
///
/// As an [`Any`], it can be asked after a run for what only it knows
/// ([`Pipeline::scheduling_as`](crate::Pipeline::scheduling_as)).
pub trait SchedulingPolicy: Part + Any {
    /// Names the jobs that should run, most important first.
    fn schedule(&mut self, view: View<'_>, out: &mut Requests) -> Outlook;

    /// The admission policy that shares this policy's plans, if it has one.
    fn admission(&mut self) -> Option<&mut dyn AdmissionPolicy> {
        None
    }

    /// The cluster manager that shares this policy's plans, if it has one.
    fn cluster(&mut self) -> Option<&mut dyn ClusterManager> {
        None
    }

    /// The placement policy that shares this policy's plans, if it has one.
    fn placement(&mut self) -> Option<&mut dyn PlacementPolicy> {
        None
    }
}
dyn_part!(SchedulingPolicy);

/// Which GPUs each job gets (Blox's placement policy).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no placement policy",
    note = "a rule such as `Consolidated` finds GPUs for one job: `Walk::new(rule)` places all by it"
)]
pub trait PlacementPolicy: Part {
    /// Fills the draft.
    ///
    /// # Errors
    /// The policy asked the draft for something impossible: its own error.
    fn place(&mut self, requests: &mut Requests, draft: &mut Draft<'_>) -> Result<(), DraftError>;

    /// How long what it just did stays right if nothing happens and the requests
    /// stay as they are. A policy that leaves placed jobs where they are, or
    /// finds the same place for the same jobs, need not say anything.
    fn outlook(&self) -> Outlook {
        Outlook::Stable
    }

    /// Whether this rule could place the job on the empty cluster, all nodes in
    /// view up. Jobs that it could not are turned away when they come in,
    /// instead of waiting for ever.
    ///
    /// # Errors
    /// The reason if it could not.
    fn can_ever_place(&self, view: View<'_>, job: &JobRef<'_>) -> Result<(), Reason> {
        let possible = view.installed_gpus();
        if job.gpus() <= possible {
            Ok(())
        } else {
            Err(Reason::NeverFits {
                asked: job.gpus(),
                possible,
            })
        }
    }
}
dyn_part!(PlacementPolicy);

/// Sees every event and decision (Blox's metrics collection). A collector can
/// be taken back out of the core as [`std::any::Any`].
pub trait MetricCollector: Part + Sync + std::any::Any {
    /// A decision was made; `plan` is what came of it. Where nobody
    /// [observes launches](Part::observes_launches), the view may show it as carried out.
    fn round(&mut self, view: View<'_>, plan: &Plan);
}
dyn_part!(MetricCollector);

/// Admission that takes everything, and what an earlier policy deferred as well.
#[derive(Clone, Copy, Debug, Default)]
pub struct AcceptAll;

impl Part for AcceptAll {
    fn observes_launches(&self) -> bool {
        false
    }
}

impl AdmissionPolicy for AcceptAll {
    fn admit(&mut self, view: View<'_>, asking: &[JobId], out: &mut Verdicts) -> Outlook {
        if view.deferred_count() > 0 {
            view.admissible().for_each(|job| out.accept(job.id()));
        }
        for &job in asking {
            out.accept(job);
        }
        Outlook::Stable
    }
}

/// A cluster that its nodes alone decide about: they join, are lost and leave by events.
#[derive(Clone, Copy, Debug, Default)]
pub struct StaticCluster;

impl Part for StaticCluster {
    fn observes_launches(&self) -> bool {
        false
    }
}

impl ClusterManager for StaticCluster {
    fn manage(&mut self, _: View<'_>, _: &mut NodeActions) -> Outlook {
        Outlook::Stable
    }
}

/// The key of a job in an order.
pub type KeyFn = Arc<dyn Fn(&JobRef<'_>) -> SortKey + Send + Sync>;

/// Orders all jobs by a key; see [`by_key`].
#[derive(Clone)]
pub struct ByKey {
    key: KeyFn,
    preemptive: bool,
    alike: bool,
    outlook: Outlook,
}

/// A scheduling policy from a sort key: jobs run in ascending order of it.
///
/// A key may change while a job runs, and with events; it must not change while
/// a job just waits. Waiting jobs are then kept in order from decision to
/// decision, and a decision costs what changed.
///
/// ```
/// use blox_core::{order::SortKey, policy::by_key};
/// let smallest_first = by_key(|job| SortKey::by(f64::from(job.gpus().get())));
/// # let _ = smallest_first;
/// ```
pub fn by_key(key: impl Fn(&JobRef<'_>) -> SortKey + Send + Sync + 'static) -> ByKey {
    ByKey {
        key: Arc::new(key),
        preemptive: false,
        alike: false,
        outlook: Outlook::NextRound,
    }
}

impl ByKey {
    /// A running job may be stopped for one that comes before it.
    #[must_use]
    pub fn preemptive(mut self) -> Self {
        self.preemptive = true;
        self
    }

    /// Promises that the keys of all running jobs change by the same amount as
    /// time goes by, as attained time does: their order then stands, and a
    /// decision costs what changed, however many jobs run.
    #[must_use]
    pub fn alike(mut self) -> Self {
        self.alike = true;
        self
    }

    /// Promises that running jobs never fall behind waiting ones as time goes
    /// by: keys do not grow while a job runs. Rounds without events can then
    /// be skipped.
    #[must_use]
    pub fn stable(mut self) -> Self {
        self.outlook = Outlook::Stable;
        self
    }
}

impl Part for ByKey {
    fn observes_launches(&self) -> bool {
        false
    }
}

impl SchedulingPolicy for ByKey {
    fn schedule(&mut self, view: View<'_>, out: &mut Requests) -> Outlook {
        out.keep(view, &self.key);
        if self.preemptive {
            out.allow_preemption();
        }
        if self.alike {
            out.keys_move_alike();
        }
        if view.waiting_count() == 0 {
            Outlook::Stable
        } else {
            self.outlook
        }
    }
}

/// A scheduling policy from a function; see [`scheduling_fn`].
#[derive(Clone)]
pub struct SchedulingFn<F>(F);

/// A scheduling policy from a closure that lists requests.
///
/// ```
/// use blox_core::{policy::scheduling_fn, Outlook, Request};
/// let everybody = scheduling_fn(|view, out| {
///     for job in view.active() {
///         out.push(Request::gang(&job));
///     }
///     Outlook::NextRound
/// });
/// # let _ = everybody;
/// ```
pub fn scheduling_fn<F>(f: F) -> SchedulingFn<F>
where
    F: FnMut(View<'_>, &mut Requests) -> Outlook + Clone + Send + 'static,
{
    SchedulingFn(f)
}

impl<F: Clone + Send> Part for SchedulingFn<F> {
    fn observes_launches(&self) -> bool {
        false
    }
}

impl<F> SchedulingPolicy for SchedulingFn<F>
where
    F: FnMut(View<'_>, &mut Requests) -> Outlook + Clone + Send + 'static,
{
    fn schedule(&mut self, view: View<'_>, out: &mut Requests) -> Outlook {
        (self.0)(view, out)
    }
}
