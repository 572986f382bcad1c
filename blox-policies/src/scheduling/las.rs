//! Least attained service.

use blox_core::{
    JobQueue, SchedulingPolicy, Stateless, Validity, View,
    order::SortKey,
    policy::{ByKey, by_key},
};

/// Measure of attained service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Service {
    /// Running time, regardless of the number of GPUs (Blox).
    #[default]
    Time,
    /// GPU-seconds (Tiresias' two-dimensional service).
    GpuTime,
}

/// Jobs in ascending order of attained service, with preemption.
///
/// A job with less service preempts jobs with more. Ties are broken by the job's number. Durations
/// need not be known. Long jobs can starve: see [`StarvationGuard`](super::StarvationGuard).
#[derive(Clone)]
pub struct Las(ByKey);

impl Default for Las {
    fn default() -> Self {
        Las::by(Service::Time)
    }
}

impl Las {
    /// Creates the policy with a measure of service.
    pub fn by(service: Service) -> Self {
        Las(match service {
            Service::Time => {
                by_key(|job| SortKey::by(job.attained_time().secs())).keys_advance_together()
            }
            Service::GpuTime => by_key(|job| SortKey::by(job.attained_gpu_time().secs())),
        }
        .preemptive())
    }
}

impl Stateless for Las {}

impl SchedulingPolicy for Las {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Validity {
        // Service grows while a job runs, so the order can change at any round with waiting jobs.
        self.0.schedule(&mut (), view, out)
    }
}
