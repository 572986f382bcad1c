//! Jobs that slow each other on a node end when a calculation by hand says.

use crate::{composed, fifo, fifo_at_events};
use blox_core::{
    ClusterSpec, GpuCount, JobId, JobQueue, JobSpec, OnEvent, Phase, Request, Seconds, Time,
    Validity, View, policy::scheduling_fn,
};
use blox_sim::execution::{AnyExecution, Contention, ExecutionModel, FixedRate, Shared};
use blox_sim::overheads::FixedOverheads;
use blox_sim::{Simulation, Until, workload::Jobs};
use blox_testing::FirstFit;

/// Jobs of one GPU on nodes of two GPUs: submission and work in seconds; when each ends.
fn ends(model: impl ExecutionModel, nodes: usize, jobs: &[(f64, f64)]) -> Vec<f64> {
    let spec = |&(at, s): &(f64, f64)| JobSpec::new(Time::new(at), GpuCount(1), Seconds::new(s));
    let mut jobs = Jobs::new(jobs.iter().map(spec).collect());
    let report = Simulation::new(ClusterSpec::uniform(nodes, 2))
        .execution(model)
        .run(fifo_at_events(), &mut jobs)
        .unwrap();
    let ends = report.jobs.iter().filter_map(|j| j.finish);
    ends.map(|t| t.secs()).collect()
}

fn model() -> Contention<FixedRate> {
    Contention::over(FixedRate, 0.5)
}

#[test]
fn a_neighbour_that_ends_gives_speed_back() {
    assert_eq!(
        ends(model(), 1, &[(0.0, 3600.0), (0.0, 1200.0)]),
        [4200.0, 1800.0]
    );
}

#[test]
fn jobs_without_work_left_end_together_in_rounds() {
    // At two thirds of their speed, the ends at 1,050 s are seen in the round of 1,200 s.
    for (work, seen) in [(700.0, 1200.0), (600.0, 900.0), (100.0, 300.0)] {
        let job = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(work));
        let report = Simulation::new(ClusterSpec::uniform(1, 2))
            .execution(model())
            .run(fifo(), &mut Jobs::new(vec![job; 2]))
            .unwrap();
        let ends = report.jobs.iter().filter_map(|j| j.finish);
        assert_eq!(ends.map(Time::secs).collect::<Vec<_>>(), [seen, seen]);
    }
}

#[test]
fn a_neighbour_that_comes_takes_speed() {
    // 1,500 s alone, then 1,800 s at two thirds, then the last 900 s alone.
    let found = ends(model(), 1, &[(0.0, 3600.0), (1500.0, 1200.0)]);
    assert_eq!(found, [4200.0, 3300.0]);
}

#[test]
fn a_neighbour_that_follows_at_once_keeps_the_speed() {
    // The third takes the GPU of the second when that ends: the first never runs alone until 3,600 s.
    let found = ends(model(), 1, &[(0.0, 3000.0), (0.0, 1200.0), (0.0, 1200.0)]);
    assert_eq!(found, [4200.0, 1800.0, 3600.0]);
}

#[test]
fn jobs_on_other_nodes_change_nothing() {
    let found = ends(model(), 2, &[(0.0, 3600.0), (0.0, 1200.0), (0.0, 900.0)]);
    assert_eq!(found, [4200.0, 1800.0, 900.0]);
}

#[test]
fn a_model_around_it_passes_the_neighbours_on() {
    let found = ends(Shared::over(model()), 1, &[(0.0, 3600.0), (0.0, 1200.0)]);
    assert_eq!(found, [4200.0, 1800.0]);
    let boxed: Box<dyn AnyExecution> = Box::new(model());
    assert_eq!(
        ends(boxed, 1, &[(0.0, 3600.0), (0.0, 1200.0)]),
        [4200.0, 1800.0]
    );
}

#[test]
fn a_job_that_launches_slows_none_before_it_runs() {
    let overheads = FixedOverheads {
        launch: Seconds::new(100.0),
        ..FixedOverheads::default()
    };
    let job = |at, s| JobSpec::new(Time::new(at), GpuCount(1), Seconds::new(s));
    let mut jobs = Jobs::new(vec![job(0.0, 3600.0), job(1400.0, 1200.0)]);
    let report = Simulation::new(ClusterSpec::uniform(1, 2))
        .execution(model())
        .overheads(overheads)
        .run(fifo_at_events(), &mut jobs)
        .unwrap();
    let ends: Vec<f64> = report
        .jobs
        .iter()
        .filter_map(|j| j.finish)
        .map(|t| t.secs())
        .collect();
    // It runs alone from 100 s to 1,500 s, beside the other to 3,300 s, then does the last 1,000 s.
    assert_eq!(ends, [4300.0, 3300.0]);
}

/// A policy that always wants the other of two jobs, beside a third that it slows.
#[test]
fn speeds_that_a_decision_changes_are_no_news() {
    let other = scheduling_fn(|view: View<'_>, out: &mut JobQueue| {
        let steady = view.job(JobId(0)).filter(|job| job.phase() != Phase::Ended);
        let mut waiting = view
            .active()
            .filter(|job| !job.is_placed() && job.id() != JobId(0));
        let next = steady.into_iter().chain(waiting.next());
        next.for_each(|job| out.push(Request::gang(&job)));
        out.stop_unlisted();
        Validity::UntilEvent
    });
    let policy = composed("other", other, FirstFit).with_trigger(OnEvent::with_gap(Seconds::ZERO));
    let job = |at| JobSpec::new(Time::new(at), GpuCount(1), Seconds::new(600.0));
    let mut jobs = Jobs::new([0.0, 60.0, 120.0].map(job).to_vec());
    let simulation = Simulation::new(ClusterSpec::uniform(1, 2)).execution(model());
    let report = simulation
        .until(Until::Time(Time::new(130.0)))
        .run(policy, &mut jobs)
        .unwrap();
    assert_eq!(report.counters.decisions, 3, "one at each arrival");
}
