//! The part of the page about a sweep.

use super::super::error::FolderError;
use super::super::sweep::{Group, Run, Sweep};
use super::{Field, assumptions, command_line, list, notice, shown_columns, table, version};
use crate::figures::of_measured;
use crate::run::value_or_none;
use crate::summary::{COLUMNS, Column, PARTS};
use blox_plot::{Escaped, TimeUnit};
use serde_json::Value;
use std::fmt::Write;

/// The figures of the table of medians, by their names in [`COLUMNS`].
const MEDIANS: [&str; 7] = [
    "avg_jct_s",
    "median_jct_s",
    "p99_jct_s",
    "avg_responsiveness_s",
    "avg_queueing_s",
    "utilisation",
    "preemptions",
];

/// Returns the origin of the runs, and notices.
pub(super) fn about(sweeps: &[&Sweep]) -> String {
    let mut html = String::new();
    for sweep in sweeps {
        let index = &sweep.index;
        let words = |list: &Value, between: &str| -> String {
            let list = list.as_array().into_iter().flatten();
            let word = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
            list.map(word).collect::<Vec<_>>().join(between)
        };
        let settings = &index["settings"];
        let mut lines = vec![
            ("folder".to_owned(), sweep.path.display().to_string()),
            ("command".to_owned(), command_line(&index["command_line"])),
            ("runs".to_owned(), sweep.runs.len().to_string()),
            (
                "schedulers".to_owned(),
                words(&settings["schedulers"], ", "),
            ),
        ];
        for (key, values) in settings["varied"].as_object().into_iter().flatten() {
            lines.push((key.clone(), words(values, ", ")));
        }
        lines.extend(assumptions(index));
        if !settings["blox_version"].is_null() {
            let version = version(&settings["blox_version"], &index["commit"]);
            lines.push(("version".to_owned(), version));
        }
        // Writing to a string cannot fail.
        lines.retain(|(_, line)| !line.is_empty());
        list(&mut html, &lines);
        let runs = || index["runs"].as_array().into_iter().flatten();
        let missing = runs().filter(|r| r["status"] == "missing").count();
        if missing > 0 {
            let all = runs().count();
            let text = format!("Interrupted: {missing} of {all} runs are missing.");
            notice(&mut html, &text);
        }
        for run in runs().filter(|r| r["status"] == "failed") {
            let of = |key: &str| run[key].as_str().unwrap_or("");
            notice(
                &mut html,
                &format!("Run {} failed: {}", of("run"), of("error")),
            );
        }
    }
    html
}

/// Returns the rule that chose the runs with jobs and GPUs over time.
pub(super) fn rule(sweep: &Sweep, shown: usize) -> String {
    let (runs, are) = match shown {
        1 => ("run".to_owned(), "is"),
        n => (format!("{n} runs"), "are"),
    };
    match (sweep.runs.len() > shown, sweep.runs.first()) {
        (true, Some(first)) if !first.seed.is_empty() => format!(
            "Of a sweep, the first {runs} with the seed {} {are} here. ",
            Escaped(&first.seed)
        ),
        (true, _) => format!("Of a sweep, the first {runs} {are} here. "),
        (false, _) => String::new(),
    }
}

/// Returns the table of medians over seeds, and below it the table of runs.
pub(super) fn tables(sweep: &Sweep, unit: TimeUnit) -> Result<String, FolderError> {
    let groups = sweep.groups();
    let mut html = medians(sweep, &groups, unit);
    if let Some(of_jobs) = sweep.groups_of_jobs()? {
        html.push_str("<h3>By group of jobs</h3>\n");
        html.push_str(&medians(&of_jobs, &of_jobs.groups(), unit));
    }
    if groups.len() < sweep.runs.len() {
        let count = sweep.runs.len();
        let _ = write!(html, "<details><summary>Each of the {count} runs</summary>");
        html.push_str(&each(sweep, unit));
        html.push_str("</details>\n");
    }
    Ok(html)
}

/// Returns the columns of the scheduler and of the settings.
fn settings<'a, T: 'a>(
    sweep: &'a Sweep,
    scheduler: fn(&T) -> String,
    settings: fn(&T) -> &[String],
) -> Vec<Field<'a, T>> {
    let mut fields = vec![Field::text("scheduler", "with its parameters", scheduler)];
    for (k, name) in sweep.varied.iter().enumerate() {
        let value = move |row: &T| value_or_none(&settings(row)[k]).to_owned();
        fields.push(Field::text(name, "a setting that was varied", value));
    }
    fields
}

fn medians(sweep: &Sweep, groups: &[Group<'_>], unit: TimeUnit) -> String {
    let mut fields = settings(
        sweep,
        |g: &Group<'_>| g.scheduler.to_owned(),
        |g| g.settings,
    );
    let seeds = |g: &Group<'_>| Some(g.runs.len() as f64);
    let formula = "runs that differ in their seeds alone";
    fields.push(Field::number("seeds", formula, ("seeds", ""), seeds));
    if groups.iter().any(|g| g.partial().is_some()) {
        let formula = "completed jobs of all measured ones, over all seeds";
        fields.push(Field::text("completed", formula, |g: &Group<'_>| {
            g.partial().map_or("all".to_owned(), of_measured)
        }));
    }
    let some = |name: &str| {
        sweep
            .runs
            .iter()
            .any(|r| r.figure(name).is_some_and(|n| n > 0.0))
    };
    let named = |name: &'static str| COLUMNS.iter().filter(move |c| c.name == name);
    let counts = ["rejected", "failed", "unfinished"]
        .into_iter()
        .flat_map(named);
    let counts = counts.chain(PARTS.iter().filter(|c| c.is_of_deadlines()));
    let medians = MEDIANS.into_iter().flat_map(named);
    for c in counts.filter(|c| some(c.name)).chain(medians) {
        interval(&mut fields, c);
    }
    for c in PARTS.iter().filter(|c| !c.is_of_deadlines()) {
        if groups.iter().any(|g| g.estimate(c.name).is_some()) {
            interval(&mut fields, c);
        }
    }
    table("", &fields, groups, |g| g.partial().is_some(), unit)
}

/// Adds the median of a figure over seeds, and the ends of its interval.
fn interval<'a>(fields: &mut Vec<Field<'a, Group<'a>>>, of: &'a Column) {
    let column = of.name;
    let median = move |g: &Group<'_>| Some(g.estimate(column)?.median);
    let text = format!("median over seeds: {}", of.formula);
    fields.push(Field::number(of.heading, text, (column, ""), median));
    for (heading, end) in [("from", 0), ("to", 1)] {
        let value = move |g: &Group<'_>| Some(g.estimate(column)?.interval?[end]);
        let text = "end of the interval of the median over seeds, of nominal level 95 %";
        fields.push(Field::number(heading, text, (column, ""), value));
    }
}

fn each(sweep: &Sweep, unit: TimeUnit) -> String {
    let mut fields = settings(
        sweep,
        |run: &Run| run.scheduler.clone(),
        |run| &run.settings,
    );
    let formula = "of workload, faults and policies";
    fields.push(Field::text("seed", formula, |run: &Run| run.seed.clone()));
    let (columns, note) =
        shown_columns(|name, what| sweep.runs.iter().all(|r| r.figure(name) == what));
    for c in &columns[1..] {
        let own = |run: &Run| run.figure(c.name);
        fields.push(Field::number(c.heading, c.formula, (c.name, ""), own));
    }
    let partial = |run: &Run| run.partial().is_some();
    table("", &fields, &sweep.runs, partial, unit) + &note
}
