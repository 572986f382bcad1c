//! Cluster management: decides which nodes may be used.

use super::{Policy, Stateless};
use crate::decision::{NodeActionKinds, NodeActions, Validity};
use crate::view::View;

/// Decides which nodes may be used (Blox's cluster management policy).
///
/// ```
/// use blox_core::{ClusterManager, ClusterSpec, Name, NodeAction, NodeActions, NodeId};
/// use blox_core::{State, Stateless, Validity, View};
///
/// /// Keeps the last node free while no job waits.
/// struct Reserve;
///
/// impl Stateless for Reserve {}
///
/// impl ClusterManager for Reserve {
///     fn manage(&self, (): &mut (), view: View<'_>, out: &mut NodeActions) -> Validity {
///         let Some(last) = view.nodes().last() else {
///             return Validity::UntilEvent;
///         };
///         let (node, why) = (last.id(), Name::from("reserve"));
///         match (last.cordoned().is_some(), view.waiting_count() > 0) {
///             (false, false) => out.push(NodeAction::Cordon { node, why }),
///             (true, true) => out.push(NodeAction::Uncordon { node }),
///             _ => {}
///         }
///         Validity::NextRound
///     }
/// }
///
/// let state = State::new(&ClusterSpec::uniform(2, 4))?;
/// let mut out = NodeActions::default();
/// Reserve.manage(&mut (), View::of(&state), &mut out);
/// assert_eq!(out.iter().next().and_then(NodeAction::node), Some(NodeId(1)));
/// # Ok::<(), blox_core::ClusterSpecError>(())
/// ```
pub trait ClusterManager: Policy {
    /// Called at every decision, before admission: a job that this decision admits is not waiting
    /// yet, but [submitted](View::submitted) or deferred. A manager that requests nodes for jobs counts
    /// submitted ones, or their nodes are requested a decision later.
    fn manage(&self, memory: &mut Self::Memory, view: View<'_>, out: &mut NodeActions) -> Validity;

    /// Returns the actions that need a provider of nodes and that the manager uses. A backend that
    /// cannot carry them out refuses the scheduler. Any other use of them is an error of the policy.
    ///
    /// If the actions include [`Grow`](crate::NodeActionKind::Grow), a job is admitted if it could
    /// ever be placed on the nodes and the [offers](crate::Cluster::offers) of the cluster.
    fn actions(&self) -> NodeActionKinds {
        NodeActionKinds::NONE
    }
}

/// Takes no action: nodes join, get lost and leave only by events.
#[derive(Clone, Copy, Debug, Default)]
pub struct StaticCluster;

impl Stateless for StaticCluster {}

impl ClusterManager for StaticCluster {
    fn manage(&self, (): &mut (), _: View<'_>, _: &mut NodeActions) -> Validity {
        Validity::UntilEvent
    }
}
