//! Simulator of the blox toolkit: workloads, clusters, and what runs them.

pub mod cluster_file;
pub mod compat;
pub mod workload;
