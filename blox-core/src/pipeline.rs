//! From four parts and a cadence to one scheduler.

use crate::cadence::{Cadence, OnEvent, Rounds};
use crate::decision::{Action, NodeActions, Outlook, Plan, PlanError, Verdicts};
use crate::draft::{Draft, DraftError, DraftMemory};
use crate::event::Event;
use crate::feasibility::Feasibility;
use crate::ids::{JobId, Name};
use crate::job::JobRef;
use crate::policy::{
    AcceptAll, AdmissionPolicy, AnyAdmission, AnyClusterManager, AnyMemory, AnyPlacement,
    AnyPolicy, AnyScheduling, ClusterManager, Memory, MemoryError, PlacementPolicy, Policy,
    SchedulingPolicy, StaticCluster,
};
use crate::reason::Reason;
use crate::request::{Request, Requests, Unlisted};
use crate::units::Seconds;
use crate::view::View;
use dyn_clone::DynClone;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// A decision that went wrong inside the policy.
#[derive(Clone, Debug, PartialEq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum DecideError {
    /// A placement policy misused its draft.
    #[error("policy `{policy}`: {error}")]
    Draft {
        /// The policy.
        policy: Name,
        /// What it did.
        error: DraftError,
    },
    /// The plan contradicts the state that it was made from.
    #[error("policy `{policy}`: {error}")]
    Plan {
        /// The policy.
        policy: Name,
        /// The contradiction.
        error: PlanError,
    },
    /// The policy panicked.
    #[error("policy `{policy}` panicked: {message}")]
    Panicked {
        /// The policy.
        policy: Name,
        /// What it said.
        message: String,
    },
    /// The daemon that asked was stopped before the answer.
    #[error("the scheduler was stopped before it answered")]
    Restarted,
    /// The policy gave no answer within its limit.
    #[error("policy `{policy}` gave no answer within {limit} s")]
    TimedOut {
        /// The policy.
        policy: Name,
        /// The limit that the backend keeps.
        limit: Seconds,
    },
}

/// A whole scheduler as one thing: what the loop calls, with what its policies remember.
/// Build a [`Pipeline`] from policies; implement it only for what swaps whole pipelines.
pub trait Decide: Send + DynClone {
    /// Its name in messages.
    fn name(&self) -> &str;

    /// Returns what to do with nodes.
    fn manage(&mut self, view: View<'_>, out: &mut NodeActions) -> Outlook;

    /// Which jobs may enter.
    fn admit(&mut self, view: View<'_>, asking: &[JobId], out: &mut Verdicts) -> Outlook;

    /// Returns who runs where.
    ///
    /// # Errors
    /// A part misused what it was given.
    fn plan(&mut self, view: View<'_>, out: &mut Plan) -> Result<Outlook, DecideError>;

    /// See [`Policy::on_event`].
    fn on_event(&mut self, view: View<'_>, event: &Event) {
        let _ = (view, event);
    }

    /// See [`Policy::on_launches`].
    fn on_launches(&mut self, view: View<'_>, plan: &Plan) {
        let _ = (view, plan);
    }

    /// Returns what it remembers beyond the view; `None` if nothing.
    ///
    /// # Errors
    /// A memory cannot be saved.
    fn save(&self) -> Result<Option<Value>, MemoryError> {
        Ok(None)
    }

    /// Returns whether it remembers anything. If not, [`Decide::save`] returns `None`.
    fn remembers(&self) -> bool {
        true
    }

    /// Restores what [`Decide::save`] returned.
    ///
    /// # Errors
    /// Another scheduler saved it.
    fn restore(&mut self, saved: Value) -> Result<(), MemoryError> {
        Err(MemoryError::Restore(format!(
            "found {}, but `{}` remembers nothing",
            crate::policy::start_of(&saved),
            self.name()
        )))
    }

    /// Returns what its scheduling policy asked for in the last [`Decide::plan`], for tests to look
    /// at; empty if it has none, or if that keeps an order.
    fn requested(&self) -> &[Request] {
        &[]
    }
}
dyn_clone::clone_trait_object!(Decide);

/// What a policy does in a composition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// It manages the cluster.
    Cluster,
    /// It admits jobs.
    Admission,
    /// It orders jobs.
    Scheduling,
    /// It places jobs.
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

/// Parts that make no scheduler together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ComposeError {
    /// Two parts claim one role.
    #[error("scheduler `{name}`: two parts take the role `{role}`, expected one")]
    Twice {
        /// The scheduler.
        name: Name,
        /// The role.
        role: Role,
    },
    /// No part takes a role that has no default.
    #[error("scheduler `{name}`: no part takes the role `{role}`, expected one")]
    Missing {
        /// The scheduler.
        name: Name,
        /// The role.
        role: Role,
    },
    /// A part takes no role.
    #[error("scheduler `{name}`: a part takes no role, expected one at least")]
    NoRole {
        /// The scheduler.
        name: Name,
    },
    /// A role cannot be given to another part, because one part takes it with others.
    #[error(
        "scheduler `{name}`: one part takes the roles {roles}, so `{role}` cannot be another's"
    )]
    Shared {
        /// The scheduler.
        name: Name,
        /// The role.
        role: Role,
        /// All roles of the part.
        roles: String,
    },
}

