//! Training jobs: the batch configuration of a launch, and goodput models fitted to its step times.

use super::{Launches, Record};
use crate::protocol::ids::AttemptId;
use blox_core::{
    Assignment, Event, GpuCount, GradientNoise, JobRef, Name, NameId, SpeedReport, TrainingReport,
    View,
};
use blox_perf::goodput::{BatchConfig, GoodputModel, StepTime, batch_on, fit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

// Names of the metrics that jobs report.

/// Seconds of a forward and backward pass without communication.
const PASS: &str = "pass_s";
/// Seconds of a step of one pass, including the gradient exchange.
const STEP: &str = "step_s";
/// Squared norm of the gradient.
const SQR: &str = "grad_sqr";
/// Variance of the gradient at the initial batch size.
const VAR: &str = "grad_var";
/// Batch size of a GPU, if it differs from the batch configuration of the launch.
const PER_GPU: &str = "batch_per_gpu";

/// Plausible duration of a step or pass in seconds. Values outside are measurement errors.
const SECONDS: RangeInclusive<f64> = 1e-9..=1e9;
/// Relative difference below which two readings count as equal.
const ALIKE: f64 = 0.05;
/// Limit on the stored configurations of a GPU type.
const MOST_WAYS: usize = 64;

/// Measured step times of a job, by GPU type, with one entry for each configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Steps(BTreeMap<Name, Vec<StepTime>>);

impl Steps {
    pub(super) fn add(&mut self, gpu_type: &Name, steps: StepTime) {
        let known = self.0.entry(gpu_type.clone()).or_default();
        known.retain(|k| way(k) != way(&steps));
        if known.len() == MOST_WAYS {
            known.remove(0);
        }
        known.push(steps);
    }

    fn contains(&self, gpu_type: &Name, steps: &StepTime) -> bool {
        let mut known = self.0.get(gpu_type).into_iter().flatten();
        known.any(|k| {
            way(k) == way(steps) && near(k.compute, steps.compute) && near(k.step, steps.step)
        })
    }
}

/// Returns the configuration of a measurement: nodes, GPUs and batch size of a GPU.
fn way(s: &StepTime) -> (u32, u32, u32) {
    (s.nodes, s.gpus, s.per_gpu)
}

fn near(a: f64, b: f64) -> bool {
    a == b || (a - b).abs() <= ALIKE * a.abs().max(b.abs())
}

/// Returns the GPU type of an assignment and its number of nodes.
fn place(view: View<'_>, bound: &Assignment) -> Option<(Name, u32)> {
    let cluster = view.cluster();
    let mut nodes: Vec<_> = bound.gpus.iter().map(|g| cluster.node_of(*g)).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let first = cluster.node((*nodes.first()?)?)?;
    let name = cluster.gpu_types().get(NameId(first.gpu_type().0))?;
    Some((name.clone(), nodes.len() as u32))
}

/// Returns the batch configuration for a launch on these GPUs, if the job's batch size is
/// adjustable.
pub(super) fn batch(view: View<'_>, job: &JobRef<'_>, bound: &Assignment) -> Option<BatchConfig> {
    let extras = job.spec().extras();
    let training = extras.training.as_ref()?;
    let (gpu_type, nodes) = place(view, bound)?;
    let gpus = GpuCount(bound.gpus.len() as u32);
    batch_on(
        training,
        &gpu_type,
        nodes,
        gpus,
        extras.batch_size,
        job.report(),
    )
}

/// Returns the iterations per second on these GPUs according to the goodput model that was fitted
/// to the job's reports.
pub(super) fn modelled_rate(view: View<'_>, job: &JobRef<'_>, bound: &Assignment) -> Option<f64> {
    let training = job.spec().extras().training.as_ref()?;
    let (gpu_type, nodes) = place(view, bound)?;
    let model = GoodputModel::of_job(training, &gpu_type, job.report()?)?;
    let gpus = GpuCount(bound.gpus.len() as u32);
    let (replicas, nodes) = training.replicas_on(&gpu_type, nodes, gpus)?;
    let given = BatchConfig::of(&bound.config);
    let config = given.or_else(|| batch(view, job, bound))?;
    let goodput = model.goodput(nodes, replicas, config.per_gpu, config.accumulation);
    let rate = goodput / f64::from(training.initial_batch);
    Some(rate).filter(|rate| (1e-30..=1e30).contains(rate))
}

impl Launches {
    /// Updates the goodput model from reported metrics. The core receives the model only if it has
    /// changed.
    pub(super) fn learn(
        &mut self,
        id: AttemptId,
        view: View<'_>,
        job: &JobRef<'_>,
        numbers: &BTreeMap<Name, f64>,
    ) {
        let extras = job.spec().extras();
        let (Some(training), Some(bound)) = (&extras.training, job.bound()) else {
            return;
        };
        let mut news = false;
        if let Some((gpu_type, steps)) = self.steps_of(id, view, job, bound, numbers)
            && !(self.durable.steps.get(&id.job)).is_some_and(|k| k.contains(&gpu_type, &steps))
        {
            news = true;
            let record = Record::Steps {
                job: id.job,
                gpu_type,
                steps,
            };
            self.note(record);
        }
        let reading = |name: &str| {
            numbers
                .get(name)
                .copied()
                .filter(|x| (0.0..=1e30).contains(x))
        };
        let noise = reading(SQR).zip(reading(VAR));
        let noise = noise.map(|(sqr, var)| GradientNoise { sqr, var });
        let before = job.report().map(|r| r.noise);
        news |= match (before, noise) {
            (Some(a), Some(b)) => !near(a.sqr, b.sqr) || !near(a.var, b.var),
            _ => false,
        };
        let known = self.durable.steps.get(&id.job);
        let Some(known) = known.filter(|_| news) else {
            return;
        };
        let speed = known.0.iter().filter_map(|(gpu_type, observed)| {
            let most = observed.iter().map(|o| o.gpus).max()?;
            let speed = SpeedReport {
                params: fit(observed)?,
                most_gpus: GpuCount(most * training.on(gpu_type)?.stages),
            };
            Some((gpu_type.clone(), speed))
        });
        let report = TrainingReport {
            // If the job has not reported its gradient noise, assume that a larger batch gains
            // nothing.
            noise: noise
                .or(before)
                .unwrap_or(GradientNoise { sqr: 1.0, var: 0.0 }),
            speed: speed.collect(),
        };
        self.out.events.push(Event::Reported {
            job: id.job,
            report: Arc::new(report),
        });
    }

    /// Returns the reported step time and its GPU type.
    fn steps_of(
        &self,
        id: AttemptId,
        view: View<'_>,
        job: &JobRef<'_>,
        bound: &Assignment,
        numbers: &BTreeMap<Name, f64>,
    ) -> Option<(Name, StepTime)> {
        let training = job.spec().extras().training.as_ref()?;
        let (_, task) = self.durable.attempts.get(&id)?.launch.parts.first()?;
        let (gpu_type, nodes) = place(view, bound)?;
        let gpus = GpuCount(bound.gpus.len() as u32);
        let (replicas, nodes) = training.replicas_on(&gpu_type, nodes, gpus)?;
        let reading = |name: &str| numbers.get(name).copied().filter(|x| SECONDS.contains(x));
        let step = reading(STEP)?;
        // A single replica exchanges no gradients, so a step is a pass.
        let compute = reading(PASS).or((replicas == 1).then_some(step))?;
        let own = numbers.get(PER_GPU).copied();
        let own = own.filter(|n| *n >= 1.0 && *n <= f64::from(u32::MAX));
        let configured = BatchConfig::of(&task.config).map(|b| b.per_gpu);
        let per_gpu = own.map(|n| n as u32).or(configured)?;
        let steps = StepTime {
            nodes,
            gpus: replicas,
            per_gpu,
            compute: compute.min(step),
            step,
        };
        Some((gpu_type, steps))
    }
}
