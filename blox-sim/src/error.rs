//! Errors that end a simulation.

use crate::workload::WorkloadError;
use blox_core::{DecisionError, EventError, JobId, SpecError, Time};

/// An error that ends a simulation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// The workload could not be read.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The scheduler's memory cannot be written into the journal.
    #[error(transparent)]
    Memory(#[from] blox_core::MemoryError),
    /// The cluster specification is invalid.
    #[error(transparent)]
    Cluster(#[from] blox_core::ClusterSpecError),
    /// The policy failed. The simulation ends, because its result would be meaningless.
    #[error("at {at} s: {error}")]
    Policy {
        /// Time of the failure.
        at: Time,
        /// The cause.
        error: DecisionError,
    },
    /// The simulator and the state disagree: an error in this crate.
    #[error("at {at} s: {error}; this is an error in the simulator")]
    Event {
        /// Time of the event.
        at: Time,
        /// The cause.
        error: EventError,
    },
    /// The execution model gave a job no speed, or an invalid one.
    #[error("at {at} s: execution model `{model}` gives job {job} {given}")]
    Speed {
        /// Time of the launch, or of the change.
        at: Time,
        /// Name of the [model](crate::execution::ExecutionModel::name).
        model: String,
        /// The job.
        job: JobId,
        /// Result of the model, and where the job is.
        given: String,
    },
    /// An [injected event](crate::Simulation::happening) is impossible.
    #[error("at {at} s: {error}; the event was injected at this time")]
    Impossible {
        /// Time of the event.
        at: Time,
        /// The cause.
        error: EventError,
    },
    /// A job of the workload has an invalid field.
    #[error("job {job} of the workload: {error}")]
    Job {
        /// The job.
        job: JobId,
        /// The field.
        error: SpecError,
    },
    /// The workload is not in order of submission.
    #[error("job {job} is submitted at {found} s, before the job ahead of it at {last} s")]
    Unordered {
        /// The job.
        job: JobId,
        /// Its time of submission.
        found: Time,
        /// Time of the previous submission.
        last: Time,
    },
}
