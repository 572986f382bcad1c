//! The timers of the simulated cluster.

use blox_core::{JobId, Phase, Time, View};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Number of timers below which void timers are not removed. Also the maximum number of recent
/// timers kept unsorted.
const CROWD: usize = 128;

/// A future event. Ordered by moment, then kind, then job or node, so that the order is
/// deterministic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Timer {
    pub at: Time,
    pub kind: Kind,
    /// Number of the job or node, or of the boot.
    pub who: u32,
    /// Number of the launch or of the failure.
    pub nth: u32,
}

/// Kind of a timer. At one moment, timers fire in the order of this list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    End,
    Stopped,
    Started,
    Crash,
    NodeLost,
    NodeReturned,
    Scripted,
    Report,
    Turn,
    Booted,
    /// The end of a service.
    Served,
}

impl Timer {
    /// Returns false if the timer belongs to a launch that is over.
    #[inline]
    fn may_fire(&self, view: View<'_>) -> bool {
        match self.kind {
            Kind::NodeLost | Kind::NodeReturned | Kind::Scripted | Kind::Booted | Kind::Served => {
                true
            }
            _ => view
                .job(JobId(self.who))
                .is_some_and(|j| j.attempt() == self.nth && j.phase() != Phase::Waiting),
        }
    }
}

/// Timers in order.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    sorted: BinaryHeap<Reverse<Timer>>,
    /// Timers added since the plan before the last one. Many launches end before the next plan, and
    /// their timers are never sorted in.
    recent: Vec<Timer>,
    /// Number of these timers that are older than the last plan.
    settled: usize,
    /// The first of the recent timers.
    first_recent: Option<Timer>,
    /// The first of the recent timers that were added since the last plan.
    first_new: Option<Timer>,
    /// Number of timers in the heap after the last removal of void timers.
    left: usize,
}

impl Timers {
    #[inline]
    pub fn add(&mut self, at: Time, kind: Kind, who: u32, nth: u32) {
        let timer = Timer { at, kind, who, nth };
        self.recent.push(timer);
        if self.first_new.is_none_or(|first| timer < first) {
            self.first_new = Some(timer);
            if self.first_recent.is_none_or(|first| timer < first) {
                self.first_recent = Some(timer);
            }
        }
    }

    /// Returns the next timer.
    #[inline]
    pub fn first(&self) -> Option<Timer> {
        match (self.sorted.peek(), self.first_recent) {
            (Some(Reverse(a)), Some(b)) => Some(b.min(*a)),
            (a, b) => b.or(a.map(|Reverse(a)| *a)),
        }
    }

    /// Removes the next timer.
    pub fn pop(&mut self) {
        let next = self.first();
        if next != self.first_recent {
            self.sorted.pop();
            return;
        }
        if self.recent.len() > CROWD {
            self.sorted.extend(self.recent.drain(..).map(Reverse));
            self.settled = 0;
            self.sorted.pop();
        } else if let Some(at) = self.recent.iter().position(|t| Some(*t) == next) {
            self.recent.remove(at);
            self.settled -= usize::from(at < self.settled);
        }
        self.first_recent = self.recent.iter().min().copied();
        self.first_new = self.recent[self.settled..].iter().min().copied();
    }

    /// Called after a plan is applied. Sorts in the timers from before the last plan that are still
    /// valid, and removes void timers if there are many.
    pub fn tidy(&mut self, view: View<'_>) {
        for timer in self.recent.drain(..self.settled) {
            if timer.may_fire(view) {
                self.sorted.push(Reverse(timer));
            }
        }
        self.settled = self.recent.len();
        self.first_recent = self.first_new.take();
        // This way, each timer is checked once or twice on average, however many remain.
        if self.sorted.len() >= CROWD + 2 * self.left {
            self.sorted.retain(|Reverse(t)| t.may_fire(view));
            self.left = self.sorted.len();
        }
    }
}
