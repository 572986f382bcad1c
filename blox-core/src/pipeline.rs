//! From four parts and a cadence to one scheduler.

use crate::cadence::{Cadence, OnEvent, Rounds};
use crate::decision::{Action, NodeActions, Outlook, Plan, PlanError, Verdicts};
use crate::draft::{Draft, DraftError, DraftMemory};
use crate::event::Event;
use crate::ids::{JobId, Name};
use crate::policy::{
    AcceptAll, AdmissionPolicy, ClusterManager, Part, PlacementPolicy, RestoreError,
    SchedulingPolicy, StaticCluster,
};
use crate::reason::Reason;
use crate::request::{Request, Requests, Unlisted};
use crate::units::Seconds;
use crate::view::View;
use serde_json::{Value, json};
use std::any::Any;

/// A decision that went wrong inside the policy.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
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
    /// The policy gave no answer within its limit.
    #[error("policy `{policy}` gave no answer within {limit} s")]
    TimedOut {
        /// The policy.
        policy: Name,
        /// The limit that the backend keeps.
        limit: Seconds,
    },
    /// A turn that a journal says was lost beside the loop.
    #[error("{0}")]
    Journaled(String),
}

/// A whole scheduler as one thing: what the loop calls. A decorator or a
/// synthesizer that swaps whole pipelines implements it; everybody else builds
/// a [`Pipeline`].
pub trait Decide: Part {
    /// Its name in messages.
    fn name(&self) -> &str;

