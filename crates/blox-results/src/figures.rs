//! Figures of simulations as values: figures of a run, comparisons of runs, and medians over seeds.

use super::fields::{Fields, compare, figure_columns};
use super::groups::Groups;
use super::text::whole;
use crate::statistics::{Estimate, Paired};
use crate::summary::Summary;
use blox_sim::results::WaitRow;
use blox_sim::{Ended, Report};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Figures of each collector, with the collector's name.
pub type Collected = Vec<(String, Vec<(String, f64)>)>;

/// Content of `summary.json`: the [`Summary`] of a run, how the run ended, and numbers of jobs by
/// reason.
#[derive(Clone, Debug, Serialize)]
pub struct Figures<'a> {
    #[serde(flatten)]
    summary: &'a Summary,
    /// True if the averages are over all measured jobs.
    complete: bool,
    ended: &'static str,
    end_s: f64,
    /// True if the scheduler read true durations of jobs.
    knew_true_durations: bool,
    /// Numbers of rejected measured jobs by reason.
    rejected_reasons: BTreeMap<&'a str, u64>,
    unfinished_reasons: BTreeMap<&'a str, u64>,
    /// Waiting times of measured jobs by reason, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits: Option<&'a [WaitRow]>,
    /// Figures of collectors, by collector and figure.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    collected: BTreeMap<&'a str, BTreeMap<&'a str, f64>>,
    /// Name of the column of the groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'a str>,
    /// Figures of each group of jobs, if requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    groups: Vec<Fields>,
    #[serde(skip)]
    report: &'a Report,
}

impl<'a> Figures<'a> {
    /// Returns the figures of a run with its summary, its collectors and its groups of jobs. `waits`
    /// includes the reasons for waiting.
    pub fn of(
        report: &'a Report,
        summary: &'a Summary,
        collected: &'a Collected,
        groups: Option<&'a Groups>,
        waits: bool,
    ) -> Self {
        let figures = |(name, list): &'a (String, Vec<(String, f64)>)| {
            let list = list.iter().map(|(key, value)| (key.as_str(), *value));
            (name.as_str(), list.collect())
        };
        Figures {
            complete: !summary.is_partial(),
            summary,
            collected: collected.iter().map(figures).collect(),
            waits: waits.then_some(&report.waits),
            ended: ended(report.ended),
            end_s: report.end.secs(),
            knew_true_durations: report.knew_truth,
            rejected_reasons: report.reasons(true),
            unfinished_reasons: report.reasons(false),
            by: groups.map(|groups| &*groups.column),
            groups: groups.map_or_else(Vec::new, Groups::fields),
            report,
        }
    }

    /// Returns the figures by name.
    pub fn fields(&self) -> Fields {
        match serde_json::to_value(self) {
            Ok(Value::Object(fields)) => fields,
            _ => Fields::new(),
        }
    }

    /// Returns the figures and the comparison to a baseline. `relative_avg_jct` is the average job
    /// completion time as a multiple of the baseline's. `paired` compares the jobs one by one.
    pub fn compared(&self, base: &Figures<'_>) -> Fields {
        let mut fields = self.fields();
        let (own, of_base) = (self.summary, base.summary);
        let other = own.scheduler != of_base.scheduler;
        let paired = || Paired::of(&base.report.jobs, &self.report.jobs);
        let averages = [own, of_base].map(|s| s.avg_jct_s);
        compare(&mut fields, averages, other.then(paired));
        fields
    }
}

/// Returns how a run ended, as in `summary.json`.
pub fn ended(ended: Ended) -> &'static str {
    match ended {
        Ended::Finished => "finished",
        Ended::Standstill => "standstill",
        Ended::Starved => "starved",
        Ended::Horizon => "horizon",
        Ended::NoProgress => "no progress",
        Ended::Interrupted => "interrupted",
    }
}

/// Mark of an average over fewer jobs than were measured.
pub const PARTIAL: &str = "*";

/// Meaning of the [mark](PARTIAL).
pub const OF_COMPLETED: &str = "average over the completed jobs, fewer than were measured";

/// The columns whose values are over completed jobs.
const OVER_COMPLETED: [&str; 6] = [
    "avg_jct_s",
    "median_jct_s",
    "p99_jct_s",
    "avg_responsiveness_s",
    "avg_queueing_s",
    "relative",
];

/// Returns whether the values of a column are over completed jobs.
pub(crate) fn is_over_completed(column: &str) -> bool {
    OVER_COMPLETED.contains(&column)
}

/// Returns the numbers of completed and of measured jobs over several runs, if some measured jobs
/// did not complete.
pub fn partial<'a>(rows: impl IntoIterator<Item = &'a Fields>) -> Option<(u64, u64)> {
    let (mut completed, mut measured) = (0, 0);
    for row in rows {
        let count = |name: &str| row.get(name).and_then(Value::as_u64).unwrap_or(0);
        completed += count("completed");
        measured += count("measured");
    }
    (completed < measured).then_some((completed, measured))
}

/// Formats numbers of completed and of measured jobs, as `998 of 1,001`.
pub fn of_measured((completed, measured): (u64, u64)) -> String {
    format!("{} of {}", whole(completed), whole(measured))
}

