//! The automatic synthesizer over two compositions, by hand from its parts.
//!
//! `cargo run --release --example synthesizer`

use blox::core::forecast::Horizon;
use blox::core::{ClusterSpec, Composition, Rounds, Seconds};
use blox::policies::scheduling::*;
use blox::schedulers::{SynthesizerParams, fifo, las, synthesizer_over};
use blox::sim::forecast::{LookAhead, forecaster};
use blox::sim::workload::generate::blox::BloxWorkload;
use blox::sim::{Simulation, workload::Limited};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ahead = || forecaster(LookAhead::new(Rounds::default()));
    let by_hand = Synthesizer::new(las(), ahead())
        .or(fifo())
        .every(Seconds::new(3000.0))
        .looking(Horizon::For(Seconds::from_hours(4.0)))
        .compose(Composition::new("synthesizer"))
        .build()?;
    let Some(by_hand) = blox::cli::backend(by_hand)? else {
        return Ok(());
    };
    let shipped = synthesizer_over(vec![las(), fifo()], ahead(), SynthesizerParams::default());

    let simulation = Simulation::new(ClusterSpec::uniform(8, 4));
    let jobs = || BloxWorkload::new(2.5).map(|all| Limited::new(all, 400));
    let ours = simulation.run(by_hand, &mut jobs()?)?;
    let theirs = simulation.run(shipped, &mut jobs()?)?;
    assert_eq!(ours.jobs, theirs.jobs);
    let (n, avg) = (ours.jobs.len(), ours.summary.avg_jct_s);
    println!(
        "synthesizer by hand: {n} jobs as blox::schedulers::synthesizer_over() has them, average JCT {avg:.1} s"
    );
    Ok(())
}
