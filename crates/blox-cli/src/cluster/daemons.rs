//! Long-running processes: scheduler and node manager.

use super::args::{At, DaemonArgs, NodeArgs, SchedulerArgs, ServiceArgs, Source};
use super::joining::invitation;
use super::journal::Rotated;
use crate::args::SimulateArgs;
use crate::config;
use crate::failure::{Code, Failure};
use crate::help::Late;
use crate::terminal::{OK, Terminal};
use crate::text::plain;
use blox_cluster::client::{self, Client, Credentials, Token};
use blox_cluster::identity::IdentityFile;
use blox_cluster::identity::audit::Audit;
use blox_cluster::identity::authority::Authority;
use blox_cluster::identity::tls::ServerTls;
use blox_cluster::log::{self, LogError};
use blox_cluster::private;
use blox_cluster::protocol::launches::NodeLimits;
use blox_cluster::protocol::scheduler::Settings;
use blox_cluster::protocol::{Millis, Timers};
use blox_cluster::shell;
use blox_cluster::shell::gpus::{self, Gpu, HealthSource};
use blox_cluster::shell::provider::Programs;
use blox_cluster::shell::{guard, node, scheduler, service, shim};
use blox_core::{NodeActionKind, NodeSpec, Offer, Pipeline, Scheduler, Seconds};
use blox_experiment::Prepared;
use blox_registry::Registry;
use blox_results::number_of;
use blox_sim::completion::Exact;
use blox_sim::forecast::{LookAhead, forecaster};
use blox_slurm::{Grant, Programs as SlurmPrograms};
use blox_traces::cluster_file::parse_cluster;
use clap::ArgMatches;
use std::ffi::OsString;
use std::io::BufRead;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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

/// Reads a secret from its file.
pub(super) fn read_token(path: &Path) -> Result<Token, Failure> {
    Token::read(path).map_err(|e| Failure::new(format!("{}: {e}", path.display())))
}

/// Reads the secret from a file, or from the file named in the environment; `None` without both.
fn given_token(file: Option<&Path>) -> Result<Option<Token>, Failure> {
    let named = || std::env::var_os("BLOX_TOKEN_FILE").map(PathBuf::from);
    let path = file.map(Path::to_owned).or_else(named);
    path.as_deref().map(read_token).transpose()
}

/// Returns the file of the user's own token.
fn own_token() -> Option<PathBuf> {
    Token::own_file(|name| std::env::var_os(name))
}

/// Returns the secret for a scheduler at an address: a given one, or the user's own if the scheduler
/// is on this machine.
pub(super) fn token(at: &At) -> Result<Token, Failure> {
    if let Some(token) = given_token(at.token_file.as_deref())? {
        return Ok(token);
    }
    let own = own_token_for(&at.at).filter(|path| path.exists());
    own.map_or(Ok(Token::none()), |path| read_token(&path))
}

/// Returns the file of the user's own token if the address is of this machine.
fn own_token_for(at: &str) -> Option<PathBuf> {
    let host = at.rsplit_once(':').map_or("", |(host, _)| host);
    let ip = host.trim_start_matches('[').trim_end_matches(']').parse();
    let is_here = host == "localhost" || ip.is_ok_and(|ip: IpAddr| ip.is_loopback());
    own_token().filter(|_| is_here)
}

/// Returns the file that `blox login` writes for an address.
pub(super) fn stored_identity(at: &str) -> Option<PathBuf> {
    let file = format!("{}.pem", at.replace('/', "_"));
    Some(own_token()?.with_file_name("identities").join(file))
}

/// Returns a secret or a certificate for a scheduler.
pub(super) fn credentials(at: &At) -> Result<Credentials, Failure> {
    let named = || std::env::var_os("BLOX_IDENTITY").map(PathBuf::from);
    let given = at.identity.clone();
    let given = given.or_else(|| named().filter(|_| at.token_file.is_none()));
    let stored = || stored_identity(&at.at).filter(|path| path.exists());
    let stored = || stored().filter(|_| at.token_file.is_none());
    match given.or_else(stored) {
        Some(path) => Ok(Credentials::Identity(path)),
        None => Ok(token(at)?.into()),
    }
}

