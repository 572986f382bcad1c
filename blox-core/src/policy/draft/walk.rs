//! In-order placement: candidates and victims that a queue names, given the GPUs in the draft.

use super::Draft;
use super::kinds::Kind;
use super::memory::{self, DraftMemory, Now, Walk};
use crate::assignment::Assignment;
use crate::cluster::Cluster;
use crate::ids::{GpuTypeId, JobId, NodeId};
use crate::job::JobRef;
use crate::order::{Entry as Queued, Piece};
use crate::queue::{JobQueue, Kept, Request};
use crate::reason::Reason;
use crate::shape::{Place, Shape};
use crate::units::GpuCount;

/// The next job in order, as returned by `Draft::next_in_line`.
#[doc(hidden)]
#[derive(Clone)]
pub enum Candidate<'a> {
    /// A job that requests only GPUs, anywhere; equals its [`Request::gang`].
    Gang(JobRef<'a>),
    /// A request for a job or for a group.
    Request(Request),
    /// A request for a job whose GPUs in the draft meet none of the shapes; see [`Draft::meets`]. A
    /// placement that moves no running jobs skips it without an answer.
    Moving(Request),
}

impl<'a> Draft<'a> {
    /// Takes the next job in order that has no GPUs in the draft. Call [`Draft::candidate_placed`]
    /// or [`Draft::candidate_blocked`] before the next call. Otherwise the candidate counts as
    /// blocked.
    pub fn next_candidate(&mut self, queue: &mut JobQueue) -> Option<Request> {
        loop {
            match self.next_in_line(queue)? {
                Candidate::Gang(job) => return Some(Request::gang(&job)),
                Candidate::Request(request) => return Some(request),
                Candidate::Moving(_) => {}
            }
        }
    }

