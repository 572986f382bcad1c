//! Numbers of jobs with data that some policies need.

use serde::{Deserialize, Serialize};

/// Numbers of jobs with the data that some policies need. Without such jobs, these policies work
/// without the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WorkloadInfo {
    /// Jobs with a user's estimate of the running time (`estimator=user`).
    pub user_estimates: u64,
    /// Jobs with an [estimate](blox_core::estimate::ESTIMATE) among their attributes
    /// (`estimator=brought`).
    pub brought: u64,
    /// Jobs with speeds by type of GPU, or with training data, from which speeds follow.
    pub speeds: u64,
    /// Jobs with training data, which restart in the time of their specification under
    /// [`CheckpointRestart`](crate::overheads::CheckpointRestart). Also jobs that are not measured.
    pub training: u64,
}
