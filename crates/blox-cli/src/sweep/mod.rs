//! `blox sweep`: runs schedulers over loads, seeds and other options.

mod array;
mod merge;
mod store;

use super::args::{OutputFormat, SweepArgs, SweepCommand};
use super::config::{self, Given};
use super::execute::{now, print_time, run_several};
use super::output;
use crate::failure::Failure;
use crate::help::Late;
use crate::plan::Plan;
use crate::shard::Shard;
use crate::terminal::{BAD_INPUT, INTERRUPTED, OK, Terminal};
use blox_experiment::VariedResults;
use blox_registry::Registry;
use blox_results::ALIKE;
use std::ffi::OsString;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
pub(super) use store::of_run;
use store::{Row, Store, finished};

/// Interval at which the results so far are written.
const WRITTEN_EVERY: Duration = Duration::from_secs(10);

/// Parses the recorded command line of a sweep; `None` if it is none.
pub(super) type Parse = fn(&[OsString]) -> Option<Late<SweepArgs>>;

pub(super) fn sweep(
    registry: &Registry,
    mut late: Late<SweepArgs>,
    line: &[OsString],
    parse: Parse,
    terminal: &mut Terminal<'_>,
) -> Result<i32, Failure> {
    match late.args.command.take() {
        Some(SweepCommand::Merge(args)) => return merge::merge(registry, args, parse, terminal),
        Some(SweepCommand::Status { dir }) => return array::status(&dir, terminal),
        None => {}
    }
    let shard = late.args.shard.take();
    let shard = shard.map(|shard| shard.resolve()).transpose()?;
    let (array, given) = config::sweep(late)?;
    match array.on {
        Some(_) => array::run(registry, given, array, line, parse, terminal),
        None => run(registry, given, shard, line, terminal),
    }
}

/// Runs a sweep, or one of its shards.
fn run(
    registry: &Registry,
    given: Given,
    shard: Option<Shard>,
    args: &[OsString],
    terminal: &mut Terminal<'_>,
) -> Result<i32, Failure> {
    let start = now();
    let format = given.output.format();
    let (plots, report) = (given.output.plots, given.output.report);
    let mut plan = Plan::of_lists(given, registry)?;
    if let Some(shard) = shard {
        let Some(dir) = &mut plan.options.output_dir else {
            return Err(output::nowhere("shard"));
        };
        dir.push(shard.folder());
        let settings = (0..plan.runs.len()).map(|i| store::of_run(&plan, i));
        let kept: Vec<bool> = settings.map(|settings| shard.has(&settings)).collect();
        plan.retain(&kept);
    }
    let dir = plan.options.output_dir.as_deref();
    let store = dir
        .map(|dir| Store::open(dir, &plan, args, shard))
        .transpose()?;
    let before = |run| Some(Ok(store.as_ref()?.finished(&plan, run)?));
    let mut rows: Vec<Option<Row>> = (0..plan.runs.len()).map(before).collect();
    let found = rows.iter().flatten().count();
    if found > 0 && !plan.options.quiet {
        let _ = writeln!(
            terminal.err,
            "resumed: {found} of {} runs were finished before",
            plan.runs.len()
        );
    }
    if let Some(store) = &store {
        store.write_index(&plan, &rows, "incomplete")?;
    }
    let todo: Vec<usize> = (0..rows.len()).filter(|i| rows[*i].is_none()).collect();
    let shared = Mutex::new((&mut rows, now()));
    run_several(&plan, &todo, terminal.interactive, |i, result| {
        let experiment = plan.experiment(&plan.runs[i]);
        let measured = result.and_then(|run| match experiment.check_measured(&run) {
            Ok(()) => Ok(run),
            Err(why) => Err(why.to_string()),
        });
        let row = match measured {
            Ok(done) => {
                if let Some(store) = &store {
                    store.write(&plan, i, &done)?;
                }
                let figures = done.figures(plan.options.why).fields();
                Ok(finished(&plan, i, figures, done.lost))
            }
            Err(why) => Err(why),
        };
        let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.0[i] = Some(row);
        if let Some(store) = &store
            && shared.1.elapsed() > WRITTEN_EVERY
        {
            store.write_index(&plan, shared.0, "incomplete")?;
            shared.1 = now();
        }
        Ok(())
    })?;
    let missing = rows.iter().filter(|r| r.is_none()).count();
    let failed = rows.iter().flatten().filter(|r| r.is_err()).count();
    if let Some(store) = &store {
        let status = match (missing, failed) {
            (0, 0) => "complete",
            (0, _) => "failed",
            _ => "interrupted",
        };
        store.write_index(&plan, &rows, status)?;
        // Plots are not drawn after an interruption, so that the command returns at once. They can
        // be drawn later.
        if missing == 0 && failed < rows.len() {
            output::draw(&store.dir, plots, report)?;
        }
    }
    let results = results(&plan, &rows);
    let text = match format {
        OutputFormat::Csv if plan.by().is_some() => store::groups_of(&plan, &results),
        OutputFormat::Csv => store::table_of(&plan, &results),
        OutputFormat::Json if plan.by().is_some() => {
            output::pretty_text(&results.group_rows().collect::<Vec<_>>())?
        }
        OutputFormat::Json => output::pretty_text(&results.rows().collect::<Vec<_>>())?,
        OutputFormat::Table => {
            let form = plan.options.form(terminal.form);
            let about = match plan.options.quiet {
                true => results.assumed(),
                false => results.about(),
            };
            results.tables(form) + "\n" + &about.text(form)
        }
    };
    terminal.print(&text)?;
    finish(&plan, &rows, start, plots || report, terminal);
    Ok(match (missing, failed) {
        (0, 0) => OK,
        (0, _) => BAD_INPUT,
        _ => INTERRUPTED,
    })
}

/// Prints notes about the whole sweep for users.
fn finish(
    plan: &Plan<'_>,
    rows: &[Option<Row>],
    start: Instant,
    draws: bool,
    terminal: &mut Terminal<'_>,
) {
    for (name, row) in plan.names.iter().zip(rows) {
        if let Some(Err(why)) = row {
            let _ = writeln!(terminal.err, "error: run {name}: {why}");
        }
    }
    let results = results(plan, rows);
    terminal.notices(&results.losses());
    let finished = results.rows().count();
    if rows.iter().any(Option::is_none) {
        let again = match &plan.options.output_dir {
            Some(_) => "; the same command continues the sweep",
            None => "",
        };
        let _ = writeln!(
            terminal.err,
            "interrupted: {finished} of {} runs are finished{again}{}",
            rows.len(),
            output::drawn_later(draws)
        );
    } else if !plan.options.quiet {
        if results.are_alike() {
            terminal.notices(&[ALIKE.to_owned()]);
        }
        let dir = plan.options.output_dir.as_ref();
        let dir = dir.map(|d| format!(", results in {}", d.display()));
        print_time(start, &dir.unwrap_or_default(), terminal);
    }
}

/// Collects the finished runs.
fn results<'a, 'r>(plan: &'a Plan<'r>, rows: &'a [Option<Row>]) -> VariedResults<'a, 'r> {
    let finished = |row: &'a Option<Row>| row.as_ref()?.as_ref().ok();
    VariedResults::of(plan, rows.iter().map(finished))
}
