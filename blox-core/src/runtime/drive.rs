//! Main loop of simulators: passes a backend's inputs to the core and the core's commands to the
//! backend.

use crate::decide_error::DecisionError;
use crate::decision::{Command, Plan};
use crate::event::Event;
use crate::input::{Input, Instant, Refused};
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
/// use blox_core::{Command, DecisionError, Event, EventError, Input, Instant, Time, View};
/// use blox_core::runtime::Runtime;
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
///         Ok(()) // without commands, see `instant`
///     }
///
///     fn instant(&self) -> Instant {
///         Instant::Own
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

    /// Returns the stops and launches that take no time and cannot fail. The core applies them with
    /// their plan, without commands and reports.
    fn instant(&self) -> Instant {
        Instant::Nothing
    }

    /// Called after an event was applied. The view shows its effect.
    fn applied(&mut self, view: View<'_>, event: &Event) {
        let _ = (view, event);
    }

    /// Called after a plan was applied some of whose stops and launches took no time. In the view,
    /// the jobs wait or run. Commands for other launches follow.
    fn applied_at_once(&mut self, view: View<'_>, plan: &Plan) {
        let _ = (view, plan);
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
        decide(runtime, scheduler, backend, open.at)?;
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
        decide(runtime, scheduler, backend, at)?;
    }
    settle(runtime, backend, memory)
}

/// Answers the open question.
#[inline]
fn decide<B: Backend>(
    runtime: &mut Runtime,
    scheduler: &mut dyn Scheduler,
    backend: &mut B,
    at: Time,
) -> Result<(), B::Error> {
    match runtime.answer(at, backend.instant(), scheduler) {
        Err(error) => return backend.lost_turn(at, error),
        Ok(()) if runtime.was_instant() => {
            backend.applied_at_once(runtime.view(), &runtime.decision().plan);
        }
        Ok(()) => {}
    }
    Ok(())
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