    /// Like [`Draft::next_candidate`], without creating a request for each of the many jobs that
    /// need only GPUs, and with running jobs that should move. For `InOrder`; others need no cursor.
    #[doc(hidden)]
    #[inline]
    pub fn next_in_line(&mut self, queue: &mut JobQueue) -> Option<Candidate<'a>> {
        let Some(kept) = queue.kept() else {
            return self.next_listed(queue.list());
        };
        let job = self.next_kept(kept)?;
        if !job.needs_only_gpus() {
            return Some(Candidate::Request(Request::gang(&job)));
        }
        Some(Candidate::Gang(job))
    }

    #[inline(always)]
    fn next_kept(&mut self, kept: &mut Kept) -> Option<JobRef<'a>> {
        if self.m.walk.candidate.is_some() {
            self.settle(kept, false);
        }
        loop {
            if !self.m.walk.blocked.is_empty() {
                self.pass_blocked(kept);
            }
            let again = match (kept.queue.peek(), self.m.walk.again.last()) {
                (Some(q), Some(a)) => a < q,
                (Some(_), None) => false,
                (None, again) => {
                    let again = again.is_some();
                    if kept.draw(self.view) {
                        continue;
                    }
                    if !again {
                        return None;
                    }
                    true
                }
            };
            let entry = if again {
                self.m.walk.again.pop()?
            } else {
                kept.queue.pop()?
            };
            if !again && !kept.is_queued(&entry) {
                continue;
            }
            let Some(job) = self.view.job(entry.job()) else {
                continue;
            };
            if self.has_gpus(entry.job(), false) {
                // Placed meanwhile as the guest of another job.
                kept.forget_queued(entry.job());
                continue;
            }
            if let Some(later) = kept.fetch_ahead(self.view) {
                self.fetch_ahead(later);
            }
            self.m.walk.candidate = Some(entry);
            return Some(job);
        }
    }

    /// Passes the first jobs of the queue that are of blocked kinds, up to the next victim that must
    /// be placed again. Whole pieces are passed at once, so the cost hardly depends on the number of
    /// jobs.
    #[cold]
    fn pass_blocked(&mut self, kept: &mut Kept) {
        let view = self.view;
        let Walk {
            again,
            passed,
            passed_pieces,
            blocked,
            kinds,
            ..
        } = &mut self.m.walk;
        let until = again.last().copied();
        let mut kind = |entry: &Queued| {
            let known = kinds.known(entry.job());
            let learned = || view.job(entry.job()).map(|job| kinds.of(&job));
            known.or_else(learned).unwrap_or(Kind::NONE)
        };
        loop {
            let whole = |bits| blocked.cover(bits);
            if let Some(piece) = kept.queue.pop_piece(until, |e| kind(e).bit(), whole) {
                if !passed.is_empty() {
                    passed_pieces.push(Piece::from_ascending(passed));
                }
                passed_pieces.push(piece);
                continue;
            }
            let Some(first) = kept.queue.peek().copied() else {
                return;
            };
            let is_next = until.is_none_or(|until| first < until);
            if !is_next || !blocked.contains(kind(&first)) {
                return;
            }
            kept.queue.pop();
            if kept.is_queued(&first) {
                passed.push(first);
            }
        }
    }

    #[inline(never)]
    fn next_listed(&mut self, list: &[Request]) -> Option<Candidate<'a>> {
        if self.m.walk.cursor == 0 {
            self.m.walk.look_for_repeats(list);
        }
        while let Some(request) = list.get(self.m.walk.cursor) {
            let earlier = &list[..self.m.walk.cursor];
            self.m.walk.cursor += 1;
            if !self.may_place(request.job) {
                continue;
            }
            let Some(has) = self.current(request.job) else {
                if !self.m.walk.blocked.is_empty() && self.is_blocked(list) {
                    continue;
                }
                return Some(match self.as_gang(request) {
                    Some(job) => Candidate::Gang(job),
                    None => Candidate::Request(request.clone()),
                });
            };
            // The first request of a running job counts.
            let first = earlier.iter().all(|e| e.job != request.job);
            let meets = |shape| self.meets(has, shape);
            if first && !request.shapes.iter().any(meets) {
                self.m.walk.blocked.clear();
                return Some(Candidate::Moving(request.clone()));
            }
        }
        None
    }

    /// Returns whether the last request taken from a list is for a job of a blocked kind.
    #[cold]
    fn is_blocked(&mut self, list: &[Request]) -> bool {
        let gang = self.listed_gang(list, self.m.walk.cursor - 1);
        let Some(job) = gang.and_then(|job| self.view.job(job)) else {
            return false;
        };
        let walk = &mut self.m.walk;
        walk.blocked.contains(walk.kinds.of(&job))
    }

    /// Returns the job of a request that asks for the job's number of GPUs and nothing else, as the
    /// entries of a kept order do. A job that a list names again is not among them: a second request
    /// may make it a victim.
    fn as_gang(&self, request: &Request) -> Option<JobRef<'a>> {
        let [shape] = &request.shapes[..] else {
            return None;
        };
        let job = self.view.job(request.job)?;
        let bare = job.needs_only_gpus() && *shape == Shape::gpus(job.gpus());
        (bare && request.guests().is_empty() && !self.m.walk.repeats).then_some(job)
    }

    /// Returns the next victim, with its number of GPUs: the last job in order that has GPUs in the
    /// draft and comes after the candidate. Returns each job at most once for a candidate. Returns
    /// `None` if there are no more, or if the queue does not preempt.
    #[inline]
    pub fn next_victim(&mut self, queue: &mut JobQueue) -> Option<(JobId, GpuCount)> {
        if !queue.preemption_allowed() {
            return None;
        }
        match queue.kept() {
            Some(kept) => self.next_kept_victim(kept),
            None => self.next_listed_victim(queue.list()),
        }
    }

    #[inline(always)]
    fn next_kept_victim(&mut self, kept: &mut Kept) -> Option<(JobId, GpuCount)> {
        let candidate = self.m.walk.candidate?;
        let mut back = match self.m.walk.back {
            Some(back) => back,
            None => kept.ranked(self.view),
        };
        let victim = loop {
            let (entry, job) = match self.m.walk.spared.pop() {
                Some(entry) => (entry, self.view.job(entry.job())),
                None if back > 0 => {
                    back -= 1;
                    match kept.placed_at(back, self.view) {
                        Some(next) => next,
                        None => continue,
                    }
                }
                None => break None,
            };
            if entry < candidate {
                // Not a victim for this candidate, and neither are later jobs.
                self.m.walk.spared.push(entry);
                break None;
            }
            let gpus = job.map_or(GpuCount(0), |job| self.gpus_of(&job));
            if gpus.get() > 0 {
                self.m.walk.taken.push(entry);
                break Some((entry.job(), gpus));
            }
        };
        self.m.walk.back = Some(back);
        victim
    }

    fn next_listed_victim(&mut self, list: &[Request]) -> Option<(JobId, GpuCount)> {
        let mut back = self.m.walk.back.unwrap_or(list.len()).min(list.len());
        let mut victim = None;
        while victim.is_none() && back > self.m.walk.cursor {
            back -= 1;
            let job = list[back].job;
            victim = self.current(job).map(|its| (job, its.count()));
        }
        self.m.walk.back = Some(back);
        victim
    }

    /// Reports that the candidate was placed. Its victims that are released in the draft become
    /// candidates in their turn. Victims whose release was undone can be victims again.
    #[inline]
    pub fn candidate_placed(&mut self, queue: &mut JobQueue) {
        self.m.walk.blocked.clear();
        self.answer(queue, true);
    }

    /// Reports that the candidate could not be placed. Victims whose release was undone can be
    /// victims again.
    pub fn candidate_blocked(&mut self, queue: &mut JobQueue) {
        self.answer(queue, false);
    }

    /// Like [`Draft::candidate_blocked`], and skips all later jobs that request the same, until a
    /// candidate is placed. They wait for the reason `why`, unless they have another.
    ///
    /// Jobs request the same if their specifications differ at most in name, owner, virtual cluster,
    /// priority, times, work, deadlines, losses, weight, group, estimate and command. So the cost of
    /// a decision depends on the number of different requests, not on the number of waiting jobs.
    /// Use it only if the answer would be the same for each of these jobs. Jobs of a list are
    /// skipped if they are requested as [gangs](Request::gang).
    pub fn candidate_blocked_alike(&mut self, queue: &mut JobQueue, why: Reason) {
        let candidate = match queue.kept() {
            Some(_) => self.m.walk.candidate.map(|entry| entry.job()),
            None => self.listed_gang(queue.list(), self.m.walk.cursor.wrapping_sub(1)),
        };
        if let Some(job) = candidate.and_then(|job| self.view.job(job)) {
            let walk = &mut self.m.walk;
            let kind = walk.kinds.of(&job);
            walk.block(kind);
            let all = &mut self.m.waits_by_gpus;
            match all.iter_mut().find(|(gpus, _)| *gpus == job.gpus()) {
                // The last reason has the smallest number of free GPUs.
                Some((_, last)) => *last = why,
                None => all.push((job.gpus(), why)),
            }
        }
        self.answer(queue, false);
    }

    /// Returns the job of a request of a list that equals its gang, unless the list may name the job
    /// again.
    fn listed_gang(&self, list: &[Request], at: usize) -> Option<JobId> {
        let request = list.get(at).filter(|_| !self.m.walk.repeats)?;
        let job = self.view.job(request.job)?;
        (*request == Request::gang(&job)).then_some(request.job)
    }

    #[inline]
    fn answer(&mut self, queue: &mut JobQueue, placed: bool) {
        match queue.kept() {
            Some(kept) => self.settle(kept, placed),
            None => self.settle_listed(queue.list(), placed),
        }
    }

    /// Files the candidate and its victims.
    #[inline(always)]
    fn settle(&mut self, kept: &mut Kept, placed: bool) {
        if !self.m.walk.taken.is_empty() {
            self.settle_victims();
        }
        let Some(entry) = self.m.walk.candidate.take() else {
            return;
        };
        if placed {
            kept.forget_queued(entry.job());
        } else if kept.counts_as_queued(entry.job()) {
            self.m.walk.passed.push(entry);
        }
    }

    fn settle_victims(&mut self) {
        let DraftMemory {
            entries,
            entry_of,
            walk,
            ..
        } = &mut *self.m;
        let spared = walk.spared.len();
        for &entry in &walk.taken {
            // A victim without an entry still has its GPUs from before the draft.
            let known = memory::entry(entry_of, entry.job());
            if known.is_none_or(|e| !matches!(entries[e].now, Now::Nothing)) {
                walk.spared.push(entry);
            } else if walk.again.last().is_none_or(|first| entry < *first) {
                // Victims are taken from the last to the first.
                walk.again.push(entry);
            } else {
                let at = walk.again.partition_point(|e| entry < *e);
                walk.again.insert(at, entry);
            }
        }
        walk.taken.clear();
        if walk.spared.len() > spared {
            walk.spared.sort_unstable();
        }
    }

    fn settle_listed(&mut self, list: &[Request], placed: bool) {
        let mark = self.m.walk.back_mark.min(list.len());
        let back = self.m.walk.back.unwrap_or(mark);
        // A victim with an undone release is before the mark, so it is tried again.
        let mut victims = list[back.min(mark)..mark].iter();
        let again = !placed || victims.any(|r| self.current(r.job).is_some());
        let back = if again { mark } else { back };
        self.m.walk.back = Some(back);
        self.m.walk.back_mark = back;
    }

    /// Moves promoted jobs to the front of the queue, and starts in-order placement there.
    pub(crate) fn start_walk(&mut self, queue: &mut JobQueue) {
        queue.promote_all(self.view);
        self.m.walk.cursor = 0;
        self.m.walk.back = None;
        self.m.walk.back_mark = queue.list().len();
        self.m.walk.blocked.clear();
        if let Some(kept) = queue.kept()
            && kept.made() != self.m.walk.made
        {
            // An in-order placement that a panic interrupted leaves these behind.
            self.m.walk.clear();
            self.m.walk.passed.clear();
            self.m.walk.passed_pieces.clear();
            self.m.walk.made = kept.made();
        }
    }

    /// Returns skipped candidates, and a candidate without a reported result, to their previous
    /// positions.
    pub(crate) fn end_walk(&mut self, queue: &mut JobQueue) {
        // The placement may have replaced the kept order by a list.
        let Some(kept) = queue.last_kept() else {
            return;
        };
        self.settle(kept, false);
        let walk = &mut self.m.walk;
        // The skipped jobs are in ascending order: taken from the last, each becomes the new first.
        while let Some(entry) = walk.passed.pop() {
            kept.queue.push(entry);
        }
        while let Some(piece) = walk.passed_pieces.pop() {
            kept.queue.push_piece(piece);
        }
        walk.clear();
        kept.return_drawn(self.view);
        kept.tidy();
    }

    /// Returns true if an assignment meets a shape: number and type of GPUs, config, and
    /// [`Place::Nodes`]. The other places are preferences and always met.
    pub fn meets(&self, has: &Assignment, shape: &Shape) -> bool {
        let cluster = self.view.cluster();
        let on = |id: NodeId| {
            let gpus = has.gpus.iter();
            gpus.filter(|gpu| cluster.node_of(**gpu) == Some(id))
                .count()
        };
        let lies = match &shape.place {
            Place::Any | Place::Consolidated | Place::Near(_) => true,
            Place::Nodes(nodes) => nodes.iter().all(|(id, count)| on(*id) == *count as usize),
        };
        lies && has_gpus_of(cluster, has, shape)
    }
}

/// Returns whether an assignment has the number and type of GPUs, and the config, of a shape.
pub(crate) fn has_gpus_of(cluster: &Cluster, has: &Assignment, shape: &Shape) -> bool {
    let of_type = |wanted: GpuTypeId| {
        let mut nodes = has.gpus.iter().map(|gpu| cluster.node_with(*gpu));
        nodes.all(|node| node.is_some_and(|node| node.gpu_type() == wanted))
    };
    has.count() == shape.gpus
        && shape.gpu_type.is_none_or(of_type)
        && (shape.config.is_none() || shape.config == has.config)
}
