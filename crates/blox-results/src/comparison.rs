//! Runs of several schedulers on the same jobs: their figures as rows, tables and lines.

use super::fields::Fields;
use super::figures::{
    Collected, Figures, OF_COMPLETED, PARTIAL, columns, flattened, group_columns, of_measured,
};
use super::grid::{About, Grid, csv, decimal, in_brackets, percent};
use super::groups::{Group, Groups};
use super::losses::Lost;
use super::overview::{FigureRow, Rows, table_of};
use super::statistics::Paired;
use super::summary::{MissCauses, Summary};
use super::text::{number_of, whole};
use blox_core::{JobId, Name};
use blox_sim::Report;
use blox_sim::results::job_id;
use serde_json::json;
use std::fmt::Write;

/// Results of one scheduler's run.
#[derive(Debug)]
pub struct Run {
    /// The rows of the simulation.
    pub report: Report,
    /// Their summary.
    pub summary: Summary,
    /// Notices about dropped or repaired jobs of the workload, one line for each.
    pub notices: Vec<String>,
    /// Jobs and data that the figures leave out.
    pub lost: Lost,
    /// Short description of the workload.
    pub workload: String,
    /// Figures of each collector, with the collector's name.
    pub collected: Collected,
    /// The jobs by their values in a column, if requested.
    pub groups: Option<Groups>,
}

impl Run {
    /// Returns the content of `summary.json`. `waits` includes the reasons for waiting.
    pub fn figures(&self, waits: bool) -> Figures<'_> {
        let groups = self.groups.as_ref();
        Figures::of(&self.report, &self.summary, &self.collected, groups, waits)
    }

    /// Describes the measured jobs that did not complete.
    pub fn leftovers(&self) -> Option<String> {
        let s = &self.summary;
        let counted = |rejected: bool| -> Vec<String> {
            let reasons = self.report.reasons(rejected).into_iter();
            reasons
                .map(|(kind, n)| format!("{kind}: {}", whole(n)))
                .collect()
        };
        let parts: Vec<String> = [
            (s.rejected, "rejected", counted(true)),
            (s.failed, "failed", Vec::new()),
            (s.unfinished, "unfinished", counted(false)),
        ]
        .into_iter()
        .filter(|(n, ..)| *n > 0)
        .map(|(n, what, why)| in_brackets(format!("{} {what}", whole(n)), &why))
        .collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// Formats the history of an explained job.
    pub fn story(&self, id: JobId) -> String {
        let report = &self.report;
        let job = report.jobs.get(id.index());
        let named = called(job.and_then(|job| job.name.as_ref()), id);
        let mut text = format!("\njob {named} under {}\n", report.scheduler);
        if report.story.is_empty() {
            text.push_str("  was not submitted before the end\n");
        }
        let times = report.story.iter().map(|m| decimal(m.at.secs(), 1));
        let times: Vec<String> = times.collect();
        let width = times.iter().map(String::len).max().unwrap_or(0);
        for (time, moment) in times.iter().zip(&report.story) {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {time:>width$} s  {}", moment.what);
        }
        text
    }
}

/// Formats a job as its `job_id`, with its number if that differs.
pub fn called(name: Option<&Name>, id: JobId) -> String {
    match job_id(name, id) {
        named if named == id.to_string() => named.into_owned(),
        named => format!("{named} (number {id})"),
    }
}

/// Runs of schedulers on the same jobs.
#[derive(Clone, Copy, Debug)]
pub struct Comparison<'a> {
    /// The runs.
    pub runs: &'a [&'a Run],
    /// True if they are compared with a baseline.
    pub compares: bool,
    /// The run of the baseline, unless it failed.
    pub base: Option<&'a Run>,
}

impl<'a> Comparison<'a> {
    /// Returns the figures of each run, with the comparison to the baseline. `waits` includes the
    /// reasons for waiting.
    pub fn rows(&self, waits: bool) -> Vec<Fields> {
        let base = self.base.filter(|_| self.compares);
        let base = base.map(|base| base.figures(waits));
        let figures = self.runs.iter().map(|run| run.figures(waits));
        let fields = figures.map(|own| match &base {
            Some(base) => own.compared(base),
            None => own.fields(),
        });
        fields.collect()
    }

    fn groups(&self) -> impl Iterator<Item = (&'a str, &'a Group)> {
        let runs = self.runs.iter();
        let groups = runs.filter_map(|run| run.groups.as_ref());
        groups.flat_map(|of| of.list.iter().map(|group| (of.column.as_str(), group)))
    }

