//! Drafts: plans under construction, which placement policies fill.

pub use crate::decide_error::DraftError;

use crate::assignment::{Assignment, GpuList};
use crate::bits;
use crate::cluster::{Claims, Node, NodeStatus, OnNode};
use crate::decision::{Action, Plan};
use crate::ids::{GpuId, GpuTypeId, JobId, NodeId};
use crate::job::{JobRef, Phase, accepts_all};
use crate::model::share::{Gpus, Used};
use crate::queue::Request;
use crate::reason::Reason;
use crate::shape::Shape;
use crate::units::GpuCount;
use crate::view::View;
use prefetch_index::prefetch_index;
use std::borrow::Cow;
use std::iter;

mod kinds;
mod ledger;
mod limits;
mod links;
mod memory;
mod walk;

pub use walk::Candidate;
pub(crate) use walk::has_gpus_of;

pub(crate) use memory::DraftMemory;
use memory::{Now, Op};

/// A state of a draft that can be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Savepoint(usize);

/// A plan under construction. It starts from the allocations of all previous plans. Policies assign
/// and release GPUs, and the difference becomes the plan.
pub struct Draft<'a> {
    view: View<'a>,
    m: &'a mut DraftMemory,
    /// Hidden GPU types, as bits; see [`Draft::narrow_to`]. The last bit hides all nodes but `only`.
    hidden: u64,
    /// See [`Draft::narrow_to_node`].
    only: NodeId,
}

/// Returns a state with these jobs, submitted and accepted at time 0.
#[cfg(test)]
fn admitted(
    spec: &crate::ClusterSpec,
    jobs: impl IntoIterator<Item = crate::JobSpec>,
) -> crate::State {
    let mut state = crate::State::new(spec).unwrap();
    for (id, spec) in (0..).zip(jobs) {
        let (job, spec) = (JobId(id), spec.into());
        let submitted = crate::Event::Submitted { job, spec };
        state.apply(crate::Time::ZERO, &submitted).unwrap();
        let admission = crate::AdmissionDecision::Accept {
            class: None,
            deadline: None,
        };
        let decided = crate::Event::AdmissionDecided { job, admission };
        state.apply(crate::Time::ZERO, &decided).unwrap();
    }
    state
}

/// Bit of [`Draft::hidden`] that is no GPU type.
const ALL_BUT_ONE: u64 = 1 << 63;

impl<'a> Draft<'a> {
    pub(crate) fn begin(view: View<'a>, m: &'a mut DraftMemory, so_far: &Plan) -> Self {
        m.sync(view);
        let (hidden, only) = (0, NodeId(0));
        let draft = Draft {
            view,
            m,
            hidden,
            only,
        };
        for action in &so_far.actions {
            if let Action::Place { assignment, .. } = action {
                let cluster = view.cluster();
                draft.m.ledger.set_free(cluster, &assignment.gpus, false);
                draft.m.ledger.count_resources(cluster, assignment, -1.0);
            }
        }
        draft
    }

