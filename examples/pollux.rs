//! Allocations by a genetic search, composed by hand from its parts.
//!
//! `cargo run --release --example pollux`

use blox::core::{ClusterSpec, Composition, Seconds};
use blox::policies::{placement::*, scheduling::*};
use blox::schedulers::{PolluxParams, pollux_with};
use blox::sim::Simulation;
use blox::sim::overheads::CheckpointRestart;

#[path = "support/training.rs"]
mod training;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A short search is enough for an example.
    let search = PolluxSettings {
        population: 20,
        generations: 20,
        patience: 5,
        ..PolluxSettings::default()
    };
    let by_hand = Composition::new("pollux")
        .in_rounds(Seconds::new(60.0))
        .scheduling(Pollux::new(search))
        .placement(OnNodes)
        .build()?;
    let Some(by_hand) = blox::cli::backend(by_hand)? else {
        return Ok(());
    };

    let cluster: ClusterSpec = "4x4:aws".parse()?;
    let simulation = Simulation::new(cluster).overheads(CheckpointRestart::default());
    let ours = simulation.run(by_hand, &mut training::jobs())?;
    let shipped = pollux_with(PolluxParams {
        search,
        ..PolluxParams::default()
    });
    let shipped = simulation.run(shipped, &mut training::jobs())?;
    assert_eq!(ours.jobs, shipped.jobs);
    println!(
        "pollux by hand: {} jobs as blox::schedulers::pollux_with() has them, average JCT {:.0} s",
        ours.jobs.len(),
        ours.summary.avg_jct_s
    );
    Ok(())
}
