//! Goodput models and batches of jobs from what they report.

use super::{BatchConfig, BatchLimits, GoodputModel, split};
use blox_core::{Adapts, GpuCount, TrainingReport, TrainingSpec};

impl GoodputModel {
    /// Returns the goodput model of a job on a GPU type from the job's report; `None` if the job
    /// has not run there.
    pub fn of_job(spec: &TrainingSpec, gpu_type: &str, report: &TrainingReport) -> Option<Self> {
        Some(GoodputModel {
            speed: report.speed.get(gpu_type)?.params,
            noise: report.noise,
            initial_batch: spec.initial_batch,
        })
    }
}

/// Returns the batch for GPUs of a type on `nodes` nodes: the best one by the job's report.
///
/// If the batch is [fixed](Adapts), this is the `asked` batch instead, else the initial one. If
/// the job has not reported, or no batch is within its limits, this is the initial one. Such a
/// batch is split into passes that fit, and is at least the smallest pass on each replica.
/// Returns `None` if the job [does not run](TrainingSpec::replicas_on) there.
///
/// ```
/// use blox_core::{GpuCount, Seconds, TrainingSpec, TypeLimits};
/// use blox_perf::goodput::batch_on;
/// let limits = TypeLimits { per_gpu: (8, 64), one_gpu_rate: 100.0, stages: 1 };
/// let spec = TrainingSpec {
///     initial_batch: 128,
///     max_batch: 1024,
///     adapts: Default::default(),
///     restart: Seconds::new(30.0),
///     types: [("a100".into(), limits)].into(),
/// };
/// let on = |gpus| batch_on(&spec, "a100", 1, GpuCount(gpus), None, None).unwrap();
/// assert_eq!((on(1).per_gpu, on(1).accumulation), (64, 1));
/// assert_eq!((on(4).per_gpu, on(4).accumulation), (32, 0));
/// assert_eq!(batch_on(&spec, "t4", 1, GpuCount(1), None, None), None);
/// ```
pub fn batch_on(
    spec: &TrainingSpec,
    gpu_type: &str,
    nodes: u32,
    gpus: GpuCount,
    asked: Option<u32>,
    report: Option<&TrainingReport>,
) -> Option<BatchConfig> {
    let (replicas, nodes) = spec.replicas_on(gpu_type, nodes, gpus)?;
    let on = spec.on(gpu_type)?;
    let mut limits = BatchLimits {
        max_batch: spec.max_batch,
        per_gpu: on.per_gpu,
        accumulate: on.stages == 1,
    };
    if spec.adapts == Adapts::All
        && let Some(model) = report.and_then(|r| GoodputModel::of_job(spec, gpu_type, r))
    {
        let best = model.best_batch(nodes, replicas, &limits);
        if best.goodput > 0.0 {
            return Some(best.config);
        }
    }
    limits.accumulate = true;
    let stays = asked.filter(|_| spec.adapts != Adapts::All);
    let least = on.per_gpu.0.saturating_mul(replicas);
    let batch = f64::from(stays.unwrap_or(spec.initial_batch).max(least));
    Some(split(batch, replicas, spec.initial_batch, &limits))
}
