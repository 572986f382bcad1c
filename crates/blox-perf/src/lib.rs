//! Models of job speed: plain mathematics shared by policies and backends.
//!
//! The data that jobs declare and report (rates, losses and step times) lies in `blox-core`. This
//! crate fits models to such data and evaluates them.
//!
//! | Task | Start with |
//! |---|---|
//! | Model how speed depends on GPUs, nodes, type or batch | [`Profile`], [`Setting`] |
//! | Use measured throughputs | [`ThroughputTable`] |
//! | Fit and use the goodput model of Pollux | [`goodput`], [`goodput::GoodputModel`] |
//! | Fit losses and predict the end of training | [`fit_loss`], [`converged`], [`flat_from`] |
//! | Fit speed to the number of workers | [`WorkerModel`] |
//! | Model jobs that share GPUs | [`PairTable`], [`Stages`], [`interleaved`] |
//! | Model GPUs of one type that differ in speed | [`gpu_scores`], [`app_class`] |
//! | Look up the skew of tensor sizes | [`SkewTable`] |

#![warn(missing_docs)]

pub mod goodput;
mod loss;
mod pairs;
mod skew;
mod stages;
mod utilisation;
mod variability;
mod workers;

pub use loss::{converged, fit_loss, flat_from};
pub use pairs::{PairTable, PairTableError};
pub use skew::SkewTable;
pub use stages::{Stages, interleaved, interleaving_efficiency, stages};
pub use utilisation::gpu_utilisation;
pub use variability::{APP_CLASS, SCORES, app_class, gpu_scores, wrong_scores};
pub use workers::WorkerModel;

use blox_core::SortedMap;
use blox_core::{BatchConfig, GpuCount, JobSpec, Name};
use serde::{Deserialize, Serialize};

/// A configuration in which a job runs, reduced to the factors that its speed depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting<'a> {
    /// Number of GPUs.
    pub gpus: GpuCount,
    /// Number of nodes of the GPUs.
    pub nodes: u32,
    /// GPU type; `None` if there is only one kind.
    pub gpu_type: Option<&'a Name>,
    /// The batch, if one was chosen.
    pub config: Option<BatchConfig>,
    /// The other job on the same GPUs.
    pub partner: Option<&'a JobSpec>,
}

impl Setting<'_> {
    /// A number of GPUs on one node.
    pub fn gpus(gpus: GpuCount) -> Self {
        Setting {
            gpus,
            nodes: 1,
            gpu_type: None,
            config: None,
            partner: None,
        }
    }
}

/// A speed model.
///
/// ```
/// use blox_core::{GpuCount, JobSpec, Seconds, Time};
/// use blox_perf::{Profile, Setting};
///
/// /// Each doubling of the GPUs makes a job 1.8 times as fast.
/// struct Doublings;
///
/// impl Profile for Doublings {
///     fn throughput(&self, job: &JobSpec, setting: &Setting<'_>) -> Option<f64> {
///         let ratio = f64::from(setting.gpus.get()) / f64::from(job.gpus.get());
///         Some(job.work.rate * 1.8_f64.powf(ratio.log2()))
///     }
/// }
///
/// let job = JobSpec::new(Time::ZERO, GpuCount(2), Seconds::new(600.0));
/// let rate = |gpus| Doublings.throughput(&job, &Setting::gpus(GpuCount(gpus)));
/// assert_eq!(rate(2), Some(job.work.rate));
/// assert_eq!(rate(4), Some(1.8 * job.work.rate));
/// ```
pub trait Profile: Send + Sync {
    /// Returns the iterations a second; `None` if unknown.
    fn throughput(&self, job: &JobSpec, setting: &Setting<'_>) -> Option<f64>;
}

/// Every job runs at its own rate on its requested number of GPUs, and in proportion on fewer or
/// more.
#[derive(Clone, Copy, Debug, Default)]
pub struct Linear;

impl Profile for Linear {
    fn throughput(&self, job: &JobSpec, setting: &Setting<'_>) -> Option<f64> {
        let asked = f64::from(job.gpus.get());
        Some(job.work.rate * f64::from(setting.gpus.get()) / asked)
    }
}

/// Measured throughputs by model, GPU type and GPU count.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ThroughputTable {
    /// Iterations a second: model, then GPU type (`""` for any), then GPU count.
    pub rates: SortedMap<Name, SortedMap<Name, SortedMap<u32, f64>>>,
}

impl ThroughputTable {
    /// Adds a measurement.
    pub fn set(&mut self, model: &str, gpu_type: &str, gpus: GpuCount, rate: f64) {
        self.rates
            .entry(Name::from(model))
            .or_default()
            .entry(Name::from(gpu_type))
            .or_default()
            .insert(gpus.get(), rate);
    }
}

impl Profile for ThroughputTable {
    fn throughput(&self, job: &JobSpec, setting: &Setting<'_>) -> Option<f64> {
        let by_type = self.rates.get(job.extras().model.as_ref()?)?;
        let by_count = setting
            .gpu_type
            .and_then(|t| by_type.get(t))
            .or_else(|| by_type.get(""))?;
        by_count.get(&setting.gpus.get()).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::{Extras, Seconds, Time};

    #[test]
    fn a_table_answers_what_was_measured_and_nothing_else() {
        let mut table = ThroughputTable::default();
        table.set("bert", "", GpuCount(2), 3.5);
        table.set("bert", "a100", GpuCount(2), 9.0);
        let job = JobSpec::new(Time::ZERO, GpuCount(2), Seconds::new(1.0)).with_extras(Extras {
            model: Some("bert".into()),
            ..Extras::default()
        });
        let a100 = Name::from("a100");
        let mut setting = Setting::gpus(GpuCount(2));
        assert_eq!(table.throughput(&job, &setting), Some(3.5));
        setting.gpu_type = Some(&a100);
        assert_eq!(table.throughput(&job, &setting), Some(9.0));
        setting.gpus = GpuCount(4);
        assert_eq!(table.throughput(&job, &setting), None);
    }
}
