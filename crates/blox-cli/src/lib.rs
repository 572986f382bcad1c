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
//! - 0: success;
//! - 1: `claims`, `verify`, `replay` or `reproduce` found a difference;
//! - 2: wrong usage or bad input;
//! - 3: the scheduler of a real cluster does not answer;
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
mod assumptions;
mod chrome;
mod claims;
mod cluster;
mod config;
mod estimate;
mod execute;
mod explain;
mod failure;
mod files;
mod grid;
mod job_data;
mod leftovers;
mod lock;
mod losses;
mod man;
mod new;
mod output;
mod plan;
mod plot;
mod policies;
mod progress;
mod reading;
mod recording;
mod replay;
#[cfg(feature = "released")]
mod reproduce;
mod resolve;
mod result;
mod run;
mod seeds;
mod step;
mod sweep;
mod table;
mod trace;
mod value;
#[cfg(feature = "released")]
mod verify;

pub use cluster::backend;

use args::{Cli, Command};
use blox_core::suggest::one_of;
use blox_registry::Registry;
use clap::FromArgMatches;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use failure::{Code, Failure};
use grid::Form;
use std::error::Error as _;
use std::ffi::OsString;
use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;

/// Message of commands that need released programs, in a build without them.
#[cfg(not(feature = "released"))]
const WITHOUT_RELEASED: &str = "`verify` and `reproduce` repeat released programs, which this build leaves out; build with `--features released`";

/// Addition to the message about an unknown name, in a build without released programs.
const WITHOUT_RELEASED_NAMES: &str =
    "; emulations of released programs need a build with `--features released`";

const OK: i32 = 0;
const DIFFERS: i32 = 1;
const BAD_INPUT: i32 = 2;
const UNREACHABLE: i32 = 3;
const INTERRUPTED: i32 = 130;

/// Input and output of a command. The input holds the commands of `step`.
struct Terminal<'a> {
    input: &'a mut dyn BufRead,
    /// True if the input is a terminal, so that `step` prints prompts.
    prompts: bool,
    out: &'a mut dyn Write,
    /// Default format of tables.
    form: Form,
    err: &'a mut dyn Write,
    /// True in a process with an interactive user: it may show progress and handle Ctrl-C.
    interactive: bool,
}

impl Terminal<'_> {
    /// Prints results.
    fn print(&mut self, text: &str) -> Result<(), Failure> {
        self.out.write_all(text.as_bytes())?;
        Ok(self.out.flush()?)
    }

    /// Fails with the last of several errors, and prints those before. Equal ones are shown once.
    fn failed<T>(&mut self, mut failures: Vec<Failure>) -> Result<T, Failure> {
        let last = failures.pop().unwrap_or(Failure::ClosedPipe);
        let last_text = last.to_string();
        let mut texts: Vec<String> = failures.iter().map(ToString::to_string).collect();
        texts.retain(|text| *text != last_text);
        texts.dedup();
        for text in texts {
            let _ = writeln!(self.err, "error: {text}");
        }
        Err(last)
    }

    /// Prints notices, a line each.
    fn notices<'a>(&mut self, notices: impl IntoIterator<Item = &'a String>) {
        for notice in notices {
            let _ = writeln!(self.err, "notice: {notice}");
        }
    }
}

