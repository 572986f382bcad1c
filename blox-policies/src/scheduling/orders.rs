//! Orders of jobs by a key.

use super::listed::{shares, totals};
use blox_core::estimate::{Estimator, Oracle};
use blox_core::order::SortKey;
use blox_core::policy::{ByKey, KeyFn, by_key};
use blox_core::{
    Answer, JobQueue, JobRef, MissingData, Policy, SchedulingPolicy, Seconds, Stateless,
    Submission, Validity, View,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Returns the key of an estimate. Jobs without one come last.
fn known(estimate: Option<Seconds>) -> SortKey {
    SortKey::by(estimate.map_or(f64::MAX, Seconds::secs))
}

/// Returns the GPU time of an estimated time on the requested GPUs.
fn on_gpus(estimate: Option<Seconds>, job: &JobRef<'_>) -> Option<Seconds> {
    Some(estimate? * job.amount().number())
}

/// Creates an order by a key that uses an estimator.
fn by_estimate<E: Estimator>(
    estimator: Arc<E>,
    key: impl Fn(&E, &JobRef<'_>) -> SortKey + Send + Sync + 'static,
) -> ByKey {
    let checks = Arc::clone(&estimator);
    by_key(move |job| key(&estimator, job)).checking(move |job| checks.check_job(job))
}

/// Jobs in order of submission, without preemption.
///
/// A job of a higher user priority comes before all jobs of a lower priority. Ties are broken by
/// the job's number.
#[derive(Clone)]
pub struct Fifo(ByKey);

impl Default for Fifo {
    fn default() -> Self {
        Fifo(
            by_key(|job| {
                SortKey::by(job.submit().secs()).in_class(job.spec().priority.saturating_neg())
            })
            .valid_until_event(),
        )
    }
}

impl Stateless for Fifo {}

impl SchedulingPolicy for Fifo {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Answer {
        self.0.schedule(&mut (), view, out)
    }
}

/// Jobs in ascending order of estimated total duration, without preemption.
///
/// Jobs without an estimate come last. Ties are broken by the job's number.
#[derive(Clone)]
pub struct Sjf(ByKey);

impl Default for Sjf {
    fn default() -> Self {
        Sjf::with(Oracle)
    }
}

impl Sjf {
    /// Creates the policy with an estimator. The estimator receives no events, since estimates of
    /// waiting jobs must not change.
    pub fn with(estimator: impl Estimator) -> Self {
        Sjf(by_estimate(Arc::new(estimator), |e, job| known(e.duration(job))).valid_until_event())
    }
}

impl Stateless for Sjf {
    fn check_job(&self, job: &Submission) -> Result<(), MissingData> {
        Stateless::check_job(&self.0, job)
    }
}

impl SchedulingPolicy for Sjf {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Answer {
        self.0.schedule(&mut (), view, out)
    }
}

/// Jobs in ascending order of estimated GPU time, without preemption (Helios, SC 2021, section
/// 4.2).
///
/// The GPU time is the duration multiplied by the number of GPUs. Jobs without an estimate come
/// last. Ties are broken by the job's number.
#[derive(Clone)]
pub struct Qssf(ByKey);

impl Default for Qssf {
    fn default() -> Self {
        Qssf::with(Oracle)
    }
}

impl Qssf {
    /// Creates the policy with an estimator. The estimator receives no events, since estimates of
    /// waiting jobs must not change.
    pub fn with(estimator: impl Estimator) -> Self {
        let key = by_estimate(Arc::new(estimator), |e, job| {
            known(on_gpus(e.duration(job), job))
        });
        Qssf(key.valid_until_event())
    }
}

impl Stateless for Qssf {
    fn check_job(&self, job: &Submission) -> Result<(), MissingData> {
        Stateless::check_job(&self.0, job)
    }
}

impl SchedulingPolicy for Qssf {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Answer {
        self.0.schedule(&mut (), view, out)
    }
}

/// Jobs in ascending order of estimated remaining time.
///
/// A job with less remaining time preempts a running job. Jobs without an estimate come last. Ties
/// are broken by the job's number.
#[derive(Clone)]
pub struct Srtf(ByKey);

impl Default for Srtf {
    fn default() -> Self {
        Srtf::with(Oracle)
    }
}

impl Srtf {
    /// Creates the policy with an estimator. The estimator receives no events, since estimates of
    /// waiting jobs must not change.
    pub fn with(estimator: impl Estimator) -> Self {
        // The remaining time of a running job shrinks, so it never falls behind a waiting job.
        let key = by_estimate(Arc::new(estimator), |e, job| known(e.remaining(job)));
        Srtf(key.preemptive().valid_until_event())
    }
}

impl Stateless for Srtf {
    fn check_job(&self, job: &Submission) -> Result<(), MissingData> {
        Stateless::check_job(&self.0, job)
    }
}

impl SchedulingPolicy for Srtf {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Answer {
        self.0.schedule(&mut (), view, out)
    }
}

/// Jobs in ascending order of remaining GPU time (Tiresias, NSDI 2019).
///
/// The remaining GPU time is the estimated remaining time multiplied by the requested GPUs. A job
/// with less remaining GPU time preempts a running job. Jobs without an estimate come last. Ties
/// are broken by the job's number.
#[derive(Clone)]
pub struct Srsf(ByKey);

impl Default for Srsf {
    fn default() -> Self {
        Srsf::with(Oracle)
    }
}

impl Srsf {
    /// Creates the policy with an estimator. The estimator receives no events, since estimates of
    /// waiting jobs must not change.
    pub fn with(estimator: impl Estimator) -> Self {
        let key = by_estimate(Arc::new(estimator), |e, job| {
            known(on_gpus(e.remaining(job), job))
        });
        Srsf(key.preemptive().valid_until_event())
    }
}

impl Stateless for Srsf {
    fn check_job(&self, job: &Submission) -> Result<(), MissingData> {
        Stateless::check_job(&self.0, job)
    }
}

impl SchedulingPolicy for Srsf {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Answer {
        self.0.schedule(&mut (), view, out)
    }
}

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
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Answer {
        // Service grows while a job runs, so the order can change at any round with waiting jobs.
        self.0.schedule(&mut (), view, out)
    }
}

/// Jobs in ascending order of their dominant share (DRF, NSDI 2011).
///
/// The dominant share is the largest fraction that a job requests of all GPUs, all CPUs or all
/// memory. As in Synergy, every job counts as a user with one task. Ties are broken by the job's
/// number. Large jobs can starve: see [`StarvationGuard`](super::StarvationGuard).
#[derive(Clone, Copy, Debug, Default)]
pub struct Drf;

impl Policy for Drf {
    type Memory = ByShares;

    fn initial(&self, _: u64) -> ByShares {
        ByShares::default()
    }
}

impl SchedulingPolicy for Drf {
    fn schedule(&self, memory: &mut ByShares, view: View<'_>, out: &mut JobQueue) -> Answer {
        memory.keep(view, out, |totals| {
            Arc::new(move |job| {
                let [gpus, cpus, memory] = shares(job, &totals);
                SortKey::by(gpus.max(cpus).max(memory))
            })
        });
        out.allow_preemption();
        Ok(Validity::UntilEvent)
    }
}

/// Memory of an order by shares of the cluster. It can be derived from the view.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct ByShares {
    /// The key, and the totals that it is for: GPUs, CPUs and memory.
    #[serde(skip)]
    key: Option<([f64; 3], KeyFn)>,
}