/// A role and who takes it: a policy, and the place of its memory.
///
/// The pointer is a policy too, of another memory: calls go to what it points to.
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

/// Builds a [`Pipeline`]: only scheduling and placement have to be named.
///
/// ```
/// use blox_core::{order::SortKey, policy::by_key, testing::FirstFit, Composition};
/// let fifo = Composition::new("fifo")
///     .scheduling(by_key(|job| SortKey::by(job.submit().secs())).stable())
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
    /// The first role that was given twice.
    twice: Option<Role>,
    cadence: Option<Box<dyn Cadence>>,
    seed: u64,
}

impl Composition {
    /// A scheduler of this name: everything is admitted, the cluster is as its
    /// nodes make it, decisions fall in rounds of 300 s.
    pub fn new(name: impl Into<Name>) -> Self {
        Composition {
            name: name.into(),
            policies: Vec::new(),
            cluster: None,
            admission: None,
            scheduling: None,
            placement: None,
            twice: None,
            cadence: None,
            seed: 0,
        }
    }

    /// Returns it with a cluster manager.
    #[must_use]
    pub fn cluster(self, manager: impl ClusterManager) -> Self {
        self.joint(manager, Joint::cluster)
    }

    /// Returns it with an admission policy.
    #[must_use]
    pub fn admission(self, policy: impl AdmissionPolicy) -> Self {
        self.joint(policy, Joint::admission)
    }

    /// Returns it with a scheduling policy.
    #[must_use]
    pub fn scheduling(self, policy: impl SchedulingPolicy) -> Self {
        self.joint(policy, Joint::scheduling)
    }

    /// Returns it with a placement policy.
    #[must_use]
    pub fn placement(self, policy: impl PlacementPolicy) -> Self {
        self.joint(policy, Joint::placement)
    }

    /// Returns it with one policy for several roles, which share one memory.
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

    /// Returns it with decision moments of its own.
    #[must_use]
    pub fn cadence(mut self, cadence: impl Cadence + 'static) -> Self {
        self.cadence = Some(Box::new(cadence));
        self
    }

    /// Returns it with a decision on every multiple of `period`; where that is not above 0, at
    /// every event.
    #[must_use]
    pub fn in_rounds(self, period: Seconds) -> Self {
        match Rounds::every(period) {
            Some(rounds) => self.cadence(rounds),
            None => self.cadence(OnEvent::default()),
        }
    }

    /// Returns it with a seed for the random generators of its policies; 0 otherwise.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Builds the scheduler.
    ///
    /// # Errors
    /// Two parts take one role, a part takes none, or no part schedules or places.
    pub fn build(mut self) -> Result<Pipeline, ComposeError> {
        if self.cluster.is_none() {
            self = self.cluster(StaticCluster);
        }
        if self.admission.is_none() {
            self = self.admission(AcceptAll);
        }
        let name = self.name;
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
        Ok(Pipeline {
            name,
            cluster,
            admission,
            scheduling,
            placement,
            slots: self.policies.into_iter().map(slot).collect(),
            seed: self.seed,
            cadence: self.cadence.unwrap_or_else(|| Box::new(Rounds::default())),
            requests: Requests::default(),
            draft: DraftMemory::default(),
            awaits_growth: false,
            askers: Vec::new(),
        })
    }
}

