//! Synergy: CPUs and memory by what they are worth to each job, composed by hand from its parts.
//!
//! `cargo run --release --example synergy`

use blox::core::{ClusterSpec, Composition, Extras, Seconds, perf::Sensitivity};
use blox::policies::{placement::*, scheduling::*};
use blox::sim::workload::generate::blox::BloxWorkload;
use blox::sim::{Simulation, workload::*};
use std::sync::Arc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let by_hand = Composition::new("synergy")
        .scheduling(StarvationGuard::new(
            Fifo::default(),
            Seconds::from_hours(1000.0),
        ))
        .placement(Synergy::new(Consolidated::default()).with(Allocation::Tune))
        .build()?;
    let Some(by_hand) = blox::cli::backend(by_hand)? else {
        return Ok(());
    };

    let mut cluster = ClusterSpec::uniform(8, 4);
    for node in &mut cluster.nodes {
        (node.cpus, node.memory_gib) = (12.0, 240.0);
    }
    // Every other job is twice as fast with nine CPUs a GPU as with three.
    let speed = vec![vec![0.4], vec![1.0], vec![2.0]];
    let hungry = Arc::new(Sensitivity::new(vec![1.0, 3.0, 9.0], vec![0.0], speed)?);
    let mut all = collect(&mut Limited::new(BloxWorkload::new(2.5)?, 400))?;
    for (i, job) in all.iter_mut().enumerate() {
        let each = if i % 2 == 0 { 9.0 } else { 1.0 };
        let extras = Extras {
            cpus: each * f64::from(job.gpus.get()),
            sensitivity: (i % 2 == 0).then(|| Arc::clone(&hungry)),
            ..Extras::default()
        };
        *job = job.clone().with_extras(extras);
    }

    let simulation = Simulation::new(cluster);
    let ours = simulation.run(by_hand, &mut Jobs::new(all.clone()))?;
    let shipped = simulation.run(blox::schedulers::synergy(), &mut Jobs::new(all))?;
    assert_eq!(ours.jobs, shipped.jobs);
    let (n, avg) = (ours.jobs.len(), ours.summary.avg_jct_s);
    println!(
        "synergy by hand: {n} jobs as blox::schedulers::synergy() has them, average JCT {avg:.1} s"
    );
    Ok(())
}
