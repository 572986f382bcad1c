//! Schedulers that are composed of four policies and a trigger.

pub use crate::decide_error::{DecisionError, MissingData};

use crate::assignment::Assignment;
use crate::cluster::{Drain, Node, NodeStatus, Wanted};
use crate::decide_error::{Answer, DraftError, StatementError};
use crate::decision::{
    Action, AdmissionDecisions, AfterDrain, NodeAction, NodeActionKind, NodeActionKinds,
    NodeActions, Plan, Validity,
};
use crate::draft::{Draft, DraftMemory};
use crate::event::Event;
use crate::feasibility::{self, Feasibility};
use crate::ids::{JobId, Name};
use crate::job::spec::{JobSpec, Submission, Work};
use crate::job::{JobRef, Phase};
use crate::policy::{
    AcceptAll, AdmissionPolicy, AnyAdmission, AnyClusterManager, AnyMemory, AnyPlacement,
    AnyPolicy, AnyScheduling, ClusterManager, Memory, MemoryError, PlacementPolicy, Policy,
    SchedulingPolicy, StaticCluster,
};
use crate::queue::{JobQueue, PlaceRule, Request};
use crate::reason::Reason;
use crate::room::Room;
use crate::runtime::fitting;
use crate::trigger::{DecisionTrigger, Rounds};
use crate::units::Seconds;
use crate::view::View;
use dyn_clone::DynClone;
use serde_json::{Value, json};
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A complete scheduler with the memory of its policies. Build a [`Pipeline`] from policies.
/// Implement this trait only for schedulers that replace or combine whole pipelines.
///
/// ```
/// use blox_core::{AdmissionDecisions, DecisionError, JobId, NodeActions, Pipeline, Plan};
/// use blox_core::{Scheduler, Time, Validity, View};
///
/// /// Starts no job before a time.
/// #[derive(Clone)]
/// struct NotBefore(Time, Pipeline);
///
/// impl Scheduler for NotBefore {
///     fn name(&self) -> &str {
///         self.1.name()
///     }
///
///     fn manage(&mut self, view: View<'_>, out: &mut NodeActions) -> Validity {
///         self.1.manage(view, out)
///     }
///
///     fn admit(&mut self, view: View<'_>, jobs: &[JobId], out: &mut AdmissionDecisions) -> Validity {
///         self.1.admit(view, jobs, out)
///     }
///
///     fn plan(&mut self, view: View<'_>, out: &mut Plan) -> Result<Validity, DecisionError> {
///         if view.now() < self.0 {
///             return Ok(Validity::Until(self.0));
///         }
///         self.1.plan(view, out)
///     }
///     // Forward on_event, on_launches, save, remembers and restore in the same way.
/// }
/// # use blox_core::{ClusterSpec, Composition, State, order::SortKey, policy::by_key};
/// #
/// # let fifo = Composition::new("fifo").scheduling(by_key(|_| SortKey::by(0.0)));
/// # let fifo = fifo.placement(blox_testing::FirstFit).build()?;
/// # let state = State::new(&ClusterSpec::uniform(1, 4))?;
/// let mut later = NotBefore(Time::new(60.0), fifo);
/// assert_eq!(later.plan(View::of(&state), &mut Plan::default())?, Validity::Until(Time::new(60.0)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Scheduler: Send + DynClone {
    /// Returns the name for messages.
    fn name(&self) -> &str;

    /// Adds actions on nodes to `out`, and returns how long they stay valid.
    fn manage(&mut self, view: View<'_>, out: &mut NodeActions) -> Validity;

    /// Returns the node actions that need a provider and that the scheduler uses; see
    /// [`ClusterManager::actions`].
    fn actions(&self) -> NodeActionKinds {
        NodeActionKinds::NONE
    }

    /// Adds admission decisions about the jobs in `asking` to `out`, and returns how long they stay
    /// valid.
    fn admit(&mut self, view: View<'_>, asking: &[JobId], out: &mut AdmissionDecisions)
    -> Validity;

    /// Writes the allocation of GPUs to jobs into `out`, and returns how long it stays valid.
    ///
    /// # Errors
    /// A policy has no answer, or the plan is not what the requests ask for.
    fn plan(&mut self, view: View<'_>, out: &mut Plan) -> Result<Validity, DecisionError>;

    /// See [`Policy::on_event`].
    fn on_event(&mut self, view: View<'_>, event: &Event) {
        let _ = (view, event);
    }

    /// See [`Policy::on_launches`].
    fn on_launches(&mut self, view: View<'_>, plan: &Plan) {
        let _ = (view, plan);
    }

    /// Returns the memory of the scheduler, or `None` if it has none.
    ///
    /// # Errors
    /// The memory of a policy cannot be saved.
    fn save(&self) -> Result<Option<Value>, MemoryError> {
        Ok(None)
    }

    /// Returns whether the scheduler has memory. If it has none, [`Scheduler::save`] returns `None`.
    fn remembers(&self) -> bool {
        true
    }

    /// Restores what [`Scheduler::save`] returned.
    ///
    /// # Errors
    /// The memory is not from this scheduler.
    fn restore(&mut self, saved: Value) -> Result<(), MemoryError> {
        Err(MemoryError::Restore(format!(
            "found {}, but `{}` remembers nothing",
            crate::policy::start_of(&saved),
            self.name()
        )))
    }

    /// Returns the type of each policy, by its roles. A policy with memory has the same name in
    /// [`Scheduler::save`].
    fn parts(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// Takes over a cluster from another scheduler with these `parts` and this memory.
    ///
    /// A part with the same policy keeps its memory if it can be restored. Every other part starts
    /// anew: it receives the submission of each live job.
    fn take_over(
        &mut self,
        view: View<'_>,
        saved: Option<Value>,
        parts: &BTreeMap<String, String>,
    ) -> TakenOver {
        let _ = (saved, parts);
        if !self.remembers() {
            return TakenOver::default();
        }
        for event in submissions(view) {
            self.on_event(view, &event);
        }
        TakenOver {
            anew: vec![self.name().to_owned()],
            ..TakenOver::default()
        }
    }

    /// Returns the list of requests in the last [`Scheduler::plan`], for tests. The list is empty if
    /// the scheduler has no scheduling policy, or if this policy keeps an order.
    fn requested(&self) -> &[Request] {
        &[]
    }
}
dyn_clone::clone_trait_object!(Scheduler);

/// Parts of a scheduler that took over a cluster, without those that save nothing
/// ([`Scheduler::take_over`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TakenOver {
    /// Parts that have the memory of the earlier scheduler.
    pub kept: Vec<String>,
    /// Parts that start anew.
    pub anew: Vec<String>,
}

/// Role of a policy in a composition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// The policy manages the cluster.
    Cluster,
    /// The policy admits jobs.
    Admission,
    /// The policy orders jobs.
    Scheduling,
    /// The policy places jobs.
    Placement,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Cluster => "cluster",
            Role::Admission => "admission",
            Role::Scheduling => "scheduling",
            Role::Placement => "placement",
        })
    }
}

