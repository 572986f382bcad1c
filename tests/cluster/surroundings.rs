//! Faults around a cluster: names of hosts, the time of day, and the network between ranks.

use super::*;

/// Returns a command with an own file of host names; `None` if this process may not mount it.
fn with_hosts(dir: &Path) -> Option<Command> {
    let script = "hosts=$1; order=$2; shift 2; mount --bind \"$hosts\" /etc/hosts && \
        mount --bind \"$order\" /etc/nsswitch.conf && exec \"$@\"";
    let command = || {
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", script, "sh"]);
        command.arg(dir.join("hosts")).arg(dir.join("order"));
        command.env("XDG_STATE_HOME", env!("CARGO_TARGET_TMPDIR"));
        command.stdin(Stdio::null());
        command
    };
    let works = command().arg("true").stderr(Stdio::null()).status();
    works.is_ok_and(|status| status.success()).then(command)
}

/// The name of the scheduler is unknown at first, and then has another address.
#[test]
fn names_are_resolved_at_each_connection() {
    let mut c = Cluster {
        faster: &["--faster", "5", "--lease", "600"],
        ..Cluster::without_daemons(&["--insecure"])
    };
    let (hosts, dir) = (c.dir.path().join("hosts"), c.dir.path().to_owned());
    std::fs::write(&hosts, "").unwrap();
    std::fs::write(dir.join("order"), "hosts: files\n").unwrap();
    let Some(mut node) = with_hosts(&dir) else {
        eprintln!("SKIPPED: this process may mount no file");
        return;
    };
    c.start_scheduler("fifo");
    let port = c.at.rsplit_once(':').unwrap().1.to_owned();
    let named = format!("scheduler.test:{port}");
    let program = env!("CARGO_BIN_EXE_blox");
    node.args([program, "node", "--at", &named, "--name", "n0"]);
    node.args(["--gpus", "1", "--state-dir"]).arg(c.node_dir(0));
    let node = node.stderr(Stdio::piped()).spawn().unwrap();
    c.nodes.push(Some(Daemon(node)));
    let lines = lines_of(&mut c.nodes[0].as_mut().unwrap().0);
    line_with(&lines, "does not answer");
    let client = || {
        let mut client = with_hosts(&dir).unwrap();
        client.args([program, "queue", "--at", &named]);
        client.output().unwrap().status.success()
    };
    assert!(!client());
    std::fs::write(&hosts, "127.0.0.1 scheduler.test\n").unwrap();
    let job = c.submit_until("running", &["--", "sleep", "600"]);
    c.kill_scheduler();
    std::fs::write(&hosts, "").unwrap();
    c.at = format!("127.0.0.2:{port}");
    c.start_scheduler("fifo");
    line_with(&lines, "does not answer");
    std::fs::write(&hosts, "127.0.0.2 scheduler.test\n").unwrap();
    line_with(&lines, "answers again");
    c.until("the node is up", |c| {
        c.json(&["nodes"])[0]["status"] == "up"
    });
    assert!(client());
    assert_eq!(c.phase(job), "running");
    assert!(c.exits(job).is_empty());
    c.run(&["cancel", &job.to_string()]).unwrap();
    c.until_phase(job, "cancelled");
}

/// Replaces the time of day of a program by another one, which a file shifts.
const CLOCK: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t id, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, id, now);
    const char *path = getenv("CLOCK_SHIFT");
    int file = failed || id != CLOCK_REALTIME || !path ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    char text[32] = {0};
    if (file >= 0) {
        if (read(file, text, sizeof text - 1) > 0)
            now->tv_sec += atol(text);
        close(file);
    }
    return failed;
}
"#;

/// Leases, limits and timers do not follow the time of day.
#[test]
fn jumps_of_the_wall_clock_end_no_job() {
    let mut c = Cluster::without_daemons(&[]);
    let path = |name: &str| c.dir.path().join(name);
    let (source, library, shift) = (path("clock.c"), path("clock.so"), path("shift"));
    std::fs::write(&source, CLOCK).unwrap();
    std::fs::write(&shift, "3600").unwrap();
    let mut cc = Command::new("cc");
    let cc = cc
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&source);
    if !cc.status().is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: there is no compiler of C");
        return;
    }
    let export = format!(
        "export LD_PRELOAD={} CLOCK_SHIFT={}",
        library.display(),
        shift.display()
    );
    let (_, lines) = c.start_with_limits(&export);
    let line = line_with(&lines, "listening on ");
    c.at = line.trim_start_matches("listening on ").trim().to_owned();
    let node = blox()
        .env("LD_PRELOAD", &library)
        .env("CLOCK_SHIFT", &shift)
        .args(["node", "--at", &c.at, "--name", "n0", "--gpus", "2"])
        .arg("--state-dir")
        .arg(c.node_dir(0))
        .stderr(Stdio::null())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    c.nodes.push(Some(Daemon(node)));
    let job = c.submit_until("running", &["--time", "300s", "--", "sleep", "600"]);
    let goes_on = |c: &Cluster, seconds: &str| {
        std::fs::write(&shift, seconds).unwrap();
        // Longer than the timers that find a lost node.
        std::thread::sleep(Duration::from_secs(3));
        c.submit_until("completed", &["--", "true"]);
        assert_eq!(c.phase(job), "running", "{seconds}");
        assert!(c.exits(job).is_empty(), "{seconds}");
        assert_eq!(c.json(&["nodes"])[0]["status"], "up", "{seconds}");
    };
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let submitted = c.job(job)["submitted_s"].as_f64().unwrap();
    let ahead = submitted - now.as_secs_f64();
    assert!((3_000.0..4_000.0).contains(&ahead), "{ahead}");
    // Ten years.
    goes_on(&c, "315360000");
    goes_on(&c, "-3600");
    c.kill_scheduler();
    // The log has later times than the clock.
    let (_, lines) = c.start_with_limits(&export);
    line_with(&lines, "listening on ");
    goes_on(&c, "-7200");
    c.run(&["cancel", &job.to_string()]).unwrap();
    c.until_phase(job, "cancelled");
}

/// Ranks that no longer reach each other make no iteration.
#[test]
fn job_without_iterations_is_started_again() {
    let c = Cluster::start("fifo", &[1]);
    let script = "echo 1 0 > $BLOX_PROGRESS_FILE; [ $BLOX_ATTEMPT -gt 1 ] || exec sleep 600";
    let stall = ["--stall", "2", "--", "sh", "-c", script];
    let job = c.submit_until("completed", &stall);
    assert_eq!(c.exits(job), ["Failed with 124", "Completed"]);
    let ends = c.job(job)["accounts"].to_string();
    assert!(ends.contains("no iteration for 2 s"), "{ends}");
}
