//! What a scheduling policy asks for: jobs in order of importance, each with
//! the shapes that would do.

use crate::assignment::{Assignment, BatchConfig, GpuList};
use crate::draft::Draft;
use crate::ids::{GpuTypeId, JobId, NodeId};
use crate::job::{JobRef, Phase};
use crate::order::{Entry, KeptQueue};
use crate::policy::KeyFn;
use crate::reason::Reason;
use crate::units::GpuCount;
use crate::view::View;
use fixedbitset::FixedBitSet;
use prefetch_index::prefetch_index;
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
    /// As near to another job as possible, by the [locations](crate::NodeSpec::location) of nodes;
    /// where the placement policy likes while that job has no GPUs.
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

    /// These GPUs with what else the shape asks for.
    #[inline]
    pub fn on(&self, gpus: GpuList) -> Assignment {
        Assignment {
            gpus,
            cpus: self.cpus,
            memory_gib: self.memory_gib,
            config: self.config,
            partner: None,
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
        if job.has_extras() {
            let extras = job.spec().extras();
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

    /// With a partner on the same GPUs. It has to ask for as many as the job gets; a placement
    /// leaves it out otherwise, and the job is alone.
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
    queued_count: u32,
    marks: Marks,
    /// Placed jobs in ascending order of their keys, once `ranked`. Where keys
    /// move alike, the keys in it are old, and only their order counts.
    placed: Vec<Entry>,
    /// How many entries in `placed` do not count any more.
    void: usize,
    ranked: bool,
    /// Whether their keys are as of the ranking.
    current: bool,
    /// Whether the keys of running jobs move alike: their order then stands.
    alike: bool,
    /// Placed jobs that were touched since the ranking; each has its mark.
    fresh: Vec<JobId>,
    /// Placed jobs that were not running at the ranking: their keys stand still.
    unsteady: Vec<JobId>,
    /// Memory of the last ranking.
    newcomers: Vec<Entry>,
    places: Vec<usize>,
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

    /// Whether an entry counts: it is not left over from an earlier key or phase.
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

impl Requests {
    /// Adds a request after all others. One of a job that does not exist, or has ended, is
    /// passed over; the [conformance suite](crate::testing::conformance) takes it for a mistake.
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

    /// The jobs in order, placed and waiting ones alike, of a list or of a kept order; each once.
    pub fn in_order(&mut self, view: View<'_>) -> Vec<JobId> {
        let mut jobs: Vec<JobId> = match &mut self.kept {
            Some(kept) if self.use_kept => kept.in_order(view),
            _ => self.list.iter().map(|r| r.job).collect(),
        };
        let mut seen = FixedBitSet::with_capacity(view.state().next_job_id().index());
        // Nobody has a number that was never given.
        jobs.retain(|job| job.index() < seen.len() && !seen.put(job.index()));
        jobs
    }

    /// The next job in order that has no GPUs in the draft. Answer with
    /// [`Requests::candidate_placed`] or [`Requests::candidate_blocked`] before
    /// asking for the next; without an answer it counts as blocked.
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

    /// Puts candidates that were passed over, or have no answer, back where they were.
    pub(crate) fn end_walk(&mut self) {
        if let Some(kept) = &mut self.kept {
            kept.end_walk();
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
            queued_count: 0,
            marks: Marks::default(),
            placed: Vec::new(),
            void: 0,
            ranked: false,
            current: false,
            alike: false,
            fresh: Vec::new(),
            unsteady: Vec::new(),
            newcomers: Vec::new(),
            places: Vec::new(),
            candidate: None,
            passed: Vec::new(),
            again: Vec::new(),
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

    fn freshen(&mut self, id: JobId) {
        let marks = self.marks.of(id);
        if *marks & Marks::FRESH == 0 {
            self.void += usize::from(*marks & Marks::RANKED != 0);
            *marks = (*marks | Marks::FRESH) & !Marks::RANKED;
            self.fresh.push(id);
        }
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
    fn rank(&mut self, view: View<'_>) {
        if self.ranked {
            return;
        }
        self.ranked = true;
        while let Some(id) = self.unsteady.pop() {
            self.freshen(id);
        }
        // Those that were stopped were the last; some end before their turn.
        while self.void > 0 && self.placed.last().is_some_and(|e| !self.is_ranked(e)) {
            self.placed.pop();
            self.void -= 1;
        }
        if self.void > 8 + self.placed.len() / 8 {
            self.drop_void();
        }
        let mut newcomers = std::mem::take(&mut self.newcomers);
        // In order of their launches they are nearly sorted.
        let mut fresh = std::mem::take(&mut self.fresh);
        for &id in &fresh {
            let marks = self.marks.of(id);
            *marks &= !Marks::FRESH;
            if *marks & Marks::PLACED == 0 {
                continue;
            }
            if let Some(job) = view.job(id) {
                let entry = self.entry(&job);
                newcomers.push(self.marks.stamp(entry, Marks::RANKED));
                if job.phase() != Phase::Running {
                    self.unsteady.push(id);
                }
            }
        }
        fresh.clear();
        self.fresh = fresh;
        self.current = !self.alike || newcomers.len() >= self.placed.len();
        if !self.current {
            newcomers.sort_unstable();
            self.merge(view, &mut newcomers);
        } else {
            self.drop_void();
            let mut placed = std::mem::take(&mut self.placed);
            for entry in &mut placed {
                *entry = self.as_of_now(view, *entry).with_stamp(entry.stamp());
            }
            placed.append(&mut newcomers);
            // Nearly sorted from the last time: the adaptive sort is the fast one.
            placed.sort();
            self.placed = placed;
        }
        self.newcomers = newcomers;
        self.back = self.placed.len();
    }

    /// Whether an entry among the placed jobs counts.
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

    /// The first entry among the placed jobs that counts, from a place on, with its key now.
    #[inline]
    fn ranked_from(&self, view: View<'_>, from: usize) -> Option<Entry> {
        let rest = self.placed.get(from..)?;
        let entry = rest.iter().find(|e| self.is_ranked(e))?;
        Some(self.as_of_now(view, *entry))
    }

    /// Moves newcomers, in ascending order, in among the placed jobs.
    fn merge(&mut self, view: View<'_>, newcomers: &mut Vec<Entry>) {
        let Some(&any) = newcomers.first() else {
            return;
        };
        let mut places = std::mem::take(&mut self.places);
        let mut from = 0;
        let mut next = self.ranked_from(view, 0);
        for new in newcomers.iter() {
            if next.is_some_and(|e| e < *new) {
                from = self.place_of(view, new, from);
                next = self.ranked_from(view, from);
            }
            places.push(from);
        }
        // From the last on, so that each entry is moved once.
        let (mut rest, mut room) = (self.placed.len(), newcomers.len());
        self.placed.resize(rest + room, any);
        while let (Some(new), Some(at)) = (newcomers.pop(), places.pop()) {
            if at < rest {
                self.placed.copy_within(at..rest, at + room);
            }
            room -= 1;
            self.placed[at + room] = new;
            rest = at;
        }
        self.places = places;
    }

    /// Where an entry belongs among the placed jobs, by their keys now; not before `from`.
    fn place_of(&self, view: View<'_>, new: &Entry, from: usize) -> usize {
        // An entry that does not count stands for the next one that does.
        let before = |at: usize| self.ranked_from(view, at).is_some_and(|e| e < *new);
        // Newcomers lie close together, and often before all others.
        let rest = self.placed.len() - from;
        let mut step = 1;
        while step <= rest && before(from + step - 1) {
            step *= 2;
        }
        let (mut low, mut high) = (from + step / 2, from + (step - 1).min(rest));
        while low < high {
            let middle = low + (high - low) / 2;
            if before(middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    #[inline]
    fn as_of_now(&self, view: View<'_>, entry: Entry) -> Entry {
        view.job(entry.job()).map_or(entry, |job| self.entry(&job))
    }

    /// The jobs, placed and waiting ones alike; one may come twice.
    fn in_order(&mut self, view: View<'_>) -> Vec<JobId> {
        self.rank(view);
        let mut all: Vec<Entry> = self.queue.in_order().copied().collect();
        // Entries of earlier keys and phases may still lie in the queue.
        all.retain(|e| self.marks.counts(e, Marks::QUEUED));
        let placed = self.placed.iter().filter(|e| self.is_ranked(e));
        all.extend(placed.map(|e| self.as_of_now(view, *e)));
        all.sort_unstable();
        all.into_iter().map(|e| e.job()).collect()
    }

    fn next_candidate(&mut self, draft: &Draft<'_>) -> Option<Request> {
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
                view.state().fetch_ahead(later.job());
            }
            self.candidate = Some(entry);
            return Some(Request::gang(&job));
        }
    }

    fn next_victim(&mut self, draft: &Draft<'_>) -> Option<JobId> {
        let candidate = self.candidate?;
        if !self.ranked {
            self.rank(draft.view());
        }
        loop {
            let entry = match self.spared.pop() {
                Some(e) => e,
                None if self.back > 0 => {
                    self.back -= 1;
                    let entry = self.placed[self.back];
                    if !self.is_ranked(&entry) {
                        continue;
                    }
                    if self.current {
                        entry
                    } else {
                        self.as_of_now(draft.view(), entry)
                    }
                }
                None => return None,
            };
            if entry < candidate {
                // Not a victim for this candidate, and later ones come later still.
                self.spared.push(entry);
                return None;
            }
            if draft.has_gpus(entry.job(), true) {
                self.taken.push(entry);
                return Some(entry.job());
            }
        }
    }

    fn settle(&mut self, draft: &Draft<'_>, placed: bool) {
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

    /// Keeps the candidate, if there is one, for the next walk.
    #[inline]
    fn pass_over(&mut self) {
        if let Some(entry) = self.candidate.take()
            && self.marks.has(entry.job(), Marks::QUEUED)
        {
            self.passed.push(entry);
        }
    }

    fn end_walk(&mut self) {
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
