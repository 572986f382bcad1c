//! The processes that stay.

use super::args::{NodeArgs, SchedulerArgs};
use crate::cli::resolve::Experiment;
use crate::cli::{Failure, OK, Terminal, config};
use blox_cluster::protocol::Timers;
use blox_cluster::protocol::scheduler::Settings;
use blox_cluster::shell::{node, scheduler, service, shim};
use blox_core::NodeSpec;
use blox_core::registry::Registry;
use std::path::Path;
use std::time::Duration;

/// A runtime for few sockets and no work.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(Failure::new)
}

/// SIGTERM or Ctrl-C.
async fn told_to_stop() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut term) = signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = term.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}

pub(super) fn scheduler(
    registry: &Registry,
    a: SchedulerArgs,
    terminal: &mut Terminal<'_>,
) -> Result<i32, Failure> {
    let listen = a.listen.parse::<std::net::SocketAddr>().map_err(|e| {
        let found = &a.listen;
        Failure::new(format!(
            "--listen: {e}: found `{found}`, expected ADDRESS:PORT"
        ))
    })?;
    // Everything that simulates also schedules.
    let pipeline = Experiment::of(config::simulate(a.simulate)?, registry)?.pipeline(0)?;
    let settings = Settings {
        timers: Timers::default().divided_by(a.faster),
        wait_for_nodes: a.wait_for_nodes,
    };
    let limit = Duration::from_secs(a.policy_limit);
    let runtime = runtime()?;
    let running =
        scheduler::start(&a.state_dir, settings, pipeline, limit).map_err(Failure::new)?;
    let err = &mut *terminal.err;
    let ready = |at: std::net::SocketAddr| {
        let open = if at.ip().is_loopback() {
            ""
        } else {
            " (not encrypted: anybody who reaches it can run programs)"
        };
        // Nobody may be there to read it.
        let _ = writeln!(err, "listening on {at}{open}");
    };
    runtime
        .block_on(service::serve(running, listen, ready, told_to_stop()))
        .map_err(Failure::new)?;
    Ok(OK)
}

pub(super) fn node(a: NodeArgs, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    let host = || {
        let text = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        text.trim().to_owned()
    };
    let name = a.name.unwrap_or_else(host);
    let cpus = std::thread::available_parallelism().map_or(0.0, |n| n.get() as f64);
    let program = std::env::current_exe().map_err(Failure::new)?;
    let settings = node::NodeSettings {
        scheduler: format!("http://{}", a.at.at),
        dir: a.state_dir,
        offer: NodeSpec {
            name: Some(name.as_str().into()),
            gpus: a.gpus,
            gpu_type: a.gpu_type.map(Into::into),
            cpus,
            memory_gib: memory_gib(),
            ..NodeSpec::default()
        },
        address: a.address,
        timers: Timers::default().divided_by(a.faster),
        shim: vec![program.to_string_lossy().into_owned(), "shim".to_owned()],
    };
    let dir = settings.dir.clone();
    writeln!(terminal.err, "node {name} with {} GPU slots", a.gpus)?;
    runtime()?
        .block_on(node::run(settings, told_to_stop()))
        .map_err(|e| Failure::new(format!("{}: {e}", dir.display())))?;
    Ok(OK)
}

pub(super) fn shim(dir: &Path) -> Result<i32, Failure> {
    shim::run(dir).map_err(|e| Failure::new(format!("{}: {e}", dir.display())))?;
    Ok(OK)
}

/// Memory of this machine; 0 if it does not say.
fn memory_gib() -> f64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("MemTotal:"));
    let kib = line.and_then(|l| l.trim().split(' ').next()?.parse::<f64>().ok());
    (kib.unwrap_or(0.0) / 1024.0 / 1024.0).floor()
}
