//! Optimus, composed by hand from its parts.
//!
//! `cargo run --release --example optimus`

use blox::core::{ClusterSpec, Composition, GpuCount, Seconds};
use blox::policies::{placement::*, scheduling::*};
use blox::sim::workload::generate::blox::BloxWorkload;
use blox::sim::{Simulation, workload::Limited, workload::generate::WithLoss};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let by_hand = Composition::new("optimus")
        .in_rounds(Seconds::new(600.0))
        .scheduling(LossTermination::new(
            Optimus::default().at_most(GpuCount(16)),
        ))
        .placement(Resizing::new(Consolidated::default()))
        .build()?;
    let Some(by_hand) = blox::cli::backend(by_hand)? else {
        return Ok(());
    };

    let simulation = Simulation::new(ClusterSpec::uniform(8, 4));
    let jobs = || BloxWorkload::new(2.5).map(|all| WithLoss::new(Limited::new(all, 400), 1));
    let ours = simulation.run(by_hand, &mut jobs()?)?;
    let shipped = simulation.run(blox::schedulers::optimus(), &mut jobs()?)?;
    assert_eq!(ours.jobs, shipped.jobs);
    let (n, avg) = (ours.jobs.len(), ours.summary.avg_jct_s);
    println!(
        "optimus by hand: {n} jobs as blox::schedulers::optimus() has them, average JCT {avg:.1} s"
    );
    Ok(())
}