    /// Returns the figures of each group of each run, with the comparison to the same group under the
    /// baseline.
    pub fn group_rows(&self) -> Vec<Fields> {
        let base = self.base.filter(|_| self.compares);
        let base = base.and_then(|base| base.groups.as_ref());
        let row = |(column, group): (&str, &Group)| {
            let mut row = group.compared(base.and_then(|base| base.get(&group.value)));
            row.insert("scheduler".to_owned(), json!(group.summary.scheduler));
            row.insert(column.to_owned(), json!(group.value));
            row
        };
        self.groups().map(row).collect()
    }

    /// Returns the table of figures, one row for each scheduler.
    pub fn table(&self) -> Grid {
        let rows: Vec<Fields> = self.rows(false).into_iter().map(flattened).collect();
        let keys = self
            .runs
            .iter()
            .map(|run| vec![run.summary.scheduler.clone()]);
        self.table_of(keys, &rows, &[])
    }

    /// Returns the table of figures by group, one row for each scheduler and value of the column.
    pub fn group_table(&self, column: &str) -> Grid {
        let rows: Vec<Fields> = self.group_rows().into_iter().map(flattened).collect();
        let keys = self.groups();
        let keys = keys.map(|(_, g)| vec![g.summary.scheduler.clone(), g.value.clone()]);
        self.table_of(keys, &rows, &[column])
    }

    fn table_of(
        &self,
        keys: impl Iterator<Item = Vec<String>>,
        rows: &[Fields],
        heads: &[&str],
    ) -> Grid {
        let rows = keys.zip(rows).map(|(keys, row)| FigureRow {
            keys,
            runs: vec![row],
        });
        let compared = self.compares;
        table_of(&rows.collect::<Vec<_>>(), heads, Rows::Runs { compared })
    }

    /// Formats the figures as CSV: one row for each scheduler, or for each scheduler and value of a
    /// column.
    pub fn csv(&self, waits: bool, by: Option<&str>) -> String {
        let (head, rows) = match by {
            Some(by) => {
                let mut rows = self.group_rows();
                (group_columns(&mut rows, by, self.compares), rows)
            }
            None => {
                let mut rows = self.rows(waits);
                (columns(&mut rows, self.compares), rows)
            }
        };
        csv(&head, &rows)
    }

    /// Returns the figures of collectors, one row for each scheduler and figure.
    pub fn collected(&self) -> Grid {
        let mut rows = Vec::new();
        for run in self.runs {
            for (collector, figures) in &run.collected {
                let scheduler = &run.summary.scheduler;
                rows.extend(figures.iter().map(|figure| (scheduler, collector, figure)));
            }
        }
        Grid::of(
            rows,
            3,
            &[
                ("scheduler", &|(scheduler, ..)| (*scheduler).clone()),
                ("collector", &|(_, collector, _)| (*collector).clone()),
                ("figure", &|(.., (name, _))| name.clone()),
                ("value", &|(.., (_, value))| decimal(*value, 2)),
            ],
        )
    }

    /// Returns the reasons for which measured jobs waited, one row for each scheduler and reason.
    pub fn waits(&self) -> Grid {
        let mut rows = Vec::new();
        for run in self.runs {
            let all: f64 = run.report.waits.iter().map(|w| w.total.secs()).sum();
            let scheduler = &run.summary.scheduler;
            rows.extend(run.report.waits.iter().map(|wait| (scheduler, wait, all)));
        }
        Grid::of(
            rows,
            2,
            &[
                ("scheduler", &|(scheduler, ..)| (*scheduler).clone()),
                ("waited because", &|(_, w, _)| w.reason.as_str().to_owned()),
                ("jobs", &|(_, w, _)| whole(w.jobs)),
                ("hours", &|(_, w, _)| decimal(w.total.hours(), 1)),
                ("s a job", &|(_, w, _)| {
                    decimal(w.total.secs() / w.jobs.max(1) as f64, 0)
                }),
                ("of all\nwaiting", &|(_, w, all)| {
                    percent(w.total.secs() / all)
                }),
            ],
        )
    }

