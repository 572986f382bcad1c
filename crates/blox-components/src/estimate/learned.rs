//! Estimators that use a trained model.

use super::job::{Known, missing, of_job};
use super::log::dated;
use super::{Saved, Scale};
use blox_core::estimate::Estimator;
use blox_core::{JobRef, MissingData, Seconds, Submission};
use blox_learn::{Column, Frame, LearnError};
use std::sync::Arc;

/// Estimator that uses a trained model. The estimate of a job is above 0 and never changes.
///
/// Features come from the job. They have the column names of a log of Helios or Philly, or of a CSV
/// trace. The names of the logs are `user`, `vc`, `cluster`, `gpu_num`, `num_gpus`, `cpu_num`,
/// `model` and `batchsize`. The names of a CSV trace are `virtual_cluster`, `group`, `gpus`,
/// `cpus`, `memory_gib`, `batch_size`, `priority`, `submit_s`, `user_estimate_s` and
/// `attributes.NAME`. `month`, `day`, `hour` and `dayofweek` come from the submission time. Any
/// other feature is the job's attribute of that name.
///
/// Each feature is a number or a category, as in the training. A job that lacks a feature is refused
/// by name ([`Estimator::check_job`]), unless rows of the training lacked the feature, too.
#[derive(Clone, Debug)]
pub struct Learned {
    saved: Arc<Saved>,
    origin: f64,
}

impl Learned {
    /// Creates the estimator with a model. `origin` is the date at which the workload's clock shows
    /// 0, in seconds since 1970.
    ///
    /// # Errors
    /// The model needs time series, which a single job does not provide. Or its scale is linear, so
    /// durations could be negative.
    pub fn new(saved: Saved, origin: f64) -> Result<Self, LearnError> {
        if let Some(series) = saved.recipe.series.first() {
            return Err(LearnError::Missing {
                feature: series.clone(),
                found: "single jobs, which tell no series".to_owned(),
            });
        }
        if saved.scale == Scale::Linear {
            return Err(LearnError::Setting {
                setting: "scale",
                found: "linear".to_owned(),
                expected: "log, on which no duration is negative",
            });
        }
        Ok(Learned {
            saved: Arc::new(saved),
            origin,
        })
    }

    /// Returns a feature of a job as the model was trained.
    fn feature(&self, spec: &Submission, name: &str) -> Result<Column, MissingData> {
        let is_category = self.saved.model.is_category(name);
        let lacks = || Err(MissingData(missing(name).into()));
        Ok(match (of_job(spec, name), is_category) {
            (Some(Known::Number(x)), false) => Column::Numbers(vec![x]),
            (Some(Known::Number(x)), true) => Column::Categories(vec![x.to_string()]),
            (Some(Known::Text(text)), true) => Column::Categories(vec![text]),
            (Some(Known::Text(text)), false) => match text.parse() {
                Ok(x) => Column::Numbers(vec![x]),
                Err(_) => return lacks(),
            },
            (None, _) if !self.saved.optional.iter().any(|o| o == name) => return lacks(),
            (None, false) => Column::Numbers(vec![f64::NAN]),
            (None, true) => Column::Categories(vec![String::new()]),
        })
    }

    fn frame(&self, spec: &Submission) -> Option<Frame> {
        let mut columns = Vec::new();
        for name in &self.saved.recipe.columns {
            columns.push((name.clone(), self.feature(spec, name).ok()?));
        }
        if self.saved.recipe.date.is_some() {
            columns.extend(dated(&[self.origin + spec.submit.secs()], &[]).ok()?);
        }
        Frame::new(columns).ok()
    }
}

impl Estimator for Learned {
    fn duration(&self, job: &JobRef<'_>) -> Option<Seconds> {
        let predictions = self.saved.model.predict(&self.frame(job.spec())?).ok()?;
        let prediction = self.saved.scale.to_target(*predictions.first()?);
        Some(Seconds::new(prediction))
    }

