//! The program's calendar of ends, and what it forgets to take off it.

use blox_core::{JobId, JobRef, Reason, Requests, Time, View};
use serde::{Deserialize, Serialize};

/// Lists of jobs that were expected to end at the moment of an arrival.
///
/// When the next arrival and the next end coincide, the program writes the
/// list of ending jobs into the arrival. If it then handles another event
/// first, one that stops such a job, the list stays, and at the arrival the job
/// ends although it has work left.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct StaleEnds {
    /// The next end as each pass since the last arrival saw it.
    seen: Vec<(Time, Vec<JobId>)>,
}

impl StaleEnds {
    /// Ends the jobs that an arrival now ends with work left, each once, and says
    /// whether there are any. Their ends make the next decision due at this very
    /// moment.
    pub fn finish(&mut self, view: View<'_>, out: &mut Requests) -> bool {
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

    /// A pass is over, after which these jobs run. `arrivals` says whether it
    /// took any.
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
            let at = Time::new(now.secs() + job.work_left() / job.spec().work.rate);
            match &mut first {
                Some((end, jobs)) if *end == at => jobs.push(job.id()),
                Some((end, _)) if *end < at => {}
                _ => first = Some((at, vec![job.id()])),
            }
        }
        self.seen.extend(first);
    }
}
