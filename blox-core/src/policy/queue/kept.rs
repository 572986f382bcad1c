//! Jobs kept in order from decision to decision, and in-order placement of them.

use super::aging::{Aging, Player};
use crate::decide_error::StatementError;
use crate::ids::JobId;
use crate::job::{JobRef, Phase};
use crate::order::{Entry, KeptQueue, KeyFn, RateFn, SortKey};
use crate::units::Time;
use crate::view::View;
use prefetch_index::prefetch_index;
use smallvec::SmallVec;
use std::sync::Arc;

/// A kept order: the queue of waiting jobs, and the placed jobs.
#[derive(Clone)]
pub(in crate::policy) struct Kept {
    key: KeyFn,
    /// The decision that the order is valid for.
    decision: u64,
    /// Waiting jobs. An entry may be stale; see [`Kept::is_queued`]. A job whose entry is removed
    /// still counts as queued.
    ///
    /// If keys of waiting jobs change, it holds only the first jobs, while a decision is made.
    pub(in crate::policy) queue: KeptQueue,
    /// The other waiting jobs, if the keys of waiting jobs change.
    aging: Option<Box<(RateFn, Aging)>>,
    queued_count: u32,
    marks: Marks,
    /// Placed jobs in ascending order of their keys if `ranked`.
    placed: Vec<Entry>,
    /// Number of stale entries in `placed`.
    void: usize,
    ranked: bool,
    /// The reference moment of the keys, if all keys change alike: a [`reference`](reference()).
    /// With a new moment at each decision, rounding would differ and nearly equal keys would keep
    /// an arbitrary order. `None` if keys do not change alike: they are then recomputed at each
    /// decision.
    keyed_at: Option<Time>,
    /// True if the keys of running jobs change alike: their order then stays the same. See
    /// [`JobQueue::keys_advance_together`](super::JobQueue::keys_advance_together).
    pub(super) alike: bool,
    /// Placed jobs that were touched since the ranking; each has its mark.
    fresh: Vec<JobId>,
    /// Placed jobs that were not running at the ranking: their keys do not change.
    unsteady: Vec<JobId>,
    /// Buffer of the last ranking.
    newcomers: Vec<Entry>,
    /// Number of times that the order was made anew.
    made: u32,
    /// Jobs promoted in this decision; the view does not show that yet.
    promoted_now: Vec<JobId>,
    /// True if a key of this decision, or the change of a key, is NaN.
    lacks_number: bool,
}

impl Kept {
    /// Creates an empty order by a key.
    pub(super) fn new(key: &KeyFn) -> Self {
        Kept {
            key: Arc::clone(key),
            decision: u64::MAX,
            queue: KeptQueue::default(),
            aging: None,
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
            made: 0,
            promoted_now: Vec::new(),
            lacks_number: false,
        }
    }