/// The roles that one policy takes in a [`Composition`].
pub struct Joint<P> {
    policy: Arc<P>,
    slot: usize,
    into: Composition,
}

impl<P: Policy> Joint<P> {
    /// It manages the cluster.
    #[must_use]
    pub fn cluster(mut self) -> Self
    where
        P: ClusterManager,
    {
        let policy: Arc<dyn AnyClusterManager> = Arc::clone(&self.policy) as _;
        let slot = self.slot;
        let before = self.into.cluster.replace(Taken { policy, slot });
        self.taken(before.map(|b| b.slot), Role::Cluster)
    }

    /// It admits jobs.
    #[must_use]
    pub fn admission(mut self) -> Self
    where
        P: AdmissionPolicy,
    {
        let policy: Arc<dyn AnyAdmission> = Arc::clone(&self.policy) as _;
        let slot = self.slot;
        let before = self.into.admission.replace(Taken { policy, slot });
        self.taken(before.map(|b| b.slot), Role::Admission)
    }

    /// It orders jobs.
    #[must_use]
    pub fn scheduling(mut self) -> Self
    where
        P: SchedulingPolicy,
    {
        let policy: Arc<dyn AnyScheduling> = Arc::clone(&self.policy) as _;
        let slot = self.slot;
        let before = self.into.scheduling.replace(Taken { policy, slot });
        self.taken(before.map(|b| b.slot), Role::Scheduling)
    }

    /// It places jobs.
    #[must_use]
    pub fn placement(mut self) -> Self
    where
        P: PlacementPolicy,
    {
        let policy: Arc<dyn AnyPlacement> = Arc::clone(&self.policy) as _;
        let slot = self.slot;
        let before = self.into.placement.replace(Taken { policy, slot });
        self.taken(before.map(|b| b.slot), Role::Placement)
    }

    /// A part that names a role twice has it once.
    fn taken(mut self, before: Option<usize>, role: Role) -> Self {
        if before.is_some_and(|slot| slot != self.slot) {
            self.into.twice.get_or_insert(role);
        }
        self
    }
}

/// A policy with what it remembers.
#[derive(Clone)]
struct Slot {
    policy: Arc<dyn AnyPolicy>,
    memory: AnyMemory,
    /// True if its hooks are to be called.
    listens: bool,
}

impl Slot {
    fn new(policy: Arc<dyn AnyPolicy>, seed: u64) -> Self {
        Slot {
            memory: policy.any_initial(seed),
            listens: policy.any_listens(),
            policy,
        }
    }
}

/// The four deciding parts of a scheduler in their order (cluster manager,
/// admission, scheduling, placement), with what they remember.
#[derive(Clone)]
pub struct Pipeline {
    name: Name,
    cluster: Taken<dyn AnyClusterManager>,
    admission: Taken<dyn AnyAdmission>,
    scheduling: Taken<dyn AnyScheduling>,
    placement: Taken<dyn AnyPlacement>,
    slots: Vec<Slot>,
    seed: u64,
    cadence: Box<dyn Cadence>,
    requests: Requests,
    draft: DraftMemory,
    awaits_growth: bool,
    askers: Vec<JobId>,
}

impl Pipeline {
    /// Returns whether its placement policy could place a job on the empty cluster.
    ///
    /// # Errors
    /// The reason if it could not.
    pub fn can_ever_place(&self, view: View<'_>, job: &JobRef<'_>) -> Result<(), Reason> {
        (*self.placement.policy).any_can_ever_place(view, job)
    }

    /// The rule by which it rejects jobs that its cluster can never hold. A cluster whose manager
    /// is not [`StaticCluster`] may grow.
    pub fn feasibility(&self) -> Feasibility {
        let may_grow = self.awaits_growth || self.policy::<StaticCluster>().is_none();
        Feasibility::new(Arc::clone(&self.placement.policy), may_grow)
    }

