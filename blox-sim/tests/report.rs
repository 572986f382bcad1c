//! A report in a file.

use crate::{listing, run};
use blox_core::{
    Class, ClusterSpec, Curve, Deadline, Extras, GpuCount, JobId, JobSpec, Seconds, Time,
};
use blox_sim::{Report, Simulation, Until};

#[test]
fn report_with_all_records_reads_back() {
    let cluster: ClusterSpec = "1x4=3".parse().unwrap();
    let simulation = Simulation::new(cluster)
        .keep_rounds(true)
        .keep_timeline(true)
        .keep_waits(true)
        .explain(Some(JobId(1)))
        .until(Until::Time(Time::new(4000.1)));
    let job = |i: u32, gpus, extras| {
        let submit = Time::new(f64::from(i) * 0.3);
        let job = JobSpec::new(submit, GpuCount(gpus), Seconds::new(1000.0 / 3.0));
        job.named(format!("job-{i}").as_str()).with_extras(extras)
    };
    let spot = Extras {
        class: Class::Spot {
            guaranteed: Seconds::new(3600.0),
        },
        ..Extras::default()
    };
    let urgent = Extras {
        deadlines: vec![Deadline {
            at: Time::new(1000.7),
            value: 1.0,
        }],
        ..Extras::default()
    };
    let service = Extras {
        need: Curve::new(Seconds::from_hours(24.0), [(Seconds::ZERO, 1.5)]),
        ..Extras::default()
    };
    let jobs = [
        job(0, 1, spot),
        job(1, 1, urgent),
        job(2, 1, service),
        // It waits for ever.
        job(3, 2, Extras::default()),
        // It is never possible.
        job(4, 9, Extras::default()),
    ];
    let pauses = listing(|job, now| job.0 < 3 && !(300.0..900.0).contains(&now));
    let report = run(&simulation, pauses, &jobs);
    assert!(!report.rounds.is_empty() && !report.timeline.is_empty());
    assert!(!report.waits.is_empty() && !report.story.is_empty());
    assert!(report.usage.rent.is_some());
    assert!(
        report
            .jobs
            .iter()
            .filter(|job| job.reason_kind.is_some())
            .count()
            >= 2
    );
    let text = serde_json::to_string(&report).unwrap();
    let read: Report = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
    assert_eq!(
        (&read.jobs, &read.rounds, &read.timeline),
        (&report.jobs, &report.rounds, &report.timeline)
    );
    assert_eq!(
        (&read.waits, &read.story, read.usage),
        (&report.waits, &report.story, report.usage)
    );
    assert_eq!(read.reasons(true), report.reasons(true));
}