impl ByShares {
    /// Requests all jobs by a key, which changes only with the totals of the cluster.
    fn keep(&mut self, view: View<'_>, out: &mut JobQueue, key: impl FnOnce([f64; 3]) -> KeyFn) {
        let totals = totals(view);
        if self.key.as_ref().is_none_or(|(of, _)| *of != totals) {
            self.key = Some((totals, key(totals)));
        }
        if let Some((_, key)) = &self.key {
            out.keep(view, key);
        }
    }
}

/// Jobs in descending order of finish-time fairness, with preemption.
///
/// The key is the job's age plus its remaining time, divided by its total time on dedicated GPUs.
/// So the job that sharing slowed down most comes first. Themis (NSDI 2020) computes the ratio
/// against a fair share of the cluster, and uses auctions. This is Synergy's order derived from it,
/// in the intended direction. Jobs without an estimate come last.
#[derive(Clone)]
pub struct FinishTimeFairness(ByKey);

impl Default for FinishTimeFairness {
    fn default() -> Self {
        FinishTimeFairness::with(Oracle)
    }
}

impl FinishTimeFairness {
    /// Creates the policy with an estimator. The estimator receives no events, since estimates of
    /// waiting jobs must not change.
    pub fn with(estimator: impl Estimator + 'static) -> Self {
        let estimator = Arc::new(estimator);
        let durations = Arc::clone(&estimator);
        let key = by_estimate(estimator, |estimator, job| {
            let (whole, left) = (estimator.duration(job), estimator.remaining(job));
            SortKey::by(match (whole, left) {
                (Some(whole), Some(left)) if whole > Seconds::ZERO => {
                    -((job.age() + left).secs() / whole.secs())
                }
                // A job without work counts as slowed down most.
                (Some(_), Some(_)) => f64::MIN,
                _ => f64::MAX,
            })
        });
        FinishTimeFairness(key.preemptive().changing_by(move |job| {
            let whole = durations.duration(job).map_or(0.0, Seconds::secs);
            if whole > 0.0 { -1.0 / whole } else { 0.0 }
        }))
    }
}

