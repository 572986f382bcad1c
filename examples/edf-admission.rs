//! Earliest deadline first with admission control, composed by hand from its parts.
//!
//! `cargo run --release --example edf-admission`

use blox::core::{ClusterSpec, Composition, Seconds};
use blox::policies::{placement::*, scheduling::*};
use blox::sim::Simulation;

#[path = "support/deadlines.rs"]
mod deadlines;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let by_hand = Composition::new("edf-admission")
        .in_rounds(Seconds::new(60.0))
        .joint(
            ElasticFlow::new(Seconds::new(60.0))
                .share(Share::Greedy)
                .expanding(false),
            |roles| roles.admission().scheduling(),
        )
        .placement(Buddy)
        .build()?;
    let Some(by_hand) = blox::cli::backend(by_hand)? else {
        return Ok(());
    };

    let simulation = Simulation::new(ClusterSpec::uniform(4, 4));
    let ours = simulation.run(by_hand, &mut deadlines::jobs()?)?;
    let shipped = simulation.run(blox::schedulers::edf_admission(), &mut deadlines::jobs()?)?;
    assert_eq!(ours.jobs, shipped.jobs);
    let met = ours.summary.deadlines.map_or(0, |d| d.met);
    println!(
        "edf-admission by hand: {} jobs as blox::schedulers::edf_admission() has them, {met} deadlines met",
        ours.jobs.len()
    );
    Ok(())
}
