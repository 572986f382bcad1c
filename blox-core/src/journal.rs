//! Journals of the inputs of a core.
//!
//! One [`Input`] a line, as JSON. A journal of either backend, replayed, gives the same
//! decisions: [`replay`](crate::replay::replay()) checks it.

use crate::core::Saved;
use crate::ids::Name;
use crate::input::Input;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::Write;

/// Keeps the inputs that a core took. It may not fail: an implementation that writes keeps its
/// first error for its last flush.
pub trait Journal: Send {
    /// Takes how the scheduler is, before the first input. A journal that need not be replayed
    /// has no use for it.
    fn start(&mut self, start: &Start) {
        let _ = start;
    }

    /// Takes an input.
    fn record(&mut self, input: &Input);

    /// Brings what was taken to where it lasts.
    ///
    /// # Errors
    /// The first error since the journal was opened.
    fn flush(&mut self) -> std::io::Result<()>;
}

/// The state of core and scheduler at the start of a journal: its first line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Start {
    /// The name of the scheduler.
    pub scheduler: Name,
    /// The core.
    pub core: Saved,
    /// The memory of the scheduler; `None` if it has none.
    pub policy: Option<Value>,
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

impl<W: Write> JsonLines<W> {
    fn line(&mut self, value: &impl Serialize) {
        if self.error.is_some() {
            return;
        }
        let result = serde_json::to_writer(&mut self.out, value)
            .map_err(std::io::Error::from)
            .and_then(|()| self.out.write_all(b"\n"));
        self.error = result.err();
    }
}

impl<W: Write + Send> Journal for JsonLines<W> {
    fn start(&mut self, start: &Start) {
        self.line(&Line::Start(Box::new(start.clone())));
    }

    fn record(&mut self, input: &Input) {
        self.line(input);
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match &self.error {
            // It stays: what comes later would follow a hole.
            Some(e) => Err(std::io::Error::new(e.kind(), e.to_string())),
            None => self.out.flush(),
        }
    }
}

/// A line of a journal.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Line {
    Start(Box<Start>),
    #[serde(untagged)]
    Input(Input),
}