    /// Calls its scheduling policy alone.
    pub fn schedule(&mut self, view: View<'_>, out: &mut Requests) -> Outlook {
        let Taken { policy, slot } = &self.scheduling;
        (**policy).any_schedule(&mut self.slots[*slot].memory, view, out)
    }

    /// Calls its placement policy alone.
    ///
    /// # Errors
    /// Those of [`PlacementPolicy::place`].
    pub fn place(
        &mut self,
        requests: &mut Requests,
        draft: &mut Draft<'_>,
    ) -> Result<Outlook, DraftError> {
        let Taken { policy, slot } = &self.placement;
        (**policy).any_place(&mut self.slots[*slot].memory, requests, draft)
    }

    /// Returns the policy of a type with its memory; `None` if the scheduler has none.
    pub fn policy<P: Policy>(&self) -> Option<(&P, &P::Memory)> {
        let slots = self.slots.iter();
        slots
            .map(|slot| (slot.policy.as_any(), &slot.memory))
            .find_map(|(policy, memory)| of_type::<P>(policy, memory))
    }

    /// Returns the roles that one policy takes together with a role, that role included.
    pub fn roles_beside(&self, role: Role) -> Vec<Role> {
        let of = self.slot_of(role);
        let all = ROLES.into_iter();
        all.filter(|r| self.slot_of(*r) == of).collect()
    }

    /// When its decisions are due.
    pub fn cadence(&self) -> Box<dyn Cadence> {
        self.cadence.clone()
    }

    /// The same scheduler with other decision moments.
    #[must_use]
    pub fn with_cadence(mut self, cadence: impl Cadence + 'static) -> Self {
        self.cadence = Box::new(cadence);
        self
    }

    /// The same scheduler at its start, with another seed for the generators of its policies.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        for slot in &mut self.slots {
            slot.memory = slot.policy.any_initial(seed);
        }
        self
    }

    /// The same scheduler with another admission policy.
    ///
    /// # Errors
    /// Its admission policy takes other roles, too.
    pub fn with_admission(mut self, policy: impl AdmissionPolicy) -> Result<Self, ComposeError> {
        let (policy, slot) = self.replace(Role::Admission, policy)?;
        self.admission = Taken { policy, slot };
        Ok(self)
    }

    /// The same scheduler with another cluster manager.
    ///
    /// # Errors
    /// Its cluster manager takes other roles, too.
    pub fn with_cluster(mut self, manager: impl ClusterManager) -> Result<Self, ComposeError> {
        let (policy, slot) = self.replace(Role::Cluster, manager)?;
        self.cluster = Taken { policy, slot };
        Ok(self)
    }

    /// The same scheduler with another placement policy.
    ///
    /// # Errors
    /// Its placement policy takes other roles, too.
    pub fn with_placement(mut self, policy: impl PlacementPolicy) -> Result<Self, ComposeError> {
        let (policy, slot) = self.replace(Role::Placement, policy)?;
        self.placement = Taken { policy, slot };
        Ok(self)
    }

    /// The same scheduler on a cluster that may grow: jobs that ask for more
    /// than it has wait. Otherwise they are turned away when they come in.
    #[must_use]
    pub fn awaiting_growth(mut self, yes: bool) -> Self {
        self.awaits_growth = yes;
        self
    }

    /// The same scheduler under another name.
    #[must_use]
    pub fn renamed(mut self, name: impl Into<Name>) -> Self {
        self.name = name.into();
        self
    }

    /// Puts a policy into the slot of a role.
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

    /// The name under which the memory of a slot is saved: its roles.
    fn saved_as(&self, slot: usize) -> String {
        let here = |role: &Role| self.slot_of(*role) == slot;
        let roles: Vec<Role> = ROLES.into_iter().filter(here).collect();
        joined(&roles)
    }
}

