//! Estimates of running times, for policies.

use crate::decide_error::MissingData;
use crate::job::JobRef;
use crate::job::spec::{SpecError, Submission};
use crate::units::Seconds;
use serde_json::Value;

/// Estimator of running times. Shared by SJF, SRTF and similar policies.
///
/// ```
/// # use blox_core::{ClusterSpec, Event, GpuCount, JobId, JobSpec, State, Time};
/// use blox_core::estimate::{Estimator, UserEstimate};
/// use blox_core::{Extras, JobRef, Seconds};
///
/// /// Adds a margin to the estimates of users.
/// struct WithMargin(Seconds);
///
/// impl Estimator for WithMargin {
///     fn duration(&self, job: &JobRef<'_>) -> Option<Seconds> {
///         UserEstimate.duration(job).map(|estimate| estimate + self.0)
///     }
/// }
///
/// let user_estimate = Some(Seconds::new(600.0));
/// let extras = Extras { user_estimate, ..Extras::default() };
/// # let mut state = State::new(&ClusterSpec::uniform(1, 4))?;
/// # let spec = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(500.0)).with_extras(extras).into();
/// # state.apply(Time::ZERO, &Event::Submitted { job: JobId(0), spec })?;
/// # let job = state.job(JobId(0)).expect("it was submitted");
/// let estimator = WithMargin(Seconds::new(60.0));
/// assert_eq!(estimator.duration(&job), Some(Seconds::new(660.0)));
/// assert_eq!(estimator.remaining(&job), Some(Seconds::new(660.0))); // it has not run yet
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Estimator: Send + Sync + 'static {
    /// Returns the total running time of the job on its requested GPUs; `None` if unknown.
    fn duration(&self, job: &JobRef<'_>) -> Option<Seconds>;

    /// Returns the remaining running time; never negative.
    fn remaining(&self, job: &JobRef<'_>) -> Option<Seconds> {
        self.duration(job)
            .map(|d| (d - job.attained_time()).max(Seconds::ZERO))
    }

    /// Checks that a job has the data that the estimate needs.
    ///
    /// A policy with an estimator calls it in [`Policy::check_job`](crate::Policy::check_job).
    ///
    /// # Errors
    /// The first missing data.
    fn check_job(&self, job: &Submission) -> Result<(), MissingData> {
        let _ = job;
        Ok(())
    }
}

/// Name of the job attribute with an estimate in seconds, for instance from a learned model.
pub const ESTIMATE: &str = "estimate_s";

/// Checks the [estimate](ESTIMATE) that a job brings. A job without one is sound.
///
/// # Errors
/// The estimate is no number of seconds above 0.
pub fn check_estimate(job: &Submission) -> Result<(), SpecError> {
    let value = job.extras().attributes.get(ESTIMATE);
    let is_sound = |value: &Value| value.as_f64().is_some_and(|s| s.is_finite() && s > 0.0);
    match value.filter(|value| !value.is_null() && !is_sound(value)) {
        None => Ok(()),
        Some(value) => Err(SpecError {
            field: "attributes.estimate_s",
            found: value.to_string(),
            expected: "a number of seconds above 0",
        }),
    }
}

/// Uses the true running times ([`JobRef::truth`]).
#[derive(Clone, Copy, Debug, Default)]
pub struct Oracle;

impl Estimator for Oracle {
    fn duration(&self, job: &JobRef<'_>) -> Option<Seconds> {
        Some(job.truth().duration())
    }

    fn remaining(&self, job: &JobRef<'_>) -> Option<Seconds> {
        Some(job.truth().remaining())
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

    fn check_job(&self, job: &Submission) -> Result<(), MissingData> {
        (**self).check_job(job)
    }
}
