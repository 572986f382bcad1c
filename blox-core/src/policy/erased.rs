//! Type-erased policies, as registries store them and the runtime calls them.
//!
//! An `Arc<dyn AnyScheduling>` is itself a scheduling policy, with [`AnyMemory`] as its memory.
//! Hence decorators can also wrap policies from a registry.

use super::{
    AdmissionPolicy, AnyMemory, ClusterManager, PlacementPolicy, Policy, SchedulingPolicy,
};
use crate::decide_error::{Answer, MissingData};
use crate::decision::{AdmissionDecisions, NodeActionKinds, NodeActions, Plan, Validity};
use crate::draft::Draft;
use crate::event::Event;
use crate::ids::JobId;
use crate::job::JobRef;
use crate::job::spec::Submission;
use crate::queue::JobQueue;
use crate::reason::Reason;
use crate::room::Room;
use crate::shape::{Shape, Shapes};
use crate::view::View;
use std::any::Any;
use std::sync::Arc;

/// A [`Policy`] of any type.
///
/// It is implemented for every policy; do not implement it by hand.
pub trait AnyPolicy: Any + Send + Sync {
    /// See [`Policy::initial`].
    fn any_initial(&self, seed: u64) -> AnyMemory;

    /// See [`Policy::check_job`].
    ///
    /// # Errors
    /// The first missing data.
    fn any_check_job(&self, job: &Submission) -> Result<(), MissingData>;

    /// See [`Policy::on_event`].
    fn any_event(&self, memory: &mut AnyMemory, view: View<'_>, event: &Event);

    /// See [`Policy::on_launches`].
    fn any_launches(&self, memory: &mut AnyMemory, view: View<'_>, plan: &Plan);

    #[doc(hidden)]
    fn any_type_name(&self) -> String;
}

impl<P: Policy> AnyPolicy for P {
    fn any_initial(&self, seed: u64) -> AnyMemory {
        AnyMemory::of(self.initial(seed))
    }

    fn any_check_job(&self, job: &Submission) -> Result<(), MissingData> {
        self.check_job(job)
    }

    fn any_event(&self, memory: &mut AnyMemory, view: View<'_>, event: &Event) {
        self.on_event(memory.own::<P>(), view, event);
    }

    fn any_launches(&self, memory: &mut AnyMemory, view: View<'_>, plan: &Plan) {
        self.on_launches(memory.own::<P>(), view, plan);
    }

    fn any_type_name(&self) -> String {
        self.type_name()
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

            fn check_job(&self, job: &$crate::Submission) -> Result<(), $crate::MissingData> {
                (**self).any_check_job(job)
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

            fn type_name(&self) -> String {
                (**self).any_type_name()
            }
        }
    };
}

/// Defines a trait for policies of any type that have a role. A pointer to the trait is itself a
/// policy with that role.
///
/// Each function of the role stands with its name in the trait: first those that take the memory.
#[doc(hidden)]
#[macro_export]
macro_rules! erased {
    (
        $(#[$doc:meta])*
        $visible:vis trait $any:ident for $role:ident in $pointer:ident {
            with memory { $(
                $(#[$about:meta])*
                $function:ident as $any_function:ident($($argument:ident: $kind:ty),*) -> $answer:ty;
            )* }
            without { $(
                $(#[$note:meta])*
                $plain:ident as $any_plain:ident($($own:ident: $type:ty),*) -> $returned:ty;
            )* }
        }
    ) => {
        $(#[$doc])*
        $visible trait $any: $crate::AnyPolicy {
            $(
                #[doc = concat!("See [`", stringify!($role), "::", stringify!($function), "`].")]
                $(#[$about])*
                fn $any_function(
                    &self,
                    memory: &mut $crate::AnyMemory,
                    $($argument: $kind),*
                ) -> $answer;
            )*
            $(
                #[doc = concat!("See [`", stringify!($role), "::", stringify!($plain), "`].")]
                $(#[$note])*
                fn $any_plain(&self, $($own: $type),*) -> $returned;
            )*
        }

        impl<P: $role> $any for P {
            $(
                fn $any_function(
                    &self,
                    memory: &mut $crate::AnyMemory,
                    $($argument: $kind),*
                ) -> $answer {
                    self.$function(memory.own::<P>(), $($argument),*)
                }
            )*
            $(
                fn $any_plain(&self, $($own: $type),*) -> $returned {
                    self.$plain($($own),*)
                }
            )*
        }

        $crate::erased_policy!($pointer<dyn $any>);

        impl $role for $pointer<dyn $any> {
            $(
                fn $function(
                    &self,
                    memory: &mut $crate::AnyMemory,
                    $($argument: $kind),*
                ) -> $answer {
                    (**self).$any_function(memory, $($argument),*)
                }
            )*
            $(
                fn $plain(&self, $($own: $type),*) -> $returned {
                    (**self).$any_plain($($own),*)
                }
            )*
        }
    };
}

erased! {
    /// An [`AdmissionPolicy`] of any type.
    ///
    /// It is implemented for every admission policy; do not implement it by hand.
    pub trait AnyAdmission for AdmissionPolicy in Arc {
        with memory {
            admit as any_admit(
                view: View<'_>, asking: &[JobId], out: &mut AdmissionDecisions
            ) -> Validity;
        }
        without {}
    }
}

erased! {
    /// A [`ClusterManager`] of any type.
    ///
    /// It is implemented for every cluster manager; do not implement it by hand.
    pub trait AnyClusterManager for ClusterManager in Arc {
        with memory {
            manage as any_manage(view: View<'_>, out: &mut NodeActions) -> Validity;
        }
        without {
            actions as any_actions() -> NodeActionKinds;
        }
    }
}

erased! {
    /// A [`SchedulingPolicy`] of any type.
    ///
    /// It is implemented for every scheduling policy; do not implement it by hand.
    pub trait AnyScheduling for SchedulingPolicy in Arc {
        with memory {
            ///
            /// # Errors
            /// The same as [`SchedulingPolicy::schedule`].
            schedule as any_schedule(view: View<'_>, out: &mut JobQueue) -> Answer;
        }
        without {
            ///
            /// # Errors
            /// The same as [`SchedulingPolicy::could_request`].
            could_request as any_could_request(
                view: View<'_>, job: &JobRef<'_>
            ) -> Result<Shapes, Reason>;
            keeps_nodes as any_keeps_nodes(nodes: u32) -> bool;
        }
    }
}

erased! {
    /// A [`PlacementPolicy`] of any type.
    ///
    /// It is implemented for every placement policy; do not implement it by hand.
    pub trait AnyPlacement for PlacementPolicy in Arc {
        with memory {
            ///
            /// # Errors
            /// The same as [`PlacementPolicy::place`].
            place as any_place(
                requests: &mut JobQueue, draft: &mut Draft<'_>
            ) -> Answer;
        }
        without {
            ///
            /// # Errors
            /// The same as [`PlacementPolicy::can_ever_place`].
            can_ever_place as any_can_ever_place(
                room: &Room<'_>, job: &JobRef<'_>, shape: &Shape
            ) -> Result<(), Reason>;
            keeps_nodes as any_keeps_nodes(nodes: u32) -> bool;
        }
    }
}
