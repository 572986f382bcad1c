//! First in, first out on the GPUs that are linked best, composed by hand from its parts.
//!
//! `cargo run --release --example bandwidth-placement`

use blox::core::{ClusterSpec, Composition};
use blox::policies::{placement::*, scheduling::*};
use blox::sim::Simulation;
use blox::sim::workload::generate::{DurationLaw, Generator, GeneratorSpec, GpuShare, Load};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let by_hand = Composition::new("bandwidth-placement")
        .scheduling(Fifo::default())
        .placement(Walk::new(Bandwidth::default()))
        .build()?;
    let Some(by_hand) = blox::cli::backend(by_hand)? else {
        return Ok(());
    };

    let simulation = Simulation::new("8x4@p3.8xlarge".parse::<ClusterSpec>()?);
    let spec = || GeneratorSpec {
        gpus: vec![
            GpuShare {
                gpus: 1,
                weight: 1.0,
            },
            GpuShare {
                gpus: 2,
                weight: 1.0,
            },
        ],
        count: Some(400),
        ..GeneratorSpec::new(Load::PerHour(2.0), DurationLaw::BloxLaw)
    };
    let jobs = || Generator::new(spec());
    let ours = simulation.run(by_hand, &mut jobs()?)?;
    let shipped = simulation.run(blox::schedulers::bandwidth_placement(), &mut jobs()?)?;
    assert_eq!(ours.jobs, shipped.jobs);
    let (n, avg) = (ours.jobs.len(), ours.summary.avg_jct_s);
    println!(
        "bandwidth-placement by hand: {n} jobs as blox::schedulers::bandwidth_placement() has them, average JCT {avg:.1} s"
    );
    Ok(())
}
