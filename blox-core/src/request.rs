//! What a scheduling policy asks for: jobs in order of importance, each with
//! the shapes that would do.

use crate::assignment::{Assignment, BatchConfig, GpuList};
use crate::draft::Draft;
use crate::ids::{GpuTypeId, JobId, NodeId};
use crate::job::JobRef;
use crate::policy::KeyFn;
use crate::reason::Reason;
use crate::units::GpuCount;
use crate::view::View;
use smallvec::{SmallVec, smallvec};
use std::borrow::Cow;
use std::collections::BTreeSet;

mod kept;

use kept::Kept;

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

    fn is_met_by(&self, has: &Assignment, draft: &Draft<'_>) -> bool {
        let cluster = draft.view().cluster();
        let of_type = |wanted: GpuTypeId| {
            let mut nodes = has.gpus.iter().map(|gpu| cluster.node_of(*gpu));
            nodes.all(|id| {
                id.and_then(|id| cluster.node(id))
                    .is_some_and(|n| n.gpu_type() == wanted)
            })
        };
        let on = |id: NodeId| {
            has.gpus
                .iter()
                .filter(move |gpu| cluster.node_of(**gpu) == Some(id))
        };
        let lies = match &self.place {
            Place::Any | Place::Consolidated | Place::Near(_) => true,
            Place::Nodes(nodes) => nodes
                .iter()
                .all(|(id, count)| on(*id).count() == *count as usize),
            Place::ShareWith(other) => draft.current(*other).is_none_or(|its| its.same_gpus(has)),
        };
        lies && has.count() == self.gpus
            && self.gpu_type.is_none_or(of_type)
            && (self.config.is_none() || self.config == has.config)
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

    /// Returns whether GPUs meet a shape of it. A wish for
    /// [`Place::Consolidated`] or [`Place::Near`] is always met.
    pub fn is_met_by(&self, has: &Assignment, draft: &Draft<'_>) -> bool {
        self.shapes.iter().any(|shape| shape.is_met_by(has, draft))
    }

    /// Returns it with a partner on the same GPUs. It has to ask for as many as the job gets; a
    /// placement leaves it out otherwise, and the job is alone.
    #[must_use]
    pub fn beside(mut self, partner: JobId) -> Self {
        self.partner = Some(partner);
        self
    }
}

