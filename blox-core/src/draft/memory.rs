//! What a draft keeps from decision to decision.

use super::ledger::Ledger;
use crate::assignment::Assignment;
use crate::decision::Action;
use crate::ids::JobId;
use crate::reason::Reason;
use crate::view::View;

/// What a draft needs, kept from decision to decision so that a decision costs
/// what changed.
#[derive(Clone, Default)]
pub(crate) struct DraftMemory {
    decision: Option<u64>,
    pub(super) ledger: Ledger,
    /// True if this draft has made a pair.
    pub(super) paired: bool,
    pub(super) entries: Vec<Entry>,
    /// Index into `entries` plus one, by job.
    pub(super) entry_of: Vec<u32>,
    /// Steps of the plan that give the assignments that the draft gave, also those that it took
    /// back.
    pub(super) given: Vec<Action>,
    /// Why jobs were released, also those that were spared again.
    pub(super) reasons: Vec<Reason>,
    pub(super) log: Vec<Op>,
    pub(super) finishes: Vec<(JobId, Reason)>,
    pub(super) waits: Vec<(JobId, Reason)>,
    pub(super) otherwise: Reason,
    /// True if something that the draft gave may not stand: it was taken back, or is what the
    /// job had.
    pub(super) moved: bool,
}

#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub job: JobId,
    pub now: Now,
    /// Why it was released: an index into `reasons` plus one, or 0 if it was not. It then
    /// stops even if it is placed again.
    pub released: u32,
    /// Its stop is in the plan.
    pub stops: bool,
}

/// What a job has in the draft.
#[derive(Clone, Copy)]
pub(super) enum Now {
    /// What it had before the draft, if anything.
    AsBefore,
    Nothing,
    /// An index into what the draft gave; whether the job had other GPUs and goes on.
    Given {
        at: u32,
        in_place: bool,
    },
}

#[derive(Clone, Copy)]
pub(super) enum Op {
    Assigned(u32),
    Released { entry: u32, was: Now, first: bool },
    Spared { entry: u32, why: u32 },
    Reassigned { entry: u32, was: Now },
}

impl Now {
    /// Returns what is meant, of what the draft gave and what the job had before it.
    #[inline]
    pub fn of<'a>(
        self,
        given: &'a [Action],
        before: Option<&'a Assignment>,
    ) -> Option<&'a Assignment> {
        match self {
            Now::AsBefore => before,
            Now::Nothing => None,
            Now::Given { at, .. } => match given.get(at as usize) {
                Some(Action::Place { assignment, .. }) => Some(assignment),
                _ => None,
            },
        }
    }
}

impl DraftMemory {
    #[inline]
    pub(super) fn entry(&self, job: JobId) -> Option<usize> {
        match self.entry_of.get(job.index()) {
            Some(&e) if e != 0 => Some(e as usize - 1),
            _ => None,
        }
    }

    /// A job that the draft has not touched before.
    #[inline(always)]
    pub(super) fn add(&mut self, job: JobId, now: Now) -> usize {
        let e = self.entries.len();
        self.entries.push(Entry {
            job,
            now,
            released: 0,
            stops: false,
        });
        if self.entry_of.len() <= job.index() {
            self.make_room(job);
        }
        self.entry_of[job.index()] = e as u32 + 1;
        e
    }

    #[cold]
    fn make_room(&mut self, job: JobId) {
        let room = (job.index() + 1).next_power_of_two();
        self.entry_of.resize(room, 0);
    }

    /// Gives a job an assignment, and says so in the log; `known` is its entry, if it has one.
    #[inline]
    pub(super) fn give(&mut self, job: JobId, known: Option<usize>, assignment: Assignment) {
        self.given.push(Action::Place { job, assignment });
        self.note_given(job, known);
    }

    /// What was given last is what the job has.
    #[inline(always)]
    pub(super) fn note_given(&mut self, job: JobId, known: Option<usize>) {
        let now = self.last_given(false);
        let e = match known {
            Some(e) => {
                self.entries[e].now = now;
                e
            }
            None => self.add(job, now),
        };
        self.log.push(Op::Assigned(e as u32));
    }

    #[inline]
    pub(super) fn last_given(&self, in_place: bool) -> Now {
        let at = self.given.len() as u32 - 1;
        Now::Given { at, in_place }
    }

    /// Begins a draft of the view's decision.
    pub(super) fn sync(&mut self, view: View<'_>) {
        let next = self.decision.is_some_and(|d| d + 1 == view.decision());
        self.ledger.sync(view, next);
        self.decision = Some(view.decision());
        // A draft that was given up (its policy panicked) leaves these behind.
        self.clear();
        self.paired = false;
        self.finishes.clear();
        self.waits.clear();
        self.otherwise = Reason::NotChosen;
    }

    /// Forgets who was touched.
    pub(super) fn clear(&mut self) {
        for e in &self.entries {
            self.entry_of[e.job.index()] = 0;
        }
        self.entries.clear();
        self.given.clear();
        self.reasons.clear();
        self.log.clear();
        self.moved = false;
    }
}
