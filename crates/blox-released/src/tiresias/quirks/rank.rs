//! The schedule `gittins`, with the one missing line added.

use super::ends::StaleEnds;
use super::{News, Samples, active, allow, repeat};
use blox_core::{Event, JobId, JobQueue, Policy, SchedulingPolicy, Time, Validity, View, sort};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// All jobs by Gittins index. Quirk: the program puts the **lowest index first**.
///
/// This is the opposite of the paper and of `dlas-gpu-gittins`. Waiting jobs are ranked by the
/// seconds for which they ran, running jobs by their GPU-seconds. GPUs are granted by count. The
/// list is sorted in place, so ties keep their order. Besides events, each pass schedules one
/// further pass, at growing distances.
#[derive(Clone, Debug)]
pub struct LowestRank {
    samples: Samples,
}

/// Lists of the program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RankState {
    runnable: Vec<JobId>,
    granted: Vec<JobId>,
    news: News,
    next_look: f64,
    ends: StaleEnds,
}

impl LowestRank {
    /// Creates the schedule with samples of past jobs.
    pub fn new(samples: Samples) -> Self {
        LowestRank { samples }
    }
}

impl Policy for LowestRank {
    type Memory = RankState;

    fn initial(&self, _: u64) -> RankState {
        RankState {
            runnable: Vec::new(),
            granted: Vec::new(),
            news: News::default(),
            next_look: Samples::QUANTUM as f64,
            ends: StaleEnds::default(),
        }
    }

    fn on_event(&self, memory: &mut RankState, _: View<'_>, event: &Event) {
        memory.news.hear(event);
    }
}

impl SchedulingPolicy for LowestRank {
    fn schedule(&self, memory: &mut Self::Memory, view: View<'_>, out: &mut JobQueue) -> Validity {
        let now = view.now();
        let m = &mut *memory;
        if !m.news.take() && now.secs() < m.next_look {
            repeat(view, &m.granted, out);
            return Validity::Until(Time::new(m.next_look));
        }
        let known: BTreeSet<JobId> = m.runnable.iter().copied().collect();
        let arrivals: Vec<JobId> = view
            .active()
            .map(|j| j.id())
            .filter(|id| !known.contains(id))
            .collect();
        if !arrivals.is_empty() && m.ends.finish(view, out) {
            m.news = News::default();
            return Validity::UntilEvent;
        }
        m.runnable.retain(|id| active(view, *id).is_some());
        m.runnable.extend(&arrivals);
        let mut ranked: Vec<(f64, JobId)> = Vec::with_capacity(m.runnable.len());
        for job in m.runnable.iter().filter_map(|id| view.job(*id)) {
            let ran = job.attained_time().secs();
            let gpus = f64::from(job.gpus().get());
            let service = if job.is_placed() { ran * gpus } else { ran };
            ranked.push((self.samples.rank(service), job.id()));
        }
        sort::by(&mut ranked, |a, b| a.0.total_cmp(&b.0));
        m.runnable = ranked.into_iter().map(|(_, id)| id).collect();
        m.granted = allow(view, m.runnable.iter().copied(), out);
        let running = m.runnable.iter().filter(|id| m.granted.contains(id));
        let running = running.filter_map(|id| view.job(*id));
        m.ends.note(now, !arrivals.is_empty(), running);
        m.next_look += now.secs();
        Validity::Until(Time::new(m.next_look))
    }
}
