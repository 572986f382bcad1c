//! The number of nodes on which a job runs.

use std::fmt;

/// The nodes on which a job must run: their number, and the equal part of its GPUs on each of them.
///
/// A job states it by [`Extras::nodes`](crate::Extras::nodes). It never runs otherwise: a placement
/// that finds no such nodes leaves the job waiting.
///
/// ```
/// use blox_core::{Extras, GpuCount, JobSpec, Seconds, Time};
/// let job = JobSpec::new(Time::ZERO, GpuCount(8), Seconds::new(60.0));
/// assert_eq!(job.node_limit(), None);
/// let nodes = std::num::NonZeroU32::new(2);
/// let job = job.with_extras(Extras { nodes, ..Extras::default() });
/// let limit = job.node_limit().expect("the job states a number of nodes");
/// assert_eq!(limit.to_string(), "4 GPUs on each of 2 nodes");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeLimit {
    /// Number of nodes, at least 1.
    pub nodes: u32,
    /// Number of the job's GPUs on each of them.
    pub gpus: u32,
}

impl fmt::Display for NodeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NodeLimit { nodes, gpus } = self;
        let unit = if *gpus == 1 { "GPU" } else { "GPUs" };
        match nodes {
            1 => write!(f, "{gpus} {unit} on one node"),
            _ => write!(f, "{gpus} {unit} on each of {nodes} nodes"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_one_and_several_nodes() {
        let text = |nodes, gpus| NodeLimit { nodes, gpus }.to_string();
        assert_eq!(text(1, 8), "8 GPUs on one node");
        assert_eq!(text(3, 1), "1 GPU on each of 3 nodes");
    }
}
