//! Journals of the inputs of a core.
//!
//! Each line is one [`Input`] as JSON. A replay repeats the decisions of a journal from either
//! backend; [`replay`](crate::replay::replay()) checks this.

use crate::core::Saved;
use crate::ids::{JobId, Name};
use crate::input::Input;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::Write;

/// Records the inputs that a core accepts. Recording cannot fail: an implementation that writes
/// keeps its first error for [`Journal::flush`].
///
/// ```
/// use blox_core::{Input, Time, journal::Journal};
/// use std::sync::{Arc, atomic::{AtomicU64, Ordering}};
///
/// /// Counts decision moments.
/// struct Moments(Arc<AtomicU64>);
///
/// impl Journal for Moments {
///     fn record(&mut self, input: &Input) {
///         if let Input::Due { .. } = input {
///             self.0.fetch_add(1, Ordering::Relaxed);
///         }
///     }
///
///     fn flush(&mut self) -> std::io::Result<()> {
///         Ok(())
///     }
/// }
///
/// let count = Arc::new(AtomicU64::new(0));
/// let mut journal = Moments(count.clone());
/// journal.record(&Input::Due { at: Time::ZERO });
/// journal.flush()?;
/// assert_eq!(count.load(Ordering::Relaxed), 1);
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait Journal: Send {
    /// Records the initial state of core and scheduler, before the first input. Only replays need
    /// it.
    fn start(&mut self, start: &Start) {
        let _ = start;
    }

    /// Records an input.
    fn record(&mut self, input: &Input);

    /// Flushes all recorded inputs to the output.
    ///
    /// # Errors
    /// The first error since the journal was opened.
    fn flush(&mut self) -> std::io::Result<()>;
}

/// Initial state of core and scheduler: the first line of a journal.
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
    /// Creates a journal that writes to `out`, which should be buffered.
    pub fn new(out: W) -> Self {
        JsonLines { out, error: None }
    }

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
            // The error stays, because later lines would follow a gap.
            Some(e) => Err(std::io::Error::new(e.kind(), e.to_string())),
            None => self.out.flush(),
        }
    }
}

/// A line of a journal.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Line {
    Start(Box<Start>),
    /// Rates of the jobs that the last decision launched, in journals of earlier versions. A job that is
    /// not listed runs at its own rate.
    Launched(Vec<(JobId, f64)>),
    #[serde(untagged)]
    Input(Input),
}

impl Line {
    /// Parses a line. The first key shows whether it is an input.
    // Inlined, so that only programs that replay journals compile the parsers, and this crate does
    // not.
    #[inline]
    pub(crate) fn parse(text: &str) -> serde_json::Result<Line> {
        #[derive(Deserialize)]
        struct First {
            start: Box<Start>,
        }
        #[derive(Deserialize)]
        struct Before {
            launched: Rates,
        }
        #[derive(Deserialize)]
        struct Rates {
            rates: Vec<(JobId, f64)>,
        }
        match text.split('"').nth(1) {
            Some("start") => {
                serde_json::from_str(text).map(|first: First| Line::Start(first.start))
            }
            Some("launched") => serde_json::from_str(text)
                .map(|before: Before| Line::Launched(before.launched.rates)),
            _ => serde_json::from_str(text).map(Line::Input),
        }
    }
}
