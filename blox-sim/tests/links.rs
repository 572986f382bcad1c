//! Jobs that share links of nodes.

use crate::{listing, run};
use blox_core::order::SortKey;
use blox_core::policy::by_key;
use blox_core::{
    ClusterSpec, Composition, Curve, Extras, GpuCount, JobId, JobSpec, Name, Seconds, Time,
};
use blox_sim::Simulation;
use blox_sim::execution::{FixedRate, LinkBound, Traffic};
use blox_sim::workload::Jobs;
use blox_testing::FirstFit;

fn took(cluster: &str, gpus: u32, communication: f64) -> f64 {
    let job = JobSpec::new(Time::ZERO, GpuCount(gpus), Seconds::new(1000.0)).with_extras(Extras {
        communication,
        ..Extras::default()
    });
    let fifo = Composition::new("fifo")
        .scheduling(by_key(|job| SortKey::by(job.submit().secs())))
        .placement(FirstFit)
        .build()
        .unwrap();
    let report = Simulation::new(cluster.parse::<ClusterSpec>().unwrap())
        .execution(LinkBound::default())
        .completion(blox_sim::completion::Exact)
        .run(fifo, &mut Jobs::new(vec![job]))
        .unwrap();
    report.end.secs()
}

#[test]
fn slower_links_cost_in_proportion_to_traffic() {
    // First fit takes GPUs 0 and 1, which have one NVLink; the best pair has two.
    assert_eq!(took("1x4@p3.8xlarge", 2, 0.25), 1250.0);
    assert_eq!(took("1x4@p3.8xlarge", 4, 0.25), 1000.0);
    assert_eq!(took("1x4@p3.8xlarge", 2, 0.0), 1000.0);
    assert_eq!(took("1x4@p3.8xlarge", 1, 0.25), 1000.0);
    // 1.25 of 50 GB/s between nodes.
    assert_eq!(
        took("2x4@p3.8xlarge,network=10", 8, 0.25),
        1000.0 * (0.75 + 0.25 * 40.0)
    );
    assert_eq!(took("2x4", 8, 0.25), 1000.0);
}

#[test]
fn traffic_and_communication_slow_a_job_once() {
    let steps = [(0.0, 20.0), (0.025, 0.0)];
    let steps = steps.map(|(at, gbps)| (Seconds::new(at), gbps));
    let job = JobSpec::new(Time::ZERO, GpuCount(8), Seconds::new(1000.0)).with_extras(Extras {
        communication: 0.25,
        traffic: Curve::new(Seconds::new(0.1), steps),
        ..Extras::default()
    });
    let fifo = Composition::new("fifo")
        .scheduling(by_key(|job| SortKey::by(job.submit().secs())))
        .placement(FirstFit)
        .build()
        .unwrap();
    // The nodes have their best links within. Between them, 20 of 10 Gbit/s in a quarter of the time.
    let cluster: ClusterSpec = "2x4@p3.8xlarge,network=10".parse().unwrap();
    let report = Simulation::new(cluster)
        .execution(Traffic::over(LinkBound::default()))
        .completion(blox_sim::completion::Exact)
        .run(fifo, &mut Jobs::new(vec![job]))
        .unwrap();
    assert_eq!(report.end.secs(), 1250.0);
}

/// Returns the ends of jobs on two rows of two racks of two nodes with two GPUs. Each job has a
/// number of GPUs, a duration and a traffic in Gbit/s. Jobs take GPUs in order.
fn ends(jobs: &[(u32, f64, f64)]) -> Vec<f64> {
    let mut cluster: ClusterSpec = "8x2,network=100:50:20".parse().unwrap();
    for (i, node) in cluster.nodes.iter_mut().enumerate() {
        let rack = Name::from(format!("rack-{}", i / 2 % 2));
        node.location = vec![Name::from(format!("row-{}", i / 4)), rack];
    }
    let job = |(gpus, duration, gbps): &(u32, f64, f64)| {
        let job = JobSpec::new(Time::ZERO, GpuCount(*gpus), Seconds::new(*duration));
        job.with_extras(Extras {
            traffic: Curve::new(Seconds::new(0.1), [(Seconds::ZERO, *gbps)]),
            ..Extras::default()
        })
    };
    let fifo = Composition::new("fifo")
        .scheduling(by_key(|job| SortKey::by(job.submit().secs())).valid_until_event())
        .placement(FirstFit)
        .build()
        .unwrap();
    let report = Simulation::new(cluster)
        .execution(Traffic::over(FixedRate))
        .completion(blox_sim::completion::Exact)
        .run(fifo, &mut Jobs::new(jobs.iter().map(job).collect()))
        .unwrap();
    let ends = report.jobs.iter().filter_map(|job| job.finish);
    ends.map(|end| end.secs().round()).collect()
}

#[test]
fn the_slowest_link_of_three_levels_counts() {
    // GPUs 0 to 2 are taken. A has 3 and 4 in two racks, B 5 and 6 in one, C 7 and 8 in two rows,
    // and D 9 to 11 in one rack.
    let on = |of_c: f64| {
        let (none, a, b) = ((3, 100.0, 0.0), (2, 3000.0, 40.0), (2, 3500.0, 80.0));
        ends(&[none, a, b, (2, of_c, 30.0), (3, 3500.0, 90.0)])
    };
    // A: 70 of 50 Gbit/s in its second rack, beside C. B: 120 of 100 in its first node, beside A.
    // C: 30 of 20 in its rows. D: 120 of 100 in its first node, beside C.
    assert_eq!(on(2800.0), [100.0, 4200.0, 4200.0, 4200.0, 4200.0]);
    // After C, A has 120 of 100 in its second node, beside B, and D has enough. After A, B has, too.
    assert_eq!(on(1400.0), [100.0, 3900.0, 4150.0, 2100.0, 3850.0]);
    // Within a node, there is no link.
    assert_eq!(ends(&[(2, 50.0, 900.0), (1, 60.0, 900.0)]), [50.0, 60.0]);
}

#[test]
fn a_stopped_job_leaves_its_link_to_others() {
    let job = || {
        let job = JobSpec::new(Time::ZERO, GpuCount(3), Seconds::new(1000.0));
        job.with_extras(Extras {
            traffic: Curve::new(Seconds::new(0.1), [(Seconds::ZERO, 75.0)]),
            ..Extras::default()
        })
    };
    let simulation = Simulation::new("3x2,network=100".parse::<ClusterSpec>().unwrap())
        .execution(Traffic::over(FixedRate))
        .completion(blox_sim::completion::Exact);
    // Both jobs have a GPU of the second node. The second job pauses from 600 s to 1,500 s.
    let pauses = listing(|job, now| job == JobId(0) || !(600.0..1500.0).contains(&now));
    let report = run(&simulation, pauses, &[job(), job()]);
    let ends = report.jobs.iter().filter_map(|job| job.finish);
    let ends: Vec<f64> = ends.map(|end| end.secs().round()).collect();
    // 150 of 100 Gbit/s until 600 s, when 400 s of work are done.
    assert_eq!(ends, [1200.0, 2100.0]);
}
