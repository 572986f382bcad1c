//! Scores of jobs that may share GPUs.

use blox_core::Submission;

/// Returns how much a job disturbs another on the same GPUs: 0 (tiny), 1 (medium) or 2 (jumbo).
///
/// It is the number `sharing_score` among the job's [attributes](blox_core::Extras::attributes). A
/// job without it is scored by its profile with the decision tree of Lucid (ASPLOS 2023, figure 6).
/// The profile is made of the attributes `gpu_util` (percent of GPU time), `gmem` (MiB), `gmem_util`
/// (percent of memory bandwidth) and `amp` (above 0 for mixed precision). Returns `None` for a job
/// with neither a score nor `gpu_util`, `gmem` and `gmem_util`.
///
/// ```
/// use blox_core::{Extras, GpuCount, JobSpec, Seconds, Time};
/// use blox_perf::sharing_score;
///
/// let profile = [("gpu_util", 60.0), ("gmem", 2500.0), ("gmem_util", 20.0)];
/// let job = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(60.0)).with_extras(Extras {
///     attributes: profile.map(|(name, value)| (name.into(), value.into())).into(),
///     ..Extras::default()
/// });
/// assert_eq!(sharing_score(&job), Some(1.0));
/// ```
pub fn sharing_score(job: &Submission) -> Option<f64> {
    let attributes = &job.extras.as_ref()?.attributes;
    let number = |name: &str| attributes.get(name)?.as_f64();
    number("sharing_score").or_else(|| {
        let profile = [number("gpu_util")?, number("gmem")?, number("gmem_util")?];
        Some(by_profile(profile, number("amp").unwrap_or(0.0) > 0.0))
    })
}

/// Returns the score of a profile: use of GPUs, memory in MiB, use of memory bandwidth.
fn by_profile([gpu, memory, bandwidth]: [f64; 3], mixed_precision: bool) -> f64 {
    match gpu {
        ..=25.0 => 0.0,
        ..=53.0 if memory <= 2734.0 || bandwidth <= 13.5 => 1.0,
        ..=53.0 => 0.0,
        _ if memory > 3041.0 || mixed_precision => 2.0,
        ..=71.2 => 1.0,
        _ => 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_have_the_scores_of_the_tree() {
        let cases = [
            (20.0, 9000.0, 90.0, false, 0.0),
            (40.0, 2000.0, 20.0, false, 1.0),
            (40.0, 4000.0, 20.0, false, 0.0),
            (40.0, 4000.0, 13.0, false, 1.0),
            (60.0, 4000.0, 20.0, false, 2.0),
            (60.0, 2500.0, 20.0, false, 1.0),
            (60.0, 2500.0, 20.0, true, 2.0),
            (80.0, 2500.0, 20.0, false, 2.0),
        ];
        for (gpu, memory, bandwidth, amp, score) in cases {
            let found = by_profile([gpu, memory, bandwidth], amp);
            assert_eq!(found, score, "{gpu} {memory} {bandwidth} {amp}");
        }
    }
}
