//! Quasi-shortest service first, composed by hand from its parts, with beliefs that err.
//!
//! `cargo run --release --example qssf`

use blox::core::{ClusterSpec, Composition, Seconds};
use blox::policies::{estimate::NoisyOracle, placement::*, scheduling::*};
use blox::sim::workload::generate::blox::BloxWorkload;
use blox::sim::{Simulation, workload::Limited};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let belief = NoisyOracle::new(0.5, 42);
    let by_hand = Composition::new("qssf")
        .in_rounds(Seconds::new(60.0))
        .scheduling(Qssf::with(belief))
        .placement(Walk::new(Consolidated::default()))
        .build()?;
    let Some(by_hand) = blox::cli::backend(by_hand)? else {
        return Ok(());
    };

    let simulation = Simulation::new(ClusterSpec::uniform(8, 4));
    let jobs = || BloxWorkload::new(2.5).map(|all| Limited::new(all, 400));
    let ours = simulation.run(by_hand, &mut jobs()?)?;
    let shipped = simulation.run(blox::schedulers::qssf_with(belief), &mut jobs()?)?;
    assert_eq!(ours.jobs, shipped.jobs);
    let (n, avg) = (ours.jobs.len(), ours.summary.avg_jct_s);
    println!(
        "qssf by hand: {n} jobs as blox::schedulers::qssf_with() has them, average JCT {avg:.1} s"
    );
    Ok(())
}