/// A policy as the type that it is, behind pointers too.
fn of_type<'a, P: Policy>(
    policy: &'a dyn Any,
    memory: &'a AnyMemory,
) -> Option<(&'a P, &'a P::Memory)> {
    if let Some(policy) = policy.downcast_ref() {
        return Some((policy, memory.get()?));
    }
    let pointed = [
        (policy.downcast_ref::<Arc<dyn AnyClusterManager>>()).map(|p| (**p).as_any()),
        (policy.downcast_ref::<Arc<dyn AnyAdmission>>()).map(|p| (**p).as_any()),
        (policy.downcast_ref::<Arc<dyn AnyScheduling>>()).map(|p| (**p).as_any()),
        (policy.downcast_ref::<Arc<dyn AnyPlacement>>()).map(|p| (**p).as_any()),
    ];
    let pointed = pointed.into_iter().flatten().next()?;
    of_type::<P>(pointed, memory.get()?)
}

/// All, in the order in which a decision asks them.
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

impl Decide for Pipeline {
    fn name(&self) -> &str {
        &self.name
    }

    fn manage(&mut self, view: View<'_>, out: &mut NodeActions) -> Outlook {
        let Taken { policy, slot } = &self.cluster;
        (**policy).any_manage(&mut self.slots[*slot].memory, view, out)
    }

    fn admit(&mut self, view: View<'_>, asking: &[JobId], out: &mut Verdicts) -> Outlook {
        self.askers.clear();
        for &id in asking {
            let never = match view.job(id) {
                Some(job) if !self.awaits_growth => self.can_ever_place(view, &job).err(),
                _ => None,
            };
            match never {
                Some(why) => out.reject(id, why),
                None => self.askers.push(id),
            }
        }
        let Taken { policy, slot } = &self.admission;
        (**policy).any_admit(&mut self.slots[*slot].memory, view, &self.askers, out)
    }

    fn plan(&mut self, view: View<'_>, out: &mut Plan) -> Result<Outlook, DecideError> {
        self.requests.begin();
        let Taken { policy, slot } = &self.scheduling;
        let memory = &mut self.slots[*slot].memory;
        let outlook = (**policy).any_schedule(memory, view, &mut self.requests);
        // Promotion is for life: to repeat it is no change.
        let fresh = |id: &&JobId| view.job(**id).is_none_or(|j| !j.promoted());
        for &job in self.requests.promotions().iter().filter(fresh) {
            out.actions.push(Action::Promote { job });
        }
        // Another pipeline may have planned for its part of the cluster before.
        let mut draft = Draft::begin(view, &mut self.draft, out);
        for (job, why) in self.requests.finishes() {
            draft.finish(*job, why.clone());
        }
        let Taken { policy, slot } = &self.placement;
        let memory = &mut self.slots[*slot].memory;
        let result = place(&mut self.requests, &**policy, memory, view, &mut draft);
        self.requests.end_walk();
        draft.finish_into(out);
        match result {
            Ok(placed) => Ok(outlook.and(placed)),
            Err(error) => Err(DecideError::Draft {
                policy: self.name.clone(),
                error,
            }),
        }
    }

    fn on_event(&mut self, view: View<'_>, event: &Event) {
        for slot in self.slots.iter_mut().filter(|slot| slot.listens) {
            slot.policy.any_event(&mut slot.memory, view, event);
        }
    }

    fn on_launches(&mut self, view: View<'_>, plan: &Plan) {
        for slot in self.slots.iter_mut().filter(|slot| slot.listens) {
            slot.policy.any_launches(&mut slot.memory, view, plan);
        }
    }

    fn remembers(&self) -> bool {
        self.slots.iter().any(|slot| !slot.memory.is_empty())
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
                let what = format!("no part takes the roles `{name}`");
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

    fn requested(&self) -> &[Request] {
        self.requests.list()
    }
}

fn place(
    requests: &mut Requests,
    placement: &dyn AnyPlacement,
    memory: &mut AnyMemory,
    view: View<'_>,
    draft: &mut Draft<'_>,
) -> Result<Outlook, DraftError> {
    if requests.unlisted() == Unlisted::Preempt {
        for job in requests.unlisted_jobs(view) {
            draft.release(job, Reason::Unlisted)?;
        }
    }
    requests.start_walk(draft.view());
    // The first reason of a job counts.
    for (job, why) in requests.take_explained() {
        draft.explain(job, why);
    }
    let outlook = placement.any_place(memory, requests, draft)?;
    // A placement need not look at partners.
    for (job, partner) in requests.pairs() {
        draft.put_beside(job, partner);
    }
    Ok(outlook)
}
