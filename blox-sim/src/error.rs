//! What can end a simulation.

use crate::workload::WorkloadError;
use blox_core::{DecideError, EventError, JobId, Time};

/// Why a simulation could not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// The workload could not be read.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The scheduler's memory cannot be written into the journal.
    #[error(transparent)]
    Memory(#[from] blox_core::MemoryError),
    /// The cluster makes no sense.
    #[error(transparent)]
    Cluster(#[from] blox_core::ClusterSpecError),
    /// The policy erred. A simulation does not go on after that: its result would mean nothing.
    #[error("at {at} s: {error}")]
    Policy {
        /// When.
        at: Time,
        /// How.
        error: DecideError,
    },
    /// The simulator and the state disagree: an error in this crate.
    #[error("at {at} s: {error}; this is an error in the simulator")]
    Event {
        /// When.
        at: Time,
        /// How.
        error: EventError,
    },
    /// What was [said to happen](crate::Simulation::happening) cannot.
    #[error("at {at} s: {error}; it was said to happen then")]
    Impossible {
        /// When.
        at: Time,
        /// Why not.
        error: EventError,
    },
    /// A workload that is not in order of submission.
    #[error("job {job} is submitted at {found} s, before the job ahead of it at {last} s")]
    Unordered {
        /// The job.
        job: JobId,
        /// When it is submitted.
        found: Time,
        /// When the last one was.
        last: Time,
    },
}
