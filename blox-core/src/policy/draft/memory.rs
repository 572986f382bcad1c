//! Memory of a draft, kept from decision to decision.

use super::kinds::{BlockedKinds, Kind, Kinds};
use super::ledger::Ledger;
use crate::assignment::Assignment;
use crate::cluster::LinkJobs;
use crate::decision::Action;
use crate::ids::JobId;
use crate::order::{Entry as Queued, Piece};
use crate::queue::Request;
use crate::reason::Reason;
use crate::units::GpuCount;
use crate::view::View;
use std::sync::OnceLock;

/// Data of a draft, kept from decision to decision so that the cost of a decision depends only on
/// the changes.
#[derive(Clone, Default)]
pub(crate) struct DraftMemory {
    decision: Option<u64>,
    pub(super) ledger: Ledger,
    pub(super) entries: Vec<Entry>,
    /// Index into `entries` plus one, by job.
    pub(super) entry_of: Vec<u32>,
    /// Steps of the plan with the assignments that the draft made, including withdrawn ones.
    pub(super) given: Vec<Action>,
    /// Reasons of releases, including undone ones.
    pub(super) reasons: Vec<Reason>,
    pub(super) log: Vec<Op>,
    pub(super) finishes: Vec<(JobId, Reason)>,
    pub(super) waits: Vec<(JobId, Reason)>,
    /// Reasons why jobs of a number of GPUs wait.
    pub(super) waits_by_gpus: Vec<(GpuCount, Reason)>,
    pub(super) otherwise: Reason,
    /// True if an assignment of the draft may be dropped: it was withdrawn, or equals the job's
    /// previous one.
    pub(super) moved: bool,
    /// True if the draft gave a job another number of GPUs than it asks for, even if undone.
    pub(super) off_gang: bool,
    /// True if the draft gave GPUs to a job that must run on a number of nodes, even if undone.
    pub(super) limited: bool,
    /// Position of in-order placement in the queue.
    pub(super) walk: Walk,
    /// The jobs of each link before the draft, once a placement asked for them.
    links: OnceLock<LinkJobs>,
}

/// Position of in-order placement in a queue.
#[derive(Clone, Default)]
pub(super) struct Walk {
    /// The kept order that the entries are from.
    pub made: u32,
    pub candidate: Option<Queued>,
    /// Blocked candidates, ascending. They return to the queue at the end.
    pub passed: Vec<Queued>,
    /// Blocked candidates before the ones in `passed`, ascending.
    pub passed_pieces: Vec<Piece>,
    /// Kinds of jobs that are blocked until a candidate is placed.
    pub blocked: BlockedKinds,
    pub kinds: Kinds,
    /// True if no kind is ever blocked: the walk tries each job.
    each: bool,
    /// Released victims that must still be placed again, first at the end.
    pub again: Vec<Queued>,
    /// Victims of the candidate.
    pub taken: Vec<Queued>,
    /// Victims with an undone release, which can be victims again; the next one at the end.
    pub spared: Vec<Queued>,
    /// Number of requests of a list up to the candidate.
    pub cursor: usize,
    /// True if the list names a job more than once.
    pub repeats: bool,
    /// The jobs of the list, ascending.
    named: Vec<JobId>,
    /// Number of jobs that were not yet victims: placed jobs in rank, or requests of a list. `None`
    /// until the placed jobs are ranked.
    pub back: Option<usize>,
    /// Value of `back` before the candidate.
    pub back_mark: usize,
}

impl Walk {
    /// Blocks a kind of jobs until a candidate is placed, unless the walk tries each job.
    pub fn block(&mut self, kind: Kind) {
        if !self.each {
            self.blocked.insert(kind);
        }
    }

    pub fn look_for_repeats(&mut self, list: &[Request]) {
        self.named.clear();
        self.named.extend(list.iter().map(|request| request.job));
        self.named.sort_unstable();
        self.repeats = self.named.windows(2).any(|pair| pair[0] == pair[1]);
    }

    pub fn clear(&mut self) {
        self.candidate = None;
        self.again.clear();
        self.taken.clear();
        self.spared.clear();
        self.blocked.clear();
    }
}

#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub job: JobId,
    pub now: Now,
    /// Reason of the release: an index into `reasons` plus one, or 0 if the job was not released. A
    /// released job stops even if it is placed again.
    pub released: u32,
    /// True if the plan contains the job's stop.
    pub stops: bool,
}

/// Current assignment of a job in the draft.
#[derive(Clone, Copy)]
pub(super) enum Now {
    /// The assignment from before the draft, if any.
    AsBefore,
    Nothing,
    /// Index of an assignment in `given`. `in_place` is true if the job keeps running and only its
    /// GPUs change.
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
    /// Returns the assignment that this stands for, out of the draft's own and the job's previous
    /// one.
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

/// Returns a job's index into [`DraftMemory::entries`], given [`DraftMemory::entry_of`].
#[inline]
pub(super) fn entry(entry_of: &[u32], job: JobId) -> Option<usize> {
    match entry_of.get(job.index()) {
        Some(&e) if e != 0 => Some(e as usize - 1),
        _ => None,
    }
}

impl DraftMemory {
    #[inline]
    pub(super) fn entry(&self, job: JobId) -> Option<usize> {
        entry(&self.entry_of, job)
    }

    /// Adds an entry for a job that the draft has not touched before.
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

    /// Records the last assignment in `given` as the job's current one, and logs this. `known` is
    /// the job's entry, if it has one.
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

    /// Starts a draft for the view's decision.
    pub(super) fn sync(&mut self, view: View<'_>) {
        let next = self.decision.is_some_and(|d| d + 1 == view.decision());
        self.ledger.sync(view, next);
        if self.links.get().is_some() {
            self.update_links(view, next);
        }
        self.decision = Some(view.decision());
        // A draft that was abandoned (its policy panicked) leaves these behind.
        self.clear();
        self.finishes.clear();
        self.waits.clear();
        self.waits_by_gpus.clear();
        self.otherwise = Reason::NotChosen;
    }

    /// Lets the walk try each job, also those that request the same as a blocked one.
    pub(crate) fn try_each(&mut self) {
        self.walk.each = true;
    }

    /// Returns the jobs of each link before the draft.
    pub(super) fn links(&self, view: View<'_>) -> &LinkJobs {
        self.links.get_or_init(|| {
            let mut links = LinkJobs::default();
            let placed = view
                .placed()
                .filter_map(|job| Some((job.id(), job.assignment()?)));
            placed.for_each(|(id, its)| links.set(id, &view.cluster().links_of(&its.gpus)));
            links
        })
    }

    #[cold]
    fn update_links(&mut self, view: View<'_>, next: bool) {
        let Some(links) = self.links.get_mut().filter(|_| next) else {
            self.links = OnceLock::new();
            return;
        };
        for id in view.touched_ids() {
            let its = view.job(id).and_then(|job| job.assignment());
            let its = its.map(|its| view.cluster().links_of(&its.gpus));
            links.set(id, &its.unwrap_or_default());
        }
    }

    /// Removes all entries of touched jobs, with their log.
    pub(super) fn clear(&mut self) {
        for e in &self.entries {
            self.entry_of[e.job.index()] = 0;
        }
        self.entries.clear();
        self.given.clear();
        self.reasons.clear();
        self.log.clear();
        self.moved = false;
        self.off_gang = false;
        self.limited = false;
    }
}
