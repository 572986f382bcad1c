//! The queue of a scheduling policy: requests in order of importance, each with its acceptable
//! shapes.

use crate::decide_error::StatementError;
use crate::ids::JobId;
use crate::job::JobRef;
use crate::order::{Entry, KeyFn, RateFn, SortKey};
use crate::reason::Reason;
use crate::room::Room;
use crate::shape::{Shape, Shapes};
use crate::sort;
use crate::units::Time;
use crate::view::View;
use smallvec::{SmallVec, smallvec};
use std::borrow::Cow;
use std::sync::Arc;

mod aging;
mod kept;

pub(in crate::policy) use kept::Kept;

/// Test of a placement: returns true if it could ever place a job in a shape.
pub(crate) type PlaceRule = Arc<dyn Fn(&Room<'_>, &JobRef<'_>, &Shape) -> bool + Send + Sync>;

/// A job that should run, or a group of jobs on the same GPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The job.
    pub job: JobId,
    /// Acceptable shapes, best first; they are tried in order.
    pub shapes: Shapes,
    /// The jobs that should run on the same GPUs; most requests have none.
    guests: SmallVec<[JobId; 4]>,
}

impl Request {
    /// Requests a job with all its requested GPUs, CPUs and memory.
    #[inline]
    pub fn gang(job: &JobRef<'_>) -> Self {
        Request::with_shape(job.id(), Shape::gang(job))
    }

    /// Requests a job in one shape.
    pub fn with_shape(job: JobId, shape: Shape) -> Self {
        Request {
            job,
            shapes: smallvec![shape],
            guests: SmallVec::new_const(),
        }
    }

    /// Adds a guest: a job that runs on the same GPUs, or on some of them. Placement policies place
    /// the job; then the runtime places its waiting guests. A guest must request at most as many GPUs
    /// as the job gets and have room on them ([`Draft::beside`](crate::Draft::beside)). Otherwise it
    /// waits.
    #[must_use]
    pub fn beside(mut self, guest: JobId) -> Self {
        if let Err(at) = self.guests.binary_search(&guest) {
            self.guests.insert(at, guest);
        }
        self
    }

    /// Returns the guests in ascending order.
    pub fn guests(&self) -> &[JobId] {
        &self.guests
    }

    /// Returns the job, then its guests.
    pub fn jobs(&self) -> impl Iterator<Item = JobId> + '_ {
        std::iter::once(self.job).chain(self.guests.iter().copied())
    }
}

/// Answer of a scheduling policy: either an explicit list, or an order kept from decision to
/// decision (see [`JobQueue::keep`]).
///
/// A placement policy takes the jobs one by one with [`Draft::next_candidate`](crate::Draft::next_candidate),
/// or all at once with [`JobQueue::all`].
#[derive(Clone, Default)]
pub struct JobQueue {
    list: Vec<Request>,
    kept: Option<Kept>,
    use_kept: bool,
    /// True to stop running jobs that no request names. Otherwise they continue to run.
    pub(crate) stops_unlisted: bool,
    preemptive: bool,
    pub(crate) promoted: Vec<JobId>,
    pub(crate) finished: Vec<(JobId, Reason)>,
    pub(crate) explained: Vec<(JobId, Reason)>,
    pub(crate) notices: Vec<(JobId, Time)>,
    /// A job of the list whose key is NaN.
    without_number: Option<JobId>,
    /// The rule of the placement that serves the queue.
    pub(crate) could_place: Option<PlaceRule>,
}

impl JobQueue {
    /// Returns whether the placement could place a job in a shape if all nodes of a room were empty
    /// and up.
    ///
    /// In the [room of a view](Room::of), present nodes and requested nodes count, whether they are
    /// usable or not. A policy that chooses the shape of a job, such as its GPU type, must leave out
    /// shapes for which this is false there. Otherwise the job may wait for ever. The result changes
    /// only if nodes join, leave, change their partition or are requested. In a queue without a
    /// placement, the nodes together must have the GPUs, CPUs and memory.
    pub fn could_place(&self, room: &Room<'_>, job: &JobRef<'_>, shape: &Shape) -> bool {
        match &self.could_place {
            Some(could_place) => could_place(room, job, shape),
            None => room.anywhere(job, shape).is_ok(),
        }
    }

