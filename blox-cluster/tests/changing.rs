//! Memory of a scheduler that starts with its own log or with the log of another, and its rehearsal.

mod support;

use blox_cluster::daemon::{Composed, Daemon, Earlier, FromPolicy, Limits, PolicyReplica, Start};
use blox_cluster::log::{Log, load};
use blox_cluster::protocol::scheduler::{ControllerInput, Request, Settings, SubmitMany};
use blox_cluster::protocol::{ClusterId, Epoch, Incarnation, Millis, PROTOCOL, Report, Session};
use blox_cluster::rehearsal::{Kind, Rehearsal, rehearse};
use blox_core::{
    Answer, ClusterManager, Composition, Draft, Extras, GpuCount, JobId, JobQueue, JobSpec,
    MissingData, NodeActions, NodeId, NodeSpec, Pipeline, PlacementPolicy, Policy, Scheduler,
    SchedulingPolicy, Seconds, Stateless, Submission, Time, Validity, View,
};
use blox_testing::FirstFit;
use std::path::Path;
use std::sync::Arc;
use support::Kept;

/// Counts its decisions. The first jobs come first.
struct First;

impl Policy for First {
    type Memory = u32;

    fn initial(&self, _: u64) -> u32 {
        0
    }
}

impl SchedulingPolicy for First {
    fn schedule(&self, decisions: &mut u32, view: View<'_>, out: &mut JobQueue) -> Answer {
        *decisions += 1;
        for job in view.active() {
            out.push(blox_core::Request::gang(&job));
        }
        Ok(Validity::NextRound)
    }
}

/// Counts its decisions. The last jobs come first, and the others stop for them.
struct Last;

impl Policy for Last {
    type Memory = u32;

    fn initial(&self, _: u64) -> u32 {
        0
    }

    fn check_job(&self, job: &Submission) -> Result<(), MissingData> {
        match &job.name {
            Some(_) => Ok(()),
            None => Err(MissingData("name".into())),
        }
    }
}

impl SchedulingPolicy for Last {
    fn schedule(&self, decisions: &mut u32, view: View<'_>, out: &mut JobQueue) -> Answer {
        *decisions += 1;
        let mut jobs: Vec<_> = view.active().collect();
        jobs.reverse();
        let mut free = view.usable_gpus().get();
        for job in &jobs {
            let gpus = job.gpus().get();
            if gpus <= free {
                free -= gpus;
                out.push(blox_core::Request::gang(job));
            }
        }
        out.stop_unlisted();
        Ok(Validity::NextRound)
    }
}

/// Counts its calls, and changes no node.
struct Watching;

impl Policy for Watching {
    type Memory = u64;

    fn initial(&self, _: u64) -> u64 {
        0
    }
}

impl ClusterManager for Watching {
    fn manage(&self, calls: &mut u64, _: View<'_>, _: &mut NodeActions) -> Validity {
        *calls += 1;
        Validity::UntilEvent
    }
}

fn first() -> Pipeline {
    let composition = Composition::new("first").in_rounds(Seconds::new(60.0));
    let composition = composition.cluster(Watching).scheduling(First);
    composition.placement(FirstFit).build().unwrap()
}

fn last() -> Pipeline {
    let composition = Composition::new("last").in_rounds(Seconds::new(60.0));
    let composition = composition.cluster(Watching).scheduling(Last);
    composition.placement(FirstFit).build().unwrap()
}

fn known(name: &str) -> Option<Box<dyn Scheduler>> {
    (name == "first").then(|| Box::new(first()) as Box<dyn Scheduler>)
}

/// A daemon with its policy.
struct Running {
    daemon: Daemon<Kept>,
    replica: PolicyReplica,
    now: Millis,
    seq: u64,
}

impl Running {
    fn start(dir: &Path, pipeline: Pipeline, earlier: Earlier<'_>) -> Result<Self, String> {
        let composed = Composed {
            trigger: pipeline.trigger(),
            feasibility: Some(pipeline.feasibility()),
            scheduler: Box::new(pipeline),
        };
        let begin = Start {
            settings: Settings::default(),
            limits: Limits::default(),
            cluster: ClusterId("c".into()),
            now: Millis(0),
            at: Time::ZERO,
        };
        let (log, recovered) = Log::open(dir).unwrap();
        let outputs = |_: &PolicyReplica| Ok(Kept::default());
        let begun = Daemon::begin_after(log, recovered, composed, earlier, begin, outputs);
        let (daemon, replica) = begun.map_err(|e| e.to_string())?;
        let mut running = Running {
            daemon,
            replica,
            now: Millis(0),
            seq: 0,
        };
        running.step(None);
        Ok(running)
    }

