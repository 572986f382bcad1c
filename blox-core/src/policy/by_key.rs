//! Scheduling policies made from a sort key or a function.

use super::{SchedulingPolicy, Stateless};
use crate::decision::Outlook;
use crate::job::JobRef;
use crate::order::SortKey;
use crate::request::Requests;
use crate::view::View;
use std::sync::Arc;

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

/// Creates a scheduling policy from a sort key: jobs run in ascending order of the key.
///
/// A key may change while a job runs, and with events. It must not change while a job just waits:
/// waiting jobs are kept in order from decision to decision, so that the cost of a decision depends
/// only on the changes.
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
    pub fn alike(mut self) -> Self {
        self.alike = true;
        self
    }

    /// Declares that running jobs never fall behind waiting ones over time: keys do not grow while
    /// a job runs. Rounds without events can then be skipped.
    #[must_use]
    pub fn stable(mut self) -> Self {
        self.outlook = Outlook::Stable;
        self
    }
}

impl Stateless for ByKey {}

impl SchedulingPolicy for ByKey {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut Requests) -> Outlook {
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

/// A scheduling policy made from a function; see [`scheduling_fn`].
#[derive(Clone)]
pub struct SchedulingFn<F>(F);

/// Creates a scheduling policy from a closure that lists requests.
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
    F: Fn(View<'_>, &mut Requests) -> Outlook + Send + Sync + 'static,
{
    SchedulingFn(f)
}

impl<F: Send + Sync + 'static> Stateless for SchedulingFn<F> {}

impl<F> SchedulingPolicy for SchedulingFn<F>
where
    F: Fn(View<'_>, &mut Requests) -> Outlook + Send + Sync + 'static,
{
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut Requests) -> Outlook {
        (self.0)(view, out)
    }
}
