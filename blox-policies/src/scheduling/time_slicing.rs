use blox_core::{JobId, Outlook, Part, Request, Requests, RestoreError, SchedulingPolicy, View};
use serde_json::Value;
use std::collections::BTreeMap;

/// Time slices in turn (Gandiva, OSDI 2018, section 3.1: suspend-resume).
///
/// Every round is a slice. The jobs that had the fewest slices run, older ones
/// first, as many as fit; a job that comes in begins with as many as the job
/// that had fewest, so that it has its turn at once and no more than its turn.
/// While all jobs fit nothing is stopped.
#[derive(Clone, Debug, Default)]
pub struct TimeSlicing {
    slices: BTreeMap<JobId, u64>,
}

impl Part for TimeSlicing {
    fn save(&self) -> Option<Value> {
        serde_json::to_value(self.slices.iter().collect::<Vec<_>>()).ok()
    }

    fn restore(&mut self, memory: Value) -> Result<(), RestoreError> {
        let slices: Vec<(JobId, u64)> = serde_json::from_value(memory)?;
        self.slices = slices.into_iter().collect();
        Ok(())
    }
}

impl SchedulingPolicy for TimeSlicing {
    fn schedule(&mut self, view: View<'_>, out: &mut Requests) -> Outlook {
        let active: Vec<JobId> = view.active().map(|j| j.id()).collect();
        self.slices.retain(|id, _| active.binary_search(id).is_ok());
        let fewest = self.slices.values().min().copied().unwrap_or(0);
        for &id in &active {
            self.slices.entry(id).or_insert(fewest);
        }
        let mut order: Vec<(u64, JobId)> = self.slices.iter().map(|(id, n)| (*n, *id)).collect();
        order.sort_unstable();
        let mut free = view.usable_gpus().get();
        let mut chosen = Vec::new();
        for (_, id) in order {
            if let Some(job) = view.job(id)
                && job.gpus().get() <= free
            {
                free -= job.gpus().get();
                out.push(Request::gang(&job));
                chosen.push(id);
            }
        }
        out.stop_unlisted();
        if chosen.len() == active.len() {
            // Nobody waits for a turn: nothing to count.
            return Outlook::Stable;
        }
        for id in chosen {
            *self.slices.entry(id).or_default() += 1;
        }
        Outlook::NextRound
    }
}
