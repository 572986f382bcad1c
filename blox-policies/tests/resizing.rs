//! Jobs whose shape changes while they run.

use crate::{composed, with};
use blox_core::policy::scheduling_fn;
use blox_core::{
    ClusterSpec, Config, GpuCount, GpuTypeId, JobSpec, NodeSpec, Request, Seconds, Shape, Time,
    Validity,
};
use blox_policies::placement::{Consolidated, Resizing};
use blox_testing::Scenario;

/// Runs a job in its own shape, and requests another from 60 s on. Returns the second decision.
fn changed(cluster: &ClusterSpec, job: JobSpec, to: Shape) -> (Scenario, String) {
    let scheduling = scheduling_fn(move |view, out| {
        for job in view.active() {
            out.push(match view.now() < Time::new(60.0) {
                true => Request::gang(&job),
                false => Request::with_shape(job.id(), to.clone()),
            });
        }
        Validity::NextRound
    });
    let scheduler = composed(scheduling, Resizing::new(Consolidated::default()));
    let mut case = Scenario::new(cluster, scheduler);
    case.submit(0.0, job);
    case.round(0.0);
    let second = case.round(60.0);
    assert_eq!(case.round(120.0), "");
    (case, second)
}

fn job(gpus: u32) -> JobSpec {
    JobSpec::new(Time::ZERO, GpuCount(gpus), Seconds::new(1e6))
}

#[test]
fn batch_changes_on_the_same_gpus() {
    let config = Config::of([("tp", 2.0)]);
    let to = Shape::gpus(GpuCount(2)).with(config.clone());
    let (case, _) = changed(&ClusterSpec::uniform(2, 4), job(2), to);
    let has = case.job(0).assignment().unwrap();
    assert_eq!((&has.config, case.gpus(0)), (&config, Some(vec![0, 1])));
}

#[test]
fn job_moves_to_the_type_of_its_shape() {
    let cluster: ClusterSpec = "1x2:k80,1x2:v100".parse().unwrap();
    let to = |gpus| Shape {
        gpu_type: Some(GpuTypeId(1)),
        ..Shape::gpus(GpuCount(gpus))
    };
    for (has, wants) in [(2, 2), (2, 1), (1, 2)] {
        let (case, _) = changed(&cluster, job(has), to(wants));
        let expected: Vec<u32> = (2..2 + wants).collect();
        assert_eq!(case.gpus(0), Some(expected), "{has} to {wants}");
    }
}

/// Nodes of four GPUs with 8 CPUs and 10 GiB.
fn small_nodes(count: usize) -> ClusterSpec {
    let node = NodeSpec {
        cpus: 8.0,
        memory_gib: 10.0,
        ..NodeSpec::with_gpus(4)
    };
    ClusterSpec {
        nodes: vec![node; count],
        ..ClusterSpec::default()
    }
}

#[test]
fn cpus_and_memory_change_where_the_job_is() {
    let to = Shape {
        cpus: 6.0,
        memory_gib: 9.0,
        ..Shape::gpus(GpuCount(2))
    };
    let wants = with(job(2), |extras| extras.cpus = 2.0);
    let (case, _) = changed(&small_nodes(1), wants, to);
    let has = case.job(0).assignment().unwrap();
    assert_eq!((has.cpus, has.memory_gib), (6.0, 9.0));
    assert_eq!(case.gpus(0), Some(vec![0, 1]));
}

#[test]
fn job_shrinks_to_nodes_with_the_memory() {
    let to = |gpus| Shape {
        memory_gib: 12.0,
        ..Shape::gpus(GpuCount(gpus))
    };
    let wants = with(job(6), |extras| extras.memory_gib = 12.0);
    let (case, _) = changed(&small_nodes(2), wants.clone(), to(2));
    assert_eq!(case.gpus(0), Some(vec![0, 4]));
    // A single GPU has no node with 12 GiB.
    let (case, second) = changed(&small_nodes(2), wants, to(1));
    assert_eq!(
        (case.gpus(0).map(|gpus| gpus.len()), &*second),
        (Some(6), "")
    );
}

#[test]
fn job_grows_by_the_memory_that_is_left() {
    let to = Shape {
        memory_gib: 18.0,
        ..Shape::gpus(GpuCount(4))
    };
    let wants = with(job(2), |extras| extras.memory_gib = 4.0);
    let (case, _) = changed(&small_nodes(2), wants, to);
    // 13.5 GiB for three GPUs do not fit.
    assert_eq!(case.gpus(0), Some(vec![0, 1, 4, 5]));
}
