//! What a policy sees.

use crate::cluster::{Cluster, Node, NodeStatus};
use crate::event::Event;
use crate::ids::{JobId, NameId, Names, NodeId};
use crate::job::{JobRef, Phase, Record};
use crate::lens::Lens;
use crate::reason::Reason;
use crate::state::State;
use crate::state::live::JobSet;
use crate::units::{GpuCount, Time};

/// The state as a policy sees it at one moment. Everything in it was journaled;
/// nothing in it depends on a clock or on the order of a hash table. All lists
/// of jobs are in order of submission.
#[derive(Clone, Copy)]
pub struct View<'a> {
    state: &'a State,
    /// A view is passed on by value everywhere, and two plain words go in registers.
    lens: Option<&'a Lens>,
}

impl<'a> View<'a> {
    /// All of a state.
    #[inline]
    pub fn of(state: &'a State) -> Self {
        View { state, lens: None }
    }

    /// A state through the changes of a decision in the making.
    #[inline]
    pub(crate) fn of_changed(state: &'a State, lens: &'a Lens) -> Self {
        match lens.is_clear() {
            true => View::of(state),
            false => View::of(state).through(lens),
        }
    }

    /// Returns a lens for [`View::through`] that shows only the jobs of one virtual cluster and
    /// the nodes of the partition of that name.
    pub fn narrowed(&self, name: NameId) -> Lens {
        self.lens.unwrap_or(&Lens::default()).narrowed(name)
    }

    /// The view through a lens.
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

    /// The virtual cluster that it is narrowed to, if it is.
    #[inline]
    pub fn virtual_cluster(&self) -> Option<NameId> {
        self.lens.and_then(Lens::scope)
    }

    /// The moment.
    #[inline]
    pub fn now(&self) -> Time {
        self.state.now
    }

    /// Returns how many events the state has taken.
    #[inline]
    pub fn version(&self) -> u64 {
        match self.lens {
            None => self.state.version,
            Some(lens) => lens.version(self.state),
        }
    }

    /// The number that the next submission gets.
    #[inline]
    pub fn next_job_id(&self) -> JobId {
        self.state.next_job_id()
    }

    /// The number of this decision, for memories that follow from one decision
    /// to the next: one more than the last, and two more after a turn was lost.
    #[inline]
    pub fn decision(&self) -> u64 {
        self.state.decision
    }

