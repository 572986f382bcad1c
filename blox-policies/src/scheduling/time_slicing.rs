//! Time slicing in turn.

use super::listed::list_fitting;
use blox_core::{
    JobId, JobQueue, JobRef, Policy, SchedulingPolicy, Seconds, SortedMap, Validity, View, sort,
};
use serde::{Deserialize, Serialize};

/// Time slicing in turn (Gandiva, OSDI 2018, section 4.1: suspend-resume).
///
/// The jobs with the fewest slices run, older jobs first, as long as they fit. A slice ends when
/// the job has run for the length of a slice; startup time is not counted. A new job starts with
/// the lowest slice count of all jobs. It therefore runs at once, but not more often than the
/// others. If all jobs fit, no job is stopped. Rounds should be as long as a slice.
#[derive(Clone, Debug)]
pub struct TimeSlicing {
    slice: f64,
}

/// Slice counts of jobs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Turns {
    /// Slice count with which each job began.
    begun_with: SortedMap<JobId, u64>,
}

impl TimeSlicing {
    /// Creates the policy with slices of this length, above 0 (else 1 s).
    pub fn new(slice: Seconds) -> Self {
        let slice = slice.secs();
        TimeSlicing {
            slice: if slice > 0.0 { slice } else { 1.0 },
        }
    }

    /// Returns the number of slices that a job had.
    pub(super) fn had(&self, job: &JobRef<'_>) -> u64 {
        (job.attained_time().secs() / self.slice).floor() as u64
    }

    fn turns(&self, memory: &Turns, job: &JobRef<'_>) -> Option<u64> {
        let begun = memory.begun_with.get(&job.id());
        begun.map(|begun| begun + self.had(job))
    }

    /// Returns all active jobs, the jobs with the fewest slices first.
    pub(super) fn in_turn<'v>(&self, memory: &mut Turns, view: View<'v>) -> Vec<JobRef<'v>> {
        let active: Vec<JobRef<'v>> = view.active().collect();
        let is_here = |id: &JobId| active.binary_search_by_key(id, JobRef::id).is_ok();
        memory.begun_with.retain(|id, _| is_here(id));
        let fewest = active.iter().filter_map(|j| self.turns(memory, j)).min();
        for job in &active {
            memory
                .begun_with
                .entry(job.id())
                .or_insert(fewest.unwrap_or(0));
        }
        let turns = active.iter().map(|j| (self.turns(memory, j), *j));
        let mut order: Vec<(Option<u64>, JobRef<'v>)> = turns.collect();
        sort::by_key(&mut order, |(turns, job)| (*turns, job.id()));
        order.into_iter().map(|(_, job)| job).collect()
    }
}

impl Policy for TimeSlicing {
    type Memory = Turns;

    fn initial(&self, _: u64) -> Turns {
        Turns::default()
    }
}

impl SchedulingPolicy for TimeSlicing {
    fn schedule(&self, memory: &mut Self::Memory, view: View<'_>, out: &mut JobQueue) -> Validity {
        let order = self.in_turn(memory, view);
        list_fitting(view, out, order.iter().map(JobRef::id))
    }
}
