//! Finish-time fairness over jobs.

use super::{JobResult, statistics};
use serde::Serialize;

/// Tolerance for rounding of the completion time of a job with its fair share.
const ROUNDING: f64 = 1e-9;

/// [Finish-time fairness](crate::fairness::FairTimes) over the jobs with a known [`JobResult::rho`]:
/// measured jobs with a completion time and a fair time. `rho` has no unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Fairness {
    /// Number of these jobs.
    pub jobs: u64,
    /// Mean of `rho`, above 0.
    pub mean: f64,
    /// Largest `rho`.
    pub worst: f64,
    /// Fraction of these jobs with `rho` above 1, from 0 to 1: the jobs that were treated unfairly.
    /// Rounding errors of 1e-9 are tolerated.
    pub unfair: f64,
}

impl Fairness {
    /// Returns the fairness; `None` if `rho` is known for no job.
    pub fn of<'a>(jobs: impl IntoIterator<Item = &'a JobResult>) -> Option<Self> {
        let rho: Vec<f64> = jobs.into_iter().filter_map(|j| j.rho).collect();
        let unfair = rho.iter().filter(|r| **r > 1.0 + ROUNDING).count();
        Some(Fairness {
            jobs: rho.len() as u64,
            mean: statistics::mean(&rho)?,
            worst: rho.iter().copied().fold(0.0, f64::max),
            unfair: unfair as f64 / rho.len() as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_treated_unfairly_above_one() {
        let job = |rho| JobResult {
            rho,
            ..JobResult::default()
        };
        let jobs = [Some(0.5), None, Some(1.0 + 1e-12), Some(1.5), Some(3.0)].map(job);
        let found = Fairness::of(&jobs).unwrap();
        assert_eq!((found.jobs, found.worst, found.unfair), (4, 3.0, 0.5));
        assert_eq!(Fairness::of(&jobs[1..2]), None);
    }
}