/// Returns the credentials of a node, and the name that its certificate states. A node joins at its
/// first start.
fn of_node(
    a: &NodeArgs,
    runtime: &tokio::runtime::Runtime,
    input: &mut dyn BufRead,
) -> Result<(Credentials, Option<String>), Failure> {
    let file = a.state_dir.join("identity.pem");
    let named = |file: &Path| -> Result<Option<String>, Failure> {
        let principal = IdentityFile::read(file)?.principal;
        Ok(principal.map(|who| who.name))
    };
    let is_free = a.on.is_none() && a.at.token_file.is_none() && a.at.identity.is_none();
    if is_free
        && !file.exists()
        && let Some(token) = invitation(a.join.as_deref(), input)?
    {
        let name = a.name.clone().unwrap_or_default();
        runtime.block_on(client::join(&a.at.at, &token, &name, &host(), &file))?;
    }
    let given = a.at.identity.clone();
    let stored = || Some(file).filter(|file| a.at.token_file.is_none() && file.exists());
    match given.or_else(stored) {
        Some(path) => {
            let name = named(&path)?;
            Ok((Credentials::Identity(path), name))
        }
        None => {
            let given = given_token(a.at.token_file.as_deref())?;
            // The first start of the scheduler on this machine may write the file later.
            let own = || own_token_for(&a.at.at).map(Credentials::TokenFile);
            let credentials = given.map(Credentials::from).or_else(own);
            Ok((credentials.unwrap_or_default(), None))
        }
    }
}

/// Returns the secret that a scheduler requires. Without --token-file, a scheduler on loopback
/// requires the user's own token, which it creates at its first start.
fn required_token(a: &DaemonArgs) -> Result<Token, Failure> {
    if a.identity.is_some() {
        return Ok(Token::none());
    }
    let given = given_token(a.token_file.as_deref())?;
    if a.insecure || given.is_some() {
        return Ok(given.unwrap_or_default());
    }
    let listen = a.listen;
    if !listen.ip().is_loopback() {
        return Err(Failure::new(format!(
            "--listen {listen}: everybody who reaches it could run programs: give --identity, --token-file, or --insecure"
        )));
    }
    let path = own_token().ok_or_else(|| {
        Failure::new(
            "neither $XDG_STATE_HOME nor $HOME is set, so there is no place for a token: give --token-file",
        )
    })?;
    Token::create_own(&path).map_err(|e| {
        let path = path.display();
        Failure::new(format!("{path}: {e}: give --token-file"))
    })
}

pub(super) fn scheduler(
    registry: &Registry,
    late: Late<SchedulerArgs>,
    terminal: &mut Terminal<'_>,
) -> Result<i32, Failure> {
    let SchedulerArgs {
        simulate,
        daemon: a,
        command: _,
    } = *late.args;
    let output = &simulate.options.output;
    if output.json || output.output_format.is_some() {
        return Err(Failure::new(
            "--output-format and --json have no meaning without --dry-run",
        ));
    }
    let listen = a.listen;
    let (pipeline, journal) = pipeline(registry, simulate, &late.matches)?;
    let token = required_token(&a)?;
    let limits_of_nodes = NodeLimits {
        come: Millis::secs(a.resume_limit),
        go: Millis::secs(a.suspend_limit),
    };
    let settings = Settings {
        limits: limits_of_nodes,
        offers: offers(a.offers.as_deref())?,
        timers: timers(a.lease, a.absence).divided_by(a.service.faster),
        ..settings(&a.service, a.wait_for_nodes)
    };
    let dir = a.state_dir.unwrap_or_default();
    let requests = dir.join("node-requests");
    let daemon = Daemon {
        dir,
        listen,
        token,
        identity: a.identity,
        settings,
        service: a.service,
        nodes: Programs::new(a.resume_program, a.suspend_program, requests),
        journal,
        registry,
    };
    serve(pipeline, daemon, terminal, |_| {}, stop_signal())?;
    Ok(OK)
}