/// Error for policies that do not form a scheduler.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ComposeError {
    /// Two policies take the same role.
    #[error("scheduler `{name}`: two components have the role `{role}`, expected one")]
    Twice {
        /// The scheduler.
        name: Name,
        /// The role.
        role: Role,
    },
    /// No policy takes a role that has no default.
    #[error("scheduler `{name}`: no component has the role `{role}`, expected one")]
    Missing {
        /// The scheduler.
        name: Name,
        /// The role.
        role: Role,
    },
    /// A policy takes no role.
    #[error("scheduler `{name}`: a component has no role, expected at least one")]
    NoRole {
        /// The scheduler.
        name: Name,
    },
    /// The rounds have no length.
    #[error("scheduler `{name}`: a round takes {period} s, expected more than 0")]
    Period {
        /// The scheduler.
        name: Name,
        /// The length of a round.
        period: Seconds,
    },
    /// A role cannot be given to another policy, because its policy takes other roles, too.
    #[error(
        "scheduler `{name}`: one component has the roles {roles}, so no other component can have `{role}`"
    )]
    Shared {
        /// The scheduler.
        name: Name,
        /// The role.
        role: Role,
        /// All roles of the policy.
        roles: String,
    },
}

/// The policy of a role, and the slot of its memory.
///
/// Calls must dereference the `Arc`: an `Arc` of a policy is itself a policy, with another type of
/// memory.
struct Taken<T: ?Sized> {
    policy: Arc<T>,
    slot: usize,
}

impl<T: ?Sized> Clone for Taken<T> {
    fn clone(&self) -> Self {
        Taken {
            policy: Arc::clone(&self.policy),
            slot: self.slot,
        }
    }
}

/// Builder of a [`Pipeline`]. Only scheduling and placement are required.
///
/// ```
/// use blox_core::{order::SortKey, policy::by_key, Composition};
/// use blox_testing::FirstFit;
/// let fifo = Composition::new("fifo")
///     .scheduling(by_key(|job| SortKey::by(job.submit().secs())).valid_until_event())
///     .placement(FirstFit)
///     .build()?;
/// # let _ = fifo;
/// # Ok::<(), blox_core::ComposeError>(())
/// ```
pub struct Composition {
    name: Name,
    policies: Vec<Arc<dyn AnyPolicy>>,
    cluster: Option<Taken<dyn AnyClusterManager>>,
    admission: Option<Taken<dyn AnyAdmission>>,
    scheduling: Option<Taken<dyn AnyScheduling>>,
    placement: Option<Taken<dyn AnyPlacement>>,
    /// The first role that two policies take.
    twice: Option<Role>,
    trigger: Option<Box<dyn DecisionTrigger>>,
    /// The first period of rounds that is not above 0.
    empty_period: Option<Seconds>,
    seed: u64,
}

impl Composition {
    /// Creates a composition with a name. By default, all jobs are admitted, nodes are not managed,
    /// and decisions are made in rounds of 300 s.
    pub fn new(name: impl Into<Name>) -> Self {
        Composition {
            name: name.into(),
            policies: Vec::new(),
            cluster: None,
            admission: None,
            scheduling: None,
            placement: None,
            twice: None,
            trigger: None,
            empty_period: None,
            seed: 0,
        }
    }

    /// Sets the cluster manager.
    #[must_use]
    pub fn cluster(self, manager: impl ClusterManager) -> Self {
        self.joint(manager, Joint::cluster)
    }

    /// Sets the admission policy.
    #[must_use]
    pub fn admission(self, policy: impl AdmissionPolicy) -> Self {
        self.joint(policy, Joint::admission)
    }

    /// Sets the scheduling policy.
    #[must_use]
    pub fn scheduling(self, policy: impl SchedulingPolicy) -> Self {
        self.joint(policy, Joint::scheduling)
    }

    /// Sets the placement policy.
    #[must_use]
    pub fn placement(self, policy: impl PlacementPolicy) -> Self {
        self.joint(policy, Joint::placement)
    }

