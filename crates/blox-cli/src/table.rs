//! Results as tables for users.

use super::assumptions::Assumptions;
use super::grid::{Form, Grid, decimal, in_brackets, number_of, percent, ratio, whole};
use super::job_data::measured_jobs;
use super::losses::{self, Lost};
use super::resolve::Experiment;
use super::result::Run;
use super::value::Measured;
use blox_core::suggest::nearest;
use blox_core::{JobId, Name};
use blox_results::statistics::{LEAST_SEEDS, Paired, RECOMMENDED_SEEDS};
use blox_results::{
    Fairness, Fields, MissCauses, OF_COMPLETED, PARTIAL, Summary, of_measured, value_or_none,
};
use blox_sim::results::job_id;
use blox_sim::{Ended, Measure};
use blox_traces::formats::csv::input_columns;
use serde_json::Value;
use std::fmt::Write;

/// Formats the results: figures, description, reasons for waiting, and the history of an explained
/// job.
pub(super) fn render(
    experiment: &Experiment<'_>,
    runs: &[&Run],
    failed: &[Failed],
    explained: Option<JobId>,
    form: Form,
) -> String {
    let mut text = figures(experiment, runs).text(form);
    if let Some(by) = experiment.options.by.as_deref() {
        text.push('\n');
        text.push_str(&by_group(experiment, runs, &by.0).text(form));
    }
    let collected = collected(runs);
    if !collected.rows.is_empty() {
        text.push('\n');
        text.push_str(&collected.text(form));
    }
    if experiment.options.why {
        text.push('\n');
        let waits = waits(runs);
        match waits.rows.is_empty() {
            true if form == Form::Latex => text.push_str("% no measured job waited\n"),
            true => text.push_str("no measured job waited\n"),
            false => text.push_str(&waits.text(form)),
        }
    }
    let about = match experiment.options.quiet {
        true => About::of(&Assumptions::of(experiment, lost(runs)), has_marks(runs)),
        false => about(experiment, runs, failed),
    };
    text.push('\n');
    text.push_str(&about.text(form));
    if let Some(id) = explained {
        text.push_str(&match form {
            Form::Latex => commented(&stories(id, runs)),
            _ => stories(id, runs),
        });
    }
    text
}

/// Turns lines into comments of LaTeX.
fn commented(text: &str) -> String {
    let lines = text.lines().map(|line| format!("% {line}"));
    lines
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect()
}

/// Formats the history of a job under each scheduler.
pub(super) fn stories(id: JobId, runs: &[&Run]) -> String {
    runs.iter().map(|run| story(id, run)).collect()
}

/// Description of a table: lines with labels.
#[derive(Default)]
pub(super) struct About(pub Vec<(String, String)>);

impl About {
    pub fn add(&mut self, what: &str, line: impl Into<String>) {
        self.0.push((what.to_owned(), line.into()));
    }

    /// Describes only what the figures assume, and the mark of partial averages if there is one.
    pub fn of(assumptions: &Assumptions, marked: bool) -> Self {
        let mut about = About::default();
        about.0.extend(marked.then(marks));
        about.assume(assumptions);
        about
    }

    pub fn assume(&mut self, assumptions: &Assumptions) {
        for (what, line) in &assumptions.0 {
            self.add(what, &**line);
        }
    }

    pub fn text(&self, form: Form) -> String {
        let line = |(what, line): &(String, String)| match form {
            Form::Markdown => format!("- {what}: {line}\n"),
            Form::Latex => format!("% {what}: {line}\n"),
            _ => format!("{what:<10} {line}\n"),
        };
        self.0.iter().map(line).collect()
    }
}

/// A row of the table of figures.
struct Figured<'a> {
    summary: &'a Summary,
    /// Value of the column by which jobs are grouped.
    group: &'a str,
    /// Average JCT under the baseline.
    base: f64,
}

/// Returns the table of figures, one row for each scheduler.
fn figures(experiment: &Experiment<'_>, runs: &[&Run]) -> Grid {
    let base = base(experiment, runs).map_or(0.0, |r| r.summary.avg_jct_s);
    let rows = runs.iter().map(|run| Figured {
        summary: &run.summary,
        group: "",
        base,
    });
    table_of(experiment, rows.collect(), None)
}

