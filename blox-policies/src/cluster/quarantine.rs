//! Quarantine of flapping nodes.

use blox_core::{
    ClusterManager, Event, NodeAction, NodeActions, NodeId, Policy, Seconds, SortedMap, Time,
    Validity, View,
};
use serde::{Deserialize, Serialize};

/// Keeps new jobs off nodes that were lost repeatedly.
///
/// A second loss within `window` of the previous one costs `first` of quarantine after the return.
/// Each further loss doubles the time, up to `most`. Nodes that another component has cordoned stay
/// unchanged.
#[derive(Clone, Debug)]
pub struct Quarantine {
    window: Seconds,
    first: Seconds,
    most: Seconds,
}

/// Losses by node.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Losses {
    memory: SortedMap<NodeId, Flaps>,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Flaps {
    last_loss: Option<Time>,
    in_a_row: u32,
    until: Option<Time>,
}

const WHY: &str = "quarantine";

impl Quarantine {
    /// Creates the manager; see the type for the parameters.
    pub fn new(window: Seconds, first: Seconds, most: Seconds) -> Self {
        Quarantine {
            window,
            first,
            most,
        }
    }
}

impl Policy for Quarantine {
    type Memory = Losses;

    fn initial(&self, _: u64) -> Losses {
        Losses::default()
    }

    fn on_event(&self, memory: &mut Losses, view: View<'_>, event: &Event) {
        let now = view.now();
        match event {
            Event::NodeLost { node } => {
                let flaps = memory.memory.entry(*node).or_default();
                let again = flaps.last_loss.is_some_and(|t| now - t <= self.window);
                flaps.in_a_row = if again { flaps.in_a_row + 1 } else { 0 };
                flaps.last_loss = Some(now);
            }
            Event::NodeReturned { node } => {
                if let Some(flaps) = memory.memory.get_mut(node)
                    && flaps.in_a_row > 0
                {
                    let doubled = 2f64.powi(flaps.in_a_row.min(30) as i32 - 1);
                    flaps.until = Some(now + (self.first * doubled).min(self.most));
                }
            }
            _ => {}
        }
    }
}

impl ClusterManager for Quarantine {
    fn manage(&self, memory: &mut Self::Memory, view: View<'_>, out: &mut NodeActions) -> Validity {
        let now = view.now();
        let mut validity = Validity::UntilEvent;
        for (id, flaps) in &mut memory.memory {
            let Some(until) = flaps.until else { continue };
            let cordon = view.cluster().node(*id).and_then(|n| n.cordoned());
            if now >= until {
                flaps.until = None;
                if cordon.is_some_and(|why| why.as_str() == WHY) {
                    out.push(NodeAction::Uncordon { node: *id });
                }
            } else {
                validity = validity.and(Validity::Until(until));
                if cordon.is_none() {
                    out.push(NodeAction::Cordon {
                        node: *id,
                        why: WHY.into(),
                    });
                }
            }
        }
        validity
    }
}
