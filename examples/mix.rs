//! The order of one scheduler over the placement of another: shortest remaining time over
//! the profiled placement of Tiresias.
//!
//! `cargo run --release --example mix`; with `--features cluster` and `-- --backend cluster` it
//! schedules real processes on this machine.

use blox::core::{ClusterSpec, Composition};
use blox::policies::placement::{Profiled, TensorSkew, Walk};
use blox::policies::scheduling::Srtf;
use blox::sim::workload::generate::blox::BloxWorkload;
use blox::sim::{Simulation, workload::Limited};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mixed = Composition::new("srtf-profiled")
        .scheduling(Srtf::default())
        .placement(Walk::new(Profiled::<TensorSkew>::default()))
        .build()?;
    let Some(mixed) = blox::cli::backend(mixed)? else {
        return Ok(());
    };

    let simulation = Simulation::new(ClusterSpec::uniform(8, 4));
    let jobs = || BloxWorkload::new(2.0).map(|all| Limited::new(all, 300));
    let profiled = simulation.run(mixed, &mut jobs()?)?.summary.avg_jct_s;
    let plain = simulation.run(blox::schedulers::srtf(), &mut jobs()?)?;
    let consolidated = plain.summary.avg_jct_s;
    println!("average JCT: profiled {profiled:.1} s, consolidated {consolidated:.1} s");
    assert!(profiled > 0.0 && consolidated > 0.0);
    Ok(())
}