/// Returns the scheduler that options name, and the path of its journal. Every simulated scheduler
/// can also schedule a real cluster.
pub(super) fn pipeline(
    registry: &Registry,
    mut simulate: SimulateArgs,
    matches: &ArgMatches,
) -> Result<(Pipeline, Option<PathBuf>), Failure> {
    let journal = simulate.options.output.journal.take();
    let given = config::scheduler(simulate, matches)?.experiment;
    let experiment = Prepared::of(given, registry)?;
    Ok((experiment.pipeline(0)?, journal))
}

/// Returns a function that creates the scheduler of a name with parameters.
pub(super) fn earlier(registry: &Registry) -> impl Fn(&str) -> Option<Box<dyn Scheduler>> {
    |name| {
        let built = registry.schedulers.build(&name.parse().ok()?, 0).ok()?;
        // The name has the parameters.
        Some(Box::new(built.renamed(name)))
    }
}

/// A scheduler process.
pub(super) struct Daemon<'a> {
    /// Directory of the log.
    pub dir: PathBuf,
    pub listen: SocketAddr,
    pub token: Token,
    /// Directory of the authority; TLS is used if it is set.
    pub identity: Option<PathBuf>,
    pub settings: Settings,
    pub service: ServiceArgs,
    pub nodes: Programs,
    pub journal: Option<PathBuf>,
    pub registry: &'a Registry,
}

/// A scheduler with longer rounds says so at its start: a new job may wait for a whole one.
const NOTED_ROUND: Seconds = Seconds::new(30.0);

/// Serves nodes and users until `stop` is ready. `ready` receives the bound address.
pub(super) fn serve(
    pipeline: Pipeline,
    daemon: Daemon<'_>,
    terminal: &mut Terminal<'_>,
    ready: impl FnOnce(SocketAddr),
    stop: impl Future<Output = ()> + Send,
) -> Result<(), Failure> {
    let mut watch = scheduler::Watch::default();
    if let Some(path) = &daemon.journal {
        watch.observers.set_journal(Rotated::at(path)?);
    }
    let shared = daemon.token.is_some();
    let open = !shared && daemon.identity.is_none();
    let limits = limits(&daemon.service);
    let runtime = runtime()?;
    let bind = || {
        let (at, metrics) = (daemon.listen, daemon.service.metrics);
        runtime.block_on(service::Listen::bind(at, metrics, daemon.token.clone()))
    };
    // An address in use is an error before the directory is created.
    let mut listen = bind()?;
    if let Err(why @ LogError::NoRoom { .. }) = log::probe(&daemon.dir) {
        // Clients of an address without an answer would wait for their timeout.
        drop(listen);
        wait_for_room(&daemon.dir, &why, terminal);
        listen = bind()?;
    }
    if let Some(dir) = &daemon.identity {
        let authority = Arc::new(Authority::open(dir)?);
        if let Some(text) = authority.warning() {
            // The output may be closed.
            let _ = writeln!(terminal.err, "{}", plain(text));
        }
        authority.keep_scheduler()?;
        listen = listen.with_tls(ServerTls::new(authority)?);
    }
    let (settings, nodes) = (daemon.settings, Arc::new(daemon.nodes));
    let round = pipeline.trigger().period().filter(|s| *s > NOTED_ROUND);
    let ahead = LookAhead::of(pipeline.trigger()).completion(Exact);
    let (dir, earlier) = (&daemon.dir, earlier(daemon.registry));
    let running = scheduler::start_with(dir, settings, pipeline, limits, watch, nodes, &earlier);
    let mut running = running.map_err(start_failure)?;
    let audit = Audit::open(&daemon.dir);
    let listen = listen.with_audit(audit.map_err(|e| Failure::of(Code::Output, e))?);
    running.forecaster = Some(forecaster(ahead));
    let err = std::cell::RefCell::new(&mut *terminal.err);
    let ready = |at: SocketAddr, metrics: Option<SocketAddr>| {
        let mut err = err.borrow_mut();
        // The output may be closed.
        let _ = writeln!(err, "listening on {at}");
        if let Some(metrics) = metrics {
            let _ = writeln!(err, "numbers at http://{metrics}/metrics");
        }
        if let Some(round) = round {
            let _ = writeln!(
                err,
                "decides every {} s; --round S and --on-event S change it",
                round.secs()
            );
        }
        if open {
            let _ = writeln!(err, "everybody who reaches {at} can run programs");
        }
        if shared {
            let _ = writeln!(
                err,
                "all holders of the token have all rights; `blox init` gives names and roles"
            );
        }
        drop(err);
        notify_ready();
        ready(at);
    };
    let notice = |text: &str| {
        let _ = writeln!(err.borrow_mut(), "{}", plain(text));
    };
    runtime.block_on(service::serve(running, listen, ready, notice, stop))?;
    Ok(())
}

