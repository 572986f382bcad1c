//! One configuration.

use blox_core::GpuTypeId;

/// So many GPUs of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The type.
    pub gpu_type: GpuTypeId,
    /// Nodes that they lie on.
    pub nodes: u32,
    /// GPUs.
    pub gpus: u32,
    /// Its place among all configurations of the cluster; `None` for one of a rigid job.
    pub column: Option<usize>,
}
