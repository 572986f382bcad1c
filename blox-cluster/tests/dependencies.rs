//! Jobs that wait for others, arrays, and priorities, in the state machine without processes.

use blox_cluster::protocol::launches::Durable;
use blox_cluster::protocol::scheduler::{
    Controller, ControllerInput, Request, RequestError, Saved, Settings, SubmitMany,
};
use blox_cluster::protocol::{ClusterId, Millis, Record};
use blox_core::trigger::OnEvent;
use blox_core::{GpuCount, JobId, JobSpec, Phase, Seconds, Time};

/// A scheduler without nodes, and its log.
struct World {
    scheduler: Controller,
    log: Vec<Record>,
    keys: u32,
}

impl World {
    fn new(log: Vec<Record>) -> Self {
        let (scheduler, step) = Controller::begin(
            Settings::default(),
            Saved::default(),
            &log,
            ClusterId("c".into()),
            Box::new(OnEvent::default()),
            Millis(0),
            Time::ZERO,
        );
        let log = [log, step.records].concat();
        let keys = 0;
        World {
            scheduler,
            log,
            keys,
        }
    }

    fn ask(&mut self, request: Request) -> Result<JobId, RequestError> {
        let step = self
            .scheduler
            .step(Millis(1), ControllerInput::Request(request));
        self.log.extend(step.records);
        step.reply.unwrap()
    }

    fn many(
        &mut self,
        name: &str,
        indices: Vec<u32>,
        at_once: u32,
        dependency: &str,
    ) -> SubmitMany {
        self.keys += 1;
        let spec = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(60.0));
        SubmitMany {
            key: format!("{}", self.keys).into(),
            spec: spec.named(name).owned_by("ada"),
            indices,
            at_once,
            dependency: match dependency {
                "" => Default::default(),
                text => text.parse().unwrap(),
            },
            hold: false,
        }
    }

    fn submit(&mut self, dependency: &str) -> u32 {
        let many = self.many("job", Vec::new(), 0, dependency);
        self.ask(Request::SubmitMany(Box::new(many))).unwrap().0
    }

    fn durable(&self) -> &Durable {
        self.scheduler.launches().durable()
    }

    fn is_held(&self, job: u32) -> bool {
        let job = self.scheduler.view().job(JobId(job)).unwrap();
        let held = job.phase() == Phase::Deferred;
        assert_eq!(held, self.durable().held_back.contains_key(&job.id()));
        held
    }

    fn cancel(&mut self, job: u32) {
        self.ask(Request::Cancel(JobId(job))).unwrap();
    }

    fn became(&self, job: u32) -> Option<&'static str> {
        self.durable().became(JobId(job))
    }

    /// Checks that a scheduler with the log has the same state.
    fn restarts_equal(&self) {
        let again = World::new(self.log.clone());
        let (mut a, mut b) = (self.durable().clone(), again.durable().clone());
        (a.epoch, b.epoch) = Default::default();
        (a.fence, b.fence) = Default::default();
        assert_eq!(a, b);
    }
}

#[test]
fn dependent_job_waits_and_is_released() {
    let mut w = World::new(Vec::new());
    let first = w.submit("");
    let any = w.submit("afterany:0");
    let not = w.submit("afternotok:0,afterany:1");
    assert!(!w.is_held(first) && w.is_held(any) && w.is_held(not));
    w.restarts_equal();
    w.cancel(first);
    assert!(!w.is_held(any) && w.is_held(not));
    assert_eq!(w.durable().held_back[&JobId(not)].after.len(), 1);
    w.cancel(any);
    assert!(!w.is_held(not));
    w.restarts_equal();
}

#[test]
fn job_that_can_never_run_is_cancelled_in_chains() {
    let mut w = World::new(Vec::new());
    let first = w.submit("");
    let second = w.submit("afterok:0");
    let third = w.submit("afterok:1");
    let after = w.submit("afternotok:2");
    w.cancel(first);
    for (job, of) in [(second, first), (third, second)] {
        assert_eq!(w.became(job), Some("cancelled"));
        let why = &w.durable().jobs[&JobId(job)].why;
        assert_eq!(
            *why,
            format!("afterok:{of} can never be met: job {of} is cancelled")
        );
    }
    assert!(!w.is_held(after));
    w.restarts_equal();
}

#[test]
fn array_runs_a_number_of_jobs_at_once() {
    let mut w = World::new(Vec::new());
    let many = w.many("sweep", (10..20).collect(), 3, "");
    let again = many.clone();
    let first = w.ask(Request::SubmitMany(Box::new(many))).unwrap();
    assert_eq!(w.ask(Request::SubmitMany(Box::new(again))), Ok(first));
    assert_eq!(w.scheduler.core().state().live_jobs(), 10);
    let free = |w: &World| {
        (0..10)
            .filter(|j| w.became(*j).is_none() && !w.is_held(*j))
            .count()
    };
    assert_eq!(free(&w), 3);
    // A user's hold keeps its place.
    w.ask(Request::Hold(JobId(3))).unwrap();
    w.cancel(0);
    assert!(free(&w) == 3 && w.is_held(3) && !w.is_held(4));
    w.ask(Request::Release(JobId(3))).unwrap();
    w.cancel(1);
    assert!(free(&w) == 3 && !w.is_held(3));
    let place = w.durable().jobs[&JobId(4)].array.unwrap();
    assert_eq!((place.to_string().as_str(), place.max), ("0_14", 19));
    // The array is one target.
    let last = w.submit("afterany:0");
    (2..9).for_each(|job| w.cancel(job));
    assert!(w.is_held(last));
    w.cancel(9);
    assert!(!w.is_held(last));
    w.restarts_equal();
}

#[test]
fn singletons_run_one_after_the_other() {
    let mut w = World::new(Vec::new());
    let first = w.submit("singleton");
    let second = w.submit("singleton");
    assert!(!w.is_held(first) && w.is_held(second));
    let refused = w
        .ask(Request::Release(JobId(second)))
        .unwrap_err()
        .to_string();
    assert!(
        refused.ends_with("it is not held, but waits for other jobs"),
        "{refused}"
    );
    w.cancel(first);
    assert!(!w.is_held(second));
    w.restarts_equal();
}

#[test]
fn dependency_on_no_job_is_refused() {
    let mut w = World::new(Vec::new());
    let many = w.many("job", Vec::new(), 0, "afterok:7");
    let refused = w.ask(Request::SubmitMany(Box::new(many))).unwrap_err();
    assert_eq!(refused.to_string(), "there is no job 7");
    assert_eq!(w.scheduler.core().state().live_jobs(), 0);
}

#[test]
fn priority_is_journaled_and_keeps_the_key() {
    let mut w = World::new(Vec::new());
    let many = w.many("job", Vec::new(), 0, "");
    let again = many.clone();
    let job = w.ask(Request::SubmitMany(Box::new(many))).unwrap();
    w.ask(Request::Prioritize(job, 9)).unwrap();
    assert_eq!(w.scheduler.view().job(job).unwrap().spec().priority, 9);
    assert_eq!(w.ask(Request::SubmitMany(Box::new(again))), Ok(job));
    let restarted = World::new(w.log.clone());
    assert_eq!(
        restarted.scheduler.view().job(job).unwrap().spec().priority,
        9
    );
    w.cancel(job.0);
    let refused = w.ask(Request::Prioritize(job, 1)).unwrap_err().to_string();
    assert_eq!(refused, "job 0 is cancelled: it has ended");
}
