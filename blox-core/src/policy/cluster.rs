//! Cluster management: decides which nodes may be used.

use super::{Policy, Stateless};
use crate::decision::{NodeActions, Validity};
use crate::view::View;

/// Decides which nodes may be used (Blox's cluster management policy).
pub trait ClusterManager: Policy {
    /// Called at every decision, before admission.
    fn manage(&self, memory: &mut Self::Memory, view: View<'_>, out: &mut NodeActions) -> Validity;
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
