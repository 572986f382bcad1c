//! The schedule `gittins`, with the one missing line added.

use super::{Passes, Samples, active, allow};
use blox_core::{
    Answer, Event, JobId, JobQueue, Policy, SchedulingPolicy, Time, Validity, View, sort,
};
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
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RankState {
    runnable: Vec<JobId>,
    passes: Passes,
    next_look: f64,
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
            next_look: Samples::QUANTUM as f64,
            ..RankState::default()
        }
    }

    fn on_event(&self, memory: &mut RankState, _: View<'_>, event: &Event) {
        memory.passes.news.record(event);
    }
}

impl SchedulingPolicy for LowestRank {
    fn schedule(&self, memory: &mut Self::Memory, view: View<'_>, out: &mut JobQueue) -> Answer {
        let now = view.now().secs();
        let m = &mut *memory;
        let valid = Validity::Until(Time::new(m.next_look));
        let known: BTreeSet<JobId> = m.runnable.iter().copied().collect();
        let is_known = |id: JobId| known.contains(&id);
        let due = now >= m.next_look;
        let arrivals = match m.passes.begin(view, (due, valid), is_known, out) {
            Ok(arrivals) => arrivals,
            Err(valid) => return Ok(valid),
        };
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
        m.passes.granted = allow(view, m.runnable.iter().copied(), out);
        m.passes.end(view, !arrivals.is_empty(), m.runnable.iter());
        m.next_look += now;
        Ok(Validity::Until(Time::new(m.next_look)))
    }
}
