//! Cluster management: decides which nodes may be used.

use super::{Policy, Stateless};
use crate::cluster::spec::NodeSpec;
use crate::decision::{NodeActionKind, NodeActionKinds, NodeActions, Validity};
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
    /// yet, but [submitted](crate::Phase::Submitted) or deferred.
    fn manage(&self, memory: &mut Self::Memory, view: View<'_>, out: &mut NodeActions) -> Validity;

    /// Returns the actions that need a provider of nodes and that the manager uses. A backend that
    /// cannot carry them out refuses the scheduler. Any other use of them is an error of the policy.
    fn actions(&self) -> NodeActionKinds {
        NodeActionKinds::NONE
    }

    /// Returns the nodes that the manager could still add to those in view and those that it has
    /// requested: each specification with the largest number of nodes. `None` if there is no such
    /// list, since it could add any nodes.
    ///
    /// The runtime rejects a job at submission if the placement policy could not place it even with
    /// these nodes. By default, this is `None` for a manager that declares
    /// [`NodeActionKind::Grow`], and no node otherwise.
    fn could_add(&self, view: View<'_>) -> Option<Vec<(NodeSpec, u32)>> {
        let _ = view;
        let grows = self.actions().contains(NodeActionKind::Grow);
        (!grows).then(Vec::new)
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
