//! Skew of the tensor sizes of models.

use blox_core::{Name, SortedMap, Submission};
use serde::{Deserialize, Serialize};

/// Skew of models by name: the fraction, from 0 to 1, of a model's parameters that its largest
/// tensor contains.
///
/// Tiresias (NSDI'19, section 3.3) observes that models with a few very large tensors lose speed if
/// their job is spread over machines. One parameter server then sends most of the bytes. Jobs of
/// models with even tensors do not lose speed.
///
/// The model of a job is in [`Extras::model`](blox_core::Extras::model). A job of an unlisted model
/// may give its own skew as the number `tensor_skew` among its
/// [attributes](blox_core::Extras::attributes). This number has precedence over the table.
///
/// ```
/// use blox_perf::SkewTable;
/// let table = SkewTable::image_models();
/// assert!(table.of_model("vgg16").unwrap() > 0.7);
/// assert!(table.of_model("resnet50").unwrap() < 0.1);
/// assert_eq!(table.of_model("unheard-of"), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SkewTable {
    models: SortedMap<Name, f64>,
}

/// Largest tensor and all parameters, in millions, of the published architectures. The largest
/// tensor is the first fully connected layer of VGG and AlexNet, the widest 3 x 3 convolution of
/// ResNet, and the classifier of Inception.
const IMAGE_MODELS: [(&str, f64, f64); 9] = [
    ("vgg19", 102.76, 143.67),
    ("vgg16", 102.76, 138.36),
    ("vgg11", 102.76, 132.86),
    ("alexnet", 37.75, 61.10),
    ("resnet152", 2.36, 60.19),
    ("resnet101", 2.36, 44.55),
    ("resnet50", 2.36, 25.56),
    ("inception4", 1.54, 42.68),
    ("inception3", 2.05, 23.83),
];

impl SkewTable {
    /// Name of the job attribute with the job's own skew.
    pub const ATTRIBUTE: &'static str = "tensor_skew";

    /// An empty table.
    pub fn new() -> Self {
        SkewTable::default()
    }

    /// The convolutional models of the TensorFlow benchmarks, which the jobs of Tiresias train: VGG
    /// 11, 16, 19, AlexNet, ResNet 50, 101, 152, Inception 3, 4.
    pub fn image_models() -> Self {
        IMAGE_MODELS
            .iter()
            .fold(SkewTable::new(), |table, (name, largest, all)| {
                table.with(*name, largest / all)
            })
    }

    /// Returns the table with the skew of a model added or replaced. Values outside 0 to 1 are
    /// clamped; NaN counts as 0.
    #[must_use]
    pub fn with(mut self, model: impl Into<Name>, skew: f64) -> Self {
        self.models.insert(model.into(), share(skew));
        self
    }

    /// Returns the skew of a model; `None` if the table does not list the model.
    pub fn of_model(&self, model: &str) -> Option<f64> {
        self.models.get(model).copied()
    }

    /// Returns the skew of a job: its own, else the skew of its model; `None` if both are unknown.
    pub fn of_job(&self, job: &Submission) -> Option<f64> {
        let extras = job.extras.as_deref()?;
        let own = extras.attributes.get(Self::ATTRIBUTE);
        own.and_then(serde_json::Value::as_f64)
            .map(share)
            .or_else(|| self.of_model(extras.model.as_deref()?))
    }
}

fn share(skew: f64) -> f64 {
    if skew.is_nan() {
        0.0
    } else {
        skew.clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::{Extras, GpuCount, JobSpec, Seconds, Time};

    fn job(extras: Extras) -> JobSpec {
        JobSpec::new(Time::ZERO, GpuCount(4), Seconds::new(1.0)).with_extras(extras)
    }

    #[test]
    fn a_job_may_bring_its_own() {
        let table = SkewTable::image_models();
        let model = job(Extras {
            model: Some("alexnet".into()),
            ..Extras::default()
        });
        assert!((table.of_job(&model).unwrap() - 0.618).abs() < 0.001);
        let mut own = model.clone();
        if let Some(extras) = &mut own.extras {
            extras
                .attributes
                .insert(SkewTable::ATTRIBUTE.into(), serde_json::json!(0.25));
        }
        assert_eq!(table.of_job(&own), Some(0.25));
        assert_eq!(table.of_job(&job(Extras::default())), None);
    }
}
