//! Lucid, composed by hand from its parts: jobs with profiles, packed two on a GPU.
//!
//! `cargo run --release --example lucid`

use blox::core::estimate::Oracle;
use blox::core::perf::PairTable;
use blox::core::{ClusterSpec, Composition, Extras, JobSpec, Seconds};
use blox::policies::scheduling::*;
use blox::sim::Simulation;
use blox::sim::execution::{Profiled, Shared};
use blox::sim::workload::generate::blox::BloxWorkload;
use blox::sim::workload::{Jobs, Limited, collect};
use std::collections::BTreeMap;

/// Jobs that were measured: every other one is light on its GPUs.
fn jobs() -> Result<Vec<JobSpec>, Box<dyn std::error::Error>> {
    let mut jobs = collect(&mut Limited::new(BloxWorkload::new(12.0)?, 400))?;
    for (i, job) in jobs.iter_mut().enumerate() {
        let (model, score, memory) = match i % 2 {
            0 => ("DCGAN", 1.0, 2458.0),
            _ => ("LSTM", 0.0, 5616.0),
        };
        let attributes = BTreeMap::from([
            ("dataset".into(), "LSUN".into()),
            ("amp".into(), 0.into()),
            ("sharing_score".into(), score.into()),
            ("gmem".into(), memory.into()),
        ]);
        *job = job.clone().with_extras(Extras {
            model: Some(model.into()),
            batch_size: Some(64),
            attributes,
            ..Extras::default()
        });
    }
    Ok(jobs)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let by_hand = Composition::new("lucid")
        .in_rounds(Seconds::new(60.0))
        // It profiles, orders and packs.
        .joint(
            Lucid::with(LucidSettings::default(), Oracle, PairTable::default()),
            |roles| roles.scheduling().placement(),
        )
        .build()?;
    let Some(by_hand) = blox::cli::backend(by_hand)? else {
        return Ok(());
    };

    let mut pairs = PairTable::default();
    pairs.add("DCGAN/LSUN/64/0", "LSTM/LSUN/64/0", (0.93, 0.9))?;
    pairs.add("LSTM/LSUN/64/0", "LSTM/LSUN/64/0", (0.97, 0.97))?;
    let execution = Shared::over(Profiled).measured(pairs, 0.8);
    let simulation = Simulation::new(ClusterSpec::uniform(10, 4)).execution(execution);
    let run = |scheduler| simulation.run(scheduler, &mut Jobs::new(jobs().unwrap_or_default()));
    let ours = run(by_hand)?;
    let shipped = run(blox::schedulers::lucid())?;
    assert_eq!(ours.jobs, shipped.jobs);
    let fifo = run(blox::schedulers::fifo())?.summary.avg_jct_s;
    let (n, avg) = (ours.jobs.len(), ours.summary.avg_jct_s);
    println!(
        "lucid by hand: {n} jobs as blox::schedulers::lucid() has them, average JCT {avg:.1} s, fifo's {fifo:.1} s"
    );
    Ok(())
}
