//! Jobs that train with a batch of their own choosing: what they say of themselves
//! before they run, and what they report while they do.

use crate::ids::Name;
use crate::perf::goodput::{GradientNoise, ThroughputParams};
use crate::units::{GpuCount, Seconds};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What may be changed about a job while it trains (Sia, SOSP 2023, section 3.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Adapts {
    /// GPUs and batch.
    #[default]
    All,
    /// GPUs, up to as many as it asks for; the batch stays as asked (strong scaling).
    Gpus,
    /// Neither: it runs on as many GPUs as it asks for with the batch that it asks for,
    /// or not at all (rigid).
    Nothing,
}

/// What a job says of itself on one type of GPU.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TypeLimits {
    /// Samples of a pass on one GPU, at least and at most; at least 1.
    pub per_gpu: (u32, u32),
    /// Samples a second on one GPU with the greatest pass, as profiled before
    /// submission, above 0.
    pub one_gpu_rate: f64,
    /// GPUs of one replica: pipeline stages of a hybrid-parallel job, 1 for others.
    pub stages: u32,
}

/// What a training job says of itself when it is submitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingSpec {
    /// The batch over all GPUs that it was written for, and whose steps count as one
    /// iteration of its work, at least 1.
    pub initial_batch: u32,
    /// The greatest batch over all GPUs, at least the initial one.
    pub max_batch: u32,
    /// What may be changed.
    #[serde(default)]
    pub adapts: Adapts,
    /// How long it takes to restart from a checkpoint, as its owner says.
    pub restart: Seconds,
    /// By type of GPU; `""` where the cluster does not say. The job does not run on
    /// other types.
    pub types: BTreeMap<Name, TypeLimits>,
}

impl TrainingSpec {
    /// What it says of a type of GPU.
    pub fn on(&self, gpu_type: &str) -> Option<&TypeLimits> {
        self.types.get(gpu_type)
    }

    /// Whether the numbers make sense; the first that does not, in words.
    pub(super) fn fault(&self) -> Option<String> {
        if self.initial_batch == 0 || self.max_batch < self.initial_batch {
            return Some(format!(
                "batches from {} to {}",
                self.initial_batch, self.max_batch
            ));
        }
        if self.restart < Seconds::ZERO {
            return Some(format!("a restart of {} s", self.restart));
        }
        self.types.iter().find_map(|(name, t)| {
            let (low, high) = t.per_gpu;
            let rate = t.one_gpu_rate.is_finite() && t.one_gpu_rate > 0.0;
            let sound = low >= 1 && high >= low && rate && t.stages >= 1;
            (!sound).then(|| format!("{t:?} for the type `{name}`"))
        })
    }
}

/// What a job knows of its speed on one type of GPU.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpeedReport {
    /// Fitted to the steps that it did there.
    pub params: ThroughputParams,
    /// The most GPUs that it has run on there.
    pub most_gpus: GpuCount,
}

/// What a training job reports: enough for a scheduler to
/// [model its goodput](crate::perf::goodput::GoodputModel).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainingReport {
    /// The noise of its gradients now.
    pub noise: GradientNoise,
    /// Its speed, by the types of GPU that it has run on.
    pub speed: BTreeMap<Name, SpeedReport>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_found_by_name_and_faults_are_named() {
        let limits = |rate| TypeLimits {
            per_gpu: (1, 8),
            one_gpu_rate: rate,
            stages: 1,
        };
        let mut spec = TrainingSpec {
            initial_batch: 8,
            max_batch: 64,
            adapts: Adapts::All,
            restart: Seconds::new(30.0),
            types: [("a100".into(), limits(4.0))].into(),
        };
        assert_eq!(spec.on("a100"), Some(&limits(4.0)));
        assert_eq!(spec.on("t4"), None);
        assert_eq!(spec.fault(), None);
        spec.max_batch = 4;
        assert_eq!(spec.fault().as_deref(), Some("batches from 8 to 4"));
    }
}
