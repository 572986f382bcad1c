//! A hash of all that a run read and decided.

use blox_core::{Event, MetricCollector, Plan, View};
use serde::Serialize;
use sha2::{Digest, Sha256};

/// Hashes events, state versions and decisions in their order.
///
/// Two builds that give the same fingerprint made the same decisions from the same events.
/// Launches and stops follow from the plans, and are not hashed apart: plans that take no
/// time are applied without such events.
#[derive(Clone, Debug, Default)]
pub struct Fingerprint {
    hash: Sha256,
    scratch: Vec<u8>,
}

impl Fingerprint {
    /// Returns the hash so far: 16 hexadecimal digits.
    pub fn value(&self) -> String {
        let digest = self.hash.clone().finalize();
        digest[..8].iter().map(|b| format!("{b:02x}")).collect()
    }

    fn feed(&mut self, version: u64, what: &impl Serialize) {
        self.scratch.clear();
        self.hash.update(version.to_le_bytes());
        match serde_json::to_writer(&mut self.scratch, what) {
            Ok(()) => self.hash.update(&self.scratch),
            // Numbers that JSON does not know still make a difference.
            Err(e) => self.hash.update(e.to_string()),
        }
    }
}

impl MetricCollector for Fingerprint {
    fn on_event(&mut self, view: View<'_>, event: &Event) {
        self.feed(view.version(), event);
    }

    fn on_decision(&mut self, _: View<'_>, plan: &Plan) {
        self.feed(plan.version, plan);
    }
}

#[cfg(test)]
mod tests {
    use super::Fingerprint;
    use crate::Simulation;
    use crate::workload::Jobs;
    use blox_core::testing::FirstFit;
    use blox_core::{ClusterSpec, Composition, GpuCount, JobSpec, Seconds, Time};
    use blox_core::{order::SortKey, policy::by_key};

    fn fingerprint(gpus: [u32; 3]) -> String {
        let jobs = gpus.map(|n| JobSpec::new(Time::ZERO, GpuCount(n), Seconds::new(400.0)));
        let fifo = Composition::new("fifo")
            .scheduling(by_key(|job| SortKey::by(job.submit().secs())).stable())
            .placement(FirstFit)
            .build()
            .unwrap();
        Simulation::new(ClusterSpec::uniform(1, 2))
            .collector(Fingerprint::default())
            .run(fifo, &mut Jobs::new(jobs.to_vec()))
            .unwrap()
            .collected
            .get::<Fingerprint>()
            .unwrap()
            .value()
    }

    #[test]
    fn fingerprint_repeats_and_tells_runs_apart() {
        assert_eq!(fingerprint([1, 2, 1]), fingerprint([1, 2, 1]));
        assert_ne!(fingerprint([1, 2, 1]), fingerprint([2, 1, 1]));
    }
}
