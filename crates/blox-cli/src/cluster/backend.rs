//! Runs a composition on a real cluster: `--backend cluster` of the examples.

use super::daemons::runtime;
use crate::Failure;
use crate::output::scratch;
use async_trait::async_trait;
use blox_cluster::client::{Client, Token};
use blox_cluster::protocol::scheduler::Settings;
use blox_cluster::protocol::{NodeRequest, Timers};
use blox_cluster::provider::{NodeProvider, ProviderError};
use blox_cluster::shell::{node, scheduler, service};
use blox_cluster::wire::pb;
use blox_core::{Name, NodeActionKind, NodeActionKinds, NodeSpec, Pipeline};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// Simulated seconds per second: a round of five minutes takes one second.
const SPEED: f64 = 300.0;
/// Factor by which the protocol's timers are shortened.
const FASTER: u64 = 5;
const NODES: u32 = 2;
const GPUS: u32 = 4;
const LOOKS: u32 = 1_200;
const LOOK: Duration = Duration::from_millis(100);

/// GPUs and minutes of each job.
const JOBS: [(u32, f64); 8] = [
    (1, 10.0),
    (2, 15.0),
    (4, 20.0),
    (1, 5.0),
    (8, 5.0),
    (1, 10.0),
    (2, 5.0),
    (1, 15.0),
];

/// Counts tenths of seconds and saves the count after each. On SIGTERM, reports that the count is
/// saved.
const STEPS: &str = "trap 'exit 75' TERM; n=$(cat \"$SAVED\" 2>/dev/null || echo 0); \
    while [ \"$n\" -lt \"$STEPS\" ]; do n=$((n+1)); echo $n > \"$SAVED\"; sleep 0.1; done";

/// Runs small programs under a scheduler on this machine and returns a summary.
pub(super) fn rehearse(pipeline: Pipeline) -> Result<String, Failure> {
    let name = blox_core::Scheduler::name(&pipeline).to_owned();
    let folder = scratch()?;
    let settings = Settings {
        timers: Timers::default().divided_by(FASTER),
        wait_for_nodes: NODES as usize,
        speed: SPEED,
        ..Settings::default()
    };
    let limits = scheduler::Limits::default();
    let dir = folder.path().join("scheduler");
    let (to, requests) = mpsc::unbounded_channel();
    let running = scheduler::start_with(
        &dir,
        settings,
        pipeline,
        limits,
        scheduler::Watch::default(),
        Arc::new(LocalNodes(to)),
    )?;
    let report = runtime()?.block_on(play(running, requests, folder.path()))?;
    Ok(format!(
        "{name} on {NODES} nodes of {GPUS} GPU slots: {report}"
    ))
}

/// Provider of nodes that are tasks of this process.
struct LocalNodes(mpsc::UnboundedSender<NodeRequest>);

impl LocalNodes {
    fn ask(&self, request: &NodeRequest) -> Result<(), ProviderError> {
        let sent = self.0.send(request.clone());
        sent.map_err(|_| ProviderError::Other("the rehearsal is over".to_owned()))
    }
}

#[async_trait]
impl NodeProvider for LocalNodes {
    fn can(&self) -> NodeActionKinds {
        NodeActionKinds::ALL
    }

    async fn resume(&self, request: &NodeRequest) -> Result<(), ProviderError> {
        self.ask(request)
    }

    async fn suspend(&self, request: &NodeRequest) -> Result<(), ProviderError> {
        self.ask(request)
    }
}

/// The running node managers. A node manager ends when its sender is dropped.
struct Managers {
    at: String,
    dir: PathBuf,
    program: PathBuf,
    running: BTreeMap<Name, watch::Sender<()>>,
    tasks: JoinSet<()>,
}

impl Managers {
    fn start(&mut self, name: &Name, spec: NodeSpec) {
        if self.running.contains_key(name) {
            return;
        }
        let settings = node::NodeSettings {
            scheduler: format!("http://{}", self.at),
            dir: self.dir.join(name.as_str()),
            offer: NodeSpec {
                name: Some(name.clone()),
                ..spec
            },
            address: "127.0.0.1".to_owned(),
            timers: Timers::default().divided_by(FASTER),
            shim: vec![
                self.program.to_string_lossy().into_owned(),
                "shim".to_owned(),
            ],
            devices: Vec::new(),
            token: Token::none(),
            logs: node::LogRoom::default(),
        };
        let (stop, mut stopped) = watch::channel(());
        self.running.insert(name.clone(), stop);
        self.tasks.spawn(async move {
            let stop = async move { while stopped.changed().await.is_ok() {} };
            // A node manager that fails is lost for the scheduler.
            let _ = node::run(settings, stop, |_| {}).await;
        });
    }