/// Waits until the log of a scheduler has room. A supervisor could give up a process that ends at
/// each start.
fn wait_for_room(dir: &Path, why: &LogError, terminal: &mut Terminal<'_>) {
    let why = plain(&why.to_string());
    // The output may be closed.
    let _ = writeln!(terminal.err, "{why}; this start waits for room");
    while let Err(LogError::NoRoom { .. }) = log::probe(dir) {
        notify("EXTEND_TIMEOUT_USEC=60000000\nSTATUS=waits for room for the log");
        std::thread::sleep(ROOM);
    }
}

/// Reports to systemd that the service is ready.
fn notify_ready() {
    // Without this message, systemd restarts the service.
    notify("READY=1");
}

/// Sends a message to systemd, if the unit has `Type=notify`.
fn notify(message: &str) {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    let bytes = path.as_encoded_bytes();
    let address = match bytes.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&path),
    };
    let _ = UnixDatagram::unbound()
        .and_then(|socket| socket.send_to_addr(message.as_bytes(), &address?));
}

/// Names the option that a scheduler with node actions needs.
pub(super) fn start_failure(error: scheduler::SchedulerError) -> Failure {
    let scheduler::SchedulerError::CannotAct { name, action } = &error else {
        return Failure::new(error);
    };
    let option = match action {
        NodeActionKind::PowerOn | NodeActionKind::Grow => "--resume-program",
        _ => "--suspend-program",
    };
    Failure::new(format!("`{name}` {action}: give {option}"))
}

/// Returns the name of this host.
pub(super) fn host() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    text.trim().to_owned()
}

/// GPUs of a node, and what else it offers.
struct Offered {
    /// Slurm's number of the job; 0 without Slurm.
    job: u32,
    name: String,
    slots: u32,
    devices: Vec<String>,
    device_files: Vec<PathBuf>,
    /// The first GPU that NVIDIA's driver reports.
    first: Option<Gpu>,
    cpus: f64,
    memory_gib: f64,
}

/// Returns what this machine has.
fn of_machine(a: &NodeArgs) -> Result<Offered, Failure> {
    let found = match a.gpus {
        Some(_) => Vec::new(),
        None => gpus::detect()
            .map_err(|e| Failure::new(format!("no GPUs were found ({e}): give --gpus N")))?,
    };
    Ok(Offered {
        job: 0,
        name: a.name.clone().unwrap_or_else(host),
        slots: a.gpus.unwrap_or(found.len() as u32),
        devices: found.iter().map(|g| g.uuid.clone()).collect(),
        device_files: found.iter().map(|g| g.file.clone()).collect(),
        first: found.into_iter().next(),
        cpus: std::thread::available_parallelism().map_or(0.0, |n| n.get() as f64),
        memory_gib: memory_gib(),
    })
}

/// Returns what Slurm granted to this step.
fn of_slurm() -> Result<Offered, Failure> {
    let grant = Grant::of(|name| std::env::var(name).ok());
    let mut grant = grant.map_err(|why| Failure::new(format!("--on slurm: {why}")))?;
    if grant.node.is_empty() {
        grant.node = host();
    }
    let cpus = std::thread::available_parallelism().map_or(0.0, |n| n.get() as f64);
    Ok(Offered {
        job: grant.job,
        name: grant.name(),
        slots: grant.devices.len() as u32,
        first: gpus::detect().unwrap_or_default().into_iter().next(),
        cpus: grant.cpus.unwrap_or(cpus),
        memory_gib: grant.memory_gib.unwrap_or_else(memory_gib),
        device_files: Vec::new(),
        devices: grant.devices,
    })
}

