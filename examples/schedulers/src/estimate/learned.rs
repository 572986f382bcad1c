//! Estimators that use a trained model.

use super::Saved;
use super::log::dated;
use blox_core::estimate::Estimator;
use blox_core::{JobRef, Name, Seconds};
use blox_learn::{Cell, Column, Frame, LearnError};
use std::sync::Arc;

/// Estimator that uses a trained model. The estimate of a job never changes.
///
/// Features come from the job. They have the column names of a Helios log (`user`, `vc`, `gpu_num`,
/// `cpu_num`, `model`, `batchsize`) or of a CSV trace (`virtual_cluster`, `gpus`, `cpus`,
/// `batch_size`, `submit_s`). `month`, `day`, `hour` and `dayofweek` come from its submission time.
/// Any other feature is the job's attribute of that name. Each feature is a number or a category,
/// as in the training. A feature that the job lacks, or that is not a number although one is
/// expected, counts as missing. A prediction below 1 s counts as 1 s.
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
    /// The model needs time series, which a single job does not provide.
    pub fn new(saved: Saved, origin: f64) -> Result<Self, LearnError> {
        if let Some(series) = saved.recipe.series.first() {
            return Err(LearnError::Missing {
                feature: series.clone(),
                found: "single jobs, which tell no series".to_owned(),
            });
        }
        Ok(Learned {
            saved: Arc::new(saved),
            origin,
        })
    }

    fn frame(&self, job: &JobRef<'_>) -> Result<Frame, LearnError> {
        let (spec, extras) = (job.spec(), job.spec().extras());
        fn text(name: Option<&Name>) -> Cell<'_> {
            Cell::Category(name.map_or("", |n| n.as_str()))
        }
        let mut columns = Vec::new();
        for name in &self.saved.recipe.columns {
            let cell = match name.as_str() {
                "user" => text(spec.user.as_ref()),
                "vc" | "virtual_cluster" => text(spec.virtual_cluster.as_ref()),
                "model" => text(extras.model.as_ref()),
                "gpu_num" | "gpus" => Cell::Number(f64::from(spec.gpus.get())),
                "cpu_num" | "cpus" => Cell::Number(extras.cpus),
                "batchsize" | "batch_size" => {
                    Cell::Number(extras.batch_size.map_or(f64::NAN, f64::from))
                }
                "submit_s" => Cell::Number(spec.submit.secs()),
                other => match extras.attributes.get(other) {
                    Some(serde_json::Value::String(s)) => Cell::Category(s),
                    value => Cell::Number(value.and_then(|v| v.as_f64()).unwrap_or(f64::NAN)),
                },
            };
            let column = match (self.saved.model.is_category(name), cell) {
                (true, Cell::Category(s)) => Column::Categories(vec![s.to_owned()]),
                (true, Cell::Number(x)) if x.is_nan() => Column::Categories(vec![String::new()]),
                (true, Cell::Number(x)) => Column::Categories(vec![x.to_string()]),
                (false, Cell::Number(x)) => Column::Numbers(vec![x]),
                (false, Cell::Category(s)) => Column::Numbers(vec![s.parse().unwrap_or(f64::NAN)]),
            };
            columns.push((name.clone(), column));
        }
        if self.saved.recipe.date.is_some() {
            columns.extend(dated(&[self.origin + spec.submit.secs()], &[])?);
        }
        Frame::new(columns)
    }
}

impl Estimator for Learned {
    fn duration(&self, job: &JobRef<'_>) -> Option<Seconds> {
        let said = self.saved.model.predict(&self.frame(job).ok()?).ok()?;
        said.first().map(|s| Seconds::new(s.max(1.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::Recipe;
    use blox_core::runtime::Runtime;
    use blox_core::{
        ClusterSpec, Composition, Event, Extras, GpuCount, JobId, JobSpec, Rounds, State, Time,
    };
    use blox_learn::{Boosted, BoostedParams, Model};
    use blox_policies::placement::{Consolidated, InOrder};
    use blox_policies::scheduling::Fifo;
    use serde_json::{Value, json};

    /// Returns the prediction for a job. The model was trained on jobs of 700 s with dataset 7, and
    /// of 100 s otherwise. Jobs of more than 3 MiB took 40 s longer.
    fn said(dataset: Option<Value>, gmem: Option<Value>) -> Option<f64> {
        let rows = 0..200;
        let datasets = rows.clone().map(|i| ["7", "b"][i % 2].to_owned());
        let sizes = rows.clone().map(|i| (i % 8) as f64);
        let columns = vec![
            ("dataset".to_owned(), Column::Categories(datasets.collect())),
            ("gmem".to_owned(), Column::Numbers(sizes.collect())),
        ];
        let took = |i: usize| [700.0, 100.0][i % 2] + if i % 8 > 3 { 40.0 } else { 0.0 };
        let frame = Frame::new(columns).unwrap();
        let frame = frame.with_target(rows.map(took).collect()).unwrap();
        let model = Boosted::fit(&frame, &BoostedParams::default()).unwrap();
        let recipe = Recipe {
            columns: vec!["dataset".to_owned(), "gmem".to_owned()],
            ..Recipe::default()
        };
        let saved = Saved {
            target: "duration".to_owned(),
            recipe,
            model: Model::Boosted(model),
        };
        let learned = Learned::new(saved, 0.0).unwrap();
        let mut extras = Extras::default();
        let told = [("dataset", dataset), ("gmem", gmem)];
        for (name, value) in told {
            extras.attributes.extend(value.map(|v| (name.into(), v)));
        }
        let spec = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(60.0)).with_extras(extras);
        let rounds = Rounds::every(Seconds::new(300.0)).unwrap();
        let state = State::new(&ClusterSpec::uniform(1, 4)).unwrap();
        let mut core = Runtime::new(state, Box::new(rounds));
        let mut policy = Composition::new("fifo")
            .scheduling(Fifo::default())
            .placement(InOrder::new(Consolidated::default()))
            .build()
            .unwrap();
        let (job, spec) = (JobId(0), Arc::new(spec));
        let event = Event::Submitted { job, spec };
        core.event(Time::ZERO, &event, &mut policy).unwrap();
        let said = learned.duration(&core.view().job(job).unwrap());
        said.map(|s| s.secs().round())
    }

    #[test]
    fn estimate_reads_a_job_as_the_model_was_trained() {
        let (b, seven) = (Some(json!("b")), Some(json!(7.0)));
        let (small, large) = (Some(json!(1)), Some(json!("6")));
        assert_eq!(said(b.clone(), small.clone()), Some(100.0));
        assert_eq!(said(b, large), Some(140.0));
        assert_eq!(said(seven, small.clone()), Some(700.0));
        assert!(said(None, small).is_some());
        assert!(said(Some(json!("c")), Some(json!("much"))).is_some());
    }
}
