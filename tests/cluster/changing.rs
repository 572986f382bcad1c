//! Another scheduler takes over a cluster whose jobs run.

use super::*;

/// Starts a scheduler on the log of the cluster. Returns its messages so far.
fn start(c: &mut Cluster, name: &str) -> String {
    let path = c.dir.path().join(format!("{name}.log"));
    c.start_logged(name, "0.5", &path);
    c.until("it listens", |_| read(&path).contains("listening on "));
    // The messages of the start follow the address.
    c.until("it answers", |c| c.run(&["queue"]).is_ok());
    c.until("it names the change", |_| {
        read(&path).contains("takes over")
    });
    read(&path)
}

fn stop(c: &mut Cluster) {
    let out = blox()
        .args(["scheduler", "stop", "--at", &c.at])
        .output()
        .unwrap();
    assert!(out.status.success(), "{out:?}");
    let ended = c.scheduler.as_mut().unwrap().0.wait().unwrap();
    assert!(ended.success(), "{ended}");
}

fn dry_run(c: &Cluster, name: &str, more: &[&str]) -> String {
    let out = blox()
        .args(["scheduler", name, "--dry-run", "--state-dir", "scheduler"])
        .args(more)
        .current_dir(c.dir.path())
        .output()
        .unwrap();
    assert!(out.status.success(), "{out:?}");
    String::from_utf8(out.stdout).unwrap()
}

/// Runs until it is stopped, and notes each start, signal and second copy.
fn job(c: &Cluster, name: &str) -> u64 {
    let file = c.dir.path().join(name);
    let script = "mkdir $NOTES.here 2> /dev/null || echo copy >> $NOTES; echo start >> $NOTES; \
        trap 'echo signal >> $NOTES; rmdir $NOTES.here; exit 75' TERM; \
        for i in $(seq 6000); do sleep 0.1; done";
    let env = format!("NOTES={}", file.display());
    c.submit(&["--name", name, "--env", &env, "--", "sh", "-c", script])
}

#[test]
fn jobs_run_on_while_the_scheduler_changes() {
    let mut c = Cluster::start("las", &[2, 2]);
    let names = ["a", "b", "c", "d"];
    let jobs = names.map(|name| job(&c, name));
    let started = |c: &Cluster| names.iter().all(|name| notes(c, name) == "start ");
    c.until("all jobs run", started);
    // The scheduler that runs notices nothing.
    let shown = dry_run(&c, "gavel", &[]);
    let expected = "4 jobs would keep GPUs, 0 jobs would wait as now\n\
        `gavel` takes over from `las`: ";
    assert!(shown.starts_with(expected), "{shown}");
    stop(&mut c);
    let messages = start(&mut c, "gavel");
    assert!(
        messages.contains("`gavel` takes over from `las`: "),
        "{messages}"
    );
    c.until("all jobs run", |c| {
        jobs.iter().all(|j| c.phase(*j) == "running")
    });
    stop(&mut c);
    let messages = start(&mut c, "fifo");
    let expected = "`fifo` takes over from `gavel`: it needs no memory\n";
    assert!(messages.contains(expected), "{messages}");
    c.until("all jobs run", |c| {
        jobs.iter().all(|j| c.phase(*j) == "running")
    });
    std::thread::sleep(Duration::from_secs(2));
    for (job, name) in jobs.iter().zip(names) {
        assert_eq!(launches(&c, *job), (1, "running".to_owned()));
        assert_eq!(notes(&c, name), "start ");
    }
    // A fifth job waits under fifo. Under las, it would replace the last one.
    let fifth = job(&c, "e");
    c.until_phase(fifth, "waiting");
    assert!(
        dry_run(&c, "fifo", &[]).starts_with("4 jobs would keep GPUs, 1 job would wait as now\n")
    );
    let json: Value = serde_json::from_str(&dry_run(&c, "las", &["--json"])).unwrap();
    let changes: Vec<_> = json["changes"].as_array().unwrap().iter().collect();
    let of = |kind: &str| changes.iter().find(|c| c["kind"] == kind);
    assert_eq!(of("start").unwrap()["job"], fifth, "{json}");
    assert!(of("stop").is_some(), "{json}");
    assert_eq!(
        (&json["keep"], &json["wait"]),
        (&3.into(), &0.into()),
        "{json}"
    );
    let csv = dry_run(&c, "las", &["--output-format", "csv"]);
    assert!(csv.starts_with("job,name,user,change,gpus_now,nodes_now,gpus_then,nodes_then,why\n"));
    assert_eq!(csv.lines().count(), 3, "{csv}");
    assert_eq!(c.phase(fifth), "waiting");
}
