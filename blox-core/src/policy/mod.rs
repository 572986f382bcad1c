//! The traits that a scheduler is composed of: cluster manager, admission, scheduling and placement
//! policy, and metric collectors. Launching and preempting are tasks of the backend
//! ([`drive::Backend`](crate::drive::Backend)).
//!
//! A policy is immutable. Its changing data is a [`Memory`], a value that the runtime owns. The
//! runtime clones it for forecasts, and saves and restores it when a daemon restarts. A policy
//! reads a [`View`] and returns its answer. It performs no I/O and takes the time from the view. It
//! draws randomness only from a generator in its memory, which [`Policy::initial`] seeds.

mod admission;
mod by_key;
mod cluster;
mod collector;
pub mod draft;
mod erased;
pub mod estimate;
mod memory;
pub mod order;
mod placement;
pub mod queue;
mod scheduling;

pub use admission::{AcceptAll, AdmissionPolicy};
pub use by_key::{ByKey, SchedulingFn, by_key, scheduling_fn};
pub use cluster::{ClusterManager, StaticCluster};
pub use collector::MetricCollector;
pub use erased::{AnyAdmission, AnyClusterManager, AnyPlacement, AnyPolicy, AnyScheduling};
pub use memory::{AnyMemory, Memory, MemoryError, With};
pub use order::{KeyFn, RateFn};
pub use placement::PlacementPolicy;
pub use scheduling::SchedulingPolicy;

use crate::decide_error::MissingData;
use crate::decision::Plan;
use crate::event::Event;
use crate::job::spec::Submission;
use crate::view::View;

/// Base of all policies. Several role traits on one type share one memory.
///
/// A policy without memory implements [`Stateless`] instead.
///
/// ```
/// use blox_core::{Answer, Composition, Event, JobRef, Name, Validity, Policy, Request, JobQueue};
/// use blox_core::{SchedulingPolicy, View};
/// use std::collections::BTreeMap;
///
/// /// Puts jobs of users first that had the fewest jobs completed.
/// struct LeastDone;
///
/// /// Completed jobs by user.
/// type Ended = BTreeMap<Name, u32>;
///
/// impl Policy for LeastDone {
///     type Memory = Ended;
///
///     fn initial(&self, _seed: u64) -> Ended {
///         Ended::new()
///     }
///
///     fn on_event(&self, ended: &mut Ended, view: View<'_>, event: &Event) {
///         // The view does not show the job after this event.
///         if let Event::Ended { job, .. } = event
///             && let Some(user) = view.job(*job).and_then(|j| j.spec().user.clone())
///         {
///             *ended.entry(user).or_default() += 1;
///         }
///     }
/// }
///
/// impl SchedulingPolicy for LeastDone {
///     fn schedule(&self, ended: &mut Ended, view: View<'_>, out: &mut JobQueue) -> Answer {
///         let count = |job: &JobRef<'_>| {
///             let user = job.spec().user.as_ref();
///             user.and_then(|u| ended.get(u)).copied().unwrap_or(0)
///         };
///         let mut jobs: Vec<_> = view.active().collect();
///         jobs.sort_by_key(count);
///         for job in &jobs {
///             out.push(Request::gang(job));
///         }
///         Ok(Validity::NextRound)
///     }
/// }
///
/// // The suite saves and restores the memory in the middle of runs, among other things.
/// # use blox_testing::{conformance, FirstFit};
/// conformance(|seed| {
///     let composition = Composition::new("least-done").scheduling(LeastDone).placement(FirstFit);
///     composition.seed(seed).build().expect("each role is taken once")
/// })
/// # .cases(30)
/// .check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no policy",
    note = "write `impl Stateless for {Self} {{}}` if it remembers nothing, else `impl Policy for {Self}`"
)]
pub trait Policy: Send + Sync + 'static {
    /// Memory of the policy; `()` for none.
    type Memory: Memory;

    /// Returns the initial memory. A random generator in it starts from `seed`.
    fn initial(&self, seed: u64) -> Self::Memory;

    /// Checks that a submitted job has the data that the policy needs, such as the features of a
    /// learned estimate.
    ///
    /// A job without the data ends a simulation with an error, and a cluster rejects the job. Policies
    /// that work without the data do not implement this function.
    ///
    /// # Errors
    /// The first missing data.
    fn check_job(&self, job: &Submission) -> Result<(), MissingData> {
        let _ = job;
        Ok(())
    }

    /// Called after every event except launches and stops, if the policy has a memory. The view shows
    /// the event. In [`Event::Submitted`], the work is 0: the true work is in
    /// [`JobRef::truth`](crate::JobRef::truth).
    fn on_event(&self, memory: &mut Self::Memory, view: View<'_>, event: &Event) {
        let _ = (memory, view, event);
    }

    /// Called once for each applied plan that is not empty, if the policy has a memory. The view shows
    /// the plan as applied. If launches take no time, it shows their jobs as running.
    fn on_launches(&self, memory: &mut Self::Memory, view: View<'_>, plan: &Plan) {
        let _ = (memory, view, plan);
    }

    /// Returns the type of the policy without modules, for messages. Policies do not override it.
    #[doc(hidden)]
    fn type_name(&self) -> String {
        short_type_name(std::any::type_name::<Self>())
    }
}

/// Removes the modules from the name of a type and of its parameters.
fn short_type_name(full: &str) -> String {
    let mut short = String::new();
    let mut word = String::new();
    for c in full.chars() {
        match c {
            ':' => word.clear(),
            '<' | '>' | ',' | ' ' | '(' | ')' | '&' | '[' | ']' | ';' => {
                short.push_str(&std::mem::take(&mut word));
                short.push(c);
            }
            _ => word.push(c),
        }
    }
    short + &word
}