/// Turns rows of figures into rows of a table, and returns the columns. A figure with parts becomes
/// columns `FIGURE_PART`. A figure of a collector becomes the column `COLLECTOR_FIGURE`. `compares`
/// adds the columns of a comparison.
pub fn columns(rows: &mut [Fields], compares: bool) -> Vec<String> {
    let mut head: Vec<String> = figure_columns().map(str::to_owned).collect();
    head.extend(["ended", "end_s"].map(str::to_owned));
    with_parts(head, rows, compares)
}

/// Returns the columns of rows of groups, as [`columns`] does. The scheduler precedes the value.
pub fn group_columns(rows: &mut [Fields], by: &str, compares: bool) -> Vec<String> {
    let mut head = vec!["scheduler".to_owned()];
    head.extend(Groups::columns(by));
    with_parts(head, rows, compares)
}

fn with_parts(mut head: Vec<String>, rows: &mut [Fields], compares: bool) -> Vec<String> {
    head.extend(compares.then(|| "relative_avg_jct".to_owned()));
    let paired = compares.then(|| json!(Paired::default()));
    for row in &mut *rows {
        *row = flattened(std::mem::take(row));
    }
    let parts = |name, parts: Value| flatten(&mut Fields::new(), name, parts);
    head.extend(
        paired
            .into_iter()
            .flat_map(|paired| parts("paired", paired)),
    );
    head.extend(part_columns(rows.iter()));
    head.extend(collected_columns(rows));
    head
}

/// The figures with parts, in order of their columns.
const WITH_PARTS: [&str; 6] = [
    "rent",
    "deadlines",
    "training",
    "services",
    "evictions",
    "fairness",
];

/// Turns each figure with parts into figures `FIGURE_PART`: `deadlines_met`, `fairness_mean`,
/// `paired_mean_s`.
pub fn flattened(mut row: Fields) -> Fields {
    for name in WITH_PARTS.into_iter().chain(["paired"]) {
        if let Some(parts) = row.remove(name) {
            flatten(&mut row, name, parts);
        }
    }
    row
}

/// Returns the columns of figures with parts, except comparisons, that some [flat](flattened) row
/// has.
pub fn part_columns<'a>(rows: impl IntoIterator<Item = &'a Fields>) -> Vec<String> {
    let mut found = BTreeSet::new();
    for row in rows {
        let part = |key: &str| {
            let names = |name: &&str| key.strip_prefix(*name).is_some_and(|k| k.starts_with('_'));
            WITH_PARTS.iter().position(names)
        };
        found.extend(row.keys().filter_map(|key| Some((part(key)?, key.clone()))));
    }
    found.into_iter().map(|(_, key)| key).collect()
}

/// Turns the figures of collectors into columns `COLLECTOR_FIGURE`, and returns the columns.
pub fn collected_columns(rows: &mut [Fields]) -> impl Iterator<Item = String> {
    let mut columns = BTreeSet::new();
    for row in rows {
        if let Some(Value::Object(collectors)) = row.remove("collected") {
            for (collector, figures) in collectors {
                columns.extend(flatten(row, &collector, figures));
            }
        }
    }
    columns.into_iter()
}

/// Inserts one figure for each part, and returns their names.
fn flatten(row: &mut Fields, name: &str, parts: Value) -> Vec<String> {
    let Value::Object(parts) = parts else {
        row.insert(name.to_owned(), parts);
        return vec![name.to_owned()];
    };
    let inner = parts
        .into_iter()
        .map(|(key, value)| flatten(row, &format!("{name}_{key}"), value));
    inner.flatten().collect()
}

/// Estimates a figure over runs that differ in their seeds; `None` if no run has the figure.
pub fn estimate<'a>(rows: impl IntoIterator<Item = &'a Fields>, figure: &str) -> Option<Estimate> {
    let values = rows.into_iter().filter_map(|row| row.get(figure)?.as_f64());
    let values: Vec<f64> = values.collect();
    Estimate::of(&values)
}

/// Returns the sum of a count over runs; NaN if no run has it.
pub fn total<'a>(rows: impl IntoIterator<Item = &'a Fields>, count: &str) -> f64 {
    let counts = rows.into_iter().filter_map(|row| row.get(count)?.as_f64());
    counts.reduce(|sum, n| sum + n).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_deadlines_are_columns() {
        let row = |met: u64| {
            let deadlines = json!({"met": met, "missed": 2, "causes": {"waiting": 2}});
            let row = json!({"avg_jct_s": 1, "deadlines": deadlines});
            row.as_object().cloned().unwrap_or_default()
        };
        let mut rows = vec![row(3), row(4)];
        let head = columns(&mut rows, false);
        let names = [
            "deadlines_causes_waiting",
            "deadlines_met",
            "deadlines_missed",
        ];
        assert_eq!(head[head.len() - 3..], names);
        assert_eq!(rows[0]["deadlines_causes_waiting"], 2);
    }

    #[test]
    fn columns_of_rows_with_parts_are_flat() {
        let row = json!({"avg_jct_s": 1, "paired": {"pairs": 2}, "collected": {"q": {"n": 3}}});
        let mut rows = vec![row.as_object().cloned().unwrap_or_default()];
        let head = columns(&mut rows, true);
        assert_eq!(rows[0]["paired_pairs"], 2);
        assert_eq!(rows[0]["q_n"], 3);
        assert_eq!(part_columns(&rows), [""; 0]);
        assert_eq!(head.last().map(String::as_str), Some("q_n"));
        assert!(head.contains(&"paired_pairs".to_owned()));
    }
}
