//! Time limits of the protocol. All are durations on monotonic clocks that also count suspended
//! time. The clocks of two machines need not show the same time. They only have to run at about the
//! same speed.

use super::ids::Millis;
use serde::{Deserialize, Serialize};

/// Limit in seconds on the grace period of a job. If a job requests more, the cluster's default
/// applies.
pub const LONGEST_GRACE_S: f64 = 86_400.0;

/// Shortest and longest lease of a job in seconds. If a job requests another, the cluster's default
/// applies. A shorter lease would end with two lost heartbeats.
pub const LEASES_S: (f64, f64) = (10.0, 86_400.0);

/// Longest planned absence of a scheduler or a node manager.
pub const LONGEST_ABSENCE: Millis = Millis::secs(7 * 86_400);

/// Lease of all launches under a scheduler of protocol version 1, whose orders do not state it.
pub const FIRST_LEASE: Millis = Millis::secs(15);

/// Time limits of a cluster. The scheduler sends them to the node managers with every orders, and
/// the shims take them from the node managers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timers {
    /// Longest interval between two reports of a node manager.
    pub heartbeat: Millis,
    /// Silence after which a node counts as lost.
    pub lost: Millis,
    /// Lease of a job that does not request one. It counts from the time at which the node sent the
    /// report that the last renewal answers.
    ///
    /// A long lease lets jobs outlive an absent scheduler. A short lease lets the jobs of a lost node
    /// start elsewhere sooner.
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
    /// Time for which launches continue after a planned stop of the scheduler; 0 if they keep their
    /// leases.
    #[serde(default)]
    pub absence: Millis,
}

impl Default for Timers {
    fn default() -> Self {
        Timers {
            heartbeat: Millis::secs(2),
            lost: Millis::secs(8),
            lease: Millis::secs(135),
            margin: Millis::secs(5),
            kill: Millis::secs(5),
            drift_per_mille: 10,
            launch: Millis::secs(30),
            grace: Millis::secs(30),
            back_off: Millis::secs(10),
            back_off_limit: Millis::secs(300),
            quarantine: Millis::secs(60),
            quarantine_limit: Millis::secs(1_800),
            absence: Millis::secs(3_600),
        }
    }
}

impl Timers {
    /// Returns the timers of a cluster whose nodes and scheduler end together: a short lease, and no
    /// planned absence.
    #[must_use]
    pub fn of_one_allocation(self) -> Self {
        Timers {
            lease: FIRST_LEASE,
            absence: Millis(0),
            ..self
        }
    }

    /// Returns the time from a report's arrival at the scheduler until every process that runs on a
    /// lease of this length in the answer has ended. It is measured by the scheduler's clock.
    ///
    /// No job has two copies, for each launch by itself:
    ///
    /// - The holder counts the lease from the time at which it sent the report. The scheduler counts
    ///   from the arrival of that report, which is later.
    /// - The two clocks differ in speed by the drift at most. The scheduler adds twice as much.
    /// - The holder ends all processes within the kill timeout after the end of its lease.
    /// - Orders that answer an earlier report grant an earlier end of the same lease. Orders that
    ///   grant a longer lease are on disk before they leave, see
    ///   [`Record::Absent`](super::record::Record::Absent).
    pub fn fence(&self, lease: Millis) -> Millis {
        self.stretched(lease) + self.kill
    }

    /// Returns the longest time on another machine's clock in which a lease ends.
    pub fn stretched(&self, lease: Millis) -> Millis {
        lease + Millis(lease.0.saturating_mul(2 * self.drift_per_mille) / 1000)
    }

    /// Returns the time for which the status of a shim may stay the same. It changes every second.
    pub fn stall(&self) -> Millis {
        self.lost + self.lost
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
            absence: match self.absence {
                Millis(0) => Millis(0),
                absence => d(absence),
            },
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
        // 2 % clock drift, and 5 s to kill the last process.
        assert_eq!(t.fence(Millis::secs(15)), Millis(20_300));
        assert_eq!(t.fence(t.lease), Millis(142_700));
        assert!(t.margin < Millis::secs(10) && t.lost < t.fence(Millis::secs(10)));
        // Two minutes without a scheduler, and two reports that were lost before.
        assert!(t.lease - t.margin >= Millis::secs(120) + t.heartbeat + t.heartbeat);
    }

    #[test]
    fn timers_of_an_earlier_version_are_read() {
        let text = r#"{"heartbeat":2000,"lost":8000,"lease":15000,"margin":5000,"kill":5000,
            "drift_per_mille":10,"launch":30000,"grace":30000,"back_off":10000,
            "back_off_limit":300000,"quarantine":60000,"quarantine_limit":1800000}"#;
        let found: Timers = serde_json::from_str(text).unwrap();
        assert_eq!(found, Timers::default().of_one_allocation());
    }
}
