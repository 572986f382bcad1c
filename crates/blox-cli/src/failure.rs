//! Why a command failed: one sentence with a stable code.

use blox_experiment::ExperimentError;
use blox_experiment::value::Expected;
use blox_registry::RegistryError;
use std::fmt;
use std::io;
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};
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
    /// The user interrupted the command. One sentence about what did not end in time.
    Interrupted(String),
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
            Failure::Message { text, .. } | Failure::Interrupted(text) => text,
            Failure::ClosedPipe => "the output is closed".to_owned(),
        }
    }
}

impl fmt::Display for Failure {
    /// Writes the sentence with its code.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Message { text, code } => write!(f, "{text} [{code}]"),
            Failure::Interrupted(text) => f.write_str(text),
            Failure::ClosedPipe => f.write_str("the output is closed"),
        }
    }
}

impl From<io::Error> for Failure {
    /// Converts an error of writing to standard output. Files have their own messages.
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

/// A family of errors. Codes are stable: a code is never given to another family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(all(feature = "released", feature = "cluster")),
    allow(dead_code, reason = "some need a feature")
)]
pub(super) enum Code {
    /// Options and arguments.
    Usage = 101,
    /// Output files and folders.
    Output = 102,
    /// A workload file that cannot be read.
    WorkloadFile = 201,
    /// A workload file of no known format.
    Format = 202,
    /// Columns of a table.
    Columns = 203,
    /// A row of a workload.
    Row = 204,
    /// A workload that cannot be made.
    Workload = 205,
    /// A name that is not registered.
    Name = 301,
    /// A parameter of a component.
    Parameter = 302,
    /// Components that make no scheduler.
    Composition = 303,
    /// A description of a cluster.
    Cluster = 401,
    /// A simulation or replay that cannot go on.
    Simulation = 501,
    /// A result folder.
    Results = 601,
    /// A model of durations or load.
    Model = 602,
    /// A published case or figure.
    Released = 603,
    /// A request that the scheduler of a cluster refuses.
    Request = 701,
    /// A daemon of a cluster.
    Daemon = 702,
    /// A scheduler that does not answer.
    Unreachable = 703,
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "E{:04}", *self as u16)
    }
}

/// Returns the entry of each code, by code: the code, its meaning, and what to do about it.
pub(super) fn codes() -> impl Iterator<Item = [&'static str; 3]> {
    let entries = include_str!("codes.txt").split("\n\n");
    entries.filter_map(|entry| {
        let mut lines = entry.lines();
        Some([lines.next()?, lines.next()?, lines.next()?])
    })
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
    Model: blox_components::estimate::EstimateError;
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

/// Returns the message and the family of an error of a value's type.
pub(super) fn of_value(error: &(dyn std::error::Error + 'static)) -> Option<(String, Code)> {
    type Source = dyn std::error::Error + 'static;
    fn of<E: Coded + std::error::Error + 'static>(e: &Source) -> Option<Code> {
        e.downcast_ref::<E>().map(Coded::code)
    }
    let code = of::<Expected>(error)
        .or_else(|| of::<RegistryError>(error))
        .or_else(|| of::<blox_traces::FormatError>(error))
        .or_else(|| of::<blox_traces::MapError>(error));
    match code {
        Some(code) => Some((error.to_string(), code)),
        None => Some((format!("expected {}", untyped(error)?), Code::Usage)),
    }
}

/// Returns what an option expects, if the error is of a standard parser.
fn untyped(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    if let Some(error) = error.downcast_ref::<ParseIntError>() {
        let number = match error.kind() {
            IntErrorKind::PosOverflow => "a smaller whole number",
            IntErrorKind::NegOverflow => "a larger whole number",
            _ => "a whole number, at least 0",
        };
        return Some(number.to_owned());
    }
    if error.is::<ParseFloatError>() {
        return Some("a number".to_owned());
    }
    // The errors of clap's ranges and of plain texts have no type.
    let text = error.to_string();
    if let Some(expected) = text.strip_prefix("expected ") {
        return Some(expected.to_owned());
    }
    let (_, range) = text.split_once(" is not in ")?;
    let (least, most) = range.split_once("..=")?;
    Some(format!("a whole number from {least} to {most}"))
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
            E::UnknownFormat { .. } | E::NotText { .. } => Code::Format,
            E::Columns { .. } => Code::Columns,
            E::Field { .. } | E::Line { .. } | E::Unreadable { .. } => Code::Row,
            E::Write { .. } => Code::Output,
            _ => Code::Workload,
        }
    }
}

impl From<ExperimentError> for Failure {
    fn from(error: ExperimentError) -> Self {
        use ExperimentError as E;
        let code = match &error {
            E::Interrupted { .. } => return Failure::Interrupted(error.to_string()),
            E::Component { source, .. } => source.code(),
            E::Compose(source) => source.code(),
            E::Cluster { source, .. } => source.code(),
            E::Workload(source) => source.code(),
            E::Simulation { source, .. } => source.code(),
            E::Late { .. } => Code::Simulation,
            _ => Code::Usage,
        };
        Failure::of(code, error)
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
    fn codes_are_different_and_each_has_an_entry() {
        let variants = include_str!("failure.rs").lines().filter_map(|line| {
            let (_, number) = line.strip_suffix(',')?.split_once(" = ")?;
            let number: u16 = number.parse().ok()?;
            Some(format!("E{number:04}"))
        });
        let variants: Vec<String> = variants.collect();
        let names: Vec<&str> = codes().map(|[name, ..]| name).collect();
        assert_eq!(names, variants);
        assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
        assert_eq!(names.len(), include_str!("codes.txt").split("\n\n").count());
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
        let expected = codes().map(|entry| format!("| {} |", entry.join(" | ")));
        assert_eq!(rows.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }
}
