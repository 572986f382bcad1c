//! Figures as JSON.

use crate::failure::Failure;
use crate::plan::Plan;
use blox_core::JobId;
use blox_experiment::Results;
use serde::Serialize;
use serde_json::json;
use std::io::{self, Write};

/// Returns the output of `--output-format json`: an object for `simulate`, a list of objects for
/// `compare`.
pub(crate) fn json(
    plan: &Plan<'_>,
    results: &Results<'_, '_>,
    explained: Option<JobId>,
) -> Result<String, Failure> {
    let comparison = results.comparison();
    let mut list = comparison.rows(plan.options.why);
    if explained.is_some() {
        for (row, run) in list.iter_mut().zip(comparison.runs) {
            row.insert("story".to_owned(), json!(run.report.story));
        }
    }
    match list.as_slice() {
        [one] if !plan.compares => pretty_text(one),
        list => pretty_text(&list),
    }
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
