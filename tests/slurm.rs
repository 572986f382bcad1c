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
    let folder = |name: &str| files(&dir.path().join(name));
    assert_eq!(folder("one"), folder("two"));
    // Other settings are refused, as on one machine. A longer list keeps finished runs.
    let other = run(&array.replace("--jobs 100", "--jobs 90"));
    let refused = String::from_utf8_lossy(&other.stderr).into_owned();
    assert!(refused.contains("was 100, now it is 90"), "{refused}");
    let longer = |line: &str| line.replace("--seeds 0..9", "--seeds 0..10");
    let local = run(&longer(&format!("{sweep} --output-dir one --quiet")));
    let merged = run(&longer(&array).replace(" --tasks 6", ""));
    assert!(merged.status.success(), "{merged:?}");
    assert_eq!(local.stdout, merged.stdout);
    assert_eq!(folder("one"), folder("two"));
    let shards = fs::read_dir(dir.path().join("two.shards")).unwrap();
    let shards = shards.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    assert!(
        shards
            .filter(|name| name.starts_with("shard-"))
            .all(|name| name.ends_with("-of-6"))
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
fn when_forecasts_jobs_of_a_driven_slurm() {
    let Some(cluster) = Cluster::start(1) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let line = "scheduler fifo --on slurm --on-event 0.2 --all-users --state-dir log";
    let mut scheduler = blox(&cluster, dir.path(), line);
    let running = Process(scheduler.stderr(Stdio::null()).spawn().unwrap());
    let first = cluster.submit(4, "blox duration=1000", "sleep 60");
    cluster.until("the first runs", || cluster.state(first) == "RUNNING");
    let second = cluster.submit(4, "blox duration=500", "true");
    let when = |words: &str| {
        let line = format!("when {words} --json");
        let out = blox(&cluster, dir.path(), &line).output().unwrap();
        serde_json::from_slice::<serde_json::Value>(&out.stdout).unwrap_or_default()
    };
    // The queue that its own journals show, and the one that Slurm shows.
    for words in [
        "--state-dir log --on-event 0.2",
        "fifo --on slurm --on-event 0.2",
    ] {
        cluster.until("both jobs are known", || {
            when(words)["jobs"][0]["job"] == second
        });
        let all = when(words);
        let seconds = |of: &str| {
            let at = all["jobs"][0][of]["median_s"].as_f64().unwrap_or(0.0);
            at - all["now_s"].as_f64().unwrap_or(0.0)
        };
        assert!(
            (900.0..=1001.0).contains(&seconds("start")),
            "{words}: {all}"
        );
        assert!(
            (499.0..=501.0).contains(&(seconds("end") - seconds("start"))),
            "{all}"
        );
    }
    cluster.ask("scancel", &[&first.to_string()]);
    cluster.until("the second has completed", || {
        cluster.state(second) == "COMPLETED"
    });
    assert!(running.stop());
}

/// Submits a job with these words, and returns its number.
fn submit(cluster: &Cluster, dir: &Path, words: &[&str]) -> u32 {
    let mut command = blox(cluster, dir, "submit --on slurm");
    let out = command.args(words).output().unwrap();
    let number = String::from_utf8_lossy(&out.stdout).trim().parse();
    number.unwrap_or_else(|_| panic!("{out:?}"))
}

#[test]
fn jobs_of_blox_submit_run_on_slurm() {
    let Some(cluster) = Cluster::start(1) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let script = "#!/bin/sh\n#SBATCH --gpus=2\necho \"$1 $SLURM_GPUS\" > script.txt\n";
    fs::write(dir.path().join("job.sh"), script).unwrap();
    let note = "note=a \"b\" \\ 'c' ä\u{2003}=\n,d";
    let command = [
        "--name=named",
        "--gpus=4",
        "--duration=5",
        "--attribute",
        note,
        "--env",
        "MODE=a,'b' c",
        "--",
        "sh",
        "-c",
        "echo \"$MODE|$0|$SLURM_JOB_NAME\" > command.txt; kill -0 $PPID; sleep 1",
        "it's $HOME",
    ];
    let first = submit(&cluster, dir.path(), &command);
    let second = submit(&cluster, dir.path(), &["--script", "job.sh", "two words"]);
    // A job waits until a scheduler starts it.
    assert_eq!(cluster.state(first), "PENDING");
    // The longest comment is the limit of Slurm, too.
    let longest = |bytes: usize| format!("--attribute=a={}", "x".repeat(bytes - "blox a=".len()));
    let third = submit(&cluster, dir.path(), &[&longest(1024), "true"]);
    let line = ["--dry-run", &longest(1025), "true"];
    let refused = blox(&cluster, dir.path(), "submit --on slurm")
        .args(line)
        .output();
    assert_eq!(refused.unwrap().status.code(), Some(2));

    let line = "scheduler fifo --on slurm --on-event 0.2 --all-users --state-dir log";
    let running = Process(
        blox(&cluster, dir.path(), line)
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    for job in [first, second, third] {
        cluster.until("the job has completed", || {
            cluster.state(job) == "COMPLETED"
        });
    }
    std::thread::sleep(Duration::from_millis(1500));
    assert!(running.stop());
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    assert_eq!(read("command.txt"), "a,'b' c|it's $HOME|named\n");
    assert_eq!(read("script.txt"), "two words 2\n");
    // The scheduler has read what was submitted.
    let journal = read("log/journal-000001.jsonl");
    let note = note.strip_prefix("note=").unwrap();
    for part in [
        serde_json::to_string(note).unwrap().as_str(),
        "\"job_id\":\"named\"",
        "\"gpus\":4,\"work\":{\"iterations\":5",
    ] {
        assert!(journal.contains(part), "{part} {journal}");
    }
}

#[test]
fn import_of_a_queue_equals_its_files() {
    let Some(cluster) = Cluster::start(2) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let submit = |args: &str| {
        let args: Vec<&str> = args.split(' ').collect();
        let more = ["--output=/dev/null", "--wrap", "sleep 600"];
        let sent = cluster.command("sbatch").args(args).args(more).output();
        assert!(sent.as_ref().unwrap().status.success(), "{sent:?}");
    };
    submit("--gpus=3 -N1 --time=30");
    submit("--gpus=8 -N2 --time=5");
    submit("--array=0-4:2%1 --gpus=1 --dependency=afterok:2");
    submit("-H --gpus=1");
    submit("-N1");
    cluster.submit(2, "blox duration=90 model=vgg", "sleep 90");
    cluster.until("the first runs", || cluster.state(1) == "RUNNING");
    cluster.ask(
        "scontrol",
        &["update", "nodename=n2", "state=drain", "reason=fan"],
    );
    for (program, file) in [("squeue", "squeue.json"), ("sinfo", "sinfo.json")] {
        fs::write(dir.path().join(file), cluster.ask(program, &["--json"])).unwrap();
    }
    let import = |line: &str| {
        let line = format!("import slurm {line}");
        let output = blox(&cluster, dir.path(), &line).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let notices = import("--output-dir live");
    import("--output-dir files --squeue squeue.json --sinfo sinfo.json");
    let read = |folder: &str, file: &str| {
        let text = fs::read_to_string(dir.path().join(folder).join(file)).unwrap();
        let lines = text.lines().map(str::to_owned);
        lines.collect::<Vec<String>>()
    };
    for part in [
        "left out 1 node: drained",
        "left out 1 job: held",
        "left out 1 job: without GPUs",
        "arrays whose limit of tasks at a time is not kept: 1",
        "jobs that wait for others, which the workload does not keep: 1",
        "tasks of arrays that count as jobs: 3",
    ] {
        assert!(notices.contains(part), "{notices}");
    }
    let (live, files) = (read("live", "jobs.csv"), read("files", "jobs.csv"));
    // The rest of the running job differs by the seconds between both.
    assert_eq!((live.len(), &live[2..]), (7, &files[2..]), "{live:?}");
    assert!(live[1].starts_with("1,0,3,1"), "{live:?}");
    assert!(live[3].starts_with("3_0,0,1,3600,root,main"), "{live:?}");
    assert!(live[6].starts_with("6,0,2,90,root,main,vgg"), "{live:?}");
    assert_eq!(read("live", "cluster.toml"), read("files", "cluster.toml"));
    let line = "simulate fifo --trace live/jobs.csv --cluster live/cluster.toml --quiet";
    let ran = blox(&cluster, dir.path(), line).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
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