    /// Carries out requests until `over`.
    async fn serve(
        mut self,
        mut requests: mpsc::UnboundedReceiver<NodeRequest>,
        mut over: watch::Receiver<bool>,
    ) {
        loop {
            let request = tokio::select! {
                _ = over.wait_for(|over| *over) => break,
                request = requests.recv() => request,
            };
            let Some(request) = request else { break };
            for name in &request.names {
                match request.action {
                    NodeActionKind::PowerOn | NodeActionKind::Grow => {
                        self.start(name, request.spec.clone());
                    }
                    _ => drop(self.running.remove(name)),
                }
            }
        }
        self.running.clear();
        while self.tasks.join_next().await.is_some() {}
    }
}

async fn play(
    running: scheduler::Running,
    requests: mpsc::UnboundedReceiver<NodeRequest>,
    dir: &Path,
) -> Result<String, Failure> {
    let (over, told) = watch::channel(false);
    let (tx, ready) = tokio::sync::oneshot::channel();
    let any = ([127, 0, 0, 1], 0).into();
    let listen = service::Listen::bind(any, None, Token::none());
    let listen = listen.await?;
    let mut stop = told.clone();
    let ready_at = |at: std::net::SocketAddr, _| {
        // The receiver may already have failed.
        let _ = tx.send(at);
    };
    let served = tokio::spawn(service::serve(
        running,
        listen,
        ready_at,
        |_: &str| {},
        async move {
            let _ = stop.wait_for(|over| *over).await;
        },
    ));
    let at = ready.await?.to_string();
    let mut managers = Managers {
        at: at.clone(),
        dir: dir.to_owned(),
        program: std::env::current_exe().map_err(Failure::system)?,
        running: BTreeMap::new(),
        tasks: JoinSet::new(),
    };
    for i in 0..NODES {
        managers.start(&format!("node-{i}").into(), NodeSpec::with_gpus(GPUS));
    }
    let managers = tokio::spawn(managers.serve(requests, told));
    let result = watch_jobs(&at, dir).await;
    let _ = over.send(true);
    managers.await?;
    served.await??;
    result
}

async fn watch_jobs(at: &str, dir: &Path) -> Result<String, Failure> {
    let mut client = Client::connect(at, Token::none()).await?;
    for (i, (gpus, minutes)) in JOBS.into_iter().enumerate() {
        let long = minutes * 60.0;
        let saved = dir.join(format!("{i}.$RANK"));
        let script = format!("SAVED=\"{}\"; {STEPS}", saved.display());
        let steps = (long / SPEED * 10.0).round();
        let job = pb::Job {
            gpus,
            iterations: long,
            rate: 1.0,
            estimate_s: long,
            command: vec!["sh".into(), "-c".into(), script],
            env: [("STEPS".to_owned(), steps.to_string())].into(),
            // Far in the future, so that no scheduler rejects the job for it.
            deadlines_s: vec![10.0 * 3600.0],
            ..pb::Job::default()
        };
        client.submit(format!("job-{i}"), job).await?;
    }
    for _ in 0..LOOKS {
        let jobs = client.list(None, true).await?;
        if jobs.iter().all(|j| j.ended_s > 0.0) {
            return summary(&jobs);
        }
        tokio::time::sleep(LOOK).await;
    }
    let left = client.list(None, false).await?;
    let left: Vec<String> = left
        .iter()
        .map(|j| format!("job {} is {} ({})", j.job, j.phase, j.reason))
        .collect();
    Err(Failure::new(format!(
        "not over in time: {}",
        left.join(", ")
    )))
}

fn summary(jobs: &[pb::JobLine]) -> Result<String, Failure> {
    let wrong = jobs.iter().find(|j| j.phase != "completed");
    if let Some(j) = wrong {
        let text = format!("job {} is {}: {}", j.job, j.phase, j.reason);
        return Err(Failure::new(text));
    }
    let jct: f64 = jobs.iter().map(|j| j.ended_s - j.submitted_s).sum();
    let launches: u32 = jobs.iter().map(|j| j.attempt).sum();
    Ok(format!(
        "{} jobs completed in {launches} launches, average JCT {:.0} s",
        jobs.len(),
        jct / jobs.len() as f64
    ))
}
