//! Nodes of real processes that come and go, as two cluster managers decide and two programs carry
//! out.
#![cfg(feature = "cluster")]
#![allow(clippy::disallowed_methods, reason = "patience has an end")]

use blox::core::{Pipeline, Seconds};
use blox::policies::cluster::PowerRule;
use blox::policies::scheduling::{Autoscale, PolluxSettings};
use blox::schedulers::{HeliosCesParams, PolluxParams, helios_ces_with, pollux_with};
use blox_cluster::client::{Client, Token};
use blox_cluster::protocol::launches::NodeLimits;
use blox_cluster::protocol::scheduler::Settings;
use blox_cluster::protocol::{Millis, Timers};
use blox_cluster::shell::provider::Programs;
use blox_cluster::shell::{scheduler, service};
use blox_cluster::wire::pb;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Seconds of cluster time in a second: ten minutes take two seconds.
const SPEED: f64 = 300.0;
const FASTER: u64 = 5;
const LIMIT: Duration = Duration::from_secs(120);

/// Starts node managers, unless they run, and notes their names.
const RESUME: &str = r#"for name in $(echo "$1" | tr , ' '); do
  if [ -e $name.pid ] && kill -0 $(cat $name.pid) 2>/dev/null; then continue; fi
  "$BLOX" node --faster 5 --at $(cat at) --gpus 2 --name $name --state-dir $name \
    >/dev/null 2>&1 </dev/null &
  echo $! > $name.pid
  echo "on $name" >> events
done"#;

const SUSPEND: &str = r#"for name in $(echo "$1" | tr , ' '); do
  [ -e $name.pid ] && kill $(cat $name.pid)
  rm -f $name.pid
  echo "off $name" >> events
done"#;

/// The folder of a cluster. Its node managers end with this value.
struct Folder(tempfile::TempDir);

impl Folder {
    fn path(&self) -> &Path {
        self.0.path()
    }

    fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        let (blox, dir) = (env!("CARGO_BIN_EXE_blox"), self.path().display());
        let text = format!("#!/bin/sh\nBLOX={blox}\ncd {dir} || exit 1\n{text}\n");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Names of the nodes that the programs have started (`on`) or ended (`off`), in order.
    fn events(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path().join("events")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        for entry in std::fs::read_dir(self.path())
            .into_iter()
            .flatten()
            .flatten()
        {
            let path = entry.path();
            if path.extension().is_some_and(|e| e == "pid") {
                let pid = std::fs::read_to_string(&path).unwrap_or_default();
                let _ = Command::new("kill").args(["-9", pid.trim()]).status();
            }
        }
    }
}

fn job(gpus: u32, seconds: u32) -> pb::Job {
    let long = f64::from(seconds) * SPEED;
    pb::Job {
        gpus,
        iterations: long,
        rate: 1.0,
        estimate_s: long,
        command: vec!["sleep".into(), seconds.to_string()],
        ..pb::Job::default()
    }
}

/// Client of a cluster, and the folder of its nodes.
struct Cluster {
    client: Client,
    folder: Arc<Folder>,
    jobs: u32,
}

impl Cluster {
    async fn submit(&mut self, job: pb::Job) -> u32 {
        self.jobs += 1;
        self.client
            .submit(format!("job-{}", self.jobs), job)
            .await
            .unwrap()
    }

