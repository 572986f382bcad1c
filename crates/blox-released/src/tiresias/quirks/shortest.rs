//! The schedules `sjf`, `shortest`, `shortest-gpu` and `shortest-expected`.

use super::{News, Samples, active};
use blox_core::{Event, JobId, JobRef, Outlook, Policy, Request, Requests, SchedulingPolicy, View};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What [`InPlace`] sorts by, ascending.
#[derive(Clone, Debug)]
pub enum ShortestBy {
    /// GPUs: `sjf`.
    Gpus,
    /// Seconds left, truly: `shortest`.
    Remaining,
    /// GPU-seconds left, truly: `shortest-gpu`.
    RemainingGpu,
    /// Seconds that samples of past jobs let expect: `shortest-expected`. The
    /// program writes what it expects of each running job into one and the same
    /// job, the last of those that came last; all others keep what was expected
    /// of them when they came.
    Expected(Samples),
}

/// All jobs by a key, in a list that is sorted where it lies: jobs of equal keys
/// stay as the passes before left them. Decisions fall on events.
#[derive(Clone, Debug)]
pub struct InPlace {
    by: ShortestBy,
}

/// The jobs in the program's order.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct InPlaceState {
    runnable: Vec<JobId>,
    news: News,
    expected: BTreeMap<JobId, f64>,
    /// The last job of the last arrival, whether it is still there or not.
    latest: Option<JobId>,
}

impl InPlace {
    /// By a key.
    pub fn new(by: ShortestBy) -> Self {
        InPlace { by }
    }

    fn key(&self, memory: &InPlaceState, job: &JobRef<'_>) -> f64 {
        let gpus = f64::from(job.gpus().get());
        let left = job.spec().duration().secs() - job.attained_time().secs();
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
        memory.news.hear(event);
    }
}

impl SchedulingPolicy for InPlace {
    fn schedule(&self, memory: &mut Self::Memory, view: View<'_>, out: &mut Requests) -> Outlook {
        if memory.news.take() {
            self.pass(memory, view);
        }
        for job in memory.runnable.iter().filter_map(|id| view.job(*id)) {
            out.push(Request::gang(&job));
        }
        out.allow_preemption();
        Outlook::Stable
    }
}

impl InPlace {
    /// Takes who came and leaves out who went, and puts all in order.
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
        keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
        memory.runnable = keyed.into_iter().map(|(_, id)| id).collect();
    }
}
