//! View: the state as shown to policies.

use crate::cluster::{Cluster, Node};
use crate::event::Event;
use crate::ids::{JobId, NameId, Names, NodeId};
use crate::job::{JobRef, Phase, Record, Witness};
use crate::lens::Lens;
use crate::model::share::Gpus;
use crate::reason::Reason;
use crate::state::State;
use crate::state::live::JobSet;
use crate::units::{GpuCount, Time};

/// The state at one moment, as shown to a policy. All its data was journaled: nothing depends on a
/// clock or on the order of a hash table. All lists of jobs are in order of submission.
#[derive(Clone, Copy)]
pub struct View<'a> {
    state: &'a State,
    /// A reference: views are passed by value everywhere, and two plain words fit in registers.
    lens: Option<&'a Lens>,
}

impl<'a> View<'a> {
    /// Creates a view of a complete state.
    #[inline]
    pub fn of(state: &'a State) -> Self {
        View { state, lens: None }
    }

    /// Creates a view of a state with the changes of an unfinished decision.
    #[inline]
    pub(crate) fn of_changed(state: &'a State, lens: &'a Lens) -> Self {
        match lens.is_clear() {
            true => View::of(state),
            false => View::of(state).through(lens),
        }
    }

    /// Returns a lens for [`View::through`] that shows only the jobs of one virtual cluster and the
    /// nodes of the partition with that name.
    pub fn narrowed(&self, name: NameId) -> Lens {
        self.lens.unwrap_or(&Lens::default()).narrowed(name)
    }