    /// Sets one policy for several roles, which share its memory.
    ///
    /// ```
    /// # use blox_core::policy::{AcceptAll, StaticCluster};
    /// # use blox_core::{AdmissionPolicy, ClusterManager, Policy};
    /// # fn example<P: AdmissionPolicy + ClusterManager>(policy: P) -> blox_core::Composition {
    /// blox_core::Composition::new("both").joint(policy, |roles| roles.admission().cluster())
    /// # }
    /// ```
    #[must_use]
    pub fn joint<P: Policy>(mut self, policy: P, roles: impl FnOnce(Joint<P>) -> Joint<P>) -> Self {
        let policy = Arc::new(policy);
        let slot = self.policies.len();
        self.policies
            .push(Arc::clone(&policy) as Arc<dyn AnyPolicy>);
        let joint = Joint {
            policy,
            slot,
            into: self,
        };
        roles(joint).into
    }

    /// Sets the decision moments.
    #[must_use]
    pub fn trigger(mut self, trigger: impl DecisionTrigger + 'static) -> Self {
        self.trigger = Some(Box::new(trigger));
        self
    }

    /// Sets a decision moment at every multiple of `period`. [`Composition::build`] refuses a period
    /// that is not above 0; for a decision at every event, set the trigger [`OnEvent`](crate::OnEvent).
    #[must_use]
    pub fn in_rounds(mut self, period: Seconds) -> Self {
        match Rounds::every(period) {
            Some(rounds) => self.trigger(rounds),
            None => {
                self.empty_period.get_or_insert(period);
                self
            }
        }
    }

    /// Sets the seed for the random generators of the policies. The default is 0.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Builds the scheduler.
    ///
    /// # Errors
    /// Two policies take the same role, a policy takes no role, scheduling or placement is missing,
    /// or rounds have no length.
    pub fn build(mut self) -> Result<Pipeline, ComposeError> {
        if self.cluster.is_none() {
            self = self.cluster(StaticCluster);
        }
        if self.admission.is_none() {
            self = self.admission(AcceptAll);
        }
        let name = self.name;
        if let Some(period) = self.empty_period {
            return Err(ComposeError::Period { name, period });
        }
        if let Some(role) = self.twice {
            return Err(ComposeError::Twice { name, role });
        }
        let missing = |role| ComposeError::Missing {
            name: name.clone(),
            role,
        };
        let scheduling = self.scheduling.ok_or_else(|| missing(Role::Scheduling))?;
        let placement = self.placement.ok_or_else(|| missing(Role::Placement))?;
        let cluster = self.cluster.ok_or_else(|| missing(Role::Cluster))?;
        let admission = self.admission.ok_or_else(|| missing(Role::Admission))?;
        let taken = [
            cluster.slot,
            admission.slot,
            scheduling.slot,
            placement.slot,
        ];
        if (0..self.policies.len()).any(|slot| !taken.contains(&slot)) {
            return Err(ComposeError::NoRole { name });
        }
        let slot = |policy: Arc<dyn AnyPolicy>| Slot::new(policy, self.seed);
        let mut requests = JobQueue::default();
        requests.could_place = Some(rule_of(&placement.policy));
        Ok(Pipeline {
            missing: None,
            name,
            cluster,
            admission,
            scheduling,
            placement,
            slots: self.policies.into_iter().map(slot).collect(),
            seed: self.seed,
            trigger: self.trigger.unwrap_or_else(|| Box::new(Rounds::default())),
            requests,
            draft: DraftMemory::default(),
            awaits_growth: false,
            checks: false,
            askers: Vec::new(),
            placed: Vec::new(),
            submitted: None,
        })
    }
}

/// Roles that one policy takes in a [`Composition`].
pub struct Joint<P> {
    policy: Arc<P>,
    slot: usize,
    into: Composition,
}

impl<P: Policy> Joint<P> {
    /// Gives the policy the role of the cluster manager.
    #[must_use]
    pub fn cluster(self) -> Self
    where
        P: ClusterManager,
    {
        let policy: Arc<dyn AnyClusterManager> = Arc::clone(&self.policy) as _;
        self.take(Role::Cluster, policy, |into| &mut into.cluster)
    }

    /// Gives the policy the role of admission.
    #[must_use]
    pub fn admission(self) -> Self
    where
        P: AdmissionPolicy,
    {
        let policy: Arc<dyn AnyAdmission> = Arc::clone(&self.policy) as _;
        self.take(Role::Admission, policy, |into| &mut into.admission)
    }

    /// Gives the policy the role of scheduling.
    #[must_use]
    pub fn scheduling(self) -> Self
    where
        P: SchedulingPolicy,
    {
        let policy: Arc<dyn AnyScheduling> = Arc::clone(&self.policy) as _;
        self.take(Role::Scheduling, policy, |into| &mut into.scheduling)
    }

    /// Gives the policy the role of placement.
    #[must_use]
    pub fn placement(self) -> Self
    where
        P: PlacementPolicy,
    {
        let policy: Arc<dyn AnyPlacement> = Arc::clone(&self.policy) as _;
        self.take(Role::Placement, policy, |into| &mut into.placement)
    }

    /// Gives the policy a role, and records the role as taken twice if another policy had it. A
    /// policy may name a role repeatedly.
    fn take<T: ?Sized>(
        mut self,
        role: Role,
        policy: Arc<T>,
        place: fn(&mut Composition) -> &mut Option<Taken<T>>,
    ) -> Self {
        let slot = self.slot;
        let before = place(&mut self.into).replace(Taken { policy, slot });
        if before.is_some_and(|before| before.slot != slot) {
            self.into.twice.get_or_insert(role);
        }
        self
    }
}

/// A policy with its memory.
#[derive(Clone)]
struct Slot {
    policy: Arc<dyn AnyPolicy>,
    memory: AnyMemory,
    /// True if the policy has a memory that events and plans may change.
    remembers: bool,
}

