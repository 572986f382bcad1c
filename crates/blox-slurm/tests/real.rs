//! A scheduler on a real Slurm. Each test prints why and passes where Slurm cannot run.

mod support;

use blox_core::drive::{Turn, turn};
use blox_core::replay::replay;
use blox_core::runtime::{Observers, Runtime};
use blox_core::{
    Answer, Composition, JobId, JobQueue, OnEvent, Phase, Pipeline, Request, Scheduler,
    SchedulingPolicy, Seconds, State, Stateless, Validity, View,
};
use blox_slurm::{Folder, Pace, Programs, Scope, SlurmBackend};
use blox_testing::FirstFit;
use std::cell::RefCell;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use support::Cluster;

/// Runs the most urgent jobs that fit, and stops all others.
#[derive(Clone)]
struct Urgent;

impl Stateless for Urgent {}

impl SchedulingPolicy for Urgent {
    fn schedule(&self, (): &mut (), view: View<'_>, queue: &mut JobQueue) -> Answer {
        let mut jobs: Vec<_> = view.active().collect();
        jobs.sort_by_key(|job| -job.spec().priority);
        let mut left = view.usable_gpus().get();
        for job in &jobs {
            if let Some(rest) = left.checked_sub(job.gpus().get()) {
                left = rest;
                queue.push(Request::gang(job));
            }
        }
        queue.stop_unlisted();
        Ok(Validity::UntilEvent)
    }
}

fn urgent() -> Pipeline {
    let composed = Composition::new("urgent").scheduling(Urgent);
    composed.placement(FirstFit).build().unwrap()
}

/// A scheduler on a cluster, until it is dropped.
struct Running {
    runtime: Runtime,
    scheduler: Box<dyn Scheduler>,
    backend: SlurmBackend<Programs>,
    memory: Turn,
    notices: Rc<RefCell<Vec<String>>>,
    _folder: Folder,
}

impl Running {
    fn start(cluster: &Cluster, dir: &Path) -> Self {
        let folder = Folder::open(dir).unwrap();
        let trigger = Box::new(OnEvent::with_gap(Seconds::ZERO));
        let restored = folder.restore(Box::new(urgent()), trigger).unwrap();
        let notices = Rc::new(RefCell::new(restored.notices));
        let noted = Rc::clone(&notices);
        let stop = Arc::new(AtomicBool::new(false));
        let late = Arc::clone(&stop);
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_secs(60));
            late.store(true, Ordering::Relaxed);
        });
        let backend = SlurmBackend::new(
            Programs {
                conf: Some(cluster.conf()),
                ..Programs::default()
            },
            Scope::default(),
            Pace::default(),
            restored.runtime.view(),
            stop,
            Box::new(move |text| noted.borrow_mut().push(text.to_owned())),
        );
        Running {
            runtime: restored.runtime,
            scheduler: restored.scheduler,
            backend,
            memory: Turn::default(),
            notices,
            _folder: folder,
        }
    }

    /// Makes turns until something holds.
    fn until(&mut self, what: &str, cluster: &Cluster, holds: impl Fn(&Runtime) -> bool) {
        while !holds(&self.runtime) {
            let goes_on = turn(
                &mut self.runtime,
                &mut *self.scheduler,
                &mut self.backend,
                &mut self.memory,
            );
            let queue = || cluster.ask("squeue", &["--states=all", "-o", "%i %T %r %N"]);
            assert!(goes_on.unwrap(), "{what}: {:?}\n{}", self.notices.borrow(), queue());
        }
    }

    fn noticed(&self, part: &str) -> bool {
        self.notices.borrow().iter().any(|text| text.contains(part))
    }
}

/// The phase of a job; `None` before its submission and after its end.
fn phase(job: u32) -> impl Fn(&Runtime) -> Option<Phase> {
    move |runtime| runtime.view().job(JobId(job)).map(|j| j.phase())
}

fn runs(job: u32) -> impl Fn(&Runtime) -> bool {
    move |runtime| phase(job)(runtime) == Some(Phase::Running)
}

fn ended(job: u32) -> impl Fn(&Runtime) -> bool {
    move |runtime| runtime.view().next_job_id().0 > job && phase(job)(runtime).is_none()
}

/// The decisions of all journals of a folder can be repeated.
fn repeats(dir: &Path) -> u64 {
    let mut all = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "jsonl") {
            let journal = BufReader::new(File::open(&path).unwrap());
            let trigger = Box::new(OnEvent::with_gap(Seconds::ZERO));
            let (state, policy) = (State::default(), Box::new(urgent()));
            let observers = &mut Observers::default();
            all += replay(journal, state, trigger, policy, observers).unwrap();
        }
    }
    all
}

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
    running.until("the fourth waits", &cluster, |r| phase(3)(r) == Some(Phase::Waiting));
    cluster.ask("scontrol", &["release", &d.to_string()]);
    running.until("the fourth leaves", &cluster, ended(3));
    assert!(running.noticed("released by hand"), "{:?}", running.notices.borrow());

    // A node is drained, and another is lost.
    let node = |running: &Running, job: u32| {
        let view = running.runtime.view();
        let gpu = view.job(JobId(job)).unwrap().bound().unwrap().gpus[0];
        view.cluster().node_with(gpu).unwrap().spec().name.clone().unwrap()
    };
    let lost = node(&running, 1);
    cluster.kill(&format!("slurmd-{lost}"));
    cluster.ask("scontrol", &["update", &format!("nodename={lost}"), "state=down", "reason=test"]);
    running.until("the loss", &cluster, |r| {
        r.view().job(JobId(1)).is_some_and(|job| job.crashes() == 1)
    });
    let of_node = running.noticed(&format!("Slurm lost node {lost}"));
    assert!(of_node, "{:?} {}", running.notices.borrow(), cluster.ask("sinfo", &["-N", "-l"]));
    cluster.start_node(lost.trim_start_matches('n').parse().unwrap());
    cluster.ask("scancel", &[&d.to_string()]);
    running.until("both run", &cluster, |r| runs(1)(r) && runs(2)(r));
    drop(running);
    assert!(repeats(dir.path()) >= 4);
}
