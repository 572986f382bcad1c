//! Forecasts by simulation.

mod arrivals;
mod experience;
mod recent;
mod running_times;
mod scenario;

pub use recent::Recent;

use crate::backend::Read;
use crate::completion::CompletionRule;
use crate::execution::ExecutionModel;
use crate::overheads::Overheads;
use crate::simulation::{Simulation, taken};
use crate::workload::{Jobs, Workload};
use blox_core::drive::drive;
use blox_core::forecast::{Expected, Forecast, Forecaster, Horizon, PastJob, queued};
use blox_core::input::Input;
use blox_core::runtime::Runtime;
use blox_core::trigger::DecisionTrigger;
use blox_core::{
    Action, ClusterSpec, Event, JobId, MetricCollector, Plan, Scheduler, Seconds, State, Time, View,
};
use std::collections::BTreeSet;
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
        LookAhead::of(Box::new(trigger))
    }

    /// Creates a forecast with decisions at the moments of a trigger of any type, such as that of
    /// [`Pipeline::trigger`](blox_core::Pipeline::trigger).
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
        match self.simulation.sees_ends_at_once() {
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

    /// Simulates 39 futures, each without faults. The running time of a job that has not ended is
    /// its stated duration times a ratio that `past` and the running jobs allow, above the time that
    /// it has run. The stated duration is the user's estimate if there is one. With fewer than five
    /// ended jobs, jobs run as stated. Jobs arrive as on the last day of `past` and of the live jobs.
    /// A future ends after 30 days, and at most 1,000 jobs arrive.
    fn expect(&self, state: &State, policy: &dyn Scheduler, past: &[PastJob]) -> Vec<Expected> {
        scenario::expect(self, state, policy, past)
    }
}

/// Simulates one future from a state.
fn simulate(
    simulation: &Simulation,
    trigger: &(dyn DecisionTrigger + 'static),
    state: State,
    policy: &dyn Scheduler,
    workload: &mut dyn Workload,
    until: Time,
) -> Seen {
    // A workload that cannot be read has no jobs.
    let Ok(mut backend) = simulation.backend(trigger.period(), workload) else {
        return Seen::default();
    };
    let mut policy = dyn_clone::clone_box(policy);
    // The caller is about to decide. If this is a decision moment, the forecast starts with a
    // decision.
    let seen = Seen::of(&state);
    let mut core =
        Runtime::new(state, dyn_clone::clone_box(trigger)).with_collector(Box::new(seen));
    // Earlier commands are already in progress and finish at once.
    core.take_commands(&mut Vec::new());
    backend.resume(core.view());
    let before = |input: &Input| input.at() <= until;
    let mut bounded = Read {
        simulator: &mut backend,
        read: |input| Some(input).filter(before),
    };
    // If the policy fails in the forecast, the ends so far still count.
    let _ = drive(&mut core, &mut *policy, &mut bounded);
    taken(&mut core.take_collectors()).unwrap_or_default()
}

/// What a simulation of the future shows.
#[derive(Clone, Default)]
struct Seen {
    /// The jobs without GPUs that have not started yet.
    waiting: BTreeSet<JobId>,
    starts: Vec<(JobId, Time)>,
    ends: Vec<(JobId, Time)>,
    jct: f64,
}

impl Seen {
    fn of(state: &State) -> Self {
        Seen {
            waiting: queued(state).into_iter().collect(),
            ..Seen::default()
        }
    }
}

impl MetricCollector for Seen {
    fn on_event(&mut self, view: View<'_>, event: &Event) {
        if let Event::Ended { job, .. } = event
            && let Some(j) = view.job(*job)
        {
            self.ends.push((*job, view.now()));
            self.jct += j.age().secs();
        }
    }

    fn on_launches(&mut self, view: View<'_>, plan: &Plan) {
        if self.waiting.is_empty() {
            return;
        }
        for action in &plan.actions {
            if let Action::Place { job, .. } = action
                && self.waiting.remove(job)
            {
                self.starts.push((*job, view.now()));
            }
        }
    }
}
