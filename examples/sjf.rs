//! Shortest job first, composed by hand from its parts.
//!
//! `cargo run --release --example sjf`

use blox::core::{ClusterSpec, Composition, Seconds};
use blox::policies::{placement::*, scheduling::*};
use blox::sim::workload::generate::blox::BloxWorkload;
use blox::sim::{Simulation, workload::Limited};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let by_hand = Composition::new("sjf")
        .in_rounds(Seconds::new(300.0))
        .scheduling(Sjf::default())
        .placement(Walk::new(Consolidated::default()))
        .build()?;
    let Some(by_hand) = blox::cli::backend(by_hand)? else {
        return Ok(());
    };

    let simulation = Simulation::new(ClusterSpec::uniform(8, 4));
    let jobs = || BloxWorkload::new(2.5).map(|all| Limited::new(all, 400));
    let ours = simulation.run(by_hand, &mut jobs()?)?;
    let shipped = simulation.run(blox::schedulers::sjf(), &mut jobs()?)?;
    assert_eq!(ours.jobs, shipped.jobs);
    let (n, avg) = (ours.jobs.len(), ours.summary.avg_jct_s);
    println!("sjf by hand: {n} jobs as blox::schedulers::sjf() has them, average JCT {avg:.1} s");
    Ok(())
}