/// Runs the command line of this process with the policies of a registry.
pub fn run(registry: Registry) -> ExitCode {
    // Not locked: the progress bar shares standard error.
    let (mut out, mut err) = (io::stdout(), io::stderr());
    let prompts = io::stdin().is_terminal();
    let mut terminal = Terminal {
        input: &mut io::stdin().lock(),
        prompts,
        form: match out.is_terminal() {
            true => Form::of_terminal(),
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
    let result = match parse(&args, terminal) {
        Ok(Ok(command)) => execute_command(registry, command, &args, terminal),
        Ok(Err(code)) => Ok(code),
        Err(failure) => Err(failure),
    };
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

fn execute_command(
    registry: &Registry,
    command: Command,
    args: &[OsString],
    terminal: &mut Terminal<'_>,
) -> Result<i32, Failure> {
    match command {
        Command::Simulate(a) => {
            let given = config::one_scheduler(a, "simulate")?;
            run::simulate(registry, given, args, terminal)
        }
        Command::Compare(a) => {
            let given = config::compare(a)?;
            match given.options.seeds {
                Some(_) => seeds::compare(registry, given, terminal),
                None => run::simulate(registry, given, args, terminal),
            }
        }
        Command::Sweep(a) => sweep::sweep(registry, config::sweep(a)?, args, terminal),
        Command::Claims(a) => claims::run(registry, &a, terminal),
        Command::Policies { name } => policies::run(registry, name.as_deref(), terminal),
        #[cfg(feature = "released")]
        Command::Verify(a) => verify::run(&a, terminal),
        Command::New(a) => new::run(registry, &a, terminal),
        Command::Completions { shell } => completions(shell, terminal),
        Command::Man { dir } => man::run(&dir, terminal),
        Command::Explain { code } => explain::run(code.as_deref(), terminal),
        Command::Step(a) => step::run(registry, config::step(a)?, terminal),
        Command::Replay(a) => replay::run(registry, a, terminal),
        Command::Plot(a) => plot::run(&a, terminal),
        Command::Report(a) => plot::report(&a, terminal),
        Command::Trace(a) => trace::run(registry, a, terminal),
        #[cfg(feature = "released")]
        Command::Reproduce(a) => reproduce::run(&a, args, terminal),
        #[cfg(not(feature = "released"))]
        Command::Verify(_) | Command::Reproduce(_) => Err(Failure::new(WITHOUT_RELEASED)),
        Command::Estimate(a) => estimate::run(a, terminal),
        Command::Cluster(command) => cluster::run(registry, command, terminal),
    }
}

fn completions(shell: clap_complete::Shell, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut args::command(), "blox", &mut script);
    terminal.out.write_all(&script)?;
    Ok(OK)
}

/// Removes hidden commands from the suggestions for a misspelled command.
fn suggest_no_hidden(e: &mut clap::Error) {
    let kind = ContextKind::SuggestedSubcommand;
    let Some(ContextValue::Strings(names)) = e.get(kind) else {
        return;
    };
    let command = args::command();
    let hidden = |name: &str| {
        command
            .find_subcommand(name)
            .is_some_and(|c| c.is_hide_set())
    };
    let shown: Vec<String> = names.iter().filter(|n| !hidden(n)).cloned().collect();
    e.insert(kind, ContextValue::Strings(shown));
}

/// Formats wrong usage: the code ends the first paragraph. Help has no code.
fn with_code(e: &clap::Error) -> String {
    if let Some(text) = wrong_value(e) {
        return text;
    }
    let mut text = e.render().to_string();
    if let Some(extra) = extra_argument(e) {
        // What clap prints first does not say why the argument is wrong.
        let rest = text.split_once("\n\n").map(|(_, rest)| rest.to_owned());
        text = format!("{extra}\n\n{}", rest.unwrap_or_default());
    }
    if e.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return text;
    }
    let end = text.find("\n\n").unwrap_or(text.trim_end().len());
    let (sentence, rest) = text.split_at(end);
    format!("{sentence} [{}]{rest}", Code::Usage)
}

/// Formats the error about an argument that follows all arguments of its command.
fn extra_argument(e: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(found)) = e.get(ContextKind::InvalidArg) else {
        return None;
    };
    if e.kind() != ErrorKind::UnknownArgument || found.starts_with('-') {
        return None;
    }
    // The scheduler of `simulate` is one name.
    let hint = match e.render().to_string().contains(" simulate ") {
        true => "; `blox compare` takes several schedulers",
        false => "",
    };
    Some(format!("error: `{found}` is one argument too many{hint}"))
}

/// Formats the error about a value, unless the parser of the value has no message of its own.
fn wrong_value(e: &clap::Error) -> Option<String> {
    let text = |kind| match e.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let option = text(ContextKind::InvalidArg)?.split(' ').next()?;
    let value = text(ContextKind::InvalidValue)?;
    let (why, code) = match e.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(known)) if !known.is_empty() => {
            let known = one_of(value, known.iter().map(String::as_str));
            (format!("expected {known}"), Code::Usage)
        }
        _ => failure::of_value(e.source()?)?,
    };
    let sentence = failure::wrong_value(option, value, &why);
    Some(format!("error: {sentence} [{code}]\n"))
}

/// Parses a command line. After printing help or an error, returns the exit code.
fn parse(args: &[OsString], terminal: &mut Terminal<'_>) -> Result<Result<Command, i32>, Failure> {
    if let Some(command) = Command::of_simulation(args) {
        return Ok(Ok(command));
    }
    let matches = args::command().try_get_matches_from(args);
    match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => Ok(Ok(cli.command)),
        Err(mut e) if e.use_stderr() => {
            suggest_no_hidden(&mut e);
            let _ = terminal.err.write_all(with_code(&e).as_bytes());
            Ok(Err(BAD_INPUT))
        }
        Err(e) => {
            write!(terminal.out, "{}", e.render())?;
            Ok(Err(OK))
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
