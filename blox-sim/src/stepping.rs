//! Simulations run step by step.

use crate::backend::Read;
use crate::simulation::{Parts, Report, Simulation};
use crate::workload::Workload;
use crate::{Ended, SimError};
use blox_core::drive::{Turn, turn};
use blox_core::input::Input;
use blox_core::{Event, JobId, Pipeline, Plan, Scheduler, Time, View};

/// Result of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// An event of the cluster or the workload; the view shows it.
    Event(Time, Event),
    /// A decision. [`Stepper::plan`] returns its plan; the view shows its allocations.
    Decision(Time),
    /// The simulation is over.
    End,
}

/// The rate of a running job between two steps; see [`Stepper::rates`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunningRate {
    /// The job.
    pub job: JobId,
    /// Its rate in the simulation, in iterations a second.
    pub rate: f64,
    /// The rate that the execution model gives it in the present state. `None` if the job keeps its
    /// rate until the end of a [stretch](crate::execution::ExecutionModel::stretch), or has no work
    /// left.
    pub again: Option<f64>,
}

/// A simulation between two steps. It has the same results as [`Simulation::run`], but reports
/// every launch and stop.
///
/// ```
/// # use blox_testing::FirstFit;
/// # use blox_core::{order::SortKey, policy::by_key, ClusterSpec, Composition, GpuCount, JobSpec, Seconds, Time};
/// use blox_sim::{Simulation, stepping::{Step, Stepper}, workload::Jobs};
///
/// # let fifo = Composition::new("fifo")
/// #     .scheduling(by_key(|job| SortKey::by(job.submit().secs())).valid_until_event())
/// #     .placement(FirstFit).build()?;
/// let mut jobs = Jobs::new(vec![JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(400.0))]);
/// let simulation = Simulation::new(ClusterSpec::uniform(1, 1));
/// let mut stepper = Stepper::new(&simulation, fifo, &mut jobs)?;
/// while !matches!(stepper.step()?, Step::Decision(_)) {}
/// assert_eq!(stepper.plan().actions.len(), 1);
/// assert_eq!(stepper.view().placed_count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Stepper<'w> {
    simulation: Simulation,
    scheduler: Pipeline,
    parts: Parts<'w>,
    memory: Turn,
    over: bool,
}

impl<'w> Stepper<'w> {
    /// Creates a simulation before its first step.
    ///
    /// # Errors
    /// The cluster specification is invalid, or the workload cannot be read.
    pub fn new(
        simulation: &Simulation,
        scheduler: Pipeline,
        workload: &'w mut dyn Workload,
    ) -> Result<Self, SimError> {
        Ok(Stepper {
            parts: simulation.start(scheduler.trigger(), workload, None)?,
            simulation: simulation.clone(),
            scheduler,
            memory: Turn::default(),
            over: false,
        })
    }

    /// Performs a step. After the end, does nothing.
    ///
    /// # Errors
    /// The workload cannot be read, or the policy fails.
    pub fn step(&mut self) -> Result<Step, SimError> {
        if self.over {
            return Ok(Step::End);
        }
        let mut seen = Step::End;
        let read = |input: Input| {
            match &input {
                Input::Event { at, event } => seen = Step::Event(*at, event.clone()),
                Input::Due { at } => seen = Step::Decision(*at),
                _ => {}
            }
            Some(input)
        };
        let mut backend = Read {
            simulator: &mut self.parts.backend,
            each: true,
            read,
        };
        let (core, scheduler) = (&mut self.parts.core, &mut self.scheduler);
        self.over = !turn(core, scheduler, &mut backend, &mut self.memory)?;
        Ok(if self.over { Step::End } else { seen })
    }

    /// Returns how the simulation ended; `None` while it runs.
    pub fn ended(&self) -> Option<Ended> {
        self.over.then_some(self.parts.backend.ended)
    }

    /// Returns the state between two steps.
    pub fn view(&self) -> View<'_> {
        self.parts.core.view()
    }

    /// Computes the rate of every running job again, with a copy of the execution model's memory.
    ///
    /// Between the last step of a moment and the next moment, each result equals the rate of the
    /// job. Otherwise the model's [`reach`](crate::execution::ExecutionModel::reach) is too narrow, or the rate depends on the time.
    pub fn rates(&self) -> Vec<RunningRate> {
        let rates = self.parts.backend.rates(self.view()).into_iter();
        rates
            .map(|(job, rate, again)| RunningRate { job, rate, again })
            .collect()
    }

    /// Returns the plan of the last decision.
    pub fn plan(&self) -> &Plan {
        &self.parts.core.decision().plan
    }

    /// Returns the results so far. Jobs that have not ended are unfinished, and so are measured jobs
    /// that have not been submitted. If the rest of the workload cannot be read, these are not
    /// counted.
    pub fn report(mut self) -> Report {
        let unsubmitted = self.parts.backend.count_unsubmitted().unwrap_or_default();
        let (simulation, name) = (&self.simulation, self.scheduler.name());
        simulation.report(name, self.parts, unsubmitted)
    }
}