impl Slot {
    fn new(policy: Arc<dyn AnyPolicy>, seed: u64) -> Self {
        let memory = policy.any_initial(seed);
        Slot {
            remembers: !memory.is_empty(),
            memory,
            policy,
        }
    }
}

/// A scheduler of four policies with their memory. A decision calls them in this order: cluster
/// manager, admission, scheduling, placement.
#[derive(Clone)]
pub struct Pipeline {
    name: Name,
    cluster: Taken<dyn AnyClusterManager>,
    admission: Taken<dyn AnyAdmission>,
    scheduling: Taken<dyn AnyScheduling>,
    placement: Taken<dyn AnyPlacement>,
    slots: Vec<Slot>,
    seed: u64,
    trigger: Box<dyn DecisionTrigger>,
    requests: JobQueue,
    draft: DraftMemory,
    awaits_growth: bool,
    /// True if each decision checks what policies state.
    checks: bool,
    askers: Vec<JobId>,
    /// Buffer of the check of a plan.
    placed: Vec<fitting::Open>,
    /// Buffer of submissions without the true work.
    submitted: Option<Arc<JobSpec>>,
    /// Set by admission, and returned by the plan of the same decision.
    missing: Option<Box<DecisionError>>,
}

impl Pipeline {
    /// Checks that a job has the data that the policies need, see [`Policy::check_job`].
    fn check_job(&self, job: &Submission) -> Result<(), MissingData> {
        let mut slots = self.slots.iter();
        slots.try_for_each(|slot| (*slot.policy).any_check_job(job))
    }

    /// Checks whether the scheduler could ever run a job: the placement policy could place one of
    /// the shapes in which the scheduling policy could request it. All nodes count as empty and up,
    /// and the offers count, too, if the cluster manager requests nodes.
    ///
    /// # Errors
    /// The reason why the scheduler could never run the job.
    pub fn can_ever_place(&self, view: View<'_>, job: &JobRef<'_>) -> Result<(), Reason> {
        self.could_run(self.room(view).as_ref(), job)
    }

    /// Returns whether the scheduler keeps a number of nodes: its [order](SchedulingPolicy::keeps_nodes)
    /// and its [placement](PlacementPolicy::keeps_nodes).
    pub fn keeps_nodes(&self, nodes: u32) -> bool {
        (*self.scheduling.policy).any_keeps_nodes(nodes)
            && (*self.placement.policy).any_keeps_nodes(nodes)
    }

    /// Checks whether the scheduler could ever run a job in a room; `None` for any room.
    #[inline]
    fn could_run(&self, room: Option<&Room<'_>>, job: &JobRef<'_>) -> Result<(), Reason> {
        let (scheduling, placement) = (&*self.scheduling.policy, &*self.placement.policy);
        feasibility::keeps_nodes(scheduling, placement, job.spec())?;
        room.map_or(Ok(()), |room| self.has_room(room, job))
    }

