//! Parts of a workload: a window of time, a virtual cluster, a random sample.

use super::edited::{Edit, Edited};
use super::file::shift;
use crate::draws::Draws;
use blox_core::{JobSpec, Name, Time};
use blox_workloads::{Workload, WorkloadError};

/// Returns the jobs that another workload submits in a time window, with times relative to the start of the
/// window.
///
/// ```
/// use blox_core::{GpuCount, JobSpec, Seconds, Time};
/// use blox_workloads::{Jobs, collect};
/// use blox_traces::sample::window;
/// let at = |s| JobSpec::new(Time::new(s), GpuCount(1), Seconds::new(60.0));
/// let jobs = Jobs::new(vec![at(1.0), at(5.0), at(9.0)]);
/// let mut window = window(jobs, Time::new(4.0), Time::new(9.0));
/// assert_eq!(collect(&mut window)?, [at(1.0), at(5.0)]);
/// # Ok::<(), blox_workloads::WorkloadError>(())
/// ```
pub fn window<W: Workload>(jobs: W, from: Time, to: Time) -> Edited<W> {
    let label = format!("{from} s to {to} s of {}", jobs.describe());
    Edited::new(jobs, label, move |mut job| {
        if job.submit > to {
            return Edit::End;
        }
        if job.submit < from {
            return Edit::Skip;
        }
        shift(&mut job, from.since(Time::ZERO));
        Edit::Keep(job)
    })
}

/// Returns the jobs of another workload that are submitted to a virtual cluster.
pub fn in_virtual_cluster<W: Workload>(jobs: W, name: impl Into<Name>) -> Edited<W> {
    let name = name.into();
    let label = format!("{name} of {}", jobs.describe());
    Edited::new(jobs, label, move |job| {
        match job.virtual_cluster.as_ref() == Some(&name) {
            true => Edit::Keep(job),
            false => Edit::Skip,
        }
    })
}

/// Selects each job of another workload with the same probability. The load decreases by the same
/// factor.
pub fn thinned<W: Workload>(jobs: W, fraction: f64, seed: u64) -> Edited<W> {
    let mut rng = Draws::new(seed, 0);
    let label = format!("{fraction} of {}", jobs.describe());
    Edited::new(jobs, label, move |job| match rng.unit() < fraction {
        true => Edit::Keep(job),
        false => Edit::Skip,
    })
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
    use blox_workloads::{Jobs, collect};

    fn jobs(count: u32) -> Jobs {
        let job = |i| JobSpec::new(Time::new(f64::from(i)), GpuCount(1), Seconds::new(1.0));
        Jobs::new((0..count).map(job).collect())
    }

    #[test]
    fn a_fraction_of_the_jobs_in_their_order() {
        let sample = |seed| collect(&mut thinned(jobs(10_000), 0.25, seed)).unwrap();
        let one = sample(1);
        assert!((2_350..2_650).contains(&one.len()), "{}", one.len());
        assert!(one.is_sorted_by_key(|job| job.submit));
        assert_eq!(one, sample(1));
        assert_ne!(one, sample(2));
        assert!(collect(&mut thinned(jobs(10), 0.0, 1)).unwrap().is_empty());
        assert_eq!(collect(&mut thinned(jobs(10), 1.0, 1)).unwrap().len(), 10);
    }

    #[test]
    fn a_virtual_cluster_has_its_own_jobs() {
        let job = |gpus, vc: &str| {
            let job = JobSpec::new(Time::ZERO, GpuCount(gpus), Seconds::new(500.0));
            job.in_virtual_cluster(vc)
        };
        let jobs = Jobs::new(vec![job(1, "a"), job(2, "b"), job(3, "a")]);
        let only = collect(&mut in_virtual_cluster(jobs, "a")).unwrap();
        assert_eq!(only, [job(1, "a"), job(3, "a")]);
    }

    #[test]
    fn sample_of_jobs_is_uniform() {
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
