//! Forecasts by simulation.

use crate::backend::Read;
use crate::execution::ExecutionModel;
use crate::overheads::Overheads;
use crate::simulation::{Simulation, taken};
use crate::workload::Jobs;
use blox_core::drive::drive;
use blox_core::forecast::{Forecast, Forecaster, Horizon};
use blox_core::input::Input;
use blox_core::runtime::Runtime;
use blox_core::trigger::DecisionTrigger;
use blox_core::{
    ClusterSpec, Event, JobId, MetricCollector, Scheduler, Seconds, State, Time, View,
};
use std::sync::Arc;

/// A forecasting simulation, without arrivals and faults.
#[derive(Clone)]
pub struct LookAhead {
    trigger: Box<dyn DecisionTrigger>,
    simulation: Simulation,
}

impl LookAhead {
    /// Creates a forecast with decisions at the moments of `trigger`. Jobs run at their own rate,
    /// and changes cost nothing.
    pub fn new(trigger: impl DecisionTrigger + 'static) -> Self {
        LookAhead {
            trigger: Box::new(trigger),
            simulation: Simulation::new(ClusterSpec::default()),
        }
    }

    /// Sets the execution model, which is the assumption about speed.
    #[must_use]
    pub fn execution(mut self, model: impl ExecutionModel) -> Self {
        self.simulation = self.simulation.execution(model);
        self
    }

    /// Sets the costs of changes.
    #[must_use]
    pub fn overheads(mut self, overheads: impl Overheads) -> Self {
        self.simulation = self.simulation.overheads(overheads);
        self
    }
}

/// Returns a [`Forecaster`] that uses the simulator.
pub fn forecaster(look_ahead: LookAhead) -> Arc<dyn Forecaster> {
    Arc::new(look_ahead)
}

impl Forecaster for LookAhead {
    /// The policy itself is not changed.
    fn forecast(&self, state: &State, policy: &dyn Scheduler, horizon: Horizon) -> Forecast {
        let mut nobody = Jobs::new(Vec::new());
        // Reading an empty workload cannot fail.
        let Ok(mut backend) = self.simulation.backend(self.trigger.period(), &mut nobody) else {
            return Forecast::default();
        };
        let live = state.live_jobs();
        let mut policy = dyn_clone::clone_box(policy);
        // The caller is about to decide. If this is a decision moment, the forecast starts with a
        // decision.
        let mut core = Runtime::new(state.clone(), self.trigger.clone())
            .with_collector(Box::new(Ends::default()));
        // Earlier commands are already in progress and finish at once.
        core.take_commands(&mut Vec::new());
        backend.resume(core.view());
        let until = match horizon {
            Horizon::UntilDrained => Time::new(f64::MAX),
            Horizon::For(span) => state.now() + span,
        };
        let before = |input: &Input| input.at() <= until;
        let mut bounded = Read {
            simulator: &mut backend,
            read: |input| Some(input).filter(before),
        };
        // If the policy fails in the forecast, the ends so far still count.
        let _ = drive(&mut core, &mut *policy, &mut bounded);
        let ends: Ends = taken(&mut core.take_collectors()).unwrap_or_default();
        let n = ends.ends.len();
        Forecast {
            average_jct: if n == 0 {
                Seconds::ZERO
            } else {
                Seconds::new(ends.jct / n as f64)
            },
            unfinished: live.saturating_sub(n as u32),
            ends: ends.ends,
        }
    }
}

#[derive(Clone, Default)]
struct Ends {
    ends: Vec<(JobId, Time)>,
    jct: f64,
}

impl MetricCollector for Ends {
    fn on_event(&mut self, view: View<'_>, event: &Event) {
        if let Event::Ended { job, .. } = event
            && let Some(j) = view.job(*job)
        {
            self.ends.push((*job, view.now()));
            self.jct += j.age().secs();
        }
    }
}
