//! Order of jobs that arrive at the same time.

use blox_core::{JobId, Seconds, Time};
use serde::{Deserialize, Serialize};

/// An event of the original. At equal times, events are ordered by kind.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Kind {
    Arrival(JobId),
    LeaseEnd,
    Round,
}

impl Kind {
    fn rank(self) -> u8 {
        match self {
            Kind::Arrival(_) => 0,
            Kind::LeaseEnd => 1,
            Kind::Round => 2,
        }
    }
}

/// Event heap of the original (Python's `heapq`), which compares events only by time and kind.
///
/// Quirk: the program's heap is not stable. The order of jobs that arrive at the same time depends
/// on all earlier events in the heap, including ends of leases and rounds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Arrivals {
    heap: Vec<(Time, Kind)>,
    /// Time of the last round.
    last: Option<Time>,
}

impl Arrivals {
    /// Creates the heap from jobs in the order in which the original reads them, and the time of
    /// its first round.
    pub fn of(jobs: impl IntoIterator<Item = (JobId, Time)>, first: Time) -> Self {
        let mut arrivals = Arrivals::default();
        for (job, at) in jobs {
            arrivals.push((at, Kind::Arrival(job)));
        }
        if !arrivals.heap.is_empty() {
            arrivals.push((first, Kind::Round));
        }
        arrivals
    }

    /// Reports the jobs that arrive until the round at `now`. `leases` is the number of leases in
    /// the last round.
    pub fn until(&mut self, now: Time, round: Seconds, leases: usize, mut came: impl FnMut(JobId)) {
        while !self.heap.is_empty() {
            if let Some(last) = self.last {
                let next = last + round;
                if next > now {
                    break;
                }
                // Rounds without running jobs may have been skipped.
                for _ in 0..leases {
                    self.push((next, Kind::LeaseEnd));
                }
                self.push((next, Kind::Round));
            }
            while let Some((at, kind)) = self.pop() {
                match kind {
                    Kind::Arrival(job) => came(job),
                    Kind::LeaseEnd => {}
                    Kind::Round => {
                        self.last = Some(at);
                        break;
                    }
                }
            }
        }
    }

    fn before(a: &(Time, Kind), b: &(Time, Kind)) -> bool {
        (a.0, a.1.rank()) < (b.0, b.1.rank())
    }

    fn push(&mut self, event: (Time, Kind)) {
        self.heap.push(event);
        self.rise(self.heap.len() - 1);
    }

    /// Removes the first event, as `heapq` does. The hole moves down to a leaf along the smaller
    /// children. The last event fills the leaf and rises.
    fn pop(&mut self) -> Option<(Time, Kind)> {
        let last = self.heap.pop()?;
        let Some(head) = self.heap.first_mut() else {
            return Some(last);
        };
        let first = std::mem::replace(head, last);
        let (mut hole, mut child) = (0, 1);
        while child < self.heap.len() {
            let right = child + 1;
            if right < self.heap.len() && !Self::before(&self.heap[child], &self.heap[right]) {
                child = right;
            }
            self.heap.swap(hole, child);
            hole = child;
            child = 2 * hole + 1;
        }
        self.rise(hole);
        Some(first)
    }

    fn rise(&mut self, mut at: usize) {
        while at > 0 {
            let parent = (at - 1) / 2;
            if !Self::before(&self.heap[at], &self.heap[parent]) {
                break;
            }
            self.heap.swap(at, parent);
            at = parent;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order that CPython 3.11's `heapq` produces.
    #[test]
    fn jobs_of_one_moment_leave_in_the_order_of_the_heap() {
        let job = |(i, at): (usize, &f64)| (JobId(i as u32), Time::new(*at));
        let round = Seconds::new(300.0);
        let come = |arrivals: &mut Arrivals, now: f64, leases: usize| {
            let mut jobs = Vec::new();
            arrivals.until(Time::new(now), round, leases, |j| jobs.push(j.0));
            jobs
        };
        let at_once = [0.0; 5];
        let mut arrivals = Arrivals::of(at_once.iter().enumerate().map(job), Time::ZERO);
        assert_eq!(come(&mut arrivals, 0.0, 0), [0, 2, 1, 3, 4]);

        let mut later = vec![0.0];
        later.extend([250.0; 6]);
        later.extend([700.0; 4]);
        let mut arrivals = Arrivals::of(later.iter().enumerate().map(job), Time::ZERO);
        assert_eq!(come(&mut arrivals, 0.0, 0), [0]);
        assert_eq!(come(&mut arrivals, 300.0, 1), [6, 5, 2, 1, 4, 3]);
        assert_eq!(come(&mut arrivals, 600.0, 3), [0; 0]);
        assert_eq!(come(&mut arrivals, 900.0, 4), [8, 7, 9, 10]);
    }
}
