//! `blox cluster`: a cluster in an allocation of Slurm.
//!
//! `up` submits a batch job whose command is the same command line. In the allocation, it runs the
//! scheduler, and `srun` starts a node manager on each node.

#![allow(clippy::disallowed_methods, reason = "patience has an end")]

use super::args::{DownArgs, PilotArgs, PilotCommand, TypedGpus, UpArgs};
use super::daemons::{self, Daemon, drain_now, host, runtime, stop_signal};
use crate::failure::{Code, Failure};
use crate::help::Late;
use crate::lock::Lock;
use crate::terminal::{INTERRUPTED, OK, Terminal};
use crate::text::plain;
use blox_cluster::client::{self, Client, ClientError, Token};
use blox_cluster::protocol::scheduler::Settings;
use blox_cluster::shell::provider::Programs as NodePrograms;
use blox_cluster::wire::pb;
use blox_core::Pipeline;
use blox_registry::Registry;
use blox_results::{number_of, quoted};
use blox_slurm::{Programs, Script, SlurmError, is_active, suffix};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::fs;
use std::io::{IsTerminal, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Interval at which the job, its nodes and their managers are polled.
const LOOK: Duration = Duration::from_millis(200);

/// Time after the first node within which the others join before the cluster is announced.
const JOIN: Duration = Duration::from_secs(30);

/// Time between two searches for lost nodes of earlier allocations.
const SWEEP: Duration = Duration::from_secs(5);

/// Lines of the log that are shown if the cluster does not start.
const SHOWN: usize = 8;

/// Time within which `srun` ends once no job runs.
const END: Duration = Duration::from_secs(10);

pub(super) fn run(
    registry: &Registry,
    command: PilotCommand,
    line: &[OsString],
    terminal: &mut Terminal<'_>,
) -> Result<i32, Failure> {
    match command {
        PilotCommand::Up(late) => up(registry, late, line, terminal),
        PilotCommand::Down(a) => down(&a, terminal),
    }
}

fn up(
    registry: &Registry,
    late: Late<UpArgs>,
    line: &[OsString],
    terminal: &mut Terminal<'_>,
) -> Result<i32, Failure> {
    let UpArgs { simulate, pilot: a } = *late.args;
    let named = simulate.positional.as_ref().or(simulate.scheduler.as_ref());
    // A wrong option fails here, before the job waits in a queue.
    let scheduler = match (&a.join, named) {
        (Some(_), Some(name)) => {
            let name = plain(name);
            return Err(Failure::new(format!(
                "--join: the scheduler runs already, expected no `{name}`"
            )));
        }
        (Some(at), None) => {
            client::url(at)?;
            None
        }
        (None, _) => Some(daemons::pipeline(registry, simulate, &late.matches)?),
    };
    let folder = Folder::of(&a.state_dir)?;
    if a.dry_run {
        terminal.print(&folder.script(&a, line)?)?;
        return Ok(OK);
    }
    folder.create()?;
    let token = folder.token(&a)?;
    match Allocation::of_environment() {
        Some(allocation) => carry(
            registry, scheduler, &a, &folder, &token, allocation, terminal,
        ),
        None => submit(&a, &folder, &token, line, terminal),
    }
}

/// The folder of a cluster.
struct Folder(PathBuf);

impl Folder {
    fn of(dir: &Path) -> Result<Self, Failure> {
        let dir = std::path::absolute(dir).map_err(|e| Failure::at(dir, e))?;
        Ok(Folder(dir))
    }

    /// Creates the folder, which other users cannot enter.
    fn create(&self) -> Result<(), Failure> {
        if self.0.is_file() {
            return Err(Failure::at(&self.0, "is a file, expected a folder"));
        }
        let at = |e| Failure::at(&self.0, e);
        let mut builder = fs::DirBuilder::new();
        builder
            .recursive(true)
            .mode(0o700)
            .create(&self.0)
            .map_err(at)?;
        let mode = fs::metadata(&self.0).map_err(at)?.permissions().mode();
        if mode & 0o077 != 0 {
            return Err(Failure::at(
                &self.0,
                format!(
                    "mode is {:o}, expected 700: others must not read its token",
                    mode & 0o777
                ),
            ));
        }
        fs::create_dir_all(self.0.join("logs")).map_err(at)
    }

    /// Returns the file with the token, and creates the file if it is missing.
    fn token(&self, a: &PilotArgs) -> Result<PathBuf, Failure> {
        let named = || std::env::var_os("BLOX_TOKEN_FILE").map(PathBuf::from);
        let given = match (&a.token_file, &a.join) {
            (Some(path), _) => Some(path.clone()),
            (None, Some(_)) => Some(named().ok_or_else(|| {
                Failure::new("--join: no token, expected --token-file FILE of the scheduler")
            })?),
            (None, None) => None,
        };
        let path = match given {
            Some(path) => std::path::absolute(&path).map_err(|e| Failure::at(&path, e))?,
            None => self.own_token()?,
        };
        // A file that the nodes would refuse fails here.
        daemons::read_token(&path)?;
        Ok(path)
    }

    fn own_token(&self) -> Result<PathBuf, Failure> {
        let path = self.0.join("token");
        let at = |e: std::io::Error| Failure::at(&path, e);
        if path.exists() {
            return Ok(path);
        }
        let mut secret = [0; 32];
        let source = fs::File::open("/dev/urandom");
        source
            .and_then(|mut f| f.read_exact(&mut secret))
            .map_err(at)?;
        let text: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        // Nobody reads half a token: the file appears as a whole.
        let new = path.with_extension(std::process::id().to_string());
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(&new);
        file.and_then(|mut file| writeln!(file, "{text}"))
            .map_err(at)?;
        fs::rename(&new, &path).map_err(at)?;
        Ok(path)
    }

    /// Returns the number of the last submitted job.
    fn job(&self) -> Option<u32> {
        fs::read_to_string(self.0.join("job"))
            .ok()?
            .trim()
            .parse()
            .ok()
    }

    /// Returns the address of the scheduler, once the nodes have joined.
    fn address(&self) -> Option<String> {
        let text = fs::read_to_string(self.0.join("address")).ok()?;
        text.strip_suffix('\n').map(str::to_owned)
    }

    fn write(&self, name: &str, text: &str) -> Result<(), Failure> {
        let (path, new) = (self.0.join(name), self.0.join(format!("{name}.new")));
        fs::write(&new, format!("{text}\n"))
            .and_then(|()| fs::rename(&new, &path))
            .map_err(|e| Failure::at(&path, e))
    }

    fn forget_address(&self) {
        // It may be missing.
        let _ = fs::remove_file(self.0.join("address"));
    }

    fn log(&self, job: u32) -> PathBuf {
        self.0.join(format!("logs/{job}.log"))
    }

    /// Returns the batch script, which runs the same command line in the allocation.
    fn script(&self, a: &PilotArgs, line: &[OsString]) -> Result<String, Failure> {
        let missing = |option: &str| {
            Failure::new(format!(
                "--{option} is missing, expected what to ask of Slurm"
            ))
        };
        let nodes = a.nodes.ok_or_else(|| missing("nodes"))?;
        let gpus = a
            .gpus_per_node
            .as_ref()
            .ok_or_else(|| missing("gpus-per-node"))?;
        let program = std::env::current_exe().map_err(Failure::system)?;
        let program = program.to_string_lossy().into_owned();
        let rest = line
            .iter()
            .skip(1)
            .map(|word| word.to_string_lossy().into_owned());
        let rest = rest.filter(|word| word != "--detach" && word != "--dry-run");
        let words = std::iter::once(program).chain(rest);
        let words: Vec<String> = words.map(|word| quoted(&word)).collect();
        // Slurm replaces other words that begin with a percent sign.
        let log = self.0.to_string_lossy().replace('%', "%%") + "/logs/%j.log";
        let mut script = Script::new("blox-cluster")
            .option("nodes", Some(nodes))
            .option("ntasks-per-node", Some(1))
            .option("gres", Some(format!("gpu:{gpus}")))
            .option("cpus-per-task", a.cpus_per_node)
            .option("output", Some(quoted(&log)))
            .option("open-mode", Some("append"))
            .option("signal", Some(format!("B:TERM@{}", a.grace)))
            .option("partition", a.partition.as_ref())
            .option("account", a.account.as_ref())
            .option("time", a.time.as_ref())
            // The cluster goes on without a lost node, and starts again if the first one is lost.
            .argument("--no-kill")
            .argument("--requeue");
        for arg in &a.slurm_arg {
            script = script.argument(arg);
        }
        Ok(script.command(&format!("exec {}", words.join(" "))))
    }
}

fn failed(error: SlurmError) -> Failure {
    Failure::new(error.to_string())
}

/// Returns the state of a job that has not ended, with its reason to wait.
fn state(slurm: &Programs, job: u32) -> Result<Option<(String, String)>, Failure> {
    loop {
        match slurm.state(job) {
            Ok(state) => return Ok(state.filter(|(state, _)| is_active(state))),
            // The controller may restart.
            Err(error) if error.is_temporary() => std::thread::sleep(LOOK),
            Err(error) => return Err(failed(error)),
        }
    }
}

/// Submits the cluster as a job, and waits until its nodes have joined.
fn submit(
    a: &PilotArgs,
    folder: &Folder,
    token: &Path,
    line: &[OsString],
    terminal: &mut Terminal<'_>,
) -> Result<i32, Failure> {
    let slurm = Programs::default();
    let script = folder.script(a, line)?;
    // Two commands at once would submit two jobs.
    let taken = |_| Failure::at(&folder.0, "another command submits a cluster here");
    let lock = Lock::take(&folder.0).map_err(taken)?;
    let before = match folder.job() {
        Some(job) => state(&slurm, job)?.map(|_| job),
        None => None,
    };
    let job = match before {
        Some(job) => {
            let _ = writeln!(terminal.err, "Slurm job {job} has this directory already");
            job
        }
        None => {
            folder.forget_address();
            let path = folder.0.join("job.sh");
            fs::write(&path, script).map_err(|e| Failure::at(&path, e))?;
            let args = ["--parsable".to_owned(), path.to_string_lossy().into_owned()];
            let job = slurm.submit(&args, &[]).map_err(failed)?;
            folder.write("job", &job.to_string())?;
            let nodes = a.nodes.map_or(0, |nodes| u64::from(nodes.get()));
            let _ = writeln!(
                terminal.err,
                "Slurm job {job}: {}",
                number_of(nodes, "node")
            );
            job
        }
    };
    drop(lock);
    if a.detach {
        return Ok(OK);
    }
    let dir = quoted(&folder.0.to_string_lossy());
    runtime()?.block_on(async {
        tokio::select! {
            at = joined(&slurm, folder, job) => {
                let at = at?;
                terminal.print(&usage(&at, token, folder, true))?;
                let reached = Client::connect(&at, daemons::read_token(token)?).await;
                if reached.is_err() {
                    let _ = writeln!(terminal.err, "this host does not reach {at}: use a node of the job");
                }
                Ok(OK)
            }
            () = stop_signal() => {
                let _ = writeln!(
                    terminal.err,
                    "interrupted: Slurm keeps job {job}; the same command waits for it, and `blox cluster down --state-dir {dir}` ends it"
                );
                Ok(INTERRUPTED)
            }
        }
    })
}

/// Waits until the nodes of a job have joined. Returns the address of the scheduler.
async fn joined(slurm: &Programs, folder: &Folder, job: u32) -> Result<String, Failure> {
    let mut asked = Instant::now();
    loop {
        if let Some(at) = folder.address() {
            return Ok(at);
        }
        // The controller serves others, too.
        if asked.elapsed() > 5 * LOOK {
            asked = Instant::now();
            if state(slurm, job)?.is_none() && folder.address().is_none() {
                let log = folder.log(job);
                let text = fs::read_to_string(&log).unwrap_or_default();
                let lines: Vec<&str> = text.lines().collect();
                for line in &lines[lines.len().saturating_sub(SHOWN)..] {
                    note(&plain(line));
                }
                return Err(Failure::of(
                    Code::Daemon,
                    format!(
                        "Slurm job {job} has ended before its nodes joined; its log is {}",
                        log.display()
                    ),
                ));
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Prints a note while a scheduler is served, which has the terminal.
fn note(text: &str) {
    // The output may be closed.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Returns how to use and to end a cluster. Without a batch job, a signal ends it.
fn usage(at: &str, token: &Path, folder: &Folder, is_batch: bool) -> String {
    let word = |path: &Path| quoted(&path.to_string_lossy());
    let down = match is_batch {
        true => format!("blox cluster down --state-dir {}\n", word(&folder.0)),
        false => String::new(),
    };
    format!(
        "export BLOX_TOKEN_FILE={}\nblox submit --at {at} -- COMMAND\n{down}",
        word(token)
    )
}

fn down(a: &DownArgs, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    let folder = Folder::of(&a.state_dir)?;
    let Some(job) = folder.job() else {
        return Err(Failure::at(
            &folder.0,
            "has no job, expected a folder of `blox cluster up`; Ctrl-C ends a cluster in an open allocation",
        ));
    };
    let slurm = Programs::default();
    let number = job.to_string();
    match state(&slurm, job)? {
        None => {}
        Some((state, _)) if state == "PENDING" => {
            slurm.run("scancel", &[number]).map_err(failed)?;
        }
        Some((state, _)) if state == "COMPLETING" => {}
        Some(_) => {
            let args = ["--batch".to_owned(), "--signal=TERM".to_owned(), number];
            slurm.run("scancel", &args).map_err(failed)?;
        }
    }
    if a.detach {
        return Ok(OK);
    }
    runtime()?.block_on(async {
        let end = async {
            while state(&slurm, job)?.is_some() {
                tokio::time::sleep(LOOK).await;
            }
            Ok::<(), Failure>(())
        };
        tokio::select! {
            end = end => end?,
            () = stop_signal() => {
                let _ = writeln!(terminal.err, "interrupted: Slurm job {job} still ends");
                return Ok(INTERRUPTED);
            }
        }
        writeln!(
            terminal.out,
            "Slurm job {job} has ended; the queue is in {}",
            folder.0.display()
        )?;
        Ok(OK)
    })
}

/// The allocation in which this process runs.
struct Allocation {
    job: u32,
    restarts: u32,
    nodes: u32,
}

impl Allocation {
    fn of_environment() -> Option<Self> {
        let number = |name: &str| std::env::var(name).ok()?.trim().parse::<u32>().ok();
        Some(Allocation {
            job: number("SLURM_JOB_ID")?,
            restarts: number("SLURM_RESTART_COUNT").unwrap_or(0),
            nodes: number("SLURM_JOB_NUM_NODES")?,
        })
    }
}

/// Runs a cluster in an allocation until its end.
fn carry(
    registry: &Registry,
    scheduler: Option<(Pipeline, Option<PathBuf>)>,
    a: &PilotArgs,
    folder: &Folder,
    token: &Path,
    allocation: Allocation,
    terminal: &mut Terminal<'_>,
) -> Result<i32, Failure> {
    let Allocation { job, nodes, .. } = allocation;
    if let Some(wanted) = a.nodes.filter(|wanted| wanted.get() != nodes) {
        return Err(Failure::new(format!(
            "--nodes is `{wanted}`, expected {nodes} as in the allocation of Slurm job {job}; unset SLURM_JOB_ID to submit a job"
        )));
    }
    let pilot = Pilot {
        folder,
        token_file: token,
        token: daemons::read_token(token)?,
        suffix: suffix(job, allocation.restarts),
        job,
        nodes,
        args: a,
        owns_scheduler: scheduler.is_some(),
    };
    let result = match (scheduler, &a.join) {
        (Some((pipeline, journal)), _) => {
            let (ready, at) = oneshot::channel::<String>();
            let end = Mutex::new(Ok(()));
            let wait_for_nodes = a.wait_for_nodes.unwrap_or(nodes as usize);
            let daemon = Daemon {
                dir: folder.0.join("scheduler"),
                listen: a.listen,
                token: pilot.token.clone(),
                identity: None,
                settings: Settings {
                    // The next allocation may be larger.
                    keeps_large: true,
                    ..daemons::settings(&a.service, wait_for_nodes)
                },
                service: a.service.clone(),
                nodes: NodePrograms::new(None, None, folder.0.join("node-requests")),
                journal,
                registry,
            };
            let stop = async {
                if let Ok(at) = at.await {
                    let result = pilot.run(&at).await;
                    *end.lock().unwrap_or_else(PoisonError::into_inner) = result;
                }
            };
            let ready = |at: SocketAddr| {
                // Nothing waits for it after an early signal.
                let _ = ready.send(match at.ip().is_unspecified() {
                    true => format!("{}:{}", host(), at.port()),
                    false => at.to_string(),
                });
            };
            let served = daemons::serve(pipeline, daemon, terminal, ready, stop);
            served.and(end.into_inner().unwrap_or_else(PoisonError::into_inner))
        }
        (None, at) => {
            let at = at.clone().unwrap_or_default();
            runtime()?.block_on(pilot.run(&at))
        }
    };
    result.map(|()| OK)
}

/// A cluster in this allocation.
struct Pilot<'a> {
    folder: &'a Folder,
    token_file: &'a Path,
    token: Token,
    /// End of the names of all nodes of the allocation.
    suffix: String,
    job: u32,
    nodes: u32,
    args: &'a PilotArgs,
    owns_scheduler: bool,
}

impl Pilot<'_> {
    /// Runs the nodes until a signal, or until the last node manager has ended, and drains them.
    async fn run(&self, at: &str) -> Result<(), Failure> {
        // It is of an allocation that was lost.
        self.folder.forget_address();
        let mut srun = self.start(at)?;
        let stop = stop_signal();
        let mut stop = std::pin::pin!(stop);
        let (mut first, mut announced, mut swept) = (None, false, Instant::now());
        let mut joined = 0;
        let ended = loop {
            tokio::select! {
                () = &mut stop => break None,
                () = tokio::time::sleep(LOOK) => {}
            }
            if let Some(status) = srun.ended()? {
                break Some(status);
            }
            if announced && (!self.owns_scheduler || swept.elapsed() < SWEEP) {
                continue;
            }
            swept = Instant::now();
            // The scheduler at another place may restart.
            let Ok(nodes) = self.list(at).await else {
                continue;
            };
            joined = self.own(&nodes).filter(|n| n.status == "up").count();
            if !announced && joined > 0 {
                let since = first.get_or_insert_with(Instant::now);
                if joined >= self.nodes as usize || since.elapsed() > JOIN {
                    announced = true;
                    self.announce(at, &nodes)?;
                }
            }
            self.sweep(at, &nodes).await;
        };
        if let (Some(status), false) = (ended, announced) {
            let (joined, nodes) = (joined, number_of(u64::from(self.nodes), "node"));
            let text = format!("srun ends with {status}: {joined} of {nodes} joined");
            return Err(Failure::of(Code::Daemon, text));
        }
        note("the allocation ends: jobs save their work and return to the queue");
        self.folder.forget_address();
        tokio::select! {
            () = self.drain(at) => {
                // Node managers that are removed end.
                self.leave(at).await;
                srun.wait().await?;
            }
            () = insisted() => {}
        }
        drop(srun);
        self.leave(at).await;
        Ok(())
    }

    /// Starts a node manager on each node.
    fn start(&self, at: &str) -> Result<Step, Failure> {
        let program = std::env::current_exe().map_err(Failure::system)?;
        let nodes = self.nodes.to_string();
        let below = || self.folder.0.join("nodes");
        let dir = self.args.node_dir.clone().unwrap_or_else(below);
        let mut srun = Command::new("srun");
        srun.args(["--nodes", &nodes, "--ntasks", &nodes, "--ntasks-per-node=1"])
            // A node that is lost, and a node manager that ends, leave the others alone. A task has
            // all CPUs of its node.
            .args(["--no-kill", "--kill-on-bad-exit=0", "--wait=0", "--overlap"])
            .args(["--cpu-bind=none", "--mpi=none"])
            .arg(program)
            .args(["node", "--on", "slurm", "--at", at])
            .arg("--token-file")
            .arg(self.token_file)
            .arg("--state-dir")
            .arg(dir);
        if self.owns_scheduler {
            // The scheduler is lost with its node, while the allocation goes on.
            srun.args(["--requeue-job-after", "60"]);
        }
        if let Some(TypedGpus {
            gpu_type: Some(gpu_type),
            ..
        }) = &self.args.gpus_per_node
        {
            srun.args(["--gpu-type", gpu_type]);
        }
        // Ctrl-C in a terminal is for this process, which drains the nodes first.
        srun.process_group(0).stdin(Stdio::null());
        let child = srun.spawn().map_err(|e| {
            let text = format!("srun: {e}, expected a program of Slurm in the search path");
            Failure::of(Code::Daemon, text)
        })?;
        Ok(Step(child))
    }

    async fn client(&self, at: &str) -> Result<Client, ClientError> {
        Client::connect(at, self.token.clone()).await
    }

    async fn list(&self, at: &str) -> Result<Vec<pb::NodeLine>, ClientError> {
        self.client(at).await?.nodes().await
    }

    /// Returns the nodes of this allocation.
    fn own<'n>(&self, nodes: &'n [pb::NodeLine]) -> impl Iterator<Item = &'n pb::NodeLine> {
        nodes.iter().filter(|n| n.name.ends_with(&self.suffix))
    }

    /// Prints and writes the address of the scheduler.
    fn announce(&self, at: &str, nodes: &[pb::NodeLine]) -> Result<(), Failure> {
        let up = || self.own(nodes).filter(|n| n.status == "up");
        let gpus: u32 = up().map(|n| n.gpus).sum();
        let is_batch = self.folder.job() == Some(self.job);
        note(&format!(
            "{} with {} joined the scheduler at {at}\n{}",
            number_of(up().count() as u64, "node"),
            number_of(u64::from(gpus), "GPU"),
            usage(at, self.token_file, self.folder, is_batch).trim_end()
        ));
        self.folder.write("address", at)
    }

    /// Removes lost nodes of earlier allocations, which never return.
    async fn sweep(&self, at: &str, nodes: &[pb::NodeLine]) {
        let away = |n: &&pb::NodeLine| {
            n.status != "up" && !n.name.ends_with(&self.suffix) && n.jobs.is_empty()
        };
        if self.owns_scheduler {
            self.remove(at, nodes.iter().filter(away)).await;
        }
    }

    async fn remove<'n>(&self, at: &str, nodes: impl Iterator<Item = &'n pb::NodeLine>) {
        let Ok(mut client) = self.client(at).await else {
            return;
        };
        for node in nodes {
            // A launch may still run there: a later call removes the node.
            let _ = client.remove(node.name.clone()).await;
        }
    }

    /// Drains all nodes, and waits until no job runs on those that are up.
    async fn drain(&self, at: &str) {
        loop {
            if let Ok(true) = self.is_drained(at).await {
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Drains the nodes that are not drained yet. Returns whether no job runs on a node that is up.
    async fn is_drained(&self, at: &str) -> Result<bool, ClientError> {
        let mut client = self.client(at).await?;
        let nodes = client.nodes().await?;
        let mut done = true;
        for node in self.own(&nodes).filter(|n| n.status == "up") {
            if node.drained.is_empty() {
                drain_now(&mut client, &node.name).await?;
                done = false;
            }
            done &= node.jobs.is_empty();
        }
        Ok(done)
    }

    /// Removes the nodes of this allocation from the cluster.
    async fn leave(&self, at: &str) {
        if let Ok(nodes) = self.list(at).await {
            self.remove(at, self.own(&nodes)).await;
        }
    }
}

/// Waits for a second signal, which counts only at a terminal.
async fn insisted() {
    match std::io::stdin().is_terminal() {
        true => stop_signal().await,
        false => std::future::pending().await,
    }
}

/// A running `srun`, which ends with this value, and with it the node managers.
struct Step(Child);

impl Step {
    fn ended(&mut self) -> Result<Option<ExitStatus>, Failure> {
        self.0.try_wait().map_err(Failure::system)
    }

    /// Waits for the end, for a time.
    async fn wait(&mut self) -> Result<(), Failure> {
        let begin = Instant::now();
        while begin.elapsed() < END && self.ended()?.is_none() {
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        let begin = Instant::now();
        while let Ok(None) = self.0.try_wait() {
            let signal = match begin.elapsed() < END {
                true => Signal::TERM,
                false => Signal::KILL,
            };
            // It may have ended.
            let _ = kill_process(Pid::from_child(&self.0), signal);
            std::thread::sleep(5 * LOOK);
        }
    }
}