    /// Returns the room of the cluster, with the offers that the manager can use. Returns `None` if
    /// any nodes could join.
    fn room<'a>(&self, view: View<'a>) -> Option<Room<'a>> {
        feasibility::room(&*self.cluster.policy, self.awaits_growth, view)
    }

    #[inline]
    fn has_room(&self, room: &Room<'_>, job: &JobRef<'_>) -> Result<(), Reason> {
        let (scheduling, placement) = (&*self.scheduling.policy, &*self.placement.policy);
        feasibility::has_room(scheduling, placement, room, job)
    }

    /// Returns the rule that rejects jobs that the scheduler could never run
    /// ([`Pipeline::can_ever_place`]).
    pub fn feasibility(&self) -> Feasibility {
        Feasibility {
            policies: self.slots.iter().map(|s| Arc::clone(&s.policy)).collect(),
            manager: Arc::clone(&self.cluster.policy),
            scheduling: Arc::clone(&self.scheduling.policy),
            placement: Arc::clone(&self.placement.policy),
            awaits_growth: self.awaits_growth,
        }
    }

    /// Calls only the scheduling policy.
    ///
    /// # Errors
    /// The errors of [`SchedulingPolicy::schedule`].
    pub fn schedule(&mut self, view: View<'_>, out: &mut JobQueue) -> Answer {
        let Taken { policy, slot } = &self.scheduling;
        (**policy).any_schedule(&mut self.slots[*slot].memory, view, out)
    }

    /// Calls only the placement policy.
    ///
    /// # Errors
    /// The errors of [`PlacementPolicy::place`].
    pub fn place(&mut self, requests: &mut JobQueue, draft: &mut Draft<'_>) -> Answer {
        let Taken { policy, slot } = &self.placement;
        (**policy).any_place(&mut self.slots[*slot].memory, requests, draft)
    }

    /// Returns the policy of type `P` with its memory, or `None` if the scheduler has no such
    /// policy.
    pub fn policy<P: Policy>(&self) -> Option<(&P, &P::Memory)> {
        let slots = self.slots.iter();
        slots
            .map(|slot| (&*slot.policy as &dyn Any, &slot.memory))
            .find_map(|(policy, memory)| of_type::<P>(policy, memory))
    }

    /// Returns all roles of the policy that takes `role`.
    pub fn roles_beside(&self, role: Role) -> Vec<Role> {
        self.roles_of(self.slot_of(role))
    }

    fn roles_of(&self, slot: usize) -> Vec<Role> {
        let here = |role: &Role| self.slot_of(*role) == slot;
        ROLES.into_iter().filter(here).collect()
    }

    /// Returns the trigger, which determines when decisions are due.
    pub fn trigger(&self) -> Box<dyn DecisionTrigger> {
        self.trigger.clone()
    }

    /// Replaces the decision moments.
    #[must_use]
    pub fn with_trigger(mut self, trigger: impl DecisionTrigger + 'static) -> Self {
        self.trigger = Box::new(trigger);
        self
    }

    /// Replaces the seed for the random generators, and resets the memory of all policies.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        for slot in &mut self.slots {
            slot.memory = slot.policy.any_initial(seed);
        }
        self
    }

    /// Replaces the admission policy.
    ///
    /// # Errors
    /// The present admission policy takes other roles, too.
    pub fn with_admission(mut self, policy: impl AdmissionPolicy) -> Result<Self, ComposeError> {
        let (policy, slot) = self.replace(Role::Admission, policy)?;
        self.admission = Taken { policy, slot };
        Ok(self)
    }

    /// Replaces the cluster manager.
    ///
    /// # Errors
    /// The present cluster manager takes other roles, too.
    pub fn with_cluster(mut self, manager: impl ClusterManager) -> Result<Self, ComposeError> {
        let (policy, slot) = self.replace(Role::Cluster, manager)?;
        self.cluster = Taken { policy, slot };
        Ok(self)
    }

    /// Replaces the placement policy.
    ///
    /// # Errors
    /// The present placement policy takes other roles, too.
    pub fn with_placement(mut self, policy: impl PlacementPolicy) -> Result<Self, ComposeError> {
        let (policy, slot) = self.replace(Role::Placement, policy)?;
        let policy: Arc<dyn AnyPlacement> = policy;
        self.requests.could_place = Some(rule_of(&policy));
        self.placement = Taken { policy, slot };
        Ok(self)
    }

    /// Sets whether the cluster may grow without its manager. If so, jobs that could never be placed
    /// on the present cluster may wait. Otherwise admission rejects them, unless they could be placed
    /// with the [offers](crate::Cluster::offers) and the cluster manager requests nodes.
    #[must_use]
    pub fn awaiting_growth(mut self, yes: bool) -> Self {
        self.awaits_growth = yes;
        self
    }

    /// Checks at each decision what policies state about keys and jobs to save computation. A false
    /// statement is an error of the decision. Each decision then takes several times as long.
    #[must_use]
    pub fn checking(mut self) -> Self {
        self.checks = true;
        self
    }

    /// Replaces the name.
    #[must_use]
    pub fn renamed(mut self, name: impl Into<Name>) -> Self {
        self.name = name.into();
        self
    }

    /// Replaces the policy of a role.
    fn replace<P: Policy>(
        &mut self,
        role: Role,
        policy: P,
    ) -> Result<(Arc<P>, usize), ComposeError> {
        let roles = self.roles_beside(role);
        if roles.len() > 1 {
            return Err(ComposeError::Shared {
                name: self.name.clone(),
                role,
                roles: joined(&roles),
            });
        }
        let slot = self.slot_of(role);
        let policy = Arc::new(policy);
        self.slots[slot] = Slot::new(Arc::clone(&policy) as Arc<dyn AnyPolicy>, self.seed);
        Ok((policy, slot))
    }

    fn slot_of(&self, role: Role) -> usize {
        match role {
            Role::Cluster => self.cluster.slot,
            Role::Admission => self.admission.slot,
            Role::Scheduling => self.scheduling.slot,
            Role::Placement => self.placement.slot,
        }
    }

    /// Returns the name under which the memory of a slot is saved: the roles of its policy.
    fn saved_as(&self, slot: usize) -> String {
        joined(&self.roles_of(slot))
    }
}

/// Returns the rule by which a placement judges shapes.
fn rule_of(placement: &Arc<dyn AnyPlacement>) -> PlaceRule {
    let placement = Arc::clone(placement);
    Arc::new(move |room, job, shape| (*placement).any_can_ever_place(room, job, shape).is_ok())
}

/// Returns a policy and its memory as their types. Follows policies that are an `Arc` of a policy.
fn of_type<'a, P: Policy>(
    policy: &'a dyn Any,
    memory: &'a AnyMemory,
) -> Option<(&'a P, &'a P::Memory)> {
    if let Some(policy) = policy.downcast_ref() {
        return Some((policy, memory.get()?));
    }
    let pointed = [
        (policy.downcast_ref::<Arc<dyn AnyClusterManager>>()).map(|p| &**p as &dyn Any),
        (policy.downcast_ref::<Arc<dyn AnyAdmission>>()).map(|p| &**p as &dyn Any),
        (policy.downcast_ref::<Arc<dyn AnyScheduling>>()).map(|p| &**p as &dyn Any),
        (policy.downcast_ref::<Arc<dyn AnyPlacement>>()).map(|p| &**p as &dyn Any),
    ];
    let pointed = pointed.into_iter().flatten().next()?;
    of_type::<P>(pointed, memory.get()?)
}

/// All roles, in the order in which a decision calls their policies.
const ROLES: [Role; 4] = [
    Role::Cluster,
    Role::Admission,
    Role::Scheduling,
    Role::Placement,
];

fn joined(roles: &[Role]) -> String {
    let names: Vec<String> = roles.iter().map(Role::to_string).collect();
    names.join("+")
}

impl Pipeline {
    /// Returns the error of a decision in which a sort key was NaN.
    #[cold]
    fn no_number(&self, view: View<'_>) -> DecisionError {
        DecisionError::NoNumber {
            policy: self.name.clone(),
            job: self.requests.without_number(view),
        }
    }

