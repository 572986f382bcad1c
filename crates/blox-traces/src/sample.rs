//! Parts of a workload: a window of time, a random sample.

use super::file::shift;
use crate::draws::Draws;
use blox_core::{JobSpec, Time};
use blox_sim::workload::{Notices, Workload, WorkloadError};

/// The jobs that another workload submits in a time window, with times relative to the start of the
/// window.
///
/// ```
/// use blox_core::{GpuCount, JobSpec, Seconds, Time};
/// use blox_sim::workload::{Jobs, collect};
/// use blox_traces::sample::Window;
/// let at = |s| JobSpec::new(Time::new(s), GpuCount(1), Seconds::new(60.0));
/// let jobs = Jobs::new(vec![at(1.0), at(5.0), at(9.0)]);
/// let mut window = Window::new(jobs, Time::new(4.0), Time::new(9.0));
/// assert_eq!(collect(&mut window)?, [at(1.0), at(5.0)]);
/// # Ok::<(), blox_sim::workload::WorkloadError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Window<W> {
    inner: W,
    from: Time,
    to: Time,
}

impl<W: Workload> Window<W> {
    /// Selects the jobs from one time to another, both included.
    pub fn new(inner: W, from: Time, to: Time) -> Self {
        Window { inner, from, to }
    }
}

impl<W: Workload> Workload for Window<W> {
    fn next_job(&mut self) -> Result<Option<JobSpec>, WorkloadError> {
        while let Some(mut job) = self.inner.next_job()? {
            if job.submit > self.to {
                break;
            }
            if job.submit >= self.from {
                shift(&mut job, self.from.since(Time::ZERO));
                return Ok(Some(job));
            }
        }
        Ok(None)
    }
    fn notices(&self) -> &Notices {
        self.inner.notices()
    }
    fn describe(&self) -> String {
        let (from, to) = (self.from, self.to);
        format!("{from} s to {to} s of {}", self.inner.describe())
    }
}

/// Selects each job of another workload with the same probability. The load decreases by the same
/// factor.
#[derive(Clone, Debug)]
pub struct Thinned<W> {
    inner: W,
    fraction: f64,
    rng: Draws,
}

impl<W: Workload> Thinned<W> {
    /// Selects a `fraction` of the jobs, from 0 to 1.
    pub fn new(inner: W, fraction: f64, seed: u64) -> Self {
        let rng = Draws::new(seed, 0);
        Thinned {
            inner,
            fraction,
            rng,
        }
    }
}

impl<W: Workload> Workload for Thinned<W> {
    fn next_job(&mut self) -> Result<Option<JobSpec>, WorkloadError> {
        while let Some(job) = self.inner.next_job()? {
            if self.rng.unit() < self.fraction {
                return Ok(Some(job));
            }
        }
        Ok(None)
    }
    fn notices(&self) -> &Notices {
        self.inner.notices()
    }
    fn describe(&self) -> String {
        format!("{} of {}", self.fraction, self.inner.describe())
    }
}

/// Selects `count` jobs of a workload at random, in their original order. All subsets are equally
/// likely. If there are at most `count` jobs, all are selected.
///
/// Only the selected jobs are held in memory (reservoir sampling).
///
/// # Errors
/// Any error of the workload.
pub fn choose(
    workload: &mut (impl Workload + ?Sized),
    count: usize,
    seed: u64,
) -> Result<Vec<JobSpec>, WorkloadError> {
    let mut rng = Draws::new(seed, 0);
    let mut chosen: Vec<(u64, JobSpec)> = Vec::new();
    let mut seen = 0u64;
    while let Some(job) = workload.next_job()? {
        if chosen.len() < count {
            chosen.push((seen, job));
        } else {
            // The product's upper half is a number below `seen + 1`, nearly uniform.
            let below = (u128::from(rng.bits()) * (u128::from(seen) + 1)) >> 64;
            if let Some(slot) = usize::try_from(below)
                .ok()
                .and_then(|at| chosen.get_mut(at))
            {
                *slot = (seen, job);
            }
        }
        seen += 1;
    }
    chosen.sort_by_key(|(number, _)| *number);
    Ok(chosen.into_iter().map(|(_, job)| job).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::{GpuCount, Seconds};
    use blox_sim::workload::{Jobs, collect};

    fn jobs(count: u32) -> Jobs {
        let job = |i| JobSpec::new(Time::new(f64::from(i)), GpuCount(1), Seconds::new(1.0));
        Jobs::new((0..count).map(job).collect())
    }

    #[test]
    fn a_fraction_of_the_jobs_in_their_order() {
        let sample = |seed| collect(&mut Thinned::new(jobs(10_000), 0.25, seed)).unwrap();
        let one = sample(1);
        assert!((2_350..2_650).contains(&one.len()), "{}", one.len());
        assert!(one.is_sorted_by_key(|job| job.submit));
        assert_eq!(one, sample(1));
        assert_ne!(one, sample(2));
        assert!(
            collect(&mut Thinned::new(jobs(10), 0.0, 1))
                .unwrap()
                .is_empty()
        );
        assert_eq!(
            collect(&mut Thinned::new(jobs(10), 1.0, 1)).unwrap().len(),
            10
        );
    }

    #[test]
    fn so_many_jobs_each_as_likely_as_any() {
        let mut often = [0; 20];
        for seed in 0..2_000 {
            let chosen = choose(&mut jobs(20), 5, seed).unwrap();
            assert_eq!(chosen.len(), 5);
            assert!(chosen.is_sorted_by_key(|job| job.submit));
            for job in chosen {
                often[job.submit.secs() as usize] += 1;
            }
        }
        assert!(often.iter().all(|n| (430..570).contains(n)), "{often:?}");
        assert_eq!(choose(&mut jobs(3), 5, 1).unwrap().len(), 3);
        assert!(choose(&mut jobs(3), 0, 1).unwrap().is_empty());
    }
}
