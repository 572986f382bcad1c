//! Estimators by name, and those that ask a model.

use super::Saved;
use super::log::dated;
use blox_core::estimate::{Estimator, Oracle, UserEstimate};
use blox_core::{JobRef, Part, Seconds};
use blox_learn::{Column, Frame, LearnError};
use blox_policies::estimate::{Brought, NoisyOracle};
use std::sync::Arc;

/// Whatever estimator a name on the command line stands for: all policies that believe
/// something about durations take it.
#[derive(Clone, Debug)]
pub enum Belief {
    /// The truth.
    Oracle(Oracle),
    /// What users say.
    User(UserEstimate),
    /// The truth with an error.
    Noisy(NoisyOracle),
    /// What jobs bring with them.
    Brought(Brought),
    /// What a model says.
    Learned(Learned),
}

impl Part for Belief {
    fn observes_launches(&self) -> bool {
        false
    }
}

impl Estimator for Belief {
    fn duration(&self, job: &JobRef<'_>) -> Option<Seconds> {
        match self {
            Belief::Oracle(e) => e.duration(job),
            Belief::User(e) => e.duration(job),
            Belief::Noisy(e) => e.duration(job),
            Belief::Brought(e) => e.duration(job),
            Belief::Learned(e) => e.duration(job),
        }
    }

    fn remaining(&self, job: &JobRef<'_>) -> Option<Seconds> {
        match self {
            Belief::Oracle(e) => e.remaining(job),
            Belief::User(e) => e.remaining(job),
            Belief::Noisy(e) => e.remaining(job),
            Belief::Brought(e) => e.remaining(job),
            Belief::Learned(e) => e.remaining(job),
        }
    }
}

/// Asks a trained model about each job: a belief that never changes.
///
/// Features are made of the job as columns of a Helios log are (`user`, `vc`, `gpu_num`,
/// `cpu_num`, `model`, `batchsize`) or of a CSV trace (`virtual_cluster`, `gpus`, `cpus`, `batch_size`,
/// `submit_s`); `month`, `day`, `hour`, `dayofweek` are of its submission, and every other one is
/// the job's attribute of that name. What a model says below 1 s counts as 1 s.
#[derive(Clone, Debug)]
pub struct Learned {
    saved: Arc<Saved>,
    origin: f64,
}

impl Learned {
    /// By a model. `origin` is the date at which the workload's clock shows 0, in seconds
    /// since 1970.
    ///
    /// # Errors
    /// The model reads series of the past, which a job does not tell.
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
        let text = |name: Option<&blox_core::Name>| {
            Column::Categories(vec![name.map(|n| n.to_string()).unwrap_or_default()])
        };
        let number = |x: f64| Column::Numbers(vec![x]);
        let mut columns = Vec::new();
        for name in &self.saved.recipe.columns {
            let column = match name.as_str() {
                "user" => text(spec.user.as_ref()),
                "vc" | "virtual_cluster" => text(spec.virtual_cluster.as_ref()),
                "model" => text(extras.model.as_ref()),
                "gpu_num" | "gpus" => number(f64::from(spec.gpus.get())),
                "cpu_num" | "cpus" => number(extras.cpus),
                "batchsize" | "batch_size" => number(extras.batch_size.map_or(f64::NAN, f64::from)),
                "submit_s" => number(spec.submit.secs()),
                other => match extras.attributes.get(other) {
                    Some(serde_json::Value::String(s)) => Column::Categories(vec![s.clone()]),
                    Some(value) => number(value.as_f64().unwrap_or(f64::NAN)),
                    None => number(f64::NAN),
                },
            };
            columns.push((name.clone(), column));
        }
        if self.saved.recipe.date.is_some() {
            columns.extend(dated(&[self.origin + spec.submit.secs()], &[])?);
        }
        Frame::new(columns)
    }
}

impl Part for Learned {
    fn observes_launches(&self) -> bool {
        false
    }
}

impl Estimator for Learned {
    fn duration(&self, job: &JobRef<'_>) -> Option<Seconds> {
        let said = self.saved.model.predict(&self.frame(job).ok()?).ok()?;
        said.first().map(|s| Seconds::new(s.max(1.0)))
    }
}