    fn check_job(&self, job: &Submission) -> Result<(), MissingData> {
        let mut features = self.saved.recipe.columns.iter();
        features.try_for_each(|name| self.feature(job, name).map(|_| ()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::Recipe;
    use blox_core::runtime::Runtime;
    use blox_core::{
        ClusterSpec, Composition, DecisionError, Event, Extras, GpuCount, JobId, JobSpec, Rounds,
        State, Time,
    };
    use blox_learn::{Boosted, BoostedParams, Model};
    use blox_policies::placement::{Consolidated, InOrder};
    use blox_policies::scheduling::Sjf;
    use serde_json::{Value, json};

    /// Returns a model that was trained on jobs of 700 s with dataset 7, and of 100 s otherwise. Jobs
    /// of more than 3 MiB took 40 % longer.
    fn saved(optional: &[&str]) -> Saved {
        let rows = 0..200;
        let datasets = rows.clone().map(|i| ["7", "b"][i % 2].to_owned());
        let sizes = rows.clone().map(|i| (i % 8) as f64);
        let columns = vec![
            ("dataset".to_owned(), Column::Categories(datasets.collect())),
            ("gmem".to_owned(), Column::Numbers(sizes.collect())),
        ];
        let took = |i: usize| [700.0, 100.0][i % 2] * if i % 8 > 3 { 1.4 } else { 1.0 };
        let scale = Scale::log(rows.clone().map(took)).unwrap();
        let frame = Frame::new(columns).unwrap();
        let target = rows.map(|i| scale.of_target(took(i))).collect();
        let frame = frame.with_target(target).unwrap();
        let model = Boosted::fit(&frame, &BoostedParams::default()).unwrap();
        Saved {
            target: "duration".to_owned(),
            scale,
            recipe: Recipe {
                columns: vec!["dataset".to_owned(), "gmem".to_owned()],
                ..Recipe::default()
            },
            optional: optional.iter().map(|name| (*name).to_owned()).collect(),
            seconds: false,
            model: Model::Boosted(model),
        }
    }

    /// Submits a job to a scheduler with the estimates of a model, and returns its estimate.
    fn estimate(
        saved: Saved,
        dataset: Option<Value>,
        gmem: Option<Value>,
    ) -> Result<f64, DecisionError> {
        let learned = Learned::new(saved, 0.0).unwrap();
        let mut extras = Extras::default();
        let given = [("dataset", dataset), ("gmem", gmem)];
        for (name, value) in given {
            extras.attributes.extend(value.map(|v| (name.into(), v)));
        }
        let spec = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(60.0)).with_extras(extras);
        let rounds = Rounds::every(Seconds::new(300.0)).unwrap();
        let state = State::new(&ClusterSpec::uniform(1, 4)).unwrap();
        let mut core = Runtime::new(state, Box::new(rounds));
        let mut policy = Composition::new("sjf")
            .scheduling(Sjf::with(learned.clone()))
            .placement(InOrder::new(Consolidated::default()))
            .build()
            .unwrap();
        let (job, spec) = (JobId(0), Arc::new(spec));
        let event = Event::Submitted { job, spec };
        core.event(Time::ZERO, &event, &mut policy).unwrap();
        core.decide(Time::ZERO, &mut policy)?;
        let duration = learned.duration(&core.view().job(job).unwrap());
        Ok(duration.unwrap().secs().round())
    }

    #[test]
    fn estimate_reads_a_job_as_the_model_was_trained() {
        let (b, seven) = (Some(json!("b")), Some(json!(7.0)));
        let (small, large) = (Some(json!(1)), Some(json!("6")));
        let estimate = |dataset, gmem| estimate(saved(&[]), dataset, gmem);
        assert_eq!(estimate(b.clone(), small.clone()), Ok(100.0));
        assert_eq!(estimate(b, large), Ok(140.0));
        assert_eq!(estimate(seven, small.clone()), Ok(700.0));
        // A dataset that the training lacks.
        assert!(estimate(Some(json!("c")), small).is_ok());
    }

    #[test]
    fn feature_that_a_job_lacks_is_an_error_by_name() {
        let (b, small) = (Some(json!("b")), Some(json!(1)));
        let error = |dataset, gmem| estimate(saved(&[]), dataset, gmem).unwrap_err().to_string();
        let lacks = |name| {
            let what = "a feature of the learned estimates";
            format!("policy `sjf`: job 0 lacks the attribute `{name}`, {what}")
        };
        assert_eq!(error(None, small.clone()), lacks("dataset"));
        assert_eq!(error(b.clone(), None), lacks("gmem"));
        assert_eq!(error(b.clone(), Some(json!("much"))), lacks("gmem"));
        assert_eq!(error(Some(json!([1])), small.clone()), lacks("dataset"));
        // The training lacked the value in some rows, too.
        assert!(estimate(saved(&["dataset"]), None, small).is_ok());
        assert!(estimate(saved(&["dataset"]), b, None).is_err());
    }

    #[test]
    fn model_that_may_be_negative_gives_no_durations() {
        let linear = Saved {
            scale: Scale::Linear,
            ..saved(&[])
        };
        assert_eq!(
            Learned::new(linear, 0.0).unwrap_err().to_string(),
            "scale is linear, expected log, on which no duration is negative"
        );
    }
}
