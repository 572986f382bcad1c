//! A scheduler on a real Slurm. Each test prints why and passes where Slurm cannot run.

mod support;

use blox_core::drive::{Turn, turn};
use blox_core::runtime::Runtime;
use blox_core::{
    Answer, Composition, JobId, JobQueue, OnEvent, Phase, Pipeline, Request, SchedulingPolicy, Seconds, State,
    Stateless, Validity, View,
};
use blox_slurm::{Pace, Programs, Scope, SlurmBackend};
use blox_testing::FirstFit;
use std::cell::RefCell;
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

#[test]
fn urgent_jobs_preempt_others_on_a_real_slurm() {
    let Some(cluster) = Cluster::start(2) else { return };
    let stop = Arc::new(AtomicBool::new(false));
    let late = Arc::clone(&stop);
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(60));
        late.store(true, Ordering::Relaxed);
    });
    let notices = Rc::new(RefCell::new(Vec::new()));
    let noted = Rc::clone(&notices);
    let state = State::default();
    let mut scheduler = urgent();
    let trigger = Box::new(OnEvent::with_gap(Seconds::ZERO));
    let mut runtime = Runtime::new(state, trigger);
    let mut backend = SlurmBackend::new(
        Programs {
            conf: Some(cluster.conf()),
            ..Programs::default()
        },
        Scope::default(),
        Pace::default(),
        runtime.view(),
        Arc::clone(&stop),
        Box::new(move |text| noted.borrow_mut().push(text.to_owned())),
    );
    let mut memory = Turn::default();
    let low = cluster.submit(8, "blox duration=600 priority=1", "sleep 600");
    let mut until = |what: &str, runtime: &mut Runtime, holds: &dyn Fn(&Runtime) -> bool| {
        while !holds(runtime) {
            let goes_on = turn(runtime, &mut scheduler, &mut backend, &mut memory).unwrap();
            let queue = || cluster.ask("squeue", &["--states=all", "-o", "%i %T %r %N"]);
            assert!(goes_on, "{what}: {:?}\n{}", notices.borrow(), queue());
        }
    };
    let phase = |runtime: &Runtime, job| runtime.view().job(JobId(job)).map(|j| j.phase());
    until("low runs", &mut runtime, &|r| phase(r, 0) == Some(Phase::Running));
    assert_eq!(cluster.state(low), "RUNNING");
    let high = cluster.submit(4, "blox duration=600 priority=2", "sleep 2");
    until("high runs", &mut runtime, &|r| phase(r, 1) == Some(Phase::Running));
    assert_eq!(cluster.state(high), "RUNNING");
    assert_eq!(cluster.state(low), "PENDING");
    until("high ended", &mut runtime, &|r| phase(r, 1).is_none());
    until("low runs again", &mut runtime, &|r| phase(r, 0) == Some(Phase::Running));
    cluster.ask("scancel", &[&low.to_string()]);
    until("low ended", &mut runtime, &|r| phase(r, 0).is_none());
}