    fn make_plan(&mut self, view: View<'_>, out: &mut Plan) -> Result<Validity, DecisionError> {
        if let Some(missing) = self.missing.take() {
            return Err(*missing);
        }
        self.requests.begin();
        let Taken { policy, slot } = &self.scheduling;
        let memory = &mut self.slots[*slot].memory;
        let validity = (**policy)
            .any_schedule(memory, view, &mut self.requests)
            .map_err(|error| error.of(self.name.clone()))?;
        // Promotion is permanent, so repeating it is no change.
        let fresh = |id: &&JobId| view.job(**id).is_none_or(|j| !j.promoted());
        for &job in self.requests.promoted.iter().filter(fresh) {
            out.actions.push(Action::Promote { job });
        }
        let mut validity = validity;
        if !self.requests.notices.is_empty() {
            let noticed = notify(&mut self.requests, view, out);
            validity = validity.and_if(noticed, || self.trigger.following(view.now()).is_some());
        }
        if view.cluster().offers().next().is_some() {
            self.explain_unrented(view);
        }
        let start = out.actions.len();
        // Another pipeline may already have planned its part of the cluster.
        let mut draft = Draft::begin(view, &mut self.draft, out);
        for (job, why) in &self.requests.finished {
            draft.finish(*job, why.clone());
        }
        let Taken { policy, slot } = &self.placement;
        let memory = &mut self.slots[*slot].memory;
        let result = place(&mut self.requests, &**policy, memory, view, &mut draft);
        draft.end_walk(&mut self.requests);
        let all_gangs = draft.finish_into(out);
        if self.requests.lacks_number(view) {
            return Err(self.no_number(view));
        }
        let fits = match self.requests.keeps() && all_gangs {
            true => Ok(()),
            false => fitting::check(
                &out.actions[start..],
                &self.requests,
                view,
                &mut self.placed,
            ),
        };
        match result {
            Ok(placed) => match fits {
                Ok(()) => Ok(validity.and(placed)),
                Err(misfit) => Err(misfit.of(&self.name, &*self.slots[*slot].policy)),
            },
            Err(error) => Err(error.of(self.name.clone())),
        }
    }

    /// Makes a plan and checks what the policies state. A job that is skipped as like a blocked one
    /// must find no GPUs if it is tried.
    #[cold]
    fn plan_and_check(
        &mut self,
        view: View<'_>,
        out: &mut Plan,
    ) -> Result<Validity, DecisionError> {
        let (mut trying_each, mut other) = (self.clone(), out.clone());
        let validity = self.make_plan(view, out)?;
        self.requests
            .check(view)
            .map_err(|error| self.false_statement(error))?;
        if !out.waits_by_gpus.is_empty() {
            trying_each.draft.try_each();
            trying_each.make_plan(view, &mut other)?;
            let skipped = other.actions.iter().find(|a| !out.actions.contains(a));
            if let Some(action) = skipped {
                return Err(self.false_statement(StatementError::Alike(action.job())));
            }
        }
        Ok(validity)
    }

    fn false_statement(&self, error: StatementError) -> DecisionError {
        let policy = self.name.clone();
        DecisionError::False { policy, error }
    }
}

impl Scheduler for Pipeline {
    fn name(&self) -> &str {
        &self.name
    }

    fn manage(&mut self, view: View<'_>, out: &mut NodeActions) -> Validity {
        let Taken { policy, slot } = &self.cluster;
        let validity = (**policy).any_manage(&mut self.slots[*slot].memory, view, out);
        let has_rounds = || self.trigger.following(view.now()).is_some();
        let validity = match out.is_empty() {
            true => validity,
            false => validity.and_if(begin_drains(view, out), has_rounds),
        };
        match view.cluster().is_draining() {
            true => validity.and_if(continue_drains(view, out), has_rounds),
            false => validity,
        }
    }

    fn actions(&self) -> NodeActionKinds {
        (*self.cluster.policy).any_actions()
    }

    fn admit(
        &mut self,
        view: View<'_>,
        asking: &[JobId],
        out: &mut AdmissionDecisions,
    ) -> Validity {
        self.askers.clear();
        let room = match asking.is_empty() {
            true => None,
            false => self.room(view),
        };
        for &id in asking {
            let Some(job) = view.job(id) else {
                self.askers.push(id);
                continue;
            };
            if job.phase() == Phase::Submitted
                && let Err(error) = self.check_job(job.spec())
            {
                self.missing.get_or_insert_with(|| {
                    Box::new(DecisionError::MissingData {
                        policy: self.name.clone(),
                        job: id,
                        error,
                    })
                });
            }
            match self.could_run(room.as_ref(), &job) {
                Err(why) => out.reject(id, why),
                // Another scheduler ran it before: a job that has begun stays admitted.
                _ if job.attempt() > 0 => out.accept(id),
                _ => self.askers.push(id),
            }
        }
        let Taken { policy, slot } = &self.admission;
        (**policy).any_admit(&mut self.slots[*slot].memory, view, &self.askers, out)
    }

    #[inline]
    fn plan(&mut self, view: View<'_>, out: &mut Plan) -> Result<Validity, DecisionError> {
        match self.checks {
            false => self.make_plan(view, out),
            true => self.plan_and_check(view, out),
        }
    }

    fn on_event(&mut self, view: View<'_>, event: &Event) {
        match event {
            Event::Submitted { job, spec } => self.on_submission(view, *job, spec),
            _ => self.notify(view, event),
        }
    }

    fn on_launches(&mut self, view: View<'_>, plan: &Plan) {
        for slot in self.slots.iter_mut().filter(|slot| slot.remembers) {
            slot.policy.any_launches(&mut slot.memory, view, plan);
        }
    }

    fn remembers(&self) -> bool {
        self.slots.iter().any(|slot| slot.remembers)
    }

