//! Placement where more than GPUs counts: CPUs, memory, GPU types.

use blox::core::{ClusterSpec, Extras, GpuCount, JobSpec, NodeSpec, Outcome, Seconds, Time};
use blox::sim::{Report, Simulation, workload::Jobs};

fn job(gpus: u32, extras: Extras) -> JobSpec {
    JobSpec::new(Time::ZERO, GpuCount(gpus), Seconds::new(300.0)).with_extras(extras)
}

fn run(placement: &str, cluster: ClusterSpec, jobs: Vec<JobSpec>) -> Report {
    let placement = blox::registry()
        .placement
        .build(&placement.parse().expect("a name"), 0)
        .expect("a placement");
    let scheduler = blox::schedulers::fifo().with_placement(placement).unwrap();
    Simulation::new(cluster)
        .run(scheduler, &mut Jobs::new(jobs))
        .expect("a right plan every time")
}

fn starts(report: &Report) -> Vec<Option<f64>> {
    let start = |j: &blox::sim::results::JobResult| j.first_start.map(|t| t.secs());
    report.jobs.iter().map(start).collect()
}

#[test]
fn jobs_do_not_get_more_cpus_than_a_node_has() {
    let cluster = ClusterSpec {
        nodes: vec![NodeSpec {
            cpus: 8.0,
            memory_gib: 100.0,
            ..NodeSpec::with_gpus(4)
        }],
    };
    let wants = |cpus, memory_gib| {
        let extras = Extras {
            cpus,
            memory_gib,
            ..Extras::default()
        };
        job(1, extras)
    };
    for placement in ["first-free", "consolidated", "consolidated{backfill=easy}"] {
        // Two and two by CPUs; then two and one by memory.
        let cpus = vec![wants(4.0, 0.0); 4];
        let report = run(placement, cluster.clone(), cpus);
        let expected = [Some(0.0), Some(0.0), Some(300.0), Some(300.0)];
        assert_eq!(starts(&report), expected, "{placement}");
        let memory = vec![wants(0.0, 50.0); 3];
        let report = run(placement, cluster.clone(), memory);
        assert_eq!(
            starts(&report),
            [Some(0.0), Some(0.0), Some(300.0)],
            "{placement}"
        );
    }
}

#[test]
fn a_job_of_one_gpu_type_waits_for_it_or_is_turned_away() {
    let cluster: ClusterSpec = "1x4:t4,1x8:a100".parse().expect("a cluster");
    let only = |gpus, gpu_type: &str| {
        let extras = Extras {
            gpu_types: vec![gpu_type.into()],
            ..Extras::default()
        };
        job(gpus, extras)
    };
    let jobs = vec![only(4, "t4"), only(2, "t4"), only(8, "a100"), only(5, "t4")];
    let report = run("consolidated{backfill=skip}", cluster, jobs);
    assert_eq!(starts(&report), [Some(0.0), Some(300.0), Some(0.0), None]);
    assert_eq!(report.jobs[3].outcome, Some(Outcome::Rejected));
    assert_eq!(
        report.jobs[3].reason.as_deref(),
        Some("asks for 5 GPUs, at most 4 are possible")
    );
}
