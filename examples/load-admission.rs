//! Least attained service behind admission by load, composed by hand from its parts.
//!
//! `cargo run --release --example load-admission`

use blox::core::{ClusterSpec, Composition, Seconds};
use blox::policies::{admission::*, placement::*, scheduling::*};
use blox::sim::workload::generate::blox::BloxWorkload;
use blox::sim::{Simulation, workload::Limited};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let by_hand = Composition::new("load-admission")
        .admission(LoadThreshold::new(1.2)?)
        .scheduling(StarvationGuard::new(
            Las::by(Service::Time),
            Seconds::from_hours(1000.0),
        ))
        .placement(Walk::new(Consolidated::default()))
        .build()?;
    let Some(by_hand) = blox::cli::backend(by_hand)? else {
        return Ok(());
    };

    let simulation = Simulation::new(ClusterSpec::uniform(8, 4));
    let jobs = || BloxWorkload::new(2.5).map(|all| Limited::new(all, 400));
    let ours = simulation.run(by_hand, &mut jobs()?)?;
    let shipped = simulation.run(blox::schedulers::load_admission(), &mut jobs()?)?;
    assert_eq!(ours.jobs, shipped.jobs);
    let (n, avg) = (ours.jobs.len(), ours.summary.avg_jct_s);
    println!(
        "load-admission by hand: {n} jobs as blox::schedulers::load_admission() has them, average JCT {avg:.1} s"
    );
    Ok(())
}
