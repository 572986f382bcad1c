//! The order of one scheduler over the placement of another: shortest remaining time with the
//! profiled placement of Tiresias.
//!
//! `cargo run --release --example mix`; with `--features cluster` and `-- --backend cluster` it
//! schedules real processes on this machine.

use blox::prelude::*;
use blox::results::Summary;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mixed = Composition::new("srtf-profiled")
        .scheduling(Srtf::default())
        .placement(InOrder::new(<Profiled>::default()))
        .build()?;
    let Some(mixed) = blox::cli::backend(mixed)? else {
        return Ok(()); // it ran on the cluster
    };

    let simulation = Simulation::new(ClusterSpec::uniform(4, 4));
    let job = |i: u32| {
        let (submit, gpus) = (Time::new(f64::from(i) * 600.0), GpuCount(1 << (i % 4)));
        JobSpec::new(
            submit,
            gpus,
            Seconds::new(f64::from(i * 7 % 5 + 1) * 3600.0),
        )
    };
    let jobs = || Jobs::new((0..100).map(job).collect());
    let mixed = Summary::of(&simulation.run(mixed, &mut jobs())?);
    let plain = Summary::of(&simulation.run(schedulers::srtf(), &mut jobs())?);
    let (a, b) = (mixed.avg_jct_s, plain.avg_jct_s);
    println!("average JCT: mixed {a:.1} s, srtf {b:.1} s");
    assert_eq!(mixed.completed, plain.completed);
    Ok(())
}
