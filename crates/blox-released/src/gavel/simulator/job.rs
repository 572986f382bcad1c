//! Jobs of the released program.

use blox_core::{JobId, JobSpec, Name, TypeSpeeds};
use blox_policies::scheduling::gavel::{Instance, Pair, PerType, TypePool};
use smallvec::SmallVec;
use std::sync::Arc;

/// A job that has arrived and not ended.
#[derive(Clone, Debug)]
pub struct Job {
    pub(super) id: JobId,
    pub(super) gpus: u32,
    pub(super) weight: f64,
    pub(super) submit: f64,
    /// Total number of steps. `done` has the completed ones.
    pub(super) total: f64,
    pub(super) done: f64,
    /// Steps per second alone, by type.
    pub(super) rates: PerType,
    pub(super) model: Name,
    speeds: Arc<TypeSpeeds>,
    /// Number of consecutive quanta without progress.
    pub(super) failures: u32,
    /// Total length of its quanta in seconds.
    pub(super) ran: f64,
}

impl Job {
    pub(super) fn of(id: JobId, spec: &JobSpec, types: &[TypePool]) -> Self {
        let extras = spec.extras();
        let speeds = extras.speeds.clone().unwrap_or_default();
        let rate = |t: &TypePool| speeds.alone(&t.name).unwrap_or(0.0);
        let weighted = extras.weight > 0.0;
        Job {
            id,
            gpus: spec.gpus.get(),
            weight: if weighted { extras.weight } else { 1.0 },
            submit: spec.submit.secs(),
            total: spec.work.iterations,
            done: 0.0,
            rates: types.iter().map(rate).collect(),
            model: extras.model.clone().unwrap_or_else(|| Name::from("")),
            speeds,
            failures: 0,
            ran: 0.0,
        }
    }

    pub(super) fn left(&self) -> f64 {
        self.total - self.done
    }

    /// Returns the steps per second of this job and of `other` on the same GPUs, by type.
    pub(super) fn beside(&self, other: &Job, types: &[TypePool]) -> SmallVec<[[f64; 2]; 4]> {
        let rate = |t: &TypePool| self.speeds.beside(&t.name, &other.model);
        types
            .iter()
            .map(|t| rate(t).unwrap_or([0.0, 0.0]))
            .collect()
    }
}

/// Returns the gain by which the released program evaluates a pair of
/// [`GandivaPacking`](blox_policies::scheduling::gavel::shares::GandivaPacking).
///
/// It is the sum over all types, or 0 if a job of the pair does not run on one of them.
pub fn summed_gain(instance: &Instance, pair: &Pair) -> f64 {
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
