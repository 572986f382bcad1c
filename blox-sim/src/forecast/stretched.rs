//! Rates of jobs in one future.

use super::experience::Ratios;
use super::known::Known;
use crate::execution::{AnyExecution, ExecutionModel, Reach};
use blox_core::{
    AnyMemory, Assignment, Event, JobId, JobRef, MissingData, Policy, Submission, View,
};
use rand::Rng;
use std::sync::{Arc, Mutex, PoisonError};

/// Factors of the rates of jobs in one future.
#[derive(Debug, Default)]
pub(super) struct Stretched {
    /// Factors of the live jobs, in order of job.
    pub live: Vec<(JobId, f64)>,
    /// Number of the first job that arrives.
    pub first: u32,
    /// Factors of the jobs that arrive, in order of job, and the ratios of later jobs.
    pub later: Mutex<(Vec<f64>, Ratios)>,
}

impl Stretched {
    /// Adds the next job that arrives.
    pub fn push(&self, job: &Known, rng: &mut impl Rng) {
        let mut later = self.later.lock().unwrap_or_else(PoisonError::into_inner);
        let total = later.1.total(job, rng).max(1e-3);
        later.0.push(job.spec.duration().secs() / total);
    }

    fn factor(&self, job: JobId) -> f64 {
        if let Some(later) = job.0.checked_sub(self.first) {
            let all = self.later.lock().unwrap_or_else(PoisonError::into_inner);
            return all.0.get(later as usize).copied().unwrap_or(1.0);
        }
        let found = self.live.binary_search_by_key(&job, |(id, _)| *id);
        found.map_or(1.0, |i| self.live[i].1)
    }
}

/// Rates of another model, multiplied by the factors of a future.
pub(super) struct Drawn {
    pub inner: Arc<dyn AnyExecution>,
    pub stretched: Arc<Stretched>,
}

impl Policy for Drawn {
    type Memory = AnyMemory;

    fn initial(&self, seed: u64) -> AnyMemory {
        self.inner.any_initial(seed)
    }

    fn check_job(&self, job: &Submission) -> Result<(), MissingData> {
        self.inner.any_check_job(job)
    }

    fn on_event(&self, memory: &mut AnyMemory, view: View<'_>, event: &Event) {
        self.inner.any_event(memory, view, event);
    }
}

impl ExecutionModel for Drawn {
    fn rate(
        &self,
        memory: &mut AnyMemory,
        view: View<'_>,
        job: &JobRef<'_>,
        assignment: &Assignment,
    ) -> f64 {
        let rate = self.inner.any_rate(memory, view, job, assignment);
        rate * self.stretched.factor(job.id())
    }

    fn name(&self) -> String {
        self.inner.any_name()
    }

    fn reach(&self) -> Reach {
        self.inner.any_reach()
    }
}