    fn summaries(&self) -> impl Iterator<Item = &'a Summary> {
        self.runs.iter().map(|run| &run.summary)
    }

    /// Returns whether an average is marked as partial.
    pub fn has_marks(&self) -> bool {
        self.summaries()
            .any(|s| s.is_partial() && !s.avg_jct_s.is_nan())
    }

    /// Returns the losses of each run with its scheduler.
    pub fn lost(&self) -> impl Iterator<Item = (&'a str, &'a Lost)> {
        let runs = self.runs.iter();
        runs.map(|run| (run.summary.scheduler.as_str(), &run.lost))
    }

    /// Describes the comparison with the baseline. `paired` adds lines about jobs one by one.
    pub fn describe_base(&self, about: &mut About, paired: bool) {
        let Some(base) = self.base else { return };
        let of_base = &base.summary.scheduler;
        if self.compares && self.runs.len() > 1 {
            about.add("relative", format!("avg JCT / avg JCT of {of_base}"));
        }
        let others = self.runs.iter().filter(|_| paired);
        for run in others.filter(|run| run.summary.scheduler != *of_base) {
            let p = Paired::of(&base.report.jobs, &run.report.jobs);
            let share = |n: u64| percent(n as f64 / p.pairs.max(1) as f64);
            let (name, jobs) = (&run.summary.scheduler, number_of(p.pairs, "job"));
            let (faster, slower) = (share(p.faster), share(p.slower));
            about.add(
                "paired",
                format!("{name}: {faster} of {jobs} faster, {slower} slower"),
            );
            let mean = decimal(p.mean_s, 1);
            let [p10, median, p90] = [p.p10_s, p.median_s, p.p90_s].map(|s| decimal(s, 0));
            about.add(
                "diff.",
                format!(
                    "{name}: JCT {mean} s on average; p10 {p10} s, median {median} s, p90 {p90} s"
                ),
            );
        }
    }

    /// Describes figures that the table lacks: causes of missed deadlines, training jobs, jobs without
    /// a known fairness if it was requested, and jobs that did not complete.
    pub fn describe_rest(&self, about: &mut About, fairness: bool) {
        let missed = self.summaries();
        let missed = missed.filter_map(|s| Some((&*s.scheduler, causes(&s.deadlines?.causes))));
        about_missed(about, &missed.collect::<Vec<_>>());
        for s in self.summaries() {
            if let Some(t) = s.training {
                let of = format!(
                    "{} restarts and {} GPU-hours a job; {} jobs in the system, at most {}",
                    decimal(t.restarts, 2),
                    decimal(t.gpu_hours, 2),
                    decimal(t.contention, 1),
                    whole(t.most_contention)
                );
                about.add("training", format!("{}: {of}", s.scheduler));
            }
        }
        about.0.extend(fairness.then(of_rho));
        for s in self
            .summaries()
            .filter(|s| fairness && s.is_fairness_partial())
        {
            let known = s.fairness.map_or(0, |f| f.jobs);
            if known > 0 {
                let (name, of) = (&s.scheduler, of_measured((known, s.measured)));
                let line = format!("{name}: values with {PARTIAL} are over {of} measured jobs");
                about.add("rho", line);
            }
        }
        for run in self.runs {
            if let Some(line) = run.leftovers() {
                about.add(&run.summary.scheduler, line);
            }
        }
    }

    /// Returns a notice if the averages are over different jobs.
    pub fn differing_jobs(&self) -> Option<String> {
        let first = self.summaries().next()?.completed;
        let differ = self.summaries().any(|s| s.completed != first);
        let each = self.summaries();
        let each = each.map(|s| format!("{} {}", s.scheduler, whole(s.completed)));
        differ.then(|| {
            let each = each.collect::<Vec<_>>().join(", ");
            format!("averages are over different jobs: completed {each}")
        })
    }
}

/// Returns the line about marked averages.
pub fn marks() -> (String, String) {
    (PARTIAL.to_owned(), OF_COMPLETED.to_owned())
}

/// Returns the line about the meaning of [`Fairness`](super::Fairness).
pub fn of_rho() -> (String, String) {
    let line = "completion time over that alone on a fair share of the cluster; above 1 a job was treated unfairly";
    ("rho".to_owned(), line.to_owned())
}

/// Returns the causes of missed deadlines, each with its number.
fn causes(causes: &MissCauses) -> Vec<(u64, &'static str)> {
    let counts = [
        (causes.impossible, "could not be met"),
        (causes.crashes, "after crashes"),
        (causes.overheads, "by their overheads"),
        (causes.waiting, "by waiting for GPUs"),
        (causes.round, "seen only when a round ended"),
        (causes.failed, "failed"),
        (causes.unfinished, "not ended"),
    ];
    counts.into_iter().filter(|(n, _)| *n > 0).collect()
}

/// States the causes of missed deadlines: in one line if all have the same cause, else a line for
/// each scheduler.
fn about_missed(about: &mut About, missed: &[(&str, Vec<(u64, &str)>)]) {
    let mut all = missed.iter().flat_map(|(_, causes)| causes);
    let Some((_, cause)) = all.next() else { return };
    if all.all(|(_, other)| other == cause) {
        about.add("deadlines", format!("all misses: {cause}"));
        return;
    }
    for (scheduler, causes) in missed.iter().filter(|(_, causes)| !causes.is_empty()) {
        let each = causes.iter().map(|(n, why)| format!("{} {why}", whole(*n)));
        let each = each.collect::<Vec<_>>().join(", ");
        about.add("deadlines", format!("{scheduler}: misses: {each}"));
    }
}
