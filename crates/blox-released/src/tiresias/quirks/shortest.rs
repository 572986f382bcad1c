//! The schedules `sjf`, `shortest`, `shortest-gpu` and `shortest-expected`.

use super::{News, Samples, active};
use blox_core::{
    Answer, Event, JobId, JobQueue, JobRef, Policy, Request, SchedulingPolicy, SortedMap, Validity,
    View, sort,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Sort key of [`InPlace`], ascending.
#[derive(Clone, Debug)]
pub enum ShortestBy {
    /// GPUs: `sjf`.
    Gpus,
    /// True remaining seconds: `shortest`.
    Remaining,
    /// True remaining GPU-seconds: `shortest-gpu`.
    RemainingGpu,
    /// Seconds expected from samples of past jobs: `shortest-expected`.
    ///
    /// Quirk: the program stores the estimate of every running job in one job, the last of the
    /// latest arrivals. Other jobs keep the estimate from their arrival.
    Expected(Samples),
}

/// All jobs in one persistent list that is sorted in place by a key. Ties keep their previous
/// order. Decisions follow events.
#[derive(Clone, Debug)]
pub struct InPlace {
    by: ShortestBy,
}

/// Jobs in the program's order.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct InPlaceState {
    runnable: Vec<JobId>,
    news: News,
    expected: SortedMap<JobId, f64>,
    /// Last job of the last arrival, even if it has ended.
    latest: Option<JobId>,
}

impl InPlace {
    /// Creates the schedule with a sort key.
    pub fn new(by: ShortestBy) -> Self {
        InPlace { by }
    }

    fn key(&self, memory: &InPlaceState, job: &JobRef<'_>) -> f64 {
        let gpus = f64::from(job.gpus().get());
        let left = job.truth().duration().secs() - job.attained_time().secs();
        match &self.by {
            ShortestBy::Gpus => gpus,
            ShortestBy::Remaining => left,
            ShortestBy::RemainingGpu => left * gpus,
            ShortestBy::Expected(_) => memory.expected.get(&job.id()).copied().unwrap_or(0.0),
        }
    }
}

impl Policy for InPlace {
    type Memory = InPlaceState;

    fn initial(&self, _: u64) -> InPlaceState {
        InPlaceState::default()
    }

    fn on_event(&self, memory: &mut InPlaceState, _: View<'_>, event: &Event) {
        memory.news.record(event);
    }
}

impl SchedulingPolicy for InPlace {
    fn schedule(&self, memory: &mut Self::Memory, view: View<'_>, out: &mut JobQueue) -> Answer {
        if memory.news.take() {
            self.pass(memory, view);
        }
        for job in memory.runnable.iter().filter_map(|id| view.job(*id)) {
            out.push(Request::gang(&job));
        }
        out.allow_preemption();
        Ok(Validity::UntilEvent)
    }
}

impl InPlace {
    /// Adds new jobs, removes ended jobs, and sorts the list.
    fn pass(&self, memory: &mut InPlaceState, view: View<'_>) {
        let m = &mut *memory;
        let here = |id: &JobId| active(view, *id).is_some();
        m.runnable.retain(here);
        m.expected.retain(|id, _| here(id));
        let known: BTreeSet<JobId> = m.runnable.iter().copied().collect();
        for job in view.active().filter(|j| !known.contains(&j.id())) {
            m.runnable.push(job.id());
            m.latest = Some(job.id());
            if let ShortestBy::Expected(samples) = &self.by {
                m.expected.insert(job.id(), samples.expected(0.0));
            }
        }
        if let ShortestBy::Expected(samples) = &self.by {
            let mut jobs = m.runnable.iter().filter_map(|id| view.job(*id));
            let last = jobs.rfind(|j| j.is_placed());
            let latest = m.latest.and_then(|id| m.expected.get_mut(&id));
            if let (Some(job), Some(expected)) = (last, latest) {
                *expected = samples.expected(job.attained_time().secs());
            }
        }
        let jobs = memory.runnable.iter().filter_map(|id| view.job(*id));
        let mut keyed: Vec<(f64, JobId)> =
            jobs.map(|job| (self.key(memory, &job), job.id())).collect();
        sort::by(&mut keyed, |a, b| a.0.total_cmp(&b.0));
        memory.runnable = keyed.into_iter().map(|(_, id)| id).collect();
    }
}