pub(super) fn node(a: NodeArgs, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    let logs = log_room(&a);
    let in_step = a.on == Some(Source::Slurm);
    let offered = match in_step {
        true => of_slurm()?,
        false => of_machine(&a)?,
    };
    let runtime = runtime()?;
    let (credentials, certified) = of_node(&a, &runtime, terminal.input)?;
    if let (Some(certified), Some(given)) = (&certified, &a.name)
        && certified != given
    {
        return Err(Failure::new(format!(
            "--name is `{}`, expected `{certified}` as in the certificate of this node",
            plain(given)
        )));
    }
    let (job, slots) = (offered.job, offered.slots);
    let name = certified.unwrap_or(offered.name);
    // Lists of nodes are separated by commas or blanks, and a node can also be named by its number.
    let apart = |c: char| c == ',' || c.is_whitespace() || c.is_control();
    if name.contains(apart) || name.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Failure::new(format!(
            "--name: found `{}`, expected a name without blanks and commas that is no number",
            plain(&name)
        )));
    }
    let program = std::env::current_exe().map_err(Failure::system)?;
    let files = a.device_files.len();
    if files > 0 && files != slots as usize {
        return Err(Failure::new(format!(
            "--device-files has {}, expected {slots}: one for each GPU slot",
            number_of(files as u64, "file")
        )));
    }
    if slots == 0 {
        return Err(Failure::new("a node has GPUs: give --gpus N, 1 or more"));
    }
    let first = offered.first.as_ref();
    let gpu_type = a.gpu_type.or_else(|| first.map(|g: &Gpu| g.model.clone()));
    let absence = a.absence.unwrap_or(match in_step {
        true => 0.0,
        false => ABSENCE_S,
    });
    let settings = node::NodeSettings {
        scheduler: client::url(&a.at.at)?,
        dir: match in_step {
            true => a.state_dir.join(&name),
            false => a.state_dir,
        },
        offer: NodeSpec {
            name: Some(name.as_str().into()),
            gpus: slots,
            gpu_type: gpu_type.map(Into::into),
            gpu_memory_gib: first.map_or(0.0, |g| g.memory_gib),
            cpus: offered.cpus,
            memory_gib: offered.memory_gib,
            ..NodeSpec::default()
        },
        address: a.address.or_else(|| in_step.then(host)),
        absence: millis(absence),
        shim: vec![program.to_string_lossy().into_owned(), "shim".to_owned()],
        health: match a.gpu_health {
            Some(file) => HealthSource::File(file),
            None if in_step || offered.first.is_none() => HealthSource::None,
            None => HealthSource::Driver(offered.devices.clone()),
        },
        devices: offered.devices,
        device_files: match a.device_files.is_empty() {
            true => offered.device_files,
            false => a.device_files,
        },
        processes: a.processes_per_gpu,
        // Slurm limits and ends what is in the cgroup of its step.
        no_cgroup: in_step,
        credentials: credentials.clone(),
        logs,
    };
    writeln!(terminal.err, "node {name} with {slots} GPU slots")?;
    let certified = matches!(credentials, Credentials::Identity(_));
    if certified && !settings.as_users() {
        let text = "all jobs run as the user of this node manager, which is not root";
        writeln!(terminal.err, "{text}")?;
    }
    if settings.as_root() {
        let text =
            "all jobs run as root; with certificates of `blox init`, they run as their users";
        writeln!(terminal.err, "{text}")?;
    }
    notify_ready();
    let err = &mut *terminal.err;
    let trouble = |text: &str| {
        // The output may be closed.
        let _ = writeln!(err, "{}", plain(text));
    };
    let failed = |e: std::io::Error| Failure::of(Code::Daemon, plain(&e.to_string()));
    if !in_step {
        let run = node::run(settings, stop_signal(), trouble);
        runtime.block_on(run).map_err(failed)?;
        return Ok(OK);
    }
    let leaving = Leaving {
        at: a.at.at,
        credentials,
        name,
        dir: settings.dir.clone(),
    };
    runtime.block_on(async {
        let stop = async {
            stop_signal().await;
            leaving.drain().await;
        };
        let run = tokio::select! {
            run = node::run(settings, stop, trouble) => run,
            seconds = leaving.is_alone(a.requeue_job_after) => {
                return Err(requeue(job, seconds));
            }
        };
        match run {
            Ok(()) => leaving.remove().await,
            // The node was drained and removed: nothing is left to do.
            Err(_) if leaving.has_left().await => {}
            Err(e) => return Err(failed(e)),
        }
        Ok(OK)
    })
}

