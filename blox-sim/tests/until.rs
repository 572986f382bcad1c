//! The ends of simulations.

use crate::{by, composed, fifo, node, run};
use blox_core::{
    Assignment, GpuCount, JobQueue, JobRef, JobSpec, Request, Seconds, Stateless, Time, Validity,
    View, policy::scheduling_fn,
};
use blox_results::Summary;
use blox_sim::execution::{ExecutionModel, Stretch, Turn};
use blox_sim::workload::{Limited, Workload, WorkloadError};
use blox_sim::{Ended, Measure, Until};
use blox_testing::FirstFit;

fn job(submit: f64, duration: f64) -> JobSpec {
    JobSpec::new(Time::new(submit), GpuCount(1), Seconds::new(duration))
}

/// A job of 600 s every 200 s. The third one is long.
#[derive(Clone, Default)]
struct Steady(u32);

impl Workload for Steady {
    fn next_job(&mut self) -> Result<Option<JobSpec>, WorkloadError> {
        self.0 += 1;
        let duration = if self.0 == 3 { 1e5 } else { 600.0 };
        Ok(Some(job(200.0 * f64::from(self.0 - 1), duration)))
    }

    fn describe(&self) -> String {
        "a job every 200 s".to_owned()
    }
}

#[test]
fn time_limit_applies_events_but_makes_no_decision() {
    let jobs = [job(0.0, 300.0), job(0.0, 300.0), job(600.0, 300.0)];
    let until = |s| run(&node(1).until(Until::Time(Time::new(s))), fifo(), &jobs);
    let report = until(600.0);
    assert_eq!(report.ended, Ended::Horizon);
    // The end at 600 s and the arrival at 600 s are applied.
    assert_eq!(report.end, Time::new(600.0));
    let summary = Summary::of(&report);
    assert_eq!(
        (summary.jobs, summary.completed, summary.unfinished),
        (3, 2, 1)
    );
    assert_eq!(Summary::of(&until(599.0)).completed, 1);
    assert_eq!(until(1e9).ended, Ended::Finished);
}

#[test]
fn limit_of_completed_jobs_ends_the_run() {
    let until = node(2)
        .until(Until::Completed(100))
        .measure(Measure::Ids(2, 2));
    let shortest_first = by(|job| job.truth().duration().secs());
    let report = until.run(shortest_first, &mut Steady::default()).unwrap();
    assert_eq!(report.ended, Ended::Horizon);
    assert_eq!(Summary::of(&report).unfinished, 1);
    let completed = report.jobs.iter().filter(|j| j.jct().is_some());
    assert_eq!(completed.count(), 100);
}

#[test]
fn starving_run_of_an_endless_workload_ends() {
    let shortest_first = || by(|job| job.truth().duration().secs());
    let measured = || node(2).measure(Measure::Ids(1, 2));
    let report = measured()
        .run(shortest_first(), &mut Steady::default())
        .unwrap();
    assert_eq!(report.ended, Ended::Starved);
    assert_eq!(
        (
            Summary::of(&report).completed,
            Summary::of(&report).unfinished
        ),
        (1, 1)
    );
    // 6,000,000 s after the only completion of a measured job, at 900 s.
    assert!((6e6..8e6).contains(&report.end.secs()), "{}", report.end);
    // Under another order, the same job ends.
    let report = measured().run(fifo(), &mut Steady::default()).unwrap();
    assert_eq!(report.ended, Ended::Finished);
    // If arrivals end, it starves until then and completes.
    let mut finite = Limited::new(Steady::default(), 40_000);
    let report = measured().run(shortest_first(), &mut finite).unwrap();
    assert_eq!(report.ended, Ended::Finished);
    assert!(report.end.secs() > 1.2e7, "{}", report.end);
}

/// Jobs that never start, although GPUs are free.
#[test]
fn scheduler_that_starts_nothing_is_at_a_standstill() {
    let none = scheduling_fn(|_: View<'_>, _: &mut JobQueue| Validity::NextRound);
    let report = node(2)
        .measure(Measure::Ids(5, 6))
        .run(composed("none", none, FirstFit), &mut Steady::default())
        .unwrap();
    assert_eq!(report.ended, Ended::Standstill);
    assert_eq!(Summary::of(&report).unfinished, 2);
    // A late arrival is no standstill.
    let late = run(&node(1), fifo(), &[job(1e8, 300.0), job(3e8, 300.0)]);
    assert_eq!(late.ended, Ended::Finished);
}

/// Jobs that do 100 s of work and then only turn.
struct Spins;

impl Stateless for Spins {}

impl ExecutionModel for Spins {
    fn rate(&self, (): &mut (), _: View<'_>, _: &JobRef<'_>, _: &Assignment) -> f64 {
        1.0
    }

    fn stretch(&self, (): &mut (), view: View<'_>, _: &JobRef<'_>) -> Option<Stretch> {
        Some(Stretch {
            until: view.now() + Seconds::new(100.0),
            ends: false,
            config: blox_core::Config::NONE,
        })
    }

    fn turn(&self, (): &mut (), _: View<'_>, _: &JobRef<'_>, _: Time) -> Option<Turn> {
        Some(Turn {
            report: None,
            work: 100.0,
            rate: 0.0,
        })
    }
}

#[test]
fn job_without_progress_on_gpus_stands_still() {
    let first = scheduling_fn(|view: View<'_>, out: &mut JobQueue| {
        view.active().for_each(|job| out.push(Request::gang(&job)));
        Validity::NextRound
    });
    let report = run(
        &node(1).execution(Spins),
        composed("first", first, FirstFit),
        &[job(0.0, 600.0)],
    );
    assert_eq!(report.ended, Ended::Standstill);
    assert_eq!(report.jobs[0].reason.as_deref(), Some("running"));
    assert!((6e6..8e6).contains(&report.end.secs()), "{}", report.end);
}

