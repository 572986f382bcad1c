//! Errors of experiments.

use blox_core::{ComposeError, DecisionError, Name};
use blox_registry::RegistryError;
use blox_sim::SimError;
use blox_traces::cluster_file::ClusterFileError;
use blox_workloads::WorkloadError;
use std::path::PathBuf;

/// Why an experiment cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExperimentError {
    /// A setting that is wrong, or that contradicts another.
    #[error("{0}")]
    Setting(String),
    /// A component that cannot be built.
    #[error("{before}{source}{after}")]
    Component {
        /// The component, for the message.
        before: String,
        /// The cause.
        source: Box<RegistryError>,
        /// An advice.
        after: &'static str,
    },
    /// Components that make no scheduler.
    #[error(transparent)]
    Compose(#[from] ComposeError),
    /// A cluster that cannot be read.
    #[error("{before}{source}")]
    Cluster {
        /// The cluster, for the message.
        before: String,
        /// The cause.
        source: Box<ClusterFileError>,
    },
    /// A workload that cannot be read.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A configuration file that cannot be read.
    #[error("{}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        why: String,
    },
    /// A wrong value in a configuration file.
    #[error("{}:{line}: `{found}`: {what}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The text of the line.
        found: String,
        /// The fault.
        what: String,
    },
    /// A simulation that cannot go on.
    #[error("{scheduler}: {source}")]
    Simulation {
        /// The scheduler with its parameters.
        scheduler: String,
        /// The cause.
        source: Box<SimError>,
    },
    /// A scheduler that did not answer in time.
    #[error("at {at} s: {source}; {}", results_before(*at))]
    Late {
        /// Simulated seconds.
        at: u64,
        /// The cause.
        source: DecisionError,
    },
    /// A scheduler that did not end its decision after an interruption.
    #[error(
        "at {at} s: {scheduler} did not end its decision in {within_s} s; {}",
        results_before(*at)
    )]
    Interrupted {
        /// Simulated seconds.
        at: u64,
        /// The scheduler with its parameters.
        scheduler: Name,
        /// Seconds that it had.
        within_s: u64,
    },
}

fn results_before(at: u64) -> String {
    format!("--until {at} gives the results before")
}

impl From<RegistryError> for ExperimentError {
    fn from(source: RegistryError) -> Self {
        ExperimentError::Component {
            before: String::new(),
            source: Box::new(source),
            after: "",
        }
    }
}
