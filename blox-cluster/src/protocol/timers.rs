//! How long everything takes at most. All are lengths on monotonic clocks that
//! count suspends; no two clocks have to agree, only to run about equally fast.

use super::ids::Millis;
use serde::{Deserialize, Serialize};

/// A job that asks for a longer grace than this has the cluster's.
pub const LONGEST_GRACE_S: f64 = 86_400.0;

/// The timers of a cluster; scheduler, node managers and shims share them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timers {
    /// A node manager reports at least this often.
    pub heartbeat: Millis,
    /// A node that was silent for so long is lost.
    pub lost: Millis,
    /// A launch may run for so long after the report that its last renewal answers was sent.
    pub lease: Millis,
    /// So long before its lease ends a launch is told to save its work.
    pub margin: Millis,
    /// From the end of a lease to the end of its last process.
    pub kill: Millis,
    /// How much faster one clock may run than another, in thousandths.
    pub drift_per_mille: u64,
    /// From a plan to all processes running; a launch that takes longer is undone.
    pub launch: Millis,
    /// From the signal to save its work to the end of a job that does not say otherwise.
    pub grace: Millis,
    /// A job that failed is tried again after this; twice as long after each further failure.
    pub back_off: Millis,
    /// But never after more than this.
    pub back_off_limit: Millis,
    /// A node that was lost three times within ten of these is not used for this
    /// long; twice as long after each further loss.
    pub quarantine: Millis,
    /// But never for longer than this.
    pub quarantine_limit: Millis,
}

impl Default for Timers {
    fn default() -> Self {
        Timers {
            heartbeat: Millis::secs(2),
            lost: Millis::secs(8),
            lease: Millis::secs(15),
            margin: Millis::secs(5),
            kill: Millis::secs(5),
            drift_per_mille: 10,
            launch: Millis::secs(30),
            grace: Millis::secs(30),
            back_off: Millis::secs(10),
            back_off_limit: Millis::secs(300),
            quarantine: Millis::secs(60),
            quarantine_limit: Millis::secs(1_800),
        }
    }
}

impl Timers {
    /// From a report's arrival at the scheduler to the moment at which whatever
    /// was granted in answer to it has surely ended, by the scheduler's clock.
    pub fn fence(&self) -> Millis {
        Millis(self.lease.0 + self.lease.0 * 2 * self.drift_per_mille / 1000) + self.kill
    }

    /// All of them shorter by this factor, for tests and demonstrations on one machine.
    #[must_use]
    pub fn divided_by(self, by: u64) -> Self {
        let d = |m: Millis| Millis((m.0 / by.max(1)).max(1));
        Timers {
            heartbeat: d(self.heartbeat),
            lost: d(self.lost),
            lease: d(self.lease),
            margin: d(self.margin),
            kill: d(self.kill),
            drift_per_mille: self.drift_per_mille,
            launch: d(self.launch),
            grace: d(self.grace),
            back_off: d(self.back_off),
            back_off_limit: d(self.back_off_limit),
            quarantine: d(self.quarantine),
            quarantine_limit: d(self.quarantine_limit),
        }
    }

    /// Returns how long a job waits after its failure of this number, from 1.
    pub fn back_off_after(&self, failures: u32) -> Millis {
        doubled(self.back_off, failures.saturating_sub(1)).min(self.back_off_limit)
    }

    /// Returns how long a node is not used after so many losses in a row.
    pub fn quarantine_after(&self, losses: u32) -> Millis {
        match losses.checked_sub(3) {
            Some(more) => doubled(self.quarantine, more).min(self.quarantine_limit),
            None => Millis(0),
        }
    }
}

fn doubled(length: Millis, times: u32) -> Millis {
    let by = 1_u64.checked_shl(times).unwrap_or(u64::MAX);
    Millis(length.0.saturating_mul(by))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_waits_twice_as_long_after_each_failure_up_to_a_limit() {
        let t = Timers::default();
        let waits = [1, 2, 3, 5, 6, 100].map(|n| t.back_off_after(n).0 / 1000);
        assert_eq!(waits, [10, 20, 40, 160, 300, 300]);
        let waits = [0, 2, 3, 4, 8, 100].map(|n| t.quarantine_after(n).0 / 1000);
        assert_eq!(waits, [0, 0, 60, 120, 1_800, 1_800]);
    }

    #[test]
    fn a_lost_node_is_fenced_within_the_promised_time() {
        let t = Timers::default();
        // 15 s, 2 % for the clocks, 5 s for the last process.
        assert_eq!(t.fence(), Millis(20_300));
        assert!(t.margin < t.lease && t.lost < t.fence());
    }
}