#[test]
fn long_job_is_no_standstill() {
    // 190 years on one GPU, while nodes elsewhere fail and return.
    let report = run(
        &node(1).faults(blox_sim::faults::Faults {
            node_mtbf: Some(Seconds::from_hours(1e5)),
            checkpoint_every: Some(Seconds::from_hours(1.0)),
            ..Default::default()
        }),
        fifo(),
        &[job(0.0, 6e9)],
    );
    assert_eq!(report.ended, Ended::Finished);
}

#[test]
fn epochs_shorter_than_the_clock_resolves_end() {
    let mut tiny = job(1000.0, 1e-5);
    let loss = blox_core::LossReports {
        curve: blox_core::LossCurve {
            b0: 1.0,
            b1: 1.0,
            b2: 0.1,
        },
        epoch: tiny.work.iterations / 100.0,
    };
    tiny = tiny.with_extras(blox_core::Extras {
        loss: Some(loss),
        ..Default::default()
    });
    let report = run(&node(1), fifo(), &[job(0.0, 900.0), tiny]);
    assert_eq!(report.ended, Ended::Finished);
    assert_eq!(report.jobs[1].finish, Some(Time::new(1500.0)));
}

#[test]
fn run_that_ends_early_lasts_until_the_limit() {
    let jobs = [job(0.0, 3600.0), job(0.0, 3500.0)];
    let report = run(
        &node(4).until(Until::Time(Time::new(3599.0))),
        fifo(),
        &jobs,
    );
    assert_eq!(report.end, Time::new(3599.0));
    assert_eq!(Summary::of(&report).makespan_s, 3599.0);
    assert_eq!(Summary::of(&report).utilisation, 0.5);
    assert_eq!(report.jobs[0].attained, Seconds::new(3599.0));
}

#[test]
fn job_that_has_not_arrived_is_unfinished() {
    let jobs = [0.0, 100.0, 50_000.0, 60_000.0].map(|at| job(at, 600.0));
    let counted = |simulation: blox_sim::Simulation| {
        let report = run(&simulation, fifo(), &jobs);
        let s = Summary::of(&report);
        let came = (s.jobs, report.unsubmitted);
        (
            came,
            (s.measured, s.completed, s.unfinished),
            s.is_partial(),
        )
    };
    let until = node(4).until(Until::Time(Time::new(10_000.0)));
    assert_eq!(counted(until.clone()), ((2, 2), (4, 2, 2), true));
    let some = until.clone().measure(Measure::Ids(0, 2));
    assert_eq!(counted(some), ((2, 1), (3, 2, 1), true));
    let early = until.measure(Measure::Submitted(Time::ZERO, Time::new(200.0)));
    assert_eq!(counted(early), ((2, 0), (2, 2, 0), false));
    assert_eq!(counted(node(4)), ((4, 0), (4, 4, 0), false));
}

#[test]
fn range_of_an_endless_workload_is_counted_as_named() {
    let until = |measure| {
        let simulation = node(2).until(Until::Completed(5)).measure(measure);
        let report = simulation.run(fifo(), &mut Steady::default()).unwrap();
        let reasons = report.reasons(false).get("not submitted").copied();
        assert_eq!(reasons.unwrap_or(0), report.unsubmitted);
        (
            Summary::of(&report).measured,
            Summary::of(&report).completed,
        )
    };
    assert_eq!(until(Measure::Ids(20, 30)), (11, 0));
    assert_eq!(until(Measure::Ids(0, u32::MAX)), (1 << 32, 5));
    // Submitted at 4000 s, 4200 s and so on.
    let period = Measure::Submitted(Time::new(4000.0), Time::new(5000.0));
    assert_eq!(until(period), (6, 0));
    // All jobs of an endless workload are those that came.
    assert!(until(Measure::All).0 < 100);
}

#[test]
fn interrupted_run_counts_its_whole_range() {
    let watch = std::sync::Arc::new(blox_sim::Watch::default());
    watch.stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let simulation = node(2).measure(Measure::Ids(20, 30)).watched_by(watch);
    let report = simulation.run(fifo(), &mut Steady::default()).unwrap();
    assert_eq!(report.ended, Ended::Interrupted);
    assert_eq!(
        (
            Summary::of(&report).measured,
            Summary::of(&report).unfinished
        ),
        (11, 11)
    );
}
