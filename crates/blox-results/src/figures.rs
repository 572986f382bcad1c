//! Figures of simulations as values: figures of a run, comparisons of runs, and medians over seeds.

use super::fields::{Fields, figure_columns};
use super::groups::{Group, Groups};
use crate::statistics::{Estimate, Paired};
use crate::summary::{COLUMNS, Column, Summary};
use blox_sim::results::{JobResult, WaitRow};
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
        if of_base.avg_jct_s > 0.0 {
            let relative = own.avg_jct_s / of_base.avg_jct_s;
            fields.insert("relative_avg_jct".to_owned(), json!(relative));
        }
        if own.scheduler != of_base.scheduler {
            let paired = Paired::of(&base.report.jobs, &self.report.jobs);
            fields.insert("paired".to_owned(), json!(paired));
        }
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
    format!("{} of {}", crate::whole(completed), crate::whole(measured))
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

/// The columns of deadlines, which are parts of a figure.
pub(crate) const DEADLINES: [Column; 3] = [
    Column {
        name: "deadlines_met",
        heading: "deadlines met",
        formula: "jobs that ended before their deadline",
    },
    Column {
        name: "deadlines_missed",
        heading: "deadlines missed",
        formula: "jobs with a deadline that ended later, failed, or had not ended",
    },
    Column {
        name: "deadlines_declined",
        heading: "deadlines declined",
        formula: "jobs with a deadline that admission rejected",
    },
];

/// The columns of costs, services, evictions and finish-time fairness, which are parts of figures.
pub(crate) const PARTLY: [Column; 11] = [
    Column {
        name: "rent_node_hours",
        heading: "node-hours",
        formula: "hours of nodes from joining to leaving, without time off",
    },
    Column {
        name: "rent_cost",
        heading: "cost",
        formula: "node-hours, each at the price of its node at the time",
    },
    Column {
        name: "services_needed_gpu_h",
        heading: "needed GPU-hours",
        formula: "GPU-hours that services needed",
    },
    Column {
        name: "services_lacking_gpu_h",
        heading: "lacking GPU-hours",
        formula: "GPU-hours that services needed while they ran on fewer GPUs",
    },
    Column {
        name: "services_full",
        heading: "in full",
        formula: "time in which a service ran on all GPUs that it needed / time of all services",
    },
    Column {
        name: "evictions_guaranteed",
        heading: "guaranteed jobs evicted",
        formula: "stops by decisions of jobs of the guaranteed class",
    },
    Column {
        name: "evictions_spot",
        heading: "spot jobs evicted",
        formula: "stops by decisions of spot jobs",
    },
    Column {
        name: "evictions_broken",
        heading: "broken guarantees",
        formula: "stops by decisions of spot jobs within their guaranteed time",
    },
    Column {
        name: "fairness_mean",
        heading: "mean rho",
        formula: "mean of completion time / completion time alone on a fair share of the cluster",
    },
    Column {
        name: "fairness_worst",
        heading: "worst rho",
        formula: "largest rho",
    },
    Column {
        name: "fairness_unfair",
        heading: "rho above 1",
        formula: "jobs with a rho above 1, as a fraction",
    },
];

