//! Jobs kept in order from decision to decision, and the walk through them.

use crate::draft::Draft;
use crate::ids::JobId;
use crate::job::{JobRef, Phase};
use crate::order::{Entry, KeptQueue};
use crate::policy::KeyFn;
use crate::units::{GpuCount, Time};
use crate::view::View;
use prefetch_index::prefetch_index;
use std::sync::Arc;

/// A kept order: the queue of waiting jobs, the placed ones, and where a walk through both is.
#[derive(Clone)]
pub(super) struct Kept {
    key: KeyFn,
    /// The decision for which it is right.
    decision: u64,
    queue: KeptQueue,
    queued_count: u32,
    marks: Marks,
    /// Placed jobs in ascending order of their keys, once `ranked`.
    placed: Vec<Entry>,
    /// How many entries in `placed` do not count any more.
    void: usize,
    ranked: bool,
    /// The moment as of which their keys are, where these move alike: a [`reference`](reference()). At each
    /// decision's they would be rounded otherwise, and jobs that are as good as equal would lie
    /// as they were found. All others are looked at again each time.
    keyed_at: Option<Time>,
    /// True if the keys of running jobs move alike: their order then stands.
    alike: bool,
    /// Placed jobs that were touched since the ranking; each has its mark.
    fresh: Vec<JobId>,
    /// Placed jobs that were not running at the ranking: their keys stand still.
    unsteady: Vec<JobId>,
    /// Memory of the last ranking.
    newcomers: Vec<Entry>,
    // The walk.
    candidate: Option<Entry>,
    passed: Vec<Entry>,
    /// Victims of this walk that still have to be placed again, first at the end.
    again: Vec<Entry>,
    taken: Vec<Entry>,
    /// Victims given back, which can be victims again; the next one at the end.
    spared: Vec<Entry>,
    back: usize,
    /// Promoted in this decision: the view does not show it yet.
    promoted_now: Vec<JobId>,
}

impl Kept {
    /// An order by a key, of which nothing is known yet.
    pub(super) fn new(key: &KeyFn) -> Self {
        Kept {
            key: Arc::clone(key),
            decision: u64::MAX,
            queue: KeptQueue::default(),
            queued_count: 0,
            marks: Marks::default(),
            placed: Vec::new(),
            void: 0,
            ranked: false,
            keyed_at: None,
            alike: false,
            fresh: Vec::new(),
            unsteady: Vec::new(),
            newcomers: Vec::new(),
            candidate: None,
            passed: Vec::new(),
            again: Vec::new(),
            taken: Vec::new(),
            spared: Vec::new(),
            back: 0,
            promoted_now: Vec::new(),
        }
    }

    /// Takes note of all that changed since the last decision.
    pub(super) fn sync(&mut self, view: View<'_>, key: &KeyFn) {
        let same_key = Arc::ptr_eq(&self.key, key);
        if !same_key {
            self.key = Arc::clone(key);
            self.alike = false;
        }
        self.ranked = false;
        let promoted_before = std::mem::take(&mut self.promoted_now);
        if same_key && self.decision.wrapping_add(1) == view.decision() {
            let mut rekeyed = false;
            for id in view.touched_ids() {
                match view.job(id).filter(|j| j.phase() != Phase::Ended) {
                    Some(job) => {
                        let queued =
                            job.phase() == Phase::Waiting && self.marks.has(id, Marks::QUEUED);
                        if queued && promoted_before.binary_search(&id).is_ok() {
                            // Promoted; whether it also ran in between, and has
                            // another key, nobody has told the queue.
                            self.forget_queued(id);
                        } else {
                            // Something was reported of a waiting job: its key
                            // may be another.
                            rekeyed |= queued;
                        }
                        self.add(&job);
                    }
                    None => {
                        self.forget_queued(id);
                        self.forget_placed(id);
                    }
                }
            }
            let expected = view.waiting_count();
            let counts = view.virtual_cluster().is_some() || self.queued_count == expected;
            let settled = counts && !rekeyed;
            if self.fresh.len() > 64 + 2 * view.placed_count() as usize {
                // An order that never needs a victim never ranks.
                let marks = &mut self.marks;
                self.fresh.retain(|&id| {
                    let stays = marks.has(id, Marks::PLACED);
                    if !stays {
                        marks.drop(id, Marks::FRESH);
                    }
                    stays
                });
            }
            if settled {
                self.decision = view.decision();
                return;
            }
        }
        self.rebuild(view);
    }

