//! The commands of a real cluster. Without the feature `cluster` they are
//! known, and say that it is missing.

#[cfg_attr(
    not(feature = "cluster"),
    allow(dead_code, reason = "parsed, and answered with what is missing")
)]
mod args;
#[cfg(feature = "cluster")]
mod commands;
#[cfg(feature = "cluster")]
mod daemons;
#[cfg(feature = "cluster")]
mod demo;

pub(super) use args::ClusterCommand;

use super::{Failure, Terminal};
use blox_core::registry::Registry;

#[cfg(not(feature = "cluster"))]
pub(super) fn run(_: &Registry, _: ClusterCommand, _: &mut Terminal<'_>) -> Result<i32, Failure> {
    Err(Failure::new(
        "this `blox` was built without the feature `cluster`: build it with `--features cluster`",
    ))
}

#[cfg(feature = "cluster")]
pub(super) fn run(
    registry: &Registry,
    command: ClusterCommand,
    terminal: &mut Terminal<'_>,
) -> Result<i32, Failure> {
    match command {
        ClusterCommand::Scheduler(a) => daemons::scheduler(registry, *a, terminal),
        ClusterCommand::Node(a) => daemons::node(a, terminal),
        ClusterCommand::Demo => demo::run(terminal),
        ClusterCommand::Shim { dir } => daemons::shim(&dir),
        command => commands::run(command, terminal),
    }
}
