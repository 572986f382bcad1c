//! Figures as JSON and CSV.

use super::super::Failure;
use super::super::resolve::Experiment;
use super::super::result::Run;
use blox_core::JobId;
use blox_sim::results::{COLUMNS, Summary, WaitRow, statistics::Paired};
use blox_sim::{Ended, Report};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

/// Named values.
type Fields = serde_json::Map<String, Value>;

/// Content of `summary.json`, and of an element of the `--json` output.
#[derive(Serialize)]
pub(super) struct Figures<'a> {
    #[serde(flatten)]
    summary: &'a Summary,
    ended: &'static str,
    end_s: f64,
    /// Numbers of rejected measured jobs by reason.
    rejected_reasons: BTreeMap<&'a str, u64>,
    unfinished_reasons: BTreeMap<&'a str, u64>,
    /// Waiting times of measured jobs by reason, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits: Option<&'a [WaitRow]>,
    /// Figures of collectors, by collector and figure.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    collected: BTreeMap<&'a str, BTreeMap<&'a str, f64>>,
}

impl<'a> Figures<'a> {
    pub(super) fn of(run: &'a Run, experiment: &Experiment<'_>) -> Self {
        let report = &run.report;
        let figures = |(name, list): &'a (String, Vec<(String, f64)>)| {
            let list = list.iter().map(|(key, value)| (key.as_str(), *value));
            (name.as_str(), list.collect())
        };
        Figures {
            collected: run.collected.iter().map(figures).collect(),
            waits: experiment.options.why.then_some(&report.waits),
            summary: &report.summary,
            ended: ended(report.ended),
            end_s: report.end.secs(),
            rejected_reasons: reasons(report, true),
            unfinished_reasons: reasons(report, false),
        }
    }
}

pub(crate) fn ended(ended: Ended) -> &'static str {
    match ended {
        Ended::Finished => "finished",
        Ended::Standstill => "standstill",
        Ended::InVain => "in vain",
        Ended::Interrupted => "interrupted",
    }
}

/// Counts reasons of measured jobs that were rejected, or had not ended. For reasons of the kind
/// `other`, the text of the policy is used.
pub(crate) fn reasons(report: &Report, rejected: bool) -> BTreeMap<&str, u64> {
    let mut counts = BTreeMap::new();
    for job in report.jobs.iter().filter(|j| j.measured) {
        if job.outcome.is_some() == rejected
            && let Some(kind) = job.reason_kind
        {
            let own = job.reason.as_deref().filter(|_| kind == "other");
            *counts.entry(own.unwrap_or(kind)).or_insert(0) += 1;
        }
    }
    counts
}

/// Returns the content of `summary.json`.
pub(crate) fn figures(run: &Run, experiment: &Experiment<'_>) -> Result<Fields, Failure> {
    match serde_json::to_value(Figures::of(run, experiment)).map_err(Failure::new)? {
        Value::Object(figures) => Ok(figures),
        _ => Ok(Fields::new()),
    }
}

/// Returns the output of `--output-format json`: an object for `simulate`, a list of objects for
/// `compare`.
pub(crate) fn json(
    experiment: &Experiment<'_>,
    runs: &[&Run],
    explained: Option<JobId>,
) -> Result<String, Failure> {
    let mut list = compared(experiment, runs)?;
    if explained.is_some() {
        for (row, run) in list.iter_mut().zip(runs) {
            row.insert("story".to_owned(), json!(run.report.story));
        }
    }
    match (experiment.compares, list.pop()) {
        (false, Some(one)) => pretty_text(&one),
        (_, last) => {
            list.extend(last);
            pretty_text(&list)
        }
    }
}

/// Returns the output of `--output-format csv`, one row for each scheduler.
pub(crate) fn csv(experiment: &Experiment<'_>, runs: &[&Run]) -> Result<String, Failure> {
    let mut rows = compared(experiment, runs)?;
    let mut head: Vec<String> = COLUMNS.iter().map(|c| c.name.to_owned()).collect();
    head.extend(["ended".to_owned(), "end_s".to_owned()]);
    if experiment.compares {
        head.push("relative_avg_jct".to_owned());
        let paired = serde_json::to_value(Paired::default()).map_err(Failure::new)?;
        head.extend(flatten(&mut rows, "paired", &paired));
    }
    let summaries = || runs.iter().map(|r| &r.report.summary);
    if let Some(training) = summaries().find_map(|s| s.training) {
        let training = serde_json::to_value(training).map_err(Failure::new)?;
        head.extend(flatten(&mut rows, "training", &training));
    }
    if let Some(fairness) = summaries().find_map(|s| s.fairness) {
        let fairness = serde_json::to_value(fairness).map_err(Failure::new)?;
        head.extend(flatten(&mut rows, "fairness", &fairness));
    }
    let mut columns = BTreeSet::new();
    for row in &mut rows {
        columns.extend(flatten_collected(row));
    }
    head.extend(columns);
    super::super::grid::csv(&head, &rows)
}

/// Turns the figures of collectors into columns `COLLECTOR_FIGURE`, and returns the column names.
pub(crate) fn flatten_collected(row: &mut Fields) -> Vec<String> {
    let mut columns = Vec::new();
    let Some(Value::Object(collectors)) = row.remove("collected") else {
        return columns;
    };
    for (collector, figures) in collectors {
        let Value::Object(figures) = figures else {
            continue;
        };
        for (figure, value) in figures {
            let column = format!("{collector}_{figure}");
            row.insert(column.clone(), value);
            columns.push(column);
        }
    }
    columns
}

/// Turns an object in each row into columns with the keys of an example, and returns the column
/// names.
fn flatten(rows: &mut [Fields], name: &str, example: &Value) -> Vec<String> {
    let column = |key: &String| format!("{name}_{key}");
    for row in rows {
        if let Some(Value::Object(parts)) = row.remove(name) {
            row.extend(parts.into_iter().map(|(key, value)| (column(&key), value)));
        }
    }
    let keys = example.as_object().into_iter().flat_map(|e| e.keys());
    keys.map(column).collect()
}

/// Returns the figures of each run, with the comparison to the baseline.
fn compared(experiment: &Experiment<'_>, runs: &[&Run]) -> Result<Vec<Fields>, Failure> {
    let base = super::super::table::base(experiment, runs);
    let mut list = Vec::new();
    for run in runs {
        let mut fields = figures(run, experiment)?;
        if let (true, Some(base)) = (experiment.compares, base) {
            let (s, b) = (&run.report.summary, &base.report.summary);
            if b.avg_jct_s > 0.0 {
                let relative = s.avg_jct_s / b.avg_jct_s;
                fields.insert("relative_avg_jct".to_owned(), json!(relative));
            }
            if s.scheduler != b.scheduler {
                let paired = Paired::of(&base.report.jobs, &run.report.jobs);
                fields.insert("paired".to_owned(), json!(paired));
            }
        }
        list.push(fields);
    }
    Ok(list)
}

pub(crate) fn pretty(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    out.write_all(b"\n")
}

pub(crate) fn pretty_text(value: &impl Serialize) -> Result<String, Failure> {
    let mut text = serde_json::to_string_pretty(value).map_err(Failure::new)?;
    text.push('\n');
    Ok(text)
}
