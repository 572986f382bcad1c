//! Errors of Slurm's commands.

/// A command of Slurm that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SlurmError {
    /// The program does not start.
    #[error("{program}: {error}, expected a program of Slurm in the search path")]
    Start {
        /// The program, such as `squeue`.
        program: &'static str,
        /// The cause.
        error: std::io::Error,
    },
    /// The program did not end in time.
    #[error("{program}: no end within {seconds} s")]
    Late {
        /// The program.
        program: &'static str,
        /// The limit in seconds.
        seconds: u64,
    },
    /// The program reports an error.
    #[error("{program}: {message}")]
    Failed {
        /// The program.
        program: &'static str,
        /// Its message, without a line break.
        message: String,
    },
    /// The output is not what this version of the toolkit reads.
    #[error("{program}: found {found}, expected {expected}")]
    Output {
        /// The program.
        program: &'static str,
        /// The part of the output.
        found: String,
        /// The expected content.
        expected: &'static str,
    },
}

impl SlurmError {
    /// Returns whether the controller does not answer, so that a later attempt may succeed.
    pub fn is_temporary(&self) -> bool {
        match self {
            SlurmError::Late { .. } => true,
            SlurmError::Failed { message, .. } => {
                let causes = [
                    "Unable to contact slurm controller",
                    "Unspecified error",
                    "Unexpected message received",
                    "Socket timed out",
                    "Connection refused",
                    "communication",
                    "slurm_load_jobs",
                    "slurm_load_node",
                    "backup controller",
                    "Zero Bytes were transmitted",
                    "Transport endpoint",
                ];
                causes.iter().any(|cause| message.contains(cause))
            }
            _ => false,
        }
    }
}
