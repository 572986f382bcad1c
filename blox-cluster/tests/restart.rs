//! The time from the start of a scheduler with many jobs to its first answer.

#![allow(clippy::disallowed_methods, reason = "measures times")]

mod support;

use blox_cluster::daemon::{Composed, Daemon, FromPolicy, Limits, Start};
use blox_cluster::log::Log;
use blox_cluster::protocol::scheduler::{ControllerInput, Request, Settings};
use blox_cluster::protocol::{ClusterId, Millis};
use blox_core::order::SortKey;
use blox_core::policy::by_key;
use blox_core::trigger::Rounds;
use blox_core::{Composition, Extras, GpuCount, JobSpec, Seconds, Time};
use blox_testing::FirstFit;
use std::path::Path;
use std::time::Instant;
use support::Kept;

type Started = (Daemon<Kept>, blox_cluster::daemon::PolicyReplica);

fn start(dir: &Path) -> Started {
    let fifo = by_key(|job| SortKey::by(job.submit().secs())).valid_until_event();
    let scheduler = Composition::new("fifo")
        .scheduling(fifo)
        .placement(FirstFit)
        .build()
        .unwrap();
    let composed = Composed {
        scheduler: Box::new(scheduler),
        trigger: Box::new(Rounds::every(Seconds::new(60.0)).unwrap()),
        feasibility: None,
    };
    let begin = Start {
        settings: Settings::default(),
        limits: Limits::default(),
        cluster: ClusterId("c".into()),
        now: Millis(0),
        at: Time::ZERO,
    };
    let before = Instant::now();
    let (log, recovered) = Log::open(dir).unwrap();
    let read = before.elapsed();
    let started = Daemon::begin(log, recovered, composed, begin, |_| Ok(Kept::default())).unwrap();
    println!(
        "log read in {read:.1?}, first answer after {:.1?}",
        before.elapsed()
    );
    started
}

fn submit(daemon: &mut Daemon<Kept>, jobs: std::ops::Range<u32>) {
    for number in jobs {
        let extras = Extras {
            command: vec!["python".into(), "train.py".into()],
            ..Extras::default()
        };
        let spec = JobSpec::new(Time::ZERO, GpuCount(4), Seconds::new(1e6)).with_extras(extras);
        let key = format!("01234567-89ab-cdef-0123-4567{number:08}").into();
        let input = ControllerInput::Request(Request::Submit { key, spec });
        daemon.step(Millis(1), input, Some(())).unwrap();
        if number % 256 == 0 {
            daemon.flush(Millis(1)).unwrap();
        }
    }
    daemon.flush(Millis(1)).unwrap();
}

/// Passes the messages of the daemon to the policy. Returns the number of snapshots written.
fn follow((daemon, replica): &mut Started) -> usize {
    let mut written = 0;
    for message in std::mem::take(&mut daemon.outputs().policy) {
        replica.handle(message, |result| {
            if let FromPolicy::Snapshot(snapshot) = result {
                snapshot.write();
                written += 1;
            }
        });
    }
    if written > 0 {
        daemon.compacted();
    }
    written
}

/// Restarts a scheduler with waiting jobs from its records, and then from a snapshot.
fn restarts(jobs: u32) {
    let dir = tempfile::tempdir().unwrap();
    let mut first = start(dir.path());
    submit(&mut first.0, 0..jobs);
    // The log is as after a crash.
    drop(first);
    let mut second = start(dir.path());
    // The snapshot comes after the first answer.
    let snapshots = |dir: &Path| {
        let names = std::fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        names
            .filter(|name| name.to_string_lossy().starts_with("snapshot-"))
            .count()
    };
    assert_eq!(snapshots(dir.path()), 0);
    submit(&mut second.0, jobs..jobs + 1);
    let before = Instant::now();
    assert_eq!(follow(&mut second), 1);
    println!("snapshot written in {:.1?}", before.elapsed());
    assert_eq!(snapshots(dir.path()), 1);
    submit(&mut second.0, jobs + 1..jobs + 2);
    drop(second);
    for _ in 0..3 {
        let third = start(dir.path());
        let known = third.0.written().unwrap().launches().durable().jobs.len();
        assert_eq!(known as u32, jobs + 2);
        drop(third);
        assert_eq!(snapshots(dir.path()), 1);
    }
}

#[test]
fn snapshot_is_written_after_the_first_answer() {
    restarts(8_000);
}

#[test]
#[ignore = "long: run by name, in release"]
fn restart_with_a_hundred_thousand_waiting_jobs() {
    restarts(100_000);
}
