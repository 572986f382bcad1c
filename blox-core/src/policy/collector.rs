//! Metric collectors.

use crate::decision::Plan;
use crate::event::Event;
use crate::view::View;
use dyn_clone::DynClone;
use std::any::Any;

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
    /// actions ([`Event::AdmissionDecided`], [`Event::NodeManaged`]). [`Event::Started`] and
    /// [`Event::Stopped`] are reports that come later than their plan: launches and stops that take no
    /// time are part of [`MetricCollector::on_launches`] instead.
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

    /// Returns the metrics collected so far, each with its name.
    ///
    /// The command line shows them for `--collect NAME`: in its table, in `summary.json` and in
    /// `sweep.csv`. A name includes its unit, such as `longest_queue_jobs` or `idle_gpu_s`.
    fn figures(&self) -> Vec<(String, f64)> {
        Vec::new()
    }
}
dyn_clone::clone_trait_object!(MetricCollector);

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

    fn figures(&self) -> Vec<(String, f64)> {
        (**self).figures()
    }
}