/// The figures with parts, in order of their columns.
const PARTS: [&str; 6] = [
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
    for name in PARTS.into_iter().chain(["paired"]) {
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
            PARTS.iter().position(names)
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

/// Results of a scheduler with one seed.
#[derive(Clone, Debug, PartialEq)]
pub struct SeedRun {
    /// [Flat](flattened) figures of the run.
    pub figures: Fields,
    /// Job completion times of measured jobs, with job numbers.
    times: Vec<(u32, f64)>,
}

impl SeedRun {
    /// Returns the results of a run.
    pub fn of(figures: &Figures<'_>) -> Self {
        SeedRun::of_jobs(figures.fields(), &figures.report.jobs)
    }

    /// Returns the results of a group of jobs.
    pub fn of_group(group: &Group) -> Self {
        SeedRun::of_jobs(group.fields(), &group.jobs)
    }

    /// Returns the job completion times of measured jobs that ended, in seconds.
    pub fn times(&self) -> impl Iterator<Item = f64> {
        self.times.iter().map(|(_, seconds)| *seconds)
    }

    fn of_jobs(figures: Fields, jobs: &[JobResult]) -> Self {
        let measured = jobs.iter().filter(|j| j.measured);
        SeedRun {
            figures: flattened(figures),
            times: measured
                .filter_map(|j| Some((j.job.0, j.jct()?.secs())))
                .collect(),
        }
    }
}

/// A scheduler over several seeds. It is compared with a baseline within each seed, on the same
/// jobs and faults, so differences between seeds do not widen the intervals.
#[derive(Clone, Debug)]
pub struct Repeated<'a> {
    /// The run of each seed.
    pub runs: Vec<&'a SeedRun>,
    /// Comparison with the baseline at the same seed; empty for the baseline itself.
    pub pairs: Vec<Paired>,
    /// Average job completion times as multiples of the baseline's.
    ratios: Vec<f64>,
}

impl<'a> Repeated<'a> {
    /// Compares the runs with the baseline at the same seeds. Without `base`, the runs are the
    /// baseline.
    pub fn of(runs: Vec<&'a SeedRun>, base: Option<&[&SeedRun]>) -> Self {
        let average = |run: &SeedRun| run.figures.get("avg_jct_s").and_then(Value::as_f64);
        let own = runs.clone();
        let both = || base.unwrap_or(&own).iter().zip(&runs);
        let pair = |(base, run): (&&SeedRun, &&SeedRun)| Paired::of_times(&base.times, &run.times);
        let ratio = |(base, run): (&&SeedRun, &&SeedRun)| {
            let base = average(base).filter(|base| *base > 0.0)?;
            Some(average(run)? / base)
        };
        Repeated {
            pairs: both().filter(|_| base.is_some()).map(pair).collect(),
            ratios: both().filter_map(ratio).collect(),
            runs,
        }
    }

    /// See [`partial`].
    pub fn partial(&self) -> Option<(u64, u64)> {
        partial(self.runs.iter().map(|run| &run.figures))
    }

    /// Estimates a figure of `summary.json`; `None` if no run has the figure.
    pub fn estimate(&self, figure: &str) -> Option<Estimate> {
        estimate(self.runs.iter().map(|run| &run.figures), figure)
    }

    /// Estimates the average job completion time as a multiple of the baseline's.
    pub fn relative(&self) -> Option<Estimate> {
        Estimate::of(&self.ratios)
    }

    /// Estimates the mean difference of job completion times from the baseline, in seconds.
    pub fn difference(&self) -> Option<Estimate> {
        let means: Vec<f64> = self.pairs.iter().map(|p| p.mean_s).collect();
        Estimate::of(&means)
    }

    /// Returns a count as a fraction of all pairs of jobs; `None` without pairs.
    pub fn share(&self, of: fn(&Paired) -> u64) -> Option<f64> {
        let pairs: u64 = self.pairs.iter().map(|p| p.pairs).sum();
        let counted: u64 = self.pairs.iter().map(of).sum();
        (pairs > 0).then(|| counted as f64 / pairs as f64)
    }

    /// Returns the medians by name, with the ends of their intervals as `NAME_low` and `NAME_high`.
    /// The figures of `summary.json` precede the comparison.
    pub fn fields(&self) -> Vec<(String, Value)> {
        let mut fields = vec![("seeds".to_owned(), json!(self.runs.len()))];
        fields.push(("complete".to_owned(), json!(self.partial().is_none())));
        let figures = COLUMNS.iter().map(|c| c.name.to_owned());
        let figures = figures.filter(|name| name != "scheduler");
        let parts = part_columns(self.runs.iter().map(|run| &run.figures));
        let figures = figures
            .chain(parts)
            .map(|name| (self.estimate(&name), name));
        for (estimate, name) in figures.chain([
            (self.relative(), "relative_avg_jct".to_owned()),
            (self.difference(), "paired_difference_s".to_owned()),
        ]) {
            let [low, high] = [0, 1].map(|end| estimate.and_then(|e| Some(e.interval?[end])));
            fields.push((name.clone(), json!(estimate.map(|e| e.median))));
            fields.push((format!("{name}_low"), json!(low)));
            fields.push((format!("{name}_high"), json!(high)));
        }
        let shares = [
            ("paired_faster", self.share(|p| p.faster)),
            ("paired_slower", self.share(|p| p.slower)),
        ];
        fields.extend(shares.map(|(name, share)| (name.to_owned(), json!(share))));
        fields
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(avg_jct_s: f64, times: &[(u32, f64)]) -> SeedRun {
        let mut figures = Fields::new();
        figures.insert("avg_jct_s".to_owned(), json!(avg_jct_s));
        let times = times.to_vec();
        SeedRun { figures, times }
    }

    #[test]
    fn repeated_scheduler_is_compared_within_each_seed() {
        let base = [run(10.0, &[(0, 5.0), (1, 15.0)]), run(20.0, &[(0, 20.0)])];
        let own = [run(5.0, &[(0, 6.0), (1, 4.0)]), run(20.0, &[(0, 20.0)])];
        let (base, own): (Vec<_>, Vec<_>) = (base.iter().collect(), own.iter().collect());
        let repeated = Repeated::of(own, Some(&base));
        assert_eq!(repeated.estimate("avg_jct_s").map(|e| e.median), Some(12.5));
        assert_eq!(repeated.relative().map(|e| e.median), Some(0.75));
        assert_eq!(repeated.difference().map(|e| e.median), Some(-2.5));
        assert_eq!(repeated.share(|p| p.faster), Some(1.0 / 3.0));
        let alone = Repeated::of(base, None);
        assert_eq!(alone.relative().map(|e| e.median), Some(1.0));
        assert_eq!(alone.share(|p| p.faster), None);
        assert_eq!(alone.estimate("no_figure"), None);
    }

    #[test]
    fn counts_of_deadlines_are_columns_and_medians() {
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
        let runs: Vec<SeedRun> = rows
            .into_iter()
            .map(|figures| SeedRun {
                figures,
                times: Vec::new(),
            })
            .collect();
        let repeated = Repeated::of(runs.iter().collect(), None);
        let fields: Fields = repeated.fields().into_iter().collect();
        assert_eq!(fields["deadlines_met"], 3.5);
        assert_eq!(fields["deadlines_missed_low"], Value::Null);
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
