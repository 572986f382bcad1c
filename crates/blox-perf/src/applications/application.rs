//! Applications that jobs train.

use super::curves::Curves;
use super::table::StepTable;
use crate::goodput::{BatchConfig, BatchLimits, split};
use blox_core::SortedMap;
use blox_core::{Adapts, GradientNoise, Name, Seconds, ThroughputParams, TrainingSpec, TypeLimits};

/// Step times on one GPU type.
#[derive(Clone, Debug, PartialEq)]
pub enum StepTimes {
    /// A table of measured step times.
    Measured(Box<StepTable>),
    /// A model with fitted parameters.
    Fitted(ThroughputParams),
}

impl StepTimes {
    /// Returns the seconds of a step of one pass, and of its gradient exchange; `None` if unknown.
    pub fn step(&self, placement: &[u32], per_gpu: u32) -> Option<(f64, f64)> {
        match self {
            StepTimes::Measured(table) => table.step(placement, per_gpu),
            StepTimes::Fitted(p) => {
                let (nodes, gpus) = (placement.len() as u32, placement.iter().sum());
                let step = p.step(nodes, gpus, f64::from(per_gpu), 0);
                Some((step, step - p.pass(f64::from(per_gpu))))
            }
        }
    }
}

/// An application on one type of GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct OnType {
    /// Limits on that type.
    pub limits: TypeLimits,
    /// Step times on that type.
    pub steps: StepTimes,
}

impl OnType {
    /// Returns the number of replicas on `gpus` GPUs.
    pub fn replicas(&self, gpus: u32) -> u32 {
        gpus / self.limits.stages.max(1)
    }

    /// Returns the seconds of a step of one pass with `per_replica` samples on each replica, and of
    /// its gradient exchange. Returns `None` if the times are unknown, or if no replica fits.
    ///
    /// A pass of a pipeline runs `per_replica` micro-batches of one sample forward and backward
    /// through all stages. It takes `3 (stages - 1 + per_replica)` times the measured forward pass
    /// of one stage. Its exchange does not overlap with computing.
    pub fn step(&self, placement: &[u32], per_replica: u32) -> Option<(f64, f64)> {
        let stages = self.limits.stages;
        if stages <= 1 {
            return self.steps.step(placement, per_replica);
        }
        let gpus = placement.iter().sum();
        let replicas = self.replicas(gpus);
        if replicas == 0 || !gpus.is_multiple_of(stages) {
            return None;
        }
        match &self.steps {
            StepTimes::Measured(table) => {
                let (forth, sync) = table.step(placement, 1)?;
                let turns = 3.0 * f64::from(stages - 1 + per_replica);
                Some((turns * forth + sync, sync))
            }
            StepTimes::Fitted(p) => {
                let nodes = (placement.len() as u32).min(replicas);
                let per_replica = f64::from(per_replica);
                let step = p.step(nodes, replicas, per_replica, 0);
                Some((step, step - p.pass(per_replica)))
            }
        }
    }

    /// Returns the largest number of samples of a pass on a placement.
    pub fn most_per_gpu(&self, placement: &[u32]) -> u32 {
        match &self.steps {
            StepTimes::Measured(table) if self.limits.stages <= 1 => table.most_per_gpu(placement),
            _ => None,
        }
        .unwrap_or(self.limits.per_gpu.1)
    }

    /// Returns the largest number of samples of a pass that was measured on any placement of
    /// `replicas` replicas; `None` if the times are fitted or a replica has several stages.
    pub fn most_measured_on(&self, replicas: u32) -> Option<u32> {
        match &self.steps {
            StepTimes::Measured(table) if self.limits.stages <= 1 => {
                table.most_per_gpu_on(replicas)
            }
            _ => None,
        }
    }
}

/// An application: a model with its data set.
#[derive(Clone, Debug, PartialEq)]
pub struct Application {
    /// Batch size that the application was written for.
    pub initial_batch: u32,
    /// Largest batch size.
    pub max_batch: u32,
    /// Training curves.
    pub curves: Curves,
    /// Duration of a restart from a checkpoint.
    pub restart: Seconds,
    /// Factor on measured step times for input, validation and checkpoints.
    pub slowdown: f64,
    /// Limits and step times by GPU type.
    pub types: SortedMap<Name, OnType>,
}

impl Application {
    /// Returns the training specification of the application's jobs.
    pub fn spec(&self, adapts: Adapts) -> TrainingSpec {
        TrainingSpec {
            initial_batch: self.initial_batch,
            max_batch: self.max_batch,
            adapts,
            restart: self.restart,
            types: self
                .types
                .iter()
                .map(|(name, on)| (name.clone(), on.limits))
                .collect(),
        }
    }

    /// Divides a batch into passes of at most `most` samples on each of `replicas` replicas, above
    /// 0. Without a batch, this is the initial batch, or the smallest pass on each replica if that
    /// is larger.
    pub fn passes_of(
        &self,
        on: &OnType,
        replicas: u32,
        batch: Option<u32>,
        most: u32,
    ) -> BatchConfig {
        let least = on.limits.per_gpu.0;
        let first = self.initial_batch.max(least.saturating_mul(replicas));
        let limits = BatchLimits {
            max_batch: self.max_batch,
            per_gpu: (least, most),
            accumulate: true,
        };
        let batch = f64::from(batch.unwrap_or(first));
        split(batch, replicas, self.initial_batch, &limits)
    }

    /// Returns the batch with passes of at most `most` samples that together are at most the
    /// largest batch.
    pub fn limited(
        &self,
        mut config: BatchConfig,
        replicas: u32,
        most: Option<u32>,
    ) -> BatchConfig {
        let passes = replicas.saturating_mul(config.accumulation + 1).max(1);
        let most = most.unwrap_or(u32::MAX).min(self.max_batch / passes);
        config.per_gpu = config.per_gpu.min(most);
        config
    }

    /// Returns the iterations of the initial batch a second in the first epoch, if each step has
    /// `batch` samples. Returns `None` if the application does not run on this placement.
    pub(super) fn rate_with_batch(
        &self,
        gpu_type: &str,
        placement: &[u32],
        batch: u32,
    ) -> Option<f64> {
        let on = self.types.get(gpu_type)?;
        let replicas = on.replicas(placement.iter().sum());
        if replicas == 0 {
            return None;
        }
        let most = on.most_per_gpu(placement);
        let config = self.passes_of(on, replicas, Some(batch), most);
        let config = self.limited(config, replicas, on.most_measured_on(replicas));
        let steps = on.step(placement, config.per_gpu)?;
        let (rate, _) = self.rate(replicas, config, steps, 0);
        (rate > 0.0).then_some(rate)
    }

    /// Returns the iterations of the initial batch a second in an epoch, and the gradient noise.
    /// `step` and `sync` are the seconds of a step and of its exchange.
    pub fn rate(
        &self,
        replicas: u32,
        config: BatchConfig,
        (step, sync): (f64, f64),
        epoch: usize,
    ) -> (f64, GradientNoise) {
        let passes = f64::from(config.accumulation) + 1.0;
        let batch = f64::from(replicas) * f64::from(config.per_gpu) * passes;
        let scale = batch / f64::from(self.initial_batch);
        let noise = self.curves.noise(epoch, batch);
        let total = step + (step - sync) * f64::from(config.accumulation);
        let rate = noise.gain(scale) / total * (1.0 / self.slowdown);
        (rate, noise)
    }
}