/// Interval at which a start looks for room for its log.
const ROOM: Duration = Duration::from_secs(1);

/// Default time for which jobs continue without their node manager.
const ABSENCE_S: f64 = 3600.0;

/// Time for which a leaving node tries to reach its scheduler.
const LEAVE: Duration = Duration::from_secs(30);

/// Interval of the checks of a node that leaves.
const LOOK: Duration = Duration::from_millis(100);

/// Requeues a job of Slurm that has lost the node of its scheduler.
fn requeue(job: u32, seconds: u64) -> Failure {
    let args = ["requeue".to_owned(), job.to_string()];
    let text = match SlurmPrograms::default().run("scontrol", &args) {
        Ok(_) => format!("Slurm job {job} is requeued"),
        Err(error) => error.to_string(),
    };
    let text = format!("the scheduler has not answered for {seconds} s: {text}");
    Failure::of(Code::Daemon, plain(&text))
}

/// A node of a step that Slurm ends.
struct Leaving {
    at: String,
    credentials: Credentials,
    name: String,
    /// Directory of the node manager.
    dir: PathBuf,
}

impl Leaving {
    /// Drains the node, and waits until no job has GPUs of it.
    #[allow(clippy::disallowed_methods, reason = "patience has an end")]
    async fn drain(&self) {
        let mut reached = std::time::Instant::now();
        while reached.elapsed() < LEAVE {
            if let Ok(empty) = self.is_drained().await {
                reached = std::time::Instant::now();
                if empty {
                    return;
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Drains the node, if it is not drained yet. Returns whether no job has GPUs of it.
    async fn is_drained(&self) -> Result<bool, client::ClientError> {
        let mut client = Client::connect(&self.at, self.credentials.clone()).await?;
        let nodes = client.nodes().await?;
        let Some(own) = nodes.iter().find(|n| n.name == self.name) else {
            return Ok(true);
        };
        if own.drained.is_empty() {
            drain_now(&mut client, &self.name).await?;
            return Ok(false);
        }
        Ok(own.jobs.is_empty())
    }

    /// Waits until the scheduler has not answered for a number of seconds, which it returns.
    #[allow(clippy::disallowed_methods, reason = "patience has an end")]
    async fn is_alone(&self, seconds: Option<u64>) -> u64 {
        let Some(seconds) = seconds else {
            return std::future::pending().await;
        };
        let mut reached = std::time::Instant::now();
        while reached.elapsed() < Duration::from_secs(seconds) {
            tokio::time::sleep(LEAVE / 15).await;
            let client = Client::connect(&self.at, self.credentials.clone()).await;
            if client.is_ok() {
                reached = std::time::Instant::now();
            }
        }
        seconds
    }

    /// Returns whether the node was in the cluster, and is no longer.
    async fn has_left(&self) -> bool {
        let client = Client::connect(&self.at, self.credentials.clone()).await;
        let Ok(mut client) = client else {
            return false;
        };
        let nodes = client.nodes().await;
        let is_gone = nodes.is_ok_and(|nodes| nodes.iter().all(|n| n.name != self.name));
        is_gone && self.dir.join("seen").exists()
    }

    /// Removes the drained node from the cluster.
    async fn remove(&self) {
        if let Ok(mut client) = Client::connect(&self.at, self.credentials.clone()).await {
            // Otherwise the node counts as lost.
            let _ = client.remove(self.name.clone()).await;
        }
    }
}

/// Drains a node whose allocation ends: its jobs are preempted at once.
pub(super) async fn drain_now(client: &mut Client, name: &str) -> Result<(), client::ClientError> {
    let why = "its allocation ends".to_owned();
    client
        .drain(name.to_owned(), why, Some(Seconds::new(0.0)))
        .await
}

/// Reads the offers of a cluster file.
pub(super) fn offers(file: Option<&Path>) -> Result<Vec<Offer>, Failure> {
    let Some(path) = file else {
        return Ok(Vec::new());
    };
    let failed = |why: String| Failure::new(format!("--offers: {why}"));
    let text = private::read_given(path).map_err(|e| failed(format!("{}: {e}", path.display())))?;
    let cluster = parse_cluster(&text, path).map_err(|e| failed(e.to_string()))?;
    match cluster.nodes.len() {
        0 => Ok(cluster.offers),
        nodes => Err(failed(format!(
            "{}: found {nodes} nodes, expected offers only: nodes register by themselves",
            path.display()
        ))),
    }
}

fn millis(seconds: f64) -> Millis {
    Millis((seconds * 1000.0).round() as u64)
}

/// Returns the timers of a scheduler with a lease and a planned absence in seconds.
fn timers(lease_s: f64, absence_s: f64) -> Timers {
    Timers {
        lease: millis(lease_s),
        absence: millis(absence_s),
        ..Timers::default()
    }
}

/// Returns the settings of a scheduler that ends with its nodes.
pub(super) fn settings(a: &ServiceArgs, wait_for_nodes: usize) -> Settings {
    Settings {
        timers: Timers::default().of_one_allocation().divided_by(a.faster),
        wait_for_nodes,
        hold_after: a.hold_after,
        ..Settings::default()
    }
}

/// Returns the limits of a scheduler process.
fn limits(a: &ServiceArgs) -> scheduler::Limits {
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

/// Runs a process that a shim needs beside it, if the arguments name one.
pub(super) fn beside_shim(args: &[OsString]) -> Option<Result<i32, Failure>> {
    let done = guard::run(args)?;
    Some(done.map(|()| OK).map_err(Failure::system))
}

/// Runs the processes of one launch, for which the program is started again.
pub(super) fn shim(dir: &Path) -> Result<i32, Failure> {
    let failed = |e| Failure::of(Code::Daemon, format!("{}: {e}", dir.display()));
    guard::close_others(None);
    // Slurm signals all processes of a step at its end.
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    // If the process has another handler, that one is kept.
    let _ = ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed));
    shim::run(dir, &stop).map_err(failed)?;
    Ok(OK)
}

/// Becomes the program of a rank with another account. Returns only after an error.
pub(super) fn rank(account: &str, command: &[std::ffi::OsString]) -> Failure {
    let error = shell::account::become_program(account, command);
    Failure::of(Code::Daemon, plain(&error.to_string()))
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
    use super::super::args::{DaemonArgs, SubmitArgs};
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
            Settings {
                limits: NodeLimits {
                    come: Millis::secs(daemon.resume_limit),
                    go: Millis::secs(daemon.suspend_limit),
                },
                timers: timers(daemon.lease, daemon.absence),
                ..settings(&daemon.service, daemon.wait_for_nodes)
            },
            limits(&daemon.service),
            log_room(&node),
        );
        let theirs = (
            Settings::default(),
            scheduler::Limits::default(),
            node::LogRoom::default(),
        );
        assert_eq!(ours, theirs);
        assert_eq!(millis(ABSENCE_S), Timers::default().absence);
        let submit = SubmitArgs::augment_args(Command::new("blox"));
        let grace = Timers::default().grace.0 / 1000;
        for (id, default) in [("grace", grace), ("max_retries", u64::from(MAX_RETRIES))] {
            let arg = submit.get_arguments().find(|a| a.get_id() == id).unwrap();
            let help = arg.get_help().unwrap().to_string();
            assert!(help.ends_with(&format!("[default: {default}]")), "{help}");
        }
    }
}
