//! What a scheduling policy asks for: jobs in order of importance, each with
//! the shapes that would do.

use crate::assignment::BatchConfig;
use crate::draft::Draft;
use crate::ids::{GpuTypeId, JobId, NodeId};
use crate::job::{JobRef, Phase};
use crate::order::{Entry, KeptQueue};
use crate::policy::KeyFn;
use crate::reason::Reason;
use crate::units::GpuCount;
use crate::view::View;
use fixedbitset::FixedBitSet;
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// Where a shape should lie.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Place {
    /// Where the placement policy likes.
    #[default]
    Any,
    /// On as few nodes as possible.
    Consolidated,
    /// As near to another job as possible.
    Near(JobId),
    /// So many GPUs on each of these nodes.
    Nodes(Vec<(NodeId, u32)>),
    /// On the very GPUs of another job, beside it.
    ShareWith(JobId),
}

/// One way to run a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shape {
    /// GPUs.
    pub gpus: GpuCount,
    /// Their type; `None` for any one type that the job may run on.
    pub gpu_type: Option<GpuTypeId>,
    /// CPU cores for all GPUs together; 0 where nobody counts.
    pub cpus: f64,
    /// Memory in GiB for all GPUs together; 0 where nobody counts.
    pub memory_gib: f64,
    /// Batch; `None` leaves it to the job.
    pub config: Option<BatchConfig>,
    /// Where.
    pub place: Place,
}

impl Shape {
    /// So many GPUs, anywhere.
    pub fn gpus(gpus: GpuCount) -> Self {
        Shape {
            gpus,
            ..Shape::default()
        }
    }
}

/// A job that should run, or a pair of jobs on the same GPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The job.
    pub job: JobId,
    /// The job that should run beside it on the very same GPUs.
    pub partner: Option<JobId>,
    /// The shapes that would do, best first; tried in order.
    pub shapes: SmallVec<[Shape; 1]>,
}

impl Request {
    /// The job with all the GPUs that it asked for, and its CPUs and memory.
    #[inline]
    pub fn gang(job: &JobRef<'_>) -> Self {
        let mut shape = Shape::gpus(job.gpus());
        if let Some(extras) = &job.spec().extras {
            shape.cpus = extras.cpus;
            shape.memory_gib = extras.memory_gib;
        }
        Request {
            job: job.id(),
            partner: None,
            shapes: smallvec![shape],
        }
    }

    /// The job in one shape.
    pub fn with_shape(job: JobId, shape: Shape) -> Self {
        Request {
            job,
            partner: None,
            shapes: smallvec![shape],
        }
    }

    /// With a partner on the same GPUs.
    #[must_use]
    pub fn beside(mut self, partner: JobId) -> Self {
        self.partner = Some(partner);
        self
    }
}

/// What a running job means that no request names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unlisted {
    /// It goes on.
    #[default]
    Keep,
    /// It is stopped.
    Preempt,
}

/// A scheduling policy's answer: either an explicit list, or an order kept from
/// decision to decision (see [`Requests::keep`]).
///
/// A placement policy takes jobs off it with [`Requests::next_candidate`], or
/// walks [`Requests::list`].
#[derive(Clone, Default)]
pub struct Requests {
    list: Vec<Request>,
    kept: Option<Kept>,
    use_kept: bool,
    unlisted: Unlisted,
    preemptive: bool,
    promoted: Vec<JobId>,
    finished: Vec<(JobId, Reason)>,
    // The walk through a list.
    cursor: usize,
    back: usize,
    back_mark: usize,
}

#[derive(Clone)]
struct Kept {
    key: KeyFn,
    /// The decision for which it is right.
    decision: u64,
    queue: KeptQueue,
    queued: FixedBitSet,
    queued_count: u32,
    /// Placed jobs in ascending order of their keys, once `ranked`. Where keys
    /// move alike, the keys in it are old, and only their order counts.
    placed: Vec<Entry>,
    is_placed: FixedBitSet,
    /// The jobs whose entry in `placed` counts.
    is_ranked: FixedBitSet,
    ranked: bool,
    /// Whether the keys of running jobs move alike: their order then stands.
    alike: bool,
    /// Placed jobs that were touched since the ranking; each has its bit.
    fresh: Vec<JobId>,
    is_fresh: FixedBitSet,
    /// Placed jobs that were not running at the ranking: their keys stand still.
    unsteady: Vec<JobId>,
    /// Memory of the last ranking.
    newcomers: Vec<Entry>,
    // The walk.
    candidate: Option<Entry>,
    passed: Vec<Entry>,
    /// Victims of this walk that still have to be placed again, first at the end.
    again: std::collections::BinaryHeap<std::cmp::Reverse<Entry>>,
    taken: Vec<Entry>,
    /// Victims given back, which can be victims again.
    spared: Vec<Entry>,
    back: usize,
    /// Promoted in this decision: the view does not show it yet.
    promoted_now: Vec<JobId>,
}