/// Returns the table of figures by group, one row for each scheduler and value of the column.
fn by_group(experiment: &Experiment<'_>, runs: &[&Run], by: &str) -> Grid {
    let base = base(experiment, runs).and_then(|run| run.groups.as_ref());
    let mut rows = Vec::new();
    for run in runs {
        for group in run.groups.iter().flat_map(|groups| &groups.list) {
            let same = base.and_then(|base| base.get(&group.value));
            rows.push(Figured {
                summary: &group.summary,
                group: &group.value,
                base: same.map_or(0.0, |base| base.summary.avg_jct_s),
            });
        }
    }
    table_of(experiment, rows, Some(by))
}

fn table_of(experiment: &Experiment<'_>, rows: Vec<Figured<'_>>, by: Option<&str>) -> Grid {
    let has_fairness = rows.iter().any(|r| r.summary.fairness.is_some());
    let priced = rows.iter().any(|r| r.summary.rent.is_some());
    let rent = |r: &Figured<'_>| r.summary.rent.unwrap_or_default();
    let only = |shown: bool, head| if shown { head } else { "" };
    let partial = rows.iter().any(|r| r.summary.is_partial());
    let mark = |s: &Figured<'_>, text: String| marked(text, s.summary.is_partial());
    let rho = |s: &Figured<'_>, of: fn(&Fairness) -> String| {
        let text = s.summary.fairness.as_ref().map_or("-".to_owned(), of);
        marked(text, s.summary.is_fairness_partial())
    };
    let words = 1 + usize::from(by.is_some());
    let grid = Grid::of(
        &rows,
        words,
        &[
            ("scheduler", &|r| r.summary.scheduler.clone()),
            (by.unwrap_or_default(), &|r| {
                value_or_none(r.group).to_owned()
            }),
            (only(by.is_some(), "jobs"), &|r| whole(r.summary.measured)),
            (only(partial, "completed"), &|r| {
                of_measured((r.summary.completed, r.summary.measured))
            }),
            ("avg\nJCT s", &|r| mark(r, decimal(r.summary.avg_jct_s, 1))),
            (only(experiment.compares, "relative"), &|r| {
                mark(r, ratio(r.summary.avg_jct_s, r.base))
            }),
            ("median\nJCT s", &|r| {
                mark(r, decimal(r.summary.median_jct_s, 0))
            }),
            ("p99\nJCT s", &|r| mark(r, decimal(r.summary.p99_jct_s, 0))),
            ("first\nwait s", &|r| {
                mark(r, decimal(r.summary.avg_responsiveness_s, 1))
            }),
            ("makespan\ns", &|r| decimal(r.summary.makespan_s, 0)),
            ("GPUs\nbusy", &|r| percent(r.summary.utilisation)),
            (only(priced, "node\nhours"), &|r| {
                decimal(rent(r).node_hours, 1)
            }),
            (only(priced, "cost"), &|r| decimal(rent(r).cost, 2)),
            ("preempted", &|r| whole(r.summary.preemptions)),
            (only(has_fairness, "mean\nrho"), &|r| {
                rho(r, |f| decimal(f.mean, 2))
            }),
            (only(has_fairness, "worst\nrho"), &|r| {
                rho(r, |f| decimal(f.worst, 2))
            }),
            (only(has_fairness, "unfair"), &|r| {
                rho(r, |f| percent(f.unfair))
            }),
        ],
    );
    let before = grid.words + usize::from(by.is_some()) + usize::from(partial);
    let grid = with_counts(grid, before, &rows, |r, name| count(r.summary, name));
    with_parts(grid, &rows, |r, name| part(r.summary, name))
}

/// Counts of jobs that a table shows if a run has them: headings, and names in flat figures.
const COUNTS: [(&str, &str); 6] = [
    ("rejected", "rejected"),
    ("failed", "failed"),
    ("unfinished", "unfinished"),
    ("deadline\nmet", "deadlines_met"),
    ("deadline\nmissed", "deadlines_missed"),
    ("deadline\ndeclined", "deadlines_declined"),
];

/// Inserts counts of jobs behind the first `at` columns of a table with a row for each item. The
/// counts of deadlines are shown if an item has deadlines, other counts if one is not 0.
pub(super) fn with_counts<T>(
    mut grid: Grid,
    at: usize,
    items: &[T],
    figure: impl Fn(&T, &str) -> f64,
) -> Grid {
    for (head, name) in COUNTS.into_iter().rev() {
        let values: Vec<f64> = items.iter().map(|item| figure(item, name)).collect();
        let shown = match name.starts_with("deadlines_") {
            true => values.iter().any(|n| !n.is_nan()),
            false => values.iter().any(|n| *n > 0.0),
        };
        if shown {
            grid.head.insert(at, head.to_owned());
            for (row, n) in grid.rows.iter_mut().zip(values) {
                row.insert(at, decimal(n, 0));
            }
        }
    }
    grid
}

