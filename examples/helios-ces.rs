//! First in, first out on a cluster whose idle nodes sleep, composed by hand.
//!
//! `cargo run --release --example helios-ces`

use blox::core::{ClusterSpec, Composition, Seconds};
use blox::policies::cluster::{PowerRule, PowerSaving};
use blox::policies::{placement::*, scheduling::*};
use blox::schedulers::HeliosCesParams;
use blox::sim::workload::generate::blox::BloxWorkload;
use blox::sim::{Simulation, workload::Limited};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rule = PowerRule {
        buffer: 2,
        ..PowerRule::default()
    };
    let by_hand = Composition::new("helios-ces")
        .in_rounds(Seconds::new(60.0))
        .cluster(PowerSaving::new(rule, Seconds::new(600.0), Vec::new()))
        .scheduling(Fifo::default())
        .placement(Walk::new(Consolidated::default()))
        .build()?;
    let Some(by_hand) = blox::cli::backend(by_hand)? else {
        return Ok(());
    };

    let simulation = Simulation::new(ClusterSpec::uniform(32, 4));
    let jobs = || BloxWorkload::new(1.0).map(|all| Limited::new(all, 200));
    let ours = simulation.run(by_hand, &mut jobs()?)?;
    let params = HeliosCesParams {
        rule,
        ..HeliosCesParams::default()
    };
    let shipped = simulation.run(blox::schedulers::helios_ces_with(params), &mut jobs()?)?;
    assert_eq!(ours.jobs, shipped.jobs);
    let awake = simulation.run(blox::schedulers::fifo(), &mut jobs()?)?;
    println!(
        "helios-ces by hand: {} jobs as blox::schedulers::helios_ces_with() has them, average JCT {:.1} s, {:.1} s with all nodes on",
        ours.jobs.len(),
        ours.summary.avg_jct_s,
        awake.summary.avg_jct_s
    );
    Ok(())
}
