//! Layout of a job's GPUs over nodes.

use blox_core::{Assignment, NodeId, View};

/// Number of GPUs on each node, one after the other.
pub type Turns = Vec<(NodeId, u32)>;

/// Returns the number of GPUs on each node, in the order of the GPUs.
pub fn turns(view: View<'_>, assignment: &Assignment) -> Turns {
    let mut turns = Turns::new();
    let nodes = assignment.gpus.iter().map(|g| view.cluster().node_of(*g));
    for node in nodes.flatten() {
        match turns.last_mut() {
            Some((last, count)) if *last == node => *count += 1,
            _ => turns.push((node, 1)),
        }
    }
    turns
}
