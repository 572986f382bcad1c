//! Counters of the scheduler process.

use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};

/// Counters of the scheduler process.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Number of log synchronizations.
    pub syncs: AtomicU64,
    /// Total duration of synchronizations in microseconds.
    pub sync_us: AtomicU64,
    /// Bytes of the log since its last snapshot.
    pub log_bytes: AtomicU64,
    /// Inputs that the scheduler processed.
    pub steps: AtomicU64,
    /// Questions sent to the policy.
    pub asked: AtomicU64,
    /// Questions without an answer: errors, panics and timeouts.
    pub unanswered: AtomicU64,
    /// Reason why the log cannot be written; empty if it can.
    no_room: Mutex<String>,
}

impl Counters {
    /// Sets the reason why the log cannot be written; empty if it can be written again.
    pub fn no_room(&self, why: &str) {
        let mut said = self.no_room.lock().unwrap_or_else(PoisonError::into_inner);
        why.clone_into(&mut said);
    }

    /// Returns the reason why the log cannot be written, if any.
    pub fn why_no_room(&self) -> Option<String> {
        let said = self.no_room.lock().unwrap_or_else(PoisonError::into_inner);
        (!said.is_empty()).then(|| said.clone())
    }
}
