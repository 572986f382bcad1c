//! Main loop of simulators: passes a backend's inputs to the core and the core's commands to the
//! backend.

use crate::core::Core;
use crate::decide_error::DecisionError;
use crate::decision::Command;
use crate::event::Event;
use crate::ids::JobId;
use crate::input::{Input, Refused};
use crate::pipeline::Scheduler;
use crate::runtime::Runtime;
use crate::state::EventError;
use crate::units::Time;
use crate::view::View;

/// A cluster that delivers inputs and carries out commands.
///
/// ```
/// # use blox_core::{order::SortKey, policy::by_key};
/// # use blox_testing::FirstFit;
/// # use blox_core::{ClusterSpec, Composition, GpuCount, JobId, JobSpec, Outcome, Rounds};
/// # use blox_core::{Seconds, State};
/// use blox_core::drive::{Backend, drive};
/// use blox_core::{Command, DecisionError, Event, EventError, Input, Time, View, runtime::Runtime};
/// use std::collections::VecDeque;
///
/// /// Delivers a list of events. Launches take no time.
/// struct Script(VecDeque<(Time, Event)>);
///
/// impl Backend for Script {
///     type Error = String;
///
///     fn next(&mut self, due: Option<Time>, _: View<'_>) -> Result<Option<Input>, String> {
///         let at = self.0.front().map(|(at, _)| *at);
///         Ok(match due {
///             Some(due) if at.is_none_or(|at| due < at) => Some(Input::Due { at: due }),
///             _ => self.0.pop_front().map(|(at, event)| Input::Event { at, event }),
///         })
///     }
///
///     fn carry_out(&mut self, _: View<'_>, _: &[Command]) -> Result<(), String> {
///         Ok(()) // without commands, see `is_instant`
///     }
///
///     fn is_instant(&self) -> bool {
///         true
///     }
///
///     fn refused(&mut self, _: Time, _: &Event, error: EventError) -> Result<(), String> {
///         Err(error.to_string())
///     }
///
///     fn lost_turn(&mut self, _: Time, error: DecisionError) -> Result<(), String> {
///         Err(error.to_string())
///     }
/// }
///
/// # let mut fifo = Composition::new("fifo")
/// #     .scheduling(by_key(|job| SortKey::by(job.submit().secs())).valid_until_event())
/// #     .placement(FirstFit).build()?;
/// # let spec = JobSpec::new(Time::ZERO, GpuCount(2), Seconds::new(600.0)).into();
/// let job = JobId(0);
/// let submitted = (Time::ZERO, Event::Submitted { job, spec });
/// let ended = (Time::new(600.0), Event::Ended { job, outcome: Outcome::Completed });
/// let state = State::new(&ClusterSpec::uniform(1, 4))?;
/// let mut runtime = Runtime::new(state, Box::new(Rounds::default()));
/// let mut script = Script(VecDeque::from([submitted, ended]));
/// drive(&mut runtime, &mut fifo, &mut script)?;
/// assert_eq!(runtime.core().counters().placements, 1);
/// assert_eq!(runtime.state().live_jobs(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Backend {
    /// Error that ends the loop.
    type Error;

    /// Returns the next event, or [`Input::Due`] at `due`, whichever is first. Events at `due` itself
    /// come before it. Returns `None` if there are no more inputs.
    fn next(&mut self, due: Option<Time>, view: View<'_>) -> Result<Option<Input>, Self::Error>;

    /// Carries out commands. The results are later inputs.
    fn carry_out(&mut self, view: View<'_>, commands: &[Command]) -> Result<(), Self::Error>;

    /// Returns whether stops and launches take no time and cannot fail. If so, the core applies
    /// plans without commands and reports, unless a collector observes each launch and stop.
    fn is_instant(&self) -> bool {
        false
    }

    /// Called after a plan was applied without commands. [`Core::launched`] returns the launched
    /// jobs in the plan's order. The backend adds each job that does not run at its own rate to
    /// `rates`, in the same order.
    fn launched(&mut self, core: &Core, rates: &mut Vec<(JobId, f64)>) {
        let _ = (core, rates);
    }

    /// Called after the rates of [`Backend::launched`] were applied. The view shows them.
    fn rated(&mut self, view: View<'_>, rates: &[(JobId, f64)]) {
        let _ = (view, rates);
    }

    /// Called after an event was applied. The view shows its effect.
    fn applied(&mut self, view: View<'_>, event: &Event) {
        let _ = (view, event);
    }

    /// Called if an event contradicted the state and was dropped. An error ends the loop.
    fn refused(&mut self, at: Time, event: &Event, error: EventError) -> Result<(), Self::Error>;

    /// Called if the scheduler lost its turn, or panicked while it was notified of an event or
    /// plan. An error ends the loop.
    fn lost_turn(&mut self, at: Time, error: DecisionError) -> Result<(), Self::Error>;
}

/// Runs a scheduler on a backend until the backend ends.
///
/// # Errors
/// The error that the backend returns.
pub fn drive<B: Backend>(
    runtime: &mut Runtime,
    scheduler: &mut dyn Scheduler,
    backend: &mut B,
) -> Result<(), B::Error> {
    let mut memory = Turn::default();
    while turn(runtime, scheduler, backend, &mut memory)? {}
    Ok(())
}

/// Buffers that are reused in each turn.
#[derive(Debug, Default)]
pub struct Turn {
    pauses: bool,
    commands: Vec<Command>,
    rates: Vec<(JobId, f64)>,
}

impl Turn {
    /// Creates the buffers of turns that pause at each question: the next turn decides it.
    pub fn pausing() -> Self {
        Turn {
            pauses: true,
            ..Turn::default()
        }
    }
}

/// Runs one turn of [`drive`]: one input with its decision and commands. Returns `false` if the
/// backend has ended.
///
/// # Errors
/// The error that the backend returns.
#[inline]
pub fn turn<B: Backend>(
    runtime: &mut Runtime,
    scheduler: &mut dyn Scheduler,
    backend: &mut B,
    memory: &mut Turn,
) -> Result<bool, B::Error> {
    if memory.pauses
        && let Some(open) = runtime.core().open()
    {
        decide(runtime, scheduler, backend, memory, open.at)?;
        return settle(runtime, backend, memory);
    }
    let Some(input) = backend.next(runtime.due(), runtime.view())? else {
        return Ok(false);
    };
    match runtime.take(&input, scheduler) {
        Err(Refused::Event(error)) => {
            if let Input::Event { at, event } = &input {
                backend.refused(*at, event, error)?;
            }
        }
        // The backend delivered the decision itself, and its plan is invalid.
        Err(Refused::Plan(error)) => {
            let policy = scheduler.name().into();
            let error = DecisionError::Plan { policy, error };
            backend.lost_turn(runtime.state().now(), error)?;
        }
        Ok(()) => {
            if let Input::Event { event, .. } = &input {
                backend.applied(runtime.view(), event);
            }
        }
        // A repeated or late input has changed nothing.
        Err(_) => {}
    }
    if let Input::Due { at } = input
        && !memory.pauses
        && runtime.asks()
    {
        decide(runtime, scheduler, backend, memory, at)?;
    }
    settle(runtime, backend, memory)
}

/// Ends a turn: carries out its commands, and returns true.
#[inline]
fn settle<B: Backend>(
    runtime: &mut Runtime,
    backend: &mut B,
    memory: &mut Turn,
) -> Result<bool, B::Error> {
    if let Some(error) = runtime.take_missed() {
        backend.lost_turn(runtime.state().now(), error)?;
    }
    if runtime.has_commands() {
        runtime.take_commands(&mut memory.commands);
        backend.carry_out(runtime.view(), &memory.commands)?;
        memory.commands.clear();
    }
    Ok(true)
}

fn decide<B: Backend>(
    runtime: &mut Runtime,
    scheduler: &mut dyn Scheduler,
    backend: &mut B,
    memory: &mut Turn,
    at: Time,
) -> Result<(), B::Error> {
    if let Err(error) = runtime.answer(at, backend.is_instant(), scheduler) {
        return backend.lost_turn(at, error);
    }
    if !runtime.was_instant() {
        return Ok(());
    }
    let mut rates = std::mem::take(&mut memory.rates);
    rates.clear();
    backend.launched(runtime.core(), &mut rates);
    let input = Input::Launched { rates };
    let taken = runtime.take(&input, scheduler);
    if let Input::Launched { rates } = input {
        if taken.is_ok() {
            backend.rated(runtime.view(), &rates);
        }
        memory.rates = rates;
    }
    Ok(())
}
