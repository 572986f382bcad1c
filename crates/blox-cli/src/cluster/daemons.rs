//! Long-running processes: scheduler and node manager.

use super::args::{DaemonArgs, NodeArgs, SchedulerArgs};
use crate::config;
use crate::failure::{Code, Failure};
use crate::help::Late;
use crate::terminal::{OK, Terminal};
use crate::text::plain;
use blox_cluster::client::{self, Token};
use blox_cluster::protocol::launches::NodeLimits;
use blox_cluster::protocol::scheduler::Settings;
use blox_cluster::protocol::{Millis, Timers};
use blox_cluster::shell::gpus::{self, Gpu};
use blox_cluster::shell::provider::Programs;
use blox_cluster::shell::{node, scheduler, service, shim};
use blox_core::journal::{Journal, JsonLines};
use blox_core::{NodeActionKind, NodeSpec, Offer};
use blox_experiment::Prepared;
use blox_registry::Registry;
use blox_traces::cluster_file::parse_cluster;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Creates a runtime for few sockets and little work.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(Failure::system)
}

/// Waits for SIGTERM or Ctrl-C.
pub(super) async fn stop_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut term) = signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = term.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}

/// Reads the secret from a file, or from the file named in the environment.
pub(super) fn token(file: Option<&Path>) -> Result<Token, Failure> {
    let named = || std::env::var_os("BLOX_TOKEN_FILE").map(PathBuf::from);
    match file.map(Path::to_owned).or_else(named) {
        Some(path) => {
            Token::read(&path).map_err(|e| Failure::new(format!("{}: {e}", path.display())))
        }
        None => Ok(Token::none()),
    }
}

pub(super) fn scheduler(
    registry: &Registry,
    late: Late<SchedulerArgs>,
    terminal: &mut Terminal<'_>,
) -> Result<i32, Failure> {
    let SchedulerArgs {
        mut simulate,
        daemon: a,
    } = *late.args;
    let (listen, metrics) = (a.listen, a.metrics);
    let token = token(a.token_file.as_deref())?;
    let open = !listen.ip().is_loopback() && !token.is_some();
    if open && !a.insecure {
        return Err(Failure::new(format!(
            "--listen {listen}: everybody who reaches it could run programs: give --token-file, or --insecure"
        )));
    }
    let mut watch = scheduler::Watch::default();
    if let Some(path) = simulate.options.output.journal.take() {
        watch.observers.set_journal(journal(&path)?);
    }
    // Every simulated scheduler can also schedule a real cluster.
    let experiment = Prepared::of(
        config::scheduler(simulate, &late.matches)?.experiment,
        registry,
    )?;
    let pipeline = experiment.pipeline(0)?;
    let (settings, limits) = (settings(&a, offers(a.offers.as_deref())?), limits(&a));
    let runtime = runtime()?;
    let listen = service::Listen::bind(listen, metrics, token);
    let listen = runtime.block_on(listen)?;
    let requests = a.state_dir.join("node-requests");
    let nodes = Arc::new(Programs::new(a.resume_program, a.suspend_program, requests));
    let running = scheduler::start_with(&a.state_dir, settings, pipeline, limits, watch, nodes)
        .map_err(start_failure)?;
    let err = std::cell::RefCell::new(&mut *terminal.err);
    let ready = |at: SocketAddr, metrics: Option<SocketAddr>| {
        let mut err = err.borrow_mut();
        // The output may be closed.
        let _ = writeln!(err, "listening on {at}");
        if let Some(metrics) = metrics {
            let _ = writeln!(err, "numbers at http://{metrics}/metrics");
        }
        if open {
            let _ = writeln!(err, "everybody who reaches {at} can run programs");
        }
    };
    let notice = |text: &str| {
        let _ = writeln!(err.borrow_mut(), "{}", plain(text));
    };
    runtime.block_on(service::serve(
        running,
        listen,
        ready,
        notice,
        stop_signal(),
    ))?;
    Ok(OK)
}

/// Names the option that a scheduler with node actions needs.
fn start_failure(error: scheduler::SchedulerError) -> Failure {
    let scheduler::SchedulerError::CannotAct { name, action } = &error else {
        return Failure::new(error);
    };
    let option = match action {
        NodeActionKind::PowerOn | NodeActionKind::Grow => "--resume-program",
        _ => "--suspend-program",
    };
    Failure::new(format!("`{name}` {action}: give {option}"))
}

/// Creates a journal. An existing file is not overwritten, since it is the only record of its run.
fn journal(path: &std::path::Path) -> Result<Box<dyn Journal>, Failure> {
    let file = std::fs::File::create_new(path).map_err(|e| {
        Failure::new(format!(
            "--journal: {}: {e}, expected a new file",
            path.display()
        ))
    })?;
    Ok(Box::new(JsonLines::new(file)))
}

