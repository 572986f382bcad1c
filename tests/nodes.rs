//! Nodes of real processes that come and go, as two cluster managers decide and two programs carry
//! out.
#![cfg(feature = "cluster")]
#![allow(clippy::disallowed_methods, reason = "patience has an end")]

use blox::core::{
    ClusterSpec, Composition, Event, GpuCount, JobId, JobSpec, MetricCollector, NodeSpec, Offer,
    Outcome, Pipeline, Plan, Seconds, Time, View,
};
use blox::policies::cluster::{PowerRule, PowerSaving};
use blox::policies::placement::{Consolidated, InOrder};
use blox::policies::scheduling::{Autoscale, Fifo, PolluxSettings};
use blox::schedulers::{eva, helios_ces_with, pollux_with};
use blox::sim::Simulation;
use blox::sim::collectors::NodeHours;
use blox::sim::completion::Exact;
use blox::sim::overheads::FixedOverheads;
use blox::sim::workload::Jobs;
use blox_cluster::client::{Client, Token};
use blox_cluster::protocol::launches::NodeLimits;
use blox_cluster::protocol::scheduler::Settings;
use blox_cluster::protocol::{Millis, Timers};
use blox_cluster::shell::provider::Programs;
use blox_cluster::shell::{scheduler, service};
use blox_cluster::wire::pb;
use chacha20::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A cluster whose time is fast: ten minutes take two seconds.
const FAST: Size = Size {
    speed: 300.0,
    gpus: 2,
};
/// A cluster in real time.
const REAL: Size = Size {
    speed: 1.0,
    gpus: 4,
};
const FASTER: u64 = 5;
const LIMIT: Duration = Duration::from_secs(120);

/// Starts node managers, unless they run, and notes their names.
const RESUME: &str = r#"for name in $(echo "$1" | tr , ' '); do
  if [ -e $name.pid ] && kill -0 $(cat $name.pid) 2>/dev/null; then continue; fi
  "$BLOX" node --at $(cat at) --gpus $GPUS --name $name --state-dir $name \
    >/dev/null 2>&1 </dev/null &
  echo $! > $name.pid
  echo "on $name" >> events
done"#;

const SUSPEND: &str = r#"for name in $(echo "$1" | tr , ' '); do
  [ -e $name.pid ] && kill $(cat $name.pid)
  rm -f $name.pid
  echo "off $name" >> events
done"#;

/// Seconds from the order to stop a job until its GPUs are free, as measured on one machine.
const STOP: f64 = 0.4;

/// Works for a number of nanoseconds, and continues after a preemption where it stopped.
const TRAINER: &str = r#"had=$(cat "$1" 2>/dev/null || echo 0)
begin=$(date +%s%N)
trap 'kill $pid; echo $((had + $(date +%s%N) - begin)) > "$1"; exit 75' TERM
left=$(($2 - had))
[ $left -gt 0 ] || exit 0
sleep $(printf %d.%09d $((left / 1000000000)) $((left % 1000000000))) &
pid=$!
wait $pid"#;

#[derive(Clone, Copy)]
struct Size {
    /// Seconds of cluster time in a second.
    speed: f64,
    /// GPUs of each node.
    gpus: u32,
}

/// The folder of a cluster. Its node managers end with this value.
struct Folder(tempfile::TempDir);

impl Folder {
    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a program. Node managers that it starts have some GPUs.
    fn script(&self, name: &str, gpus: u32, text: &str) -> PathBuf {
        let path = self.path().join(name);
        let (blox, dir) = (env!("CARGO_BIN_EXE_blox"), self.path().display());
        let text = format!("#!/bin/sh\nBLOX={blox}\nGPUS={gpus}\ncd {dir} || exit 1\n{text}\n");
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
    job_at(FAST.speed, gpus, f64::from(seconds))
}

/// Returns a job that sleeps for some seconds, in which `speed` times as many pass on the cluster.
fn job_at(speed: f64, gpus: u32, seconds: f64) -> pb::Job {
    let long = seconds * speed;
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
        self.until_within(LIMIT, what, holds).await;
    }

