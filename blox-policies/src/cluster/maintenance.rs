//! Planned maintenance: nodes that take no new jobs for a time.

use blox_core::{ClusterManager, NodeAction, NodeActions, NodeId, Stateless, Time, Validity, View};
use serde::{Deserialize, Serialize};

/// Period in which a node takes no new jobs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// The node.
    pub node: NodeId,
    /// Start of the period.
    pub from: Time,
    /// End of the period, at which the node takes jobs again.
    pub until: Time,
}

/// Cordons nodes during their windows, and uncordons them afterwards. Running jobs continue.
#[derive(Clone, Debug, Default)]
pub struct Maintenance {
    windows: Vec<Window>,
}

const WHY: &str = "maintenance";

impl Maintenance {
    /// Creates the manager with windows.
    pub fn new(windows: Vec<Window>) -> Self {
        Maintenance { windows }
    }
}

impl Stateless for Maintenance {}

impl ClusterManager for Maintenance {
    fn manage(&self, (): &mut (), view: View<'_>, out: &mut NodeActions) -> Validity {
        let now = view.now();
        let mut validity = Validity::UntilEvent;
        for node in view.nodes() {
            let mut inside = false;
            for w in self.windows.iter().filter(|w| w.node == node.id()) {
                inside |= w.from <= now && now < w.until;
                for edge in [w.from, w.until] {
                    if edge > now {
                        validity = validity.and(Validity::Until(edge));
                    }
                }
            }
            match node.cordoned() {
                None if inside => out.push(NodeAction::Cordon {
                    node: node.id(),
                    why: WHY.into(),
                }),
                Some(why) if !inside && why.as_str() == WHY => {
                    out.push(NodeAction::Uncordon { node: node.id() });
                }
                _ => {}
            }
        }
        validity
    }
}
