//! A cluster on this machine: the scheduler and the node managers are tasks of this process, and
//! each launch is a process.

#![allow(
    clippy::disallowed_methods,
    reason = "it submits jobs at their times; no decision sees a clock"
)]

use super::daemons::runtime;
use crate::failure::Failure;
use crate::output::scratch;
use async_trait::async_trait;
use blox_cluster::client::{Client, Token};
use blox_cluster::protocol::scheduler::Settings;
use blox_cluster::protocol::{Millis, NodeRequest, Timers};
use blox_cluster::provider::{NodeProvider, ProviderError};
use blox_cluster::shell::gpus::HealthSource;
use blox_cluster::shell::{node, scheduler, service};
use blox_cluster::wire::pb;
use blox_core::{Name, NodeActionKinds, NodeSpec, Pipeline};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Factor by which the protocol's timers are shortened.
const FASTER: u64 = 5;

/// Time after which a cluster is given up.
const LIMIT: Duration = Duration::from_secs(120);

/// Time after which the jobs are listed again.
const LOOK: Duration = Duration::from_millis(100);

/// Counts tenths of seconds and saves the count after each. On SIGTERM, reports that the count is
/// saved.
const STEPS: &str = "trap 'exit 75' TERM; n=$(cat \"$SAVED\" 2>/dev/null || echo 0); \
    while [ \"$n\" -lt \"$STEPS\" ]; do n=$((n+1)); echo $n > \"$SAVED\"; sleep 0.1; done";

/// Returns a job that runs for a number of tenths of seconds, and saves its state in a folder.
pub(super) fn job(dir: &Path, name: &str, gpus: u32, tenths: u32) -> pb::Job {
    let saved = dir.join(format!("{name}.$RANK"));
    let script = format!("SAVED=\"{}\"; {STEPS}", saved.display());
    pb::Job {
        name: name.to_owned(),
        gpus,
        iterations: f64::from(tenths) / 10.0,
        rate: 1.0,
        command: vec!["sh".into(), "-c".into(), script],
        env: [("STEPS".to_owned(), tenths.to_string())].into(),
        ..pb::Job::default()
    }
}

/// The nodes `node-0`, `node-1` and so on. A node manager ends when its sender is dropped.
pub(super) struct Nodes {
    /// Address of the scheduler.
    pub at: String,
    token: Token,
    /// Folder of the cluster, which is removed at its end.
    pub dir: PathBuf,
    program: String,
    runtime: tokio::runtime::Handle,
    running: Mutex<BTreeMap<Name, oneshot::Sender<()>>>,
}