pub(super) fn node(a: NodeArgs, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    let host = || {
        let text = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        text.trim().to_owned()
    };
    let logs = log_room(&a);
    let name = a.name.unwrap_or_else(host);
    // Lists of nodes are separated by commas or blanks, and a node can also be named by its number.
    let apart = |c: char| c == ',' || c.is_whitespace() || c.is_control();
    if name.contains(apart) || name.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Failure::new(format!(
            "--name: found `{}`, expected a name without blanks and commas that is no number",
            plain(&name)
        )));
    }
    let cpus = std::thread::available_parallelism().map_or(0.0, |n| n.get() as f64);
    let program = std::env::current_exe().map_err(Failure::system)?;
    let token = token(a.at.token_file.as_deref())?;
    let found = match a.gpus {
        Some(_) => Vec::new(),
        None => gpus::detect()
            .map_err(|e| Failure::new(format!("no GPUs were found ({e}): give --gpus N")))?,
    };
    let slots = a.gpus.unwrap_or(found.len() as u32);
    if slots == 0 {
        return Err(Failure::new("a node has GPUs: give --gpus N, 1 or more"));
    }
    let first = found.first();
    let gpu_type = a.gpu_type.or_else(|| first.map(|g: &Gpu| g.model.clone()));
    let settings = node::NodeSettings {
        scheduler: client::url(&a.at.at)?,
        dir: a.state_dir,
        offer: NodeSpec {
            name: Some(name.as_str().into()),
            gpus: slots,
            gpu_type: gpu_type.map(Into::into),
            gpu_memory_gib: first.map_or(0.0, |g| g.memory_gib),
            cpus,
            memory_gib: memory_gib(),
            ..NodeSpec::default()
        },
        address: a.address,
        timers: Timers::default().divided_by(a.faster),
        shim: vec![program.to_string_lossy().into_owned(), "shim".to_owned()],
        devices: found.into_iter().map(|g| g.uuid).collect(),
        token,
        logs,
    };
    writeln!(terminal.err, "node {name} with {slots} GPU slots")?;
    let err = &mut *terminal.err;
    let trouble = |text: &str| {
        // The output may be closed.
        let _ = writeln!(err, "{}", plain(text));
    };
    runtime()?
        .block_on(node::run(settings, stop_signal(), trouble))
        .map_err(|e| Failure::of(Code::Daemon, plain(&e.to_string())))?;
    Ok(OK)
}

/// Reads the offers of a cluster file.
fn offers(file: Option<&Path>) -> Result<Vec<Offer>, Failure> {
    let Some(path) = file else {
        return Ok(Vec::new());
    };
    let failed = |why: String| Failure::new(format!("--offers: {why}"));
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|e| failed(format!("{}: {e}", path.display())))?;
    let cluster = parse_cluster(&text, path).map_err(|e| failed(e.to_string()))?;
    match cluster.nodes.len() {
        0 => Ok(cluster.offers),
        nodes => Err(failed(format!(
            "{}: found {nodes} nodes, expected offers only: nodes register by themselves",
            path.display()
        ))),
    }
}

/// Returns the settings of a scheduler.
fn settings(a: &DaemonArgs, offers: Vec<Offer>) -> Settings {
    Settings {
        timers: Timers::default().divided_by(a.faster),
        limits: NodeLimits {
            come: Millis::secs(a.resume_limit),
            go: Millis::secs(a.suspend_limit),
        },
        wait_for_nodes: a.wait_for_nodes,
        offers,
        ..Settings::default()
    }
}

/// Returns the limits of a scheduler process.
fn limits(a: &DaemonArgs) -> scheduler::Limits {
    scheduler::Limits {
        policy: Duration::from_secs(a.policy_limit),
        log_bytes: a.log_kib.saturating_mul(1024),
        ended_jobs: a.keep_ended,
    }
}

fn log_room(a: &NodeArgs) -> node::LogRoom {
    node::LogRoom {
        launch: a.launch_logs_mib.saturating_mul(1 << 20),
        ended: a.ended_logs_mib.saturating_mul(1 << 20),
    }
}

/// Runs the processes of one launch, for which the program is started again.
pub(super) fn shim(dir: &Path) -> Result<i32, Failure> {
    let failed = |e| Failure::of(Code::Daemon, format!("{}: {e}", dir.display()));
    shim::run(dir).map_err(failed)?;
    Ok(OK)
}

/// Returns the memory of this machine in GiB; 0 if it is unknown.
fn memory_gib() -> f64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("MemTotal:"));
    let kib = line.and_then(|l| l.trim().split(' ').next()?.parse::<f64>().ok());
    (kib.unwrap_or(0.0) / 1024.0 / 1024.0).floor()
}

#[cfg(test)]
mod tests {
    use super::super::args::SubmitArgs;
    use super::*;
    use blox_cluster::protocol::launches::MAX_RETRIES;
    use clap::{Args, Command};

    fn parsed<A: Args>() -> A {
        let command = A::augment_args(Command::new("blox"));
        let matches = command.try_get_matches_from(["blox", "--state-dir", "state"]);
        A::from_arg_matches(&matches.unwrap()).unwrap()
    }

    #[test]
    fn options_have_the_defaults_of_the_cluster() {
        let (daemon, node) = (parsed::<DaemonArgs>(), parsed::<NodeArgs>());
        let ours = (
            settings(&daemon, Vec::new()),
            limits(&daemon),
            log_room(&node),
        );
        let theirs = (
            Settings::default(),
            scheduler::Limits::default(),
            node::LogRoom::default(),
        );
        assert_eq!(ours, theirs);
        let submit = SubmitArgs::augment_args(Command::new("blox"));
        let grace = Timers::default().grace.0 / 1000;
        for (id, default) in [("grace", grace), ("max_retries", u64::from(MAX_RETRIES))] {
            let arg = submit.get_arguments().find(|a| a.get_id() == id).unwrap();
            let help = arg.get_help().unwrap().to_string();
            assert!(help.ends_with(&format!("[default: {default}]")), "{help}");
        }
    }
}
