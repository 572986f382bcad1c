//! Least attained service.

use blox_core::{
    Outlook, Requests, SchedulingPolicy, Stateless, View,
    order::SortKey,
    policy::{ByKey, by_key},
};

/// What counts as service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Service {
    /// Time for which the job ran, whatever its size (Blox).
    #[default]
    Time,
    /// GPU-seconds (Tiresias' two-dimensional service).
    GpuTime,
}

/// Jobs in ascending order of attained service: who had least runs, and stops
/// who had more. Ties are broken by the job's number. Needs no knowledge of
/// durations. Long jobs can starve: see [`StarvationGuard`](super::StarvationGuard).
#[derive(Clone)]
pub struct Las(ByKey);

impl Default for Las {
    fn default() -> Self {
        Las::by(Service::Time)
    }
}

impl Las {
    /// By one kind of service.
    pub fn by(service: Service) -> Self {
        Las(match service {
            Service::Time => by_key(|job| SortKey::by(job.attained_time().secs())).alike(),
            Service::GpuTime => by_key(|job| SortKey::by(job.attained_gpu_time().secs())),
        }
        .preemptive())
    }
}

impl Stateless for Las {}

impl SchedulingPolicy for Las {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut Requests) -> Outlook {
        // Service grows while a job runs, so the order can change at any round
        // in which somebody waits.
        self.0.schedule(&mut (), view, out)
    }
}
