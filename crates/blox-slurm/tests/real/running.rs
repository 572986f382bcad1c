//! A scheduler on a [`Cluster`].

use crate::cluster::Cluster;
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
use std::time::{Duration, Instant};

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
pub struct Running {
    pub runtime: Runtime,
    scheduler: Box<dyn Scheduler>,
    backend: SlurmBackend<Programs>,
    memory: Turn,
    pub notices: Rc<RefCell<Vec<String>>>,
    stop: Arc<AtomicBool>,
    _folder: Folder,
}

/// Longest wait for an effect.
const LIMIT: Duration = Duration::from_secs(60);

/// Stops a backend after a time, unless it is dropped before.
struct Timer(Arc<AtomicBool>);

impl Timer {
    fn start(stop: &Arc<AtomicBool>, time: Duration) -> Self {
        let (stop, off) = (Arc::clone(stop), Arc::new(AtomicBool::new(false)));
        let timer = Timer(Arc::clone(&off));
        std::thread::spawn(move || {
            let start = Instant::now();
            while !off.load(Ordering::Relaxed) {
                if start.elapsed() >= time {
                    return stop.store(true, Ordering::Relaxed);
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        timer
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Running {
    pub fn start(cluster: &Cluster, dir: &Path) -> Self {
        let folder = Folder::open(dir).unwrap();
        let trigger = Box::new(OnEvent::with_gap(Seconds::ZERO));
        let restored = folder.restore(Box::new(urgent()), trigger).unwrap();
        let notices = Rc::new(RefCell::new(restored.notices));
        let noted = Rc::clone(&notices);
        let stop = Arc::new(AtomicBool::new(false));
        let backend = SlurmBackend::new(
            Programs {
                conf: Some(cluster.conf()),
                ..Programs::default()
            },
            Scope::default(),
            Pace::default(),
            restored.runtime.view(),
            Arc::clone(&stop),
            Box::new(move |text| noted.borrow_mut().push(text.to_owned())),
        );
        Running {
            runtime: restored.runtime,
            scheduler: restored.scheduler,
            backend,
            memory: Turn::default(),
            notices,
            stop,
            _folder: folder,
        }
    }

    /// Makes turns until something holds.
    pub fn until(&mut self, what: &str, cluster: &Cluster, holds: impl Fn(&Runtime) -> bool) {
        self.within(LIMIT, what, cluster, holds);
    }

    /// Makes turns until something holds, for at most `limit`.
    pub fn within(
        &mut self,
        limit: Duration,
        what: &str,
        cluster: &Cluster,
        holds: impl Fn(&Runtime) -> bool,
    ) {
        let timer = Timer::start(&self.stop, limit);
        while !holds(&self.runtime) {
            let goes_on = self.turn();
            let queue = || cluster.ask("squeue", &["--states=all", "-o", "%i %T %r %N %k"]);
            assert!(goes_on, "{what}: {:#?}\n{}", self.notices.borrow(), queue());
        }
        drop(timer);
    }

    /// Makes turns for a while.
    pub fn for_a_while(&mut self, time: Duration) {
        let timer = Timer::start(&self.stop, time);
        while self.turn() {}
        drop(timer);
        self.stop.store(false, Ordering::Relaxed);
    }

    fn turn(&mut self) -> bool {
        let turned = turn(
            &mut self.runtime,
            &mut *self.scheduler,
            &mut self.backend,
            &mut self.memory,
        );
        turned.unwrap()
    }

    pub fn noticed(&self, part: &str) -> bool {
        self.notices.borrow().iter().any(|text| text.contains(part))
    }
}

/// The phase of a job; `None` before its submission and after its end.
pub fn phase(job: u32) -> impl Fn(&Runtime) -> Option<Phase> {
    move |runtime| runtime.view().job(JobId(job)).map(|j| j.phase())
}

pub fn runs(job: u32) -> impl Fn(&Runtime) -> bool {
    move |runtime| phase(job)(runtime) == Some(Phase::Running)
}

pub fn ended(job: u32) -> impl Fn(&Runtime) -> bool {
    move |runtime| runtime.view().next_job_id().0 > job && phase(job)(runtime).is_none()
}

/// The decisions of all journals of a folder can be repeated.
pub fn repeats(dir: &Path) -> u64 {
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