    /// Applies all changes since the last decision. `rate` is the change of keys of waiting jobs, if
    /// they change.
    pub(super) fn sync(&mut self, view: View<'_>, key: &KeyFn, rate: Option<&RateFn>) {
        let same_rate = match (&self.aging, rate) {
            (None, None) => true,
            (Some(aging), Some(rate)) => Arc::ptr_eq(&aging.0, rate),
            _ => false,
        };
        if !same_rate {
            self.aging = rate.map(|rate| Box::new((Arc::clone(rate), Aging::default())));
        }
        let same_key = same_rate && Arc::ptr_eq(&self.key, key);
        if !same_key {
            self.key = Arc::clone(key);
            self.alike = false;
        }
        self.ranked = false;
        self.lacks_number = false;
        let promoted_before = std::mem::take(&mut self.promoted_now);
        if same_key && self.decision.wrapping_add(1) == view.decision() {
            let mut rekeyed = false;
            for id in view.touched_ids() {
                match view.job(id).filter(|j| j.phase() != Phase::Ended) {
                    Some(job) => {
                        let queued =
                            job.phase() == Phase::Waiting && self.marks.has(id, Marks::QUEUED);
                        if queued && promoted_before.binary_search(&id).is_ok() {
                            // The job was promoted. It may also have run in between and have
                            // another key than in the queue.
                            self.forget_queued(id);
                        } else {
                            // A waiting job reported something, so its key may have changed.
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
            let aging = self.aging.as_ref().map_or(0, |aging| aging.1.len());
            let stale = aging > 64 + 2 * self.queued_count as usize;
            let settled = counts && !rekeyed && !stale && self.queue.has_numbers();
            if self.fresh.len() > 64 + 2 * view.placed_count() as usize {
                // If no candidate needs a victim, the placed jobs are never ranked and the list
                // would grow.
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
                self.return_drawn(view);
                return;
            }
        }
        self.rebuild(view);
    }

    /// Moves jobs promoted in this decision before all jobs that are not promoted. Promotions that
    /// the view shows, or that the order already has, have no effect.
    pub(super) fn promote(&mut self, view: View<'_>, jobs: &[JobId]) {
        for &id in jobs {
            let Some(job) = view.job(id).filter(|job| !job.promoted()) else {
                continue;
            };
            if let Err(at) = self.promoted_now.binary_search(&id) {
                self.promoted_now.insert(at, id);
                // The old entry stays in the queue and is dropped when its turn comes.
                self.forget_queued(id);
                self.add(&job);
                self.ranked = false;
            }
        }
        self.return_drawn(view);
    }

    /// Returns placed and waiting jobs in order. A job may occur twice.
    pub(super) fn in_order(&mut self, view: View<'_>) -> Vec<JobId> {
        self.rank(view);
        self.return_drawn(view);
        let mut all: Vec<Entry> = self.queue.in_order().copied().collect();
        if let Some(aging) = &self.aging {
            let entry = |p: &Player| Some(self.entry(&view.job(p.job)?).with_stamp(p.stamp));
            all.extend(aging.1.iter().filter_map(entry));
        }
        // The queue may still contain entries of earlier keys and phases.
        all.retain(|e| self.marks.counts(e, Marks::QUEUED));
        let placed = self.placed.iter().filter(|e| self.is_ranked(e));
        all.extend(placed.map(|e| self.as_of(view, *e, view.now())));
        all.sort_unstable();
        all.into_iter().map(|e| e.job()).collect()
    }

    /// Returns whether a key of the decision in view, or the change of a key, is NaN.
    #[inline]
    pub(super) fn lacks_number(&self, view: View<'_>) -> bool {
        self.lacks_number && self.decision == view.decision()
    }

    /// Returns a job whose key, or change of the key, is NaN.
    pub(super) fn without_number(&self, view: View<'_>) -> Option<JobId> {
        let rate = |job: &JobRef<'_>| self.aging.as_ref().map_or(0.0, |aging| (aging.0)(job));
        let is_nan = |job: &JobRef<'_>| !(self.key)(job).is_a_number() || rate(job).is_nan();
        let mut jobs = view.waiting().chain(view.placed());
        jobs.find(is_nan).map(|job| job.id())
    }

    /// Checks what the policy states about keys, after a decision.
    pub(super) fn check(&self, view: View<'_>) -> Result<(), StatementError> {
        match &self.aging {
            None => self.check_constant(view)?,
            Some(aging) => self.check_rates(view, &aging.1)?,
        }
        match self.alike {
            true => self.check_together(view),
            false => Ok(()),
        }
    }

    fn check_constant(&self, view: View<'_>) -> Result<(), StatementError> {
        let changed = |entry: &&Entry| {
            let job = view.job(entry.job()).filter(|_| self.is_queued(entry));
            job.is_some_and(|job| self.entry(&job).with_stamp(entry.stamp()) != **entry)
        };
        match self.queue.iter().find(changed) {
            Some(entry) => Err(StatementError::Constant(entry.job())),
            None => Ok(()),
        }
    }

    fn check_rates(&self, view: View<'_>, aging: &Aging) -> Result<(), StatementError> {
        for player in aging.iter() {
            let Some(job) = view.job(player.job) else {
                continue;
            };
            let entry = self.entry(&job).with_stamp(player.stamp);
            if self.is_queued(&entry)
                && let Some((expected, found)) = player.deviation(&entry, view.now())
            {
                return Err(StatementError::Rate {
                    job: player.job,
                    expected,
                    found,
                });
            }
        }
        Ok(())
    }

    /// Compares the order of running jobs with their order at the reference moment.
    fn check_together(&self, view: View<'_>) -> Result<(), StatementError> {
        let placed = || view.placed().filter(JobRef::is_placed);
        if placed().any(|job| job.phase() != Phase::Running) {
            return Ok(());
        }
        let then = reference(view.now());
        let mut all: Vec<_> = placed().map(|job| (self.entry(&job), job)).collect();
        all.sort_unstable_by_key(|(entry, _)| *entry);
        for pair in all.windows(2) {
            let jobs @ [a, b] = [&pair[0].1, &pair[1].1];
            let now = jobs.map(|job| self.key_of(job));
            let later = jobs.map(|job| self.key_of(&job.at(then)));
            if now[0].is_clearly_before(&now[1]) && later[1].is_clearly_before(&later[0]) {
                return Err(StatementError::Together(a.id(), b.id()));
            }
        }
        Ok(())
    }

    /// Returns true if an entry of the queue is valid.
    #[inline]
    pub(in crate::policy) fn is_queued(&self, entry: &Entry) -> bool {
        self.marks.counts(entry, Marks::QUEUED)
    }

    /// Returns true if a job is in the queue, or was removed from it and still counts as queued.
    #[inline]
    pub(in crate::policy) fn counts_as_queued(&self, job: JobId) -> bool {
        self.marks.has(job, Marks::QUEUED)
    }

    /// Prefetches the data of later entries of the queue, and returns the job of one of them.
    #[inline]
    pub(in crate::policy) fn fetch_ahead(&self, view: View<'_>) -> Option<JobId> {
        if let Some(later) = self.queue.ahead(3) {
            view.fetch_ahead(later.job());
        }
        let later = self.queue.ahead(6)?;
        prefetch_index(&self.marks.0, later.job().index());
        Some(later.job())
    }

    /// Sorts the placed jobs, if necessary, and returns the number of their entries.
    #[inline]
    pub(in crate::policy) fn ranked(&mut self, view: View<'_>) -> usize {
        self.rank(view);
        self.placed.len()
    }

    /// Returns an entry of the ranked placed jobs, with its present key, and the job if it is in
    /// view. Returns `None` if the entry is stale.
    #[inline(always)]
    pub(in crate::policy) fn placed_at<'a>(
        &self,
        at: usize,
        view: View<'a>,
    ) -> Option<(Entry, Option<JobRef<'a>>)> {
        let entry = *self.placed.get(at)?;
        if !self.is_ranked(&entry) {
            return None;
        }
        let job = view.job(entry.job());
        Some(match (self.keyed_at, &job) {
            (Some(_), Some(job)) => (self.entry(job), Some(*job)),
            _ => (entry, job),
        })
    }

    /// Moves the next jobs into the empty queue, if keys of waiting jobs change. Returns whether
    /// there are any.
    #[inline]
    pub(in crate::policy) fn draw(&mut self, view: View<'_>) -> bool {
        self.aging.is_some() && self.draw_some(view)
    }

    #[cold]
    fn draw_some(&mut self, view: View<'_>) -> bool {
        /// Most decisions end within as many jobs.
        const DRAWN: usize = 8;
        let Some(mut aging) = self.aging.take() else {
            return false;
        };
        let entry = |p: &Player| Some(self.entry(&view.job(p.job)?));
        let drawn = std::iter::from_fn(|| aging.1.pop(view.now(), &entry));
        let drawn: SmallVec<[Entry; DRAWN]> = drawn.take(DRAWN).collect();
        self.aging = Some(aging);
        self.lacks_number |= !drawn.iter().all(Entry::is_a_number);
        for entry in drawn.iter().rev() {
            self.queue.push(*entry);
        }
        !drawn.is_empty()
    }

    /// Moves the jobs of the queue to the others, if keys of waiting jobs change.
    #[inline]
    pub(in crate::policy) fn return_drawn(&mut self, view: View<'_>) {
        if self.aging.is_some() {
            self.return_all(view);
        }
    }

    #[cold]
    fn return_all(&mut self, view: View<'_>) {
        let Some(mut aging) = self.aging.take() else {
            return;
        };
        let mut drawn = Vec::new();
        while let Some(entry) = self.queue.pop() {
            if self.is_queued(&entry)
                && let Some(job) = view.job(entry.job())
            {
                drawn.push(Player::of(&job, entry, &aging.0, view.now()));
            }
        }
        self.lacks_number |= !drawn.iter().all(|p| p.has_numbers);
        let entry = |p: &Player| Some(self.entry(&view.job(p.job)?));
        aging.1.insert(drawn, view.now(), &entry);
        self.aging = Some(aging);
    }

    /// Drops stale entries if they outnumber the live ones.
    pub(in crate::policy) fn tidy(&mut self) {
        if self.queue.len() > 64 + 2 * self.queued_count as usize {
            let marks = &self.marks;
            self.queue.retain(|e| marks.counts(e, Marks::QUEUED));
        }
    }

    /// Marks a job's entry in the queue as stale, if it has one.
    pub(in crate::policy) fn forget_queued(&mut self, id: JobId) {
        if self.marks.has(id, Marks::QUEUED) {
            self.marks.drop(id, Marks::QUEUED);
            self.queued_count -= 1;
        }
    }

    /// Returns how many times the order was made anew. Entries taken from an earlier one are void.
    #[inline]
    pub(in crate::policy) fn made(&self) -> u32 {
        self.made
    }
}

impl Kept {
    fn rebuild(&mut self, view: View<'_>) {
        self.queued_count = 0;
        self.marks.0.clear();
        self.placed.clear();
        self.void = 0;
        self.fresh.clear();
        self.unsteady.clear();
        self.made = self.made.wrapping_add(1);
        self.decision = view.decision();
        let mut waiting = Vec::new();
        for job in view.waiting() {
            let entry = self.entry(&job);
            waiting.push(self.marks.stamp(entry, Marks::QUEUED));
            self.queued_count += 1;
        }
        self.lacks_number = !waiting.iter().all(Entry::is_a_number);
        match self.aging.take() {
            None => self.queue.fill(waiting),
            Some(mut aging) => {
                self.queue.fill(Vec::new());
                let player = |e: &Entry| {
                    let job = view.job(e.job())?;
                    Some(Player::of(&job, *e, &aging.0, view.now()))
                };
                let players: Vec<Player> = waiting.iter().filter_map(player).collect();
                self.lacks_number |= !players.iter().all(|p| p.has_numbers);
                let entry = |p: &Player| Some(self.entry(&view.job(p.job)?));
                aging.1.fill(players, view.now(), &entry);
                self.aging = Some(aging);
            }
        }
        for job in view.placed() {
            self.add(&job);
        }
    }

    #[inline]
    fn entry(&self, job: &JobRef<'_>) -> Entry {
        Entry::new(self.key_of(job), job.id())
    }

    #[inline]
    fn key_of(&self, job: &JobRef<'_>) -> SortKey {
        let key = (self.key)(job);
        let now = |all: &[JobId]| !all.is_empty() && all.binary_search(&job.id()).is_ok();
        match job.promoted() || now(&self.promoted_now) {
            true => key.first_of_all(),
            false => key,
        }
    }

    /// Adds or updates a touched job.
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

    /// Marks the job's entry as stale, if it has one. It is dropped when the placed jobs are
    /// ranked.
    fn forget_placed(&mut self, id: JobId) {
        self.void += usize::from(self.marks.has(id, Marks::RANKED));
        self.marks.drop(id, Marks::PLACED | Marks::RANKED);
    }

    /// Drops jobs that are no longer placed and sorts the others.
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
        // Stopped jobs were the last ones. Jobs that ended may be anywhere.
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
                let key = self.as_of(view, *entry, view.now());
                *entry = key.with_stamp(entry.stamp());
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
            // Nearly sorted from the last time, so the adaptive sort is the fast one.
            placed.sort();
            self.placed = placed;
        }
        newcomers.sort_unstable();
        self.merge(&mut newcomers);
        self.newcomers = newcomers;
        // A key that is NaN is the last one.
        self.lacks_number |= self.placed.last().is_some_and(|e| !e.is_a_number());
    }

    /// Merges newcomers, in ascending order, into the placed jobs.
    fn merge(&mut self, newcomers: &mut Vec<Entry>) {
        let placed = &mut self.placed;
        let mut rest = placed.len();
        placed.extend_from_slice(newcomers);
        // From the last to the first, so that each entry is moved once.
        while rest > 0 {
            let Some(new) = newcomers.pop() else { return };
            let at = rank_from_end(&placed[..rest], &new);
            if at < rest {
                placed.copy_within(at..rest, at + newcomers.len() + 1);
            }
            placed[at + newcomers.len()] = new;
            rest = at;
        }
        placed[..newcomers.len()].copy_from_slice(newcomers);
        newcomers.clear();
    }

    /// Returns whether an entry of the placed jobs is valid.
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
    fn as_of(&self, view: View<'_>, entry: Entry, at: Time) -> Entry {
        let job = view.job(entry.job());
        job.map_or(entry, |job| self.entry(&job.at(at)))
    }
}

/// Returns the number of entries, in ascending order, that come before another. It is found fastest
/// near the end.
#[inline]
fn rank_from_end(entries: &[Entry], new: &Entry) -> usize {
    let (mut end, mut step) = (entries.len(), 1);
    while end > 0 {
        let start = end.saturating_sub(step);
        if entries[start] < *new {
            return start + 1 + entries[start + 1..end].partition_point(|e| e < new);
        }
        (end, step) = (start, 2 * step);
    }
    0
}

/// Returns a moment, not before `now`, that stays the same for long: the next power of two of
/// seconds.
fn reference(now: Time) -> Time {
    let mut next = 1.0;
    while next < now.secs() {
        next *= 2.0;
    }
    Time::new(next)
}

/// Marks of each job in a kept order, and the stamp of its valid queue entry.
#[derive(Clone, Default)]
struct Marks(Vec<u32>);

impl Marks {
    /// The job has a valid entry in the queue.
    const QUEUED: u32 = 1;
    /// The job is placed.
    const PLACED: u32 = 2;
    /// The job has a valid entry among the placed jobs.
    const RANKED: u32 = 4;
    /// The job waits to be ranked.
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

    /// Stamps a new entry of a job, in the queue or among the placed jobs. All earlier entries
    /// become stale.
    #[inline]
    fn stamp(&mut self, entry: Entry, mark: u32) -> Entry {
        let marks = self.of(entry.job());
        *marks = marks.wrapping_add(Marks::STAMP) | mark;
        entry.with_stamp(*marks / Marks::STAMP)
    }

    /// Returns whether an entry is valid, not left over from an earlier key or phase.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_from_the_end_equals_binary_search() {
        let entry = |i: u32| Entry::new(SortKey::by(f64::from(i / 3)), JobId(i));
        for len in 0..40 {
            let entries: Vec<Entry> = (0..len).map(|i| entry(2 * i)).collect();
            for i in 0..2 * len + 2 {
                let new = entry(i);
                let expected = entries.partition_point(|e| *e < new);
                assert_eq!(rank_from_end(&entries, &new), expected, "{i} of {len}");
            }
        }
    }
}
