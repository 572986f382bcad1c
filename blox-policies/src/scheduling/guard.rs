//! Wrapper that protects jobs against starvation.

use blox_core::{
    Answer, JobId, JobQueue, JobRef, Phase, Reason, SchedulingPolicy, Seconds, Shapes, Time,
    Validity, View, forward_policy,
};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Promotes a job that waited too long: it then comes before all jobs that are not promoted, for
/// the rest of its life.
///
/// The waiting time starts at the first decision that could have launched the job and did not. The
/// decision that preempts a job does not count. Blox uses 1000 hours.
#[derive(Clone, Debug)]
pub struct StarvationGuard<P> {
    inner: P,
    limit: Seconds,
}

impl<P> StarvationGuard<P> {
    /// Wraps a policy, for jobs that waited `limit`.
    pub fn new(inner: P, limit: Seconds) -> Self {
        StarvationGuard { inner, limit }
    }
}

/// Length from which the queue takes no more jobs. It is rebuilt after it is used up.
const LONG: usize = 256;

/// Waiting jobs: a cache that can be derived from the view.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Waits {
    /// Waiting jobs by the time since which they wait. Some have run since.
    #[serde(skip)]
    queue: VecDeque<(Time, JobId)>,
    /// True if the queue holds all waiting jobs. A long queue may lack jobs that came later.
    #[serde(skip)]
    complete: bool,
    /// Time of the last decision at which the queue was complete.
    #[serde(skip)]
    complete_at: Time,
    /// Jobs whose limit is reached.
    #[serde(skip)]
    due: Vec<(Time, JobId)>,
    #[serde(skip)]
    decision: Option<u64>,
}

impl Waits {
    fn sync(&mut self, view: View<'_>) {
        let next = self.decision.is_some_and(|d| d + 1 == view.decision());
        self.decision = Some(view.decision());
        if !next {
            self.rebuild(view);
        }
        if !self.complete {
            return;
        }
        for job in view.touched() {
            if job.phase() == Phase::Waiting && !job.promoted() {
                if self.queue.len() >= LONG {
                    self.complete = false;
                    return;
                }
                insert(&mut self.queue, (job.eligible_since(), job.id()));
            }
        }
        self.complete_at = view.now();
    }

    fn rebuild(&mut self, view: View<'_>) {
        let waiting = view.waiting().filter(|j| !j.promoted());
        let mut all: Vec<_> = waiting.map(|j| (j.eligible_since(), j.id())).collect();
        all.sort_unstable();
        self.queue = all.into();
        self.complete = true;
        self.complete_at = view.now();
    }

    /// Removes jobs whose limit is reached, and jobs that no longer wait. Afterwards no job in the
    /// queue is due, and the first job determines the next check.
    fn pass(&mut self, view: View<'_>, limit: Seconds) -> Validity {
        let now = view.now();
        while let Some(&(since, id)) = self.queue.front() {
            let still = waits_since(view, id, since);
            if still && now - since < limit {
                return Validity::Until(since + limit);
            }
            if still {
                self.due.push((since, id));
            }
            self.queue.pop_front();
        }
        Validity::UntilEvent
    }
}

/// Returns whether the job has waited since then without running.
#[inline]
fn waits_since(view: View<'_>, id: JobId, since: Time) -> bool {
    view.job(id).is_some_and(|j| {
        j.phase() == Phase::Waiting && j.eligible_since() == since && !j.promoted()
    })
}

/// Inserts an entry in time order. Times only grow, so the position is nearly always the end.
#[inline]
fn insert(queue: &mut VecDeque<(Time, JobId)>, entry: (Time, JobId)) {
    if queue.back().is_none_or(|last| last.0 <= entry.0) {
        queue.push_back(entry);
        return;
    }
    let mut at = queue.len();
    while at > 0 && queue[at - 1].0 > entry.0 {
        at -= 1;
    }
    queue.insert(at, entry);
}

forward_policy!(StarvationGuard<P: SchedulingPolicy>, inner, Waits);

impl<P: SchedulingPolicy> SchedulingPolicy for StarvationGuard<P> {
    fn schedule(&self, memory: &mut Self::Memory, view: View<'_>, out: &mut JobQueue) -> Answer {
        let waits = &mut memory.own;
        waits.sync(view);
        let mut timer = waits.pass(view, self.limit);
        let first = waits.queue.front();
        if !waits.complete && first.is_none_or(|(since, _)| *since > waits.complete_at) {
            waits.rebuild(view);
            timer = waits.pass(view, self.limit);
        }
        // In one order, independent of when they became due.
        waits.due.sort_unstable();
        waits.due.dedup();
        for (_, id) in waits.due.drain(..) {
            out.promote(id);
        }
        let inner = self.inner.schedule(&mut memory.inner, view, out)?;
        Ok(inner.and(timer))
    }

    fn could_request(&self, view: View<'_>, job: &JobRef<'_>) -> Result<Shapes, Reason> {
        self.inner.could_request(view, job)
    }

    fn keeps_nodes(&self, nodes: u32) -> bool {
        self.inner.keeps_nodes(nodes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_lie_in_order_of_their_moments() {
        let mut queue = VecDeque::new();
        for (at, job) in [(0.0, 3), (5.0, 2), (7.0, 0), (5.0, 1)] {
            insert(&mut queue, (Time::new(at), JobId(job)));
        }
        let jobs: Vec<u32> = queue.iter().map(|(_, job)| job.0).collect();
        assert_eq!(jobs, [3, 2, 1, 0]);
    }
}
