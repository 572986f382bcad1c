//! Results of the runs of an experiment: tables, and lines about what the figures assume and leave
//! out.

use crate::assumptions::Assumptions;
use crate::error::ExperimentError;
use crate::prepared::Prepared;
use crate::value::Measured;
use blox_core::suggest::nearest;
use blox_registry::RequiredData;
use blox_results::grid::{About, Form, decimal};
use blox_results::{Comparison, Fields, Run, losses, marks, number_of, whole};
use blox_sim::{Ended, Measure};
use blox_traces::formats::csv::input_columns;
use serde_json::Value;

/// A scheduler without results, and its error.
#[derive(Clone, Debug)]
pub struct Failed {
    /// The scheduler, with its parameters.
    pub scheduler: String,
    /// The error, without the name of the scheduler.
    pub error: String,
}

impl Failed {
    /// Creates one from the message of an error, which may begin with the scheduler.
    pub fn of(scheduler: &str, error: &str) -> Self {
        let named = format!("{scheduler}: ");
        Failed {
            scheduler: scheduler.to_owned(),
            error: error.strip_prefix(&named).unwrap_or(error).to_owned(),
        }
    }
}

/// Results of the schedulers of an experiment, on the same jobs.
#[derive(Clone)]
#[allow(
    missing_debug_implementations,
    reason = "it has a registry of closures"
)]
pub struct Results<'a, 'r> {
    experiment: &'a Prepared<'r>,
    runs: Vec<&'a Run>,
    /// The schedulers without a run.
    pub failed: &'a [Failed],
    /// True if the figures are relative to the baseline. The default is true for several schedulers.
    pub compares: bool,
}

impl<'a, 'r> Results<'a, 'r> {
    /// Collects the runs of an experiment. `failed` are the schedulers without a run.
    pub fn of(
        experiment: &'a Prepared<'r>,
        runs: impl IntoIterator<Item = &'a Run>,
        failed: &'a [Failed],
    ) -> Self {
        Results {
            experiment,
            runs: runs.into_iter().collect(),
            failed,
            compares: experiment.contestants.len() > 1,
        }
    }

