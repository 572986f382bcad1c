//! Finish-time fairness over types of GPUs, by optimisation; composed by hand from its parts.
//!
//! `cargo run --release --example finish-time-fairness`

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
    let by_hand = Composition::new("finish-time-fairness")
        .in_rounds(round)
        .scheduling(Gavel::new(FinishTimeShares::new(Knows::Types)).in_rounds_of(round))
        .placement(Leases::new(Consolidated::default()))
        .build()?;
    let Some(by_hand) = blox::cli::backend(by_hand)? else {
        return Ok(());
    };

    let simulation = Simulation::new("10x4:k80,6x4:v100".parse::<ClusterSpec>()?);
    let ours = simulation.run(by_hand, &mut gpu_types::jobs()?)?;
    let shipped = simulation.run(
        blox::schedulers::finish_time_fairness(),
        &mut gpu_types::jobs()?,
    )?;
    assert_eq!(ours.jobs, shipped.jobs);
    let fifo = simulation.run(blox::schedulers::fifo(), &mut gpu_types::jobs()?)?;
    assert!(ours.summary.avg_jct_s < fifo.summary.avg_jct_s);
    println!(
        "finish-time-fairness by hand: {} jobs as blox::schedulers::finish_time_fairness() has them, average JCT {:.1} s; {:.1} s under fifo",
        ours.jobs.len(),
        ours.summary.avg_jct_s,
        fifo.summary.avg_jct_s
    );
    Ok(())
}