    /// Waits until the jobs and nodes are as expected.
    async fn until(&mut self, what: &str, holds: impl Fn(&[pb::JobLine], &[pb::NodeLine]) -> bool) {
        let begin = Instant::now();
        loop {
            let jobs = self.client.list(None, true).await.unwrap();
            let nodes = self.client.nodes().await.unwrap();
            if holds(&jobs, &nodes) {
                return;
            }
            let events = self.folder.events();
            assert!(
                begin.elapsed() < LIMIT,
                "{what}: {jobs:?}\n{nodes:?}\n{events:?}"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Runs a scheduler whose nodes are processes that two programs start and end. The nodes `first`
/// join after `submitted`.
fn run<F: Future<Output = ()>>(
    pipeline: Pipeline,
    submitted: &[pb::Job],
    first: &str,
    play: impl FnOnce(Cluster) -> F,
) {
    let folder = Arc::new(Folder(tempfile::tempdir().unwrap()));
    let dir = folder.path().to_owned();
    let (resume, suspend) = (
        folder.script("resume", RESUME),
        folder.script("suspend", SUSPEND),
    );
    let programs = Programs::new(Some(resume.clone()), Some(suspend), dir.join("requests"));
    let settings = Settings {
        timers: Timers::default().divided_by(FASTER),
        limits: NodeLimits {
            come: Millis::secs(30),
            go: Millis::secs(15),
        },
        wait_for_nodes: first.split(',').count(),
        speed: SPEED,
    };
    let (limits, watch) = (scheduler::Limits::default(), scheduler::Watch::default());
    let log = dir.join("scheduler");
    let running =
        scheduler::start_with(&log, settings, pipeline, limits, watch, Arc::new(programs)).unwrap();
    // A failed assertion must not wait for the threads of the server.
    let runtime = std::mem::ManuallyDrop::new(tokio::runtime::Runtime::new().unwrap());
    runtime.block_on(async {
        let (tx, ready) = tokio::sync::oneshot::channel();
        let (over, stop) = tokio::sync::oneshot::channel::<()>();
        let listen = service::Listen::bind(([127, 0, 0, 1], 0).into(), None, Token::none());
        let listen = listen.await.unwrap();
        let ready_at = |at: SocketAddr, _: Option<SocketAddr>| {
            let _ = tx.send(at);
        };
        let stopped = async move { drop(stop.await) };
        let served = tokio::spawn(service::serve(
            running,
            listen,
            ready_at,
            |_: &str| {},
            stopped,
        ));
        let at = ready.await.unwrap().to_string();
        std::fs::write(dir.join("at"), &at).unwrap();
        let client = Client::connect(&at, Token::none()).await.unwrap();
        let mut cluster = Cluster {
            client,
            folder: Arc::clone(&folder),
            jobs: 0,
        };
        for job in submitted {
            cluster.submit(job.clone()).await;
        }
        assert!(Command::new(&resume).arg(first).status().unwrap().success());
        play(cluster).await;
        drop(over);
        served.await.unwrap().unwrap();
    });
}

#[test]
fn idle_nodes_are_powered_off_and_on_again_for_a_job() {
    let rule = PowerRule {
        history: 1,
        future: 1,
        buffer: 0,
        keep: 0,
        warm_up: 1,
        ..PowerRule::default()
    };
    let helios = helios_ces_with(HeliosCesParams {
        rule,
        forecast: Vec::new(),
    });
    run(
        helios,
        &[job(2, 4), job(2, 4)],
        "n0,n1",
        |mut c: Cluster| async move {
            c.until("both nodes are off after the jobs", |jobs, nodes| {
                let done = jobs.iter().filter(|j| j.phase == "completed").count();
                done == 2 && nodes.iter().all(|n| n.status == "off")
            })
            .await;
            // The programs run after the decision.
            let folder = Arc::clone(&c.folder);
            let ended = |name: &str| {
                let events = folder.events();
                let last = events.iter().rfind(|e| e.ends_with(name));
                last.is_some_and(|e| e.starts_with("off "))
            };
            c.until("the program has ended both nodes", |_, _| {
                ended("n0") && ended("n1")
            })
            .await;
            let before = c.folder.events().len();
            let next = c.submit(job(1, 1)).await;
            c.until("the next job is completed", |jobs, _| {
                jobs.iter().any(|j| j.job == next && j.phase == "completed")
            })
            .await;
            let again = &c.folder.events()[before..];
            assert!(again.iter().any(|e| e.starts_with("on n")), "{again:?}");
        },
    );
}

#[test]
fn node_is_requested_at_high_utility_and_returned_at_low_utility() {
    let pollux = pollux_with(PolluxParams {
        search: PolluxSettings {
            population: 20,
            generations: 20,
            ..PolluxSettings::default()
        },
        round: Seconds::new(120.0),
        autoscale: Autoscale::between((0.3, 0.8), (1, 2)),
    });
    // Both GPUs work at full speed. One job on four GPUs is a quarter of that.
    run(
        pollux,
        &[job(1, 25), job(1, 6)],
        "n0",
        |mut c: Cluster| async move {
            c.until("a second node is up", |_, nodes| {
                nodes.len() == 2 && nodes.iter().all(|n| n.status == "up")
            })
            .await;
            let grown = &c.folder.events()[1];
            assert!(grown.starts_with("on grown-"), "{grown}");
            c.until("one node is returned after the short job", |jobs, nodes| {
                jobs.iter().any(|j| j.phase == "completed") && nodes.len() == 1
            })
            .await;
            assert!(c.folder.events()[2].starts_with("off "));
            c.until("the long job is completed", |jobs, _| {
                jobs.iter().all(|j| j.phase == "completed")
            })
            .await;
        },
    );
}
