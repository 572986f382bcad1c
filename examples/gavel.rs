//! Gavel: shares of time over types of GPUs, realised in rounds; composed by hand from its parts.
//!
//! `cargo run --release --example gavel`

use blox::core::{ClusterSpec, Composition, Extras, Rounds, Seconds, perf::TypeSpeeds};
use blox::policies::{
    placement::*,
    scheduling::gavel::{Gavel, shares::*},
};
use blox::sim::compat::blox_workload::BloxWorkload;
use blox::sim::{Simulation, workload::*};
use std::sync::Arc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let round = Seconds::new(360.0);
    let by_hand = Composition::new("gavel")
        .cadence(Rounds::every(round).unwrap_or_default())
        .scheduling(Gavel::new(MaxMinFairness::new(Knows::Types)).in_rounds_of(round))
        .placement(Leases::new(Consolidated::default()))
        .build();
    let Some(by_hand) = blox::cli::backend(by_hand)? else {
        return Ok(());
    };

    // Half of the jobs are ten times as fast on a V100 as on a K80, the others twice.
    let speeds = [10.0, 2.0].map(|gain| {
        let mut speeds = TypeSpeeds::default();
        speeds.set("k80", 1.0 / gain);
        speeds.set("v100", 1.0);
        Arc::new(speeds)
    });
    let mut all = collect(&mut Limited::new(BloxWorkload::new(2.0)?, 300))?;
    for (i, job) in all.iter_mut().enumerate() {
        let extras = Extras {
            speeds: Some(Arc::clone(&speeds[i % 2])),
            ..Extras::default()
        };
        *job = job.clone().with_extras(extras);
    }

    let cluster: ClusterSpec = "10x4:k80,6x4:v100".parse()?;
    let simulation = Simulation::new(cluster);
    let ours = simulation.run(by_hand, &mut Jobs::new(all.clone()))?;
    let shipped = simulation.run(blox::schedulers::gavel(), &mut Jobs::new(all.clone()))?;
    assert_eq!(ours.jobs, shipped.jobs);
    let blind = blox::schedulers::gavel_with(blox::schedulers::GavelParams {
        knows: Knows::Nothing,
        ..Default::default()
    });
    let blind = simulation.run(blind, &mut Jobs::new(all))?;
    assert!(ours.summary.avg_jct_s < blind.summary.avg_jct_s);
    println!(
        "gavel by hand: {} jobs as blox::schedulers::gavel() has them, average JCT {:.1} s; {:.1} s if all GPUs count alike",
        ours.jobs.len(),
        ours.summary.avg_jct_s,
        blind.summary.avg_jct_s
    );
    Ok(())
}
