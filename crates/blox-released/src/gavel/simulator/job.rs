//! A job as the released program keeps it.

use blox_core::perf::TypeSpeeds;
use blox_core::{JobId, JobRef, Name};
use blox_policies::scheduling::gavel::{Pair, PerType, TypePool};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::sync::Arc;

/// A job that came in and has not left.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    pub(super) id: JobId,
    pub(super) gpus: u32,
    pub(super) weight: f64,
    pub(super) submit: f64,
    /// Steps in all, and done.
    pub(super) total: f64,
    pub(super) done: f64,
    /// Steps a second alone, by type.
    pub(super) rates: PerType,
    pub(super) model: Name,
    speeds: Arc<TypeSpeeds>,
    /// Quanta in a row without progress.
    pub(super) failures: u32,
    /// Sum of its quanta in seconds.
    pub(super) ran: f64,
}

impl Job {
    pub(super) fn of(job: &JobRef<'_>, types: &[TypePool]) -> Self {
        let extras = job.spec().extras();
        let speeds = extras.speeds.clone().unwrap_or_default();
        let rate = |t: &TypePool| speeds.alone(&t.name).unwrap_or(0.0);
        Job {
            id: job.id(),
            gpus: job.gpus().get(),
            weight: if extras.weight > 0.0 {
                extras.weight
            } else {
                1.0
            },
            submit: job.submit().secs(),
            total: job.spec().work.iterations,
            done: 0.0,
            rates: types.iter().map(rate).collect(),
            model: extras.model.clone().unwrap_or_else(|| Name::from("")),
            speeds,
            failures: 0,
            ran: 0.0,
        }
    }

    /// A job of one GPU with these rates.
    #[cfg(test)]
    pub(super) fn plain(id: u32, steps: f64, rates: &[f64]) -> Self {
        Job {
            id: JobId(id),
            gpus: 1,
            weight: 1.0,
            submit: 0.0,
            total: steps,
            done: 0.0,
            rates: PerType::from_slice(rates),
            model: Name::from(""),
            speeds: Arc::default(),
            failures: 0,
            ran: 0.0,
        }
    }

    pub(super) fn left(&self) -> f64 {
        self.total - self.done
    }

    /// What another job and this one do on the same GPUs, in this order.
    pub(super) fn beside(&self, other: &Job, types: &[TypePool]) -> SmallVec<[[f64; 2]; 4]> {
        let rate = |t: &TypePool| self.speeds.beside(&t.name, &other.model);
        types
            .iter()
            .map(|t| rate(t).unwrap_or([0.0, 0.0]))
            .collect()
    }
}

/// What the released program judges a pair of [`Gandiva`](blox_policies::scheduling::gavel::shares::GandivaPacking)
/// by: the sum over all types, or 0 if either does not run on one of them.
pub fn summed_gain(instance: &blox_policies::scheduling::gavel::Instance, pair: &Pair) -> f64 {
    let [a, b] = pair.jobs.map(|i| &instance.jobs[i].rates);
    let mut sum = 0.0;
    for (k, rates) in pair.rates.iter().enumerate() {
        for (rate, alone) in rates.iter().zip([a[k], b[k]]) {
            if *rate <= 0.0 {
                return 0.0;
            }
            sum += rate / alone;
        }
    }
    sum
}