impl Requests {
    /// Adds a request after all others.
    pub fn push(&mut self, request: Request) {
        self.list.push(request);
    }

    /// All jobs in view, in ascending order of a key, each as the gang that it
    /// asked for.
    ///
    /// The key must not change while a job just waits: waiting jobs are kept in
    /// order from decision to decision, and only those that were touched are
    /// looked at again. Promoted jobs come before all others.
    pub fn keep(&mut self, view: View<'_>, key: &KeyFn) {
        self.use_kept = true;
        // Jobs promoted just now count as promoted.
        let promoted = std::mem::take(&mut self.promoted);
        let kept = self.kept.get_or_insert_with(|| Kept::new(key));
        kept.sync(view, key, &promoted);
        self.promoted = promoted;
    }

    /// Promises, about the order that is kept, that the keys of all running jobs
    /// change by the same amount as time goes by, so that their order stands.
    pub fn keys_move_alike(&mut self) {
        if let Some(kept) = &mut self.kept {
            kept.alike = true;
        }
    }

    /// A running job may be stopped for one that comes before it.
    pub fn allow_preemption(&mut self) {
        self.preemptive = true;
    }

    /// Whether a running job may be stopped for one that comes before it.
    pub fn preemption_allowed(&self) -> bool {
        self.preemptive
    }

    /// Running jobs that no request names are stopped.
    pub fn stop_unlisted(&mut self) {
        self.unlisted = Unlisted::Preempt;
    }

    /// What a running job means that no request names.
    pub fn unlisted(&self) -> Unlisted {
        self.unlisted
    }

    /// From now on the job comes before all that are not promoted. Call it
    /// before [`Requests::keep`] for it to count in this decision.
    pub fn promote(&mut self, job: JobId) {
        self.promoted.push(job);
    }

    /// The job has reached its goal: it ends as complete.
    pub fn finish(&mut self, job: JobId, why: Reason) {
        self.finished.push((job, why));
    }

    /// The explicit requests, most important first; empty when an order is kept.
    pub fn list(&self) -> &[Request] {
        &self.list
    }

    /// The jobs in order, placed and waiting ones alike, of a list or of a kept order.
    pub fn in_order(&mut self, view: View<'_>) -> Vec<JobId> {
        if !self.use_kept {
            return self.list.iter().map(|r| r.job).collect();
        }
        let Some(kept) = &mut self.kept else {
            return Vec::new();
        };
        kept.rank(view);
        let mut all: Vec<Entry> = kept.queue.in_order().copied().collect();
        // Entries of earlier keys and phases may still lie in the queue.
        all.retain(|e| kept.is_current(view, e));
        all.extend(kept.placed.iter().map(|e| kept.as_of_now(view, *e)));
        all.sort_unstable();
        let mut seen = FixedBitSet::new();
        all.into_iter()
            .map(|e| e.job)
            .filter(|job| {
                let new = !seen.contains(job.index());
                seen.grow_and_insert(job.index());
                new
            })
            .collect()
    }

    /// The next job in order that has no GPUs in the draft. Answer with
    /// [`Requests::candidate_placed`] or [`Requests::candidate_blocked`] before
    /// asking for the next.
    pub fn next_candidate(&mut self, draft: &Draft<'_>) -> Option<Request> {
        if !self.use_kept {
            while let Some(r) = self.list.get(self.cursor) {
                self.cursor += 1;
                let here = draft.may_place(r.job);
                if here && draft.current(r.job).is_none() {
                    return Some(r.clone());
                }
            }
            return None;
        }
        self.kept.as_mut()?.next_candidate(draft)
    }

    /// The last job in order that has GPUs in the draft and comes after the
    /// candidate: who goes first if the candidate needs room. Each job once a
    /// candidate; `None` if no more, or if this order does not preempt.
    pub fn next_victim(&mut self, draft: &Draft<'_>) -> Option<JobId> {
        if !self.preemptive {
            return None;
        }
        if !self.use_kept {
            while self.back > self.cursor {
                self.back -= 1;
                let job = self.list[self.back].job;
                if draft.current(job).is_some() {
                    return Some(job);
                }
            }
            return None;
        }
        self.kept.as_mut()?.next_victim(draft)
    }

