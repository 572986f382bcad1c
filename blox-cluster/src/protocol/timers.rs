//! Time limits of the protocol. All are durations on monotonic clocks that also count suspended
//! time. The clocks of two machines need not show the same time. They only have to run at about the
//! same speed.

use super::ids::Millis;
use serde::{Deserialize, Serialize};

/// Limit in seconds on the grace period of a job. If a job requests more, the cluster's default
/// applies.
pub const LONGEST_GRACE_S: f64 = 86_400.0;

/// Time limits of a cluster, shared by scheduler, node managers and shims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timers {
    /// Longest interval between two reports of a node manager.
    pub heartbeat: Millis,
    /// Silence after which a node counts as lost.
    pub lost: Millis,
    /// Duration of a lease. It counts from the time at which the node sent the report that the last
    /// renewal answers.
    pub lease: Millis,
    /// Time before the end of a lease at which a launch is signaled to save its work.
    pub margin: Millis,
    /// Longest time from the end of a lease to the end of the last process.
    pub kill: Millis,
    /// Largest difference in speed between two clocks, in thousandths.
    pub drift_per_mille: u64,
    /// Longest time from a plan to the start of all processes. A launch that takes longer is
    /// aborted.
    pub launch: Millis,
    /// Default grace period: the time from the signal to save until the job is killed.
    pub grace: Millis,
    /// Delay before the first retry of a failed job. It doubles with each further failure.
    pub back_off: Millis,
    /// Upper limit on the retry delay.
    pub back_off_limit: Millis,
    /// Time for which a node is not used after its third loss within ten times this duration. It
    /// doubles with each further loss.
    pub quarantine: Millis,
    /// Upper limit on the quarantine.
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
    /// Returns the time from a report's arrival at the scheduler until every process that runs on
    /// the lease in the answer has ended. It is measured by the scheduler's clock.
    pub fn fence(&self) -> Millis {
        Millis(self.lease.0 + self.lease.0 * 2 * self.drift_per_mille / 1000) + self.kill
    }

    /// Divides all durations by a factor, for tests and demonstrations on one machine.
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

    /// Returns the delay before the next launch of a job. The first failure has number 1.
    pub fn back_off_after(&self, failures: u32) -> Millis {
        doubled(self.back_off, failures.saturating_sub(1)).min(self.back_off_limit)
    }

    /// Running time after which the loss of a launch does not count towards holding its job.
    pub fn useful(&self) -> Millis {
        Millis(self.back_off_limit.0 * 2)
    }

    /// The same for a launch that saved work.
    pub fn short_of_useful(&self) -> Millis {
        Millis(self.back_off.0 * 3)
    }

    /// Returns the quarantine of a node after this number of recent losses.
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
    fn back_off_doubles_after_each_failure_up_to_a_limit() {
        let t = Timers::default();
        let waits = [1, 2, 3, 5, 6, 100].map(|n| t.back_off_after(n).0 / 1000);
        assert_eq!(waits, [10, 20, 40, 160, 300, 300]);
        let waits = [0, 2, 3, 4, 8, 100].map(|n| t.quarantine_after(n).0 / 1000);
        assert_eq!(waits, [0, 0, 60, 120, 1_800, 1_800]);
    }

    #[test]
    fn a_lost_node_is_fenced_within_the_promised_time() {
        let t = Timers::default();
        // 15 s lease, 2 % clock drift, 5 s to kill the last process.
        assert_eq!(t.fence(), Millis(20_300));
        assert!(t.margin < t.lease && t.lost < t.fence());
    }
}
