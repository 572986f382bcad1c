//! Sia's configurations.

use blox_core::GpuTypeId;

/// A number of GPUs of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// GPU type.
    pub gpu_type: GpuTypeId,
    /// Number of nodes.
    pub nodes: u32,
    /// Number of GPUs.
    pub gpus: u32,
    /// Index among all configurations of the cluster; `None` for a configuration of a rigid job, of
    /// a job with levels, or of replicas that are no configuration of the cluster.
    pub column: Option<usize>,
}
