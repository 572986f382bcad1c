//! Simulations of Gandiva, Themis and Chronus with the behavior of their papers.

use crate::cases::{assigned, ends, job, with};
use blox::core::{ClusterSpec, GpuCount, JobSpec, Pipeline};
use blox::schedulers as shipped;
use blox::sim::Simulation;
use blox::sim::completion::Exact;
use blox::sim::results::AssignmentRow;

/// Returns the end of each job in seconds, and all assignments.
fn run(
    cluster: ClusterSpec,
    scheduler: Pipeline,
    jobs: Vec<JobSpec>,
) -> (Vec<f64>, Vec<AssignmentRow>) {
    let exact = Simulation::new(cluster).completion(Exact);
    let (report, rows) = assigned(&exact, scheduler, &jobs);
    (ends(&report), rows)
}

fn gandiva(packing: bool, growing: bool) -> Pipeline {
    let named = format!("gandiva{{packing={packing},growing={growing}}}");
    let built = blox::registry()
        .schedulers
        .build(&named.parse().unwrap(), 0);
    built.unwrap()
}

#[test]
fn gandiva_packs_jobs_that_leave_their_gpus_idle() {
    let busy = |part: f64| {
        with(job(0.0, 1, 600.0), |e| {
            e.attributes.insert("gpu_utilisation".into(), part.into());
        })
    };
    let one = || ClusterSpec::uniform(1, 1);
    let both = |part: f64| vec![busy(part), busy(part)];
    // Each runs alone for a minute, and then beside the other.
    assert_eq!(run(one(), gandiva(true, true), both(0.5)).0, [660.0, 660.0]);
    // The jobs alternate, one minute each.
    let (ends, _) = run(one(), gandiva(false, true), both(0.5));
    assert_eq!(ends, [1140.0, 1200.0]);
    let (ends, _) = run(one(), gandiva(true, true), both(0.8));
    assert_eq!(ends, [1140.0, 1200.0]);
}

#[test]
fn gandiva_grows_onto_idle_gpus_and_shrinks_back() {
    let elastic = with(job(0.0, 1, 600.0), |e| {
        (e.levels, e.rates) = (vec![GpuCount(1), GpuCount(2)], vec![1.0, 2.0]);
    });
    let two = || ClusterSpec::uniform(1, 2);
    let alone = |growing| run(two(), gandiva(true, growing), vec![elastic.clone()]).0;
    assert_eq!(alone(true), [330.0]);
    assert_eq!(alone(false), [600.0]);
    // The first job has done 180 s of work when it shrinks at the next slice.
    let jobs = vec![elastic.clone(), job(90.0, 1, 600.0)];
    assert_eq!(run(two(), gandiva(true, true), jobs).0, [540.0, 720.0]);
}

#[test]
fn gandiva_groups_sizes_and_moves_jobs_to_one_node() {
    let jobs = vec![
        job(0.0, 1, 120.0),
        job(0.0, 1, 240.0),
        job(0.0, 1, 2000.0),
        job(1.0, 2, 2000.0),
    ];
    let (_, rows) = run(ClusterSpec::uniform(2, 2), gandiva(true, true), jobs);
    let of = |id: u32| -> Vec<Vec<u32>> {
        let rows = rows.iter().filter(|r| r.job.0 == id);
        rows.map(|r| r.gpus.iter().map(|g| g.0).collect()).collect()
    };
    assert_eq!((of(0), of(1)), (vec![vec![0]], vec![vec![1]]));
    // First over both nodes when the first job has ended, then on the node that the second job
    // leaves.
    assert_eq!(of(3), [vec![0, 3], vec![0, 1]]);
}

#[test]
fn chronus_finds_an_order_with_jobs_on_one_node() {
    // In order of remaining time, the last job would span both nodes.
    let jobs = [(1, 100.0), (1, 200.0), (3, 300.0), (3, 400.0)];
    let jobs = jobs.map(|(gpus, seconds)| job(0.0, gpus, seconds)).to_vec();
    let (ends, rows) = run(ClusterSpec::uniform(2, 4), shipped::chronus(), jobs);
    assert_eq!(ends, [100.0, 200.0, 300.0, 400.0]);
    let on_one = |row: &AssignmentRow| {
        let first = row.gpus[0].0 / 4;
        row.gpus.iter().all(|g| g.0 / 4 == first)
    };
    assert!(rows.iter().all(on_one), "{rows:?}");
}

#[test]
fn themis_gives_the_lease_to_the_worst_off_job() {
    // The short job waits for the end of the first lease.
    let jobs = vec![job(0.0, 2, 30_000.0), job(1.0, 2, 100.0)];
    let (ends, _) = run(ClusterSpec::uniform(1, 2), shipped::themis(), jobs);
    // The long job continues with the next round.
    assert_eq!(ends, [30_120.0, 700.0]);
}
