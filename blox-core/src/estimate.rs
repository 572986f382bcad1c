//! What a policy believes about how long jobs run.

use crate::job::JobRef;
use crate::units::Seconds;

/// A belief about durations. SJF, SRTF and their kin share it.
pub trait Estimator: Send + Sync + 'static {
    /// Returns how long the whole job runs on the GPUs that it asked for; `None` if nothing is
    /// known.
    fn duration(&self, job: &JobRef<'_>) -> Option<Seconds>;

    /// Returns how much of that is left; never negative.
    fn remaining(&self, job: &JobRef<'_>) -> Option<Seconds> {
        self.duration(job)
            .map(|d| (d - job.attained_time()).max(Seconds::ZERO))
    }
}

/// The attribute in which a job may bring an estimate with it, in seconds: that of a learned model, say.
pub const ESTIMATE: &str = "estimate_s";

/// Knows the truth.
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

/// Believes what users say.
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