    /// What to do with nodes.
    fn manage(&mut self, view: View<'_>, out: &mut NodeActions) -> Outlook;

    /// Which jobs may enter.
    fn admit(&mut self, view: View<'_>, asking: &[JobId], out: &mut Verdicts) -> Outlook;

    /// Who runs where.
    ///
    /// # Errors
    /// A part misused what it was given.
    fn plan(&mut self, view: View<'_>, out: &mut Plan) -> Result<Outlook, DecideError>;

    /// What its scheduling policy asked for in the last [`Decide::plan`], for tests to
    /// look at; empty if it has none, or if that keeps an order.
    fn requested(&self) -> &[Request] {
        &[]
    }
}
crate::dyn_part!(Decide);

/// Builds a [`Pipeline`]: only scheduling and placement have to be named.
///
/// ```
/// use blox_core::{order::SortKey, policy::by_key, testing::FirstFit, Composition};
/// let fifo = Composition::new("fifo")
///     .scheduling(by_key(|job| SortKey::by(job.submit().secs())).stable())
///     .placement(FirstFit)
///     .build();
/// # let _ = fifo;
/// ```
pub struct Composition {
    name: Name,
    cluster: Box<dyn ClusterManager>,
    admission: Box<dyn AdmissionPolicy>,
    cadence: Option<Box<dyn Cadence>>,
}

/// A composition that has its scheduling policy.
pub struct Scheduled {
    base: Composition,
    scheduling: Box<dyn SchedulingPolicy>,
}

/// A composition that has all that it needs.
pub struct Placed {
    base: Scheduled,
    placement: Box<dyn PlacementPolicy>,
}

impl Composition {
    /// A scheduler of this name: everything is admitted, the cluster is as its
    /// nodes make it, decisions fall in rounds of 300 s.
    pub fn new(name: impl Into<Name>) -> Self {
        Composition {
            name: name.into(),
            cluster: Box::new(StaticCluster),
            admission: Box::new(AcceptAll),
            cadence: None,
        }
    }

    /// With a cluster manager.
    #[must_use]
    pub fn cluster(mut self, manager: impl ClusterManager + 'static) -> Self {
        self.cluster = Box::new(manager);
        self
    }

    /// With an admission policy.
    #[must_use]
    pub fn admission(mut self, policy: impl AdmissionPolicy + 'static) -> Self {
        self.admission = Box::new(policy);
        self
    }

    /// With decision moments of its own.
    #[must_use]
    pub fn cadence(mut self, cadence: impl Cadence + 'static) -> Self {
        self.cadence = Some(Box::new(cadence));
        self
    }

    /// With a decision on every multiple of `period`; where that is not above 0, at every event.
    #[must_use]
    pub fn in_rounds(self, period: Seconds) -> Self {
        match Rounds::every(period) {
            Some(rounds) => self.cadence(rounds),
            None => self.cadence(OnEvent::default()),
        }
    }

    /// With a scheduling policy.
    pub fn scheduling(self, policy: impl SchedulingPolicy + 'static) -> Scheduled {
        Scheduled {
            base: self,
            scheduling: Box::new(policy),
        }
    }
}

impl Scheduled {
    /// With a placement policy.
    pub fn placement(self, policy: impl PlacementPolicy + 'static) -> Placed {
        Placed {
            base: self,
            placement: Box::new(policy),
        }
    }
}

impl Placed {
    /// The scheduler.
    pub fn build(self) -> Pipeline {
        let Composition {
            name,
            cluster,
            admission,
            cadence,
        } = self.base.base;
        Pipeline {
            name,
            cluster,
            admission,
            scheduling: self.base.scheduling,
            placement: self.placement,
            cadence: cadence.unwrap_or_else(|| Box::new(Rounds::default())),
            requests: Requests::default(),
            draft: DraftMemory::default(),
            awaits_growth: false,
            askers: Vec::new(),
        }
    }
}

/// The four deciding parts of a scheduler in their order: cluster manager,
/// admission, scheduling, placement.
#[derive(Clone)]
pub struct Pipeline {
    name: Name,
    cluster: Box<dyn ClusterManager>,
    admission: Box<dyn AdmissionPolicy>,
    scheduling: Box<dyn SchedulingPolicy>,
    placement: Box<dyn PlacementPolicy>,
    cadence: Box<dyn Cadence>,
    requests: Requests,
    draft: DraftMemory,
    awaits_growth: bool,
    askers: Vec<JobId>,
}

impl Pipeline {
    /// From boxed parts, as a registry makes them.
    pub fn from_parts(
        name: impl Into<Name>,
        cluster: Box<dyn ClusterManager>,
        admission: Box<dyn AdmissionPolicy>,
        scheduling: Box<dyn SchedulingPolicy>,
        placement: Box<dyn PlacementPolicy>,
        cadence: Box<dyn Cadence>,
    ) -> Self {
        Pipeline {
            name: name.into(),
            cluster,
            admission,
            scheduling,
            placement,
            cadence,
            requests: Requests::default(),
            draft: DraftMemory::default(),
            awaits_growth: false,
            askers: Vec::new(),
        }
    }

    /// Whether its own placement rule could place a job on the empty cluster. (A
    /// scheduling policy that brings a placement answers for itself.)
    ///
    /// # Errors
    /// The reason if it could not.
    pub fn can_ever_place(
        &self,
        view: View<'_>,
        job: &crate::job::JobRef<'_>,
    ) -> Result<(), Reason> {
        self.placement.can_ever_place(view, job)
    }

    /// Its scheduling policy.
    pub fn scheduling(&mut self) -> &mut dyn SchedulingPolicy {
        &mut *self.scheduling
    }

    /// Its scheduling policy as the type that it is; `None` if it is another. For what a
    /// policy has to tell after a run.
    pub fn scheduling_as<P: SchedulingPolicy>(&self) -> Option<&P> {
        let policy: &dyn Any = &*self.scheduling;
        policy.downcast_ref()
    }

    /// Its placement policy: the scheduling policy's own, if that has one.
    pub fn placement(&mut self) -> &mut dyn PlacementPolicy {
        placement_of(&mut self.scheduling, &mut self.placement)
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

    /// The same scheduler with another admission policy.
    #[must_use]
    pub fn with_admission(mut self, policy: Box<dyn AdmissionPolicy>) -> Self {
        self.admission = policy;
        self
    }

    /// The same scheduler with another cluster manager.
    #[must_use]
    pub fn with_cluster(mut self, manager: Box<dyn ClusterManager>) -> Self {
        self.cluster = manager;
        self
    }

    /// The same scheduler with another placement policy.
    #[must_use]
    pub fn with_placement(mut self, policy: Box<dyn PlacementPolicy>) -> Self {
        self.placement = policy;
        self
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
}

impl Part for Pipeline {
    fn observe(&mut self, view: View<'_>, event: &Event) {
        self.cluster.observe(view, event);
        self.admission.observe(view, event);
        self.scheduling.observe(view, event);
        self.placement.observe(view, event);
    }

    fn observes_launches(&self) -> bool {
        self.scheduling.observes_launches()
            || self.placement.observes_launches()
            || self.admission.observes_launches()
            || self.cluster.observes_launches()
    }

    fn save(&self) -> Option<Value> {
        let parts = [
            ("cluster", self.cluster.save()),
            ("admission", self.admission.save()),
            ("scheduling", self.scheduling.save()),
            ("placement", self.placement.save()),
        ];
        let memory: serde_json::Map<String, Value> = parts
            .into_iter()
            .filter_map(|(name, memory)| memory.map(|m| (name.to_owned(), m)))
            .collect();
        (!memory.is_empty()).then(|| json!(memory))
    }

    fn restore(&mut self, memory: Value) -> Result<(), RestoreError> {
        let Value::Object(memory) = memory else {
            return Err(RestoreError::new("expected one entry a part"));
        };
        for (name, memory) in memory {
            let restored = match name.as_str() {
                "cluster" => self.cluster.restore(memory),
                "admission" => self.admission.restore(memory),
                "scheduling" => self.scheduling.restore(memory),
                "placement" => self.placement.restore(memory),
                other => return Err(RestoreError::new(format!("no part is called `{other}`"))),
            };
            restored.map_err(|e| e.of(&name))?;
        }
        Ok(())
    }
}

impl Decide for Pipeline {
    fn name(&self) -> &str {
        &self.name
    }

    fn manage(&mut self, view: View<'_>, out: &mut NodeActions) -> Outlook {
        match self.scheduling.cluster() {
            Some(manager) => manager.manage(view, out),
            None => self.cluster.manage(view, out),
        }
    }

    fn admit(&mut self, view: View<'_>, asking: &[JobId], out: &mut Verdicts) -> Outlook {
        self.askers.clear();
        let placement = placement_of(&mut self.scheduling, &mut self.placement);
        for &id in asking {
            let never = match view.job(id) {
                Some(job) if !self.awaits_growth => placement.can_ever_place(view, &job).err(),
                _ => None,
            };
            match never {
                Some(why) => out.reject(id, why),
                None => self.askers.push(id),
            }
        }
        match self.scheduling.admission() {
            Some(policy) => policy.admit(view, &self.askers, out),
            None => self.admission.admit(view, &self.askers, out),
        }
    }

    fn plan(&mut self, view: View<'_>, out: &mut Plan) -> Result<Outlook, DecideError> {
        self.requests.begin();
        let outlook = self.scheduling.schedule(view, &mut self.requests);
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
        let placement = placement_of(&mut self.scheduling, &mut self.placement);
        let result = place(&mut self.requests, placement, view, &mut draft);
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

    fn requested(&self) -> &[Request] {
        self.requests.list()
    }
}

fn placement_of<'a>(
    scheduling: &'a mut Box<dyn SchedulingPolicy>,
    own: &'a mut Box<dyn PlacementPolicy>,
) -> &'a mut dyn PlacementPolicy {
    match scheduling.placement() {
        Some(shared) => shared,
        None => &mut **own,
    }
}

fn place(
    requests: &mut Requests,
    placement: &mut dyn PlacementPolicy,
    view: View<'_>,
    draft: &mut Draft<'_>,
) -> Result<Outlook, DraftError> {
    if requests.unlisted() == Unlisted::Preempt {
        for job in requests.unlisted_jobs(view) {
            draft.release(job, Reason::Unlisted)?;
        }
    }
    requests.start_walk();
    placement.place(requests, draft)?;
    Ok(placement.outlook())
}
