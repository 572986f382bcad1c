//! Figures as JSON and CSV.

use super::super::result::{Run, comparison};
use crate::experiment::Experiment;
use crate::failure::Failure;
use blox_core::JobId;
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
    let mut list = comparison(experiment, runs).rows(experiment.options.why);
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
pub(crate) fn csv(experiment: &Experiment<'_>, runs: &[&Run]) -> String {
    let o = &experiment.options;
    comparison(experiment, runs).csv(o.why, o.by.as_deref().map(|by| &*by.0))
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