    /// Returns the runs together, with the one of the baseline.
    pub fn comparison(&self) -> Comparison<'_> {
        let label = self.experiment.contestants.get(self.experiment.baseline);
        let is_base = |run: &&&Run| label.is_some_and(|c| run.summary.scheduler == c.label);
        Comparison {
            runs: &self.runs,
            compares: self.compares,
            base: self.runs.iter().find(is_base).copied(),
        }
    }

    /// Returns what the figures assume.
    pub fn assumptions(&self) -> Assumptions {
        Assumptions::of(self.experiment, self.comparison().lost())
    }

    /// Formats the tables: the figures of the schedulers, then the recorded figures of groups of jobs
    /// and of collectors, and the recorded reasons for waiting.
    pub fn tables(&self, form: Form) -> String {
        let results = self.comparison();
        let records = &self.experiment.given.records;
        let mut text = results.table().text(form);
        if let Some(by) = records.by.as_deref() {
            text.push('\n');
            text.push_str(&results.group_table(&by.0).text(form));
        }
        let collected = results.collected();
        if !collected.rows.is_empty() {
            text.push('\n');
            text.push_str(&collected.text(form));
        }
        if records.waits {
            text.push('\n');
            let waits = results.waits();
            match waits.rows.is_empty() {
                true if form == Form::Latex => text.push_str("% no measured job waited\n"),
                true => text.push_str("no measured job waited\n"),
                false => text.push_str(&waits.text(form)),
            }
        }
        text
    }

    /// Describes only what the figures assume, and the mark of partial averages if there is one.
    pub fn assumed(&self) -> About {
        assumed(&self.assumptions(), self.comparison().has_marks())
    }

    /// Describes the figures, one line for each entry.
    pub fn about(&self) -> About {
        let mut about = About::default();
        about.add("cluster", self.experiment.cluster_line());
        let Some(first) = self.runs.first() else {
            return about;
        };
        about.add("workload", &*first.workload);
        about.add("measured", self.measured());
        about.0.extend(self.assumed().0);
        let (results, given) = (self.comparison(), &self.experiment.given);
        results.describe_base(&mut about, given.baseline.is_some());
        results.describe_rest(&mut about, given.fairness);
        for notice in self.failures().into_iter().chain(self.notices()) {
            about.add("notice", notice);
        }
        about
    }

    /// Returns a notice for each scheduler that failed, and one if it was the baseline.
    pub fn failures(&self) -> Vec<String> {
        failures(self.experiment, self.failed, self.compares)
    }

    /// Describes the measured jobs and their number.
    fn measured(&self) -> String {
        let summaries = || self.runs.iter().map(|r| &r.summary);
        let first = summaries().next().map_or(0, |s| s.measured);
        // Interrupted schedulers may have measured different numbers of jobs.
        let jobs = match summaries().all(|s| s.measured == first) {
            true => number_of(first, "job"),
            false => {
                let each = summaries().map(|s| format!("{} {}", s.scheduler, whole(s.measured)));
                format!("jobs of {}", each.collect::<Vec<_>>().join(", "))
            }
        };
        match which(self.experiment.given_measure()) {
            None if first == 0 => "no job".to_owned(),
            None if first == 1 => format!("{jobs}, which is all"),
            None => format!("all {jobs}"),
            Some(which) => format!("{jobs}, {which}; {OF_ALL}"),
        }
    }

    /// Returns a counted line for each loss. `blox compare --quiet` prints them.
    pub fn losses(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(first) = self.runs.first() {
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
        if self.experiment.left_out > 0 {
            let jobs = number_of(self.experiment.left_out, "job");
            lines.push(format!("{jobs} of other virtual clusters left out"));
        }
        for run in &self.runs {
            if let Some(line) = run.leftovers() {
                lines.push(format!("{}: {line}", run.summary.scheduler));
            }
        }
        lines.extend(self.experiment.notices.iter().cloned());
        lines.extend(losses::of_runs(self.comparison().lost(), true));
        lines
    }

    /// Returns notices that affect the interpretation of the figures.
    pub fn notices(&self) -> Vec<String> {
        let mut list = self.about_runs();
        list.extend(self.experiment.notices.iter().cloned());
        list.extend(losses::of_runs(self.comparison().lost(), false));
        list
    }

    /// Returns all notices except those about jobs ended early or run on other numbers of GPUs.
    pub(crate) fn about_runs(&self) -> Vec<String> {
        let experiment = self.experiment;
        let option = |key| experiment.given.origin.option(key);
        let mut list = Vec::new();
        let Some(first) = self.runs.first() else {
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
            None if partitions => list.push(format!(
                "the partitions of the cluster are not kept apart: {} simulates one",
                option("virtual-cluster")
            )),
            _ => {}
        }
        let s = &first.summary;
        if s.jobs == 0 {
            list.push("the workload has no jobs".to_owned());
        } else if let Some(wanted) = named(experiment.given_measure())
            && s.measured < wanted
            && first.report.ended != Ended::Interrupted
        {
            list.push(format!(
                "only {} of the {} jobs that {} names came",
                whole(s.measured),
                whole(wanted),
                option("measure")
            ));
        }
        if let Some(by) = experiment.given.records.by.as_deref() {
            list.extend(ungrouped(first, &option("by"), &by.0));
        }
        for run in &self.runs {
            if run.report.ended != Ended::Interrupted {
                list.extend(missing_property(experiment, run));
            }
        }
        list.extend(self.comparison().differing_jobs());
        list
    }
}

