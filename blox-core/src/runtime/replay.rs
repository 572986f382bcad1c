//! Replays of journals, with a scheduler or only for collectors.

use crate::core::Core;
use crate::decide_error::DecisionError;
use crate::decision::Decision;
use crate::event::Event;
use crate::ids::{JobId, Name};
use crate::input::{Input, Refused};
use crate::job::{JobRef, Phase};
use crate::journal::{Line, Start};
use crate::pipeline::Scheduler;
use crate::policy::MemoryError;
use crate::runtime::{Follower, Observers};
use crate::state::State;
use crate::trigger::DecisionTrigger;
use crate::units::Time;
use std::io::BufRead;

/// A journal that cannot be read or replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The journal cannot be read.
    #[error("line {line}: {error}")]
    Read {
        /// The line, from 1.
        line: usize,
        /// The read error.
        error: std::io::Error,
    },
    /// A line is not a valid input.
    #[error("line {line}: is no line of a journal, expected a file that --journal wrote: {error}")]
    Input {
        /// The line, from 1.
        line: usize,
        /// The parse error.
        error: serde_json::Error,
    },
    /// An input contradicts the inputs before it.
    #[error("line {line}: {error}")]
    Refused {
        /// The line, from 1.
        line: usize,
        /// The contradiction.
        error: Refused,
    },
    /// The scheduler cannot restore its memory from the journal.
    #[error("line {line}: {error}")]
    Memory {
        /// The line, from 1.
        line: usize,
        /// The reason.
        error: MemoryError,
    },
    /// A decision for a question that is not open.
    #[error("line {line}: an answer to question {question}, which is not open")]
    NotAsked {
        /// The line, from 1.
        line: usize,
        /// The number of the question.
        question: u64,
    },
    /// The scheduler's decision differs from the decision in the journal.
    #[error("line {line}: at {at} the journal holds {expected}, the policy decides {found}")]
    Differs {
        /// The line, from 1.
        line: usize,
        /// Time of the decision.
        at: Time,
        /// Decision in the journal.
        expected: String,
        /// Decision of the scheduler in the replay.
        found: String,
    },
}

fn lines(journal: impl BufRead) -> impl Iterator<Item = Result<(usize, Line), ReplayError>> {
    journal.lines().enumerate().map(|(i, text)| {
        let line = i + 1;
        let text = text.map_err(|error| ReplayError::Read { line, error })?;
        let read = Line::parse(&text).map_err(|error| ReplayError::Input { line, error })?;
        Ok((line, read))
    })
}

/// Reads the inputs of a journal, each with its line number from 1. Without rates of launches, which
/// journals of earlier versions have in lines of their own.
pub fn inputs(journal: impl BufRead) -> impl Iterator<Item = Result<(usize, Input), ReplayError>> {
    lines(journal).filter_map(|read| match read {
        Ok((line, Line::Input(input))) => Some(Ok((line, input))),
        Ok((_, Line::Start(_) | Line::Launched(_))) => None,
        Err(error) => Some(Err(error)),
    })
}

/// Returns the reports of launches for which a journal of an earlier version gives rates. Such a journal
/// has them in one line after the decision.
fn reports(core: &Core, rates: &[(JobId, f64)]) -> Vec<Input> {
    let (view, at) = (core.view(), core.view().now());
    let starts = |job: &JobRef<'_>| job.phase() == Phase::Starting && job.bound().is_some();
    let started = |job: JobRef<'_>| {
        let its = rates.iter().find(|(id, _)| *id == job.id());
        let event = Event::Started {
            job: job.id(),
            attempt: job.attempt(),
            rate: its.map_or(job.own_rate(), |(_, rate)| *rate),
        };
        Input::Event { at, event }
    };
    view.placed().filter(starts).map(started).collect()
}

/// Returns the name of the scheduler that wrote a journal, with its parameters. `None` if the first
/// line is an input, as in journals without the state at the start.
///
/// # Errors
/// The first line is not a line of a journal.
pub fn scheduler(journal: impl BufRead) -> Result<Option<Name>, ReplayError> {
    match lines(journal).next().transpose()? {
        Some((_, Line::Start(start))) => Ok(Some(start.scheduler)),
        _ => Ok(None),
    }
}