impl Nodes {
    fn running(&self) -> MutexGuard<'_, BTreeMap<Name, oneshot::Sender<()>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self, name: &Name, spec: NodeSpec) {
        let mut running = self.running();
        if running.contains_key(name) {
            return;
        }
        let settings = node::NodeSettings {
            scheduler: format!("http://{}", self.at),
            dir: self.dir.join(name.as_str()),
            offer: NodeSpec {
                name: Some(name.clone()),
                ..spec
            },
            address: None,
            absence: Millis(0),
            shim: vec![self.program.clone(), "shim".to_owned()],
            devices: Vec::new(),
            device_files: Vec::new(),
            health: HealthSource::None,
            processes: 4_096,
            no_cgroup: false,
            credentials: self.token.clone().into(),
            logs: node::LogRoom::default(),
        };
        let (stop, stopped) = oneshot::channel();
        running.insert(name.clone(), stop);
        self.runtime.spawn(async move {
            let stopped = async move { drop(stopped.await) };
            // A node manager that fails is lost for the scheduler.
            let _ = node::run(settings, stopped, |_| {}).await;
        });
    }

    /// Submits jobs, each when it is due, and passes the list of jobs and the seconds since the start
    /// to `show`. Returns the last list, and these seconds, when all jobs have ended.
    pub async fn play(
        &self,
        jobs: impl IntoIterator<Item = (Duration, pb::Job)>,
        mut show: impl FnMut(&[pb::JobLine], f64) -> Result<(), Failure>,
    ) -> Result<(Vec<pb::JobLine>, f64), Failure> {
        let mut client = Client::connect(&self.at, self.token.clone()).await?;
        let begin = Instant::now();
        let mut waiting = jobs.into_iter().peekable();
        loop {
            let now = begin.elapsed();
            while let Some((_, job)) = waiting.next_if(|(due, _)| *due <= now) {
                client.submit(job.name.clone(), job).await?;
            }
            let jobs = client.list(None, true).await?;
            show(&jobs, now.as_secs_f64())?;
            let ended = ["completed", "failed", "rejected"];
            let open = jobs.iter().filter(|j| !ended.contains(&&*j.phase));
            let open = open.map(|j| format!("job {} is {} ({})", j.job, j.phase, j.reason));
            let open: Vec<String> = open.collect();
            if open.is_empty() && waiting.peek().is_none() {
                return Ok((jobs, now.as_secs_f64()));
            }
            if now > LIMIT {
                let open = open.join(", ");
                return Err(Failure::new(format!("not over in time: {open}")));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Ends a node manager. Its launches end with their leases.
    pub fn stop(&self, name: &str) {
        self.running().remove(&Name::from(name));
    }
}

#[async_trait]
impl NodeProvider for Nodes {
    fn can(&self) -> NodeActionKinds {
        NodeActionKinds::ALL
    }

    async fn resume(&self, request: &NodeRequest) -> Result<(), ProviderError> {
        let names = request.names.iter();
        names.for_each(|name| self.start(name, request.spec.clone()));
        Ok(())
    }

    async fn suspend(&self, request: &NodeRequest) -> Result<(), ProviderError> {
        request.names.iter().for_each(|name| self.stop(name));
        Ok(())
    }
}

/// Starts a scheduler and the nodes for which it waits, each with `gpus` slots. Returns the result
/// of `work`, and leaves neither processes nor files.
pub(super) fn run<T>(
    pipeline: Pipeline,
    settings: Settings,
    gpus: u32,
    work: impl AsyncFnOnce(&Nodes) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let folder = scratch()?;
    let settings = Settings {
        timers: Timers::default().of_one_allocation().divided_by(FASTER),
        ..settings
    };
    let runtime = runtime()?;
    let result = runtime.block_on(async {
        let any = ([127, 0, 0, 1], 0).into();
        // Other users of this machine must not run programs.
        let token = Token::random().map_err(Failure::system)?;
        let listen = service::Listen::bind(any, None, token.clone()).await?;
        let program = std::env::current_exe().map_err(Failure::system)?;
        let nodes = Arc::new(Nodes {
            at: listen.at().to_string(),
            token,
            dir: folder.path().to_owned(),
            program: program.to_string_lossy().into_owned(),
            runtime: runtime.handle().clone(),
            running: Mutex::default(),
        });
        let (limits, watch) = (scheduler::Limits::default(), scheduler::Watch::default());
        let log = folder.path().join("scheduler");
        let provider = Arc::clone(&nodes) as Arc<dyn NodeProvider>;
        let nodes_first = settings.wait_for_nodes;
        let running =
            scheduler::start_with(&log, settings, pipeline, limits, watch, provider, &|_| None)?;
        let (over, stop) = oneshot::channel::<()>();
        let stop = async move { drop(stop.await) };
        let served = service::serve(running, listen, |_, _| {}, |_: &str| {}, stop);
        let served = tokio::spawn(served);
        for i in 0..nodes_first {
            nodes.start(&format!("node-{i}").into(), NodeSpec::with_gpus(gpus));
        }
        let result = work(&nodes).await;
        drop(over);
        nodes.running().clear();
        served.await??;
        result
    });
    // Launches that still run end with their leases, and write into the folder until then.
    for _ in 0..80 {
        if !is_used(folder.path()) {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    result
}

/// Returns whether another process was started for a folder.
fn is_used(folder: &Path) -> bool {
    let mut all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    all.any(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&*folder.to_string_lossy())
    })
}
