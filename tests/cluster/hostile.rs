//! Jobs that try to take more than they were given, by accident or on purpose. None may take a
//! lease, a file or a node.

use super::*;
use std::os::unix::process::CommandExt;

/// Returns the process of a program whose command line has these parts, in order.
fn one_of(parts: &[&str]) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let found = all.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        parts.iter().all(|part| line.contains(part)).then_some(pid)
    });
    found.collect()
}

/// Returns whether a process has not ended.
fn lives(pid: u32) -> bool {
    let stat = read(Path::new(&format!("/proc/{pid}/stat")));
    let state = stat.rsplit(") ").next().unwrap_or("").chars().next();
    state.is_some_and(|state| state != 'Z')
}

fn until(what: &str, secs: u64, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(secs), "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns a duration of a sleep that no other test has.
fn unique(n: u32) -> String {
    format!("600.{}{n}", std::process::id())
}

/// A job kills its shim in each launch. It is started again after growing delays, then held with
/// the reason. Another job uses the GPU meanwhile.
#[test]
fn job_whose_shim_dies_is_held() {
    let c = Cluster::start("fifo", &[1]);
    let job = c.submit(&[
        "--max-retries",
        "0",
        "--",
        "sh",
        "-c",
        "kill -9 $PPID; sleep 60",
    ]);
    c.until("a launch is delayed", |c| {
        let why = c.run(&["why", &job.to_string()]).unwrap();
        why.contains("launch again in") && why.contains("its shim ended or stood still (node n0)")
    });
    let other = c.submit(&["--", "true"]);
    c.until_phase(other, "completed");
    c.until("the job is held", |c| {
        let why = c.run(&["why", &job.to_string()]).unwrap();
        why.contains("held after 5 launches lost in a row")
    });
    assert_eq!(c.exits(job), ["Lost"; 5]);
    assert_eq!(c.json(&["nodes"])[0]["status"], "up");
    // A user can release it.
    c.run(&["release", &job.to_string()]).unwrap();
    c.until("it is launched again", |c| c.exits(job).len() > 5);
}

/// A guard that is killed is started again. With node manager and shim killed and the guard stopped,
/// the rank ends nonetheless.
#[test]
fn ranks_end_with_their_shim() {
    let mut c = Cluster::start("fifo", &[1]);
    let sleep = unique(1);
    let job = c.submit_until("running", &["--", "sleep", &sleep]);
    until("the rank runs", 30, || {
        !one_of(&["sleep", &sleep]).is_empty()
    });
    let rank = one_of(&["sleep", &sleep])[0];
    let folder = c.node_dir(0).join("attempts");
    let shims = one_of(&["shim", &folder.display().to_string()]);
    assert_eq!(shims.len(), 1, "{shims:?}");
    let parent = |pid: u32| {
        let stat = read(Path::new(&format!("/proc/{pid}/stat")));
        let rest = stat.rsplit(") ").next().unwrap_or("").to_owned();
        rest.split(' ').nth(1).and_then(|p| p.parse::<u32>().ok())
    };
    let guards = || {
        let guards = one_of(&["launch-guard", "--guard"]).into_iter();
        let guards: Vec<u32> = guards.filter(|g| parent(*g) == Some(shims[0])).collect();
        guards
    };
    assert_eq!(parent(rank), Some(shims[0]));
    let first = guards()[0];
    signal("-KILL", first);
    until(
        "another guard runs",
        10,
        || matches!(guards()[..], [guard] if guard != first),
    );
    let guard = guards()[0];
    signal("-STOP", guard);
    c.nodes[0].as_mut().unwrap().kill();
    signal("-KILL", shims[0]);
    until("the rank has ended", 10, || !lives(rank));
    signal("-KILL", guard);
    c.start_node(0, 1);
    c.until("the job runs again", |c| {
        c.exits(job).len() == 1 && c.phase(job) == "running"
    });
    c.run(&["cancel", &job.to_string()]).unwrap();
}

/// The guard ends all processes of a launch, also detached ones, if shim and node manager are
/// killed, and if both are stopped for longer than the lease.
#[test]
fn guard_ends_a_launch_without_its_shim() {
    for (n, name) in [(2, "-KILL"), (3, "-STOP")] {
        let mut c = Cluster::start("fifo", &[1]);
        let sleep = unique(n);
        let script = format!("setsid env -i sleep {sleep} & exec sleep {sleep}");
        c.submit(&["--", "sh", "-c", &script]);
        until("the ranks run", 60, || {
            one_of(&["sleep", &sleep])
                .into_iter()
                .filter(|p| !one_of(&["sh", "-c", "setsid"]).contains(p))
                .count()
                >= 2
        });
        let all = one_of(&["sleep", &sleep]);
        let folder = c.node_dir(0).join("attempts");
        let shim = one_of(&["shim", &folder.display().to_string()])[0];
        let manager = c.nodes[0].as_ref().unwrap().0.id();
        signal(name, manager);
        signal(name, shim);
        until("all processes have ended", 30, || {
            !all.iter().any(|p| lives(*p))
        });
        if name == "-STOP" {
            signal("-CONT", shim);
            signal("-CONT", manager);
        }
        c.nodes[0].as_mut().unwrap().kill();
    }
}

/// A job reaches its time limit: it gets its grace, and is not retried. The node ends it, although
/// the scheduler is away.
#[test]
fn time_limit_ends_a_job_without_the_scheduler() {
    let mut c = Cluster::start("fifo", &[1]);
    let saved = c.dir.path().join("saved");
    let script = "trap 'echo saved > $OUT; exit 0' TERM; while :; do sleep 0.05; done";
    let env = format!("OUT={}", saved.display());
    let wrong = c.run(&["submit", "--time", "soon", "--", "true"]);
    assert!(wrong.unwrap_err().contains("expected minutes"));
    let args = ["--time", "2s", "--env", &env, "--", "sh", "-c", script];
    let job = c.submit_until("running", &args);
    c.kill_scheduler();
    until("the job has saved its work", 20, || {
        read(&saved) == "saved\n"
    });
    c.start_scheduler("fifo");
    c.until_phase(job, "timed out");
    assert_eq!(c.exits(job), ["TimedOut"]);
    let show = c.run(&["show", &job.to_string()]).unwrap();
    assert!(show.contains("it reached its time limit"), "{show}");
    // The time of earlier launches counts.
    let args = ["--time", "3s", "--", "sleep", "60"];
    let job = c.submit_until("running", &args);
    std::thread::sleep(Duration::from_secs(1));
    c.run(&["requeue", &job.to_string()]).unwrap();
    c.until_phase(job, "timed out");
    let accounts = c.job(job)["accounts"].clone();
    let ran: Vec<u64> = accounts
        .as_array()
        .unwrap()
        .iter()
        .map(|a| a["ran_ms"].as_u64().unwrap_or(0))
        .collect();
    assert_eq!(ran.len(), 2, "{accounts}");
    assert!(ran[1] < 2_500, "{ran:?}");
}

/// A fork bomb fills its limit of processes, and nothing else.
#[test]
fn fork_bomb_ends_only_itself() {
    let c = Cluster::start("fifo", &[2]);
    let bomb = "f() { f | f & }; f; exec sleep 600";
    let job = c.submit_until(
        "running",
        &[
            "--processes",
            "60",
            "--max-retries",
            "0",
            "--",
            "sh",
            "-c",
            bomb,
        ],
    );
    std::thread::sleep(Duration::from_secs(2));
    assert!(c.processes() <= 70, "{}", c.processes());
    let other = c.submit(&["--", "true"]);
    c.until_phase(other, "completed");
    let _ = c.run(&["cancel", &job.to_string()]);
    c.until("no process is left", |c| c.processes() == 0);
    assert_eq!(c.json(&["nodes"])[0]["status"], "up");
}

/// The kernel kills a job that takes more memory than it requested. The end states the reason.
#[test]
fn memory_hog_is_killed_with_its_reason() {
    let c = Cluster::start("fifo", &[2]);
    let hog = "head -c 400000000 /dev/zero | tail -c 390000000 > /dev/null";
    let args = [
        "--memory",
        "64M",
        "--max-retries",
        "0",
        "--",
        "sh",
        "-c",
        hog,
    ];
    let job = c.submit(&args);
    c.until_phase(job, "failed");
    let show = c.run(&["show", &job.to_string()]).unwrap();
    assert!(show.contains("killed for memory, limit 0.06 GiB"), "{show}");
}

/// A job cannot open the device files of GPUs that it does not have.
#[test]
fn device_files_of_other_gpus_are_closed() {
    let mut c = Cluster::without_daemons(&[]).begin("fifo", &[]);
    let files = ["7", "5"].map(|minor| {
        let path = c.dir.path().join(format!("gpu{minor}"));
        let made = Command::new("mknod")
            .arg(&path)
            .args(["c", "1", minor])
            .status();
        made.is_ok_and(|status| status.success())
            .then(|| path.display().to_string())
    });
    let [Some(first), Some(second)] = files else {
        println!("skipped: device files cannot be made here");
        return;
    };
    c.nodes.push(None);
    c.start_node_with(0, 2, &["--device-files", &format!("{first},{second}")]);
    let script = "for f in $FILES; do head -c 1 $f > /dev/null 2>&1 && echo open || echo closed; done; sleep 600";
    let env = format!("FILES={first} {second}");
    let args = ["--env", &env, "--", "sh", "-c", script];
    let jobs = [0, 1].map(|_| c.submit_until("running", &args));
    for (job, wanted) in jobs.into_iter().zip(["open\nclosed\n", "closed\nopen\n"]) {
        c.until(&format!("job {job} sees {wanted}"), |c| {
            c.run(&["logs", &job.to_string()]).unwrap_or_default() == wanted
        });
    }
}

/// Without cgroups, the shim ends the detached descendants of its ranks.
#[test]
fn detached_processes_end_without_cgroups() {
    // The other user has no token.
    let mut c = Cluster::without_daemons(&["--insecure"]).begin("fifo", &[]);
    let dir = c.dir.path().to_owned();
    let own = |path: &Path| std::os::unix::fs::chown(path, Some(65_534), Some(65_534));
    if own(&dir).is_err() {
        println!("skipped: another user cannot be taken here");
        return;
    }
    let log = dir.join("node.err");
    let child = blox()
        .args(["node", "--at", &c.at, "--name", "n0", "--gpus", "1"])
        .arg("--state-dir")
        .arg(c.node_dir(0))
        .stderr(std::fs::File::create(&log).unwrap())
        .stdin(Stdio::null())
        .uid(65_534)
        .gid(65_534)
        .spawn();
    let Ok(child) = child else {
        println!("skipped: another user cannot run the program");
        return;
    };
    c.nodes.push(Some(Daemon(child)));
    c.until("the node has no cgroups", |_| {
        read(&log).contains("does not enforce limits of jobs on CPU cores, memory, processes")
    });
    let sleep = unique(4);
    let script =
        format!("(setsid env -i sh -c 'sleep {sleep} & sleep {sleep}' &) ; exec sleep 600");
    let job = c.submit_until("running", &["--", "sh", "-c", &script]);
    until("the detached processes run", 30, || {
        one_of(&["sleep", &sleep]).len() >= 2
    });
    c.run(&["cancel", &job.to_string()]).unwrap();
    c.until_phase(job, "cancelled");
    assert_eq!(one_of(&["sleep", &sleep]), [0; 0]);
}

/// A job that no node could ever hold is refused with the largest node, and holds no queue.
#[test]
fn jobs_that_can_never_fit_are_refused() {
    let c = Cluster::start("fifo", &[2]);
    for (args, what) in [
        (["--cpus", "1e5"], "CPU"),
        (["--memory", "900T"], "memory"),
        (["--gpus", "3"], "GPUs"),
    ] {
        let refused = c.run(&["submit", args[0], args[1], "--", "true"]);
        let refused = refused.unwrap_err();
        assert!(refused.contains(what), "{refused}");
    }
    for absurd in ["1e300", "nan", "inf", "-1"] {
        assert!(
            c.run(&["submit", "--cpus", absurd, "--", "true"]).is_err(),
            "{absurd}"
        );
    }
    let job = c.submit(&["--cpus", "0.5", "--memory", "100M", "--", "true"]);
    c.until_phase(job, "completed");
}

/// Returns the usable GPUs of the only node, and why the first of the others is not.
fn gpus_and_trouble(c: &Cluster) -> (u64, String) {
    let nodes = c.json(&["nodes"]);
    let node = nodes.as_array().and_then(|n| n.last().cloned());
    let node = node.unwrap_or(Value::Null);
    let failed = node["failed_gpus"].as_array().cloned().unwrap_or_default();
    let why = failed
        .first()
        .and_then(|f| f["why"].as_str())
        .unwrap_or_default();
    let gpus = node["gpus"].as_u64().unwrap_or_default();
    (gpus.saturating_sub(failed.len() as u64), why.to_owned())
}

/// A GPU fails: its job moves, the other job runs on, and the node takes new jobs on other GPUs.
#[test]
fn failed_gpu_ends_its_job_and_spares_the_others() {
    let mut c = Cluster::without_daemons(&[]).begin("fifo", &[]);
    let health = c.dir.path().join("health.json");
    std::fs::write(&health, "[{}, {}, {}]").unwrap();
    c.nodes.push(None);
    let path = health.display().to_string();
    c.start_node_with(0, 3, &["--gpu-health", &path]);
    let script = "echo $CUDA_VISIBLE_DEVICES; exec sleep 600";
    let jobs = [0, 1].map(|_| c.submit_until("running", &["--", "sh", "-c", script]));
    std::fs::write(&health, r#"[{"trouble": "Xid 79"}, {}, {}]"#).unwrap();
    c.until("the job of the failed GPU is ended", |c| {
        c.exits(jobs[0]) == ["Lost"]
    });
    let show = c.run(&["show", &jobs[0].to_string()]).unwrap();
    assert!(show.contains("GPU 0 failed: Xid 79"), "{show}");
    // It starts again beside the other job.
    c.until_phase(jobs[0], "running");
    c.until("it has a healthy GPU", |c| {
        c.run(&["logs", &jobs[0].to_string()]).unwrap_or_default() == "2\n"
    });
    assert_eq!(
        (c.phase(jobs[1]), c.exits(jobs[1]).len()),
        ("running".to_owned(), 0)
    );
    assert_eq!(gpus_and_trouble(&c), (2, "failed: Xid 79".to_owned()));
    let nodes = c.run(&["nodes"]).unwrap();
    assert!(nodes.contains("GPU 0 failed: Xid 79"), "{nodes}");
    let third = c.submit(&["--", "sh", "-c", script]);
    // Neither process forgets it.
    c.restart_scheduler("fifo");
    c.until("the node reports it", |c| {
        gpus_and_trouble(c).1 == "failed: Xid 79"
    });
    c.until_phase(third, "waiting");
    c.until("the reason names the GPU", |c| {
        let why = c.run(&["why", &third.to_string()]).unwrap_or_default();
        why.contains("0 are free; out of use: n0 (GPU 0 failed: Xid 79)")
    });
    // A source that fails changes no GPU.
    std::fs::write(&health, "[{}]").unwrap();
    let unknown = "found 1 entries, expected 3, one for each GPU";
    c.until("the health is unknown", |c| {
        c.json(&["nodes"])[0]["unknown_health"] == unknown
    });
    let nodes = c.run(&["nodes"]).unwrap();
    let reason = format!("up      GPU 0 failed: Xid 79; health of GPUs unknown: {unknown}");
    assert!(nodes.contains(&reason), "{nodes}");
    std::fs::write(&health, "[{}, {}, {}]").unwrap();
    c.until_phase(third, "running");
    assert_eq!(gpus_and_trouble(&c), (3, String::new()));
    assert_eq!(c.json(&["nodes"])[0]["unknown_health"], Value::Null);
    for job in [jobs[0], jobs[1]] {
        assert_eq!(c.phase(job), "running");
    }
}

/// A process that belongs to no job holds a GPU: no launch starts there, and `blox nodes` names it.
#[test]
fn foreign_process_on_a_gpu_is_named_and_spared() {
    let mut c = Cluster::without_daemons(&[]).begin("fifo", &[]);
    let health = c.dir.path().join("health.json");
    let foreign = std::process::id();
    std::fs::write(&health, format!(r#"[{{"processes": [{foreign}]}}]"#)).unwrap();
    c.nodes.push(None);
    let path = health.display().to_string();
    c.start_node_with(0, 1, &["--gpu-health", &path]);
    let started = c.dir.path().join("started");
    let script = format!("touch {}; exec sleep 600", started.display());
    let named = format!("held by process {foreign}, which belongs to no job");
    c.until("the node names the process", |c| {
        gpus_and_trouble(c).1.contains(&named)
    });
    let job = c.submit(&["--", "sh", "-c", &script]);
    std::thread::sleep(Duration::from_secs(2));
    assert!(!started.exists());
    std::fs::write(&health, "[{}]").unwrap();
    c.until_phase(job, "running");
    assert_eq!(gpus_and_trouble(&c).1, "");
}
