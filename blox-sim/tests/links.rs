//! Jobs that share links of nodes.

use blox_core::order::SortKey;
use blox_core::policy::by_key;
use blox_core::{ClusterSpec, Composition, Extras, GpuCount, JobSpec, Seconds, Time};
use blox_sim::Simulation;
use blox_sim::execution::LinkBound;
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
        took("2x4@p3.8xlarge", 8, 0.25),
        1000.0 * (0.75 + 0.25 * 40.0)
    );
    assert_eq!(took("2x4", 8, 0.25), 1000.0);
}
