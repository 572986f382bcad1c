//! `blox demo`: a complete cluster on this machine for about a minute.

#![allow(
    clippy::disallowed_methods,
    reason = "it shows when things happen; no decision sees it"
)]

use super::daemons::{runtime, told_to_stop};
use crate::grid::number_of;
use crate::{Failure, OK, Terminal};
use blox_cluster::client::{Client, Token};
use blox_cluster::wire::pb;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const NODES: usize = 4;
/// Factor by which the protocol's timers are shortened.
const FASTER: &str = "5";
const LIMIT: Duration = Duration::from_secs(120);

/// A program that counts steps and saves the count after each. On SIGTERM, it reports that the
/// count is saved.
const STEPS: &str = "trap 'exit 75' TERM; n=$(cat \"$SAVED\" 2>/dev/null || echo 0); \
    while [ \"$n\" -lt \"$STEPS\" ]; do n=$((n+1)); echo $n > \"$SAVED\"; sleep 0.2; done";

/// Name, GPUs, steps, and submission time in ms.
const JOBS: [(&str, u32, u32, u64); 8] = [
    ("long-a", 2, 90, 0),
    ("long-b", 2, 80, 0),
    ("wide", 4, 25, 1_000),
    ("short-1", 1, 8, 3_000),
    ("short-2", 1, 8, 3_500),
    ("gang", 3, 30, 5_000),
    ("short-3", 1, 10, 6_000),
    ("late", 2, 20, 8_000),
];

/// Processes and their folder, which are removed with this value.
struct Cluster {
    dir: PathBuf,
    scheduler: Option<Child>,
    nodes: Vec<Child>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in self.nodes.iter_mut().chain(&mut self.scheduler) {
            let _ = child.kill();
            let _ = child.wait();
        }
        // Processes of shims end with their lease; the folder is removed afterwards.
        let end = Instant::now() + Duration::from_secs(8);
        while !shims(&self.dir).is_empty() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(100));
        }
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Returns the processes that were started for a folder of the demonstration.
fn shims(dir: &Path) -> Vec<u32> {
    let wanted = dir.to_string_lossy().into_owned();
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        let text = String::from_utf8_lossy(&line).into_owned();
        (text.contains(&wanted) && pid != std::process::id()).then_some(pid)
    })
    .collect()
}

pub(super) fn run(terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    let dir = std::env::temp_dir().join(format!("blox-demo-{}", std::process::id()));
    std::fs::create_dir_all(&dir).map_err(Failure::system)?;
    let mut cluster = Cluster {
        dir,
        scheduler: None,
        nodes: Vec::new(),
    };
    let program = std::env::current_exe().map_err(Failure::system)?;
    let at = start_scheduler(&program, &mut cluster)?;
    for i in 0..NODES {
        let child = Command::new(&program)
            .args(["node", "--faster", FASTER, "--gpus", "2", "--at", &at])
            .args(["--name", &format!("node-{i}"), "--state-dir"])
            .arg(cluster.dir.join(format!("node-{i}")))
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(Failure::system)?;
        cluster.nodes.push(child);
    }
    writeln!(
        terminal.out,
        "scheduler las and {NODES} nodes of 2 GPU slots at {at}"
    )?;
    let result = runtime()?.block_on(async {
        tokio::select! {
            result = play(&at, &mut cluster, terminal) => result,
            // The started processes are ended in this case too.
            () = told_to_stop() => Err(Failure::new("interrupted")),
        }
    });
    drop(cluster);
    result?;
    writeln!(terminal.out, "all processes and files are gone")?;
    Ok(OK)
}

fn start_scheduler(program: &Path, cluster: &mut Cluster) -> Result<String, Failure> {
    let mut child = Command::new(program)
        .args([
            "scheduler",
            "--scheduler",
            "las",
            "--round",
            "1",
            "--faster",
            FASTER,
        ])
        .args([
            "--wait-for-nodes",
            &NODES.to_string(),
            "--listen",
            "127.0.0.1:0",
            "--state-dir",
        ])
        .arg(cluster.dir.join("scheduler"))
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(Failure::system)?;
    let mut line = String::new();
    if let Some(err) = child.stderr.take() {
        let mut err = BufReader::new(err);
        err.read_line(&mut line).map_err(Failure::system)?;
        std::thread::spawn(move || std::io::copy(&mut err, &mut std::io::sink()));
    }
    cluster.scheduler = Some(child);
    let at = line.trim().strip_prefix("listening on ");
    at.map(str::to_owned)
        .ok_or_else(|| Failure::new(format!("the scheduler did not start: {}", line.trim())))
}

