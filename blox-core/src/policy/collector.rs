//! Metric collectors, and the common base of the simulated world's components.

use crate::decision::Plan;
use crate::event::Event;
use crate::view::View;
use dyn_clone::DynClone;
use serde_json::Value;
use std::any::Any;

/// Implements `Clone` for boxes of a component's trait.
#[doc(hidden)]
#[macro_export]
macro_rules! dyn_part {
    ($name:ident) => {
        ::dyn_clone::clone_trait_object!($name);
    };
}

/// Base of the simulated world's components: they observe events and can be cloned, saved and
/// restored.
pub trait Part: Send + DynClone {
    /// Called after each event. The view already shows its effect.
    fn observe(&mut self, view: View<'_>, event: &Event) {
        let _ = (view, event);
    }

    /// Returns the component's memory beyond the view; `None` if it has none.
    fn save(&self) -> Option<Value> {
        None
    }

    /// Restores what [`Part::save`] returned. Implement both or neither.
    ///
    /// # Errors
    /// The memory was not saved by this component. By default every memory is an error.
    fn restore(&mut self, memory: Value) -> Result<(), RestoreError> {
        Err(RestoreError::nowhere(&memory))
    }
}

/// A box of a component is a component, so that one from a registry can be used wherever a
/// component can.
impl<T: Part + ?Sized> Part for Box<T>
where
    Box<T>: Clone,
{
    fn observe(&mut self, view: View<'_>, event: &Event) {
        (**self).observe(view, event);
    }

    fn save(&self) -> Option<Value> {
        (**self).save()
    }

    fn restore(&mut self, memory: Value) -> Result<(), RestoreError> {
        (**self).restore(memory)
    }
}

/// A memory that a component cannot restore.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot restore: {why}")]
pub struct RestoreError {
    why: String,
}

impl RestoreError {
    /// Creates an error with its cause.
    pub fn new(why: impl Into<String>) -> Self {
        RestoreError { why: why.into() }
    }

    /// Creates the error for a component without `restore` that gets a memory.
    fn nowhere(memory: &Value) -> Self {
        let mut saved = memory.to_string();
        if let Some((end, _)) = saved.char_indices().nth(80) {
            saved.replace_range(end.., "...");
        }
        RestoreError::new(format!(
            "{saved} was saved, but this part has no `restore`: either it needs one beside its `save`, or another part saved this"
        ))
    }
}

impl From<serde_json::Error> for RestoreError {
    fn from(e: serde_json::Error) -> Self {
        RestoreError::new(e.to_string())
    }
}

/// Observes every event and decision (Blox's metrics collection), on either backend. Can be
/// recovered after the run as [`Any`].
///
/// ```
/// use blox_core::{ClusterSpec, MetricCollector, Plan, State, View};
///
/// /// The longest queue that a decision found.
/// #[derive(Clone, Default)]
/// struct LongestQueue(u32);
///
/// impl MetricCollector for LongestQueue {
///     fn on_decision(&mut self, view: View<'_>, _: &Plan) {
///         self.0 = self.0.max(view.waiting_count());
///     }
///
///     fn figures(&self) -> Vec<(String, f64)> {
///         vec![("longest_queue_jobs".to_owned(), f64::from(self.0))]
///     }
/// }
///
/// let state = State::new(&ClusterSpec::uniform(1, 4))?;
/// let mut longest = LongestQueue(3);
/// longest.on_decision(View::of(&state), &Plan::default()); // no job waits
/// assert_eq!(longest.figures(), [("longest_queue_jobs".to_owned(), 3.0)]);
/// # Ok::<(), blox_core::ClusterSpecError>(())
/// ```
pub trait MetricCollector: Send + Sync + DynClone + Any {
    /// Called after every event. The view shows its effect. Includes admission decisions and node
    /// actions ([`Event::Judged`], [`Event::NodeManaged`]). For launches and stops see
    /// [`MetricCollector::hears_launches`].
    fn on_event(&mut self, view: View<'_>, event: &Event) {
        let _ = (view, event);
    }

    /// Called for each decision, before its plan is applied. The view shows its node actions and
    /// admission decisions.
    fn on_decision(&mut self, view: View<'_>, plan: &Plan) {
        let _ = (view, plan);
    }

    /// Called after each plan that has steps. The view shows the plan's allocations. If launches
    /// take no time, it shows their jobs as running.
    fn on_launches(&mut self, view: View<'_>, plan: &Plan) {
        let _ = (view, plan);
    }

    /// Returns for which launches and stops ([`Event::Started`] and [`Event::Stopped`])
    /// [`MetricCollector::on_event`] is called. Default: none.
    fn hears_launches(&self) -> Launches {
        Launches::None
    }

    /// Returns the metrics collected so far, each with its name.
    ///
    /// The command line shows them for `--collect NAME`: in its table, in `summary.json` and in
    /// `sweep.csv`. A name includes its unit, such as `longest_queue_jobs` or `idle_gpu_s`.
    fn figures(&self) -> Vec<(String, f64)> {
        Vec::new()
    }
}
dyn_part!(MetricCollector);

impl MetricCollector for Box<dyn MetricCollector> {
    fn on_event(&mut self, view: View<'_>, event: &Event) {
        (**self).on_event(view, event);
    }

    fn on_decision(&mut self, view: View<'_>, plan: &Plan) {
        (**self).on_decision(view, plan);
    }

    fn on_launches(&mut self, view: View<'_>, plan: &Plan) {
        (**self).on_launches(view, plan);
    }

    fn hears_launches(&self) -> Launches {
        (**self).hears_launches()
    }

    fn figures(&self) -> Vec<(String, f64)> {
        (**self).figures()
    }
}

/// The launches and stops that are reported to a [`MetricCollector`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launches {
    /// None: plans and ends of jobs are enough.
    None,
    /// Launches and stops that are later than their plan. A plan that takes no time is one call of
    /// [`MetricCollector::on_launches`], with its jobs shown as running.
    Late,
    /// Every launch and stop. A simulation then reports each separately, which takes longer.
    Each,
}
