//! An experiment as a value: two schedulers on generated jobs, with three seeds.
//!
//! `cargo run --release --example experiment`

use blox::experiment::{Experiment, Plan};
use blox::results::Summary;
use blox::results::grid::{Form, Grid, decimal, percent};
use std::num::NonZeroU64;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Add your own schedulers to the registry, as `examples/custom_policy.rs` does.
    let registry = blox::registry();
    let experiment = Experiment {
        schedulers: Some(vec!["fifo".to_owned(), "las{guard_h=24}".to_owned()]),
        workload: Some("poisson{load=4}".parse()?),
        jobs: NonZeroU64::new(200),
        cluster: Some("4x4".to_owned()),
        seeds: Some("1..3".parse()?),
        ..Experiment::default()
    };
    // A plan checks everything before the first run.
    let plan = Plan::of(experiment, &registry)?;
    let results = plan.run()?;

    let runs = plan.runs.iter().zip(&results);
    let rows: Vec<(&str, String, Summary)> = runs
        .map(|(run, ran)| {
            let seed = plan.cells[run.cell].varied[0].to_string();
            (plan.label(run), seed, Summary::of(&ran.report))
        })
        .collect();
    let table = Grid::of(
        &rows,
        2,
        &[
            ("scheduler", &|(name, ..)| (*name).to_owned()),
            ("seed", &|(_, seed, _)| seed.clone()),
            ("avg\nJCT s", &|(.., s)| decimal(s.avg_jct_s, 1)),
            ("p99\nJCT s", &|(.., s)| decimal(s.p99_jct_s, 1)),
            ("GPUs\nbusy", &|(.., s)| percent(s.utilisation)),
        ],
    );
    print!("{}", table.text(Form::Wrapped(100)));
    Ok(())
}