    fn save(&self) -> Result<Option<Value>, MemoryError> {
        let mut saved = serde_json::Map::new();
        for (i, slot) in self.slots.iter().enumerate() {
            if !slot.memory.is_empty() {
                let name = self.saved_as(i);
                let memory = slot.memory.save().map_err(|e| e.of(&name))?;
                saved.insert(name, memory);
            }
        }
        Ok((!saved.is_empty()).then(|| json!(saved)))
    }

    fn restore(&mut self, saved: Value) -> Result<(), MemoryError> {
        let Value::Object(saved) = saved else {
            let found = crate::policy::start_of(&saved);
            return Err(MemoryError::Restore(format!(
                "found {found}, expected an entry a part"
            )));
        };
        let mut restored = Vec::with_capacity(saved.len());
        for (name, memory) in saved {
            let slot = (0..self.slots.len()).find(|slot| self.saved_as(*slot) == name);
            let Some(slot) = slot else {
                let what = format!("no component has the roles `{name}`");
                return Err(MemoryError::Restore(what));
            };
            let slot = &mut self.slots[slot].memory;
            slot.restore(memory).map_err(|e| e.of(&name))?;
            restored.push(name);
        }
        for (i, slot) in self.slots.iter().enumerate() {
            let name = self.saved_as(i);
            if !slot.memory.is_empty() && !restored.contains(&name) {
                let what = format!("found nothing for the part with the roles `{name}`");
                return Err(MemoryError::Restore(what));
            }
        }
        Ok(())
    }

    fn parts(&self) -> BTreeMap<String, String> {
        let slots = self.slots.iter().enumerate();
        slots
            .map(|(i, slot)| (self.saved_as(i), (*slot.policy).any_type_name()))
            .collect()
    }

    fn take_over(
        &mut self,
        view: View<'_>,
        saved: Option<Value>,
        parts: &BTreeMap<String, String>,
    ) -> TakenOver {
        let mut saved = match saved {
            Some(Value::Object(saved)) => saved,
            _ => serde_json::Map::new(),
        };
        let mut taken = TakenOver::default();
        for i in 0..self.slots.len() {
            let name = self.saved_as(i);
            let slot = &mut self.slots[i];
            if slot.memory.is_empty() {
                continue;
            }
            let is_same = parts.get(&name) == Some(&(*slot.policy).any_type_name());
            let memory = saved.remove(&name).filter(|_| is_same);
            let before = slot.memory.clone();
            let is_kept = memory.is_some_and(|memory| slot.memory.restore(memory).is_ok());
            if !is_kept {
                // A failed attempt may have changed a part of the memory.
                slot.memory = before;
                for event in submissions(view) {
                    slot.policy.any_event(&mut slot.memory, view, &event);
                }
            }
            // Some memories follow from the view, and save nothing.
            if slot.memory.save().is_ok_and(|saved| is_blank(&saved)) {
                continue;
            }
            match is_kept {
                true => taken.kept.push(name),
                false => taken.anew.push(name),
            }
        }
        taken
    }

    fn requested(&self) -> &[Request] {
        self.requests.list()
    }
}

/// Returns whether a saved memory has no content.
fn is_blank(saved: &Value) -> bool {
    match saved {
        Value::Null => true,
        Value::Object(fields) => fields.values().all(is_blank),
        _ => false,
    }
}

/// Returns the submission of each live job without its true work, in the order of their ids.
fn submissions(view: View<'_>) -> impl Iterator<Item = Event> {
    let asking = view.submitted().chain(view.deferred());
    let mut live: Vec<JobRef<'_>> = asking.chain(view.active()).collect();
    live.sort_by_key(JobRef::id);
    live.into_iter().map(|job| Event::Submitted {
        job: job.id(),
        spec: Arc::new(without_work(job.spec())),
    })
}

fn without_work(submission: &Submission) -> JobSpec {
    JobSpec {
        submission: submission.clone(),
        work: Work::lasting(Seconds::ZERO),
    }
}

impl Pipeline {
    #[inline]
    fn notify(&mut self, view: View<'_>, event: &Event) {
        for slot in self.slots.iter_mut().filter(|slot| slot.remembers) {
            slot.policy.any_event(&mut slot.memory, view, event);
        }
    }

    /// Sets the reason of waiting jobs for which the cluster manager would have to request nodes, and
    /// has not.
    #[cold]
    fn explain_unrented(&mut self, view: View<'_>) {
        if !self.actions().contains(NodeActionKind::Grow) {
            return;
        }
        let room = Room::of(view);
        for job in view.waiting() {
            if self.has_room(&room, &job).is_err() {
                let why = Reason::other("fits no node that is there or requested");
                self.requests.explain(job.id(), why);
            }
        }
    }

    /// Passes a submission to the policies with a memory, without the true work.
    fn on_submission(&mut self, view: View<'_>, job: JobId, spec: &JobSpec) {
        if !self.slots.iter().any(|slot| slot.remembers) {
            return;
        }
        let masked = without_work(spec);
        // The buffer is free unless a policy kept the last submission.
        match self.submitted.as_mut().and_then(Arc::get_mut) {
            Some(free) => *free = masked,
            None => self.submitted = Some(Arc::new(masked)),
        }
        if let Some(spec) = self.submitted.clone() {
            self.notify(view, &Event::Submitted { job, spec });
        }
    }
}