    /// Returns the view through a lens.
    #[must_use]
    #[inline]
    pub fn through<'b>(self, lens: &'b Lens) -> View<'b>
    where
        'a: 'b,
    {
        let lens = Some(lens);
        View {
            state: self.state,
            lens,
        }
    }

    /// Returns the virtual cluster that the view is narrowed to, if any.
    #[inline]
    pub fn virtual_cluster(&self) -> Option<NameId> {
        self.lens.and_then(|lens| lens.scope)
    }

    /// Returns the moment of the view.
    #[inline]
    pub fn now(&self) -> Time {
        self.state.now
    }

    /// Returns the number of events that the state has accepted.
    #[inline]
    pub fn version(&self) -> u64 {
        match self.lens {
            None => self.state.version,
            Some(lens) => lens.version(self.state),
        }
    }

    /// Returns the number that the next submitted job gets.
    #[inline]
    pub fn next_job_id(&self) -> JobId {
        self.state.next_job_id()
    }

    /// Returns the number of this decision, for memories that depend on consecutive decisions. It
    /// rises by one, or by two after a failed decision.
    #[inline]
    pub fn decision(&self) -> u64 {
        self.state.decision
    }

    /// Returns a job if it is in view and live (or ended in the observed event).
    #[inline]
    pub fn job(&self, id: JobId) -> Option<JobRef<'a>> {
        let rec = self.state.record(id)?;
        let now = self.state.now;
        let Some(lens) = self.lens else {
            return Some(JobRef { rec, now });
        };
        self.through_lens(lens, rec)
    }

    fn through_lens(&self, lens: &'a Lens, rec: &'a Record) -> Option<JobRef<'a>> {
        // Admission decides about no other jobs.
        let rec = match rec.phase {
            Phase::Submitted | Phase::Deferred => lens.record(rec)?,
            _ => rec,
        };
        let now = self.state.now;
        Some(JobRef { rec, now }).filter(|j| self.shows(j))
    }

    /// Returns the jobs that may run and have no GPUs.
    pub fn waiting(&self) -> impl Iterator<Item = JobRef<'a>> + use<'a> {
        let accepted = self.lens.map_or(&[][..], |lens| &lens.accepted[..]);
        self.list(&self.state.waiting, accepted)
    }

    /// Returns the jobs that admission or a user holds back. Admission decisions about jobs that a
    /// user holds have no effect.
    pub fn deferred(&self) -> impl Iterator<Item = JobRef<'a>> + use<'a> {
        // Admission may have decided about it in this decision.
        let deferred = self.lens.map_or(&[][..], |lens| &lens.deferred[..]);
        let all = self.list(&self.state.deferred, deferred);
        all.filter(|j| j.phase() == Phase::Deferred)
    }

    /// Returns the deferred jobs that admission may accept: no user holds them back.
    pub fn admissible(&self) -> impl Iterator<Item = JobRef<'a>> + use<'a> {
        self.deferred()
            .filter(|j| *j.reason() != Reason::HeldByUser)
    }

    /// Returns the jobs on which admission has not decided. Only a cluster manager sees such jobs, as
    /// it acts before admission.
    pub fn submitted(&self) -> impl Iterator<Item = JobRef<'a>> + use<'a> {
        let view = *self;
        let asking = self.state.asking.iter();
        let jobs = asking.filter_map(move |id| view.job(*id));
        jobs.filter(|job| job.phase() == Phase::Submitted)
    }

    /// Returns the jobs that are starting, running or stopping.
    pub fn placed(&self) -> impl Iterator<Item = JobRef<'a>> + use<'a> {
        self.list(&self.state.placed, &[])
    }

    /// Returns the running jobs.
    pub fn running(&self) -> impl Iterator<Item = JobRef<'a>> + use<'a> {
        self.placed().filter(|j| j.phase() == Phase::Running)
    }

    /// Returns all waiting and placed jobs: the jobs that a scheduling policy decides about.
    pub fn active(&self) -> impl Iterator<Item = JobRef<'a>> + use<'a> {
        let mut waiting = self.waiting().peekable();
        let mut placed = self.placed().peekable();
        std::iter::from_fn(move || match (waiting.peek(), placed.peek()) {
            (Some(w), Some(p)) if w.id() < p.id() => waiting.next(),
            (_, Some(_)) => placed.next(),
            (_, None) => waiting.next(),
        })
    }

    /// Returns the live services and jobs with a notice in view.
    #[inline]
    pub(crate) fn timed(&self) -> impl Iterator<Item = JobRef<'a>> + use<'a> {
        let view = *self;
        let timed = self.state.timed.iter();
        timed.filter_map(move |id| view.job(*id))
    }

    /// Returns the number of jobs in a phase, over all virtual clusters.
    #[inline]
    pub fn count(&self, phase: Phase) -> u32 {
        let changed = self.lens.and_then(|lens| lens.count(phase));
        changed.unwrap_or_else(|| self.state.count(phase))
    }

    /// Returns the number of waiting jobs, over all virtual clusters.
    #[inline]
    pub fn waiting_count(&self) -> u32 {
        self.count(Phase::Waiting)
    }

    /// Returns the number of deferred jobs, over all virtual clusters.
    #[inline]
    pub fn deferred_count(&self) -> u32 {
        self.count(Phase::Deferred)
    }

    /// Returns the number of starting, running and stopping jobs, over all virtual clusters.
    #[inline]
    pub fn placed_count(&self) -> u32 {
        self.state.count(Phase::Starting)
            + self.state.count(Phase::Running)
            + self.state.count(Phase::Stopping)
    }

    /// Returns the jobs whose phase, progress, batch or metrics changed since the last decision,
    /// except by the passing of time. Each occurs once, in order of its first change. Ended jobs
    /// are left out.
    pub fn touched(&self) -> impl Iterator<Item = JobRef<'a>> + use<'a> {
        let view = *self;
        self.touched_ids()
            .filter_map(move |id| view.job(id))
            .filter(|j| j.phase() != Phase::Ended)
    }

    /// Returns all jobs touched since the last decision, including ended ones.
    #[inline]
    pub(crate) fn touched_ids(&self) -> impl Iterator<Item = JobId> + use<'a> {
        let more = self.lens.map_or(&[][..], |lens| &lens.touched[..]);
        self.state.touched.iter().chain(more).copied()
    }

    /// Returns the total amount of GPUs requested by waiting and placed jobs in view.
    #[inline]
    pub fn demand(&self) -> Gpus {
        let of = self.virtual_cluster();
        if let Some(changed) = self.lens.and_then(|lens| lens.demand(of)) {
            return changed;
        }
        match of {
            None => self.state.demand(),
            Some(vc) => self.state.demand_of(vc),
        }
    }

    /// Returns the nodes and ledgers, whether in view or not.
    #[inline]
    pub fn cluster(&self) -> &'a Cluster {
        match self.lens.and_then(Lens::cluster) {
            None => self.state.cluster(),
            Some((cluster, _)) => cluster,
        }
    }

    /// Returns a node if it is in view.
    #[inline]
    pub fn node(&self, id: NodeId) -> Option<&'a Node> {
        self.cluster().node(id).filter(|n| self.covers(n))
    }

    /// Returns the nodes in view, in order of registration.
    pub fn nodes(&self) -> impl Iterator<Item = &'a Node> + Clone + use<'a> {
        let view = *self;
        self.cluster()
            .nodes()
            .iter()
            .filter(move |n| view.covers(n))
    }

    /// Returns the number of usable GPUs in view, allocated ones included.
    #[inline]
    pub fn usable_gpus(&self) -> GpuCount {
        self.gpus(Cluster::usable_gpus, Node::usable_count)
    }

    /// Returns the number of GPUs of all nodes in view that have not left, usable or not.
    #[inline]
    pub fn installed_gpus(&self) -> GpuCount {
        self.gpus(Cluster::installed_gpus, Node::installed)
    }

    /// Returns the number of free GPUs in view: usable and not allocated.
    #[inline]
    pub fn free_gpus(&self) -> GpuCount {
        self.gpus(Cluster::free_gpus, Node::free_count)
    }

    #[inline]
    fn gpus(&self, all: fn(&Cluster) -> u32, on: fn(&Node) -> u32) -> GpuCount {
        GpuCount(match self.virtual_cluster() {
            None => all(self.cluster()),
            Some(_) => self.nodes().map(on).sum(),
        })
    }

    /// Returns the number of GPUs with at least one running job, whether in view or not.
    #[inline]
    pub fn busy_gpus(&self) -> GpuCount {
        GpuCount(self.state.busy_gpus())
    }

    /// Returns the amount of GPUs that running jobs have, whether in view or not: the sum of their
    /// parts, at most 1 a GPU.
    pub fn used_gpus(&self) -> Gpus {
        self.state.used_gpus()
    }

    /// Returns the names of users, virtual clusters and partitions.
    pub fn names(&self) -> &'a Names {
        match self.lens.and_then(Lens::cluster) {
            None => self.state.names(),
            Some((_, names)) => names,
        }
    }

    /// Returns an independent state with the changes that this view shows, whatever the view is
    /// narrowed to. Used for forecasts.
    pub fn to_state(&self) -> State {
        let mut state = self.state.clone();
        let moment = state.next_moment.max(state.now);
        for event in self.lens.map_or(&[][..], |lens| &lens.own[..]) {
            // The lens was made from this state.
            let _ = state.apply_own(event, state.version, moment);
            if let Event::AdmissionDecided { job, .. } = event {
                state.retire(*job);
            }
        }
        state
    }

    #[inline]
    pub(crate) fn witness(&self) -> &'a Witness {
        &self.state.witness
    }

    /// Prefetches the record of a job.
    #[inline]
    pub(crate) fn fetch_ahead(&self, id: JobId) {
        self.state.fetch_ahead(id);
    }

    #[inline]
    pub(crate) fn covers(&self, node: &Node) -> bool {
        match self.virtual_cluster() {
            None => true,
            Some(vc) => node.partition().is_none_or(|p| p == vc),
        }
    }

    #[inline]
    fn shows(&self, job: &JobRef<'a>) -> bool {
        match self.virtual_cluster() {
            None => true,
            Some(vc) => job.virtual_cluster() == Some(vc),
        }
    }

    /// Returns the jobs of a set and of a sorted list. The list has no job of the set.
    fn list(
        &self,
        set: &'a JobSet,
        more: &'a [JobId],
    ) -> impl Iterator<Item = JobRef<'a>> + use<'a> {
        let view = *self;
        let mut more = more.iter().copied().peekable();
        let mut ids = set.iter().peekable();
        let merged = std::iter::from_fn(move || {
            let Some(next) = more.peek() else {
                return ids.next();
            };
            match ids.peek() {
                Some(id) if id < next => ids.next(),
                _ => more.next(),
            }
        });
        merged.filter_map(move |id| view.job(id))
    }
}
