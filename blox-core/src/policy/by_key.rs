//! Scheduling policies made from a sort key or a function.

use super::{SchedulingPolicy, Stateless};
use crate::decide_error::{Answer, MissingData};
use crate::decision::Validity;
use crate::job::JobRef;
use crate::job::spec::Submission;
use crate::order::{KeyFn, RateFn, SortKey};
use crate::queue::JobQueue;
use crate::view::View;
use std::sync::Arc;

/// Orders all jobs by a key; see [`by_key`].
#[derive(Clone)]
pub struct ByKey {
    key: KeyFn,
    preemptive: bool,
    alike: bool,
    rate: Option<RateFn>,
    validity: Validity,
    check: Option<CheckFn>,
}

/// The check of a submitted job.
type CheckFn = Arc<dyn Fn(&Submission) -> Result<(), MissingData> + Send + Sync>;

/// Creates a scheduling policy from a sort key: jobs run in ascending order of the key.
///
/// A key may change while a job runs, and with events. It must not change while a job just waits,
/// unless [`ByKey::changing_by`] states how. Waiting jobs are kept in order from decision to
/// decision, so that the cost of a decision depends only on the changes.
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
        rate: None,
        validity: Validity::NextRound,
        check: None,
    }
}

impl ByKey {
    /// Allows preemption: a running job may be stopped for one that is ordered before it.
    #[must_use]
    pub fn preemptive(mut self) -> Self {
        self.preemptive = true;
        self
    }

    /// Declares that the keys of all running jobs change by the same amount over time, as attained
    /// service does. Their order then stays the same, and the cost of a decision does not depend on
    /// the number of running jobs.
    #[must_use]
    pub fn keys_advance_together(mut self) -> Self {
        self.alike = true;
        self
    }

    /// Declares that keys change while a job waits: the first number changes by `rate` each second, up
    /// to rounding. Keys that do not change cost less.
    ///
    /// ```
    /// use blox_core::{order::SortKey, policy::by_key};
    /// // The job comes first whose age is largest in proportion to its length.
    /// let slowed_down = by_key(|job| SortKey::by(-job.age().secs() / job.truth().duration().secs()))
    ///     .changing_by(|job| -1.0 / job.truth().duration().secs());
    /// # let _ = slowed_down;
    /// ```
    #[must_use]
    pub fn changing_by(
        mut self,
        rate: impl Fn(&JobRef<'_>) -> f64 + Send + Sync + 'static,
    ) -> Self {
        self.rate = Some(Arc::new(rate));
        self
    }

    /// Declares that running jobs never fall behind waiting ones over time: keys do not grow while
    /// a job runs. Rounds without events can then be skipped.
    #[must_use]
    pub fn valid_until_event(mut self) -> Self {
        self.validity = Validity::UntilEvent;
        self
    }

    /// Sets the check that a submitted job has the data that the key needs, see
    /// [`Policy::check_job`](crate::Policy::check_job).
    #[must_use]
    pub fn checking(
        mut self,
        check: impl Fn(&Submission) -> Result<(), MissingData> + Send + Sync + 'static,
    ) -> Self {
        self.check = Some(Arc::new(check));
        self
    }
}

impl Stateless for ByKey {
    fn check_job(&self, job: &Submission) -> Result<(), MissingData> {
        self.check.as_ref().map_or(Ok(()), |check| check(job))
    }
}

impl SchedulingPolicy for ByKey {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Answer {
        match &self.rate {
            None => out.keep(view, &self.key),
            Some(rate) => out.keep_changing(view, &self.key, rate),
        }
        if self.preemptive {
            out.allow_preemption();
        }
        if self.alike {
            out.keys_advance_together();
        }
        if view.waiting_count() == 0 {
            Ok(Validity::UntilEvent)
        } else {
            Ok(self.validity)
        }
    }
}

/// A scheduling policy made from a function; see [`scheduling_fn`].
#[derive(Clone)]
pub struct SchedulingFn<F>(F);

/// Creates a scheduling policy from a closure that lists requests.
///
/// ```
/// use blox_core::{policy::scheduling_fn, Validity, Request};
/// let everybody = scheduling_fn(|view, out| {
///     for job in view.active() {
///         out.push(Request::gang(&job));
///     }
///     Validity::NextRound
/// });
/// # let _ = everybody;
/// ```
pub fn scheduling_fn<F>(f: F) -> SchedulingFn<F>
where
    F: Fn(View<'_>, &mut JobQueue) -> Validity + Send + Sync + 'static,
{
    SchedulingFn(f)
}

impl<F: Send + Sync + 'static> Stateless for SchedulingFn<F> {}

impl<F> SchedulingPolicy for SchedulingFn<F>
where
    F: Fn(View<'_>, &mut JobQueue) -> Validity + Send + Sync + 'static,
{
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Answer {
        Ok((self.0)(view, out))
    }
}