/// The next job in order, as [`Requests::next_in_line`] gives it.
#[derive(Clone)]
pub enum Candidate<'a> {
    /// It asks for GPUs and for nothing else, wherever they lie: as [`Request::gang`] of it.
    Gang(JobRef<'a>),
    /// What is asked for it, or for a pair.
    Request(Request),
    /// What is asked for a job that has GPUs in the draft which meet none of its shapes: another
    /// number, other nodes, another type, another batch, or the GPUs of another job. It needs no
    /// answer: a placement that moves no jobs passes it over.
    Moving(Request),
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
/// A placement policy takes jobs off it with [`Requests::next_candidate`] (or
/// [`Requests::next_in_line`]), or takes [`Requests::all`].
#[derive(Clone, Default)]
pub struct Requests {
    list: Vec<Request>,
    kept: Option<Kept>,
    use_kept: bool,
    unlisted: Unlisted,
    preemptive: bool,
    promoted: Vec<JobId>,
    finished: Vec<(JobId, Reason)>,
    explained: Vec<(JobId, Reason)>,
    // The walk through a list.
    cursor: usize,
    back: usize,
    back_mark: usize,
}

impl Requests {
    /// Adds a request after all others.
    ///
    /// A request of a running job moves or resizes the job if its GPUs meet none of the shapes and
    /// the placement policy finds others; if not, the job keeps its GPUs. A request of a job that
    /// does not exist, or has ended, is passed over; the
    /// [conformance suite](crate::testing::conformance) takes it for a mistake.
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
        let kept = self.kept.get_or_insert_with(|| Kept::new(key));
        kept.sync(view, key);
    }

    /// Promises, about the order that is kept, that the keys of all running jobs
    /// change by the same amount as time goes by, so that their order stands.
    pub fn keys_move_alike(&mut self) {
        if let Some(kept) = &mut self.kept {
            kept.keys_move_alike();
        }
    }

    /// A running job may be stopped for one that comes before it.
    pub fn allow_preemption(&mut self) {
        self.preemptive = true;
    }

    /// Returns whether a running job may be stopped for one that comes before it.
    pub fn preemption_allowed(&self) -> bool {
        self.preemptive
    }

    /// Running jobs that no request names are stopped.
    pub fn stop_unlisted(&mut self) {
        self.unlisted = Unlisted::Preempt;
    }

    /// Returns what a running job means that no request names.
    pub fn unlisted(&self) -> Unlisted {
        self.unlisted
    }

    /// Puts the job before all jobs that are not promoted, in this decision and for the rest of its
    /// life; in a list and in a kept order, before or after either is filled.
    pub fn promote(&mut self, job: JobId) {
        self.promoted.push(job);
    }

    /// The job has reached its goal: it ends as complete.
    pub fn finish(&mut self, job: JobId, why: Reason) {
        self.finished.push((job, why));
    }

    /// Says why a job that no request names, or that finds no place, waits. It stands before what
    /// the placement says of the job.
    pub fn explain(&mut self, job: JobId, why: Reason) {
        self.explained.push((job, why));
    }

    /// Returns what is asked for all jobs in order, placed and waiting ones alike, of a list or of
    /// a kept order. Call it before the first candidate is taken.
    pub fn all(&mut self, view: View<'_>) -> Cow<'_, [Request]> {
        match &mut self.kept {
            Some(kept) if self.use_kept => {
                kept.promote(view, &self.promoted);
                let jobs = kept.in_order(view).into_iter();
                jobs.filter_map(|id| view.job(id))
                    .map(|job| Request::gang(&job))
                    .collect()
            }
            _ => Cow::Borrowed(&self.list),
        }
    }

    /// Replaces the list or kept order by a list. Promoted, finished and explained jobs stay.
    ///
    /// A decorator calls it with what it makes of [`Requests::all`].
    pub fn replace(&mut self, list: Vec<Request>) {
        self.list = list;
        self.use_kept = false;
    }

    /// The explicit requests; empty when an order is kept.
    pub(crate) fn list(&self) -> &[Request] {
        &self.list
    }

    /// The jobs in order, placed and waiting ones alike, of a list or of a kept order; each once.
    pub fn in_order(&mut self, view: View<'_>) -> Vec<JobId> {
        let mut jobs: Vec<JobId> = match &mut self.kept {
            Some(kept) if self.use_kept => {
                kept.promote(view, &self.promoted);
                kept.in_order(view)
            }
            _ => self.list.iter().map(|r| r.job).collect(),
        };
        let mut seen = BTreeSet::new();
        // No job has a number that was never given.
        let next = view.next_job_id();
        jobs.retain(|job| *job < next && seen.insert(*job));
        jobs
    }

    /// The next job in order that has no GPUs in the draft. Answer with
    /// [`Requests::candidate_placed`] or [`Requests::candidate_blocked`] before
    /// asking for the next; without an answer it counts as blocked.
    pub fn next_candidate(&mut self, draft: &Draft<'_>) -> Option<Request> {
        loop {
            match self.next_in_line(draft)? {
                Candidate::Gang(job) => return Some(Request::gang(&job)),
                Candidate::Request(request) => return Some(request),
                Candidate::Moving(_) => {}
            }
        }
    }

    /// As [`Requests::next_candidate`], for who serves the many jobs that ask for nothing but
    /// GPUs without a request each.
    #[inline]
    pub fn next_in_line<'a>(&mut self, draft: &Draft<'a>) -> Option<Candidate<'a>> {
        if !self.use_kept {
            return self.next_listed(draft);
        }
        let job = self.kept.as_mut()?.next_candidate(draft)?;
        Some(match job.has_extras() {
            true => Candidate::Request(Request::gang(&job)),
            false => Candidate::Gang(job),
        })
    }

    fn next_listed<'a>(&mut self, draft: &Draft<'a>) -> Option<Candidate<'a>> {
        while let Some(r) = self.list.get(self.cursor) {
            self.cursor += 1;
            if !draft.may_place(r.job) {
                continue;
            }
            let Some(has) = draft.current(r.job) else {
                return Some(Candidate::Request(r.clone()));
            };
            // The first request of a running job counts.
            let earlier = &self.list[..self.cursor - 1];
            if !r.is_met_by(has, draft) && earlier.iter().all(|e| e.job != r.job) {
                return Some(Candidate::Moving(r.clone()));
            }
        }
        None
    }

    /// The last job in order that has GPUs in the draft and comes after the
    /// candidate: who goes first if the candidate needs room. Each job once a
    /// candidate; `None` if no more, or if this order does not preempt.
    pub fn next_victim(&mut self, draft: &Draft<'_>) -> Option<JobId> {
        self.next_victim_with_gpus(draft).map(|(job, _)| job)
    }

    /// As [`Requests::next_victim`], with how many GPUs it has.
    #[inline]
    pub fn next_victim_with_gpus(&mut self, draft: &Draft<'_>) -> Option<(JobId, GpuCount)> {
        if !self.preemptive {
            return None;
        }
        if self.use_kept {
            return self.kept.as_mut()?.next_victim(draft);
        }
        while self.back > self.cursor {
            self.back -= 1;
            let job = self.list[self.back].job;
            if let Some(its) = draft.current(job) {
                return Some((job, its.count()));
            }
        }
        None
    }

    /// The candidate has its GPUs. Victims that the draft released since become
    /// candidates in their turn; those that it has again can be victims again.
    #[inline]
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
        self.explained.clear();
    }

    /// Puts promoted jobs before all others, and starts at the front.
    pub(crate) fn start_walk(&mut self, view: View<'_>) {
        if let Some(kept) = self.kept.as_mut().filter(|_| self.use_kept) {
            kept.promote(view, &self.promoted);
        } else {
            let now = &self.promoted;
            let promoted =
                |id: JobId| view.job(id).is_some_and(|job| job.promoted()) || now.contains(&id);
            let last = |r: &Request| !promoted(r.job) && !r.partner.is_some_and(promoted);
            if !self.list.is_sorted_by_key(last) {
                self.list.sort_by_key(last);
            }
        }
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

    pub(crate) fn take_explained(&mut self) -> impl Iterator<Item = (JobId, Reason)> + '_ {
        self.explained.drain(..)
    }

    pub(crate) fn finishes(&self) -> &[(JobId, Reason)] {
        &self.finished
    }

    /// Jobs of a list and those that should run beside them.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (JobId, JobId)> + '_ {
        let list = if self.use_kept { &[][..] } else { &self.list };
        list.iter().filter_map(|r| Some((r.job, r.partner?)))
    }

    /// Placed jobs that an explicit list does not name.
    pub(crate) fn unlisted_jobs<'a>(&self, view: View<'a>) -> Vec<JobId> {
        if self.use_kept {
            // A kept order names all jobs.
            return Vec::new();
        }
        let all = self.list.iter().flat_map(|r| [Some(r.job), r.partner]);
        let mut named: Vec<JobId> = all.flatten().collect();
        named.sort_unstable();
        view.placed()
            .filter(|j| j.is_placed() && named.binary_search(&j.id()).is_err())
            .map(|j| j.id())
            .collect()
    }

    fn any_spared(&self, draft: &Draft<'_>) -> bool {
        self.list[self.back.min(self.back_mark)..self.back_mark]
            .iter()
            .any(|r| draft.current(r.job).is_some())
    }
}
