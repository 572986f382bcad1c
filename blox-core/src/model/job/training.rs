//! Training jobs that choose their own batch: their specifications and their reports.

use super::throughput::{GradientNoise, ThroughputParams};
use crate::ids::Name;
use crate::sorted::SortedMap;
use crate::units::{GpuCount, Seconds};
use serde::{Deserialize, Serialize};

/// Adaptivity of a job while it trains (Sia, SOSP 2023, section 3.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Adapts {
    /// GPUs and batch.
    #[default]
    All,
    /// GPUs, up to the requested number; the batch stays as requested (strong scaling).
    Gpus,
    /// Neither. The job always runs on the requested number of GPUs with the requested batch
    /// (rigid).
    Nothing,
}

/// Limits and speed of a job on one GPU type.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TypeLimits {
    /// Smallest and largest number of samples of a pass of one replica; at least 1. A replica is
    /// one GPU, or a pipeline of several ([`TypeLimits::stages`]).
    pub per_gpu: (u32, u32),
    /// Samples a second of one replica with the largest pass, as profiled before submission, above
    /// 0.
    pub one_gpu_rate: f64,
    /// Number of GPUs of one replica: pipeline stages of a hybrid-parallel job (Sia, section 5.3),
    /// 1 for others. A hybrid-parallel job runs on whole replicas only.
    #[serde(default = "one")]
    pub stages: u32,
}

fn one() -> u32 {
    1
}

/// Specification of a training job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingSpec {
    /// Batch size over all GPUs that the job was written for, at least 1. One step with this batch
    /// is one iteration of the job's work.
    pub initial_batch: u32,
    /// Largest batch size over all GPUs, at least the initial one.
    pub max_batch: u32,
    /// The parameters that may be changed.
    #[serde(default)]
    pub adapts: Adapts,
    /// Duration of a restart from a checkpoint, as declared by the owner.
    pub restart: Seconds,
    /// Limits by GPU type; `""` if the cluster does not specify types. The job does not run on
    /// other types.
    pub types: SortedMap<Name, TypeLimits>,
}

impl TrainingSpec {
    /// Returns the limits on a GPU type.
    pub fn on(&self, gpu_type: &str) -> Option<&TypeLimits> {
        self.types.get(gpu_type)
    }

    /// Returns the number of replicas on GPUs of a type, and the number of nodes that they span:
    /// `nodes`, limited to 1 to the number of replicas. Returns `None` if the job does not run
    /// there: another type, or no whole replicas.
    pub fn replicas_on(&self, gpu_type: &str, nodes: u32, gpus: GpuCount) -> Option<(u32, u32)> {
        let stages = self.on(gpu_type)?.stages;
        let replicas = gpus.get() / stages;
        let runs = replicas > 0 && gpus.get().is_multiple_of(stages);
        runs.then_some((replicas, nodes.clamp(1, replicas)))
    }

    /// Describes the first invalid field; `None` if all are valid.
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
            let fits = low <= self.max_batch;
            let sound = low >= 1 && high >= low && fits && rate && t.stages >= 1;
            (!sound).then(|| format!("{t:?} for the type `{name}`"))
        })
    }
}

/// Speed of a job on one GPU type, as it reports it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpeedReport {
    /// Parameters fitted to its steps on that type.
    pub params: ThroughputParams,
    /// Largest number of GPUs that the job has run on there.
    pub most_gpus: GpuCount,
}

/// Report of a training job: enough for a scheduler to model its goodput.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainingReport {
    /// Current gradient noise.
    pub noise: GradientNoise,
    /// Speed, by the GPU types that the job has run on.
    pub speed: SortedMap<Name, SpeedReport>,
}

impl TrainingReport {
    /// Returns a number that no fit produces: below 0, or so large that sums would not be finite.
    pub(crate) fn unsound(&self) -> Option<f64> {
        let speeds = self.speed.values().flat_map(|s| s.params.to_array());
        let mut all = speeds.chain([self.noise.sqr, self.noise.var]);
        all.find(|x| !(0.0..=1e100).contains(x))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_that_no_fit_gives_are_unsound() {
        let of = |alpha_c, var| TrainingReport {
            noise: GradientNoise { sqr: 1.0, var },
            speed: [(
                "".into(),
                SpeedReport {
                    params: ThroughputParams::from_array([alpha_c, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]),
                    most_gpus: GpuCount(1),
                },
            )]
            .into(),
        };
        assert_eq!(of(1.0, 0.0).unsound(), None);
        assert_eq!(of(f64::INFINITY, 0.0).unsound(), Some(f64::INFINITY));
        assert_eq!(of(-1.0, 0.0).unsound(), Some(-1.0));
        assert_eq!(of(1.0, 1e308).unsound(), Some(1e308));
        assert!(of(f64::NAN, 1.0).unsound().is_some_and(f64::is_nan));
    }

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
        spec.max_batch = 8;
        spec.types.insert(
            "t4".into(),
            TypeLimits {
                per_gpu: (9, 9),
                ..limits(4.0)
            },
        );
        assert!(spec.fault().is_some_and(|f| f.ends_with("the type `t4`")));
    }
}
