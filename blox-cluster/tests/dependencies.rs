//! Jobs that wait for others, arrays, and priorities, in the state machine without processes.

use blox_cluster::protocol::launches::Durable;
use blox_cluster::protocol::scheduler::{
    Controller, ControllerInput, Request, RequestError, Saved, Settings, SubmitMany,
};
use blox_cluster::protocol::{ClusterId, Millis, Record};
use blox_core::trigger::OnEvent;
use blox_core::{Event, GpuCount, Input, JobId, JobSpec, Outcome, Phase, Seconds, Time};
use serde::Deserialize as _;

/// A scheduler without nodes, and its log.
struct World {
    scheduler: Controller,
    log: Vec<Record>,
    keys: u32,
}

impl World {
    fn new(log: Vec<Record>) -> Self {
        World::begin(Saved::default(), log)
    }

    fn begin(saved: Saved, log: Vec<Record>) -> Self {
        let (scheduler, step) = Controller::begin(
            Settings::default(),
            saved,
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

    fn archive(&mut self, jobs: &[u32]) {
        let jobs = jobs.iter().copied().map(JobId).collect();
        let archived = ControllerInput::Archived(jobs);
        self.log
            .extend(self.scheduler.step(Millis(1), archived).records);
    }

    /// Ends a job that its policy would have run.
    fn complete(&mut self, job: u32) {
        let outcome = Outcome::Completed;
        let event = Event::Ended {
            job: JobId(job),
            outcome,
        };
        let at = self.scheduler.time(Millis(1));
        self.log.push(Record::Core(Input::Event { at, event }));
        *self = self.again();
        let tick = self.scheduler.step(Millis(1), ControllerInput::Tick);
        self.log.extend(tick.records);
    }

    fn again(&self) -> World {
        let keys = self.keys;
        World {
            keys,
            ..World::new(self.log.clone())
        }
    }

    fn became(&self, job: u32) -> Option<&'static str> {
        self.durable().became(JobId(job))
    }

    /// Checks that a scheduler with the log has the same state.
    fn restarts_equal(&self) {
        let again = self.again();
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

/// Submits an array of four jobs.
fn four(w: &mut World) {
    let many = w.many("sweep", (1..5).collect(), 0, "");
    w.ask(Request::SubmitMany(Box::new(many))).unwrap();
}

#[test]
fn archived_jobs_of_an_array_decide_its_conditions() {
    let mut w = World::new(Vec::new());
    four(&mut w);
    w.cancel(0);
    w.complete(1);
    w.archive(&[0, 1]);
    // The end of the other jobs does not matter any more.
    for (dependency, why) in [
        (
            "afterok:0",
            "afterok:0_1 can never be met: job 0_1 is cancelled",
        ),
        (
            "afternotok:0",
            "afternotok:0_2 can never be met: job 0_2 is completed",
        ),
    ] {
        let job = w.submit(dependency);
        assert_eq!(w.became(job), Some("cancelled"));
        assert_eq!(w.durable().jobs[&JobId(job)].why, why);
        w.restarts_equal();
        w = w.again();
    }
    let many = w.many("job", Vec::new(), 0, "afterok:0_2");
    let refused = w.ask(Request::SubmitMany(Box::new(many))).unwrap_err();
    let expected =
        "job 0_2 is in the archive, or there is no such job: `blox show 0_2` looks for it";
    assert_eq!(refused.to_string(), expected);
    let any = w.submit("afterany:0");
    assert!(w.is_held(any));
    w.complete(2);
    w.complete(3);
    assert!(!w.is_held(any));
    let (late, count) = (w.submit("afterok:0"), w.durable().archived_parts.len());
    assert_eq!((w.became(late), count), (Some("cancelled"), 1));
    // Nothing is kept of an array of which all jobs are archived.
    w.archive(&[2, 3]);
    assert!(w.durable().archived_parts.is_empty());
    let many = w.many("job", Vec::new(), 0, "afterok:0");
    let refused = w.ask(Request::SubmitMany(Box::new(many))).unwrap_err();
    assert_eq!(refused, RequestError::Archived(JobId(0)));
    w.restarts_equal();
}

#[test]
fn completed_archived_jobs_meet_afterok() {
    let mut w = World::new(Vec::new());
    four(&mut w);
    (0..3).for_each(|job| w.complete(job));
    w.archive(&[0, 2]);
    let after = w.submit("afterok:0");
    assert!(w.is_held(after));
    assert_eq!(w.durable().held_back[&JobId(after)].after.len(), 1);
    // A snapshot knows the same, and one of an earlier version knows no ends of archived jobs.
    let mut saved = serde_json::to_value(w.durable()).unwrap();
    let read = |saved: &serde_json::Value| Durable::deserialize(saved).unwrap();
    assert_eq!(&read(&saved), w.durable());
    saved.as_object_mut().unwrap().remove("archived_parts");
    let durable = read(&saved);
    let core = w.scheduler.save().core;
    let mut old = World::begin(Saved { core, durable }, Vec::new());
    let many = old.many("job", Vec::new(), 0, "afterok:0");
    let refused = old.ask(Request::SubmitMany(Box::new(many))).unwrap_err();
    assert_eq!(refused, RequestError::Archived(JobId(0)));
    let any = old.submit("afterany:0");
    assert!(old.is_held(any));
    w.complete(3);
    assert!(!w.is_held(after) && w.became(after).is_none());
    w.restarts_equal();
}
