//! Users that change jobs by hand, and restarts.

use crate::cluster::Cluster;
use crate::running::{Running, ended, phase, repeats, runs};
use blox_core::{JobId, Phase};
use std::time::Duration;

#[test]
fn urgent_jobs_preempt_others_on_a_real_slurm() {
    let Some(cluster) = Cluster::start(2) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let mut running = Running::start(&cluster, dir.path());
    let low = cluster.submit(8, "blox duration=600 priority=1", "sleep 600");
    running.until("low runs", &cluster, runs(0));
    assert_eq!(cluster.state(low), "RUNNING");
    let high = cluster.submit(4, "blox duration=600 priority=2", "sleep 2");
    running.until("high runs", &cluster, runs(1));
    assert_eq!(cluster.state(high), "RUNNING");
    assert_eq!(cluster.state(low), "PENDING");
    running.until("high ended", &cluster, ended(1));
    running.until("low runs again", &cluster, runs(0));
    cluster.ask("scancel", &[&low.to_string()]);
    running.until("low ended", &cluster, ended(0));
    drop(running);
    assert!(repeats(dir.path()) >= 4);
}

#[test]
fn restarts_and_users_change_nothing_by_halves() {
    let Some(cluster) = Cluster::start(2) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let mut running = Running::start(&cluster, dir.path());
    let a = cluster.submit(4, "blox duration=600", "sleep 600");
    let b = cluster.submit(4, "blox duration=600", "sleep 600");
    let c = cluster.submit(2, "blox duration=600", "sleep 600");
    running.until("two run", &cluster, |r| runs(0)(r) && runs(1)(r));
    drop(running);

    // While the scheduler is away, one job ends, and Slurm's controller restarts.
    cluster.ask("scancel", &[&a.to_string()]);
    cluster.stop_controller();
    cluster.start_controller();
    let mut running = Running::start(&cluster, dir.path());
    running.until("the third runs", &cluster, runs(2));
    assert!(ended(0)(&running.runtime) && runs(1)(&running.runtime));
    assert_eq!(cluster.state(b), "RUNNING");

    // Slurm's controller is away while a job waits.
    cluster.stop_controller();
    std::thread::sleep(Duration::from_millis(500));
    cluster.start_controller();

    // By hand: one job is requeued, another released.
    cluster.ask("scontrol", &["requeuehold", &c.to_string()]);
    running.until("the crash", &cluster, |r| {
        r.view().job(JobId(2)).is_some_and(|job| job.crashes() == 1)
    });
    running.until("the third runs again", &cluster, runs(2));
    let d = cluster.submit(8, "blox duration=600", "sleep 600");
    running.until("the fourth waits", &cluster, |r| {
        phase(3)(r) == Some(Phase::Waiting)
    });
    cluster.ask("scontrol", &["release", &d.to_string()]);
    running.until("the fourth leaves", &cluster, ended(3));
    assert!(
        running.noticed("released by hand"),
        "{:?}",
        running.notices.borrow()
    );

    // A node is drained, and another is lost.
    let node = |running: &Running, job: u32| {
        let view = running.runtime.view();
        let gpu = view.job(JobId(job)).unwrap().bound().unwrap().gpus[0];
        view.cluster()
            .node_with(gpu)
            .unwrap()
            .spec()
            .name
            .clone()
            .unwrap()
    };
    let lost = node(&running, 1);
    cluster.kill(&format!("slurmd-{lost}"));
    cluster.ask(
        "scontrol",
        &[
            "update",
            &format!("nodename={lost}"),
            "state=down",
            "reason=test",
        ],
    );
    running.until("the loss", &cluster, |r| {
        r.view().job(JobId(1)).is_some_and(|job| job.crashes() == 1)
    });
    let of_node = running.noticed(&format!("Slurm lost node {lost}"));
    assert!(
        of_node,
        "{:?} {}",
        running.notices.borrow(),
        cluster.ask("sinfo", &["-N", "-l"])
    );
    cluster.start_node(lost.trim_start_matches('n').parse().unwrap());
    cluster.ask("scancel", &[&d.to_string()]);
    running.until("both run", &cluster, |r| runs(1)(r) && runs(2)(r));
    drop(running);
    assert!(repeats(dir.path()) >= 4);
}