async fn play(at: &str, cluster: &mut Cluster, terminal: &mut Terminal<'_>) -> Result<(), Failure> {
    let mut client = Client::connect(at, Token::none()).await?;
    let begin = Instant::now();
    let mut waiting = JOBS.to_vec();
    let mut seen: BTreeMap<u32, String> = BTreeMap::new();
    let mut lost = None;
    loop {
        let now = begin.elapsed();
        if now > LIMIT {
            return Err(Failure::new("the demonstration did not end in time"));
        }
        while let Some((name, gpus, steps, _)) = waiting
            .first()
            .copied()
            .filter(|j| Duration::from_millis(j.3) <= now)
        {
            waiting.remove(0);
            let job = job(&cluster.dir, name, gpus, steps);
            client.submit(name.to_owned(), job).await?;
        }
        let jobs = client.list(None, true).await?;
        for j in &jobs {
            let on = match j.nodes.is_empty() {
                true => String::new(),
                false => format!(" on {}", j.nodes.join(", ")),
            };
            let text = format!("{}{on}", j.phase);
            if seen.get(&j.job) != Some(&text) {
                let name = JOBS.get(j.job as usize).map_or("", |(name, ..)| name);
                writeln!(
                    terminal.out,
                    "{:5.1} s  job {} {name:8} {text}",
                    now.as_secs_f64(),
                    j.job
                )?;
                seen.insert(j.job, text);
            }
        }
        if lost.is_none() && now > Duration::from_secs(10) {
            let busy = jobs
                .iter()
                .find(|j| j.phase == "running")
                .and_then(|j| j.nodes.first());
            let i = busy.and_then(|n| n.strip_prefix("node-")?.parse::<usize>().ok());
            if let Some(child) = i.and_then(|i| cluster.nodes.get_mut(i)) {
                let _ = child.kill();
                let _ = child.wait();
                lost = i;
                writeln!(
                    terminal.out,
                    "{:5.1} s  node-{} is lost: its manager was killed",
                    now.as_secs_f64(),
                    i.unwrap_or(0)
                )?;
            }
        }
        let over =
            |j: &pb::JobLine| matches!(j.phase.as_str(), "completed" | "failed" | "rejected");
        if waiting.is_empty() && jobs.len() == JOBS.len() && jobs.iter().all(over) {
            return report(&jobs, now, terminal);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn job(dir: &Path, name: &str, gpus: u32, steps: u32) -> pb::Job {
    let saved = dir.join(format!("{name}.$RANK"));
    let script = format!("SAVED=\"{}\"; {STEPS}", saved.display());
    pb::Job {
        name: name.to_owned(),
        gpus,
        iterations: f64::from(steps) * 0.2,
        rate: 1.0,
        command: vec!["sh".into(), "-c".into(), script],
        env: [("STEPS".to_owned(), steps.to_string())].into(),
        ..pb::Job::default()
    }
}

fn report(
    jobs: &[pb::JobLine],
    took: Duration,
    terminal: &mut Terminal<'_>,
) -> Result<(), Failure> {
    let accounts = || jobs.iter().flat_map(|j| &j.accounts);
    let gpu_s: f64 = accounts()
        .map(|a| a.ran_ms as f64 / 1000.0 * f64::from(a.gpus))
        .sum();
    let completed = jobs.iter().filter(|j| j.phase == "completed").count();
    writeln!(terminal.out)?;
    writeln!(
        terminal.out,
        "jobs       {completed} of {} completed in {:.1} s",
        jobs.len(),
        took.as_secs_f64()
    )?;
    let ways = [
        ("Completed", "completed"),
        ("Yielded", "saved and left"),
        ("Cut", "cut"),
        ("Lost", "lost"),
        ("Failed", "failed"),
        ("BadFile", "ended for a bad file"),
        ("NeverRan", "never ran"),
    ];
    let counts = ways.map(|(exit, words)| {
        let count = accounts().filter(|a| a.exit.starts_with(exit)).count();
        format!("{count} {words}")
    });
    writeln!(
        terminal.out,
        "launches   {}: {}",
        number_of(accounts().count() as u64, "part"),
        counts.join(", ")
    )?;
    writeln!(terminal.out, "GPU time   {gpu_s:.1} GPU-s accounted")?;
    Ok(())
}
