//! The cost of a scheduler does not depend on the number of ended jobs.

#![allow(clippy::disallowed_methods, reason = "measures times")]

use blox_cluster::protocol::scheduler::{
    Controller, ControllerInput, Request, RequestError, Saved, Settings,
};
use blox_cluster::protocol::{ClusterId, Epoch, Incarnation, Millis, Record, Report, Session};
use blox_core::core::Core;
use blox_core::order::SortKey;
use blox_core::policy::by_key;
use blox_core::runtime::Follower;
use blox_core::trigger::{DecisionTrigger, Rounds};
use blox_core::{Composition, GpuCount, Input, JobId, JobSpec, NodeSpec, Seconds, Time};
use blox_testing::FirstFit;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Number of ended jobs that the scheduler keeps.
const KEPT: usize = 500;
/// Number of jobs that have not ended.
const LIVE: u32 = 100;

/// A scheduler with its policy, and a node of four GPUs that runs nothing.
struct Daemon {
    machine: Controller,
    policy: Follower,
    now: u64,
    seq: u64,
    /// Time of each decision.
    decided: Vec<Duration>,
    archived: usize,
}

fn rounds() -> Box<dyn DecisionTrigger> {
    Box::new(Rounds::every(Seconds::new(60.0)).unwrap())
}

impl Daemon {
    fn new() -> Self {
        let fifo = by_key(|job| SortKey::by(job.submit().secs())).valid_until_event();
        let pipeline = Composition::new("fifo")
            .scheduling(fifo)
            .placement(FirstFit)
            .build()
            .unwrap();
        let (machine, first) = Controller::begin(
            Settings::default(),
            Saved::default(),
            &[],
            ClusterId("c".into()),
            rounds(),
            Millis(0),
            Time::ZERO,
        );
        let core = Core::restore(Saved::default().core, rounds());
        let mut daemon = Daemon {
            machine,
            policy: Follower::new(core, Box::new(pipeline)),
            now: 0,
            seq: 0,
            decided: Vec::new(),
            archived: 0,
        };
        daemon.follow(first.records);
        daemon.report();
        daemon
    }

    /// The policy follows the core, and answers its questions.
    fn follow(&mut self, records: Vec<Record>) {
        let mut inputs: Vec<Record> = records;
        while !inputs.is_empty() {
            let mut answers = Vec::new();
            for record in inputs {
                let Record::Core(input) = record else {
                    continue;
                };
                self.policy.follow(&input).unwrap();
                if let Input::Due { .. } = input {
                    let question = self.policy.core().open().unwrap();
                    let begin = Instant::now();
                    let answer = self.policy.decide(Box::default());
                    self.decided.push(begin.elapsed());
                    let input = ControllerInput::Answer(question.number, answer);
                    answers.extend(self.machine.step(Millis(self.now), input).records);
                }
            }
            inputs = answers;
        }
    }

    fn step(&mut self, input: ControllerInput) -> Option<Result<JobId, RequestError>> {
        let step = self.machine.step(Millis(self.now), input);
        self.follow(step.records);
        step.reply
    }

    fn report(&mut self) {
        self.seq += 1;
        let report = Report {
            protocol: blox_cluster::protocol::PROTOCOL,
            absence: None,
            node: "n0".into(),
            boot: "b".into(),
            session: Session(1),
            seq: self.seq,
            cluster: None,
            epoch: Epoch(0),
            incarnation: Incarnation(0),
            offer: Arc::new(NodeSpec::with_gpus(4)),
            address: "a".into(),
            attempts: Vec::new(),
            trouble: None,
            failed_gpus: Default::default(),
            unknown_health: None,
        };
        self.step(ControllerInput::Report(report));
    }

    /// Submits a job that waits for more GPUs than are free.
    fn submit(&mut self, key: u32) -> JobId {
        let spec = JobSpec::new(Time::ZERO, GpuCount(4), Seconds::new(1e6));
        let key = format!("key-{key}").into();
        let submit = ControllerInput::Request(Request::Submit { key, spec });
        self.step(submit).unwrap().unwrap()
    }

