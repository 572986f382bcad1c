//! Figures as JSON and CSV.

use super::super::grid;
use super::super::resolve::Experiment;
use super::super::result::Run;
use super::super::table::base;
use crate::failure::Failure;
use blox_core::JobId;
use blox_results::{Fields, columns, group_columns};
use serde::Serialize;
use serde_json::json;
use std::io::{self, Write};

/// Returns the output of `--output-format json`: an object for `simulate`, a list of objects for
/// `compare`.
pub(crate) fn json(
    experiment: &Experiment<'_>,
    runs: &[&Run],
    explained: Option<JobId>,
) -> Result<String, Failure> {
    let mut list = compared(experiment, runs);
    if explained.is_some() {
        for (row, run) in list.iter_mut().zip(runs) {
            row.insert("story".to_owned(), json!(run.report.story));
        }
    }
    match list.as_slice() {
        [one] if !experiment.compares => pretty_text(one),
        list => pretty_text(&list),
    }
}

/// Returns the output of `--output-format csv`, one row for each scheduler, or with `--by` for each
/// scheduler and group.
pub(crate) fn csv(experiment: &Experiment<'_>, runs: &[&Run]) -> Result<String, Failure> {
    if let Some(by) = experiment.options.by.as_deref() {
        let mut rows = compared_groups(experiment, runs);
        let head = group_columns(&mut rows, &by.0, experiment.compares);
        return grid::csv(&head, &rows);
    }
    let mut rows = compared(experiment, runs);
    let head = columns(&mut rows, experiment.compares);
    grid::csv(&head, &rows)
}

/// Returns the figures of each run, with the comparison to the baseline.
fn compared(experiment: &Experiment<'_>, runs: &[&Run]) -> Vec<Fields> {
    let base = base(experiment, runs).filter(|_| experiment.compares);
    let base = base.map(|base| base.figures(experiment));
    let figures = runs.iter().map(|run| run.figures(experiment));
    let fields = figures.map(|own| match &base {
        Some(base) => own.compared(base),
        None => own.fields(),
    });
    fields.collect()
}

/// Returns the figures of each group of each run, with the comparison to the same group under the
/// baseline.
fn compared_groups(experiment: &Experiment<'_>, runs: &[&Run]) -> Vec<Fields> {
    let base = base(experiment, runs).filter(|_| experiment.compares);
    let base = base.and_then(|base| base.groups.as_ref());
    let mut rows = Vec::new();
    for run in runs {
        for (groups, group) in run
            .groups
            .iter()
            .flat_map(|g| g.list.iter().map(move |i| (g, i)))
        {
            let mut row = group.compared(base.and_then(|base| base.get(&group.value)));
            row.insert("scheduler".to_owned(), json!(group.summary.scheduler));
            row.insert(groups.column.clone(), json!(group.value));
            rows.push(row);
        }
    }
    rows
}

pub(crate) fn pretty(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    out.write_all(b"\n")
}

pub(crate) fn pretty_text(value: &impl Serialize) -> Result<String, Failure> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    Ok(text)
}
