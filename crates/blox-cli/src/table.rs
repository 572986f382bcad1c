//! Results as tables for users.

use super::assumptions::Assumptions;
use super::result::{Run, comparison};
use crate::experiment::Experiment;
use blox_core::JobId;
use blox_core::suggest::nearest;
use blox_experiment::value::Measured;
use blox_results::grid::{About, Form, decimal};
use blox_results::{Fields, losses, marks, number_of, whole};
use blox_sim::{Ended, Measure};
use blox_traces::formats::csv::input_columns;
use serde_json::Value;

/// Formats the results: figures, description, reasons for waiting, and the history of an explained
/// job.
pub(super) fn render(
    experiment: &Experiment<'_>,
    runs: &[&Run],
    failed: &[Failed],
    explained: Option<JobId>,
    form: Form,
) -> String {
    let results = comparison(experiment, runs);
    let mut text = results.table().text(form);
    if let Some(by) = experiment.options.by.as_deref() {
        text.push('\n');
        text.push_str(&results.group_table(&by.0).text(form));
    }
    let collected = results.collected();
    if !collected.rows.is_empty() {
        text.push('\n');
        text.push_str(&collected.text(form));
    }
    if experiment.options.why {
        text.push('\n');
        let waits = results.waits();
        match waits.rows.is_empty() {
            true if form == Form::Latex => text.push_str("% no measured job waited\n"),
            true => text.push_str("no measured job waited\n"),
            false => text.push_str(&waits.text(form)),
        }
    }
    let about = match experiment.options.quiet {
        true => assumed(
            &Assumptions::of(experiment, results.lost()),
            results.has_marks(),
        ),
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

/// Describes only what the figures assume, and the mark of partial averages if there is one.
pub(super) fn assumed(assumptions: &Assumptions, marked: bool) -> About {
    About(
        marked
            .then(marks)
            .into_iter()
            .chain(assumptions.lines())
            .collect(),
    )
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
    runs.iter().map(|run| run.story(id)).collect()
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
    let results = comparison(experiment, runs);
    about.0.extend(results.has_marks().then(marks));
    about
        .0
        .extend(Assumptions::of(experiment, results.lost()).lines());
    results.describe_base(&mut about, experiment.given.baseline.is_some());
    results.describe_rest(&mut about, experiment.given.fairness);
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
    let given = experiment.given.measure.as_deref();
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
        if let Some(line) = run.leftovers() {
            lines.push(format!("{}: {line}", run.summary.scheduler));
        }
    }
    lines.extend(experiment.notices.iter().cloned());
    lines.extend(losses::of_runs(comparison(experiment, runs).lost(), true));
    lines
}

/// Returns notices that affect the interpretation of the figures.
pub(super) fn notices(experiment: &Experiment<'_>, runs: &[&Run]) -> Vec<String> {
    let mut list = about_runs(experiment, runs);
    list.extend(experiment.notices.iter().cloned());
    list.extend(losses::of_runs(comparison(experiment, runs).lost(), false));
    list
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
    let jobs = losses::measured_jobs(measured, run.report.unsubmitted);
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
    match &experiment.given.virtual_cluster {
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
    list.extend(comparison(experiment, runs).differing_jobs());
    list
}