/// A figure that a table shows if a run has it: its heading, its name in flat figures, and its form.
type Part = (&'static str, &'static str, fn(f64) -> String);

/// Figures of services and of evictions.
const PARTS: [Part; 6] = [
    ("needed\nGPU h", "services_needed_gpu_h", |n| decimal(n, 1)),
    ("lacking\nGPU h", "services_lacking_gpu_h", |n| {
        decimal(n, 1)
    }),
    ("in\nfull", "services_full", percent),
    ("guaranteed\nevicted", "evictions_guaranteed", |n| {
        decimal(n, 0)
    }),
    ("spot\nevicted", "evictions_spot", |n| decimal(n, 0)),
    ("broken", "evictions_broken", |n| decimal(n, 0)),
];

/// Appends the figures of services and of evictions to a table with a row for each item, if an item
/// has them.
pub(super) fn with_parts<T>(mut grid: Grid, items: &[T], figure: impl Fn(&T, &str) -> f64) -> Grid {
    for (head, name, form) in PARTS {
        let values: Vec<f64> = items.iter().map(|item| figure(item, name)).collect();
        if values.iter().any(|n| !n.is_nan()) {
            grid.head.push(head.to_owned());
            for (row, n) in grid.rows.iter_mut().zip(values) {
                row.push(form(n));
            }
        }
    }
    grid
}

/// Returns a figure of [`PARTS`]; NaN if the run has none.
fn part(s: &Summary, name: &str) -> f64 {
    let (services, evictions) = (s.services, s.evictions);
    let value = match name {
        "services_needed_gpu_h" => services.map(|s| s.needed_gpu_h),
        "services_lacking_gpu_h" => services.map(|s| s.lacking_gpu_h),
        "services_full" => services.map(|s| s.full),
        "evictions_guaranteed" => evictions.map(|e| e.guaranteed as f64),
        "evictions_spot" => evictions.map(|e| e.spot as f64),
        "evictions_broken" => evictions.map(|e| e.broken as f64),
        _ => None,
    };
    value.unwrap_or(f64::NAN)
}

/// Returns a count of [`COUNTS`]; NaN if the run has none.
fn count(s: &Summary, name: &str) -> f64 {
    let n = match (name, s.deadlines) {
        ("rejected", _) => Some(s.rejected),
        ("failed", _) => Some(s.failed),
        ("unfinished", _) => Some(s.unfinished),
        ("deadlines_met", d) => d.map(|d| d.met),
        ("deadlines_missed", d) => d.map(|d| d.missed),
        ("deadlines_declined", d) => d.map(|d| d.declined),
        _ => None,
    };
    n.map_or(f64::NAN, |n| n as f64)
}

/// Marks an average over fewer jobs than were measured.
pub(super) fn marked(mut text: String, partial: bool) -> String {
    if partial && text != "-" {
        text.push_str(PARTIAL);
    }
    text
}

/// Returns the line about marked averages.
pub(super) fn marks() -> (String, String) {
    (PARTIAL.to_owned(), OF_COMPLETED.to_owned())
}

/// Returns whether an average is marked.
fn has_marks(runs: &[&Run]) -> bool {
    let mut summaries = runs.iter().map(|run| &run.summary);
    summaries.any(|s| s.is_partial() && !s.avg_jct_s.is_nan())
}

/// Returns the line about the meaning of [`Fairness`].
pub(super) fn of_rho() -> (String, String) {
    let line = "completion time over that alone on a fair share of the cluster; above 1 a job was treated unfairly";
    ("rho".to_owned(), line.to_owned())
}

/// The values of a table over seeds.
pub(super) const MEDIANS: &str = "medians over seeds; counts of jobs are sums over seeds";

/// Returns the line about the intervals of figures over this number of seeds. The study of coverage
/// in `blox-sim` measured five and 20 seeds.
pub(super) fn intervals(seeds: usize) -> (String, String) {
    let covers = match seeds {
        LEAST_SEEDS => "measured coverage 93 to 94 %",
        _ => "measured coverage 95 % with 20 seeds",
    };
    let advice = format!("{RECOMMENDED_SEEDS} seeds are recommended");
    let of = format!("of the median over seeds: nominal level 95 %, {covers}");
    let line = match seeds {
        0..LEAST_SEEDS => format!("none for fewer than {LEAST_SEEDS} seeds; {advice}"),
        LEAST_SEEDS..RECOMMENDED_SEEDS => format!("{of}; {advice}"),
        _ => of,
    };
    ("interval".to_owned(), line)
}

