//! Leases for jobs with deadlines, composed by hand from its parts.
//!
//! `cargo run --release --example chronus`

use blox::core::{ClusterSpec, Composition, Seconds};
use blox::policies::{placement::*, scheduling::*};
use blox::sim::Simulation;

#[path = "support/deadlines.rs"]
mod deadlines;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let by_hand = Composition::new("chronus")
        .in_rounds(Seconds::new(240.0))
        .joint(Chronus::new(Seconds::new(240.0)), |roles| {
            roles.admission().scheduling()
        })
        .placement(LocalSearch::default())
        .build()?;
    let Some(by_hand) = blox::cli::backend(by_hand)? else {
        return Ok(());
    };

    let simulation = Simulation::new(ClusterSpec::uniform(4, 4));
    let ours = simulation.run(by_hand, &mut deadlines::jobs()?)?;
    let shipped = simulation.run(blox::schedulers::chronus(), &mut deadlines::jobs()?)?;
    assert_eq!(ours.jobs, shipped.jobs);
    let met = ours.summary.deadlines.map_or(0, |d| d.met);
    println!(
        "chronus by hand: {} jobs as blox::schedulers::chronus() has them, {met} deadlines met",
        ours.jobs.len()
    );
    Ok(())
}