    /// The candidate has its GPUs. Victims that the draft released since become
    /// candidates in their turn; those that it has again can be victims again.
    pub fn candidate_placed(&mut self, draft: &Draft<'_>) {
        if self.use_kept {
            if let Some(kept) = &mut self.kept {
                kept.settle(draft, true);
            }
        } else {
            // A victim that was given back lies behind the mark: look again.
            self.back = if self.any_spared(draft) {
                self.back_mark
            } else {
                self.back
            };
            self.back_mark = self.back;
        }
    }

    /// The candidate could not be placed. Its victims, if the draft has them
    /// again, can be victims again.
    pub fn candidate_blocked(&mut self, draft: &Draft<'_>) {
        if self.use_kept {
            if let Some(kept) = &mut self.kept {
                kept.settle(draft, false);
            }
        } else {
            self.back = self.back_mark;
        }
    }

    pub(crate) fn begin(&mut self) {
        self.list.clear();
        self.use_kept = false;
        self.unlisted = Unlisted::Keep;
        self.preemptive = false;
        self.promoted.clear();
        self.finished.clear();
    }

    pub(crate) fn start_walk(&mut self) {
        self.cursor = 0;
        self.back = self.list.len();
        self.back_mark = self.back;
    }

    /// Puts candidates that were passed over back where they were.
    pub(crate) fn end_walk(&mut self, view: View<'_>) {
        if let Some(kept) = &mut self.kept {
            kept.end_walk(view);
        }
    }

    pub(crate) fn promotions(&self) -> &[JobId] {
        &self.promoted
    }

    pub(crate) fn finishes(&self) -> &[(JobId, Reason)] {
        &self.finished
    }

    /// Placed jobs that an explicit list does not name.
    pub(crate) fn unlisted_jobs<'a>(&self, view: View<'a>) -> Vec<JobId> {
        if self.use_kept {
            // A kept order names all jobs.
            return Vec::new();
        }
        let mut named = FixedBitSet::with_capacity(view.state().next_job_id().index());
        for job in self.list.iter().flat_map(|r| [Some(r.job), r.partner]) {
            // Numbers that were never given are the placement's to find.
            if let Some(job) = job.filter(|j| j.index() < named.len()) {
                named.insert(job.index());
            }
        }
        view.placed()
            .filter(|j| j.is_placed() && !named.contains(j.id().index()))
            .map(|j| j.id())
            .collect()
    }

    fn any_spared(&self, draft: &Draft<'_>) -> bool {
        self.list[self.back.min(self.back_mark)..self.back_mark]
            .iter()
            .any(|r| draft.current(r.job).is_some())
    }
}

impl Kept {
    fn new(key: &KeyFn) -> Self {
        Kept {
            key: Arc::clone(key),
            decision: u64::MAX,
            queue: KeptQueue::default(),
            queued: FixedBitSet::new(),
            queued_count: 0,
            placed: Vec::new(),
            is_placed: FixedBitSet::new(),
            is_ranked: FixedBitSet::new(),
            ranked: false,
            alike: false,
            fresh: Vec::new(),
            is_fresh: FixedBitSet::new(),
            unsteady: Vec::new(),
            newcomers: Vec::new(),
            candidate: None,
            passed: Vec::new(),
            again: Default::default(),
            taken: Vec::new(),
            spared: Vec::new(),
            back: 0,
            promoted_now: Vec::new(),
        }
    }

