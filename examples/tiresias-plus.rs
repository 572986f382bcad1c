//! Tiresias with a profile of each job, composed by hand from its parts.
//!
//! `cargo run --release --example tiresias-plus`

use blox::core::{ClusterSpec, Composition, JobRef, Seconds};
use blox::policies::{placement::*, scheduling::*};
use blox::sim::workload::generate::blox::BloxWorkload;
use blox::sim::{Simulation, workload::Limited};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let measured = |job: &JobRef<'_>| job.spec().extras().communication > 0.1;
    let by_hand = Composition::new("tiresias-plus")
        .scheduling(TwoDas::las(&[Seconds::new(3250.0)])?)
        .placement(Walk::new(Profiled::by(measured)).when_blocked(Blocked::Skip))
        .build()?;
    let Some(by_hand) = blox::cli::backend(by_hand)? else {
        return Ok(());
    };

    let simulation = Simulation::new(ClusterSpec::uniform(8, 4));
    let jobs = || BloxWorkload::new(2.5).map(|all| Limited::new(all, 400));
    let ours = simulation.run(by_hand, &mut jobs()?)?;
    let shipped = simulation.run(blox::schedulers::tiresias_plus(), &mut jobs()?)?;
    assert_eq!(ours.jobs, shipped.jobs);
    let (n, avg) = (ours.jobs.len(), ours.summary.avg_jct_s);
    println!(
        "tiresias-plus by hand: {n} jobs as blox::schedulers::tiresias_plus() has them, average JCT {avg:.1} s"
    );
    Ok(())
}
