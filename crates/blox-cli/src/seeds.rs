//! `compare --seeds`: repeats a comparison with several seeds and computes confidence intervals.

use super::args::{OutputFormat, PartArgs};
use super::config::Given;
use super::execute::{now, print_time, run_several};
use super::output;
use super::parts::{self, Source};
use super::plot::Drawing;
use super::sweep::of_run;
use crate::failure::Failure;
use crate::plan::Plan;
use crate::terminal::{BAD_INPUT, INTERRUPTED, OK, Terminal};
use blox_experiment::{KeptRun, SeedResults};
use blox_registry::Registry;
use blox_results::{OverSeeds, Picture, jct_over_seeds, number_of};
use serde_json::Value;

pub(super) fn compare(
    registry: &Registry,
    mut given: Given,
    parts: &PartArgs,
    terminal: &mut Terminal<'_>,
) -> Result<i32, Failure> {
    let start = now();
    let format = given.output.format();
    // Shards have files of their own.
    let dir = match parts.shard {
        Some(_) => given.output.output_dir.take(),
        None => None,
    };
    if let Some(name) = given.first_of(&[
        "output-dir",
        "rounds",
        "why",
        "collect",
        "plots",
        "report",
        "assignments",
        "file-format",
    ]) {
        return Err(Failure::new(format!(
            "{name} has no meaning with {}; `blox sweep` writes the results of each seed",
            given.name("seeds")
        )));
    }
    let plan = Plan::of_lists(given, registry)?;
    let drawings = output::drawings(&plan)?;
    drawings.iter().try_for_each(Drawing::check_seeds)?;
    let source = Source::of(parts, "compare", dir.as_deref(), plan.options.force)?;
    let runs: Vec<Value> = (0..plan.runs.len()).map(|i| settings(&plan, i)).collect();
    let run = |todo: &[usize], keep: &Keep<'_>| {
        run_several(&plan, todo, terminal.interactive, |i, result| {
            let experiment = plan.experiment(&plan.runs[i]);
            let kept = result.map(|run| KeptRun::of(&run, experiment));
            keep(i, &kept)?;
            Ok(kept)
        })
    };
    let kept = match &source {
        Source::Merged(dirs) => {
            let kept = parts::merged(dirs, "compare", &plan.names, &runs)?;
            kept.into_iter().map(Some).collect()
        }
        Source::Part(part) => {
            let todo = part.todo(&runs);
            let kept = run(&todo, &|i, kept| part.keep(&runs[i], kept))?;
            let ended = kept.iter().flatten().count();
            let code = part.finish(&runs, todo.len(), ended, plan.options.quiet, terminal);
            let error = |(i, kept): (&usize, &Option<Result<KeptRun, String>>)| match kept {
                Some(Err(why)) => Some(format!("run {}: {why}", plan.names[*i])),
                _ => None,
            };
            let errors: Vec<String> = todo.iter().zip(&kept).filter_map(error).collect();
            return Ok(match errors.is_empty() {
                true => code,
                false => refused(&errors, terminal),
            });
        }
        Source::Here => {
            let all: Vec<usize> = (0..runs.len()).collect();
            run(&all, &|_, _| Ok(()))?
        }
    };
    let results = SeedResults::of(&plan, &kept)?;
    if results.figures.0.is_empty() && !results.errors.is_empty() {
        return Ok(refused(&results.errors, terminal));
    }
    let text = match format {
        OutputFormat::Table => {
            let form = plan.options.form(terminal.form);
            let about = match plan.options.quiet {
                true => results.assumed(),
                false => results.about(),
            };
            results.tables(form) + "\n" + &about.text(form)
        }
        OutputFormat::Csv => results.figures.csv(plan.by()),
        OutputFormat::Json => output::pretty_text(&results.fields())?,
    };
    terminal.print(&text)?;
    if !drawings.is_empty() {
        let picture = picture(&results.figures).ok_or_else(|| {
            Failure::new("--plot: there are no data for a picture, expected jobs that ended")
        })?;
        drawings.iter().try_for_each(|d| d.write(&picture))?;
    }
    let notices = match (plan.options.quiet, format.is_data()) {
        (true, _) => results.losses(),
        (false, true) => results.notices(),
        (false, false) => Vec::new(),
    };
    terminal.notices(&notices);
    if !plan.options.quiet {
        print_time(start, "", terminal);
    }
    let (whole, all) = (results.whole, plan.cells.len());
    if whole < all {
        let _ = writeln!(
            terminal.err,
            "interrupted: results of {whole} of {all} seeds"
        );
    }
    Ok(match (whole < all, results.errors.is_empty()) {
        (_, false) => refused(&results.errors, terminal),
        (true, true) => INTERRUPTED,
        (false, true) => OK,
    })
}

/// Keeps the result of a run, or its error.
type Keep<'a> = dyn Fn(usize, &Result<KeptRun, String>) -> Result<(), Failure> + Sync + 'a;

/// Returns the settings that identify a run, with its input files.
fn settings(plan: &Plan<'_>, i: usize) -> Value {
    let mut settings = of_run(plan, i);
    let inputs = output::inputs(&plan.experiment(&plan.runs[i]).inputs);
    if !inputs.is_empty() {
        settings["inputs"] = inputs.into();
    }
    settings
}

/// Draws the job completion times of the schedulers, with the jobs of all seeds.
fn picture(results: &OverSeeds<'_>) -> Option<Picture> {
    let times = results.times();
    let seeds = results.0.first()?.results.runs.len();
    let most = times.iter().map(|(_, times)| times.len()).max()?;
    let about = format!(
        "{} of {}",
        number_of(most as u64, "job"),
        number_of(seeds as u64, "seed")
    );
    jct_over_seeds(&about, times)
}

/// Prints errors, and returns the exit code.
fn refused(errors: &[String], terminal: &mut Terminal<'_>) -> i32 {
    for error in errors {
        let _ = writeln!(terminal.err, "error: {error}");
    }
    BAD_INPUT
}
