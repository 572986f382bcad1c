//! A hash of all inputs and decisions of a run.

use blox_core::{Event, MetricCollector, Plan, View};
use hmac_sha256::Hash;
use serde::Serialize;
use std::fmt;

/// Hashes events, state versions and decisions in their order.
///
/// Two builds with the same fingerprint made the same decisions from the same events. Launches and
/// stops follow from the plans and are not hashed separately: plans that take no time are applied
/// without such events.
#[derive(Clone, Default)]
pub struct Fingerprint {
    hash: Hash,
    scratch: Vec<u8>,
}

impl Fingerprint {
    /// Returns the hash so far: 16 hexadecimal digits.
    pub fn value(&self) -> String {
        let digest = self.hash.finalize();
        digest[..8].iter().map(|b| format!("{b:02x}")).collect()
    }

    fn feed(&mut self, version: u64, what: &impl Serialize) {
        self.scratch.clear();
        self.hash.update(version.to_le_bytes());
        match serde_json::to_writer(&mut self.scratch, what) {
            Ok(()) => self.hash.update(&self.scratch),
            // Numbers that JSON cannot represent still make a difference.
            Err(e) => self.hash.update(e.to_string()),
        }
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Fingerprint").field(&self.value()).finish()
    }
}

impl MetricCollector for Fingerprint {
    fn on_event(&mut self, view: View<'_>, event: &Event) {
        if !matches!(event, Event::Started { .. } | Event::Stopped { .. }) {
            self.feed(view.version(), event);
        }
    }

    fn on_decision(&mut self, _: View<'_>, plan: &Plan) {
        self.feed(plan.version, plan);
    }
}
