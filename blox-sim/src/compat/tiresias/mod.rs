//! Files and steps of Tiresias' released simulator.
//!
//! - [`read_jobs`]: jobs, a header with
//!   `job_id,num_gpu,submit_time,iterations,model_name,duration,interval`.
//!   Times are in seconds, a duration is cut to whole ones. `iterations` and
//!   `interval` were never looked at; they and further columns are left out.
//! - [`read_cluster`]: a cluster, a header and one row of
//!   `num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node`,
//!   memory in GB. Nodes are in order of their switches, which are their location.
//! - [`read_samples`]: services of past jobs in whole GPU-seconds, a column
//!   `duration`.
//! - [`Steps`]: the moments at which its `gandiva` looks at the cluster.

mod cluster;
mod jobs;
mod samples;
mod steps;

pub use cluster::read_cluster;
pub(crate) use jobs::open_rows;
pub use jobs::read_jobs;
pub use samples::read_samples;
pub use steps::Steps;
