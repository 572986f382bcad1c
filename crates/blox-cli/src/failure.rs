//! Why a command failed: one sentence with a stable code.

use super::value::Expected;
use blox_core::registry::RegistryError;
use std::fmt;
use std::io;
use std::path::Path;

/// Reason why a command failed.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// One clear sentence for the user.
    Message {
        /// The family of the error.
        code: Code,
        /// The sentence.
        text: String,
    },
    /// The scheduler of a real cluster does not answer.
    #[cfg_attr(not(feature = "cluster"), allow(dead_code, reason = "there is none"))]
    Unreachable(String),
    /// The reader of the output closed it, which is no error.
    ClosedPipe,
}

impl Failure {
    /// An error in the family of its type.
    pub fn new(error: impl Coded) -> Self {
        Failure::of(error.code(), error)
    }

    /// An error in a family.
    pub fn of(code: Code, text: impl fmt::Display) -> Self {
        let text = text.to_string();
        Failure::Message { code, text }
    }

    /// An error of the operating system, except of writing to standard output.
    #[cfg(feature = "cluster")]
    pub fn system(error: io::Error) -> Self {
        Failure::of(Code::Output, error)
    }

    /// An error about an output file or folder.
    pub fn at(path: &Path, text: impl fmt::Display) -> Self {
        Failure::of(Code::Output, format!("{}: {text}", path.display()))
    }

    /// Returns the error that a file or folder cannot be written.
    pub fn unwritable(path: &Path, error: impl fmt::Display) -> Self {
        Failure::at(path, format!("cannot be written: {error}"))
    }

    /// The sentence without its code.
    #[cfg_attr(
        not(feature = "cluster"),
        allow(dead_code, reason = "for its commands")
    )]
    pub fn into_text(self) -> String {
        match self {
            Failure::Message { text, .. } | Failure::Unreachable(text) => text,
            Failure::ClosedPipe => "the output is closed".to_owned(),
        }
    }
}

impl From<io::Error> for Failure {
    /// Of writing to standard output; files have their own messages.
    fn from(e: io::Error) -> Self {
        match e.kind() {
            io::ErrorKind::BrokenPipe => Failure::ClosedPipe,
            _ => Failure::of(Code::Output, format!("the output cannot be written: {e}")),
        }
    }
}

impl<E: Coded> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure::new(error)
    }
}

