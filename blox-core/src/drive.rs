//! The loop that simulator and daemon share.

use crate::core::{Core, Decided, Decision};
use crate::decision::{Command, Outlook};
use crate::event::Event;
use crate::job::JobRef;
use crate::pipeline::{Decide, DecideError};
use crate::state::EventError;
use crate::units::Time;
use crate::view::View;

/// What a backend has to say next.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// Something happened.
    Event(Time, Event),
    /// The moment that was asked for has come, and all events up to it were told.
    Due(Time),
    /// A decision that was made beside the loop is there.
    Answer(Time, Box<Decision>, Outlook),
    /// The policy panicked, or gave no answer within the backend's limit.
    PolicyFailed(Time, Box<DecideError>),
    /// There will be nothing more.
    End,
}

/// A backend in which stops and launches take no time and never fail. In which order it is asked
/// about the launches of one plan is open.
pub trait AtOnce {
    /// A job that waited runs from now on. The view shows the plan as carried out, and the job
    /// at the rate that it [says of itself](JobRef::own_rate). If it may do another, `Some` of
    /// the one that it does, in iterations a second: [`launched_at`](AtOnce::launched_at) follows.
    fn launched(&mut self, view: View<'_>, job: &JobRef<'_>) -> Option<f64>;

    /// The job of the last call, at the rate that was said.
    fn launched_at(&mut self, view: View<'_>, job: &JobRef<'_>);

    /// A plan with stops or launches was carried out, its launches included.
    fn carried_out(&mut self, view: View<'_>);
}

/// A cluster, simulated or real: events in, commands out.
///
/// The functions are `async` for the daemon's sake; a simulator is always ready.
#[allow(
    async_fn_in_trait,
    reason = "used generically, never as a trait object"
)]
pub trait Backend {
    /// Why it cannot go on.
    type Error;

    /// Waits for what comes first: an event, an answer, or the moment `due`.
    /// Events at `due` itself come before it.
    async fn next(&mut self, due: Option<Time>, view: View<'_>) -> Result<Input, Self::Error>;

    /// An event that is there already; [`Backend::next`] is asked when there is none. A
    /// backend need not have it.
    fn ready(&mut self, view: View<'_>) -> Option<(Time, Event)> {
        let _ = view;
        None
    }

    /// Carries commands out. What becomes of them comes back as events.
    async fn carry_out(&mut self, view: View<'_>, commands: &[Command]) -> Result<(), Self::Error>;

    /// Itself, as long as stops and launches take no time and cannot fail. Plans of
    /// such steps are then carried out without commands and reports, if nobody
    /// would see these.
    fn at_once(&mut self) -> Option<&mut dyn AtOnce> {
        None
    }

    /// A decision is due. `true` if the policy may be called here and now (a
    /// simulator); `false` if the backend has handed the question to a policy
    /// that runs beside the loop, and will bring the answer.
    async fn ask(&mut self, at: Time, view: View<'_>) -> Result<bool, Self::Error> {
        let _ = (at, view);
        Ok(true)
    }

    /// An event contradicted the state and was dropped. An error ends the loop.
    fn refused(&mut self, at: Time, event: &Event, error: EventError) -> Result<(), Self::Error>;

    /// The policy lost its turn, or panicked when it was told of an event. An error ends the loop.
    fn lost_turn(&mut self, at: Time, error: DecideError) -> Result<(), Self::Error>;
}

/// Runs a scheduler on a backend until the backend ends.
///
/// # Errors
/// What the backend says.
pub async fn drive<B: Backend>(
    core: &mut Core,
    policy: &mut dyn Decide,
    backend: &mut B,
) -> Result<(), B::Error> {
    let mut commands = Vec::new();
    while turn(core, policy, backend, &mut commands).await? {}
    Ok(())
}

/// One turn of [`drive`]: one input, and what follows from it. `false` once the
/// backend has ended. `commands` is memory between turns, empty at first.
///
/// # Errors
/// What the backend says.
#[inline]
pub async fn turn<B: Backend>(
    core: &mut Core,
    policy: &mut dyn Decide,
    backend: &mut B,
    commands: &mut Vec<Command>,
) -> Result<bool, B::Error> {
    if let Some((at, event)) = backend.ready(core.view()) {
        told(core, policy, backend, at, &event)?;
    } else {
        let input = backend.next(core.due(), core.view()).await?;
        match input {
            Input::Event(at, event) => told(core, policy, backend, at, &event)?,
            Input::Due(at) => {
                if backend.ask(at, core.view()).await? {
                    let made = match backend.at_once() {
                        Some(at_once) => core.decide_at_once(at, policy, at_once),
                        None => core.decide(at, policy),
                    };
                    decided(backend, at, made)?;
                } else {
                    core.asked();
                }
            }
            Input::Answer(at, decision, outlook) => {
                decided(backend, at, core.answer(at, *decision, outlook, policy))?;
            }
            Input::PolicyFailed(at, error) => {
                decided(backend, at, core.policy_failed(at, *error))?;
            }
            Input::End => return Ok(false),
        }
    }
    if let Some(error) = core.take_missed() {
        backend.lost_turn(core.state().now(), error)?;
    }
    if core.has_commands() {
        core.take_commands(commands);
        backend.carry_out(core.view(), commands).await?;
        commands.clear();
    }
    Ok(true)
}

#[inline]
fn told<B: Backend>(
    core: &mut Core,
    policy: &mut dyn Decide,
    backend: &mut B,
    at: Time,
    event: &Event,
) -> Result<(), B::Error> {
    match core.event(at, event, policy) {
        Ok(()) => Ok(()),
        Err(error) => backend.refused(at, event, error),
    }
}

fn decided<B: Backend>(backend: &mut B, at: Time, decided: Decided) -> Result<(), B::Error> {
    match decided {
        Decided::Applied => Ok(()),
        Decided::Failed(error) => backend.lost_turn(at, error),
    }
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