    /// Moves jobs that are promoted in this decision before all that are not. Promotions that the
    /// view shows, or that the order has already, change nothing.
    pub(super) fn promote(&mut self, view: View<'_>, jobs: &[JobId]) {
        for &id in jobs {
            let Some(job) = view.job(id).filter(|job| !job.promoted()) else {
                continue;
            };
            if let Err(at) = self.promoted_now.binary_search(&id) {
                self.promoted_now.insert(at, id);
                // The old entry stays behind; it is dropped when it comes up.
                self.forget_queued(id);
                self.add(&job);
                self.ranked = false;
            }
        }
    }

    /// See [`Requests::keys_move_alike`](super::Requests::keys_move_alike).
    pub(super) fn keys_move_alike(&mut self) {
        self.alike = true;
    }

    /// The jobs, placed and waiting ones alike; one may come twice.
    pub(super) fn in_order(&mut self, view: View<'_>) -> Vec<JobId> {
        self.rank(view);
        let mut all: Vec<Entry> = self.queue.in_order().copied().collect();
        // Entries of earlier keys and phases may still lie in the queue.
        all.retain(|e| self.marks.counts(e, Marks::QUEUED));
        let placed = self.placed.iter().filter(|e| self.is_ranked(e));
        all.extend(placed.map(|e| self.as_of_now(view, *e)));
        all.sort_unstable();
        all.into_iter().map(|e| e.job()).collect()
    }

    /// See [`Requests::next_candidate`](super::Requests::next_candidate).
    #[inline]
    pub(super) fn next_candidate<'a>(&mut self, draft: &Draft<'a>) -> Option<JobRef<'a>> {
        let view = draft.view();
        if self.candidate.is_some() {
            self.settle(draft, false);
        }
        loop {
            let again = match (self.queue.peek(), self.again.last()) {
                (Some(q), Some(a)) => a < q,
                (None, Some(_)) => true,
                (Some(_), None) => false,
                (None, None) => return None,
            };
            let entry = if again {
                self.again.pop()?
            } else {
                self.queue.pop()?
            };
            if !again && !self.marks.counts(&entry, Marks::QUEUED) {
                continue;
            }
            let Some(job) = view.job(entry.job()) else {
                continue;
            };
            if draft.has_gpus(entry.job(), false) {
                // Placed meanwhile as another's partner.
                self.forget_queued(entry.job());
                continue;
            }
            if let Some(later) = self.queue.ahead(6) {
                prefetch_index(&self.marks.0, later.job().index());
                draft.fetch_ahead(later.job());
            }
            if let Some(later) = self.queue.ahead(3) {
                view.fetch_ahead(later.job());
            }
            self.candidate = Some(entry);
            return Some(job);
        }
    }

    /// See [`Requests::next_victim_with_gpus`](super::Requests::next_victim_with_gpus).
    #[inline]
    pub(super) fn next_victim(&mut self, draft: &Draft<'_>) -> Option<(JobId, GpuCount)> {
        let candidate = self.candidate?;
        let view = draft.view();
        if !self.ranked {
            self.rank(view);
        }
        loop {
            let (entry, job) = match self.spared.pop() {
                Some(entry) => (entry, view.job(entry.job())),
                None if self.back > 0 => {
                    self.back -= 1;
                    let entry = self.placed[self.back];
                    if !self.is_ranked(&entry) {
                        continue;
                    }
                    let job = view.job(entry.job());
                    match (self.keyed_at, &job) {
                        (Some(_), Some(job)) => (self.entry(job), Some(*job)),
                        _ => (entry, job),
                    }
                }
                None => return None,
            };
            if entry < candidate {
                // Not a victim for this candidate, and later ones come later still.
                self.spared.push(entry);
                return None;
            }
            let gpus = job.map_or(GpuCount(0), |job| draft.gpus_of(&job));
            if gpus.get() > 0 {
                self.taken.push(entry);
                return Some((entry.job(), gpus));
            }
        }
    }

    /// The candidate, if there is one, was `placed` or not: victims find their places.
    #[inline(always)]
    pub(super) fn settle(&mut self, draft: &Draft<'_>, placed: bool) {
        let spared = self.spared.len();
        for &entry in &self.taken {
            if draft.has_gpus(entry.job(), true) {
                self.spared.push(entry);
            } else if self.again.last().is_none_or(|first| entry < *first) {
                // Victims are taken from the last on.
                self.again.push(entry);
            } else {
                let at = self.again.partition_point(|e| entry < *e);
                self.again.insert(at, entry);
            }
        }
        self.taken.clear();
        if self.spared.len() > spared {
            self.spared.sort_unstable();
        }
        if placed && let Some(entry) = self.candidate.take() {
            self.forget_queued(entry.job());
        }
        self.pass_over();
    }

    /// Puts candidates that were passed over back where they were.
    pub(super) fn end_walk(&mut self) {
        self.pass_over();
        self.again.clear();
        self.taken.clear();
        self.spared.clear();
        // Passed over in ascending order: from the last, each is the new first.
        while let Some(entry) = self.passed.pop() {
            self.queue.push(entry);
        }
        // Stale entries must not outgrow the live ones.
        if self.queue.len() > 64 + 2 * self.queued_count as usize {
            let marks = &self.marks;
            self.queue.retain(|e| marks.counts(e, Marks::QUEUED));
        }
    }
}

