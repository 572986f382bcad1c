//! The commands, and messages about wrong usage.

use crate::args::{
    ClaimsArgs, CompareArgs, NewArgs, PlotArgs, ReplayArgs, ReportArgs, ReproduceArgs,
    SimulateArgs, StepArgs, SweepArgs, VerifyArgs,
};
use crate::cluster::{self, ClusterCommand};
use crate::daemon_file;
use crate::estimate::EstimateCommand;
use crate::failure::{self, Code, Failure};
use crate::help::{Late, with_help};
use crate::import::ImportCommand;
use crate::terminal::{BAD_INPUT, OK, Terminal};
use crate::trace::TraceCommand;
use crate::{
    claims, config, estimate, explain, import, man, new, plot, policies, replay, run, seeds, step,
    sweep, trace,
};
#[cfg(feature = "released")]
use crate::{reproduce, verify};
use blox_core::suggest::one_of;

use blox_registry::Registry;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::error::Error as _;
use std::ffi::OsString;
use std::path::PathBuf;

/// Message of commands that need released programs, in a build without them.
#[cfg(not(feature = "released"))]
const WITHOUT_RELEASED: &str = "`verify` and `reproduce` repeat released programs, which this build leaves out; build with `--features released`";

#[derive(Parser)]
#[command(
    name = "blox",
    version,
    about = "Compose, simulate and compare deep-learning cluster schedulers",
    arg_required_else_help = true
)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub(super) enum Command {
    /// Simulate one scheduler on a workload
    Simulate(Late<SimulateArgs>),
    /// Compare several schedulers on the same jobs, seed and faults
    Compare(Late<CompareArgs>),
    /// Run schedulers over loads, seeds and any other options, on all cores
    Sweep(Late<SweepArgs>),
    /// List schedulers, policies and their parameters
    Policies {
        /// Show only the entry of this name
        name: Option<String>,
    },
    /// Check what the schedulers' papers claim, on generated workloads
    ///
    /// A factor above 1 means that the scheduler is better than the baseline. The interval of nominal
    /// level 95 % is over seeds. The exit status is 1 if a verdict differs from the expected one.
    Claims(Late<ClaimsArgs>),
    /// Compare with the results of the original programs, job by job
    Verify(Late<VerifyArgs>),
    /// Draw the plots of result folders
    Plot(Late<PlotArgs>),
    /// Make one self-contained HTML page of result folders
    Report(Late<ReportArgs>),
    /// Step through a simulation decision by decision
    ///
    /// Commands come from standard input, one per line; `help` lists them. Jobs are identified by
    /// their numbers, from 0 in order of submission.
    Step(Late<StepArgs>),
    /// Repeat the decisions of a journal and compare them
    ///
    /// A journal is the output of `--journal FILE`, from a simulation or from the scheduler of a
    /// cluster. It names the scheduler. Options that changed the decisions of the run, such as
    /// --placement or --round, must be given again. The exit status is 1 if a decision differs.
    Replay(Late<ReplayArgs>),
    /// Create a crate with policies, a collector or an execution model of your own
    ///
    /// The crate builds and passes its tests. Its program has every subcommand of this one. One crate
    /// may have any set of parts; a scheduler combines its policies.
    New(Late<NewArgs>),
    /// Print shell completions
    Completions {
        /// Name of the shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Write one man page for each command
    Man {
        /// The folder for the pages; pages of the same names are replaced
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
    /// Explain an error code, or list all
    Explain {
        /// The code at the end of an error message, such as E0203
        #[arg(value_name = "CODE")]
        code: Option<String>,
    },
    /// Inspect, check, convert, sample and generate workload files
    #[command(subcommand, arg_required_else_help = true)]
    Trace(Late<TraceCommand>),
    /// Turn the queue of another system into a workload file and a cluster file
    #[command(subcommand, arg_required_else_help = true)]
    Import(Late<ImportCommand>),
    /// Reproduce a published figure: its numbers beside ours, and its picture
    Reproduce(Late<ReproduceArgs>),
    /// Train, evaluate, plot and query models of durations and load
    #[command(subcommand, arg_required_else_help = true)]
    Estimate(Late<EstimateCommand>),
    #[command(flatten)]
    Cluster(ClusterCommand),
}

impl Command {
    /// Runs the command, whose command line is `line`. Returns its exit code.
    pub fn run(
        self,
        registry: &Registry,
        line: &[OsString],
        terminal: &mut Terminal<'_>,
    ) -> Result<i32, Failure> {
        match self {
            Command::Simulate(late) => {
                let given = config::one_scheduler(*late.args, &late.matches, "simulate")?;
                run::simulate(registry, given, line, terminal)
            }
            Command::Compare(late) => {
                let (parts, given) = config::compare(late)?;
                match given.experiment.seeds {
                    Some(_) => seeds::compare(registry, given, &parts, terminal),
                    None => run::simulate(registry, given, line, terminal),
                }
            }
            Command::Sweep(late) => sweep::sweep(registry, late, line, sweep_of, terminal),
            Command::Claims(late) => claims::run(registry, &late.args, terminal),
            Command::Policies { name } => policies::run(registry, name.as_deref(), terminal),
            #[cfg(feature = "released")]
            Command::Verify(late) => verify::run(&late.args, terminal),
            Command::New(late) => new::run(registry, &late.args, terminal),
            Command::Completions { shell } => completions(shell, terminal),
            Command::Man { dir } => man::run(command(), &dir, terminal),
            Command::Explain { code } => explain::run(code.as_deref(), terminal),
            Command::Step(late) => step::run(registry, config::step(late)?, terminal),
            Command::Replay(late) => replay::run(registry, late, terminal),
            Command::Plot(late) => plot::run(&late.args, terminal),
            Command::Report(late) => plot::report(&late.args, terminal),
            Command::Trace(late) => trace::run(registry, *late.args, terminal),
            Command::Import(late) => import::run(&late.args, terminal),
            #[cfg(feature = "released")]
            Command::Reproduce(late) => reproduce::run(&late.args, line, terminal),
            #[cfg(not(feature = "released"))]
            Command::Verify(_) | Command::Reproduce(_) => Err(Failure::new(WITHOUT_RELEASED)),
            Command::Estimate(late) => estimate::run(*late.args, terminal),
            Command::Cluster(command) => cluster::run(registry, command, line, terminal),
        }
    }
}

fn completions(shell: clap_complete::Shell, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "blox", &mut script);
    terminal.out.write_all(&script)?;
    Ok(OK)
}

/// Returns the definition of the command line, with examples.
pub(super) fn command() -> clap::Command {
    with_help(Cli::command(), "")
}

/// Parses the command line of a sweep; `None` if it is none.
fn sweep_of(line: &[OsString]) -> Option<Late<SweepArgs>> {
    let matches = command().try_get_matches_from(line).ok()?;
    match Cli::from_arg_matches(&matches).ok()?.command {
        Command::Sweep(late) => Some(late),
        _ => None,
    }
}

/// Removes hidden commands from the suggestions for a misspelled command.
fn suggest_no_hidden(e: &mut clap::Error) {
    let kind = ContextKind::SuggestedSubcommand;
    let Some(ContextValue::Strings(names)) = e.get(kind) else {
        return;
    };
    let command = command();
    let hidden = |name: &str| {
        command
            .find_subcommand(name)
            .is_some_and(|c| c.is_hide_set())
    };
    let shown: Vec<String> = names.iter().filter(|n| !hidden(n)).cloned().collect();
    e.insert(kind, ContextValue::Strings(shown));
}

/// Formats wrong usage: the code ends the first paragraph. Help has no code.
fn with_code(e: &clap::Error, args: &[OsString]) -> String {
    if let Some(text) = wrong_value(e) {
        return text;
    }
    if let Some(sentence) = of_slurm(e, args) {
        return format!("{sentence} [{}]\n", Code::Usage);
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

/// Formats the error about a command or an option of Slurm, if something replaces it.
fn of_slurm(e: &clap::Error, args: &[OsString]) -> Option<String> {
    let words: Vec<&str> = args.iter().skip(1).filter_map(|a| a.to_str()).collect();
    match (e.kind(), e.get(ContextKind::InvalidArg)) {
        (ErrorKind::InvalidSubcommand, _) => cluster::about_command(&words),
        (ErrorKind::UnknownArgument, Some(ContextValue::String(option))) => {
            cluster::about_option(words.first()?, option)
        }
        _ => None,
    }
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
    let sentence = blox_experiment::wrong_value(option, value, &why);
    Some(format!("error: {sentence} [{code}]\n"))
}

/// Parses a command line. After printing help or an error, returns the exit code.
pub(super) fn parse(
    args: &[OsString],
    terminal: &mut Terminal<'_>,
) -> Result<Result<Command, i32>, Failure> {
    let expanded = daemon_file::expanded(args, command)?;
    let line = expanded.as_deref().unwrap_or(args);
    let matches = command().try_get_matches_from(line).or_else(|e| {
        let lacks_script = e.kind() == ErrorKind::MissingRequiredArgument;
        match lacks_script && cluster::is_sbatch(line) && !terminal.prompts {
            true => command().try_get_matches_from(line.iter().chain([&OsString::from("-")])),
            false => Err(e),
        }
    });
    match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => Ok(Ok(cli.command)),
        Err(mut e) if e.use_stderr() => {
            suggest_no_hidden(&mut e);
            let _ = terminal.err.write_all(with_code(&e, args).as_bytes());
            Ok(Err(BAD_INPUT))
        }
        Err(e) => {
            write!(terminal.out, "{}", e.render())?;
            Ok(Err(OK))
        }
    }
}