    fn sync(&mut self, view: View<'_>, key: &KeyFn, promoted: &[JobId]) {
        let same_key = Arc::ptr_eq(&self.key, key);
        if !same_key {
            self.key = Arc::clone(key);
            self.alike = false;
        }
        self.ranked = false;
        let promoted_before = std::mem::take(&mut self.promoted_now);
        let fresh = |id: &&JobId| view.job(**id).is_some_and(|j| !j.promoted());
        self.promoted_now.extend(promoted.iter().filter(fresh));
        self.promoted_now.sort_unstable();
        if same_key && self.decision.wrapping_add(1) == view.decision() {
            let mut rekeyed = false;
            for &id in &view.state().touched {
                match view.job(id).filter(|j| j.phase() != Phase::Ended) {
                    Some(job) => {
                        // Something was reported of a waiting job: its key may be another.
                        rekeyed |= job.phase() == Phase::Waiting
                            && self.queued.contains(id.index())
                            && promoted_before.binary_search(&id).is_err();
                        self.add(&job);
                    }
                    None => {
                        self.forget_queued(id);
                        self.forget_placed(id);
                    }
                }
            }
            for i in 0..self.promoted_now.len() {
                if let Some(job) = view.job(self.promoted_now[i]) {
                    // The old entry stays behind; it is dropped when it comes up.
                    self.forget_queued(job.id());
                    self.add(&job);
                }
            }
            let expected = view.waiting_count();
            let counts = view.virtual_cluster().is_some() || self.queued_count == expected;
            let settled = counts && !rekeyed;
            if self.fresh.len() > 64 + 2 * view.placed_count() as usize {
                // An order that never needs a victim never ranks.
                let (is_placed, is_fresh) = (&self.is_placed, &mut self.is_fresh);
                self.fresh.retain(|id| {
                    let stays = is_placed.contains(id.index());
                    is_fresh.set(id.index(), stays);
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

    fn rebuild(&mut self, view: View<'_>) {
        self.queue.clear();
        self.queued.clear();
        self.queued_count = 0;
        self.placed.clear();
        self.is_placed.clear();
        self.is_ranked.clear();
        self.fresh.clear();
        self.is_fresh.clear();
        self.unsteady.clear();
        // A walk that a panic cut short leaves these behind.
        self.passed.clear();
        self.end_walk(view);
        self.decision = view.decision();
        let mut waiting = Vec::new();
        for job in view.waiting() {
            waiting.push(self.entry(&job));
            self.queued.grow_and_insert(job.id().index());
            self.queued_count += 1;
        }
        self.queue.fill(waiting.into_iter());
        for job in view.placed() {
            self.add(&job);
        }
    }

    #[inline]
    fn is_promoted(&self, job: &JobRef<'_>) -> bool {
        job.promoted() || self.promoted_now.binary_search(&job.id()).is_ok()
    }

    #[inline]
    fn entry(&self, job: &JobRef<'_>) -> Entry {
        let key = (self.key)(job);
        Entry {
            key: if self.is_promoted(job) {
                key.first_of_all()
            } else {
                key
            },
            job: job.id(),
        }
    }

    /// Takes note of a job that was touched.
    fn add(&mut self, job: &JobRef<'_>) {
        let i = job.id().index();
        match job.phase() {
            Phase::Waiting => {
                if !self.queued.contains(i) {
                    let entry = self.entry(job);
                    self.queue.push(entry);
                    self.queued.grow_and_insert(i);
                    self.queued_count += 1;
                }
            }
            Phase::Starting | Phase::Running | Phase::Stopping => {
                self.forget_queued(job.id());
                if job.is_placed() {
                    self.is_placed.grow_and_insert(i);
                    self.freshen(job.id());
                    return;
                }
            }
            _ => self.forget_queued(job.id()),
        }
        self.forget_placed(job.id());
    }

    fn freshen(&mut self, id: JobId) {
        if !self.is_fresh.contains(id.index()) {
            self.unrank(id);
            self.is_fresh.grow_and_insert(id.index());
            self.fresh.push(id);
        }
    }

    /// Its entry, if it has one, is dropped when the placed jobs are ranked.
    fn forget_placed(&mut self, id: JobId) {
        if self.is_placed.contains(id.index()) {
            self.is_placed.set(id.index(), false);
            self.unrank(id);
        }
    }

    fn unrank(&mut self, id: JobId) {
        if self.is_ranked.contains(id.index()) {
            self.is_ranked.set(id.index(), false);
        }
    }

    fn forget_queued(&mut self, id: JobId) {
        if self.queued.contains(id.index()) {
            self.queued.set(id.index(), false);
            self.queued_count -= 1;
        }
    }

    /// Drops jobs that are placed no more and puts the others in order.
    fn rank(&mut self, view: View<'_>) {
        if self.ranked {
            return;
        }
        self.ranked = true;
        while let Some(id) = self.unsteady.pop() {
            self.freshen(id);
        }
        let is_ranked = &self.is_ranked;
        self.placed.retain(|e| is_ranked.contains(e.job.index()));
        let mut newcomers = std::mem::take(&mut self.newcomers);
        while let Some(id) = self.fresh.pop() {
            self.is_fresh.set(id.index(), false);
            let placed = self.is_placed.contains(id.index());
            if let Some(job) = view.job(id).filter(|_| placed) {
                newcomers.push(self.entry(&job));
                self.is_ranked.grow_and_insert(id.index());
                if job.phase() != Phase::Running {
                    self.unsteady.push(id);
                }
            }
        }
        if self.alike && newcomers.len() < self.placed.len() {
            newcomers.sort_unstable();
            let mut from = 0;
            for new in newcomers.drain(..) {
                from = self.place_of(view, &new, from);
                self.placed.insert(from, new);
            }
        } else {
            self.placed.append(&mut newcomers);
            let mut placed = std::mem::take(&mut self.placed);
            for entry in &mut placed {
                *entry = self.as_of_now(view, *entry);
            }
            // Nearly sorted from the last time: the adaptive sort is the fast one.
            placed.sort();
            self.placed = placed;
        }
        self.newcomers = newcomers;
        self.back = self.placed.len();
    }

    /// Where an entry belongs among the placed jobs, by their keys now; not before `from`.
    fn place_of(&self, view: View<'_>, new: &Entry, from: usize) -> usize {
        let before = |e: &Entry| self.as_of_now(view, *e) < *new;
        let rest = &self.placed[from..];
        // Newcomers lie close together, and often before all others.
        let mut step = 1;
        while step <= rest.len() && before(&rest[step - 1]) {
            step *= 2;
        }
        let (low, high) = (step / 2, (step - 1).min(rest.len()));
        from + low + rest[low..high].partition_point(before)
    }

    #[inline]
    fn as_of_now(&self, view: View<'_>, entry: Entry) -> Entry {
        view.job(entry.job).map_or(entry, |job| self.entry(&job))
    }

    fn next_candidate(&mut self, draft: &Draft<'_>) -> Option<Request> {
        loop {
            let again = self.again.peek().map(|r| r.0);
            let entry = match (self.queue.peek().copied(), again) {
                (Some(q), Some(a)) if a < q => self.again.pop().map(|r| r.0)?,
                (None, Some(_)) => self.again.pop().map(|r| r.0)?,
                (Some(_), _) => {
                    let entry = self.queue.pop()?;
                    // Held and released since it came in, a job has two entries;
                    // they are neighbours, and one chance is enough.
                    let twice = self.passed.last() == Some(&entry);
                    if twice || !self.is_current(draft.view(), &entry) {
                        continue;
                    }
                    entry
                }
                (None, None) => return None,
            };
            let job = draft.view().job(entry.job)?;
            if draft.current(entry.job).is_some() {
                // Placed meanwhile as another's partner.
                self.forget_queued(entry.job);
                continue;
            }
            self.candidate = Some(entry);
            return Some(Request::gang(&job));
        }
    }

    /// Whether a queued entry is not left over from an earlier key or phase.
    fn is_current(&self, view: View<'_>, entry: &Entry) -> bool {
        self.queued.contains(entry.job.index())
            && view
                .job(entry.job)
                .is_some_and(|job| job.phase() == Phase::Waiting && *entry == self.entry(&job))
    }

    fn next_victim(&mut self, draft: &Draft<'_>) -> Option<JobId> {
        let candidate = self.candidate?;
        self.rank(draft.view());
        loop {
            let entry = match self.spared.last() {
                Some(&e) => {
                    self.spared.pop();
                    e
                }
                None if self.back > 0 => {
                    self.back -= 1;
                    self.as_of_now(draft.view(), self.placed[self.back])
                }
                None => return None,
            };
            if entry < candidate {
                // Not a victim for this candidate, and later ones come later still.
                self.spared.push(entry);
                return None;
            }
            if draft.current(entry.job).is_some() {
                self.taken.push(entry);
                return Some(entry.job);
            }
        }
    }

    fn settle(&mut self, draft: &Draft<'_>, placed: bool) {
        while let Some(entry) = self.taken.pop() {
            if draft.current(entry.job).is_some() {
                self.spared.push(entry);
            } else {
                self.again.push(std::cmp::Reverse(entry));
            }
        }
        self.spared.sort_unstable();
        if let Some(entry) = self.candidate.take() {
            if placed {
                self.forget_queued(entry.job);
            } else if self.queued.contains(entry.job.index()) {
                self.passed.push(entry);
            }
        }
    }

    fn end_walk(&mut self, view: View<'_>) {
        self.candidate = None;
        self.again.clear();
        self.taken.clear();
        self.spared.clear();
        // Passed over in ascending order: from the last, each is the new first.
        while let Some(entry) = self.passed.pop() {
            self.queue.push(entry);
        }
        // Stale entries must not outgrow the live ones.
        if self.queue.len() > 64 + 2 * self.queued_count as usize {
            let mut queue = std::mem::take(&mut self.queue);
            let mut seen = FixedBitSet::with_capacity(self.queued.len());
            queue.retain(|e| self.is_current(view, e) && !seen.put(e.job.index()));
            self.queue = queue;
        }
    }
}
