//! Stages of a training iteration, and jobs whose stages alternate on the same GPUs.

use blox_core::Submission;
use serde_json::Value;

/// Seconds that one iteration of a job takes on each resource, in order of use: storage, CPUs, GPUs
/// and network (Muri, SIGCOMM 2022, section 3).
pub type Stages = [f64; 4];

/// Returns the stages of a job: the list `stages` among its
/// [attributes](blox_core::Extras::attributes), four numbers from 0 to 10⁶ of which one is above 0.
/// `None` if the job has no such list.
///
/// ```
/// use blox_core::{Extras, GpuCount, JobSpec, Seconds, Time};
/// use blox_perf::stages;
///
/// let job = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(60.0)).with_extras(Extras {
///     attributes: [("stages".into(), [0.1, 0.3, 0.2, 0.0].into())].into(),
///     ..Extras::default()
/// });
/// assert_eq!(stages(&job), Some([0.1, 0.3, 0.2, 0.0]));
/// ```
pub fn stages(job: &Submission) -> Option<Stages> {
    times_of(job.extras.as_ref()?.attributes.get("stages")?)
}

/// Returns the times of an attribute; `None` if they are malformed.
pub(crate) fn times_of(attribute: &Value) -> Option<Stages> {
    let list = attribute.as_array()?;
    let times: Option<Vec<f64>> = list.iter().map(|time| time.as_f64()).collect();
    let times = Stages::try_from(times?).ok()?;
    let valid = times.iter().all(|time| (0.0..=1e6).contains(time));
    (valid && times.iter().any(|time| *time > 0.0)).then_some(times)
}

/// Returns the seconds in which each of one to four jobs does one iteration on the same GPUs.
///
/// In each of four steps, every job uses another resource. A step takes as long as its longest
/// stage. The result is for the best order of the jobs. A single job takes the sum of its stages.
/// More than four jobs cannot alternate: the result is then infinite.
///
/// ```
/// use blox_perf::interleaved;
/// // While one job computes, the other reads.
/// let (reads, computes) = ([3.0, 0.0, 1.0, 0.0], [1.0, 0.0, 3.0, 0.0]);
/// assert_eq!(interleaved(&[reads]), 4.0);
/// assert_eq!(interleaved(&[reads, computes]), 4.0);
/// assert_eq!(interleaved(&[reads, reads]), 6.0);
/// ```
pub fn interleaved(jobs: &[Stages]) -> f64 {
    match jobs {
        [] => 0.0,
        // Only the differences of the first steps count.
        [first, rest @ ..] => shortest(rest, *first, 1),
    }
}

/// Returns the mean fraction of time in which two groups of jobs use a resource together, up to 1.
/// It is 0 if the groups are as fast one after the other, or if they are more than four jobs.
///
/// ```
/// use blox_perf::interleaving_efficiency;
/// let (reads, computes) = ([3.0, 0.0, 1.0, 0.0], [1.0, 0.0, 3.0, 0.0]);
/// // Of four resources, two are in use all the time.
/// assert_eq!(interleaving_efficiency(&[reads], &[computes]), 0.5);
/// let only = [1.0, 0.0, 0.0, 0.0];
/// assert_eq!(interleaving_efficiency(&[only], &[only]), 0.0);
/// ```
pub fn interleaving_efficiency(a: &[Stages], b: &[Stages]) -> f64 {
    let both = [a, b].concat();
    let together = interleaved(&both);
    if together >= (interleaved(a) + interleaved(b)) * (1.0 - 1e-9) {
        return 0.0;
    }
    both.iter().flatten().sum::<f64>() / (4.0 * together)
}

/// Returns the sum of the longest stages of each step. `longest` holds the longest stages of
/// earlier jobs, and `taken` is a bit mask of the first steps of these jobs.
fn shortest(jobs: &[Stages], longest: Stages, taken: u8) -> f64 {
    let [job, rest @ ..] = jobs else {
        return longest.iter().sum();
    };
    let starts = (0..longest.len()).filter(|start| taken >> start & 1 == 0);
    let times = starts.map(|start| {
        let step = |i: usize| longest[i].max(job[(i + start) % longest.len()]);
        shortest(rest, std::array::from_fn(step), taken | 1 << start)
    });
    times.fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interleaved_complementary_jobs_take_as_long_as_one() {
        let job = |at: usize| std::array::from_fn(|i| if i == at { 2.0 } else { 0.5 });
        let all: Vec<Stages> = (0..4).map(job).collect();
        // The long stages of all four jobs are in one step.
        assert_eq!(interleaved(&all), 3.5);
        assert_eq!(interleaved(&all[..2]), 3.5);
        // The long stages of equal jobs are in different steps.
        assert_eq!(interleaved(&[job(2); 2]), 5.0);
        assert_eq!(interleaved(&[job(2); 4]), 8.0);
        assert_eq!(interleaved(&[job(2); 5]), f64::INFINITY);
        assert_eq!(interleaved(&[]), 0.0);
    }
}
