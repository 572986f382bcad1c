//! Commands of a real cluster. Without the feature `cluster`, they are parsed and report that it is
//! missing, except a scheduler and jobs on Slurm.

#[cfg(feature = "cluster")]
mod access;
#[cfg(feature = "cluster")]
mod acct;
#[cfg_attr(
    not(feature = "cluster"),
    allow(dead_code, reason = "parsed, and answered with what is missing")
)]
mod args;
#[cfg(feature = "cluster")]
mod backend;
mod batch;
#[cfg(feature = "cluster")]
mod cells;
#[cfg(feature = "cluster")]
mod commands;
#[cfg(feature = "cluster")]
mod daemons;
#[cfg(feature = "cluster")]
mod demo;
mod habits;
#[cfg(feature = "cluster")]
mod joining;
#[cfg(feature = "cluster")]
mod journal;
#[cfg(feature = "cluster")]
mod local;
#[cfg(feature = "cluster")]
mod log;
#[cfg(feature = "cluster")]
mod pilot;
#[cfg(feature = "cluster")]
mod rehearsal;
#[cfg(feature = "cluster")]
mod sbatch;
mod slurm;
#[cfg(feature = "cluster")]
mod top;
mod when;

pub(super) use args::ClusterCommand;
pub(super) use habits::{about_command, about_option};

use crate::failure::Failure;
#[cfg(feature = "cluster")]
use crate::terminal::OK;
use crate::terminal::Terminal;
use blox_registry::Registry;
use std::ffi::OsString;

#[cfg(not(feature = "cluster"))]
const MISSING: &str =
    "this program was built without the feature `cluster`: build it with `--features cluster`";

/// Runs a scheduler on real processes if the command line is `--backend cluster`. Otherwise returns
/// the scheduler, for the simulator.
///
/// On the cluster it schedules small programs on two nodes of this machine and prints a summary to
/// standard output.
///
/// # Errors
/// The command line is wrong, the program was built without the feature `cluster`, or a job did not
/// complete.
pub fn backend(
    pipeline: blox_core::Pipeline,
) -> Result<Option<blox_core::Pipeline>, Box<dyn std::error::Error>> {
    if let Some(done) = beside_shim(&std::env::args_os().skip(1).collect::<Vec<_>>()) {
        return done
            .map(|_| None)
            .map_err(Failure::into_text)
            .map_err(Into::into);
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        [] | ["--backend", "simulator"] => Ok(Some(pipeline)),
        #[cfg(feature = "cluster")]
        ["shim", dir] => {
            daemons::shim(dir.as_ref()).map_err(Failure::into_text)?;
            Ok(None)
        }
        #[cfg(feature = "cluster")]
        ["--backend", "cluster"] => {
            println!(
                "{}",
                backend::rehearse(pipeline).map_err(Failure::into_text)?
            );
            Ok(None)
        }
        #[cfg(not(feature = "cluster"))]
        ["--backend", "cluster"] => Err(MISSING.into()),
        _ => Err("expected nothing, or --backend simulator, or --backend cluster".into()),
    }
}

/// Runs a process that a shim needs beside it, if the arguments name one. It precedes the parser,
/// because each rank starts this way.
pub(super) fn beside_shim(args: &[OsString]) -> Option<Result<i32, Failure>> {
    #[cfg(feature = "cluster")]
    if let Some((_, args)) = args.split_first().filter(|(first, _)| *first == "shim") {
        return daemons::beside_shim(args);
    }
    let _ = args;
    None
}

/// Returns whether a command line is of sbatch, which reads a script from standard input if none is
/// named.
pub(super) fn is_sbatch(line: &[OsString]) -> bool {
    line.get(1).is_some_and(|word| word == "sbatch")
}

pub(super) fn run(
    registry: &Registry,
    command: ClusterCommand,
    line: &[OsString],
    terminal: &mut Terminal<'_>,
) -> Result<i32, Failure> {
    if let ClusterCommand::Submit(late) = &command
        && is_sbatch(line)
    {
        batch::check_script(&late.args)?;
    }
    match command {
        #[cfg(feature = "cluster")]
        ClusterCommand::Scheduler(late) if late.args.command.is_some() => match late.args.command {
            Some(args::SchedulerCommand::Stop(a)) => commands::stop(a, terminal),
            None => Ok(crate::terminal::OK),
        },
        ClusterCommand::Scheduler(late) if late.args.daemon.on == args::Carrier::Slurm => {
            slurm::scheduler(registry, late, terminal)
        }
        ClusterCommand::Submit(late) if late.args.slurm.on == args::Carrier::Slurm => {
            batch::submit(late, terminal)
        }
        ClusterCommand::When(late) => when::run(registry, late, terminal),
        command => run_on_nodes(registry, command, line, terminal),
    }
}

#[cfg(not(feature = "cluster"))]
fn run_on_nodes(
    _: &Registry,
    _: ClusterCommand,
    _: &[OsString],
    _: &mut Terminal<'_>,
) -> Result<i32, Failure> {
    Err(Failure::new(MISSING))
}

#[cfg(feature = "cluster")]
fn run_on_nodes(
    registry: &Registry,
    command: ClusterCommand,
    line: &[OsString],
    terminal: &mut Terminal<'_>,
) -> Result<i32, Failure> {
    match command {
        ClusterCommand::Cluster(command) => pilot::run(registry, command, line, terminal),
        ClusterCommand::Scheduler(late) if late.args.daemon.dry_run => {
            rehearsal::scheduler(registry, late, terminal)
        }
        ClusterCommand::Scheduler(late) => daemons::scheduler(registry, late, terminal),
        ClusterCommand::Node(late) => daemons::node(*late.args, terminal),
        ClusterCommand::Log(command) => log::run(command, terminal),
        ClusterCommand::Demo => demo::run(registry, terminal),
        ClusterCommand::Shim { dir } => daemons::shim(&dir),
        ClusterCommand::Init(a) => access::init(a, terminal).map(|()| OK),
        ClusterCommand::Login(a) => access::login(a, terminal).map(|()| OK),
        ClusterCommand::Token(command) => access::token(command, terminal).map(|()| OK),
        ClusterCommand::Whoami(a) => access::whoami(a, terminal).map(|()| OK),
        ClusterCommand::Rank { account, command } => Err(daemons::rank(&account, &command)),
        command => commands::run(command, terminal),
    }
}
