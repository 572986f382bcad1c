//! What was read and what was decided, with its moment.
//!
//! One JSON value a line. A journal of either backend, replayed, gives the same
//! decisions: [`replay`] checks it.

use crate::cadence::Cadence;
use crate::core::{Core, Decided};
use crate::decision::Plan;
use crate::event::Event;
use crate::pipeline::{Decide, DecideError};
use crate::state::{EventError, State};
use crate::units::Time;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};
use std::sync::{Arc, Mutex};

/// One line of a journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Entry {
    /// Something happened.
    Event {
        /// When.
        at: Time,
        /// What.
        event: Event,
        /// Whether it was no news but what the decision that follows made: a verdict, or an
        /// action on a node.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        own: bool,
    },
    /// A plan was made and applied.
    Decision {
        /// When.
        at: Time,
        /// The plan.
        plan: Plan,
    },
    /// The policy lost its turn.
    Failed {
        /// When.
        at: Time,
        /// Whether the policy was asked in the loop and erred; else it ran
        /// beside the loop, and nothing came of it.
        in_loop: bool,
        /// Why.
        why: String,
    },
}

/// Keeps entries. It may not fail: an implementation that writes keeps its
/// first error for whoever closes it.
pub trait Journal: Send {
    /// Takes an entry.
    fn record(&mut self, entry: &Entry);

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
    fn record(&mut self, entry: &Entry) {
        if self.error.is_some() {
            return;
        }
        let result = serde_json::to_writer(&mut self.out, entry)
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
    /// A line is no entry.
    #[error("line {line}: not a journal entry: {error}")]
    Entry {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        error: serde_json::Error,
    },
    /// An event contradicts what came before it.
    #[error("line {line}: {error}")]
    Event {
        /// The line, from 1.
        line: usize,
        /// How.
        error: EventError,
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

/// What a decision made by itself: verdicts and node actions.
#[derive(Clone, Default)]
struct OwnEvents(Arc<Mutex<Vec<Event>>>);

impl OwnEvents {
    fn take(&self) -> Vec<Event> {
        match self.0.lock() {
            Ok(mut events) => std::mem::take(&mut *events),
            Err(_) => Vec::new(),
        }
    }
}

impl Journal for OwnEvents {
    fn record(&mut self, entry: &Entry) {
        if let Entry::Event {
            event, own: true, ..
        } = entry
            && let Ok(mut events) = self.0.lock()
        {
            events.push(event.clone());
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Feeds a journal's events to a fresh core and has the decisions made again,
/// each at its place in the journal. Returns how many decisions were equal:
/// verdicts and node actions as well as plans, and turns that were lost.
///
/// # Errors
/// The first line that cannot be read, or whose decision differs.
pub fn replay(
    journal: impl BufRead,
    state: State,
    cadence: Box<dyn Cadence>,
    policy: &mut dyn Decide,
) -> Result<u64, ReplayError> {
    let own = OwnEvents::default();
    let mut core = Core::new(state, cadence).with_journal(Box::new(own.clone()));
    let mut commands = Vec::new();
    let mut expected_own = Vec::new();
    let mut equal = 0;
    for (i, text) in journal.lines().enumerate() {
        let line = i + 1;
        let text = text.map_err(|error| ReplayError::Read { line, error })?;
        let entry: Entry =
            serde_json::from_str(&text).map_err(|error| ReplayError::Entry { line, error })?;
        match entry {
            // The decision makes these anew.
            Entry::Event {
                event, own: true, ..
            } => expected_own.push(event),
            Entry::Event { at, event, .. } => core
                .event(at, &event, policy)
                .map_err(|error| ReplayError::Event { line, error })?,
            Entry::Decision { at, plan } => {
                let decided = core.decide(at, policy);
                let (found_own, found) = (own.take(), core.plan());
                if decided != Decided::Applied
                    || found.actions != plan.actions
                    || found_own != expected_own
                {
                    return Err(ReplayError::Differs {
                        line,
                        at,
                        expected: format!("{expected_own:?}, {:?}", plan.actions),
                        found: format!("{found_own:?}, {:?} ({decided:?})", found.actions),
                    });
                }
                expected_own.clear();
                equal += 1;
            }
            Entry::Failed { at, in_loop, why } => {
                let decided = if in_loop {
                    core.decide(at, policy)
                } else {
                    core.policy_failed(at, DecideError::Journaled(why.clone()))
                };
                let found = match &decided {
                    Decided::Failed(error) => error.to_string(),
                    Decided::Applied => format!("{:?}", core.plan().actions),
                };
                if found != why || own.take() != expected_own {
                    return Err(ReplayError::Differs {
                        line,
                        at,
                        expected: why,
                        found,
                    });
                }
                expected_own.clear();
                equal += 1;
            }
        }
        commands.clear();
        core.take_commands(&mut commands);
    }
    Ok(equal)
}