impl Stateless for FinishTimeFairness {
    fn check_job(&self, job: &Submission) -> Result<(), MissingData> {
        Stateless::check_job(&self.0, job)
    }
}

impl SchedulingPolicy for FinishTimeFairness {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Answer {
        self.0.schedule(&mut (), view, out)
    }
}

/// Jobs in ascending order of remaining resource use (Tetris, SIGCOMM 2014, section 3.2).
///
/// The key is the remaining time, times the sum of the fractions that a job requests of all GPUs,
/// CPUs and memory. This is Tetris's extension of shortest remaining time to several resources;
/// packing is left to the placement. Jobs without an estimate come last.
#[derive(Clone)]
pub struct Tetris {
    estimator: Arc<dyn Estimator>,
}

impl Default for Tetris {
    fn default() -> Self {
        Tetris::with(Oracle)
    }
}

impl Tetris {
    /// Creates the policy with an estimator. The estimator receives no events, since estimates of
    /// waiting jobs must not change.
    pub fn with(estimator: impl Estimator + 'static) -> Self {
        Tetris {
            estimator: Arc::new(estimator),
        }
    }
}

impl Policy for Tetris {
    type Memory = ByShares;

    fn initial(&self, _: u64) -> ByShares {
        ByShares::default()
    }

    fn check_job(&self, job: &Submission) -> Result<(), MissingData> {
        self.estimator.check_job(job)
    }
}

impl SchedulingPolicy for Tetris {
    fn schedule(&self, memory: &mut ByShares, view: View<'_>, out: &mut JobQueue) -> Answer {
        memory.keep(view, out, |totals| {
            let estimator = Arc::clone(&self.estimator);
            Arc::new(move |job| {
                SortKey::by(match estimator.remaining(job) {
                    Some(left) => left.secs() * shares(job, &totals).iter().sum::<f64>(),
                    None => f64::MAX,
                })
            })
        });
        out.allow_preemption();
        // The remaining time of a running job shrinks, so it never falls behind a waiting job.
        Ok(Validity::UntilEvent)
    }
}
