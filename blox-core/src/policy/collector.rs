//! Collectors of metrics, and what parts of the world share.

use crate::decision::Plan;
use crate::event::Event;
use crate::view::View;
use dyn_clone::DynClone;
use serde_json::Value;
use std::any::Any;

/// Makes boxes of a part's trait cloneable.
#[doc(hidden)]
#[macro_export]
macro_rules! dyn_part {
    ($name:ident) => {
        ::dyn_clone::clone_trait_object!($name);
    };
}

/// What parts of the simulated world can do: hear events, be cloned, saved and restored.
pub trait Part: Send + DynClone {
    /// Something happened; the view already shows it.
    fn observe(&mut self, view: View<'_>, event: &Event) {
        let _ = (view, event);
    }

    /// Returns what it remembers beyond the view; `None` if nothing.
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

/// A box of parts is one, so that a part from a registry serves wherever a part does.
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
}

impl From<serde_json::Error> for RestoreError {
    fn from(e: serde_json::Error) -> Self {
        RestoreError::new(e.to_string())
    }
}

/// Sees every event and decision (Blox's metrics collection), on either backend. It can be taken
/// back after the run as [`Any`].
///
/// ```
/// use blox_core::{MetricCollector, Plan, View};
///
/// /// The longest queue that a decision found.
/// #[derive(Clone, Default)]
/// struct LongestQueue(u32);
///
/// impl MetricCollector for LongestQueue {
///     fn on_decision(&mut self, view: View<'_>, _: &Plan) {
///         self.0 = self.0.max(view.waiting_count());
///     }
/// }
/// ```
pub trait MetricCollector: Send + Sync + DynClone + Any {
    /// Called after every event, which the view shows: what happened, and what decisions made
    /// ([`Event::Judged`], [`Event::NodeManaged`]). For launches and stops see
    /// [`MetricCollector::hears_launches`].
    fn on_event(&mut self, view: View<'_>, event: &Event) {
        let _ = (view, event);
    }

    /// Called for each decision, before its plan is applied. The view shows its node actions and
    /// the answers of admission.
    fn on_decision(&mut self, view: View<'_>, plan: &Plan) {
        let _ = (view, plan);
    }

    /// Called after each plan that has steps. The view shows what it promises, and jobs that run
    /// already where launches take no time.
    fn on_launches(&mut self, view: View<'_>, plan: &Plan) {
        let _ = (view, plan);
    }

    /// Which launches and stops ([`Event::Started`] and [`Event::Stopped`])
    /// [`MetricCollector::on_event`] is called for; none if this is not implemented.
    fn hears_launches(&self) -> Launches {
        Launches::None
    }

    /// The figures that it has collected so far, each with its name.
    ///
    /// The command line shows them for `--collect NAME`: in its table, in `summary.json` and in
    /// `sweep.csv`. A name holds its unit, such as `longest_queue_jobs` or `idle_gpu_s`.
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

/// Which launches and stops a [`MetricCollector`] hears of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launches {
    /// None: plans and ends of jobs are enough.
    None,
    /// Those that come later than their plan. A plan that takes no time is one call of
    /// [`MetricCollector::on_launches`], which shows the jobs as running.
    Late,
    /// Each. A simulation then reports each on its own, which takes longer.
    Each,
}
