//! Random faults: lost nodes, crashed jobs, failed launches. All follow from one seed. Every node
//! and every launch has its own generator, so that two schedulers meet the same faults.

use blox_core::{JobId, NodeId, Seconds};
use chacha20::ChaCha8Rng;
use rand::SeedableRng;
use rand::distr::{Distribution, StandardUniform};

/// Random faults. All are off by default.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// Seed of all random faults.
    pub seed: u64,
    /// Mean time between failures of one node (exponential); `None` for never.
    pub node_mtbf: Option<Seconds>,
    /// Mean time until a lost node returns (exponential).
    pub node_mttr: Seconds,
    /// Mean running time between crashes of one job (exponential); `None` for never.
    pub job_mtbf: Option<Seconds>,
    /// Interval between checkpoints of running jobs; a crash loses the work since the last one.
    /// `None`: a crash loses everything since the launch.
    pub checkpoint_every: Option<Seconds>,
    /// Probability that a launch fails, from 0 to 1.
    pub launch_failure: f64,
}

impl Faults {
    /// Returns whether no fault can occur.
    pub fn is_none(&self) -> bool {
        self.node_mtbf.is_none() && self.job_mtbf.is_none() && self.launch_failure <= 0.0
    }

    /// Returns the time that a node runs from its last return until its `nth` failure.
    pub(crate) fn node_runs(&self, node: NodeId, nth: u32) -> Option<Seconds> {
        self.node_mtbf
            .map(|mean| exponential(mean, self.draw(1, node.0, nth)))
    }

    /// Returns the time until a node returns after its `nth` failure.
    pub(crate) fn node_away(&self, node: NodeId, nth: u32) -> Seconds {
        exponential(self.node_mttr, self.draw(2, node.0, nth))
    }

    /// Returns the running time of a launch until its crash.
    #[inline]
    pub(crate) fn job_runs(&self, job: JobId, attempt: u32) -> Option<Seconds> {
        self.job_mtbf
            .map(|mean| exponential(mean, self.draw(3, job.0, attempt)))
    }

    /// Returns whether a launch fails.
    pub(crate) fn launch_fails(&self, job: JobId, attempt: u32) -> bool {
        self.launch_failure > 0.0 && self.draw(4, job.0, attempt) < self.launch_failure
    }

    /// Returns the time since the last checkpoint of a job that ran for `ran`.
    pub(crate) fn unsaved(&self, ran: Seconds) -> Seconds {
        match self.checkpoint_every {
            Some(every) if every > Seconds::ZERO => Seconds::new(ran.secs() % every.secs()),
            _ => ran,
        }
    }

    fn draw(&self, purpose: u64, who: u32, nth: u32) -> f64 {
        let mut key = [0u8; 32];
        key[..8].copy_from_slice(&self.seed.to_le_bytes());
        key[8..16].copy_from_slice(&purpose.to_le_bytes());
        key[16..20].copy_from_slice(&who.to_le_bytes());
        key[20..24].copy_from_slice(&nth.to_le_bytes());
        StandardUniform.sample(&mut ChaCha8Rng::from_seed(key))
    }
}

fn exponential(mean: Seconds, uniform: f64) -> Seconds {
    mean * -libm::log(1.0 - uniform)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_one_node_do_not_depend_on_others() {
        let f = Faults {
            seed: 7,
            node_mtbf: Some(Seconds::from_hours(100.0)),
            ..Faults::default()
        };
        let a = f.node_runs(NodeId(3), 1);
        assert_eq!(a, f.node_runs(NodeId(3), 1));
        assert_ne!(a, f.node_runs(NodeId(4), 1));
        assert_ne!(a, f.node_runs(NodeId(3), 2));
    }

    #[test]
    fn the_mean_is_the_mean() {
        let f = Faults {
            job_mtbf: Some(Seconds::new(50.0)),
            ..Faults::default()
        };
        let n = 20_000;
        let sum: f64 = (0..n)
            .filter_map(|j| f.job_runs(JobId(j), 1))
            .map(Seconds::secs)
            .sum();
        assert!(
            (sum / f64::from(n) - 50.0).abs() < 1.0,
            "{}",
            sum / f64::from(n)
        );
    }

    #[test]
    fn a_job_is_saved_at_its_checkpoints() {
        let mut f = Faults::default();
        assert_eq!(f.unsaved(Seconds::new(30.0)).secs(), 30.0);
        f.checkpoint_every = Some(Seconds::new(20.0));
        assert_eq!(f.unsaved(Seconds::new(30.0)).secs(), 10.0);
    }
}
