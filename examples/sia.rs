//! Types and numbers of GPUs by an integer program, composed by hand from its parts.
//!
//! `cargo run --release --example sia`

use blox::core::{ClusterSpec, Composition, Seconds};
use blox::policies::{placement::*, scheduling::*};
use blox::sim::Simulation;
use blox::sim::overheads::CheckpointRestart;

#[path = "support/training.rs"]
mod training;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let by_hand = Composition::new("sia")
        .in_rounds(Seconds::new(60.0))
        .scheduling(Sia::default())
        .placement(KeepNodes)
        .build()?;
    let Some(by_hand) = blox::cli::backend(by_hand)? else {
        return Ok(());
    };

    let cluster: ClusterSpec = "4x4:aws,1x8:dgx-ext".parse()?;
    let simulation = Simulation::new(cluster).overheads(CheckpointRestart::default());
    let ours = simulation.run(by_hand, &mut training::jobs())?;
    let shipped = simulation.run(blox::schedulers::sia(), &mut training::jobs())?;
    assert_eq!(ours.jobs, shipped.jobs);
    println!(
        "sia by hand: {} jobs as blox::schedulers::sia() has them, average JCT {:.0} s",
        ours.jobs.len(),
        ours.summary.avg_jct_s
    );
    Ok(())
}
