//! The command line as a library. All subcommands use the policies of the registry that is passed
//! to it.
//!
//! ```no_run
//! fn main() -> std::process::ExitCode {
//!     let registry = blox_sim::registry::register(blox_schedulers::registry());
//!     let registry = blox_traces::registry::register(registry); // and what you add to it
//!     blox_cli::run(registry)
//! }
//! ```
//!
//! Data goes to standard output; errors and progress go to standard error. Exit codes:
//!
//! - 0: success.
//! - 1: `claims`, `verify`, `replay` or `reproduce` found a difference, or `step` refused commands.
//! - 2: wrong usage or bad input.
//! - 3: the scheduler of a real cluster does not answer.
//! - 130: interrupted by Ctrl-C or SIGTERM.
//!
//! | Task | Start with |
//! |---|---|
//! | Make your own program | [`run`] |
//! | Run a command line in a test | [`run_with`] |
//! | Add a scheduler or a policy | [`Registry`] |
//! | Add an execution model, overheads, a completion rule or a workload | [`World`](blox_sim::registry::World) |
//! | Start with everything that ships | [`blox_schedulers::registry()`], [`blox_sim::registry::register`], [`blox_traces::registry::register`] |

mod args;
mod claims;
mod cluster;
mod command;
mod config;
mod daemon_file;
mod estimate;
mod execute;
mod explain;
mod failure;
mod files;
mod help;
mod import;
mod leftovers;
mod lock;
mod man;
mod new;
mod output;
mod parts;
mod plan;
mod plot;
mod policies;
mod progress;
mod reading;
mod recording;
mod replay;
#[cfg(feature = "released")]
mod reproduce;
mod run;
mod seeds;
mod shard;
mod step;
mod sweep;
mod terminal;
mod text;
mod trace;
mod value;
#[cfg(feature = "released")]
mod verify;

pub use cluster::backend;

use blox_registry::Registry;
use blox_results::grid::Form;
use command::parse;
use failure::{Code, Failure};
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use terminal::{BAD_INPUT, INTERRUPTED, OK, Terminal, UNREACHABLE};

/// Addition to the message about an unknown name, in a build without released programs.
const WITHOUT_RELEASED_NAMES: &str =
    "; emulations of released programs need a build with `--features released`";

/// Runs the command line of this process with the policies of a registry.
pub fn run(registry: Registry) -> ExitCode {
    // Not locked: the progress bar shares standard error.
    let (mut out, mut err) = (io::stdout(), io::stderr());
    let prompts = io::stdin().is_terminal();
    let mut terminal = Terminal {
        input: &mut io::stdin().lock(),
        prompts,
        form: match out.is_terminal() {
            true => terminal::form_of_terminal(),
            false => Form::Lines,
        },
        out: &mut out,
        err: &mut err,
        interactive: true,
    };
    let code = run_in(&registry, std::env::args_os().collect(), &mut terminal);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

/// Runs a command line, which begins with the program's name, and returns its exit code.
///
/// ```
/// let (mut out, mut err) = (Vec::new(), Vec::new());
/// let args = ["blox", "compare", "fifo", "las", "--jobs", "20", "--cluster", "1x4"];
/// let registry = blox_traces::registry::register(blox_schedulers::registry());
/// let code = blox_cli::run_with(&registry, args, &mut out, &mut err);
/// assert_eq!(code, 0);
/// assert!(String::from_utf8_lossy(&out).contains("avg JCT"));
/// ```
pub fn run_with<A: Into<OsString>>(
    registry: &Registry,
    args: impl IntoIterator<Item = A>,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> i32 {
    let mut terminal = Terminal {
        input: &mut io::empty(),
        prompts: false,
        out: stdout,
        form: Form::Lines,
        err: stderr,
        interactive: false,
    };
    let args = args.into_iter().map(Into::into).collect();
    run_in(registry, args, &mut terminal)
}

fn run_in(registry: &Registry, args: Vec<OsString>, terminal: &mut Terminal<'_>) -> i32 {
    let beside = cluster::beside_shim(args.get(1..).unwrap_or_default());
    let result = beside.unwrap_or_else(|| match parse(&args, terminal) {
        Ok(Ok(command)) => command.run(registry, &args, terminal),
        Ok(Err(code)) => Ok(code),
        Err(failure) => Err(failure),
    });
    let result = result.and_then(|code| {
        terminal.out.flush()?;
        Ok(code)
    });
    match result {
        Ok(code) => code,
        Err(Failure::ClosedPipe) => OK,
        Err(Failure::Interrupted(text)) => {
            let _ = writeln!(terminal.err, "interrupted: {text}");
            INTERRUPTED
        }
        Err(Failure::Message { code, text }) => {
            let more = match code {
                Code::Name
                    if cfg!(not(feature = "released")) && text.contains("unknown scheduler") =>
                {
                    WITHOUT_RELEASED_NAMES
                }
                _ => "",
            };
            // If this cannot be written, there is no other way to report the error.
            let failure = Failure::Message {
                code,
                text: text + more,
            };
            let _ = writeln!(terminal.err, "error: {failure}");
            match code {
                Code::Unreachable => UNREACHABLE,
                _ => BAD_INPUT,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hidden_command_is_never_suggested() {
        let registry = Registry::new();
        for wrong in ["simulat", "shi", "stp"] {
            let (mut out, mut err) = (Vec::new(), Vec::new());
            let code = run_with(&registry, ["blox", wrong, "las"], &mut out, &mut err);
            let err = String::from_utf8_lossy(&err);
            assert!(code == BAD_INPUT && !err.contains("shim"), "{err}");
        }
    }
}