/// Returns the heading of a column of intervals; empty if no figure has one.
pub(super) fn interval_heading(seeds: usize) -> &'static str {
    match seeds >= LEAST_SEEDS {
        true => "interval",
        false => "",
    }
}

/// Returns the run of the baseline.
pub(super) fn base<'r>(experiment: &Experiment<'_>, runs: &[&'r Run]) -> Option<&'r Run> {
    let label = &experiment.contestants.get(experiment.baseline)?.label;
    let named = runs.iter().find(|r| r.summary.scheduler == *label);
    named.copied()
}

/// Returns the figures of collectors, one row for each scheduler and figure.
fn collected(runs: &[&Run]) -> Grid {
    let mut rows = Vec::new();
    for run in runs {
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
fn waits(runs: &[&Run]) -> Grid {
    let mut rows = Vec::new();
    for run in runs {
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

/// Returns the description of the figures, one line for each entry.
fn about(experiment: &Experiment<'_>, runs: &[&Run], failed: &[Failed]) -> About {
    let mut about = About::default();
    about.add("cluster", experiment.cluster_line());
    let Some(first) = runs.first() else {
        return about;
    };
    about.add("workload", &*first.workload);
    about.add("measured", measured(experiment, runs));
    about.0.extend(has_marks(runs).then(marks));
    about.assume(&Assumptions::of(experiment, lost(runs)));
    if let Some(base) = base(experiment, runs) {
        let name = |run: &Run| run.summary.scheduler.clone();
        if experiment.compares && runs.len() > 1 {
            about.add("relative", format!("avg JCT / avg JCT of {}", name(base)));
        }
        if experiment.options.baseline.is_some() {
            for run in runs.iter().filter(|run| name(run) != name(base)) {
                let p = Paired::of(&base.report.jobs, &run.report.jobs);
                let share = |n: u64| percent(n as f64 / p.pairs.max(1) as f64);
                let (name, jobs) = (name(run), number_of(p.pairs, "job"));
                let (faster, slower) = (share(p.faster), share(p.slower));
                about.add(
                    "paired",
                    format!("{name}: {faster} of {jobs} faster, {slower} slower"),
                );
                let mean = decimal(p.mean_s, 1);
                let [p10, median, p90] = [p.p10_s, p.median_s, p.p90_s].map(|s| decimal(s, 0));
                about.add(
                    "diff.",
                    format!("{name}: JCT {mean} s on average; p10 {p10} s, median {median} s, p90 {p90} s"),
                );
            }
        }
    }
    let summaries = || runs.iter().map(|run| &run.summary);
    let missed = summaries().filter_map(|s| Some((&*s.scheduler, causes(&s.deadlines?.causes))));
    about_missed(&mut about, &missed.collect::<Vec<_>>());
    for s in summaries() {
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
    if experiment.options.fairness {
        about.0.push(of_rho());
        for s in summaries().filter(|s| s.is_fairness_partial()) {
            let known = s.fairness.map_or(0, |f| f.jobs);
            if known == 0 {
                continue;
            }
            let of = of_measured((known, s.measured));
            about.add(
                "rho",
                format!(
                    "{}: values with {PARTIAL} are over {of} measured jobs",
                    s.scheduler
                ),
            );
        }
    }
    for run in runs {
        if let Some(line) = leftovers(run) {
            about.add(&run.summary.scheduler, line);
        }
    }
    let failures = of_failed(experiment, failed);
    for notice in failures.into_iter().chain(notices(experiment, runs)) {
        about.add("notice", notice);
    }
    about
}

/// A scheduler without results, and its error.
pub(super) struct Failed {
    pub scheduler: String,
    pub error: String,
}

impl Failed {
    pub fn of(scheduler: &str, error: &str) -> Self {
        let named = format!("{scheduler}: ");
        Failed {
            scheduler: scheduler.to_owned(),
            error: error.strip_prefix(&named).unwrap_or(error).to_owned(),
        }
    }
}

/// Returns a notice for each scheduler that failed, and one if it was the baseline.
pub(super) fn of_failed(experiment: &Experiment<'_>, failed: &[Failed]) -> Vec<String> {
    let mut list: Vec<String> = failed
        .iter()
        .map(|f| format!("{} failed, and has no results: {}", f.scheduler, f.error))
        .collect();
    let base = experiment.contestants.get(experiment.baseline);
    let base = base.filter(|base| failed.iter().any(|f| f.scheduler == base.label));
    if let Some(base) = base.filter(|_| experiment.compares) {
        list.push(format!(
            "no scheduler is compared with the baseline, since {} failed",
            base.label
        ));
    }
    list
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

/// Describes the measured jobs and their number.
fn measured(experiment: &Experiment<'_>, runs: &[&Run]) -> String {
    let summaries = || runs.iter().map(|r| &r.summary);
    let first = summaries().next().map_or(0, |s| s.measured);
    // Interrupted schedulers may have measured different numbers of jobs.
    let jobs = match summaries().all(|s| s.measured == first) {
        true => number_of(first, "job"),
        false => {
            let each = summaries().map(|s| format!("{} {}", s.scheduler, whole(s.measured)));
            format!("jobs of {}", each.collect::<Vec<_>>().join(", "))
        }
    };
    match which(&as_given(experiment)) {
        None if first == 0 => "no job".to_owned(),
        None if first == 1 => format!("{jobs}, which is all"),
        None => format!("all {jobs}"),
        Some(which) => format!("{jobs}, {which}; {OF_ALL}"),
    }
}

/// Figures that `--measure` does not affect.
const OF_ALL: &str = "makespan, busy GPUs and preemptions: of all jobs";

/// Describes the measured jobs of several runs. `given` is the value of `--measure`, and `figures`
/// are the figures of the runs.
pub(super) fn measured_in_each<'a>(
    given: Option<&Measured>,
    figures: impl IntoIterator<Item = &'a Fields>,
) -> String {
    if let Some(which) = given.and_then(|given| which(&given.0)) {
        return format!("jobs {which}; {OF_ALL}");
    }
    let count = |row: &Fields| row.get("measured").and_then(Value::as_u64);
    let mut counts = figures.into_iter().filter_map(count);
    match counts.next() {
        Some(jobs) if jobs > 1 && counts.all(|other| other == jobs) => {
            format!("all {} of each run", number_of(jobs, "job"))
        }
        _ => "all jobs of each run".to_owned(),
    }
}

/// Describes a selection of jobs; `None` for all jobs.
fn which(measure: &Measure) -> Option<String> {
    Some(match measure {
        Measure::All => return None,
        Measure::Ids(a, b) => format!("numbers {a} to {b}"),
        Measure::Each(_) => "named one by one".to_owned(),
        Measure::Submitted(a, b) => format!(
            "submitted from {} s to {} s",
            decimal(a.secs(), 0),
            decimal(b.secs(), 0)
        ),
    })
}

/// Returns the measured jobs as given on the command line, before ids are replaced by ranks.
fn as_given(experiment: &Experiment<'_>) -> Measure {
    let given = experiment.options.measure.as_deref();
    given.map_or_else(|| experiment.measure.clone(), |given| given.0.clone())
}

/// Returns the number of jobs that are selected by number.
fn named(measure: &Measure) -> Option<u64> {
    match measure {
        Measure::Ids(a, b) => Some(u64::from(b - a) + 1),
        Measure::Each(numbers) => Some(numbers.len() as u64),
        Measure::All | Measure::Submitted(..) => None,
    }
}

/// Describes the measured jobs that did not complete.
fn leftovers(run: &Run) -> Option<String> {
    let s = &run.summary;
    let counted = |rejected: bool| -> Vec<String> {
        let reasons = run.report.reasons(rejected).into_iter();
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

/// Returns a counted line for each loss of a comparison.
pub(super) fn losses(experiment: &Experiment<'_>, runs: &[&Run]) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(first) = runs.first() {
        lines.extend(first.lost.input.iter().cloned());
        let s = &first.summary;
        let unmeasured = s
            .jobs
            .saturating_sub(losses::submitted_measured(&first.report));
        if unmeasured > 0 && first.report.ended != Ended::Interrupted {
            let all = number_of(s.jobs, "job");
            lines.push(format!("{} of {all} not measured", whole(unmeasured)));
        }
    }
    if experiment.left_out > 0 {
        let jobs = number_of(experiment.left_out, "job");
        lines.push(format!("{jobs} of other virtual clusters left out"));
    }
    for run in runs {
        if let Some(line) = leftovers(run) {
            lines.push(format!("{}: {line}", run.summary.scheduler));
        }
    }
    lines.extend(experiment.settings.iter().cloned());
    lines.extend(losses::of_runs(lost(runs), true));
    lines
}

/// Returns notices that affect the interpretation of the figures.
pub(super) fn notices(experiment: &Experiment<'_>, runs: &[&Run]) -> Vec<String> {
    let mut list = about_runs(experiment, runs);
    list.extend(experiment.settings.iter().cloned());
    list.extend(losses::of_runs(lost(runs), false));
    list
}

pub(super) fn lost<'a>(runs: &[&'a Run]) -> impl Iterator<Item = (&'a str, &'a Lost)> {
    let runs = runs.iter();
    runs.map(|run| (run.summary.scheduler.as_str(), &run.lost))
}

/// Returns a notice if the scheduler uses a property that some jobs lack.
fn missing_property(experiment: &Experiment<'_>, run: &Run) -> Option<String> {
    let s = &run.summary;
    let mut contestants = experiment.contestants.iter();
    let named = &contestants.find(|c| c.label == s.scheduler)?.named;
    let info = run.report.workload_info;
    let (number, what) = match named.params.text("estimator") {
        "user" => (info.user_estimates, "how long they run (user_estimate_s)"),
        "brought" => (info.brought, "an estimate (the attribute estimate_s)"),
        _ => return None,
    };
    let measured = losses::submitted_measured(&run.report);
    let jobs = measured_jobs(measured, run.report.unsubmitted);
    let without = measured.saturating_sub(number);
    (without > 0).then(|| {
        let part = match number {
            0 => format!("none of {jobs} tells"),
            _ => format!("{} of {jobs} do not tell", whole(without)),
        };
        format!("{}: {part} {what}", s.scheduler)
    })
}

/// Returns a notice if no job has a value in the column of `--by`.
fn ungrouped(run: &Run, by: &str) -> Option<String> {
    let groups = run.groups.iter().flat_map(|groups| &groups.list);
    let jobs = &run.report.jobs;
    if jobs.is_empty() || groups.into_iter().any(|group| !group.value.is_empty()) {
        return None;
    }
    let used = input_columns(jobs.iter().filter_map(|job| job.spec.as_deref()));
    let used = used.iter().map(|(name, _)| name.as_str());
    let meant = nearest(by, used).map(|name| format!("; did you mean `{name}`?"));
    let meant = meant.unwrap_or_default();
    Some(format!("no measured job has a value of --by `{by}`{meant}"))
}

/// Returns all notices except those about jobs ended early or run on other numbers of GPUs.
pub(super) fn about_runs(experiment: &Experiment<'_>, runs: &[&Run]) -> Vec<String> {
    let mut list = Vec::new();
    let Some(first) = runs.first() else {
        return list;
    };
    list.extend(first.notices.iter().cloned());
    let nodes = &experiment.cluster.nodes;
    let partitions = nodes.iter().any(|n| n.partition.is_some());
    match &experiment.options.virtual_cluster {
        Some(name) if experiment.left_out > 0 => list.push(format!(
            "virtual cluster {name}: {} of other virtual clusters, or of none, left out",
            number_of(experiment.left_out, "job")
        )),
        None if partitions => list.push(
            "the partitions of the cluster are not kept apart: --virtual-cluster simulates one"
                .to_owned(),
        ),
        _ => {}
    }
    let s = &first.summary;
    if s.jobs == 0 {
        list.push("the workload has no jobs".to_owned());
    } else if let Some(wanted) = named(&as_given(experiment))
        && s.measured < wanted
        && first.report.ended != Ended::Interrupted
    {
        list.push(format!(
            "only {} of the {} jobs that --measure names came",
            whole(s.measured),
            whole(wanted)
        ));
    }
    if let Some(by) = experiment.options.by.as_deref() {
        list.extend(ungrouped(first, &by.0));
    }
    for run in runs {
        if run.report.ended != Ended::Interrupted {
            list.extend(missing_property(experiment, run));
        }
    }
    let summaries = || runs.iter().map(|run| &run.summary);
    if summaries().any(|s| s.completed != first.summary.completed) {
        let each = summaries().map(|s| format!("{} {}", s.scheduler, whole(s.completed)));
        list.push(format!(
            "averages are over different jobs: completed {}",
            each.collect::<Vec<_>>().join(", ")
        ));
    }
    list
}

/// Formats a job as its `job_id`, with its number if that differs.
pub(super) fn called(name: Option<&Name>, id: JobId) -> String {
    match job_id(name, id) {
        named if named == id.to_string() => named.into_owned(),
        named => format!("{named} (number {id})"),
    }
}

fn story(id: JobId, run: &Run) -> String {
    let report = &run.report;
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
