//! How long everything takes at most. All are lengths on monotonic clocks that
//! count suspends; no two clocks have to agree, only to run about equally fast.

use super::ids::Millis;
use serde::{Deserialize, Serialize};

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
    /// The ranks of a launch that ended well may end so far apart.
    pub finish: Millis,
    /// From the signal to save its work to the end of a job that does not say otherwise.
    pub grace: Millis,
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
            finish: Millis::secs(30),
            grace: Millis::secs(30),
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
            finish: d(self.finish),
            grace: d(self.grace),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_node_is_fenced_within_the_promised_time() {
        let t = Timers::default();
        // 15 s, 2 % for the clocks, 5 s for the last process.
        assert_eq!(t.fence(), Millis(20_300));
        assert!(t.margin < t.lease && t.lost < t.fence());
    }
}