    /// Processes an input, and lets the policy answer.
    fn step(&mut self, input: Option<ControllerInput>) {
        if let Some(input) = input {
            self.daemon.step(self.now, input, None).unwrap();
        }
        loop {
            self.daemon.flush(self.now).unwrap();
            let messages = std::mem::take(&mut self.daemon.outputs().policy);
            if messages.is_empty() {
                return;
            }
            let mut answers = Vec::new();
            let mut written = false;
            for message in messages {
                self.replica.handle(message, |result| match result {
                    FromPolicy::Answer(question, answer) => answers.push((question, answer)),
                    FromPolicy::Snapshot(snapshot) => {
                        snapshot.write();
                        written = true;
                    }
                    FromPolicy::Notice(text) => panic!("{text}"),
                });
            }
            if written {
                self.daemon.compacted();
            }
            for (question, answer) in answers {
                let answer = ControllerInput::Answer(question, answer);
                self.daemon.step(self.now, answer, None).unwrap();
            }
        }
    }

    /// The first node reports.
    fn report(&mut self) {
        self.report_as("n0");
    }

    fn report_as(&mut self, name: &str) {
        self.seq += 1;
        self.step(Some(ControllerInput::Report(Report {
            protocol: PROTOCOL,
            absence: None,
            node: name.into(),
            boot: "b".into(),
            session: Session(1),
            seq: self.seq,
            cluster: None,
            epoch: Epoch(0),
            incarnation: Incarnation(0),
            offer: Arc::new(NodeSpec {
                name: Some(name.into()),
                ..NodeSpec::with_gpus(4)
            }),
            address: "a".into(),
            attempts: Vec::new(),
            trouble: None,
            failed_gpus: Default::default(),
            unknown_health: None,
        })));
    }

    fn submit(&mut self, name: Option<&str>, gpus: u32) {
        let mut spec = JobSpec::new(Time::ZERO, GpuCount(gpus), Seconds::new(1e6));
        spec.name = name.map(Into::into);
        self.submit_job(spec);
    }

    fn submit_job(&mut self, spec: JobSpec) {
        let key = format!("{}-{}", self.now.0, self.next()).into();
        self.step(Some(ControllerInput::Request(Request::Submit {
            key,
            spec,
        })));
    }

    fn next(&self) -> u32 {
        let written = self.daemon.written().unwrap();
        written.view().next_job_id().0
    }

    /// Passes to a later round.
    fn rounds(&mut self, rounds: u64) {
        for _ in 0..rounds {
            self.now = self.now + Millis(60_000);
            self.report();
            self.step(Some(ControllerInput::Tick));
        }
    }

    /// Stops in order.
    fn stop(mut self) {
        assert!(self.daemon.close(self.now).unwrap());
        self.step(None);
        assert!(!self.daemon.close(self.now).unwrap());
    }

    fn memory(&self) -> serde_json::Value {
        let scheduler = self.replica.follower().scheduler();
        scheduler.save().unwrap().unwrap()
    }

    fn notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.daemon.outputs().notices)
    }

    /// Returns the jobs with GPUs.
    fn placed(&self) -> Vec<u32> {
        let view = self.daemon.written().unwrap().view();
        view.placed().map(|job| job.id().0).collect()
    }
}

/// Two jobs with GPUs and one that waits, under `first`.
fn busy(dir: &Path) -> Running {
    let mut running = Running::start(dir, first(), &|_| None).unwrap();
    running.report();
    for name in ["a", "b", "c"] {
        running.submit(Some(name), 2);
    }
    running.rounds(3);
    assert_eq!(running.placed(), [0, 1]);
    assert_eq!(running.notices(), ["node 0 n0 has joined with 4 GPU slots"]);
    running
}

fn rehearsed(dir: &Path, pipeline: Pipeline) -> Rehearsal {
    let recovered = load(dir).unwrap();
    let at = Seconds::new(1_000.0);
    rehearse(recovered, pipeline, &Settings::default(), at, &known).unwrap()
}

