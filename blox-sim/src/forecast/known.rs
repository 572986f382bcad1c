//! Jobs with what is known of their running times.

use blox_core::{JobRef, JobSpec, Seconds};
use std::sync::Arc;

/// A job with what is known of its running time.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub spec: Arc<JobSpec>,
    /// Its running time if it has ended, else the time that it has run.
    pub ran: f64,
    pub ended: bool,
}

impl Known {
    /// Returns a job that has not ended, or whose end is seen at the end of this round.
    pub fn live(job: &JobRef<'_>, round: Seconds) -> Self {
        let (ran, work) = (ran(job), job.truth().duration());
        let ended = round > Seconds::ZERO && job.truth().work_left() == 0.0 && ran <= work + round;
        Known {
            spec: job.truth().shared_spec(),
            ran: if ended { ran.min(work) } else { ran }.secs(),
            ended,
        }
    }

    /// Returns the duration that its user states.
    pub fn stated(&self) -> f64 {
        let estimate = self.spec.extras().user_estimate;
        let stated = estimate.unwrap_or_else(|| self.spec.duration());
        stated.secs().max(1e-3)
    }

    /// Returns the limit of its running time, which its attribute `time_limit_s` states.
    pub fn limit(&self) -> f64 {
        let limit = self.spec.attribute("time_limit_s");
        let limit = limit.and_then(serde_json::Value::as_f64);
        limit.unwrap_or(f64::INFINITY)
    }
}

/// Returns the running time of a job whose end was seen at the end of a round.
pub(super) fn worked(ran: Seconds, work: Seconds, round: Seconds) -> Seconds {
    match ran <= work + round {
        true => ran.min(work),
        false => ran,
    }
}

/// Returns the time that a job has run, as if it had always had the requested GPUs. Work that is
/// all done says nothing of the time beyond it.
pub(super) fn ran(job: &JobRef<'_>) -> Seconds {
    match job.truth().work_left() {
        0.0 => job.attained_time(),
        _ => Seconds::new(job.work_done() / job.own_rate()),
    }
}
