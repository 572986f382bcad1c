//! Jobs that slow each other on a node end when a calculation by hand says.

use crate::{fifo, fifo_at_events};
use blox_core::{ClusterSpec, GpuCount, JobSpec, Seconds, Time};
use blox_sim::execution::{AnyExecution, Contention, ExecutionModel, FixedRate, Shared};
use blox_sim::overheads::FixedOverheads;
use blox_sim::{Simulation, workload::Jobs};

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