    /// Appends a request.
    ///
    /// If the job runs and its GPUs meet none of the shapes, the job moves, grows or shrinks if the
    /// placement policy supports it and finds GPUs. Otherwise the job keeps its GPUs. If the job
    /// does not exist or has ended, the request is skipped; the conformance
    /// suite reports it as an error.
    pub fn push(&mut self, request: Request) {
        self.list.push(request);
    }

    /// Appends requests in ascending order of their keys. Requests with equal keys are in order of
    /// their jobs' numbers. A pipeline refuses a decision in which a key is NaN.
    ///
    /// Unlike [`JobQueue::keep`], the order is computed at each decision. So the keys may change in
    /// any way, and the requests may have any shapes.
    pub fn push_in_order(&mut self, requests: impl IntoIterator<Item = (SortKey, Request)>) {
        let entry = |(key, request): (SortKey, Request)| (Entry::new(key, request.job), request);
        let mut sorted: Vec<(Entry, Request)> = requests.into_iter().map(entry).collect();
        sort::by_key(&mut sorted, |(entry, _)| *entry);
        let odd = sorted.iter().find(|(entry, _)| !entry.is_a_number());
        self.without_number = self.without_number.or(odd.map(|(entry, _)| entry.job()));
        self.list
            .extend(sorted.into_iter().map(|(_, request)| request));
    }

    /// Requests all jobs in view, in ascending order of a key, each as the gang that it requested.
    ///
    /// The key must not change while a job just waits: waiting jobs are kept in order from decision
    /// to decision, and only touched jobs are updated. Promoted jobs come before all others.
    pub fn keep(&mut self, view: View<'_>, key: &KeyFn) {
        self.use_kept = true;
        let kept = self.kept.get_or_insert_with(|| Kept::new(key));
        kept.sync(view, key, None);
    }

    /// Like [`JobQueue::keep`], for keys that change while a job waits. The first number of a key
    /// must then change by `rate` each second, up to rounding. So an order by age over length is kept.
    pub fn keep_changing(&mut self, view: View<'_>, key: &KeyFn, rate: &RateFn) {
        self.use_kept = true;
        let kept = self.kept.get_or_insert_with(|| Kept::new(key));
        kept.sync(view, key, Some(rate));
    }

    /// Declares for the kept order that the keys of all running jobs change by the same amount over
    /// time, so that their order stays the same.
    pub fn keys_advance_together(&mut self) {
        if let Some(kept) = &mut self.kept {
            kept.alike = true;
        }
    }

    /// Allows preemption: a running job may be stopped for one that is ordered before it.
    pub fn allow_preemption(&mut self) {
        self.preemptive = true;
    }

    /// Returns whether a running job may be stopped for one that is ordered before it.
    pub fn preemption_allowed(&self) -> bool {
        self.preemptive
    }

    /// Stops running jobs that no request names. Otherwise they continue to run.
    pub fn stop_unlisted(&mut self) {
        self.stops_unlisted = true;
    }

    /// Promotes a job: from this decision on it is ordered before all jobs that are not promoted.
    /// Works for a list and for a kept order, before or after [`JobQueue::keep`].
    pub fn promote(&mut self, job: JobId) {
        self.promoted.push(job);
    }

    /// Ends a job as complete because it has reached its goal.
    pub fn finish(&mut self, job: JobId, why: Reason) {
        self.finished.push((job, why));
    }

    /// Gives a job with GPUs a notice: it must leave them by a time. As a drain of a node does, the
    /// first decision at or after this time stops the job, unless it has left before. A backend warns
    /// the job. A job without GPUs, or with a notice ([`JobRef::leaves_at`]), gets none.
    pub fn notify(&mut self, job: JobId, by: Time) {
        self.notices.push((job, by));
    }

    /// Removes the requests of a job from the list.
    pub(crate) fn withdraw(&mut self, job: JobId) {
        self.list.retain(|request| request.job != job);
    }

    /// Sets the reason why a job waits if no request names it or it finds no place. This reason has
    /// precedence over the reason of the placement.
    pub fn explain(&mut self, job: JobId, why: Reason) {
        self.explained.push((job, why));
    }

