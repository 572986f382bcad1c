//! Logs that runs write and comparisons read.

use blox_core::input::Input;
use blox_core::journal::Journal;
use std::sync::{Arc, Mutex, PoisonError};

/// A log that outlives the run.
#[derive(Debug, Default)]
pub(crate) struct Log<T>(Arc<Mutex<T>>);

/// Reads the inputs of the core.
pub(crate) trait Reads {
    /// Adds an input to the log.
    fn read(&mut self, input: &Input);
}

impl<T> Clone for Log<T> {
    fn clone(&self) -> Self {
        Log(Arc::clone(&self.0))
    }
}

impl<T> Log<T> {
    /// Returns the log after the run.
    pub fn take(&self) -> T
    where
        T: Default,
    {
        self.with(std::mem::take)
    }

    /// Changes the log.
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T: Reads + Send> Journal for Log<T> {
    fn record(&mut self, input: &Input) {
        self.with(|log| log.read(input));
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