    /// Returns the view that the draft is made from. It does not show the draft's changes.
    #[inline]
    pub fn view(&self) -> View<'a> {
        self.view
    }

    /// Hides GPUs of types that a job does not [accept](JobRef::accepts), or that a shape does not ask
    /// for, until [`Draft::widen`] is called. No method returns a free GPU of these types or a node with such GPUs. Counts over
    /// all nodes ([`Draft::free_gpus`] and the methods with exact numbers) still include them.
    ///
    /// A cluster has at most 63 types that can be hidden. A plan with a GPU of another type is
    /// rejected.
    #[inline]
    pub fn narrow_to(&mut self, job: &JobRef<'_>, shape: &Shape) {
        self.hidden = 0;
        let picky = job.has_extras() && !job.spec().extras().runs_anywhere();
        if picky || shape.gpu_type.is_some() {
            self.hide(job, shape.gpu_type);
        }
    }

    fn hide(&mut self, job: &JobRef<'_>, only: Option<GpuTypeId>) {
        let cluster = self.view.cluster();
        let shown = |id| only.is_none_or(|only| only == id) && job.accepts(cluster, id);
        let types = cluster.gpu_types().iter();
        let types = types.map(|(id, _)| GpuTypeId(id.0));
        let hidden = types.filter(|id| id.0 < 63 && !shown(*id));
        self.hidden = hidden.fold(0, |bits, id| bits | 1 << id.0);
    }

    /// Hides the GPUs of all nodes but one, in addition to hidden types. With `None`, it shows the
    /// nodes again.
    pub fn narrow_to_node(&mut self, only: Option<NodeId>) {
        self.hidden &= !ALL_BUT_ONE;
        if let Some(only) = only {
            self.hidden |= ALL_BUT_ONE;
            self.only = only;
        }
    }

    /// Shows the hidden GPUs again.
    pub fn widen(&mut self) {
        self.hidden = 0;
    }

    /// Returns whether a node is not hidden.
    #[inline]
    fn shows(&self, node: &Node) -> bool {
        self.hidden == 0 || {
            let id = node.gpu_type().0;
            let is_shown = self.hidden & ALL_BUT_ONE == 0 || node.id() == self.only;
            is_shown && (id >= 63 || self.hidden & 1 << id == 0)
        }
    }

    /// Returns the number of free GPUs in view.
    #[inline]
    pub fn free_gpus(&self) -> u32 {
        match self.view.virtual_cluster() {
            None => self.m.ledger.free_total,
            Some(_) => self.free_in_view(),
        }
    }

    /// Returns the amount of GPUs that no job has in the draft: free GPUs in view, and the rest of GPUs
    /// that jobs have in part. GPUs that take no new jobs do not count.
    #[inline]
    pub fn free_amount(&self) -> Gpus {
        let parted = self.m.ledger.records_claims() || self.view.cluster().has_parts();
        match parted {
            true => Gpus::from(GpuCount(self.free_gpus())) + self.parts_left(),
            false => GpuCount(self.free_gpus()).into(),
        }
    }

    /// Returns what is left of GPUs that are not free.
    #[cold]
    fn parts_left(&self) -> Gpus {
        let nodes = self.view.nodes().filter(|node| node.is_usable());
        let left = nodes.flat_map(|node| {
            let free = self.mask(node.id());
            let taken = move |gpu: &GpuId| free >> (gpu.0 - node.first_gpu) & 1 == 0;
            let some = node
                .gpus()
                .filter(move |gpu| taken(gpu) && node.works(*gpu));
            some.map(|gpu| self.used(gpu).left())
        });
        left.sum()
    }

    #[cold]
    fn free_in_view(&self) -> u32 {
        self.view.nodes().map(|n| self.free_on(n.id())).sum()
    }

    /// Returns the number of free GPUs on a node; 0 if the node is not in view.
    #[inline]
    pub fn free_on(&self, node: NodeId) -> u32 {
        self.mask(node).count_ones()
    }

    /// Returns the free GPUs of a node, in ascending order.
    pub fn free_gpus_on(&self, node: NodeId) -> impl Iterator<Item = GpuId> + use<> {
        let first = self.view.cluster().node(node).map_or(0, |n| n.first_gpu);
        let free = bits::numbers(iter::once(self.mask(node)));
        free.map(move |local| GpuId(first + local))
    }

    /// Returns whether all these GPUs are in view and free.
    pub fn are_free(&self, gpus: &[GpuId]) -> bool {
        gpus.iter().all(|gpu| self.is_free(*gpu))
    }

    /// Returns the nodes in view with a free GPU, in order of registration.
    pub fn nodes_with_free(&self) -> impl Iterator<Item = &'a Node> + '_ {
        let view = self.view;
        self.m
            .ledger
            .with_free()
            .filter_map(move |id| view.node(id).filter(|node| self.shows(node)))
    }

    /// Returns the nodes in view with at least `count` free GPUs: those with the fewest first, and
    /// equals in order of registration.
    #[inline]
    pub fn tightest_nodes(&self, count: u32) -> impl Iterator<Item = &'a Node> + '_ {
        self.shown(self.m.ledger.by_count.ascending(count))
    }

    /// Returns the nodes in view with a free GPU: those with the most first, and equals in order of
    /// registration.
    #[inline]
    pub fn emptiest_nodes(&self) -> impl Iterator<Item = &'a Node> + '_ {
        self.shown(self.m.ledger.by_count.descending())
    }

    /// Leaves out nodes that are hidden or not in view.
    #[inline]
    fn shown(&self, nodes: impl Iterator<Item = NodeId>) -> impl Iterator<Item = &'a Node> {
        let view = self.view;
        nodes.filter_map(move |id| view.node(id).filter(|node| self.shows(node)))
    }

    /// Returns a job's assignment in the draft.
    #[inline]
    pub fn current(&self, job: JobId) -> Option<&Assignment> {
        match self.m.entry(job) {
            Some(e) => self.its(e),
            None => self.original(job),
        }
    }

    /// Returns the jobs in view with GPUs in the draft, and their assignments. Jobs that had GPUs
    /// before the draft come first.
    pub fn placed(&self) -> impl Iterator<Item = (JobRef<'a>, &Assignment)> {
        let view = self.view;
        let before = view.placed().filter(|j| j.assignment().is_some());
        let new = self.m.entries.iter().filter_map(move |e| view.job(e.job));
        let new = new.filter(|j| j.assignment().is_none());
        let all = before.chain(new);
        all.filter_map(|j| Some((j, self.current(j.id())?)))
    }

    /// Returns whether a job has GPUs in the draft. `before` is true if it had GPUs before the
    /// draft.
    #[inline]
    pub(crate) fn has_gpus(&self, job: JobId, before: bool) -> bool {
        match self.m.entry(job) {
            Some(e) => !matches!(self.m.entries[e].now, Now::Nothing),
            None => before,
        }
    }

    /// Returns the number of GPUs that a job has in the draft.
    #[inline]
    pub(crate) fn gpus_of(&self, job: &JobRef<'_>) -> GpuCount {
        let its = match self.m.entry(job.id()) {
            Some(e) => self.its(e),
            None => job.assignment(),
        };
        its.map_or(GpuCount(0), Assignment::count)
    }

    /// Prefetches the draft's data of a job.
    #[inline]
    pub(crate) fn fetch_ahead(&self, job: JobId) {
        prefetch_index(&self.m.entry_of, job.index());
    }

    /// Returns whether GPUs may be assigned to a job in this decision: the job waits, is placed, or
    /// is stopping.
    #[inline]
    pub fn may_place(&self, job: JobId) -> bool {
        self.view.job(job).is_some_and(|j| can_be_placed(&j))
    }

    /// Assigns GPUs to a job. A GPU may have other jobs if it has [room](Used::has_room) for the share.
    ///
    /// # Errors
    /// The job has GPUs already, or a GPU has too little room.
    pub fn assign(&mut self, job: JobId, assignment: Assignment) -> Result<(), DraftError> {
        let known = self.without_gpus(job, assignment.count())?;
        self.note_sharing(&assignment);
        let taken = self.take_free(job, &assignment);
        let cluster = self.view.cluster();
        if !taken {
            self.check(job, &assignment, None)?;
            // Other jobs may have overlapping parts of GPUs that this job has whole.
            self.note_others(&assignment);
            self.m.ledger.enter(cluster, job, &assignment);
        }
        self.m.ledger.count_resources(cluster, &assignment, -1.0);
        self.m.given.push(Action::Place { job, assignment });
        self.m.note_given(job, known);
        Ok(())
    }

    /// Places the waiting guests of a request on [GPUs of its job](Draft::beside), in the shapes that
    /// they request. A guest stays without GPUs if the job has none with enough room for it.
    pub(crate) fn put_guests(&mut self, request: &Request) {
        for &guest in request.guests() {
            let waits = self.current(guest).is_none() && self.may_place(guest);
            let its = self.view.job(guest).filter(|_| waits);
            let beside = its.and_then(|its| self.beside(request.job, &its, &Shape::gang(&its)));
            if let Some(beside) = beside {
                let _fits = self.assign(guest, beside);
            }
        }
    }

    /// Returns an assignment of the shape on GPUs of the job `host`, beside all jobs on them. Its
    /// share [overlaps](crate::Share::overlapping) theirs, unless it is a part that fits beside them.
    ///
    /// Prefers the GPUs with the fewest jobs, then the first. Returns `None` if too few of the GPUs
    /// work and have room, or if the job does not accept one of them. Also returns `None` if too few
    /// CPUs or too little memory are left, or if the job must run on another [number of
    /// nodes](JobRef::node_limit).
    pub fn beside(&self, host: JobId, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
        let theirs = self.current(host).filter(|_| host != job.id())?;
        let (cluster, count) = (self.view.cluster(), shape.gpus.get() as usize);
        let mut open: Vec<(usize, usize, GpuId)> = Vec::new();
        let packed = shape.share.overlapping();
        for (rank, gpu) in theirs.gpus.iter().enumerate() {
            let claims = self.claims(*gpu);
            let in_view = cluster
                .node_of(*gpu)
                .is_some_and(|n| self.view.node(n).is_some());
            if in_view && claims.used().has_room(packed) && self.takes_new(*gpu) {
                open.push((claims.count(), rank, *gpu));
            }
        }
        if count == 0 || open.len() < count {
            return None;
        }
        open.sort_unstable();
        open.truncate(count);
        open.sort_unstable_by_key(|(_, rank, _)| *rank);
        let gpus: GpuList = open.iter().map(|(.., gpu)| *gpu).collect();
        let fits = |gpu: &GpuId| self.used(*gpu).has_room(shape.share);
        let apart = shape.share.fraction() < 1.0 && gpus.iter().all(fits);
        let mut beside = shape.on(gpus);
        if !apart {
            beside.share = packed;
        }
        let limit = job.node_limit();
        let meets = limit.is_none_or(|limit| cluster.meets(limit, &beside.gpus));
        (meets && self.fits(job, &beside)).then_some(beside)
    }

    /// Returns the jobs that a GPU has in the draft.
    pub fn jobs_on(&self, gpu: GpuId) -> impl Iterator<Item = JobId> + use<> {
        self.claims(gpu).into_owned().jobs()
    }

    /// Returns what the jobs on a GPU have of it together in the draft.
    pub fn used(&self, gpu: GpuId) -> Used {
        self.claims(gpu).used()
    }

    /// Returns the working GPUs of a node in ascending order, and the use of each in the draft. There
    /// are none if the node is not in view or takes no new jobs.
    ///
    /// A job with a part of a GPU may have those with [room](Used::has_room) for its share.
    pub fn used_on(&self, node: NodeId) -> impl Iterator<Item = (GpuId, Used)> + '_ {
        let shown = self.view.node(node).filter(|node| self.shows(node));
        let free = self.mask(node);
        let open = shown.filter(|node| node.is_usable()).into_iter();
        open.flat_map(move |node| {
            let state = move |gpu: GpuId| {
                let is_free = free >> (gpu.0 - node.first_gpu) & 1 == 1;
                let used = if is_free {
                    Used::default()
                } else {
                    self.used(gpu)
                };
                node.works(gpu).then_some((gpu, used))
            };
            node.gpus().filter_map(state)
        })
    }

    /// Returns the other jobs on the GPUs of a job in the draft, without those that use other parts
    /// of them, in ascending order.
    pub fn companions(&self, job: JobId) -> Vec<JobId> {
        let mut others = Vec::new();
        if let Some(its) = self.current(job) {
            for gpu in &its.gpus {
                others.extend(self.claims(*gpu).overlapping(job, its.share));
            }
        }
        others.sort_unstable();
        others.dedup();
        others
    }

    /// Assigns to a job the first free GPUs of nodes, in the given numbers, with the CPUs, memory
    /// and config of the shape. Equals [`Draft::assign`] with the result of [`Draft::take_from`].
    /// Returns false and changes nothing if a node has too few GPUs or is not in view, or if the
    /// shape requests another number.
    ///
    /// # Errors
    /// The job has GPUs already, or the shape requests none.
    pub fn assign_on(
        &mut self,
        job: JobId,
        nodes: &[(NodeId, u32)],
        shape: &Shape,
    ) -> Result<bool, DraftError> {
        let known = self.without_gpus(job, shape.gpus)?;
        let count = shape.gpus.get() as usize;
        if count == 0 {
            return Err(DraftError::NoGpu(job));
        }
        let all_seen = self.hidden == 0 && self.view.virtual_cluster().is_none();
        let in_view = |(id, _): &(NodeId, u32)| {
            let node = self.view.node(*id);
            node.is_some_and(|node| self.shows(node))
        };
        if !all_seen && !nodes.iter().all(in_view) {
            return Ok(false);
        }
        if !shape.share.is_whole() && !self.m.ledger.records_claims() {
            self.record_claims();
        }
        // Constructed in place: copying recently written data is slow.
        self.m.given.push(EMPTY_PLACE);
        if let Some(Action::Place {
            job: of,
            assignment,
        }) = self.m.given.last_mut()
        {
            *of = job;
            assignment.share = shape.share;
            (assignment.cpus, assignment.memory_gib) = (shape.cpus, shape.memory_gib);
            assignment.config.clone_from(&shape.config);
            let (cluster, ledger) = (self.view.cluster(), &mut self.m.ledger);
            let gpus = &mut assignment.gpus;
            let mut parts = nodes.iter();
            let all = parts.all(|&(node, part)| ledger.take_first(node, part, gpus));
            if !all || gpus.len() != count {
                ledger.set_free(cluster, gpus, true);
                self.m.given.pop();
                return Ok(false);
            }
            ledger.count_resources(cluster, assignment, -1.0);
            ledger.record(cluster, job, assignment, true);
        }
        self.m.note_given(job, known);
        Ok(true)
    }

    /// Returns the entry of a job that is to get a number of GPUs, if it has an entry. Fails if no
    /// GPUs may be assigned to the job.
    #[inline(always)]
    fn without_gpus(&mut self, job: JobId, gpus: GpuCount) -> Result<Option<usize>, DraftError> {
        let Some(its) = self.view.job(job).filter(can_be_placed) else {
            return Err(DraftError::NotPlaceable(job));
        };
        let known = self.m.entry(job);
        let has_some = match known {
            Some(e) => self.its(e).is_some(),
            None => its.is_placed(),
        };
        if has_some {
            return Err(DraftError::AlreadyPlaced(job));
        }
        if its.gpus() != gpus {
            self.m.off_gang = true;
        }
        self.m.limited |= its.node_limit().is_some();
        Ok(known)
    }

    /// Releases a job's GPUs, so that the job stops. If it is assigned GPUs again in the same
    /// draft, it stops and restarts there.
    ///
    /// # Errors
    /// The job has no GPUs.
    pub fn release(&mut self, job: JobId, why: Reason) -> Result<(), DraftError> {
        let its = self.view.job(job);
        let original = its.and_then(|its| its.assignment());
        let Some(e) = self.m.entry(job) else {
            let had = original.ok_or(DraftError::NotPlaced(job))?;
            let cluster = self.view.cluster();
            self.m.ledger.count_resources(cluster, had, 1.0);
            let alone = |on: &OnNode| !self.m.ledger.records_claims() && cluster.is_unmixed(*on);
            match its.and_then(|its| its.rec.on).filter(alone) {
                Some(on) => self.m.ledger.free(on),
                None => {
                    self.note_others(had);
                    self.m.ledger.leave(cluster, job, had);
                }
            }
            let e = self.m.add(job, Now::Nothing);
            self.note_released(e, Now::AsBefore, true, why);
            return Ok(());
        };
        if self.its(e).is_none() {
            return Err(DraftError::NotPlaced(job));
        }
        let was = self.take_away(e, original);
        self.note_released(e, was, original.is_some(), why);
        Ok(())
    }

    /// Records that the job of an entry has no GPUs any more. `was` is its last assignment;
    /// `before` is true if it had one before the draft.
    #[inline(always)]
    fn note_released(&mut self, e: usize, was: Now, before: bool, why: Reason) {
        let entry = &mut self.m.entries[e];
        let first = before && entry.released == 0;
        if first {
            self.m.reasons.push(why);
            entry.released = self.m.reasons.len() as u32;
        }
        self.m.log.push(Op::Released {
            entry: e as u32,
            was,
            first,
        });
    }

    /// Undoes a release: the job continues without interruption.
    ///
    /// # Errors
    /// The job was not released, its GPUs are not free any more, or its CPUs or memory are not
    /// left.
    pub fn spare(&mut self, job: JobId) -> Result<(), DraftError> {
        self.resume(job, true)
    }

    /// Undoes a release and changes the job's assignment in place. Equals [`Draft::spare`] followed
    /// by [`Draft::reassign`], except that the job's previous CPUs and memory need not be left.
    ///
    /// # Errors
    /// The job was not released, or one of its previous or new GPUs is not free; nothing has
    /// changed then.
    pub fn spare_as(&mut self, job: JobId, assignment: Assignment) -> Result<(), DraftError> {
        let start = self.savepoint();
        self.resume(job, false)?;
        if self.original(job) == Some(&assignment) {
            return Ok(());
        }
        self.reassign(job, assignment)
            .inspect_err(|_| self.rollback(start))
    }

    /// Undoes a release. If `in_full` is true, the job's CPUs and memory must be left.
    #[inline]
    fn resume(&mut self, job: JobId, in_full: bool) -> Result<(), DraftError> {
        let e = self.m.entry(job).ok_or(DraftError::NotPlaced(job))?;
        if self.its(e).is_some() || self.m.entries[e].released == 0 {
            return Err(DraftError::AlreadyPlaced(job));
        }
        let original = self.original(job).ok_or(DraftError::NotPlaced(job))?;
        let alone = self.is_alone(original);
        // Usually its GPUs have already been assigned to another job.
        let taken = |gpu: &&GpuId| !self.is_free(**gpu) && self.takes_new(**gpu);
        if let Some(&gpu) = original.gpus.first().filter(taken)
            && alone
        {
            return Err(DraftError::NotFree { gpu, job });
        }
        let cluster = self.view.cluster();
        if in_full && let Some(node) = self.m.ledger.lacking(cluster, original) {
            return Err(DraftError::TooLittleLeft { node, job });
        }
        if !alone || !self.take_free(job, original) {
            self.check(job, original, Some(original))?;
            self.m.ledger.enter(cluster, job, original);
        }
        self.m.ledger.count_resources(cluster, original, -1.0);
        let entry = &mut self.m.entries[e];
        entry.now = Now::AsBefore;
        let why = std::mem::take(&mut entry.released);
        self.m.log.push(Op::Spared {
            entry: e as u32,
            why,
        });
        Ok(())
    }

    /// Changes the assignment of a placed job in place. The backend decides whether that needs a
    /// restart.
    ///
    /// # Errors
    /// The job has no GPUs, or a new GPU is not free.
    pub fn reassign(&mut self, job: JobId, assignment: Assignment) -> Result<(), DraftError> {
        let Some(was) = self.current(job).cloned() else {
            return Err(DraftError::NotPlaced(job));
        };
        let cluster = self.view.cluster();
        self.note_others(&was);
        self.note_others(&assignment);
        self.m.ledger.leave(cluster, job, &was);
        if let Err(e) = self.check(job, &assignment, Some(&was)) {
            self.m.ledger.enter(cluster, job, &was);
            return Err(e);
        }
        let known = self.m.entry(job);
        let e = known.unwrap_or_else(|| self.m.add(job, Now::AsBefore));
        self.m.ledger.enter(cluster, job, &assignment);
        self.m.ledger.count_resources(cluster, &was, 1.0);
        self.m.ledger.count_resources(cluster, &assignment, -1.0);
        self.m.moved = true;
        self.m.off_gang = true;
        let its = self.view.job(job);
        self.m.limited |= its.is_some_and(|its| its.node_limit().is_some());
        self.m.given.push(Action::Place { job, assignment });
        let now = self.m.last_given(true);
        let was = std::mem::replace(&mut self.m.entries[e].now, now);
        self.m.log.push(Op::Reassigned {
            entry: e as u32,
            was,
        });
        Ok(())
    }

    /// Ends a job as complete because it has reached its goal.
    pub fn finish(&mut self, job: JobId, why: Reason) {
        self.m.finishes.push((job, why));
    }

    /// Sets the reason why a job waits. The first reason of a decision counts.
    pub fn explain(&mut self, job: JobId, why: Reason) {
        self.m.waits.push((job, why));
    }

    /// Sets the reason why all other jobs wait.
    pub fn explain_rest(&mut self, why: Reason) {
        self.m.otherwise = why;
    }

    /// Returns a point for [`Draft::rollback`].
    #[inline]
    pub fn savepoint(&self) -> Savepoint {
        Savepoint(self.m.log.len())
    }

    /// Undoes all changes since the savepoint.
    pub fn rollback(&mut self, to: Savepoint) {
        while self.m.log.len() > to.0 {
            let Some(op) = self.m.log.pop() else { break };
            match op {
                Op::Assigned(e) => self.take_back(e),
                Op::Released { entry, was, first } => {
                    self.put_back(entry as usize, was);
                    if first {
                        self.m.entries[entry as usize].released = 0;
                    }
                }
                Op::Spared { entry, why } => {
                    self.take_back(entry);
                    self.m.entries[entry as usize].released = why;
                }
                Op::Reassigned { entry, was } => {
                    self.take_back(entry);
                    self.put_back(entry as usize, was);
                }
            }
        }
    }

    /// Removes a job's assignment and returns it. `original` is its assignment from before the
    /// draft.
    #[inline(always)]
    fn take_away(&mut self, e: usize, original: Option<&'a Assignment>) -> Now {
        if let (Now::AsBefore, Some(a)) = (self.m.entries[e].now, original) {
            self.note_others(a);
        }
        let (cluster, m) = (self.view.cluster(), &mut *self.m);
        let entry = &mut m.entries[e];
        let job = entry.job;
        let was = std::mem::replace(&mut entry.now, Now::Nothing);
        m.moved |= matches!(was, Now::Given { .. });
        if let Some(a) = was.of(&m.given, original) {
            m.ledger.count_resources(cluster, a, 1.0);
            m.ledger.leave(cluster, job, a);
        }
        was
    }

    /// Removes a job's assignment, whatever it is.
    fn take_back(&mut self, e: u32) {
        let original = self.original(self.m.entries[e as usize].job);
        self.take_away(e as usize, original);
    }

    /// Restores an assignment of a job that has none.
    fn put_back(&mut self, e: usize, was: Now) {
        let job = self.m.entries[e].job;
        let original = self.original(job);
        let (cluster, m) = (self.view.cluster(), &mut *self.m);
        if let Some(a) = was.of(&m.given, original) {
            m.ledger.enter(cluster, job, a);
            m.ledger.count_resources(cluster, a, -1.0);
        }
        m.entries[e].now = was;
    }

    /// Returns the assignment of an entry's job in the draft.
    #[inline]
    fn its(&self, e: usize) -> Option<&Assignment> {
        let entry = &self.m.entries[e];
        match entry.now {
            Now::AsBefore => self.original(entry.job),
            now => now.of(&self.m.given, None),
        }
    }

    /// Returns the CPU cores of a node that are not allocated in the draft. Below 0 while a draft
    /// has allocated more than the node has.
    pub fn free_cpus_on(&self, node: NodeId) -> f64 {
        let free = self.view.node(node).map_or(0.0, Node::free_cpus);
        free + self.m.ledger.given_back(node)[0]
    }

    /// Returns the memory in GiB of a node that is not allocated in the draft. Below 0 while a
    /// draft has allocated more than the node has.
    pub fn free_memory_gib_on(&self, node: NodeId) -> f64 {
        let free = self.view.node(node).map_or(0.0, Node::free_memory_gib);
        free + self.m.ledger.given_back(node)[1]
    }

    /// Returns whether enough CPU cores and memory are left on a node, up to rounding errors. A
    /// node without specified capacity has enough; a node out of view has nothing.
    pub fn has_left(&self, node: NodeId, cpus: f64, memory_gib: f64) -> bool {
        let node = self.view.node(node);
        node.is_some_and(|node| self.m.ledger.has_left(node, cpus, memory_gib))
    }

    /// Returns whether an assignment of a job without GPUs is right: [`Draft::assign`] takes it, and
    /// the plan with it is not refused. So each GPU works and has room for the share, the job
    /// [accepts](JobRef::accepts) its type, and CPUs and memory are [left](Draft::has_left).
    ///
    /// The check does not read the [`Shape`]: its GPU type and place are up to the placement policy.
    /// So are the [nodes](JobRef::node_limit) on which the job must run, because the GPUs may be a
    /// part of an assignment. A plan with other nodes leaves the job waiting.
    #[inline]
    pub fn fits(&self, job: &JobRef<'_>, a: &Assignment) -> bool {
        self.check(job.id(), a, None).is_ok()
            && (!job.has_extras() || accepts_all(job.spec(), self.view.cluster(), &a.gpus))
            && self.m.ledger.lacking(self.view.cluster(), a).is_none()
    }

    /// Returns `count` free GPUs of a node, lowest first; `None` if it has fewer.
    pub fn take_from(&self, node: NodeId, count: u32) -> Option<GpuList> {
        // Checked before memory is allocated: `count` may be arbitrarily large.
        let enough = self.free_on(node) >= count;
        enough.then(|| self.free_gpus_on(node).take(count as usize).collect())
    }

    /// Adds the differences from the current state to the plan.
    /// Returns whether each assignment may be assumed to have as many GPUs as its job asks for.
    pub(crate) fn finish_into(self, plan: &mut Plan) -> bool {
        let (view, m) = (self.view, self.m);
        for op in &m.log {
            if let Op::Released {
                entry, first: true, ..
            } = op
            {
                let e = &mut m.entries[*entry as usize];
                // A job that is released, spared and released again stops only once.
                let reason = std::mem::take(&mut e.released);
                if reason > 0 {
                    e.stops = true;
                    let why = &mut m.reasons[reason as usize - 1];
                    plan.actions.extend(iter::once_with(|| Action::Stop {
                        job: e.job,
                        why: std::mem::take(why),
                    }));
                }
            }
        }
        // The last assignment of a job counts.
        let (entries, mut place) = (&m.entries, 0..);
        let entry_of = |job: JobId| &entries[m.entry_of[job.index()] as usize - 1];
        let mut stands = |action: &Action| {
            let (Action::Place { job, assignment }, Some(this)) = (action, place.next()) else {
                return false;
            };
            let entry = entry_of(*job);
            let before = || view.job(*job).and_then(|j| j.assignment());
            match entry.now {
                Now::Given { at, .. } if at != this => false,
                Now::Given { in_place, .. } => {
                    !in_place || entry.stops || before() != Some(assignment)
                }
                _ => false,
            }
        };
        if m.moved {
            m.given.retain(|action| stands(action));
        }
        if m.limited {
            limits::withdraw_others(view, m, plan);
        }
        plan.actions.append(&mut m.given);
        for (job, why) in m.finishes.drain(..) {
            plan.actions.push(Action::Finish { job, why });
        }
        plan.waits.append(&mut m.waits);
        plan.waits_by_gpus.append(&mut m.waits_by_gpus);
        plan.otherwise = std::mem::replace(&mut m.otherwise, Reason::NotChosen);
        let all_gangs = !m.off_gang;
        m.clear();
        all_gangs
    }

    #[inline]
    fn mask(&self, node: NodeId) -> u64 {
        if self.hidden == 0 && self.view.virtual_cluster().is_none() {
            return self.m.ledger.mask(node);
        }
        let shown = self.view.node(node).filter(|node| self.shows(node));
        shown.map_or(0, |node| self.m.ledger.mask(node.id()))
    }

    /// Checks an assignment. `was` is the job's current or previous assignment: the job may stay
    /// there even if the node takes no new jobs.
    fn check(
        &self,
        job: JobId,
        a: &Assignment,
        was: Option<&Assignment>,
    ) -> Result<(), DraftError> {
        if a.gpus.is_empty() {
            return Err(DraftError::NoGpu(job));
        }
        for (i, &gpu) in a.gpus.iter().enumerate() {
            let twice = a.gpus[..i].contains(&gpu);
            if twice || !(self.is_free(gpu) || self.stays_or_shares(job, gpu, a, was)) {
                return Err(DraftError::NotFree { gpu, job });
            }
        }
        Ok(())
    }

    /// Returns whether a job may have a GPU that is not free.
    fn stays_or_shares(
        &self,
        job: JobId,
        gpu: GpuId,
        a: &Assignment,
        was: Option<&Assignment>,
    ) -> bool {
        let takes_new = self.takes_new(gpu);
        let several = self.m.ledger.records_claims() || self.view.cluster().has_several(gpu);
        let refused = a.share.is_whole() && takes_new && !several;
        if refused || !(takes_new || self.may_stay(gpu, a, was)) {
            return false;
        }
        let Some(used) = self.claims(gpu).used_by_others(job) else {
            // If the node takes no new jobs, no other job can have taken the GPU.
            return !takes_new;
        };
        let in_view = |node: &Node| self.view.node(node.id()).is_some();
        let node = self.view.cluster().node_with(gpu).filter(|n| in_view(n));
        node.is_some() && used.has_room(a.share)
    }

    /// Takes the GPUs of an assignment. Returns false and changes nothing unless all are in view
    /// and free.
    #[inline]
    fn take_free(&mut self, job: JobId, a: &Assignment) -> bool {
        let cluster = self.view.cluster();
        let covers = |g: &GpuId| {
            let node = cluster.node_of(*g);
            node.is_some_and(|n| self.view.node(n).is_some())
        };
        let in_view = self.view.virtual_cluster().is_none() || a.gpus.iter().all(covers);
        let taken = !a.gpus.is_empty() && in_view && self.m.ledger.take(cluster, &a.gpus);
        if taken {
            self.m.ledger.record(cluster, job, a, true);
        }
        taken
    }

    /// Returns whether a job with the assignment `was` may keep a GPU in `a`. If the node is lost,
    /// a pending launch can only be withdrawn or stay unchanged.
    fn may_stay(&self, gpu: GpuId, a: &Assignment, was: Option<&Assignment>) -> bool {
        let cluster = self.view.cluster();
        let up = || {
            let node = cluster.node_with(gpu);
            node.is_some_and(|n| n.status() == NodeStatus::Up)
        };
        was.is_some_and(|w| w.gpus.contains(&gpu) && (w == a || up()))
    }

    /// Returns whether a GPU is in view and free.
    #[inline]
    fn is_free(&self, gpu: GpuId) -> bool {
        let node = self.view.cluster().node_with(gpu);
        node.is_some_and(|n| self.mask(n.id()) >> (gpu.0 - n.first_gpu) & 1 == 1)
    }

    #[inline]
    fn takes_new(&self, gpu: GpuId) -> bool {
        let node = self.view.cluster().node_with(gpu);
        node.is_some_and(|n| n.is_usable() && n.works(gpu))
    }

    /// Records the claims on each GPU from now on if an assignment has parts of GPUs.
    #[inline(always)]
    fn note_sharing(&mut self, a: &Assignment) {
        if !a.share.is_whole() && !self.m.ledger.records_claims() {
            self.record_claims();
        }
    }

    /// Records the claims on each GPU from now on if a job that has or leaves GPUs is not alone on them.
    #[inline]
    fn note_others(&mut self, a: &Assignment) {
        if !self.m.ledger.records_claims() && !self.is_alone(a) {
            self.record_claims();
        }
    }

    /// Returns whether a job has GPUs whole, and no other job has a part of them.
    #[inline]
    fn is_alone(&self, a: &Assignment) -> bool {
        let cluster = self.view.cluster();
        a.share.is_whole() && !a.gpus.iter().any(|gpu| cluster.has_several(*gpu))
    }

    #[cold]
    fn record_claims(&mut self) {
        let (view, m) = (self.view, &mut *self.m);
        let cluster = view.cluster();
        m.ledger.record_claims();
        for entry in &m.entries {
            if matches!(entry.now, Now::AsBefore) {
                continue;
            }
            let before = view.job(entry.job).and_then(|job| job.assignment());
            if let Some(a) = before {
                m.ledger.record(cluster, entry.job, a, false);
            }
            if let Some(a) = entry.now.of(&m.given, None) {
                m.ledger.record(cluster, entry.job, a, true);
            }
        }
    }

    /// Returns the claims on a GPU in the draft.
    fn claims(&self, gpu: GpuId) -> Cow<'_, Claims> {
        let cluster = self.view.cluster();
        if let Some(claims) = self.m.ledger.claims_on(cluster, gpu) {
            return claims;
        }
        let share = |e: usize| {
            let its = self.its(e).filter(|a| a.gpus.contains(&gpu));
            its.map(|a| a.share)
        };
        let mut claims = Claims::NONE;
        for (job, before) in cluster.allocated_claims(gpu).iter() {
            // A job may be out of view.
            let now = self.m.entry(job).map_or(Some(before), share);
            if let Some(now) = now {
                claims.add(job, now);
            }
        }
        if claims.is_empty()
            && let Some((e, share)) = (0..self.m.entries.len()).find_map(|e| Some((e, share(e)?)))
        {
            claims.add(self.m.entries[e].job, share);
        }
        Cow::Owned(claims)
    }

    /// Returns the job's assignment from before the draft.
    #[inline]
    fn original(&self, job: JobId) -> Option<&'a Assignment> {
        self.view.job(job).and_then(|j| j.assignment())
    }
}

const EMPTY_PLACE: Action = Action::Place {
    job: JobId(0),
    assignment: Assignment::NONE,
};

/// Returns whether a job waits, or is placed or stopping.
fn can_be_placed(job: &JobRef<'_>) -> bool {
    matches!(
        job.phase(),
        Phase::Waiting | Phase::Starting | Phase::Running | Phase::Stopping
    )
}