/// Replays a journal, repeats each decision, and compares it with the journal. The core starts from
/// the first line of the journal, or from `state` if that line is an input.
///
/// Returns the number of equal decisions, lost turns included. Node actions, admission decisions
/// and plans are compared. A turn that was lost by a timeout or a restart counts as equal.
///
/// Collectors in `observers` get the same calls as in the run that wrote the journal.
///
/// # Errors
/// The first line that is invalid, or whose decision differs.
pub fn replay(
    journal: impl BufRead,
    state: State,
    trigger: Box<dyn DecisionTrigger>,
    policy: Box<dyn Scheduler>,
    observers: &mut Observers,
) -> Result<u64, ReplayError> {
    replay_lines(lines(journal), state, trigger, policy, observers)
}

/// Like [`replay`], for inputs in memory. Errors name the number of the input as the line.
///
/// # Errors
/// The first input that contradicts those before it, or whose decision differs.
pub fn replay_inputs(
    inputs: impl IntoIterator<Item = Input>,
    state: State,
    trigger: Box<dyn DecisionTrigger>,
    policy: Box<dyn Scheduler>,
    observers: &mut Observers,
) -> Result<u64, ReplayError> {
    let inputs = inputs.into_iter().enumerate();
    let lines = inputs.map(|(i, input)| Ok((i + 1, Line::Input(input))));
    replay_lines(lines, state, trigger, policy, observers)
}

fn replay_lines(
    lines: impl Iterator<Item = Result<(usize, Line), ReplayError>>,
    state: State,
    trigger: Box<dyn DecisionTrigger>,
    policy: Box<dyn Scheduler>,
    observers: &mut Observers,
) -> Result<u64, ReplayError> {
    let core = Core::new(state, trigger.clone());
    let mut follower = Follower::new(core, policy.clone());
    let mut found = Ok(Box::<Decision>::default());
    let mut equal = 0;
    std::mem::swap(&mut follower.observers, observers);
    for read in lines {
        match read? {
            (line, Line::Input(input)) => {
                equal += u64::from(replay_one(&mut follower, &input, line, &mut found)?);
            }
            (line, Line::Launched(rates)) => {
                for input in reports(follower.core(), &rates) {
                    replay_one(&mut follower, &input, line, &mut found)?;
                }
            }
            (line, Line::Start(start)) => {
                begin(&mut follower, *start, policy.clone(), trigger.clone(), line)?;
            }
        }
    }
    std::mem::swap(&mut follower.observers, observers);
    Ok(equal)
}

/// Begins a journal with the core and the memory in its first line. The observers stay.
fn begin(
    follower: &mut Follower,
    start: Start,
    mut policy: Box<dyn Scheduler>,
    trigger: Box<dyn DecisionTrigger>,
    line: usize,
) -> Result<(), ReplayError> {
    if let Some(memory) = start.policy {
        let memory = policy.restore(memory);
        memory.map_err(|error| ReplayError::Memory { line, error })?;
    }
    let core = Core::restore(start.core, trigger);
    let observers = std::mem::take(&mut follower.observers);
    *follower = Follower::new(core, policy);
    follower.observers = observers;
    Ok(())
}

/// Applies one input of a journal, and compares a decision with the scheduler's. `found` stores the
/// scheduler's decision from one input to the next. Returns whether the input was a decision or a
/// lost turn.
fn replay_one(
    follower: &mut Follower,
    input: &Input,
    line: usize,
    found: &mut Result<Box<Decision>, DecisionError>,
) -> Result<bool, ReplayError> {
    let differs = |at: Time, expected: String, found: &Result<Box<Decision>, DecisionError>| {
        ReplayError::Differs {
            line,
            at,
            expected,
            found: match found {
                Ok(decision) => format!("{decision:?}"),
                Err(error) => error.to_string(),
            },
        }
    };
    match input {
        Input::Decided {
            at,
            question,
            decision,
            ..
        } => {
            if follower.core().open().is_none_or(|q| q.number != *question) {
                let question = *question;
                return Err(ReplayError::NotAsked { line, question });
            }
            if found.as_ref().ok() != Some(decision) {
                return Err(differs(*at, format!("{decision:?}"), found));
            }
        }
        Input::Lost { at, why, .. } => {
            // The missing decision is unknown, so it cannot be compared.
            let unanswered = matches!(
                why,
                DecisionError::TimedOut { .. } | DecisionError::Restarted
            );
            if !unanswered && found.as_ref().err() != Some(why) {
                return Err(differs(*at, why.to_string(), found));
            }
        }
        _ => {}
    }
    match follower.follow(input) {
        Ok(()) | Err(Refused::Plan(_)) => {}
        Err(error) => return Err(ReplayError::Refused { line, error }),
    }
    if let Input::Due { .. } = input {
        let memory = std::mem::replace(found, Ok(Box::default())).unwrap_or_default();
        *found = follower.decide(memory);
    }
    Ok(matches!(input, Input::Decided { .. } | Input::Lost { .. }))
}