impl Prepared<'_> {
    /// Describes the cluster.
    pub fn cluster_line(&self) -> String {
        format!(
            "{}: {}, {}",
            self.given.cluster.as_deref().unwrap_or_default(),
            number_of(self.cluster.nodes.len() as u64, "node"),
            number_of(self.cluster.total_gpus(), "GPU")
        ) + &match self.cluster.offers.len() {
            0 => String::new(),
            offers => format!(", {}", number_of(offers as u64, "offer")),
        }
    }

    /// Fails with the reason if no job of a run was measured, unless the run was interrupted.
    ///
    /// # Errors
    /// `measure` selects none of the jobs.
    pub fn check_measured(&self, run: &Run) -> Result<(), ExperimentError> {
        let s = &run.summary;
        let came = match s.jobs {
            0 => "there is no job".to_owned(),
            n => format!(
                "selects none of the {}, numbered from 0 to {}",
                number_of(n, "job"),
                n - 1
            ),
        };
        match &self.given.measure {
            Some(wanted) if s.measured == 0 && run.report.ended != Ended::Interrupted => {
                let option = self.given.origin.option("measure");
                Err(ExperimentError::Setting(format!(
                    "{option} is `{wanted}`, but {came}"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Describes which jobs are measured; `None` for all jobs.
    pub fn measured(&self) -> Option<String> {
        which(self.given_measure())
    }

    /// Returns a notice about each kind of data that the scheduler of a run is about, if its jobs lack
    /// the data. If `quiet`, leaves out estimates of durations.
    pub fn lacking(&self, run: &Run, quiet: bool) -> Vec<String> {
        let scheduler = &run.summary.scheduler;
        let property = (!quiet).then(|| missing_property(self, run)).flatten();
        let lacking = run.lost.lacking();
        let lacking = lacking.map(|text| format!("{scheduler}: {text}"));
        property.into_iter().chain(lacking).collect()
    }

    /// Returns the measured jobs as given, before ids are replaced by ranks.
    fn given_measure(&self) -> &Measure {
        let given = self.given.measure.as_deref();
        given.map_or(&self.measure, |given| &given.0)
    }
}

/// Describes assumptions, and the mark of partial averages.
pub(crate) fn assumed(assumptions: &Assumptions, marked: bool) -> About {
    let mark = marked.then(marks).into_iter();
    About(mark.chain(assumptions.lines()).collect())
}

/// Returns the notices of [`Results::failures`].
pub(crate) fn failures(
    experiment: &Prepared<'_>,
    failed: &[Failed],
    compares: bool,
) -> Vec<String> {
    let mut list: Vec<String> = failed
        .iter()
        .map(|f| format!("{} failed, and has no results: {}", f.scheduler, f.error))
        .collect();
    let base = experiment.contestants.get(experiment.baseline);
    let base = base.filter(|base| failed.iter().any(|f| f.scheduler == base.label));
    if let Some(base) = base.filter(|_| compares) {
        list.push(format!(
            "no scheduler is compared with the baseline, since {} failed",
            base.label
        ));
    }
    list
}

/// Figures that `measure` does not affect.
const OF_ALL: &str = "makespan, busy GPUs and preemptions: of all jobs";

/// Describes the measured jobs of several runs. `given` is the value of `measure`, and `figures`
/// are the figures of the runs.
pub(crate) fn measured_in_each<'a>(
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

/// Returns the number of jobs that are selected by number.
fn named(measure: &Measure) -> Option<u64> {
    match measure {
        Measure::Ids(a, b) => Some(u64::from(b - a) + 1),
        Measure::Each(numbers) => Some(numbers.len() as u64),
        Measure::All | Measure::Submitted(..) => None,
    }
}

/// Returns a notice if the scheduler uses a property that some jobs lack.
fn missing_property(experiment: &Prepared<'_>, run: &Run) -> Option<String> {
    let s = &run.summary;
    let mut contestants = experiment.contestants.iter();
    let i = contestants.position(|c| c.label == s.scheduler)?;
    let info = run.report.workload_info;
    let data = experiment.job_data(i);
    let by_default = data.iter().any(|d| matches!(d, RequiredData::UserEstimate));
    let named = &experiment.contestants[i].named;
    let (number, what) = match named.params.text("estimator") {
        "" if by_default => (info.user_estimates, "how long they run (user_estimate_s)"),
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

/// Returns a notice if no job has a value in the column of groups, which `option` names.
fn ungrouped(run: &Run, option: &str, by: &str) -> Option<String> {
    let groups = run.groups.iter().flat_map(|groups| &groups.list);
    let jobs = &run.report.jobs;
    if jobs.is_empty() || groups.into_iter().any(|group| !group.value.is_empty()) {
        return None;
    }
    let used = input_columns(jobs.iter().filter_map(|job| job.spec.as_deref()));
    let used = used.iter().map(|(name, _)| name.as_str());
    let meant = nearest(by, used).map(|name| format!("; did you mean `{name}`?"));
    let meant = meant.unwrap_or_default();
    Some(format!(
        "no measured job has a value of {option} `{by}`{meant}"
    ))
}
