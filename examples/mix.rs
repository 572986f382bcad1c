//! The order of one scheduler with the placement of another: shortest remaining time with the
//! profiled placement of Tiresias. A job that does not fit is skipped.
//!
//! `cargo run --release --example mix`; with `--features cluster` and `-- --backend cluster` it
//! schedules real processes on this machine.

use blox::core::{ClusterSpec, Composition};
use blox::policies::placement::{Blocked, InOrder, Profiled, TensorSkew};
use blox::policies::scheduling::Srtf;
use blox::sim::{Simulation, workload::Limited};
use blox::traces::generate::blox::BloxWorkload;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mixed = Composition::new("srtf-profiled")
        .scheduling(Srtf::default())
        .placement(InOrder::new(Profiled::<TensorSkew>::default()).when_blocked(Blocked::Skip))
        .build()?;
    let Some(mixed) = blox::cli::backend(mixed)? else {
        return Ok(());
    };

    let simulation = Simulation::new(ClusterSpec::uniform(8, 4));
    let jobs = || BloxWorkload::new(2.0).map(|all| Limited::new(all, 300));
    let mixed = simulation.run(mixed, &mut jobs()?)?.summary;
    let plain = simulation
        .run(blox::schedulers::srtf(), &mut jobs()?)?
        .summary;
    println!(
        "average JCT: mixed {:.1} s, srtf {:.1} s",
        mixed.avg_jct_s, plain.avg_jct_s
    );
    assert_eq!(mixed.completed, plain.completed);
    Ok(())
}
