//! Estimates of running times, for policies.

use crate::job::JobRef;
use crate::units::Seconds;

/// Estimator of running times. Shared by SJF, SRTF and similar policies.
pub trait Estimator: Send + Sync + 'static {
    /// Returns the total running time of the job on its requested GPUs; `None` if unknown.
    fn duration(&self, job: &JobRef<'_>) -> Option<Seconds>;

    /// Returns the remaining running time; never negative.
    fn remaining(&self, job: &JobRef<'_>) -> Option<Seconds> {
        self.duration(job)
            .map(|d| (d - job.attained_time()).max(Seconds::ZERO))
    }
}

/// Name of the job attribute with an estimate in seconds, for instance from a learned model.
pub const ESTIMATE: &str = "estimate_s";

/// Uses the true running times.
#[derive(Clone, Copy, Debug, Default)]
pub struct Oracle;

impl Estimator for Oracle {
    fn duration(&self, job: &JobRef<'_>) -> Option<Seconds> {
        Some(job.spec().duration())
    }

    fn remaining(&self, job: &JobRef<'_>) -> Option<Seconds> {
        Some(Seconds::new(job.work_left() / job.spec().work.rate))
    }
}

/// Uses the estimates of users.
#[derive(Clone, Copy, Debug, Default)]
pub struct UserEstimate;

impl Estimator for UserEstimate {
    fn duration(&self, job: &JobRef<'_>) -> Option<Seconds> {
        job.spec().extras().user_estimate
    }
}

impl Estimator for std::sync::Arc<dyn Estimator> {
    fn duration(&self, job: &JobRef<'_>) -> Option<Seconds> {
        (**self).duration(job)
    }

    fn remaining(&self, job: &JobRef<'_>) -> Option<Seconds> {
        (**self).remaining(job)
    }
}