    async fn until_within(
        &mut self,
        limit: Duration,
        what: &str,
        holds: impl Fn(&[pb::JobLine], &[pb::NodeLine]) -> bool,
    ) {
        let begin = Instant::now();
        loop {
            let jobs = self.client.list(None, true).await.unwrap();
            let nodes = self.client.nodes().await.unwrap();
            if holds(&jobs, &nodes) {
                return;
            }
            let events = self.folder.events();
            assert!(
                begin.elapsed() < limit,
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
    let watch = scheduler::Watch::default();
    run_at(FAST, watch, pipeline, submitted, first, play);
}

/// Does the same on a cluster of another size, with collectors.
fn run_at<F: Future<Output = ()>>(
    size: Size,
    watch: scheduler::Watch,
    pipeline: Pipeline,
    submitted: &[pb::Job],
    first: &str,
    play: impl FnOnce(Cluster) -> F,
) {
    let folder = Arc::new(Folder(tempfile::tempdir().unwrap()));
    let dir = folder.path().to_owned();
    let (resume, suspend) = (
        folder.script("resume", size.gpus, RESUME),
        folder.script("suspend", size.gpus, SUSPEND),
    );
    let programs = Programs::new(Some(resume.clone()), Some(suspend), dir.join("requests"));
    let settings = Settings {
        timers: Timers::default().of_one_allocation().divided_by(FASTER),
        limits: NodeLimits {
            come: Millis::secs(30),
            go: Millis::secs(15),
        },
        wait_for_nodes: first.split(',').filter(|name| !name.is_empty()).count(),
        speed: size.speed,
        offers: vec![Offer {
            notice: Some(Seconds::new(60.0)),
            ..Offer::new("grown", NodeSpec::with_gpus(size.gpus).at_price(3.0), 4)
        }],
        ..Settings::default()
    };
    let limits = scheduler::Limits::default();
    let log = dir.join("scheduler");
    let running = scheduler::start_with(
        &log,
        settings,
        pipeline,
        limits,
        watch,
        Arc::new(programs),
        &|_| None,
    )
    .unwrap();
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

/// A rule that follows demand without delay or reserve.
fn at_once() -> PowerRule {
    PowerRule {
        history: 1,
        future: 1,
        buffer: 0,
        keep: 0,
        warm_up: 1,
        ..PowerRule::DEFAULT
    }
}

#[test]
fn idle_nodes_are_powered_off_and_on_again_for_a_job() {
    let helios = helios_ces_with(at_once(), Vec::new());
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
fn node_is_requested_at_high_and_returned_at_low_use() {
    let search = PolluxSettings {
        population: 20,
        generations: 20,
        ..PolluxSettings::DEFAULT
    };
    let autoscale = Autoscale::between((0.3, 0.8), (1, 2));
    let pollux = pollux_with(search, Seconds::new(120.0), autoscale);
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

/// Node-hours and times of jobs, as a collector sees them on either backend.
#[derive(Clone, Debug, Default)]
struct Seen {
    hours: NodeHours,
    /// Submission, plan of the first launch, and end of each job.
    jobs: Vec<[f64; 3]>,
    /// Number of nodes that are up after each change.
    nodes: Vec<(f64, usize)>,
}

impl Seen {
    fn count(&mut self, view: View<'_>) {
        let up = view.nodes().filter(|n| n.is_usable()).count();
        if self.nodes.last().is_none_or(|(_, last)| *last != up) {
            self.nodes.push((view.now().secs(), up));
        }
    }

    fn node_seconds(&self) -> f64 {
        self.hours.up().secs()
    }
}

#[derive(Clone, Debug, Default)]
struct Shared(Arc<Mutex<Seen>>);

impl MetricCollector for Shared {
    fn on_event(&mut self, view: View<'_>, event: &Event) {
        let mut seen = self.0.lock().unwrap();
        let now = view.now().secs();
        match event {
            Event::Submitted { .. } => seen.jobs.push([now, 0.0, 0.0]),
            Event::Ended { job, outcome } => {
                assert_eq!(*outcome, Outcome::Completed, "{job}");
                seen.jobs[job.index()][2] = now;
            }
            _ => {}
        }
        seen.hours.on_event(view, event);
        seen.count(view);
    }

    fn on_decision(&mut self, view: View<'_>, plan: &Plan) {
        let mut seen = self.0.lock().unwrap();
        seen.hours.on_decision(view, plan);
        seen.count(view);
    }

    fn on_launches(&mut self, view: View<'_>, _: &Plan) {
        let mut seen = self.0.lock().unwrap();
        let now = view.now().secs();
        for (n, job) in seen.jobs.iter_mut().enumerate() {
            let placed = view.job(JobId(n as u32)).is_some_and(|j| j.is_placed());
            if placed && job[1] == 0.0 {
                job[1] = now;
            }
        }
    }
}

/// Runs jobs at their times of submission on real processes, at the speed of real time.
fn on_processes(pipeline: Pipeline, first: &str, jobs: &[(f64, u32, f64)]) -> Seen {
    let shared = Shared::default();
    let mut watch = scheduler::Watch::default();
    watch.observers.add(Box::new(shared.clone()));
    let jobs = jobs.to_vec();
    run_at(
        REAL,
        watch,
        pipeline,
        &[],
        first,
        |mut c: Cluster| async move {
            let trainer = c.folder.script("trainer", REAL.gpus, TRAINER);
            let begin = Instant::now();
            for (at, gpus, seconds) in &jobs {
                let due = Duration::from_secs_f64(*at);
                tokio::time::sleep(due.saturating_sub(begin.elapsed())).await;
                let state = c.folder.path().join(format!("job-{}", c.jobs));
                let command = [&trainer, &state].map(|path| path.display().to_string());
                let work = format!("{:.0}", *seconds * 1e9);
                let command = command.into_iter().chain([work]).collect();
                let job = job_at(1.0, *gpus, *seconds);
                c.submit(pb::Job { command, ..job }).await;
            }
            let limit = Duration::from_secs(1800);
            c.until_within(limit, "all jobs are completed", |found, _| {
                found.iter().all(|job| job.phase == "completed")
            })
            .await;
        },
    );
    shared.0.lock().unwrap().clone()
}

/// Runs the same jobs in the simulator, submitted when the cluster received them.
fn simulated(
    pipeline: Pipeline,
    nodes: usize,
    (launch, stop): (f64, f64),
    jobs: &[(f64, u32, f64)],
    real: &Seen,
) -> Seen {
    let shared = Shared::default();
    let spec = |(&(_, gpus, seconds), times): (&(f64, u32, f64), &[f64; 3])| {
        JobSpec::new(Time::new(times[0]), GpuCount(gpus), Seconds::new(seconds))
    };
    let jobs = jobs.iter().zip(&real.jobs).map(spec).collect();
    let cluster = ClusterSpec {
        offers: vec![Offer::new("grown", NodeSpec::with_gpus(REAL.gpus), 4)],
        ..ClusterSpec::uniform(nodes, REAL.gpus)
    };
    Simulation::new(cluster)
        .completion(Exact)
        .overheads(FixedOverheads {
            launch: Seconds::new(launch),
            restart: Seconds::new(launch),
            migration: Seconds::new(launch),
            checkpoint: Seconds::new(stop),
            ..FixedOverheads::default()
        })
        .collector(shared.clone())
        .run(pipeline, &mut Jobs::new(jobs))
        .unwrap();
    shared.0.lock().unwrap().clone()
}

/// Returns one hour of Poisson arrivals: jobs of 1, 2, 4 or 8 GPUs, 10 to 90 s. They need half of
/// some GPUs on average.
fn an_hour_on(gpus: f64) -> Vec<(f64, u32, f64)> {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let mut jobs = Vec::new();
    let mut at = 0.0;
    loop {
        // A job takes 3.75 GPUs for 50 s on average.
        at += -375.0 / gpus * (1.0 - rng.random::<f64>()).ln();
        if at > 3600.0 {
            return jobs;
        }
        let gpus = 1 << rng.random_range(0..4);
        jobs.push((at, gpus, rng.random_range(10.0..90.0)));
    }
}

/// Compares the node-hours of both backends.
fn node_hours_agree(pipeline: impl Fn() -> Pipeline, first: &str, jobs: &[(f64, u32, f64)]) {
    // A job alone on an idle node: the time from its plan to its end that is not its own.
    let alone: Vec<_> = (0..4).map(|n| (f64::from(n) * 10.0, 1, 3.0)).collect();
    let fifo = || {
        let fifo = Composition::new("fifo").scheduling(Fifo::default());
        let fifo = fifo.placement(InOrder::new(Consolidated::default()));
        fifo.in_rounds(Seconds::new(5.0)).build().unwrap()
    };
    let probe = on_processes(fifo(), "n0", &alone);
    let own = |job: &[f64; 3]| job[2] - job[1] - 3.0;
    let launch = probe.jobs.iter().map(own).sum::<f64>() / probe.jobs.len() as f64;
    let real = on_processes(pipeline(), first, jobs);
    let nodes = first.split(',').count();
    let model = simulated(pipeline(), nodes, (launch, STOP), jobs, &real);
    let plain = simulated(pipeline(), nodes, (0.0, 0.0), jobs, &real);
    let apart = real.node_seconds() / model.node_seconds() - 1.0;
    println!("launch {launch:.3} s");
    println!("cluster   {:.1} node-seconds", real.node_seconds());
    println!(
        "simulated {:.1}, {:+.2} %",
        model.node_seconds(),
        apart * 100.0
    );
    println!("without overheads {:.1}", plain.node_seconds());
    let jct = |seen: &Seen| seen.jobs.iter().map(|j| j[2] - j[0]).sum::<f64>() / jobs.len() as f64;
    println!(
        "average JCT {:.1}, simulated {:.1}",
        jct(&real),
        jct(&model)
    );
    println!("nodes {:.1?}\nsimulated {:.1?}", real.nodes, model.nodes);
    assert!(apart.abs() < 0.02, "{apart}");
}

#[test]
#[ignore = "long: run by name"]
fn node_hours_of_power_saving_equal_the_simulator() {
    let saving = move || {
        let composition = Composition::new("helios-ces").in_rounds(Seconds::new(5.0));
        let looks = PowerSaving::new(at_once(), Seconds::new(30.0), Vec::new());
        let composition = composition.cluster(looks).scheduling(Fifo::default());
        let composition = composition.placement(InOrder::new(Consolidated::default()));
        composition.build().unwrap()
    };
    node_hours_agree(saving, "n0,n1,n2,n3", &an_hour_on(16.0));
}

#[test]
#[ignore = "long: run by name"]
fn node_hours_of_autoscaling_equal_the_simulator() {
    let pollux = || {
        let search = PolluxSettings {
            population: 20,
            generations: 20,
            ..PolluxSettings::DEFAULT
        };
        // A rigid job has the speedup 1, whatever the number of its GPUs.
        let autoscale = Autoscale::between((0.1, 0.2), (2, 4));
        pollux_with(search, Seconds::new(5.0), autoscale)
    };
    node_hours_agree(pollux, "n0,n1", &an_hour_on(8.0));
}

/// Runs `blox offers` with arguments. Returns the offers as JSON, or the error.
fn offers(folder: &Folder, args: &[&str]) -> Result<Vec<serde_json::Value>, String> {
    let at = std::fs::read_to_string(folder.path().join("at")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_blox"));
    let output = command
        .arg("offers")
        .args(args)
        .args(["--json", "--at", &at]);
    let output = output.output().unwrap();
    if !output.status.success() {
        return Err(String::from_utf8(output.stderr).unwrap());
    }
    Ok(serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn operator_sets_a_price_and_announces_a_reclaim() {
    run(eva(), &[job(1, 8)], "", |mut c: Cluster| async move {
        let folder = Arc::clone(&c.folder);
        let up = |nodes: &[pb::NodeLine]| -> Vec<String> {
            let up = nodes.iter().filter(|n| n.status == "up");
            up.map(|n| n.name.clone()).collect()
        };
        c.until("the job runs on a node of the offer", |jobs, nodes| {
            jobs.iter().all(|j| j.phase == "running") && up(nodes).len() == 1
        })
        .await;
        let first = c.client.nodes().await.unwrap()[0].name.clone();
        let listed = offers(&folder, &[]).unwrap();
        let expected = serde_json::json!({
            "offer": "grown", "gpu_type": null, "gpus": FAST.gpus, "price": 3.0, "nodes": 1,
            "most": 4, "notice_s": 60.0,
        });
        let nodes = c.client.nodes().await.unwrap();
        assert_eq!(listed, [expected], "{nodes:?} {:?}", folder.events());
        let changed = offers(&folder, &["grown", "--price", "5"]).unwrap();
        assert_eq!(changed[0]["price"], 5.0);
        let wrong = offers(&folder, &["none", "--price", "5"]).unwrap_err();
        assert!(wrong.contains("there is no offer none"), "{wrong}");
        let wrong = offers(&folder, &["grown", "--price=-1"]).unwrap_err();
        assert!(wrong.contains("expected a number of at least 0"), "{wrong}");
        assert!(offers(&folder, &["--reclaim", "1"]).is_err());
        // The job leaves the node within the notice, and continues on another.
        offers(&folder, &["grown", "--reclaim", "1"]).unwrap();
        c.until("the node was given back", |_, nodes| {
            let off = format!("off {first}");
            nodes.iter().all(|n| n.name != first) && folder.events().contains(&off)
        })
        .await;
        c.until("the job is completed", |jobs, _| {
            jobs.iter()
                .all(|j| j.phase == "completed" && j.preemptions == 1)
        })
        .await;
        assert_eq!(offers(&folder, &[]).unwrap()[0]["price"], 5.0);
    });
}
