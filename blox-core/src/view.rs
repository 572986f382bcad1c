//! What a policy sees.

use crate::cluster::{Cluster, Node, NodeStatus};
use crate::ids::{JobId, NameId, Names, NodeId};
use crate::job::{JobRef, Phase};
use crate::reason::Reason;
use crate::state::State;
use crate::units::{GpuCount, Time};
use fixedbitset::FixedBitSet;

/// The state as a policy sees it at one moment. Everything in it was journaled;
/// nothing in it depends on a clock or on the order of a hash table. All lists
/// of jobs are in order of submission.
#[derive(Clone, Copy)]
pub struct View<'a> {
    state: &'a State,
    /// The number of a virtual cluster's name, or `ALL`: a view is passed on by value
    /// everywhere, and two plain words go in registers.
    scope: u32,
}

const ALL: u32 = u32::MAX;

impl<'a> View<'a> {
    /// All of a state.
    #[inline]
    pub fn of(state: &'a State) -> Self {
        View { state, scope: ALL }
    }

    /// Only the jobs of one virtual cluster and the nodes of the partition of that name.
    #[must_use]
    pub fn of_virtual_cluster(self, name: NameId) -> Self {
        View {
            state: self.state,
            scope: name.0,
        }
    }

    /// The virtual cluster that it is narrowed to, if it is.
    #[inline]
    pub fn virtual_cluster(&self) -> Option<NameId> {
        (self.scope != ALL).then_some(NameId(self.scope))
    }

    /// The moment.
    #[inline]
    pub fn now(&self) -> Time {
        self.state.now
    }

    /// How many events the state has taken.
    #[inline]
    pub fn version(&self) -> u64 {
        self.state.version
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
        self.state.job(id).filter(|j| self.shows(j))
    }

    /// Jobs that may run and hold nothing.
    pub fn waiting(&self) -> impl Iterator<Item = JobRef<'a>> + use<'a> {
        self.list(&self.state.waiting)
    }

    /// Jobs that admission, or a user, holds back. Admission's word about a job
    /// that a user holds does not count.
    pub fn deferred(&self) -> impl Iterator<Item = JobRef<'a>> + use<'a> {
        self.list(&self.state.deferred)
    }

    /// Deferred jobs that admission may let in: no user holds them back.
    pub fn admissible(&self) -> impl Iterator<Item = JobRef<'a>> + use<'a> {
        self.deferred()
            .filter(|j| *j.reason() != Reason::HeldByUser)
    }

    /// Jobs that are starting, running or stopping.
    pub fn placed(&self) -> impl Iterator<Item = JobRef<'a>> + use<'a> {
        self.list(&self.state.placed)
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

    /// How many jobs wait, over all virtual clusters.
    #[inline]
    pub fn waiting_count(&self) -> u32 {
        self.state.count(Phase::Waiting)
    }

    /// How many jobs are deferred, over all virtual clusters.
    #[inline]
    pub fn deferred_count(&self) -> u32 {
        self.state.count(Phase::Deferred)
    }

    /// How many jobs are starting, running or stopping, over all virtual clusters.
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
        self.state
            .touched
            .iter()
            .filter_map(move |id| view.job(*id))
            .filter(|j| j.phase() != Phase::Ended)
    }

    /// GPUs asked for by all waiting and placed jobs in view.
    #[inline]
    pub fn demand(&self) -> u64 {
        match self.virtual_cluster() {
            None => self.state.demand(),
            Some(vc) => self.state.demand_of(vc),
        }
    }

    /// Nodes and ledgers, whether in view or not.
    #[inline]
    pub fn cluster(&self) -> &'a Cluster {
        self.state.cluster()
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
        self.state.names()
    }

    /// The state behind it, for parts that simulate ahead.
    pub fn state(&self) -> &'a State {
        self.state
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

    fn list(&self, set: &'a FixedBitSet) -> impl Iterator<Item = JobRef<'a>> + use<'a> {
        let view = *self;
        set.ones().filter_map(move |i| view.job(JobId(i as u32)))
    }
}
