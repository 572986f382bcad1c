// ANCHOR: assign
use blox::solve::assign;

/// Returns a node for each job, at most one job a node, so that together they leave the fewest GPUs
/// free beside them. As many jobs as possible get a node.
pub fn tightest(needed: &[u32], free: &[u32]) -> Vec<Option<usize>> {
    assign(needed.len(), free.len(), |job, node| {
        let left = free[node].checked_sub(needed[job]);
        left.map_or(f64::INFINITY, f64::from) // infinite: the job does not fit
    })
}
// ANCHOR_END: assign
