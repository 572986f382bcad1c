//! Every scheduler counts parts of GPUs as parts.

use crate::cases::{finishes, job, run, scheduler, with};
use blox::core::{ClusterSpec, Deadline, Extras, JobSpec, Outcome, Share, Time};
use blox::sim::Simulation;
use blox::sim::completion::Exact;
use blox::sim::overheads::FixedOverheads;

/// Released programs, which give whole GPUs, and HiveD, whose smallest cell is a GPU (OSDI 2020,
/// section 3).
const WHOLE: [&str; 7] = [
    "blox-fifo",
    "blox-las",
    "blox-optimus",
    "blox-srtf",
    "blox-tiresias",
    "tiresias-dlas-gpu",
    "hived",
];

/// Returns jobs of an hour, each with a part of one GPU in 1/`of`.
fn jobs(parts: &[u32], of: u32) -> Vec<JobSpec> {
    let one = |n: &u32| {
        let share = Share::parts(*n, of).unwrap();
        with(job(0.0, 1, 3600.0), |extras| extras.share = share)
    };
    parts.iter().map(one).collect()
}

/// Returns the end of the last job of each scheduler on two GPUs, in seconds.
fn makespans(jobs: &[JobSpec]) -> Vec<(String, f64)> {
    let registry = blox::registry();
    let names = registry.schedulers.iter().map(|(name, _)| name);
    let names = names.filter(|name| !WHOLE.contains(name));
    let simulation = Simulation::new(ClusterSpec::uniform(1, 2)).overheads(FixedOverheads::FREE);
    let end = |name: &str| {
        let scheduler = registry.schedulers.build(&name.parse().unwrap(), 0);
        let report = run(&simulation, scheduler.unwrap(), jobs);
        let ends = report.jobs.iter().map(|job| job.finish.unwrap().secs());
        (name.to_owned(), ends.fold(0.0, f64::max))
    };
    names.map(end).collect()
}

#[test]
fn parts_that_fit_together_run_together() {
    // A GPU and a half, which three jobs of half a GPU would take with whole GPUs in three hours.
    let late: Vec<_> = makespans(&jobs(&[2, 2, 1, 1], 4));
    let late: Vec<_> = late
        .iter()
        .filter(|(_, end)| *end > 3600.0 + 720.0)
        .collect();
    assert!(late.is_empty(), "{late:?}");
}

#[test]
fn parts_that_do_not_fit_take_turns() {
    // Twice what two GPUs hold.
    let late = makespans(&jobs(&[1; 8], 2));
    let late: Vec<_> = late
        .iter()
        .filter(|(_, end)| *end > 7200.0 * 1.25)
        .collect();
    assert!(late.is_empty(), "{late:?}");
}

#[test]
fn admitted_jobs_with_odd_parts_meet_their_deadlines() {
    // Two GPUs hold two of three jobs with 0.6 of a GPU, though all three count 1.8 GPUs.
    let due = |extras: &mut Extras| {
        extras.share = Share::parts(3, 5).unwrap();
        let at = Time::new(3700.0);
        extras.deadlines = vec![Deadline { at, value: 1.0 }];
    };
    let jobs = vec![with(job(0.0, 1, 3600.0), due); 3];
    let simulation = Simulation::new(ClusterSpec::uniform(1, 2))
        .overheads(FixedOverheads::FREE)
        .completion(Exact);
    for name in ["elasticflow", "edf-admission"] {
        let report = run(&simulation, scheduler(name), &jobs);
        let ends: Vec<_> = report.jobs.iter().filter_map(|job| job.outcome).collect();
        let of = |outcome| ends.iter().filter(|its| **its == outcome).count();
        assert_eq!(
            (of(Outcome::Completed), of(Outcome::Rejected)),
            (2, 1),
            "{name}"
        );
        let ended = finishes(&report).into_iter().zip(&ends);
        let on_time = |end: Option<f64>| end.is_some_and(|end| end <= 3700.0);
        let mut done = ended.filter(|(_, outcome)| **outcome == Outcome::Completed);
        assert!(done.all(|(end, _)| on_time(end)), "{name}");
    }
}
