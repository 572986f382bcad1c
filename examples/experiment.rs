//! An experiment as a value: two schedulers on generated jobs, with three seeds.
//!
//! `cargo run --release --example experiment`

use blox::experiment::{Experiment, Plan};
use blox::results::grid::{Form, Grid, decimal};
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
    let runs = plan.run()?;

    // The tables and lines that `blox compare --seeds` prints.
    print!("{}", plan.text(&runs, Form::Wrapped(100))?);

    // A table of your own, from the summary and the rows of each run.
    let table = Grid::of(
        plan.runs.iter().zip(&runs),
        2,
        &[
            ("scheduler", &|(planned, _)| plan.label(planned).to_owned()),
            ("seed", &|(planned, _)| {
                plan.cells[planned.cell].varied[0].to_string()
            }),
            ("avg\nJCT s", &|(_, run)| decimal(run.summary.avg_jct_s, 1)),
            ("longest\nJCT s", &|(_, run)| {
                let times = run.report.jobs.iter().filter_map(|job| job.jct());
                decimal(times.fold(0.0, |most, jct| jct.secs().max(most)), 0)
            }),
        ],
    );
    print!("\n{}", table.text(Form::Wrapped(100)));
    Ok(())
}