impl Kept {
    fn rebuild(&mut self, view: View<'_>) {
        self.queue.clear();
        self.queued_count = 0;
        self.marks.0.clear();
        self.placed.clear();
        self.void = 0;
        self.fresh.clear();
        self.unsteady.clear();
        // A walk that a panic cut short leaves these behind.
        self.passed.clear();
        self.end_walk();
        self.decision = view.decision();
        let mut waiting = Vec::new();
        for job in view.waiting() {
            let entry = self.entry(&job);
            waiting.push(self.marks.stamp(entry, Marks::QUEUED));
            self.queued_count += 1;
        }
        self.queue.fill(waiting.into_iter());
        for job in view.placed() {
            self.add(&job);
        }
    }

    #[inline]
    fn entry(&self, job: &JobRef<'_>) -> Entry {
        let id = job.id();
        let mut key = (self.key)(job);
        let now = |all: &[JobId]| !all.is_empty() && all.binary_search(&id).is_ok();
        if job.promoted() || now(&self.promoted_now) {
            key = key.first_of_all();
        }
        Entry::new(key, id)
    }

    /// Takes note of a job that was touched.
    #[inline(always)]
    fn add(&mut self, job: &JobRef<'_>) {
        let id = job.id();
        match job.phase() {
            Phase::Waiting => {
                if !self.marks.has(id, Marks::QUEUED) {
                    let entry = self.entry(job);
                    let entry = self.marks.stamp(entry, Marks::QUEUED);
                    self.queue.push(entry);
                    self.queued_count += 1;
                }
            }
            Phase::Starting | Phase::Running | Phase::Stopping if job.is_placed() => {
                let marks = self.marks.of(id);
                let before = *marks;
                *marks = (before | Marks::PLACED | Marks::FRESH) & !(Marks::QUEUED | Marks::RANKED);
                self.queued_count -= u32::from(before & Marks::QUEUED != 0);
                if before & Marks::FRESH == 0 {
                    self.void += usize::from(before & Marks::RANKED != 0);
                    self.fresh.push(id);
                }
                return;
            }
            _ => self.forget_queued(id),
        }
        self.forget_placed(id);
    }

    /// Its entry, if it has one, is dropped when the placed jobs are ranked.
    fn forget_placed(&mut self, id: JobId) {
        self.void += usize::from(self.marks.has(id, Marks::RANKED));
        self.marks.drop(id, Marks::PLACED | Marks::RANKED);
    }

    fn forget_queued(&mut self, id: JobId) {
        if self.marks.has(id, Marks::QUEUED) {
            self.marks.drop(id, Marks::QUEUED);
            self.queued_count -= 1;
        }
    }

    /// Drops jobs that are placed no more and puts the others in order.
    #[inline(never)]
    fn rank(&mut self, view: View<'_>) {
        if self.ranked {
            return;
        }
        self.ranked = true;
        let marks = &self.marks;
        let stands = |job: &JobRef<'_>| job.phase() != Phase::Running;
        self.unsteady.retain(|&id| {
            let known = marks.has(id, Marks::PLACED) && !marks.has(id, Marks::FRESH);
            known && view.job(id).is_some_and(|job| stands(&job))
        });
        // Those that were stopped were the last; some end before their turn.
        while self.void > 0 && self.placed.last().is_some_and(|e| !self.is_ranked(e)) {
            self.placed.pop();
            self.void -= 1;
        }
        if self.void > 8 + self.placed.len() / 8 {
            self.drop_void();
        }
        let mut moment = (self.alike && self.unsteady.is_empty()).then(|| reference(view.now()));
        let mut newcomers = std::mem::take(&mut self.newcomers);
        let mut fresh = std::mem::take(&mut self.fresh);
        for id in fresh.drain(..) {
            let marks = self.marks.of(id);
            *marks &= !Marks::FRESH;
            let placed = *marks & Marks::PLACED != 0;
            let Some(job) = view.job(id).filter(|_| placed) else {
                continue;
            };
            if stands(&job) {
                self.unsteady.push(id);
            }
            let entry = self.entry(&job.at(moment.unwrap_or(view.now())));
            newcomers.push(self.marks.stamp(entry, Marks::RANKED));
        }
        self.fresh = fresh;
        if moment.is_some() && !self.unsteady.is_empty() {
            moment = None;
            for entry in &mut newcomers {
                *entry = self.as_of_now(view, *entry).with_stamp(entry.stamp());
            }
        }
        let at = moment.unwrap_or(view.now());
        let before = std::mem::replace(&mut self.keyed_at, moment);
        if moment.is_none() || before != moment {
            self.drop_void();
            let mut placed = std::mem::take(&mut self.placed);
            for entry in &mut placed {
                *entry = self.as_of(view, *entry, at).with_stamp(entry.stamp());
            }
            // Nearly sorted from the last time: the adaptive sort is the fast one.
            placed.sort();
            self.placed = placed;
        }
        newcomers.sort_unstable();
        self.merge(&mut newcomers);
        self.newcomers = newcomers;
        self.back = self.placed.len();
    }

