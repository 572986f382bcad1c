//! Forecasts by simulation.

mod arrivals;
mod experience;
mod known;
mod last_day;
mod recent;
mod running_times;
mod scenario;
mod simulated;
mod stretched;

pub use recent::Recent;
pub use running_times::ENOUGH;

use crate::completion::CompletionRule;
use crate::execution::ExecutionModel;
use crate::overheads::Overheads;
use crate::simulation::Simulation;
use crate::workload::Jobs;
use blox_core::forecast::{Expected, Forecast, Forecaster, Horizon, PastJob};
use blox_core::trigger::DecisionTrigger;
use blox_core::{ClusterSpec, Scheduler, Seconds, State, Time};
use simulated::simulate;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

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
        LookAhead::of(Box::new(trigger))
    }

    /// Creates a forecast with decisions at the moments of a trigger of any type, such as
    /// [`Pipeline::trigger`](blox_core::Pipeline::trigger) returns.
    pub fn of(trigger: Box<dyn DecisionTrigger>) -> Self {
        LookAhead {
            trigger,
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

    /// Sets when ends are seen: by default, at the end of the round if there are rounds.
    #[must_use]
    pub fn completion(mut self, rule: impl CompletionRule) -> Self {
        self.simulation = self.simulation.completion(rule);
        self
    }
}

impl LookAhead {
    /// Returns the length of the rounds at whose ends the ends of jobs are seen; 0 if they are seen
    /// at once.
    fn round(&self) -> Seconds {
        match self.simulation.has_completion() {
            true => Seconds::ZERO,
            false => self.trigger.period().unwrap_or(Seconds::ZERO),
        }
    }
}

/// Returns a [`Forecaster`] that uses the simulator.
pub fn forecaster(look_ahead: LookAhead) -> Arc<dyn Forecaster> {
    Arc::new(look_ahead)
}

impl Forecaster for LookAhead {
    /// The policy itself is not changed.
    fn forecast(&self, state: &State, policy: &dyn Scheduler, horizon: Horizon) -> Forecast {
        let live = state.live_jobs();
        let until = match horizon {
            Horizon::UntilDrained => Time::new(f64::MAX),
            Horizon::For(span) => state.now() + span,
        };
        let mut none = Jobs::new(Vec::new());
        let (simulation, trigger, state) = (&self.simulation, &*self.trigger, state.clone());
        let seen = simulate(simulation, trigger, state, policy, &mut none, until);
        let n = seen.ends.len();
        Forecast {
            average_jct: if n == 0 {
                Seconds::ZERO
            } else {
                Seconds::new(seen.jct / n as f64)
            },
            unfinished: live.saturating_sub(n as u32),
            starts: seen.starts,
            ends: seen.ends,
        }
    }

    /// Simulates 39 futures, or 19 from 300 queued jobs on, each without faults. A job that has not
    /// ended runs for its stated duration times a ratio, which follows from `past` and the running
    /// jobs. The stated duration is the user's estimate if there is one. With fewer than
    /// [`ENOUGH`] ended jobs, jobs run as stated. Jobs arrive as on the last day of `past` and of the
    /// live jobs. A future ends after 30 days or 10,000 rounds, and at most 1,000 jobs arrive. If
    /// `stop` is set, 19 complete futures are enough.
    fn expect(
        &self,
        state: &State,
        policy: &dyn Scheduler,
        past: &[PastJob],
        stop: &Arc<AtomicBool>,
    ) -> Option<Vec<Expected>> {
        let world = (&self.simulation, &*self.trigger, stop);
        scenario::expect(world, self.round(), state, policy, past)
    }
}