    /// Returns the requests of all jobs in order, placed and waiting ones, from the list or the
    /// kept order. Call it before the first candidate is taken.
    pub fn all(&mut self, view: View<'_>) -> Cow<'_, [Request]> {
        let Some(jobs) = self.kept_in_order(view) else {
            return Cow::Borrowed(&self.list);
        };
        let jobs = jobs.into_iter().filter_map(|id| view.job(id));
        jobs.map(|job| Request::gang(&job)).collect()
    }

    /// Replaces the list or kept order by a list. Promoted, finished and explained jobs stay.
    ///
    /// A decorator calls it with its modified copy of [`JobQueue::all`].
    pub fn replace(&mut self, list: Vec<Request>) {
        self.list = list;
        self.use_kept = false;
    }

    /// Returns whether an order is the answer of this decision.
    #[inline]
    pub(crate) fn keeps(&self) -> bool {
        self.use_kept && self.kept.is_some()
    }

    /// Returns the explicit requests; empty if an order is kept.
    pub(crate) fn list(&self) -> &[Request] {
        &self.list
    }

    /// Returns all jobs in order, placed and waiting ones, from the list or the kept order. Each
    /// job occurs once.
    pub fn in_order(&mut self, view: View<'_>) -> Vec<JobId> {
        let kept = self.kept_in_order(view);
        let mut jobs = kept.unwrap_or_else(|| self.list.iter().map(|r| r.job).collect());
        // Ignores jobs with a number that was never assigned.
        let next = view.next_job_id();
        let mut seen = vec![false; next.index()];
        jobs.retain(|job| *job < next && !std::mem::replace(&mut seen[job.index()], true));
        jobs
    }

    /// Returns all jobs of the kept order, if it is the answer of this decision.
    fn kept_in_order(&mut self, view: View<'_>) -> Option<Vec<JobId>> {
        let kept = self.kept.as_mut().filter(|_| self.use_kept)?;
        kept.promote(view, &self.promoted);
        Some(kept.in_order(view))
    }

    /// Returns the kept order, if it is the answer of this decision.
    #[inline]
    pub(in crate::policy) fn kept(&mut self) -> Option<&mut Kept> {
        self.kept.as_mut().filter(|_| self.use_kept)
    }

    /// Returns whether a key was NaN in the decision in view.
    #[inline]
    pub(crate) fn lacks_number(&self, view: View<'_>) -> bool {
        let kept = self.kept.as_ref();
        self.without_number.is_some() || kept.is_some_and(|kept| kept.lacks_number(view))
    }

    /// Returns a job whose key is NaN, if one is found.
    #[cold]
    pub(crate) fn without_number(&self, view: View<'_>) -> Option<JobId> {
        let kept = || self.kept.as_ref()?.without_number(view);
        self.without_number.or_else(kept)
    }

    /// Checks what the policy states about the keys of its kept order, after a decision.
    #[cold]
    pub(crate) fn check(&self, view: View<'_>) -> Result<(), StatementError> {
        let kept = self.kept.as_ref().filter(|_| self.use_kept);
        kept.map_or(Ok(()), |kept| kept.check(view))
    }

    /// Returns the kept order, even if a list is the answer of this decision.
    pub(in crate::policy) fn last_kept(&mut self) -> Option<&mut Kept> {
        self.kept.as_mut()
    }

    pub(crate) fn begin(&mut self) {
        self.list.clear();
        self.use_kept = false;
        self.stops_unlisted = false;
        self.preemptive = false;
        self.promoted.clear();
        self.finished.clear();
        self.explained.clear();
        self.notices.clear();
        self.without_number = None;
    }

    /// Moves promoted jobs to the front.
    pub(in crate::policy) fn promote_all(&mut self, view: View<'_>) {
        if let (Some(kept), true) = (&mut self.kept, self.use_kept) {
            kept.promote(view, &self.promoted);
        } else {
            let now = &self.promoted;
            let promoted =
                |id: JobId| view.job(id).is_some_and(|job| job.promoted()) || now.contains(&id);
            let last = |r: &Request| !r.jobs().any(promoted);
            if !self.list.is_sorted_by_key(last) {
                self.list.sort_by_key(last);
            }
        }
    }

    /// Returns the placed jobs that an explicit list does not name.
    pub(crate) fn unlisted_jobs<'a>(&self, view: View<'a>) -> Vec<JobId> {
        if self.use_kept {
            // A kept order names all jobs.
            return Vec::new();
        }
        let mut named: Vec<JobId> = self.list.iter().flat_map(Request::jobs).collect();
        named.sort_unstable();
        view.placed()
            .filter(|j| j.is_placed() && named.binary_search(&j.id()).is_err())
            .map(|j| j.id())
            .collect()
    }
}
