//! Schedulers by name: what they promise of jobs that any of them may meet.

use blox_core::registry::Named;
use blox_core::{ClusterSpec, Extras, GpuCount, JobSpec, Pipeline, Seconds, Time};
use blox_sim::results::AssignmentRow;
use blox_sim::workload::Jobs;
use blox_sim::{Report, Simulation};
use std::sync::{Arc, Mutex};

fn scheduler(name: &str) -> Pipeline {
    let named: Named = name.parse().expect("a name");
    let registry = blox_schedulers::registry();
    registry.schedulers.build(&named, 1).expect("a scheduler")
}

/// Submission, GPUs, duration, and types of GPU with `;` between them.
fn jobs(rows: &[(f64, u32, f64, &str)]) -> Vec<JobSpec> {
    let job = |(submit, gpus, duration, types): &(f64, u32, f64, &str)| {
        let types = types.split(';').filter(|t| !t.is_empty());
        let extras = Extras {
            gpu_types: types.map(Into::into).collect(),
            ..Extras::default()
        };
        let (submit, duration) = (Time::new(*submit), Seconds::new(*duration));
        JobSpec::new(submit, GpuCount(*gpus), duration).with_extras(extras)
    };
    rows.iter().map(job).collect()
}

fn run(name: &str, cluster: &str, jobs: Vec<JobSpec>) -> (Report, Vec<AssignmentRow>) {
    let cluster: ClusterSpec = cluster.parse().expect("a cluster");
    let rows = Arc::new(Mutex::new(Vec::<AssignmentRow>::new()));
    let report = Simulation::new(cluster)
        .assignments_to(Some(rows.clone()))
        .run(scheduler(name), &mut Jobs::new(jobs))
        .expect("a right plan every time");
    let rows = rows.lock().expect("nobody else has it").clone();
    (report, rows)
}

#[test]
fn lucid_keeps_jobs_on_the_types_that_they_name() {
    // The first node has v100s; the last ones are set aside to profile.
    for (name, cluster) in [
        ("lucid{profiler_nodes=0}", "1x4:v100,2x4:a100"),
        ("lucid", "1x4:v100,2x4:a100"),
        ("lucid", "4x4:v100,8x4:a100"),
        ("lucid", "8x4:a100,4x4:v100"),
    ] {
        let rows = [(0.0, 4, 600.0, "v100"); 3];
        let mut list = jobs(&rows);
        list.extend(jobs(&[(0.0, 2, 900.0, "a100"), (5.0, 8, 900.0, "a100")]));
        // All of them could share.
        for job in &mut list {
            let extras = job.extras.get_or_insert_default();
            extras.attributes.insert("sharing_score".into(), 0.into());
            extras.attributes.insert("gmem".into(), 100.into());
        }
        let spec: ClusterSpec = cluster.parse().expect("a cluster");
        let per_node = spec.nodes.iter().flat_map(|n| {
            let name = n.gpu_type.clone().expect("all are named");
            (0..n.gpus).map(move |_| name.clone())
        });
        let types: Vec<_> = per_node.collect();
        let (report, rows) = run(name, cluster, list.clone());
        assert_eq!(report.summary.completed, 5, "{name} on {cluster}");
        for row in rows {
            let named = &list[row.job.index()].extras().gpu_types;
            for gpu in &row.gpus {
                let at = &types[gpu.0 as usize];
                assert!(named.contains(at), "{name} on {cluster}: {row:?}");
            }
        }
    }
}