/// Defines the families of errors: description, name, code, meaning and advice.
macro_rules! codes {
    ($($(#[$meta:meta])* $name:ident $code:literal $meaning:literal $advice:literal)*) => {
        /// A family of errors. Codes are stable: a code is never given to another family.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[cfg_attr(
            not(all(feature = "released", feature = "cluster")),
            allow(dead_code, reason = "some need a feature")
        )]
        pub(super) enum Code {
            $($(#[$meta])* $name,)*
        }

        impl Code {
            /// Every family, by code.
            pub const ALL: [Code; [$($code),*].len()] = [$(Code::$name),*];

            fn entry(self) -> (&'static str, &'static str, &'static str) {
                match self {
                    $(Code::$name => ($code, $meaning, $advice),)*
                }
            }
        }
    };
}

codes! {
    /// Options and arguments.
    Usage "E0101"
        "An option or argument has a wrong value, is missing, or contradicts another."
        "Use a value that the message names. `blox COMMAND --help` lists all options."
    /// Output files and folders.
    Output "E0102"
        "An output file or folder cannot be written, or would replace what is there."
        "Name another path, or use `--force` for a folder of earlier results."
    /// A workload file that cannot be read.
    WorkloadFile "E0201"
        "A workload file cannot be read: it is missing, empty, damaged or no regular file."
        "Check the path and the permissions. Compress a damaged gzip file again."
    /// A workload file of no known format.
    Format "E0202"
        "The format of a workload file is unknown."
        "Name the format with `--format`, or the columns with `--map`."
    /// Columns of a table.
    Columns "E0203"
        "A table lacks columns, or `--map` is not understood."
        "Rename the columns, or name them with `--map`."
    /// A row of a workload.
    Row "E0204"
        "A row of a workload is no job."
        "Correct the line. `blox trace check` lists all such lines."
    /// A workload that cannot be made.
    Workload "E0205"
        "A workload cannot be made from its settings or tables."
        "Use a value that the message names."
    /// A name that is not registered.
    Name "E0301"
        "No component has this name."
        "Use a name that the message lists. `blox policies` lists all names."
    /// A parameter of a component.
    Parameter "E0302"
        "A parameter of a component is unknown or has a wrong value."
        "`blox policies NAME` lists the parameters of a component."
    /// Components that make no scheduler.
    Composition "E0303"
        "Components do not make a scheduler together."
        "Replace the component that the message names."
    /// A description of a cluster.
    Cluster "E0401"
        "A cluster file or shorthand describes no cluster."
        "Write `NODESxGPUS`, or correct the line of the file."
    /// A simulation or replay that cannot go on.
    Simulation "E0501"
        "A simulation or replay cannot go on."
        "The message names the policy or the job. Run the conformance suite on a policy of your own."
    /// A result folder.
    Results "E0601"
        "A folder holds no results, or incomplete results."
        "Name a folder that was written with `--output-dir`, and run what was interrupted again."
    /// A model of durations or load.
    Model "E0602"
        "A model cannot be trained or applied."
        "Check the log, the target and the features that the message names."
    /// A published case or figure.
    Released "E0603"
        "A published case or figure cannot be repeated."
        "Get the data that the message names, and pass its folder with `--data`."
    /// A request that the scheduler of a cluster refuses.
    Request "E0701"
        "The scheduler of a cluster refuses a request."
        "`blox queue` and `blox nodes` show jobs and nodes as the scheduler knows them."
    /// A daemon of a cluster.
    Daemon "E0702"
        "A daemon of a cluster cannot start, or cannot go on."
        "Check the address, the state folder and the free space of its disk."
    /// A scheduler that does not answer.
    Unreachable "E0703"
        "The scheduler of a cluster does not answer. The exit code is 3."
        "Check `--at`, the token file, and whether `blox scheduler` runs."
}

impl Code {
    /// The code.
    pub fn name(self) -> &'static str {
        self.entry().0
    }

    /// What went wrong.
    pub fn meaning(self) -> &'static str {
        self.entry().1
    }

    /// What to do about it.
    pub fn advice(self) -> &'static str {
        self.entry().2
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An error with a family.
pub(super) trait Coded: fmt::Display {
    /// The family.
    fn code(&self) -> Code;
}

macro_rules! families {
    ($($code:ident: $($error:ty),*;)*) => {
        $($(impl Coded for $error {
            fn code(&self) -> Code {
                Code::$code
            }
        })*)*
    };
}

families! {
    Usage: String, &str, &String, Expected;
    Output: serde_json::Error;
    Format: blox_traces::FormatError;
    Columns: blox_traces::MapError;
    Composition: blox_core::ComposeError;
    Cluster: blox_core::ClusterSpecError, blox_traces::cluster_file::ClusterFileError;
    Simulation: blox_sim::SimError, blox_core::replay::ReplayError, blox_core::DecisionError;
    Results: blox_results::FolderError;
    Model: blox_schedulers::estimate::EstimateError;
}

#[cfg(feature = "released")]
families! {
    Released: blox_released::figure::ReproduceError, blox_released::verify::VerifyError;
}

#[cfg(feature = "cluster")]
families! {
    Daemon: blox_cluster::shell::scheduler::SchedulerError, tokio::task::JoinError,
        tokio::sync::oneshot::error::RecvError;
}

/// Returns a sentence about the wrong value of an option. A message such as `expected a number`
/// continues it.
pub(super) fn wrong_value(option: &str, found: &str, why: &str) -> String {
    match why.starts_with("expected ") {
        true => format!("{option} is `{found}`, {why}"),
        false => format!("{option}: {why}"),
    }
}

/// Returns the message and the family of an error of a value's type.
pub(super) fn of_value(error: &(dyn std::error::Error + 'static)) -> Option<(String, Code)> {
    type Source = dyn std::error::Error + 'static;
    fn of<E: Coded + std::error::Error + 'static>(e: &Source) -> Option<Code> {
        e.downcast_ref::<E>().map(Coded::code)
    }
    let code = of::<Expected>(error)
        .or_else(|| of::<RegistryError>(error))
        .or_else(|| of::<blox_traces::FormatError>(error))
        .or_else(|| of::<blox_traces::MapError>(error))?;
    Some((error.to_string(), code))
}

impl Coded for blox_sim::workload::WorkloadError {
    fn code(&self) -> Code {
        use blox_sim::workload::WorkloadError as E;
        match self {
            E::Missing { .. }
            | E::Directory { .. }
            | E::Empty { .. }
            | E::Io { .. }
            | E::NotAFile { .. }
            | E::TruncatedGzip { .. }
            | E::DamagedGzip { .. }
            | E::Changed { .. } => Code::WorkloadFile,
            E::UnknownFormat { .. } => Code::Format,
            E::Columns { .. } => Code::Columns,
            E::Field { .. } | E::Line { .. } | E::Unreadable { .. } | E::RowTooLong { .. } => {
                Code::Row
            }
            E::Write { .. } => Code::Output,
            _ => Code::Workload,
        }
    }
}

impl Coded for RegistryError {
    fn code(&self) -> Code {
        match self {
            RegistryError::UnknownName { .. } => Code::Name,
            RegistryError::Compose(_) => Code::Composition,
            _ => Code::Parameter,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_different_and_in_order() {
        let names = Code::ALL.map(Code::name);
        assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
    }

    #[test]
    fn page_lists_every_code_and_no_other() {
        let page = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/src/reference/errors.md"
        );
        // A package has no page.
        let Ok(page) = std::fs::read_to_string(page) else {
            return;
        };
        let rows = page.lines().filter(|line| line.starts_with("| E0"));
        let expected = Code::ALL
            .iter()
            .map(|code| format!("| {code} | {} | {} |", code.meaning(), code.advice()));
        assert_eq!(rows.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }
}
