//! Simulations from a state.

use crate::backend::Read;
use crate::simulation::{Simulation, taken};
use crate::workload::Workload;
use blox_core::drive::drive;
use blox_core::forecast::queued;
use blox_core::input::Input;
use blox_core::runtime::Runtime;
use blox_core::trigger::DecisionTrigger;
use blox_core::{Action, Event, JobId, MetricCollector, Plan, Scheduler, State, Time, View};
use std::collections::BTreeSet;

/// Simulates one future from a state.
pub(super) fn simulate(
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

/// Starts and ends in a simulation of the future.
#[derive(Clone, Default)]
pub(super) struct Seen {
    /// The jobs without GPUs that have not started yet.
    waiting: BTreeSet<JobId>,
    /// First starts of these jobs.
    pub starts: Vec<(JobId, Time)>,
    pub ends: Vec<(JobId, Time)>,
    /// Sum of the completion times of the jobs that ended, in seconds.
    pub jct: f64,
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
