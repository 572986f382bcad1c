//! `blox sweep`: runs schedulers over loads, seeds and other options.

mod store;

use super::args::OutputFormat;
use super::assumptions::{Assumptions, Setting};
use super::config::Given;
use super::execute::{now, print_time, run_several};
use super::output;
use super::result::check_measured;
use super::table;
use crate::experiment::{Cell, Plan, Planned};
use crate::failure::Failure;
use crate::terminal::{BAD_INPUT, INTERRUPTED, OK, Terminal};
use blox_experiment::shown;
use blox_registry::Registry;
use blox_results::grid::{About, Form, Grid};
use blox_results::losses::{self, Lost};
use blox_results::{
    FigureRow, MEDIANS, Rows, estimate, in_groups, intervals, marks, of_rho, partial, table_of,
    whole,
};
use serde_json::{Map, Value};
use std::ffi::OsString;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use store::{Finished, Row, Store, finished_rows, group_rows};

/// Interval at which the results so far are written.
const WRITTEN_EVERY: Duration = Duration::from_secs(10);

pub(super) fn sweep(
    registry: &Registry,
    given: Given,
    args: &[OsString],
    terminal: &mut Terminal<'_>,
) -> Result<i32, Failure> {
    let start = now();
    let format = given.output.format();
    let (plots, report) = (given.output.plots, given.output.report);
    let plan = Plan::of_lists(given, registry)?;
    let dir = plan.base.output_dir.as_deref();
    let store = dir.map(|dir| Store::open(dir, &plan, args)).transpose()?;
    let finished = |run| Some(Ok(store.as_ref()?.finished(&plan, run)?));
    let mut rows: Vec<Option<Row>> = plan.runs.iter().map(finished).collect();
    let found = rows.iter().flatten().count();
    if found > 0 && !plan.base.quiet {
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
        let run = &plan.runs[i];
        let experiment = plan.experiment(run);
        let result = result.and_then(|run| check_measured(&run, experiment).map(|()| run));
        let row = match result {
            Ok(done) => {
                if let Some(store) = &store {
                    store.write(&plan, run, &done)?;
                }
                let figures = done.figures(experiment.options.why).fields();
                Ok(Finished::of(&plan, run, figures, done.lost))
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
    let text = match format {
        OutputFormat::Csv if plan.base.by.is_some() => store::groups_of(&plan, &rows),
        OutputFormat::Csv => store::table_of(&plan, &rows),
        OutputFormat::Json if plan.base.by.is_some() => {
            output::pretty_text(&group_rows(&rows).collect::<Vec<_>>())?
        }
        OutputFormat::Json => output::pretty_text(&finished_rows(&rows).collect::<Vec<_>>())?,
        OutputFormat::Table => render(&plan, &rows, plan.base.form(terminal.form)),
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
    for (run, row) in plan.runs.iter().zip(rows) {
        if let Some(Err(why)) = row {
            let _ = writeln!(terminal.err, "error: run {}: {why}", run.name);
        }
    }
    terminal.notices(&notices(plan, rows));
    let finished = finished_rows(rows).count();
    if rows.iter().any(Option::is_none) {
        let again = match &plan.base.output_dir {
            Some(_) => "; the same command continues the sweep",
            None => "",
        };
        let _ = writeln!(
            terminal.err,
            "interrupted: {finished} of {} runs are finished{again}{}",
            rows.len(),
            output::drawn_later(draws)
        );
    } else if !plan.base.quiet {
        if seeds_are_alike(&groups(plan, rows)) {
            terminal.notices(&[super::seeds::ALIKE.to_owned()]);
        }
        let dir = plan.base.output_dir.as_ref();
        let dir = dir.map(|d| format!(", results in {}", d.display()));
        print_time(start, &dir.unwrap_or_default(), terminal);
    }
}

/// Returns the lines that `--quiet` does not hide.
fn notices(plan: &Plan<'_>, rows: &[Option<Row>]) -> Vec<String> {
    let finished = || finished(plan, rows).map(|(run, done)| (plan.label(run), &done.lost));
    let mut lines = losses::distinct(finished().map(|(_, lost)| lost.input.as_slice()));
    lines.extend(losses::of_figures(finished_rows(rows)));
    let settings = plan.cells.iter().flat_map(|c| &c.experiment.notices);
    lines.extend(losses::each_once(settings));
    lines.extend(losses::of_runs(finished(), true));
    lines
}

/// Returns the finished runs.
fn finished<'p, 'a>(
    plan: &'p Plan<'_>,
    rows: &'a [Option<Row>],
) -> impl Iterator<Item = (&'p Planned, &'a Finished)> {
    let runs = plan.runs.iter().zip(rows);
    runs.filter_map(|(run, row)| Some((run, row.as_ref()?.as_ref().ok()?)))
}

/// Rows that differ only in their seeds, with their scheduler and setting.
type Group<'a> = (Vec<String>, Vec<&'a Map<String, Value>>);

/// Returns the axes other than seeds.
fn axes(plan: &Plan<'_>) -> Vec<usize> {
    let all = 0..plan.axes.len();
    all.filter(|i| plan.axes[*i].key != "seed").collect()
}

/// Returns the scheduler and the setting of a run.
fn key(plan: &Plan<'_>, run: &Planned) -> Vec<String> {
    let varied = &plan.cells[run.cell].varied;
    let mut key = vec![plan.label(run).to_owned()];
    key.extend(axes(plan).iter().map(|i| shown(&varied[*i])));
    key
}

/// Groups rows by scheduler and setting, in order of their first run.
fn groups<'a>(plan: &Plan<'_>, rows: &'a [Option<Row>]) -> Vec<Group<'a>> {
    in_groups(finished(plan, rows).map(|(run, finished)| (key(plan, run), &finished.row)))
}

/// Groups the rows of groups of jobs by scheduler, setting and value of the column.
fn groups_of_jobs<'a>(plan: &Plan<'_>, rows: &'a [Option<Row>], by: &str) -> Vec<Group<'a>> {
    // Jobs without a value have an empty one.
    let value = |row: &Map<String, Value>| {
        let text = row.get(by).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let rows = finished(plan, rows).flat_map(|(run, finished)| {
        finished.groups.iter().map(move |row| {
            let mut key = key(plan, run);
            key.push(value(row));
            (key, row)
        })
    });
    in_groups(rows)
}

/// Returns whether there are several seeds and none of them changes the results.
fn seeds_are_alike(groups: &[Group<'_>]) -> bool {
    let figures = |row: &Map<String, Value>| {
        let mut row = row.clone();
        row.retain(|key, _| key != "seed" && key != "run");
        row
    };
    let alike = |(_, rows): &Group<'_>| {
        let mut others = rows.iter().skip(1);
        others.all(|row| figures(row) == figures(rows[0]))
    };
    groups.iter().any(|(_, rows)| rows.len() > 1) && groups.iter().all(alike)
}

/// Formats the medians over seeds, one row for each scheduler and setting.
fn render(plan: &Plan<'_>, rows: &[Option<Row>], form: Form) -> String {
    let groups = groups(plan, rows);
    let marked = |(_, list): &Group<'_>| {
        let rows = || list.iter().copied();
        partial(rows()).is_some() && estimate(rows(), "avg_jct_s").is_some()
    };
    let marked = groups.iter().any(marked);
    let mut heads: Vec<&str> = axes(plan)
        .iter()
        .map(|i| plan.axes[*i].key.as_str())
        .collect();
    let mut text = table(&groups, &heads).text(form);
    if let Some(by) = plan.base.by.as_deref() {
        heads.push(&by.0);
        text.push('\n');
        text.push_str(&table(&groups_of_jobs(plan, rows, &by.0), &heads).text(form));
    }
    let about = match plan.base.quiet {
        true => table::assumed(&assumptions(plan, rows), marked),
        false => {
            let mut about = about(plan, rows);
            about.0.push(intervals(most_seeds(&groups)));
            about.0.extend(is_rated(&groups).then(of_rho));
            about.0.extend(marked.then(marks));
            about
        }
    };
    text.push('\n');
    text.push_str(&about.text(form));
    text
}

/// Returns whether the finish-time fairness is known.
fn is_rated(groups: &[Group<'_>]) -> bool {
    let of = |(_, list): &Group<'_>| estimate(list.iter().copied(), "fairness_mean");
    groups.iter().any(|g| of(g).is_some())
}

/// Returns the table of medians: the scheduler, the columns of `heads`, and the figures.
fn table(groups: &[Group<'_>], heads: &[&str]) -> Grid {
    let rows = groups.iter().map(|(keys, runs)| FigureRow {
        keys: keys.clone(),
        runs: runs.clone(),
    });
    let rows: Vec<FigureRow<'_>> = rows.collect();
    table_of(&rows, heads, Rows::Settings)
}

/// Returns the largest number of seeds of a row.
fn most_seeds(groups: &[Group<'_>]) -> usize {
    groups.iter().map(|(_, list)| list.len()).max().unwrap_or(0)
}

/// Returns the description of the table.
fn about(plan: &Plan<'_>, rows: &[Option<Row>]) -> About {
    let mut about = About::default();
    let finished = finished_rows(rows).count();
    let (finished, all) = (whole(finished as u64), whole(plan.runs.len() as u64));
    let runs = match finished == all {
        true => all,
        false => format!("{finished} of {all}"),
    };
    about.add("runs", runs);
    for axis in &plan.axes {
        let values: Vec<String> = axis.values.iter().map(shown).collect();
        about.add(&axis.key, values.join(", "));
    }
    // A default follows from the workload.
    let experiments = || plan.cells.iter().map(|c| &c.experiment);
    let mut measures = experiments().map(|e| e.given.measure.as_deref());
    let first = measures.next().flatten();
    if measures.all(|m| m == first) {
        about.add(
            "measured",
            table::measured_in_each(first, finished_rows(rows)),
        );
    }
    about.0.extend(assumptions(plan, rows).lines());
    about.add("figures", MEDIANS);
    about
}

/// Returns the assumptions of the finished runs. Seeds are no settings.
fn assumptions(plan: &Plan<'_>, rows: &[Option<Row>]) -> Assumptions {
    let varied = |cell: &Cell<'_>| -> Vec<String> {
        axes(plan).iter().map(|i| shown(&cell.varied[*i])).collect()
    };
    let runs = finished(plan, rows).map(|(run, done)| (run.cell, (plan.label(run), &done.lost)));
    let mut by_cell: Vec<Vec<(&str, &Lost)>> = plan.cells.iter().map(|_| Vec::new()).collect();
    runs.for_each(|(cell, run)| by_cell[cell].push(run));
    let cells = plan.cells.iter().zip(by_cell);
    let keys = axes(plan).into_iter().map(|i| plan.axes[i].key.as_str());
    let keys: Vec<&str> = keys.collect();
    let settings = in_groups(cells.map(|(cell, runs)| (varied(cell), (cell, runs))));
    let settings = settings.into_iter().map(|(values, cells)| Setting {
        varied: keys.iter().copied().zip(values).collect(),
        experiment: &cells[0].0.experiment,
        runs: cells.into_iter().flat_map(|(_, runs)| runs).collect(),
    });
    Assumptions::of_settings(&settings.collect::<Vec<_>>())
}
