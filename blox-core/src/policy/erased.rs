//! Type-erased policies, as registries store them and the runtime calls them.
//!
//! An `Arc<dyn AnyScheduling>` is itself a scheduling policy, with [`AnyMemory`] as its memory.
//! Hence decorators can also wrap policies from a registry.

use super::{
    AdmissionPolicy, AnyMemory, ClusterManager, PlacementPolicy, Policy, SchedulingPolicy,
};
use crate::decide_error::DraftError;
use crate::decision::{AdmissionDecisions, NodeActionKinds, NodeActions, Plan, Validity};
use crate::draft::Draft;
use crate::event::Event;
use crate::ids::JobId;
use crate::job::JobRef;
use crate::queue::JobQueue;
use crate::reason::Reason;
use crate::view::View;
use std::any::Any;
use std::sync::Arc;

/// A [`Policy`] of any type.
///
/// It is implemented for every policy; do not implement it by hand.
pub trait AnyPolicy: Any + Send + Sync {
    /// See [`Policy::initial`].
    fn any_initial(&self, seed: u64) -> AnyMemory;

    /// See [`Policy::on_event`].
    fn any_event(&self, memory: &mut AnyMemory, view: View<'_>, event: &Event);

    /// See [`Policy::on_launches`].
    fn any_launches(&self, memory: &mut AnyMemory, view: View<'_>, plan: &Plan);

    #[doc(hidden)]
    fn any_listens(&self) -> bool;
}

impl<P: Policy> AnyPolicy for P {
    fn any_initial(&self, seed: u64) -> AnyMemory {
        AnyMemory::of(self.initial(seed))
    }

    fn any_event(&self, memory: &mut AnyMemory, view: View<'_>, event: &Event) {
        self.on_event(memory.own::<P>(), view, event);
    }

    fn any_launches(&self, memory: &mut AnyMemory, view: View<'_>, plan: &Plan) {
        self.on_launches(memory.own::<P>(), view, plan);
    }

    fn any_listens(&self) -> bool {
        self.listens()
    }
}

/// Implements [`Policy`] for a pointer to a policy of any type, such as `Arc<dyn AnyScheduling>`.
/// Its memory is an [`AnyMemory`].
#[doc(hidden)]
#[macro_export]
macro_rules! erased_policy {
    ($pointer:ty) => {
        impl $crate::Policy for $pointer {
            type Memory = $crate::AnyMemory;

            fn initial(&self, seed: u64) -> $crate::AnyMemory {
                (**self).any_initial(seed)
            }

            fn on_event(
                &self,
                memory: &mut $crate::AnyMemory,
                view: $crate::View<'_>,
                event: &$crate::Event,
            ) {
                (**self).any_event(memory, view, event);
            }

            fn on_launches(
                &self,
                memory: &mut $crate::AnyMemory,
                view: $crate::View<'_>,
                plan: &$crate::Plan,
            ) {
                (**self).any_launches(memory, view, plan);
            }

            fn listens(&self) -> bool {
                (**self).any_listens()
            }
        }
    };
}

/// An [`AdmissionPolicy`] of any type.
///
/// It is implemented for every admission policy; do not implement it by hand.
pub trait AnyAdmission: AnyPolicy {
    /// See [`AdmissionPolicy::admit`].
    fn any_admit(
        &self,
        memory: &mut AnyMemory,
        view: View<'_>,
        asking: &[JobId],
        out: &mut AdmissionDecisions,
    ) -> Validity;
}

impl<P: AdmissionPolicy> AnyAdmission for P {
    fn any_admit(
        &self,
        memory: &mut AnyMemory,
        view: View<'_>,
        asking: &[JobId],
        out: &mut AdmissionDecisions,
    ) -> Validity {
        self.admit(memory.own::<P>(), view, asking, out)
    }
}

erased_policy!(Arc<dyn AnyAdmission>);

impl AdmissionPolicy for Arc<dyn AnyAdmission> {
    fn admit(
        &self,
        memory: &mut AnyMemory,
        view: View<'_>,
        asking: &[JobId],
        out: &mut AdmissionDecisions,
    ) -> Validity {
        (**self).any_admit(memory, view, asking, out)
    }
}

/// A [`ClusterManager`] of any type.
///
/// It is implemented for every cluster manager; do not implement it by hand.
pub trait AnyClusterManager: AnyPolicy {
    /// See [`ClusterManager::manage`].
    fn any_manage(&self, memory: &mut AnyMemory, view: View<'_>, out: &mut NodeActions)
    -> Validity;

    /// See [`ClusterManager::actions`].
    fn any_actions(&self) -> NodeActionKinds;
}

impl<P: ClusterManager> AnyClusterManager for P {
    fn any_manage(
        &self,
        memory: &mut AnyMemory,
        view: View<'_>,
        out: &mut NodeActions,
    ) -> Validity {
        self.manage(memory.own::<P>(), view, out)
    }

    fn any_actions(&self) -> NodeActionKinds {
        self.actions()
    }
}

erased_policy!(Arc<dyn AnyClusterManager>);

impl ClusterManager for Arc<dyn AnyClusterManager> {
    fn manage(&self, memory: &mut AnyMemory, view: View<'_>, out: &mut NodeActions) -> Validity {
        (**self).any_manage(memory, view, out)
    }

    fn actions(&self) -> NodeActionKinds {
        (**self).any_actions()
    }
}

/// A [`SchedulingPolicy`] of any type.
///
/// It is implemented for every scheduling policy; do not implement it by hand.
pub trait AnyScheduling: AnyPolicy {
    /// See [`SchedulingPolicy::schedule`].
    fn any_schedule(&self, memory: &mut AnyMemory, view: View<'_>, out: &mut JobQueue) -> Validity;
}

impl<P: SchedulingPolicy> AnyScheduling for P {
    fn any_schedule(&self, memory: &mut AnyMemory, view: View<'_>, out: &mut JobQueue) -> Validity {
        self.schedule(memory.own::<P>(), view, out)
    }
}

erased_policy!(Arc<dyn AnyScheduling>);

impl SchedulingPolicy for Arc<dyn AnyScheduling> {
    fn schedule(&self, memory: &mut AnyMemory, view: View<'_>, out: &mut JobQueue) -> Validity {
        (**self).any_schedule(memory, view, out)
    }
}

/// A [`PlacementPolicy`] of any type.
///
/// It is implemented for every placement policy; do not implement it by hand.
pub trait AnyPlacement: AnyPolicy {
    /// See [`PlacementPolicy::place`].
    ///
    /// # Errors
    /// The same as [`PlacementPolicy::place`].
    fn any_place(
        &self,
        memory: &mut AnyMemory,
        requests: &mut JobQueue,
        draft: &mut Draft<'_>,
    ) -> Result<Validity, DraftError>;

    /// See [`PlacementPolicy::can_ever_place`].
    ///
    /// # Errors
    /// The same as [`PlacementPolicy::can_ever_place`].
    fn any_can_ever_place(&self, view: View<'_>, job: &JobRef<'_>) -> Result<(), Reason>;
}

impl<P: PlacementPolicy> AnyPlacement for P {
    fn any_place(
        &self,
        memory: &mut AnyMemory,
        requests: &mut JobQueue,
        draft: &mut Draft<'_>,
    ) -> Result<Validity, DraftError> {
        self.place(memory.own::<P>(), requests, draft)
    }

    fn any_can_ever_place(&self, view: View<'_>, job: &JobRef<'_>) -> Result<(), Reason> {
        self.can_ever_place(view, job)
    }
}

erased_policy!(Arc<dyn AnyPlacement>);

impl PlacementPolicy for Arc<dyn AnyPlacement> {
    fn place(
        &self,
        memory: &mut AnyMemory,
        requests: &mut JobQueue,
        draft: &mut Draft<'_>,
    ) -> Result<Validity, DraftError> {
        (**self).any_place(memory, requests, draft)
    }

    fn can_ever_place(&self, view: View<'_>, job: &JobRef<'_>) -> Result<(), Reason> {
        (**self).any_can_ever_place(view, job)
    }
}