    /// A job, if it is live (or ended in the event being observed) and in view.
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
        // Admission answers about no others.
        let rec = match rec.phase {
            Phase::Submitted | Phase::Deferred => lens.record(rec)?,
            _ => rec,
        };
        let now = self.state.now;
        Some(JobRef { rec, now }).filter(|j| self.shows(j))
    }

    /// Jobs that may run and hold nothing.
    pub fn waiting(&self) -> impl Iterator<Item = JobRef<'a>> + use<'a> {
        self.list(&self.state.waiting, self.lens.map_or(&[], Lens::accepted))
    }

    /// Jobs that admission, or a user, holds back. Admission's word about a job
    /// that a user holds does not count.
    pub fn deferred(&self) -> impl Iterator<Item = JobRef<'a>> + use<'a> {
        // Admission may have answered in this very decision.
        self.list(&self.state.deferred, self.lens.map_or(&[], Lens::deferred))
            .filter(|j| j.phase() == Phase::Deferred)
    }

    /// Deferred jobs that admission may let in: no user holds them back.
    pub fn admissible(&self) -> impl Iterator<Item = JobRef<'a>> + use<'a> {
        self.deferred()
            .filter(|j| *j.reason() != Reason::HeldByUser)
    }

    /// Jobs that are starting, running or stopping.
    pub fn placed(&self) -> impl Iterator<Item = JobRef<'a>> + use<'a> {
        self.list(&self.state.placed, &[])
    }

    /// Jobs that are running.
    pub fn running(&self) -> impl Iterator<Item = JobRef<'a>> + use<'a> {
        self.placed().filter(|j| j.phase() == Phase::Running)
    }

    /// Jobs that wait or are placed: all that a scheduling policy decides about.
    pub fn active(&self) -> impl Iterator<Item = JobRef<'a>> + use<'a> {
        let mut waiting = self.waiting().peekable();
        let mut placed = self.placed().peekable();
        std::iter::from_fn(move || match (waiting.peek(), placed.peek()) {
            (Some(w), Some(p)) if w.id() < p.id() => waiting.next(),
            (_, Some(_)) => placed.next(),
            (_, None) => waiting.next(),
        })
    }

    /// Returns how many jobs are in a phase, over all virtual clusters.
    #[inline]
    pub fn count(&self, phase: Phase) -> u32 {
        let changed = self.lens.and_then(|lens| lens.count(phase));
        changed.unwrap_or_else(|| self.state.count(phase))
    }

    /// Returns how many jobs wait, over all virtual clusters.
    #[inline]
    pub fn waiting_count(&self) -> u32 {
        self.count(Phase::Waiting)
    }

    /// Returns how many jobs are deferred, over all virtual clusters.
    #[inline]
    pub fn deferred_count(&self) -> u32 {
        self.count(Phase::Deferred)
    }

    /// Returns how many jobs are starting, running or stopping, over all virtual clusters.
    #[inline]
    pub fn placed_count(&self) -> u32 {
        self.state.count(Phase::Starting)
            + self.state.count(Phase::Running)
            + self.state.count(Phase::Stopping)
    }

    /// Jobs whose phase, progress, batch or metrics changed since the last
    /// decision, by other means than the mere passing of time; each once, in
    /// order of the first change. Those that have ended are left out.
    pub fn touched(&self) -> impl Iterator<Item = JobRef<'a>> + use<'a> {
        let view = *self;
        self.touched_ids()
            .filter_map(move |id| view.job(id))
            .filter(|j| j.phase() != Phase::Ended)
    }

    /// All jobs that were touched since the last decision, those that have ended too.
    #[inline]
    pub(crate) fn touched_ids(&self) -> impl Iterator<Item = JobId> + use<'a> {
        let more = self.lens.map_or(&[][..], Lens::touched);
        self.state.touched.iter().chain(more).copied()
    }

    /// GPUs asked for by all waiting and placed jobs in view.
    #[inline]
    pub fn demand(&self) -> u64 {
        let of = self.virtual_cluster();
        if let Some(changed) = self.lens.and_then(|lens| lens.demand(of)) {
            return changed;
        }
        match of {
            None => self.state.demand(),
            Some(vc) => self.state.demand_of(vc),
        }
    }

    /// Nodes and ledgers, whether in view or not.
    #[inline]
    pub fn cluster(&self) -> &'a Cluster {
        match self.lens.and_then(Lens::cluster) {
            None => self.state.cluster(),
            Some((cluster, _)) => cluster,
        }
    }

    /// A node, if it is in view.
    #[inline]
    pub fn node(&self, id: NodeId) -> Option<&'a Node> {
        self.cluster().node(id).filter(|n| self.covers(n))
    }

    /// The nodes in view, in order of registration.
    pub fn nodes(&self) -> impl Iterator<Item = &'a Node> + use<'a> {
        let view = *self;
        self.cluster()
            .nodes()
            .iter()
            .filter(move |n| view.covers(n))
    }

    /// GPUs in view that may be used, promised ones included.
    #[inline]
    pub fn usable_gpus(&self) -> GpuCount {
        GpuCount(match self.virtual_cluster() {
            None => self.cluster().usable_gpus(),
            Some(_) => self.nodes().map(Node::usable_count).sum(),
        })
    }

    /// GPUs of all nodes in view that have not left, whether usable now or not.
    #[inline]
    pub fn installed_gpus(&self) -> GpuCount {
        GpuCount(match self.virtual_cluster() {
            None => self.cluster().installed_gpus(),
            Some(_) => self
                .nodes()
                .filter(|n| n.status() != NodeStatus::Left)
                .map(Node::gpu_count)
                .sum(),
        })
    }

    /// GPUs in view that may be used and are promised to nobody.
    #[inline]
    pub fn free_gpus(&self) -> GpuCount {
        GpuCount(match self.virtual_cluster() {
            None => self.cluster().free_gpus(),
            Some(_) => self.nodes().map(Node::free_count).sum(),
        })
    }

    /// GPUs on which at least one job runs, whether in view or not.
    #[inline]
    pub fn busy_gpus(&self) -> GpuCount {
        GpuCount(self.state.busy_gpus())
    }

    /// Names of users, virtual clusters and partitions.
    pub fn names(&self) -> &'a Names {
        match self.lens.and_then(Lens::cluster) {
            None => self.state.names(),
            Some((_, names)) => names,
        }
    }

    /// Returns a state of its own that is as this view shows it, whatever it is narrowed to: for
    /// parts that look ahead.
    pub fn to_state(&self) -> State {
        let mut state = self.state.clone();
        let moment = state.next_moment.max(state.now);
        for event in self.lens.map_or(&[][..], Lens::own) {
            // The lens took it from this very state.
            let _ = state.apply_own(event, state.version, moment);
            if let Event::Judged { job, .. } = event {
                state.retire(*job);
            }
        }
        state
    }

    /// Has a job's record brought near ahead of its use.
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

    /// The jobs of a set and of a sorted list, which has none of the set.
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
