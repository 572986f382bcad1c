//! Clusters of several parts.

use crate::by;
use blox_core::{ClusterSpec, GpuCount, JobSpec, Name, NodeSpec, Pipeline, Seconds, Time};
use blox_sim::Simulation;
use blox_sim::virtual_clusters::{nodes_of, simulate};

/// The last submitted job comes first: running jobs are preempted for it.
fn newest_first() -> Pipeline {
    by(|job| -job.submit().secs())
}

fn job(at: f64, gpus: u32, vc: &str) -> JobSpec {
    JobSpec::new(Time::new(at), GpuCount(gpus), Seconds::new(500.0)).in_virtual_cluster(vc)
}

fn cluster() -> ClusterSpec {
    let node = |vc: &str| NodeSpec::with_gpus(4).in_partition(vc);
    ClusterSpec {
        nodes: vec![node("a"), node("b"), node("a"), node("c")],
        ..ClusterSpec::default()
    }
}

#[test]
fn results_do_not_depend_on_threads_or_neighbours() {
    let names = ["a", "b", "c"];
    let jobs: Vec<JobSpec> = (0..60)
        .map(|i| {
            job(
                40.0 * f64::from(i),
                1 + (i as u32 * 7) % 4,
                names[i as usize % 3],
            )
        })
        .collect();
    let run =
        |jobs: &[JobSpec]| simulate(&cluster(), jobs, Simulation::new, |_| newest_first()).unwrap();
    let all = run(&jobs);
    let single = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .unwrap();
    let alone = single.install(|| run(&jobs));
    let only_b: Vec<JobSpec> = jobs
        .iter()
        .filter(|j| j.virtual_cluster.as_deref() == Some("b"))
        .cloned()
        .collect();
    let b = run(&only_b);
    for (x, y) in all.iter().zip(&alone) {
        assert_eq!((&x.name, &x.report.jobs), (&y.name, &y.report.jobs));
    }
    assert_eq!(all[1].report.jobs, b[1].report.jobs);
    assert_eq!(all[1].jobs[..3], [1, 4, 7]);
}

#[test]
fn one_of_them_alone_has_its_own_nodes() {
    assert_eq!(nodes_of(&cluster(), "a").unwrap().nodes.len(), 2);
    assert_eq!(
        nodes_of(&cluster(), "d").unwrap_err(),
        ["a", "b", "c"].map(Name::from)
    );
}

#[test]
fn job_of_an_unknown_virtual_cluster_is_named() {
    let e = simulate(&cluster(), &[job(0.0, 1, "d")], Simulation::new, |_| {
        newest_first()
    });
    let e = e.unwrap_err().to_string();
    assert_eq!(
        e,
        "job 0 is of the virtual cluster `d`, expected one of a, b, c"
    );
}