#[test]
fn memory_survives_a_stop_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let running = busy(dir.path());
    let memory = running.memory();
    assert!(memory["scheduling"].as_u64() > Some(2), "{memory}");
    running.stop();
    // All of it is in the snapshot: no decision is repeated.
    assert_eq!(load(dir.path()).unwrap().records.len(), 0);
    let mut again = Running::start(dir.path(), first(), &|_| None).unwrap();
    assert_eq!(again.memory(), memory);
    assert_eq!(again.placed(), [0, 1]);
    assert_eq!(again.notices(), [""; 0]);
}

#[test]
fn memory_survives_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let running = busy(dir.path());
    let memory = running.memory();
    running.stop();
    let mut running = Running::start(dir.path(), first(), &|_| None).unwrap();
    running.rounds(2);
    let later = running.memory();
    assert_ne!(later, memory);
    drop(running);
    let again = Running::start(dir.path(), first(), &|_| None).unwrap();
    assert_eq!(again.memory(), later);
}

#[test]
fn part_with_the_same_policy_keeps_its_memory() {
    let dir = tempfile::tempdir().unwrap();
    let running = busy(dir.path());
    let memory = running.memory();
    running.stop();
    let mut changed = Running::start(dir.path(), last(), &|_| None).unwrap();
    let expected = "`last` takes over from `first`: the memory of its cluster continues, and that of its scheduling starts anew";
    assert_eq!(changed.notices(), [expected]);
    assert_eq!(changed.memory()["cluster"], memory["cluster"]);
    assert_eq!(changed.memory()["scheduling"], 0);
    // The jobs keep their GPUs until the first decision.
    assert_eq!(changed.placed(), [0, 1]);
    changed.rounds(1);
    let view = changed.daemon.written().unwrap().view();
    let phase = |job| view.job(JobId(job)).unwrap().phase().to_string();
    assert_eq!([0, 1, 2].map(phase), ["stopping", "starting", "starting"]);
    // The next start is no change.
    let memory = changed.memory();
    drop(changed);
    let mut again = Running::start(dir.path(), last(), &|_| None).unwrap();
    assert_eq!(again.memory(), memory);
    assert_eq!(again.notices(), [""; 0]);
}

