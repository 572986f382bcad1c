//! Tiresias' two-dimensional LAS and its placement by skew, composed by hand from their parts.
//!
//! `cargo run --release --example tiresias`

use blox::core::{ClusterSpec, Composition, Seconds, perf::SkewTable};
use blox::policies::{placement::*, scheduling::*};
use blox::sim::workload::generate::blox::BloxWorkload;
use blox::sim::{Simulation, workload::Limited};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let skew = TensorSkew::new(SkewTable::image_models(), 0.3);
    let by_hand = Composition::new("tiresias")
        .in_rounds(Seconds::new(300.0))
        .scheduling(TwoDas::las(&[Seconds::new(3250.0)])?)
        .placement(Walk::new(Profiled::by(skew)).when_blocked(Blocked::Skip))
        .build()?;
    let Some(by_hand) = blox::cli::backend(by_hand)? else {
        return Ok(());
    };

    let simulation = Simulation::new(ClusterSpec::uniform(8, 4));
    let jobs = || BloxWorkload::new(2.5).map(|all| Limited::new(all, 400));
    let ours = simulation.run(by_hand, &mut jobs()?)?;
    let shipped = simulation.run(blox::schedulers::tiresias(), &mut jobs()?)?;
    assert_eq!(ours.jobs, shipped.jobs);
    let (n, avg) = (ours.jobs.len(), ours.summary.avg_jct_s);
    println!(
        "tiresias by hand: {n} jobs as blox::schedulers::tiresias() has them, average JCT {avg:.1} s"
    );
    Ok(())
}