/// A policy without memory: `impl Stateless for MyPolicy {}`.
///
/// ```
/// # use blox_testing::FirstFit;
/// use blox_core::{Answer, Composition, Scheduler, JobQueue, Request, SchedulingPolicy, Stateless};
/// use blox_core::{Validity, View};
///
/// /// Runs jobs in order of submission.
/// struct Fifo;
///
/// impl Stateless for Fifo {}
///
/// impl SchedulingPolicy for Fifo {
///     fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Answer {
///         view.active().for_each(|job| out.push(Request::gang(&job)));
///         Ok(Validity::UntilEvent)
///     }
/// }
///
/// let scheduler = Composition::new("fifo").scheduling(Fifo).placement(FirstFit).build()?;
/// assert!(!scheduler.remembers());
/// # Ok::<(), blox_core::ComposeError>(())
/// ```
pub trait Stateless: Send + Sync + 'static {
    /// See [`Policy::check_job`].
    ///
    /// # Errors
    /// The first missing data.
    fn check_job(&self, job: &Submission) -> Result<(), MissingData> {
        let _ = job;
        Ok(())
    }
}

impl<T: Stateless> Policy for T {
    type Memory = ();

    fn initial(&self, _: u64) {}

    fn check_job(&self, job: &Submission) -> Result<(), MissingData> {
        Stateless::check_job(self, job)
    }
}

/// Implements [`Policy`] for a decorator. Every hook is forwarded to the policy in a field. The
/// memory is the memory of that policy.
///
/// The type of a memory of its own may follow the field: the memory is then a
/// [`With`](crate::With) of both, and starts with the default of this type. A function after the
/// type gets this memory at each event: `|own: &mut Own, view: View<'_>, event: &Event|`.
///
/// ```
/// use blox_core::{forward_policy, Answer, JobQueue, JobRef, Policy, Reason};
/// use blox_core::SchedulingPolicy;
/// use blox_core::{Shapes, View};
///
/// /// Never preempts running jobs.
/// struct Patient<P> {
///     inner: P,
/// }
///
/// forward_policy!(Patient<P: SchedulingPolicy>, inner);
///
/// impl<P: SchedulingPolicy> SchedulingPolicy for Patient<P> {
///     fn schedule(&self, memory: &mut P::Memory, view: View<'_>, out: &mut JobQueue) -> Answer {
///         let validity = self.inner.schedule(memory, view, out)?;
///         let requests = out.all(view).into_owned();
///         *out = JobQueue::default();
///         requests.into_iter().for_each(|request| out.push(request));
///         Ok(validity)
///     }
///
///     fn could_request(&self, view: View<'_>, job: &JobRef<'_>) -> Result<Shapes, Reason> {
///         self.inner.could_request(view, job)
///     }
///
///     fn keeps_nodes(&self, nodes: u32) -> bool {
///         self.inner.keeps_nodes(nodes)
///     }
/// }
/// ```
#[macro_export]
macro_rules! forward_policy {
    ($name:ident<$inner:ident: $bound:path>, $field:tt) => {
        impl<$inner: $bound> $crate::Policy for $name<$inner> {
            type Memory = <$inner as $crate::Policy>::Memory;

            fn initial(&self, seed: u64) -> Self::Memory {
                self.$field.initial(seed)
            }

            fn check_job(&self, job: &$crate::Submission) -> Result<(), $crate::MissingData> {
                self.$field.check_job(job)
            }

            fn on_event(
                &self,
                memory: &mut Self::Memory,
                view: $crate::View<'_>,
                event: &$crate::Event,
            ) {
                self.$field.on_event(memory, view, event);
            }

            fn on_launches(
                &self,
                memory: &mut Self::Memory,
                view: $crate::View<'_>,
                plan: &$crate::Plan,
            ) {
                self.$field.on_launches(memory, view, plan);
            }
        }
    };
    ($name:ident<$inner:ident: $bound:path>, $field:tt, $own:ty $(, $note:expr)?) => {
        impl<$inner: $bound> $crate::Policy for $name<$inner> {
            type Memory = $crate::With<$own, <$inner as $crate::Policy>::Memory>;

            fn initial(&self, seed: u64) -> Self::Memory {
                $crate::With {
                    own: Default::default(),
                    inner: self.$field.initial(seed),
                }
            }

            fn check_job(&self, job: &$crate::Submission) -> Result<(), $crate::MissingData> {
                self.$field.check_job(job)
            }

            fn on_event(
                &self,
                memory: &mut Self::Memory,
                view: $crate::View<'_>,
                event: &$crate::Event,
            ) {
                $(
                    let note: fn(&mut $own, $crate::View<'_>, &$crate::Event) = $note;
                    note(&mut memory.own, view, event);
                )?
                self.$field.on_event(&mut memory.inner, view, event);
            }

            fn on_launches(
                &self,
                memory: &mut Self::Memory,
                view: $crate::View<'_>,
                plan: &$crate::Plan,
            ) {
                self.$field.on_launches(&mut memory.inner, view, plan);
            }
        }
    };
}

/// Returns the start of a saved value, for messages.
pub(crate) fn start_of(saved: &serde_json::Value) -> String {
    let mut text = saved.to_string();
    if let Some((end, _)) = text.char_indices().nth(80) {
        text.replace_range(end.., "...");
    }
    text
}