#[test]
fn killed_scheduler_passes_its_memory_on() {
    for (earlier, expected) in [
        (&known as Earlier<'_>, "the memory of its cluster continues"),
        (
            &|_: &str| None,
            "the memory of its cluster and scheduling starts anew",
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let running = busy(dir.path());
        let memory = running.memory();
        drop(running);
        let mut changed = Running::start(dir.path(), last(), earlier).unwrap();
        let notices = changed.notices();
        assert!(notices[0].contains(expected), "{notices:?}");
        let kept = changed.memory()["cluster"] == memory["cluster"];
        assert_eq!(kept, expected.contains("continues"));
        // After another kill, the memory is the same.
        changed.rounds(2);
        let memory = changed.memory();
        drop(changed);
        let again = Running::start(dir.path(), last(), earlier).unwrap();
        assert_eq!(again.memory(), memory);
    }
}

#[test]
fn memory_of_another_form_starts_anew() {
    /// A cluster manager with the name of [`Watching`] and another memory.
    mod other {
        use super::*;

        pub struct Watching;

        impl Policy for Watching {
            type Memory = Vec<String>;

            fn initial(&self, _: u64) -> Vec<String> {
                Vec::new()
            }
        }

        impl ClusterManager for Watching {
            fn manage(&self, _: &mut Vec<String>, _: View<'_>, _: &mut NodeActions) -> Validity {
                Validity::UntilEvent
            }
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let running = busy(dir.path());
    let memory = running.memory();
    running.stop();
    let upgraded = Composition::new("first").in_rounds(Seconds::new(60.0));
    let upgraded = upgraded.cluster(other::Watching).scheduling(First);
    let upgraded = upgraded.placement(FirstFit).build().unwrap();
    let mut again = Running::start(dir.path(), upgraded, &|_| None).unwrap();
    let expected = "`first` starts anew: the log has no memory that fits its cluster";
    assert_eq!(again.notices(), [expected]);
    assert_eq!(again.memory()["scheduling"], memory["scheduling"]);
}

#[test]
fn job_without_data_refuses_the_change() {
    let dir = tempfile::tempdir().unwrap();
    let mut running = busy(dir.path());
    running.submit(None, 1);
    running.submit(None, 1);
    running.stop();
    let files = || {
        let entries = std::fs::read_dir(dir.path()).unwrap();
        let mut all: Vec<_> = entries
            .map(|e| e.unwrap())
            .map(|e| (e.file_name(), e.metadata().unwrap().len()))
            .collect();
        all.sort();
        all
    };
    let before = files();
    let refused = Running::start(dir.path(), last(), &|_| None).err().unwrap();
    let expected = "the scheduler `last` cannot take over job 3 and 1 more: the job lacks name; nothing was changed: choose another scheduler, or cancel the job";
    assert_eq!(refused, expected);
    assert_eq!(files(), before);
    Running::start(dir.path(), first(), &|_| None).unwrap();
}

/// [`FirstFit`], which keeps the number of nodes if there is one node.
struct OnOneNode;

impl Stateless for OnOneNode {}

impl PlacementPolicy for OnOneNode {
    fn place(&self, (): &mut (), requests: &mut JobQueue, draft: &mut Draft<'_>) -> Answer {
        FirstFit.place(&mut (), requests, draft)
    }

    fn keeps_nodes(&self, nodes: u32) -> bool {
        nodes == 1
    }
}

#[test]
fn job_on_a_number_of_nodes_refuses_the_change() {
    let dir = tempfile::tempdir().unwrap();
    let keeping = || first().with_placement(OnOneNode).unwrap();
    let mut running = Running::start(dir.path(), keeping(), &|_| None).unwrap();
    running.report();
    let job = JobSpec::new(Time::ZERO, GpuCount(2), Seconds::new(1e6));
    running.submit_job(job.with_extras(Extras {
        nodes: std::num::NonZeroU32::new(1),
        ..Extras::default()
    }));
    running.rounds(2);
    assert_eq!(running.placed(), [0]);
    running.stop();
    let others = first().renamed("others");
    let refused = Running::start(dir.path(), others, &|_| None).err().unwrap();
    let expected = "the scheduler `others` cannot take over job 0: needs 2 GPUs on one node, and the scheduler does not keep this number of nodes; nothing was changed: choose another scheduler, or cancel the job";
    assert_eq!(refused, expected);
    let again = Running::start(dir.path(), keeping(), &|_| None).unwrap();
    assert_eq!(again.placed(), [0]);
}

#[test]
fn job_that_fits_no_more_is_held_until_nodes_join() {
    let dir = tempfile::tempdir().unwrap();
    let mut running = on_two_nodes(dir.path());
    running.submit(None, 2);
    running.rounds(1);
    running.submit(None, 8);
    remove(&mut running, 1);
    let reason = |running: &Running| held_back(running, 1);
    let expected = "held, as it could never run: asks for 8 GPUs, at most 4 are possible";
    assert_eq!(reason(&running).as_deref(), Some(expected));
    // Later jobs do not wait behind it, also after a restart.
    running.submit(None, 1);
    running.rounds(2);
    assert_eq!(running.placed(), [0, 2]);
    running.stop();
    let mut again = Running::start(dir.path(), first(), &|_| None).unwrap();
    assert_eq!(reason(&again).as_deref(), Some(expected));
    again.step(Some(ControllerInput::Request(Request::Release(JobId(1)))));
    assert_eq!(reason(&again).as_deref(), Some(expected));
    again.report_as("n2");
    assert_eq!(reason(&again), None);
}

/// A daemon under `first` with two nodes.
fn on_two_nodes(dir: &Path) -> Running {
    let mut running = Running::start(dir, first(), &|_| None).unwrap();
    running.report();
    running.report_as("n1");
    running
}

/// Drains and removes a node.
fn remove(running: &mut Running, node: u32) {
    let (why, evict_after) = ("no more work".into(), None);
    let node = NodeId(node);
    let drain = Request::Drain {
        node,
        why,
        evict_after,
    };
    for request in [drain, Request::Remove(node)] {
        running.step(Some(ControllerInput::Request(request)));
    }
}

/// Returns why a job is held back.
fn held_back(running: &Running, job: u32) -> Option<String> {
    let written = running.daemon.written().unwrap();
    let held = written.launches().durable().held_back.get(&JobId(job))?;
    Some(held.text_with(|job| job.to_string()))
}

#[test]
fn removed_node_changes_no_other_hold() {
    let dir = tempfile::tempdir().unwrap();
    let mut running = on_two_nodes(dir.path());
    running.submit(None, 2);
    running.rounds(1);
    let wide = |key: &str, dependency: &str, hold| {
        Request::SubmitMany(Box::new(SubmitMany {
            key: key.into(),
            spec: JobSpec::new(Time::ZERO, GpuCount(8), Seconds::new(1e6)),
            indices: Vec::new(),
            at_once: 0,
            dependency: dependency.parse().unwrap_or_default(),
            hold,
        }))
    };
    running.submit(None, 8);
    for request in [
        wide("after", "afterok:0", false),
        wide("held", "", true),
        Request::Hold(JobId(1)),
    ] {
        running.step(Some(ControllerInput::Request(request)));
    }
    let expected = [
        None,
        Some("waits until job 0 completes".to_owned()),
        Some("held by user".to_owned()),
    ];
    assert_eq!([1, 2, 3].map(|job| held_back(&running, job)), expected);
    remove(&mut running, 1);
    assert_eq!([1, 2, 3].map(|job| held_back(&running, job)), expected);
    running.report_as("n2");
    assert_eq!([1, 2, 3].map(|job| held_back(&running, job)), expected);
    running.rounds(2);
    assert_eq!(running.placed(), [0]);
    // A release finds what does not fit.
    remove(&mut running, 2);
    for job in [1, 3] {
        running.step(Some(ControllerInput::Request(Request::Release(JobId(job)))));
        let expected = "held, as it could never run: asks for 8 GPUs, at most 4 are possible";
        assert_eq!(held_back(&running, job).as_deref(), Some(expected));
    }
}

#[test]
fn jobs_are_checked_once_nodes_are_there_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut running = on_two_nodes(dir.path());
    running.submit(None, 6);
    running.submit(None, 8);
    let expected = "held, as it could never run: asks for 8 GPUs, at most 4 are possible";
    remove(&mut running, 1);
    assert_eq!(held_back(&running, 1).as_deref(), Some(expected));
    remove(&mut running, 0);
    running.rounds(1);
    assert_eq!(held_back(&running, 1).as_deref(), Some(expected));
    running.report_as("n2");
    assert_eq!(held_back(&running, 1).as_deref(), Some(expected));
    assert!(held_back(&running, 0).is_some());
    running.report_as("n3");
    assert_eq!([0, 1].map(|job| held_back(&running, job)), [None, None]);
}

#[test]
fn rehearsal_names_what_would_change() {
    let dir = tempfile::tempdir().unwrap();
    let mut running = busy(dir.path());
    let memory = running.memory();
    // The scheduler runs on.
    let rehearsal = rehearsed(dir.path(), last());
    assert_eq!(rehearsal.before.as_deref(), Some("first"));
    assert_eq!(&*rehearsal.scheduler, "last");
    let shown: Vec<_> = (rehearsal.changes.iter())
        .map(|c| (c.job.0, &*c.name, c.kind, c.now.gpus, c.then.gpus))
        .collect();
    let expected = [(0, "a", Kind::Stop, 2, 0), (2, "c", Kind::Start, 0, 2)];
    assert_eq!(shown, expected);
    assert_eq!((rehearsal.keep, rehearsal.wait), (1, 0));
    assert_eq!(rehearsal.changes[1].then.nodes, ["n0".into()]);
    // It has the memory of this moment.
    assert!(rehearsal.notes[0].contains("the memory of its cluster continues"));
    assert_eq!(running.memory(), memory);
    running.rounds(1);
    assert_eq!(running.placed(), [0, 1]);
    // The same scheduler changes nothing.
    let rehearsal = rehearsed(dir.path(), first());
    assert_eq!(rehearsal.changes, []);
    assert_eq!((rehearsal.keep, rehearsal.wait), (2, 1));
    assert_eq!(rehearsal.notes, [""; 0]);
}

#[test]
fn rehearsal_and_change_decide_alike() {
    let dir = tempfile::tempdir().unwrap();
    let running = busy(dir.path());
    let rehearsal = rehearsed(dir.path(), last());
    running.stop();
    assert_eq!(rehearsed(dir.path(), last()), rehearsal);
    let mut changed = Running::start(dir.path(), last(), &known).unwrap();
    changed.rounds(1);
    let view = changed.daemon.written().unwrap().view();
    for change in &rehearsal.changes {
        let job = view.job(change.job).unwrap();
        let gpus = job.assignment().map_or(0, |a| a.gpus.len() as u32);
        assert_eq!(gpus, change.then.gpus, "{change:?}");
    }
}
