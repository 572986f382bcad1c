//! Stops of jobs by class.

use crate::{listing, node, run};
use blox_core::{Class, Extras, GpuCount, JobId, JobSpec, Seconds, Time};
use blox_results::Summary;

#[test]
fn stop_at_the_end_of_a_guarantee_does_not_break_it() {
    let job = |class| {
        let job = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(1000.0));
        job.with_extras(Extras {
            class,
            ..Extras::default()
        })
    };
    let spot = |secs| {
        let guaranteed = Seconds::new(secs);
        job(Class::Spot { guaranteed })
    };
    let jobs = [
        spot(599.0),
        spot(600.0),
        spot(601.0),
        job(Class::Guaranteed),
        spot(9000.0),
    ];
    // All but the last job pause from 600 s to 900 s.
    let pauses = listing(|job, now| job == JobId(4) || !(600.0..900.0).contains(&now));
    let report = run(&node(5), pauses, &jobs);
    let broken: Vec<u32> = report.jobs.iter().map(|job| job.broken).collect();
    assert_eq!(broken, [0, 0, 1, 0, 0]);
    let evictions = Summary::of(&report).evictions.unwrap();
    assert_eq!(
        (evictions.guaranteed, evictions.spot, evictions.broken),
        (1, 3, 1)
    );
}