/// A copy of core and scheduler at the end of a journal.
#[allow(missing_debug_implementations, reason = "it has a scheduler")]
pub struct Followed {
    /// The copy.
    pub follower: Follower,
    /// The name of the scheduler that wrote the journal if it is another one. Then the scheduler has
    /// no memory of it.
    pub other: Option<Name>,
    /// The last line if it is incomplete, as a crash leaves it. It is left out.
    pub incomplete: Option<usize>,
}

/// Follows a journal to its end, which may still grow. The journal has the decisions; a
/// scheduler that wrote it repeats them for its memory. `each` is called after each input.
///
/// # Errors
/// The first line that cannot be read, or that contradicts the lines before it.
pub fn follow(
    journal: impl BufRead,
    state: State,
    trigger: Box<dyn DecisionTrigger>,
    scheduler: Box<dyn Scheduler>,
    observers: &mut Observers,
    mut each: impl FnMut(&Follower),
) -> Result<Followed, ReplayError> {
    let core = Core::new(state, trigger.clone());
    let mut follower = Follower::new(core, scheduler.clone());
    let (mut other, mut incomplete) = (None, None);
    let mut decision = Box::<Decision>::default();
    let mut all = lines(journal).peekable();
    std::mem::swap(&mut follower.observers, observers);
    while let Some(read) = all.next() {
        let (line, inputs) = match read {
            Err(ReplayError::Input { line, .. }) if all.peek().is_none() => {
                incomplete = Some(line);
                break;
            }
            Err(error) => return Err(error),
            Ok((line, Line::Input(input))) => (line, vec![input]),
            Ok((line, Line::Launched(rates))) => (line, reports(follower.core(), &rates)),
            Ok((line, Line::Start(start))) => {
                let mut start = *start;
                other = Some(start.scheduler.clone()).filter(|name| **name != *scheduler.name());
                if other.is_some() {
                    start.policy = None;
                }
                begin(
                    &mut follower,
                    start,
                    scheduler.clone(),
                    trigger.clone(),
                    line,
                )?;
                continue;
            }
        };
        for input in inputs {
            match follower.follow(&input) {
                Ok(()) | Err(Refused::Plan(_)) => {}
                Err(error) => return Err(ReplayError::Refused { line, error }),
            }
            if other.is_none() && matches!(input, Input::Due { .. }) {
                // Only the memory matters: the journal has the answer.
                decision = follower.decide(decision).unwrap_or_default();
            }
            each(&follower);
        }
    }
    std::mem::swap(&mut follower.observers, observers);
    if other.is_some() {
        // It was notified of the events, but never decided.
        let core = follower.into_core();
        follower = Follower::new(core, scheduler);
    }
    Ok(Followed {
        follower,
        other,
        incomplete,
    })
}

/// Replays a journal for collectors, without a scheduler. Collectors get the same calls as in the
/// run that wrote the journal. Returns the core after the last input.
///
/// # Errors
/// The first line that cannot be read, or that contradicts the lines before it.
pub fn watch(
    journal: impl BufRead,
    state: State,
    trigger: Box<dyn DecisionTrigger>,
    observers: &mut Observers,
) -> Result<Core, ReplayError> {
    let mut core = Core::new(state, trigger.clone());
    let mut commands = Vec::new();
    for read in lines(journal) {
        let (line, inputs) = match read? {
            (line, Line::Input(input)) => (line, vec![input]),
            (line, Line::Launched(rates)) => (line, reports(&core, &rates)),
            (_, Line::Start(start)) => {
                core = Core::restore(start.core, trigger.clone());
                continue;
            }
        };
        for input in inputs {
            match observers.handle(&mut core, &mut [], &input, &mut commands) {
                Ok(()) | Err(Refused::Plan(_)) => {}
                Err(error) => return Err(ReplayError::Refused { line, error }),
            }
        }
        commands.clear();
    }
    Ok(core)
}
