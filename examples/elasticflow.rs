//! ElasticFlow: deadlines guaranteed for elastic jobs, composed by hand from its parts.
//!
//! `cargo run --release --example elasticflow`

use blox::core::{ClusterSpec, Composition, Seconds};
use blox::policies::{placement::*, scheduling::*};
use blox::sim::Simulation;

#[path = "support/deadlines.rs"]
mod deadlines;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let by_hand = Composition::new("elasticflow")
        .in_rounds(Seconds::new(60.0))
        .joint(ElasticFlow::new(Seconds::new(60.0)), |roles| {
            roles.admission().scheduling()
        })
        .placement(Buddy)
        .build()?;
    let Some(by_hand) = blox::cli::backend(by_hand)? else {
        return Ok(());
    };

    let simulation = Simulation::new(ClusterSpec::uniform(4, 4));
    let ours = simulation.run(by_hand, &mut deadlines::jobs()?)?;
    let shipped = simulation.run(blox::schedulers::elasticflow(), &mut deadlines::jobs()?)?;
    assert_eq!(ours.jobs, shipped.jobs);
    let met = ours.summary.deadlines.map_or(0, |d| d.met);
    println!(
        "elasticflow by hand: {} jobs as blox::schedulers::elasticflow() has them, {met} deadlines met",
        ours.jobs.len()
    );
    Ok(())
}
