//! Gavel: shares of time over types of GPUs, realised in rounds; composed by hand from its parts.
//!
//! `cargo run --release --example gavel`

use blox::core::{ClusterSpec, Composition, Seconds};
use blox::policies::{
    placement::*,
    scheduling::gavel::{Gavel, shares::*},
};
use blox::sim::Simulation;

#[path = "support/gpu_types.rs"]
mod gpu_types;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let round = Seconds::new(360.0);
    let by_hand = Composition::new("gavel")
        .in_rounds(round)
        .scheduling(Gavel::new(MaxMinFairness::new(Knows::Types)).in_rounds_of(round))
        .placement(Leases::new(Consolidated::default()))
        .build()?;
    let Some(by_hand) = blox::cli::backend(by_hand)? else {
        return Ok(());
    };

    let cluster: ClusterSpec = "10x4:k80,6x4:v100".parse()?;
    let simulation = Simulation::new(cluster);
    let ours = simulation.run(by_hand, &mut gpu_types::jobs()?)?;
    let shipped = simulation.run(blox::schedulers::gavel(), &mut gpu_types::jobs()?)?;
    assert_eq!(ours.jobs, shipped.jobs);
    let blind = blox::schedulers::gavel_with(blox::schedulers::GavelParams {
        knows: Knows::Nothing,
        ..Default::default()
    });
    let blind = simulation.run(blind, &mut gpu_types::jobs()?)?;
    assert!(ours.summary.avg_jct_s < blind.summary.avg_jct_s);
    println!(
        "gavel by hand: {} jobs as blox::schedulers::gavel() has them, average JCT {:.1} s; {:.1} s if all GPUs count alike",
        ours.jobs.len(),
        ours.summary.avg_jct_s,
        blind.summary.avg_jct_s
    );
    Ok(())
}
