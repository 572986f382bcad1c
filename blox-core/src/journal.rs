//! What was read and what was decided, with its moment.
//!
//! One [`Input`] a line, as JSON. A journal of either backend, replayed, gives the same
//! decisions: [`replay`] checks it.

use crate::cadence::Cadence;
use crate::core::Core;
use crate::decision::{Command, Decision};
use crate::input::{Input, Refused};
use crate::lens::Lens;
use crate::pipeline::{Decide, DecideError};
use crate::runtime::{Observers, Tentative};
use crate::state::State;
use crate::units::Time;
use std::io::{BufRead, Write};

/// Keeps the inputs that a core took. It may not fail: an implementation that writes keeps its
/// first error for its last flush.
pub trait Journal: Send {
    /// Takes an input.
    fn record(&mut self, input: &Input);

    /// Brings what was taken to where it lasts.
    ///
    /// # Errors
    /// The first error since the journal was opened.
    fn flush(&mut self) -> std::io::Result<()>;
}

/// A journal of JSON lines.
pub struct JsonLines<W> {
    out: W,
    error: Option<std::io::Error>,
}

impl<W: Write> JsonLines<W> {
    /// Onto `out`, which should buffer.
    pub fn new(out: W) -> Self {
        JsonLines { out, error: None }
    }
}

impl<W: Write + Send> Journal for JsonLines<W> {
    fn record(&mut self, input: &Input) {
        if self.error.is_some() {
            return;
        }
        let result = serde_json::to_writer(&mut self.out, input)
            .map_err(std::io::Error::from)
            .and_then(|()| self.out.write_all(b"\n"));
        self.error = result.err();
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match &self.error {
            // It stays: what comes later would follow a hole.
            Some(e) => Err(std::io::Error::new(e.kind(), e.to_string())),
            None => self.out.flush(),
        }
    }
}

/// A journal that cannot be read or replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// It cannot be read.
    #[error("line {line}: {error}")]
    Read {
        /// The line, from 1.
        line: usize,
        /// What went wrong.
        error: std::io::Error,
    },
    /// A line is no input.
    #[error("line {line}: not an input of a journal: {error}")]
    Input {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        error: serde_json::Error,
    },
    /// An input contradicts what came before it.
    #[error("line {line}: {error}")]
    Refused {
        /// The line, from 1.
        line: usize,
        /// How.
        error: Refused,
    },
    /// An answer without a question.
    #[error("line {line}: an answer to question {question}, which was not asked")]
    NotAsked {
        /// The line, from 1.
        line: usize,
        /// The number of the question.
        question: u64,
    },
    /// The policy decided otherwise than the journal says.
    #[error("line {line}: at {at} the journal holds {expected}, the policy decides {found}")]
    Differs {
        /// The line, from 1.
        line: usize,
        /// When.
        at: Time,
        /// What the journal holds.
        expected: String,
        /// What the policy decides now.
        found: String,
    },
}

/// Reads the inputs of a journal, each with its line from 1.
pub fn inputs(journal: impl BufRead) -> impl Iterator<Item = Result<(usize, Input), ReplayError>> {
    journal.lines().enumerate().map(|(i, text)| {
        let line = i + 1;
        let text = text.map_err(|error| ReplayError::Read { line, error })?;
        let input =
            serde_json::from_str(&text).map_err(|error| ReplayError::Input { line, error })?;
        Ok((line, input))
    })
}

/// Feeds a journal to a fresh core, has each question answered again, and compares the answers.
/// Returns how many are equal: node actions and answers of admission as well as plans, and turns
/// that were lost. A turn that was lost because an answer took too long is not compared.
///
/// Collectors in `observers` hear what they heard in the run that wrote the journal.
///
/// # Errors
/// The first line that cannot be read, or whose answer differs.
pub fn replay(
    journal: impl BufRead,
    state: State,
    cadence: Box<dyn Cadence>,
    policy: Box<dyn Decide>,
    observers: &mut Observers,
) -> Result<u64, ReplayError> {
    let mut core = Core::new(state, cadence);
    let mut lens = Lens::default();
    let mut commands: Vec<Command> = Vec::new();
    let mut found = Ok(Box::<Decision>::default());
    let mut policy = Tentative::new(policy);
    let mut equal = 0;
    for read in inputs(journal) {
        let (line, input) = read?;
        let differs = |at: Time, expected: String, found: &Result<Box<Decision>, DecideError>| {
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
        match &input {
            Input::Decided {
                at,
                question,
                decision,
                ..
            } => {
                if core.open().is_none_or(|q| q.number != *question) {
                    let question = *question;
                    return Err(ReplayError::NotAsked { line, question });
                }
                if found.as_ref().ok() != Some(decision) {
                    return Err(differs(*at, format!("{decision:?}"), &found));
                }
                equal += 1;
            }
            Input::Lost { at, why, .. } => {
                let timed_out = matches!(why, DecideError::TimedOut { .. });
                if !timed_out && found.as_ref().err() != Some(why) {
                    return Err(differs(*at, why.to_string(), &found));
                }
                equal += 1;
            }
            _ => {}
        }
        policy.settle(&input);
        match observers.handle(&mut core, &mut policy, &input, &mut commands) {
            Ok(()) | Err(Refused::Plan(_)) => {}
            Err(error) => return Err(ReplayError::Refused { line, error }),
        }
        if let Input::Due { .. } = input {
            let mut decision = found.unwrap_or_default();
            let made = core.decide(policy.ask(), &mut lens, &mut decision);
            found = made.map(|()| decision);
        }
        commands.clear();
    }
    Ok(equal)
}
