//! Commands on a real Slurm. Each test prints why and passes where Slurm cannot run.

#[path = "../crates/blox-slurm/tests/real/cluster.rs"]
#[allow(
    dead_code,
    clippy::disallowed_methods,
    reason = "shared with other tests"
)]
mod cluster;

use cluster::Cluster;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

fn blox(cluster: &Cluster, dir: &Path, line: &str) -> Command {
    let mut command = cluster.command(env!("CARGO_BIN_EXE_blox"));
    command.args(line.split(' ')).current_dir(dir);
    command
}

/// Returns every file below a folder, with its content.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => {
                    let name = path.strip_prefix(dir).unwrap().display().to_string();
                    all.insert(name, fs::read(&path).unwrap());
                }
            }
        }
    }
    all
}

#[test]
fn sweep_on_slurm_equals_one_machine() {
    let Some(cluster) = Cluster::start(2) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let sweep =
        "sweep fifo las --workload poisson --loads 2,4 --seeds 0..9 --jobs 100 --cluster 2x4";
    let run = |line: &str| blox(&cluster, dir.path(), line).output().unwrap();
    let local = run(&format!("{sweep} --output-dir one --quiet"));
    assert!(local.status.success(), "{local:?}");
    let array = format!("{sweep} --output-dir two --quiet --on slurm --tasks 6");
    let detached = run(&format!("{array} --detach"));
    assert!(detached.status.success(), "{detached:?}");
    // Slurm's controller restarts, and a task of the array is cancelled.
    cluster.stop_controller();
    cluster.start_controller();
    cluster.until("the controller answers", || {
        !cluster.ask("squeue", &["--states=all", "-h"]).is_empty()
    });
    let first = cluster.ask("squeue", &["-h", "-r", "--states=all", "-o", "%F"]);
    let first = first.lines().next().unwrap_or_default().to_owned();
    cluster.ask("scancel", &[&format!("{first}_3")]);
    let merged = run(&array);
    assert!(merged.status.success(), "{merged:?}");
    assert_eq!(local.stdout, merged.stdout);
    assert_eq!(
        files(&dir.path().join("one")),
        files(&dir.path().join("two"))
    );
    // A longer grid keeps the shards, and adds its runs to them.
    let longer = run(&array.replace("0..9", "0..10"));
    assert!(longer.status.success(), "{longer:?}");
    let again = run(&format!("{sweep} --output-dir one --quiet").replace("0..9", "0..10"));
    assert_eq!(again.stdout, longer.stdout);
    assert_eq!(
        files(&dir.path().join("one")),
        files(&dir.path().join("two"))
    );
}

/// A process that ends with this value.
struct Process(Child);

impl Process {
    /// Sends SIGTERM, and waits for the end.
    fn stop(mut self) -> bool {
        let pid = self.0.id().to_string();
        Command::new("kill").arg(pid).status().unwrap();
        self.0.wait().unwrap().success()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn scheduler_on_slurm_runs_resizes_and_replays() {
    let Some(cluster) = Cluster::start(2) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let line = "scheduler elasticflow --on slurm --on-event 0.2 --all-users --state-dir log";
    let start = || {
        let log = fs::File::options()
            .append(true)
            .create(true)
            .open(dir.path().join("err.txt"));
        let child = blox(&cluster, dir.path(), line)
            .stderr(Stdio::from(log.unwrap()))
            .spawn();
        Process(child.unwrap())
    };
    let running = start();
    let elastic = "blox duration=4 deadline=3600 levels=1,2,4 rates=1,2,4";
    let jobs: Vec<u32> = (0..3)
        .map(|_| cluster.submit(4, elastic, "sleep 2"))
        .collect();
    let completed = |job: &u32| cluster.state(*job) == "COMPLETED";
    cluster.until("a job has ended", || jobs.iter().any(completed));
    assert!(running.stop());
    // A second start continues.
    let running = start();
    cluster.until("all jobs have ended", || jobs.iter().all(completed));
    std::thread::sleep(Duration::from_millis(1500));
    assert!(running.stop());
    for number in 1..=2 {
        let line = format!("replay log/journal-{number:06}.jsonl");
        let replayed = blox(&cluster, dir.path(), &line).output().unwrap();
        assert!(replayed.status.success(), "{replayed:?}");
    }
    let journal = fs::read_to_string(dir.path().join("log/journal-000002.jsonl")).unwrap();
    assert!(journal.contains("\"ended\""), "{journal}");
}

#[test]
fn scheduler_that_shares_gpus_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (scheduler, part) in [
        ("gandiva", "`gandiva` places several jobs on a GPU"),
        ("eva", "`eva` requests nodes"),
    ] {
        let line = format!("scheduler {scheduler} --on slurm --state-dir log");
        let mut command = Command::new(env!("CARGO_BIN_EXE_blox"));
        let refused = command
            .args(line.split(' '))
            .current_dir(dir.path())
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(
            refused.status.code() == Some(2) && error.contains(part),
            "{error}"
        );
    }
}
