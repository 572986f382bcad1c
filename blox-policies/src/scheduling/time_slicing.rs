//! Time slicing in turn.

use super::listed::list_fitting;
use blox_core::{
    Answer, JobId, JobQueue, JobRef, Policy, SchedulingPolicy, Seconds, SortedMap, View,
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

    /// Returns the number of slices in a time, rounded up.
    pub(super) fn slices(&self, time: Seconds) -> u64 {
        (time.secs() / self.slice).ceil() as u64
    }

    /// Returns all active jobs with their slice counts, the jobs with the fewest slices first.
    pub(super) fn in_turn<'v>(&self, memory: &mut Turns, view: View<'v>) -> Vec<(u64, JobRef<'v>)> {
        let (mut order, mut new) = (Vec::new(), Vec::new());
        let (mut fewest, mut gone) = (None, false);
        // Both are in order of the jobs' numbers.
        let mut begun = memory.begun_with.iter().peekable();
        for job in view.active() {
            while begun.next_if(|(id, _)| **id < job.id()).is_some() {
                gone = true;
            }
            match begun.next_if(|(id, _)| **id == job.id()) {
                Some((_, begun)) => {
                    let turns = begun + self.had(&job);
                    fewest = Some(fewest.map_or(turns, |least: u64| least.min(turns)));
                    order.push((turns, job));
                }
                None => new.push(job),
            }
        }
        if gone || begun.next().is_some() {
            let here = |id: &JobId| order.binary_search_by_key(id, |(_, job)| job.id()).is_ok();
            memory.begun_with.retain(|id, _| here(id));
        }
        let fewest = fewest.unwrap_or(0);
        for job in new {
            memory.begun_with.insert(job.id(), fewest);
            order.push((fewest + self.had(&job), job));
        }
        // Long lists in each round.
        order.sort_unstable_by_key(|(turns, job)| (*turns, job.id()));
        order
    }
}

impl Policy for TimeSlicing {
    type Memory = Turns;

    fn initial(&self, _: u64) -> Turns {
        Turns::default()
    }
}

impl SchedulingPolicy for TimeSlicing {
    fn schedule(&self, memory: &mut Self::Memory, view: View<'_>, out: &mut JobQueue) -> Answer {
        let order = self.in_turn(memory, view);
        Ok(list_fitting(
            view,
            out,
            order.iter().map(|(_, job)| job.id()),
        ))
    }
}
