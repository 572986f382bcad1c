//! Virtual clusters with their own nodes and queues, each with a simulation of its own. With the
//! feature `parallel`, the simulations run on threads.
//!
//! Nodes belong to the virtual cluster of their partition, jobs to the one that they are submitted
//! to. Virtual clusters share nothing, so each has a separate simulation. Its results depend
//! neither on the others nor on the number of threads.
//!
//! ```
//! # use blox_core::{Composition, Pipeline, order::SortKey, policy::by_key};
//! # use blox_testing::FirstFit;
//! use blox_core::{ClusterSpec, GpuCount, JobSpec, NodeSpec, Seconds, Time};
//! use blox_sim::{Simulation, virtual_clusters};
//!
//! # fn fifo() -> Pipeline {
//! #     Composition::new("fifo")
//! #         .scheduling(by_key(|job| SortKey::by(job.submit().secs())).valid_until_event())
//! #         .placement(FirstFit)
//! #         .build()
//! #         .unwrap()
//! # }
//!
//! let cluster = ClusterSpec {
//!     nodes: ["a", "b"].map(|vc| NodeSpec::with_gpus(1).in_partition(vc)).into(),
//!     ..ClusterSpec::default()
//! };
//! let job = |at, vc| {
//!     JobSpec::new(Time::new(at), GpuCount(1), Seconds::new(300.0)).in_virtual_cluster(vc)
//! };
//! let jobs = vec![job(0.0, "a"), job(1.0, "a"), job(2.0, "b")];
//! let runs = virtual_clusters::simulate(
//!     &cluster,
//!     &jobs,
//!     Simulation::new,
//!     |_| fifo(),
//! )?;
//! let names: Vec<&str> = runs.iter().map(|r| &*r.name).collect();
//! assert_eq!(names, ["a", "b"]);
//! // In b nobody waits for a's jobs.
//! assert_eq!(runs[1].report.jobs[0].queueing().map(Seconds::secs), Some(298.0));
//! # Ok::<(), blox_sim::virtual_clusters::VirtualClusterError>(())
//! ```

use crate::workload::Jobs;
use crate::{Report, SimError, Simulation};
use blox_core::{ClusterSpec, JobSpec, Name, Pipeline};
#[cfg(feature = "parallel")]
use rayon::prelude::*;

/// Results of one virtual cluster.
#[derive(Clone, Debug)]
pub struct Part {
    /// Name of the virtual cluster.
    pub name: Name,
    /// Indices of its jobs among all jobs: of job 0 of the report, of job 1, and so on.
    pub jobs: Vec<usize>,
    /// Its results. Nodes and jobs are numbered within it.
    pub report: Report,
}

/// An error of simulating virtual clusters.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VirtualClusterError {
    /// A node belongs to no virtual cluster.
    #[error("node {0} is in no partition, expected the virtual cluster that it serves")]
    Node(usize),
    /// A job's virtual cluster has no nodes.
    #[error("job {job} is of the virtual cluster {found}, expected one of {known}")]
    Job {
        /// Index of the job.
        job: usize,
        /// Virtual cluster of the job.
        found: String,
        /// Virtual clusters with nodes.
        known: String,
    },
    /// A simulation failed.
    #[error("virtual cluster {name}: {error}")]
    Simulation {
        /// Name of the virtual cluster.
        name: Name,
        /// The cause.
        error: Box<SimError>,
    },
}

/// Returns the nodes of one virtual cluster. The error lists all virtual clusters with nodes.
///
/// # Errors
/// No node is in that partition.
pub fn nodes_of(cluster: &ClusterSpec, name: &str) -> Result<ClusterSpec, Vec<Name>> {
    let ours = |n: &&blox_core::NodeSpec| n.partition.as_deref() == Some(name);
    let nodes: Vec<_> = cluster.nodes.iter().filter(ours).cloned().collect();
    if nodes.is_empty() {
        let mut known: Vec<Name> = Vec::new();
        for partition in cluster.nodes.iter().filter_map(|n| n.partition.as_ref()) {
            if !known.contains(partition) {
                known.push(partition.clone());
            }
        }
        return Err(known);
    }
    Ok(ClusterSpec {
        nodes,
        network: cluster.network.clone(),
        ..ClusterSpec::default()
    })
}

/// Simulates every virtual cluster, in the order of their first nodes. Each has a separate
/// simulation of its nodes and its own scheduler. `jobs` are in order of submission.
///
/// # Errors
/// A node or a job belongs to no virtual cluster, or a simulation failed.
pub fn simulate(
    cluster: &ClusterSpec,
    jobs: &[JobSpec],
    simulation: impl Fn(ClusterSpec) -> Simulation + Sync,
    scheduler: impl Fn(&Name) -> Pipeline + Sync,
) -> Result<Vec<Part>, VirtualClusterError> {
    let mut names: Vec<Name> = Vec::new();
    for (i, node) in cluster.nodes.iter().enumerate() {
        let name = node
            .partition
            .as_ref()
            .ok_or(VirtualClusterError::Node(i))?;
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    for (i, job) in jobs.iter().enumerate() {
        let of = job.virtual_cluster.as_ref();
        if !of.is_some_and(|vc| names.contains(vc)) {
            let known: Vec<&str> = names.iter().map(|n| &**n).collect();
            return Err(VirtualClusterError::Job {
                job: i,
                found: of.map_or("none".to_owned(), |n| format!("`{n}`")),
                known: known.join(", "),
            });
        }
    }
    let one = |name: &Name| -> Result<Part, VirtualClusterError> {
        let ours = |i: &usize| jobs[*i].virtual_cluster.as_ref() == Some(name);
        let places: Vec<usize> = (0..jobs.len()).filter(ours).collect();
        let own: Vec<JobSpec> = places.iter().map(|i| jobs[*i].clone()).collect();
        let nodes = nodes_of(cluster, name).unwrap_or_default();
        let report = simulation(nodes)
            .run(scheduler(name), &mut Jobs::new(own))
            .map_err(|error| VirtualClusterError::Simulation {
                name: name.clone(),
                error: Box::new(error),
            })?;
        Ok(Part {
            name: name.clone(),
            jobs: places,
            report,
        })
    };
    #[cfg(feature = "parallel")]
    let parts = names.par_iter();
    #[cfg(not(feature = "parallel"))]
    let parts = names.iter();
    let parts: Vec<_> = parts.map(one).collect();
    // The first error in order, regardless of the threads.
    parts.into_iter().collect()
}