    /// Moves newcomers, in ascending order, in among the placed jobs.
    fn merge(&mut self, newcomers: &mut Vec<Entry>) {
        let placed = &mut self.placed;
        let mut rest = placed.len();
        placed.extend_from_slice(newcomers);
        // From the last on, so that each entry is moved once.
        while rest > 0 {
            let Some(new) = newcomers.pop() else { return };
            let at = placed[..rest].partition_point(|e| *e < new);
            placed.copy_within(at..rest, at + newcomers.len() + 1);
            placed[at + newcomers.len()] = new;
            rest = at;
        }
        placed[..newcomers.len()].copy_from_slice(newcomers);
        newcomers.clear();
    }

    /// Returns whether an entry among the placed jobs counts.
    #[inline]
    fn is_ranked(&self, entry: &Entry) -> bool {
        self.marks.counts(entry, Marks::RANKED)
    }

    fn drop_void(&mut self) {
        if self.void > 0 {
            let marks = &self.marks;
            self.placed.retain(|e| marks.counts(e, Marks::RANKED));
            self.void = 0;
        }
    }

    #[inline]
    fn as_of_now(&self, view: View<'_>, entry: Entry) -> Entry {
        self.as_of(view, entry, view.now())
    }

    #[inline]
    fn as_of(&self, view: View<'_>, entry: Entry, at: Time) -> Entry {
        let job = view.job(entry.job());
        job.map_or(entry, |job| self.entry(&job.at(at)))
    }

    /// Keeps the candidate, if there is one, for the next walk.
    #[inline]
    fn pass_over(&mut self) {
        if let Some(entry) = self.candidate.take()
            && self.marks.has(entry.job(), Marks::QUEUED)
        {
            self.passed.push(entry);
        }
    }
}

/// A moment, not before `now`, that is the same for long: the next power of two of seconds.
fn reference(now: Time) -> Time {
    let mut next = 1.0;
    while next < now.secs() {
        next *= 2.0;
    }
    Time::new(next)
}

/// What a kept order knows of each job: marks, and the stamp of the one entry in the
/// queue that counts.
#[derive(Clone, Default)]
struct Marks(Vec<u32>);

impl Marks {
    /// Its entry in the queue counts.
    const QUEUED: u32 = 1;
    /// It is placed.
    const PLACED: u32 = 2;
    /// Its entry among the placed jobs counts.
    const RANKED: u32 = 4;
    /// It waits to be ranked.
    const FRESH: u32 = 8;
    /// The lowest bit of the stamp.
    const STAMP: u32 = 16;

    #[inline]
    fn has(&self, job: JobId, mark: u32) -> bool {
        self.0.get(job.index()).is_some_and(|m| m & mark != 0)
    }

    #[inline]
    fn of(&mut self, job: JobId) -> &mut u32 {
        let i = job.index();
        if i >= self.0.len() {
            self.0.resize((i + 1).next_power_of_two(), 0);
        }
        &mut self.0[i]
    }

    /// The job has a new entry, in the queue or among the placed jobs; those from before do
    /// not count any more.
    #[inline]
    fn stamp(&mut self, entry: Entry, mark: u32) -> Entry {
        let marks = self.of(entry.job());
        *marks = marks.wrapping_add(Marks::STAMP) | mark;
        entry.with_stamp(*marks / Marks::STAMP)
    }

    /// Returns whether an entry counts: it is not left over from an earlier key or phase.
    #[inline]
    fn counts(&self, entry: &Entry, mark: u32) -> bool {
        let marks = self.0.get(entry.job().index());
        marks.is_some_and(|m| m & mark != 0 && m / Marks::STAMP == entry.stamp())
    }

    #[inline]
    fn drop(&mut self, job: JobId, mark: u32) {
        if let Some(m) = self.0.get_mut(job.index()) {
            *m &= !mark;
        }
    }
}