/// Powers off each node that is idle when its drain to this end begins. The validity names the next
/// time at which jobs are to be preempted.
fn begin_drains(view: View<'_>, out: &mut NodeActions) -> Validity {
    let begun = out.iter().filter_map(|action| match action {
        NodeAction::Drain { by, .. } if *by > view.now() => Some(Validity::Until(*by)),
        _ => None,
    });
    let validity = begun.fold(Validity::UntilEvent, Validity::and);
    for at in 0..out.len() {
        let NodeAction::Drain { node: id, then, .. } = &out[at] else {
            continue;
        };
        let (id, then) = (*id, *then);
        let cluster = view.cluster();
        let ends = |node: &Node| {
            let settled = matches!(node.wanted(), None | Some(Wanted::Off(_)));
            node.status() == NodeStatus::Up && settled && cluster.is_idle(node)
        };
        let last = out[at + 1..].iter().all(|later| later.node() != Some(id));
        if last && then == AfterDrain::Off && cluster.node(id).is_some_and(ends) {
            out.push(NodeAction::Power {
                node: id,
                on: false,
            });
        }
    }
    validity
}

/// Returns the action of an idle node after its drain.
fn next_step(node: &Node, Drain { by, then, .. }: Drain) -> Option<NodeAction> {
    let (id, why) = (node.id(), node.cordoned().cloned());
    match then {
        AfterDrain::Stay => None,
        AfterDrain::Off => Some(NodeAction::Power {
            node: id,
            on: false,
        }),
        AfterDrain::Leave => Some(NodeAction::Drain {
            node: id,
            by,
            then,
            why: why.unwrap_or_else(|| Name::from("drained")),
        }),
    }
}

/// Adds the next step of each drained node that is idle. The validity names the next time at which
/// jobs are to be preempted.
#[cold]
fn continue_drains(view: View<'_>, out: &mut NodeActions) -> Validity {
    let mut validity = Validity::UntilEvent;
    for (node, drain) in view.cluster().draining() {
        let id = node.id();
        if out.iter().any(|action| action.node() == Some(id)) {
            continue;
        }
        let idle = view.cluster().is_idle(node);
        if idle {
            out.extend(next_step(node, drain));
        }
        // This decision preempts the jobs of a drain whose time has come.
        if !idle && drain.by > view.now() {
            validity = validity.and(Validity::Until(drain.by));
        }
    }
    validity
}

/// Releases jobs of drained nodes whose time is over, whatever the placement policy did.
#[cold]
fn preempt_drained(view: View<'_>, draft: &mut Draft<'_>) -> Result<(), DraftError> {
    let cluster = view.cluster();
    for (node, _) in cluster.draining().filter(|(_, d)| d.by <= view.now()) {
        let mut jobs: Vec<JobId> = node.gpus().flat_map(|g| cluster.allocated_to(g)).collect();
        jobs.sort_unstable();
        jobs.dedup();
        for job in jobs {
            let on_it = |a: &Assignment| {
                a.gpus
                    .iter()
                    .any(|g| cluster.node_of(*g) == Some(node.id()))
            };
            if view.job(job).is_some() && draft.current(job).is_some_and(on_it) {
                draft.release(job, Reason::NodeDrained)?;
            }
        }
    }
    Ok(())
}

/// Adds the new notices of a decision to its plan, except those that are over at once. The validity
/// names the first time at which one of them is over.
#[cold]
fn notify(requests: &mut JobQueue, view: View<'_>, out: &mut Plan) -> Validity {
    let mut validity = Validity::UntilEvent;
    requests.notices.retain(|(job, by)| {
        let is_new = |j: &JobRef<'_>| {
            let here = j.bound().is_some() && j.phase() != Phase::Stopping;
            here && j.leaves_at().is_none()
        };
        let (job, by) = (*job, *by);
        if by > view.now() && view.job(job).is_some_and(|j| is_new(&j)) {
            out.actions.push(Action::Notify { job, by });
            validity = validity.and(Validity::Until(by));
        }
        by <= view.now()
    });
    validity
}

/// Returns the jobs whose notices are over. Notices of this decision count.
#[inline]
fn jobs_due(requests: &JobQueue, view: View<'_>) -> Vec<JobId> {
    let over = |job: &JobRef<'_>| job.leaves_at().is_some_and(|by| by <= view.now());
    let now = requests.notices.iter().map(|(job, _)| *job);
    let earlier = view.timed().filter(over).map(|job| job.id());
    earlier.chain(now).collect()
}

fn place(
    requests: &mut JobQueue,
    placement: &dyn AnyPlacement,
    memory: &mut AnyMemory,
    view: View<'_>,
    draft: &mut Draft<'_>,
) -> Answer {
    // Without their requests, the policy's list does not place these jobs again. A kept order may.
    let leaving = jobs_due(requests, view);
    for &job in &leaving {
        requests.withdraw(job);
        if draft.current(job).is_some() {
            draft.release(job, Reason::Noticed)?;
        }
    }
    if requests.stops_unlisted {
        for job in requests.unlisted_jobs(view) {
            if !leaving.contains(&job) {
                draft.release(job, Reason::Unlisted)?;
            }
        }
    }
    draft.start_walk(requests);
    // The first reason of a job takes precedence.
    if !requests.explained.is_empty() {
        for (job, why) in requests.explained.drain(..) {
            draft.explain(job, why);
        }
    }
    let validity = placement.any_place(memory, requests, draft)?;
    // Guests come last: they need room on the GPUs of their hosts only.
    if !requests.keeps() {
        let grouped = |request: &&Request| !request.guests().is_empty();
        for request in requests.list().iter().filter(grouped) {
            draft.put_guests(request);
        }
    }
    if view.cluster().is_draining() {
        preempt_drained(view, draft)?;
    }
    for job in leaving {
        if draft.current(job).is_some() {
            draft.release(job, Reason::Noticed)?;
        }
    }
    Ok(validity)
}
