//! The loop that simulators share: a backend's inputs to the core, the core's commands to the
//! backend.

use crate::decision::Command;
use crate::event::Event;
use crate::ids::JobId;
use crate::input::{Input, Refused};
use crate::pipeline::{Decide, DecideError};
use crate::runtime::Runtime;
use crate::state::EventError;
use crate::units::Time;
use crate::view::View;

/// A cluster: inputs in, commands out.
///
/// The functions are `async` for backends that wait; a simulator is always ready.
#[allow(
    async_fn_in_trait,
    reason = "used generically, never as a trait object"
)]
pub trait Backend {
    /// Why it cannot go on.
    type Error;

    /// Waits for what comes first: an event, or the moment `due`. Events at `due` itself come
    /// before it. `None` if there will be nothing more.
    async fn next(
        &mut self,
        due: Option<Time>,
        view: View<'_>,
    ) -> Result<Option<Input>, Self::Error>;

    /// Carries commands out. What becomes of them comes back as events.
    async fn carry_out(&mut self, view: View<'_>, commands: &[Command]) -> Result<(), Self::Error>;

    /// Returns whether stops and launches take no time and cannot fail. Plans of such steps are
    /// then carried out without commands and reports, unless a collector wants to hear of them.
    fn is_instant(&self) -> bool {
        false
    }

    /// A plan was carried out without commands. `jobs` are those that it launched, in its order:
    /// those that run at another rate than their own go into `rates`, in that order.
    fn launched(&mut self, view: View<'_>, jobs: Launched<'_>, rates: &mut Vec<(JobId, f64)>) {
        let _ = (view, jobs, rates);
    }

    /// The view shows the rates that [`Backend::launched`] gave.
    fn rated(&mut self, view: View<'_>, rates: &[(JobId, f64)]) {
        let _ = (view, rates);
    }

    /// An event contradicted the state and was dropped. An error ends the loop.
    fn refused(&mut self, at: Time, event: &Event, error: EventError) -> Result<(), Self::Error>;

    /// The scheduler lost its turn, or panicked when it was told of an event. An error ends the
    /// loop.
    fn lost_turn(&mut self, at: Time, error: DecideError) -> Result<(), Self::Error>;
}

/// The jobs that a plan launched without commands.
pub struct Launched<'a>(&'a Runtime);

impl<'a> Launched<'a> {
    /// In the order of the plan.
    pub fn jobs(&self) -> impl Iterator<Item = crate::job::JobRef<'a>> + use<'a> {
        self.0.core().launched()
    }
}

/// Runs a scheduler on a backend until the backend ends.
///
/// # Errors
/// The backend cannot go on.
pub async fn drive<B: Backend>(
    runtime: &mut Runtime,
    scheduler: &mut dyn Decide,
    backend: &mut B,
) -> Result<(), B::Error> {
    let mut memory = Turn::default();
    while turn(runtime, scheduler, backend, &mut memory).await? {}
    Ok(())
}

/// Memory between turns.
#[derive(Debug, Default)]
pub struct Turn {
    commands: Vec<Command>,
    rates: Vec<(JobId, f64)>,
}

/// One turn of [`drive`]: one input, and what follows from it. `false` once the backend has
/// ended.
///
/// # Errors
/// The backend cannot go on.
#[inline]
pub async fn turn<B: Backend>(
    runtime: &mut Runtime,
    scheduler: &mut dyn Decide,
    backend: &mut B,
    memory: &mut Turn,
) -> Result<bool, B::Error> {
    let Some(input) = backend.next(runtime.due(), runtime.view()).await? else {
        return Ok(false);
    };
    match runtime.take(&input, scheduler) {
        Err(Refused::Event(error)) => {
            if let Input::Event { at, event } = &input {
                backend.refused(*at, event, error)?;
            }
        }
        // A backend that answers itself lost the turn.
        Err(Refused::Plan(error)) => {
            let policy = scheduler.name().into();
            let error = DecideError::Plan { policy, error };
            backend.lost_turn(runtime.state().now(), error)?;
        }
        // Said twice or too late: nothing has changed.
        Ok(()) | Err(_) => {}
    }
    if let Input::Due { at } = input
        && runtime.asks()
    {
        decide(runtime, scheduler, backend, memory, at)?;
    }
    if let Some(error) = runtime.take_missed() {
        backend.lost_turn(runtime.state().now(), error)?;
    }
    if runtime.has_commands() {
        runtime.take_commands(&mut memory.commands);
        backend.carry_out(runtime.view(), &memory.commands).await?;
        memory.commands.clear();
    }
    Ok(true)
}

fn decide<B: Backend>(
    runtime: &mut Runtime,
    scheduler: &mut dyn Decide,
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
    backend.launched(runtime.view(), Launched(runtime), &mut rates);
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

/// Runs a future that never waits, such as [`drive`] over a simulator, to its
/// end on this thread.
///
/// A future that does wait is polled again at once: correct, but busy.
pub fn run_ready<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    loop {
        if let std::task::Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        std::thread::yield_now();
    }
}