    fn cancel(&mut self, job: JobId) -> Result<JobId, RequestError> {
        self.step(ControllerInput::Request(Request::Cancel(job)))
            .unwrap()
    }

    fn archive(&mut self) {
        let jobs = self.machine.to_archive(KEPT);
        if !jobs.is_empty() {
            self.archived += jobs.len();
            self.step(ControllerInput::Archived(jobs));
        }
    }

    /// Jobs come and are cancelled, and some stay.
    fn live_through(&mut self, ended: u32) {
        for key in 0..ended {
            let job = self.submit(key);
            self.cancel(job).unwrap();
            self.archive();
        }
        for key in 0..LIVE {
            self.submit(ended + key);
        }
        // Questions of the rounds that pass, each with a job that came and one that went.
        self.decided.clear();
        for key in 0..500 {
            self.now += 60_000;
            self.report();
            let job = self.submit(ended + LIVE + key);
            self.cancel(job).unwrap();
            self.archive();
        }
    }

    fn snapshot(&self) -> usize {
        serde_json::to_vec(&self.machine.save()).unwrap().len()
    }

    fn median_decision(&mut self) -> Duration {
        self.decided.sort_unstable();
        self.decided[self.decided.len() / 2]
    }
}

#[test]
fn archived_jobs_leave_the_state_but_not_the_totals() {
    let mut daemon = Daemon::new();
    daemon.live_through(2_000);
    let durable = daemon.machine.launches().durable();
    let ended = durable
        .jobs
        .values()
        .filter(|job| job.ended.is_some())
        .count();
    assert!((KEPT..KEPT + 300).contains(&ended), "{ended}");
    assert_eq!(durable.jobs.len(), durable.keys.len());
    let totals: u64 = durable.archived.jobs.values().sum();
    assert_eq!(totals, daemon.archived as u64);
    assert_eq!(ended + daemon.archived, 2_500);
    // The job still counts as ended, and its key can be used again.
    assert_eq!(daemon.cancel(JobId(0)), Ok(JobId(0)));
    let hold = daemon.step(ControllerInput::Request(Request::Hold(JobId(0))));
    assert_eq!(hold, Some(Err(RequestError::Archived(JobId(0)))));
    assert_eq!(daemon.submit(0), JobId(2_600));
    let hold = daemon.step(ControllerInput::Request(Request::Hold(JobId(9_999))));
    assert_eq!(hold, Some(Err(RequestError::NoJob(JobId(9_999)))));
    // Recovery from a snapshot knows the same jobs.
    let saved: Saved =
        serde_json::from_slice(&serde_json::to_vec(&daemon.machine.save()).unwrap()).unwrap();
    assert_eq!(&saved.durable, daemon.machine.launches().durable());
}

/// Prints the time of a decision and the size of a snapshot with few and with many ended jobs.
#[test]
#[ignore = "takes a minute; run it in release mode"]
fn a_million_ended_jobs_cost_as_much_as_a_thousand() {
    let mut figures = Vec::new();
    for ended in [1_000, 1_000_000] {
        let mut daemon = Daemon::new();
        let begin = Instant::now();
        daemon.live_through(ended);
        let (time, size) = (daemon.median_decision(), daemon.snapshot());
        println!(
            "{ended} ended jobs, {LIVE} live: a decision takes {time:?} (median of {}), a snapshot has {size} bytes; {:.1} s in all",
            daemon.decided.len(),
            begin.elapsed().as_secs_f64()
        );
        figures.push((time.as_secs_f64(), size as f64));
    }
    let [(time, size), (later_time, later_size)] = figures[..] else {
        panic!("{figures:?}");
    };
    assert!(later_time < 1.5 * time, "{figures:?}");
    assert!(later_size < 1.2 * size, "{figures:?}");
}
