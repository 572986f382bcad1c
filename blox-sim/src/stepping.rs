//! Simulations run step by step, with decisions of the scheduler or from outside.

mod outside;

pub use outside::AnswerError;

use crate::backend::Read;
use crate::simulation::{Parts, Report, Simulation};
use crate::workload::Workload;
use crate::{Ended, SimError};
use blox_core::drive::{Turn, turn};
use blox_core::input::Input;
use blox_core::journal::Journal;
use blox_core::{Decision, Event, JobId, Pipeline, Plan, Scheduler, Time, View};
use outside::Outside;

/// Result of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// An event of the cluster or the workload; the view shows it.
    Event(Time, Event),
    /// A question to decide, if the stepper [pauses](Stepper::pausing). [`Stepper::answer`] answers it;
    /// the next step lets the scheduler do so.
    Question(Time),
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
    /// Measured jobs that were counted as not submitted.
    unsubmitted: u64,
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
        Stepper::journaled(simulation, scheduler, workload, None)
    }

    /// Creates a simulation with a journal before its first step. The caller flushes the journal. It
    /// records answers from outside like decisions of the scheduler, so a replay for collectors
    /// ([`watch`](blox_core::replay::watch)) needs neither.
    ///
    /// # Errors
    /// The cluster specification is invalid, or the workload cannot be read.
    pub fn journaled(
        simulation: &Simulation,
        scheduler: Pipeline,
        workload: &'w mut dyn Workload,
        journal: Option<Box<dyn Journal>>,
    ) -> Result<Self, SimError> {
        let mut parts = simulation.start(scheduler.trigger(), workload, journal)?;
        parts.core.start(&scheduler)?;
        parts.backend.each = true;
        Ok(Stepper {
            parts,
            simulation: simulation.clone(),
            scheduler,
            memory: Turn::default(),
            over: false,
            unsubmitted: 0,
        })
    }

    /// Pauses at each question, so that [`Stepper::answer`] can answer it: a person, a notebook or a
    /// learner then takes the place of the scheduling and the placement policy.
    ///
    /// ```
    /// # use blox_testing::FirstFit;
    /// # use blox_core::{order::SortKey, policy::by_key, ClusterSpec, Composition, GpuCount, JobSpec, Seconds};
    /// use blox_core::{Action, Assignment, Decision, GpuId, JobId, Plan, Time};
    /// use blox_sim::{Simulation, stepping::{Step, Stepper}, workload::Jobs};
    ///
    /// # let fifo = Composition::new("fifo")
    /// #     .scheduling(by_key(|job| SortKey::by(job.submit().secs())).valid_until_event())
    /// #     .placement(FirstFit).build()?;
    /// let mut jobs = Jobs::new(vec![JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(400.0))]);
    /// let simulation = Simulation::new(ClusterSpec::uniform(1, 2));
    /// let mut stepper = Stepper::new(&simulation, fifo, &mut jobs)?.pausing();
    /// while stepper.step()? != Step::Question(Time::ZERO) {}
    /// let on = |gpu| Decision {
    ///     plan: Plan {
    ///         actions: vec![Action::Place { job: JobId(0), assignment: Assignment::of([GpuId(gpu)]) }],
    ///         ..Plan::default()
    ///     },
    ///     ..Decision::default()
    /// };
    /// // The question stays open after a refused answer.
    /// let refused = stepper.answer(&on(7)).unwrap_err();
    /// assert_eq!(refused.to_string(), "the plan gives job 0 GPU 7, which does not exist or may not be used");
    /// assert_eq!(stepper.answer(&on(1))?, Step::Decision(Time::ZERO));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn pausing(mut self) -> Self {
        self.memory = Turn::pausing();
        self
    }

    /// Performs a step. After the end, does nothing.
    ///
    /// # Errors
    /// The workload cannot be read, or the policy fails.
    pub fn step(&mut self) -> Result<Step, SimError> {
        self.turn(None)
    }

    /// Returns the time of the open question, if there is one.
    pub fn asked(&self) -> Option<Time> {
        self.parts.core.open().map(|open| open.at)
    }

    /// Answers the open question in place of the scheduler, and returns its decision.
    ///
    /// The plan of the answer replaces the scheduler's. The scheduler still decides about nodes and
    /// admission, unless the answer has node actions or admission decisions. The version of the answer
    /// has no effect. The plan is checked like the scheduler's.
    ///
    /// # Errors
    /// No question is open, or the answer contradicts the state. The question is then open as before.
    /// The simulation cannot go on if the scheduler fails at its part, or the workload cannot be read.
    pub fn answer(&mut self, answer: &Decision) -> Result<Step, AnswerError> {
        let open = self.parts.core.open().ok_or(AnswerError::NoQuestion)?;
        outside::check(self.parts.core.core(), &self.scheduler, open, answer)?;
        Ok(self.turn(Some(answer))?)
    }

    /// Runs a turn with an answer in place of the scheduler's, if there is one.
    fn turn(&mut self, answer: Option<&Decision>) -> Result<Step, SimError> {
        if self.over {
            return Ok(Step::End);
        }
        let open = self.parts.core.open();
        let mut seen = open.map_or(Step::End, |open| Step::Decision(open.at));
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
            read,
        };
        let (core, memory) = (&mut self.parts.core, &mut self.memory);
        let goes_on = match answer {
            None => turn(core, &mut self.scheduler, &mut backend, memory)?,
            Some(answer) => {
                let scheduler = self.scheduler.clone();
                let mut outside = Outside { scheduler, answer };
                let goes_on = turn(core, &mut outside, &mut backend, memory)?;
                self.scheduler = outside.scheduler;
                goes_on
            }
        };
        self.over = !goes_on;
        Ok(match self.parts.core.open() {
            _ if self.over => Step::End,
            Some(open) => Step::Question(open.at),
            None => seen,
        })
    }

    /// Returns how the simulation ended; `None` while it runs.
    pub fn ended(&self) -> Option<Ended> {
        self.over.then_some(self.parts.backend.ended)
    }

    /// Returns when the simulation ended; `None` while it runs. It may end at a limit after its last
    /// event.
    pub fn ended_at(&self) -> Option<Time> {
        let backend = &self.parts.backend;
        self.over.then(|| match backend.ended {
            Ended::Horizon => backend.now,
            _ => self.view().now(),
        })
    }

    /// Returns the number of measured jobs that were not submitted before the end; 0 while the
    /// simulation runs.
    ///
    /// # Errors
    /// The rest of the workload cannot be read.
    pub fn unsubmitted(&mut self) -> Result<u64, SimError> {
        if self.over {
            self.unsubmitted += self.parts.backend.count_unsubmitted()?;
        }
        Ok(self.unsubmitted)
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

    /// Returns the last decision.
    pub fn decision(&self) -> &Decision {
        self.parts.core.decision()
    }

    /// Returns the plan of the last decision.
    pub fn plan(&self) -> &Plan {
        &self.decision().plan
    }

    /// Returns the results so far. Jobs that have not ended are unfinished, and so are measured jobs
    /// that have not been submitted. If the rest of the workload cannot be read, these are not
    /// counted.
    pub fn report(mut self) -> Report {
        let rest = self.parts.backend.count_unsubmitted().unwrap_or_default();
        let unsubmitted = self.unsubmitted + rest;
        let (simulation, name) = (&self.simulation, self.scheduler.name());
        simulation.report(name, self.parts, unsubmitted)
    }
}
