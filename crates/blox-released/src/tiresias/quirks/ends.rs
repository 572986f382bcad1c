//! Expected ends of jobs that the program fails to remove.

use blox_core::{JobId, JobQueue, JobRef, Reason, Time, View};
use serde::{Deserialize, Serialize};

/// Lists of jobs that were expected to end at the time of an arrival.
///
/// Quirk: the program can end a job that has work left. If the next arrival and the next end
/// coincide, it stores the list of ending jobs in the arrival. If it then first handles another
/// event that stops such a job, the list is not updated. The job ends at the arrival although it
/// has work left.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct StaleEnds {
    /// Next end as seen by each pass since the last arrival.
    seen: Vec<(Time, Vec<JobId>)>,
}

impl StaleEnds {
    /// Ends the jobs that an arrival ends early. Returns true if there are any.
    ///
    /// Their ends make the next decision due at the same time.
    pub fn finish(&mut self, view: View<'_>, out: &mut JobQueue) -> bool {
        let now = view.now();
        let list = self.seen.iter().rposition(|(at, _)| *at == now);
        let mut jobs = list.map_or(Vec::new(), |i| self.seen.swap_remove(i).1);
        self.seen.clear();
        jobs.retain(|id| super::active(view, *id).is_some());
        for &job in &jobs {
            out.finish(job, Reason::GoalReached);
        }
        !jobs.is_empty()
    }

    /// Records the jobs that run after a pass. `arrivals` is true if the pass had arrivals.
    pub fn note<'a>(
        &mut self,
        now: Time,
        arrivals: bool,
        running: impl Iterator<Item = JobRef<'a>>,
    ) {
        if arrivals {
            self.seen.clear();
        }
        let mut first: Option<(Time, Vec<JobId>)> = None;
        for job in running {
            let at = Time::new(now.secs() + job.truth().work_left() / job.own_rate());
            match &mut first {
                Some((end, jobs)) if *end == at => jobs.push(job.id()),
                Some((end, _)) if *end < at => {}
                _ => first = Some((at, vec![job.id()])),
            }
        }
        self.seen.extend(first);
    }
}
