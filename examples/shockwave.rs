//! Shockwave: a market over future rounds; composed by hand from its parts.
//!
//! `cargo run --release --example shockwave`

use blox::core::{ClusterSpec, Composition, Extras, Seconds};
use blox::policies::{
    placement::*,
    scheduling::{Shockwave, shockwave::Market},
};
use blox::sim::workload::generate::blox::BloxWorkload;
use blox::sim::{Simulation, workload::*};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let by_hand = Composition::new("shockwave")
        .in_rounds(Seconds::new(120.0))
        .scheduling(Shockwave::new(Market::default()))
        .placement(Leases::new(Consolidated::default()))
        .build()?;
    let Some(by_hand) = blox::cli::backend(by_hand)? else {
        return Ok(());
    };

    // Half of the jobs double their batch in the middle, and train a third faster from then on.
    let mut all = collect(&mut Limited::new(BloxWorkload::new(6.0)?, 150))?;
    for job in all.iter_mut().step_by(2) {
        let epoch = job.duration().secs() / 35.0;
        let mut extras = Extras::default();
        let regimes = serde_json::json!([[32, 20, epoch], [64, 20, 0.75 * epoch]]);
        extras.attributes.insert("regimes".into(), regimes);
        *job = job.clone().with_extras(extras);
    }

    let simulation = Simulation::new("8x4".parse::<ClusterSpec>()?);
    let ours = simulation.run(by_hand, &mut Jobs::new(all.clone()))?;
    let shipped = simulation.run(blox::schedulers::shockwave(), &mut Jobs::new(all.clone()))?;
    assert_eq!(ours.jobs, shipped.jobs);
    let fifo = simulation.run(blox::schedulers::fifo(), &mut Jobs::new(all))?;
    assert!(ours.summary.avg_jct_s < fifo.summary.avg_jct_s);
    println!(
        "shockwave by hand: {} jobs as blox::schedulers::shockwave() has them, average JCT {:.1} s; {:.1} s under fifo",
        ours.jobs.len(),
        ours.summary.avg_jct_s,
        fifo.summary.avg_jct_s
    );
    Ok(())
}
