//! Schedulers over several seeds: comparisons within each seed, medians and intervals.

use super::comparison::Run;
use super::fields::{Fields, compare};
use super::figures::{estimate, flattened, part_columns, partial, total};
use super::grid::{Grid, csv};
use super::groups::{Group, compare_values};
use super::overview::{FigureRow, Rows, table_of};
use super::statistics::{Estimate, Paired};
use super::summary::COLUMNS;
use super::text::in_groups;
use blox_sim::results::JobResult;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Results of a scheduler with one seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeedRun {
    /// [Flat](flattened) figures of the run.
    pub figures: Fields,
    /// Job completion times of measured jobs, with job numbers.
    times: Vec<(u32, f64)>,
    /// The results of each group of jobs, with its value.
    groups: Vec<(String, SeedRun)>,
}

impl SeedRun {
    /// Returns the results of a run. `waits` includes the reasons for waiting.
    pub fn of(run: &Run, waits: bool) -> Self {
        let groups = run.groups.iter().flat_map(|groups| &groups.list);
        let of = |group: &Group| {
            let seed = SeedRun::of_jobs(group.fields(), &group.jobs);
            (group.value.clone(), seed)
        };
        SeedRun {
            groups: groups.map(of).collect(),
            ..SeedRun::of_jobs(run.figures(waits).fields(), &run.report.jobs)
        }
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
            groups: Vec::new(),
        }
    }

    fn group(&self, value: &str) -> Option<&SeedRun> {
        let (_, run) = self.groups.iter().find(|(own, _)| own == value)?;
        Some(run)
    }
}

/// A scheduler over several seeds. It is compared with a baseline within each seed, on the same
/// jobs and faults, so differences between seeds do not widen the intervals.
#[derive(Clone, Debug)]
pub struct Repeated<'a> {
    /// The run of each seed.
    pub runs: Vec<&'a SeedRun>,
    /// The [flat](flattened) figures of each run, with the comparison. The baseline itself has no
    /// pairs of jobs.
    pub rows: Vec<Fields>,
}

impl<'a> Repeated<'a> {
    /// Compares the runs with the baseline at the same seeds. Without `base`, the runs are the
    /// baseline.
    pub fn of(runs: Vec<&'a SeedRun>, base: Option<&[&SeedRun]>) -> Self {
        let average = |run: &SeedRun| run.figures.get("avg_jct_s").and_then(Value::as_f64);
        let row = |(i, run): (usize, &&SeedRun)| {
            let mut row = run.figures.clone();
            if let Some(of_base) = base.unwrap_or(&runs).get(i) {
                let averages = [*run, of_base].map(|run| average(run).unwrap_or(f64::NAN));
                let pairs = || Paired::of_times(&of_base.times, &run.times);
                compare(&mut row, averages, base.is_some().then(pairs));
            }
            flattened(row)
        };
        Repeated {
            rows: runs.iter().enumerate().map(row).collect(),
            runs,
        }
    }

    /// Estimates a figure of the [rows](Repeated::rows); `None` if no run has the figure.
    pub fn estimate(&self, figure: &str) -> Option<Estimate> {
        estimate(&self.rows, figure)
    }

    /// See [`partial`].
    pub fn partial(&self) -> Option<(u64, u64)> {
        partial(&self.rows)
    }

    /// Returns the medians by name, with the ends of their intervals as `NAME_low` and `NAME_high`.
    /// The figures of `summary.json` precede the comparison.
    pub fn fields(&self) -> Vec<(String, Value)> {
        let mut fields = vec![("seeds".to_owned(), json!(self.runs.len()))];
        fields.push(("complete".to_owned(), json!(self.partial().is_none())));
        let figures = COLUMNS.iter().map(|c| c.name.to_owned());
        let figures = figures.filter(|name| name != "scheduler");
        let parts = part_columns(&self.rows);
        let figures = figures.chain(parts).map(|name| (name.clone(), name));
        let compared = [
            ("relative_avg_jct", "relative_avg_jct"),
            ("paired_mean_s", "paired_difference_s"),
        ];
        let compared = compared.map(|(name, shown)| (name.to_owned(), shown.to_owned()));
        for (name, shown) in figures.chain(compared) {
            let estimate = self.estimate(&name);
            let [low, high] = [0, 1].map(|end| estimate.and_then(|e| Some(e.interval?[end])));
            fields.push((shown.clone(), json!(estimate.map(|e| e.median))));
            fields.push((format!("{shown}_low"), json!(low)));
            fields.push((format!("{shown}_high"), json!(high)));
        }
        let pairs = total(&self.rows, "paired_pairs");
        for name in ["paired_faster", "paired_slower"] {
            // Without pairs, there is no value.
            fields.push((name.to_owned(), json!(total(&self.rows, name) / pairs)));
        }
        fields
    }
}

/// A scheduler over several seeds, with its groups of jobs.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// The name of the scheduler.
    pub scheduler: &'a str,
    /// Its results.
    pub results: Repeated<'a>,
    /// The results of each group, with its value, over the seeds under which the group has jobs, also
    /// under the baseline.
    pub groups: Vec<(&'a str, Repeated<'a>)>,
}

/// Schedulers over the same seeds.
#[derive(Clone, Debug)]
pub struct OverSeeds<'a>(pub Vec<Entry<'a>>);

impl<'a> OverSeeds<'a> {
    /// Compares schedulers with the one at the place `base` within each seed. `seeds` has a run of each
    /// scheduler for each seed. Without a baseline, they are compared with nothing.
    pub fn of(schedulers: &[&'a str], seeds: &[Vec<&'a SeedRun>], base: Option<usize>) -> Self {
        let of = |k: usize| -> Vec<&'a SeedRun> { seeds.iter().map(|seed| seed[k]).collect() };
        let of_base = base.map_or_else(Vec::new, of);
        let one = |(k, scheduler): (usize, &&'a str)| Entry {
            scheduler,
            groups: groups(seeds, k, base),
            results: Repeated::of(of(k), (Some(k) != base).then_some(&of_base[..])),
        };
        OverSeeds(schedulers.iter().enumerate().map(one).collect())
    }

    /// Returns the table of medians: one row for each scheduler, or for each scheduler and value of the
    /// column of groups.
    pub fn table(&self, by: Option<&str>) -> Grid {
        fn row<'r>(keys: &[&str], results: &'r Repeated<'_>) -> FigureRow<'r> {
            FigureRow {
                keys: keys.iter().map(|key| (*key).to_owned()).collect(),
                runs: results.rows.iter().collect(),
            }
        }
        let mut rows = Vec::new();
        for e in &self.0 {
            match by {
                None => rows.push(row(&[e.scheduler], &e.results)),
                Some(_) => {
                    let groups = e.groups.iter();
                    rows.extend(groups.map(|(value, of)| row(&[e.scheduler, value], of)));
                }
            }
        }
        table_of(&rows, by.as_slice(), Rows::Seeds)
    }

    /// Formats the medians as CSV: one row for each scheduler, or for each scheduler and value of the
    /// column of groups.
    pub fn csv(&self, by: Option<&str>) -> String {
        let rows: Vec<Vec<(String, Value)>> = match by {
            Some(by) => self.0.iter().flat_map(|e| e.group_fields(by)).collect(),
            None => self.0.iter().map(Entry::fields).collect(),
        };
        let names = in_groups(rows.iter().flatten().map(|(name, _)| (name, ())));
        let head: Vec<String> = names.into_iter().map(|(name, _)| name.clone()).collect();
        let rows: Vec<Fields> = rows
            .into_iter()
            .map(|row| row.into_iter().collect())
            .collect();
        csv(&head, &rows)
    }

    /// Returns whether an average is marked as partial.
    pub fn has_marks(&self) -> bool {
        let marked = |r: &Repeated<'_>| r.partial().is_some() && r.estimate("avg_jct_s").is_some();
        self.0.iter().any(|e| marked(&e.results))
    }

    /// Returns whether there are several seeds and none of them changes the results.
    pub fn are_alike(&self) -> bool {
        let runs = |e: &'_ Entry<'a>| e.results.runs.clone();
        let several = self.0.first().is_some_and(|e| e.results.runs.len() > 1);
        several
            && self
                .0
                .iter()
                .all(|e| runs(e).windows(2).all(|pair| pair[0] == pair[1]))
    }

    /// Returns the number of jobs that completed under one scheduler but not under the other.
    pub fn unpaired(&self) -> u64 {
        let rows = self.0.iter().flat_map(|e| &e.results.rows);
        total(rows, "paired_unpaired") as u64
    }

    /// Returns the job completion times of each scheduler with all seeds, in seconds.
    pub fn times(&self) -> Vec<(String, Vec<f64>)> {
        let of = |e: &Entry<'_>| e.results.runs.iter().flat_map(|run| run.times()).collect();
        self.0
            .iter()
            .map(|e| (e.scheduler.to_owned(), of(e)))
            .collect()
    }
}

impl Entry<'_> {
    /// Returns the medians with their intervals, named as in `summary.json`.
    pub fn fields(&self) -> Vec<(String, Value)> {
        let mut fields = vec![("scheduler".to_owned(), json!(self.scheduler))];
        fields.extend(self.results.fields());
        fields
    }

    /// Returns the medians of each group, with its value under the name of the column.
    pub fn group_fields(&self, by: &str) -> Vec<Vec<(String, Value)>> {
        let one = |(value, results): &(&str, Repeated<'_>)| {
            let value = Some(value).filter(|value| !value.is_empty());
            let mut fields = vec![
                ("scheduler".to_owned(), json!(self.scheduler)),
                (by.to_owned(), json!(value)),
            ];
            fields.extend(results.fields());
            fields
        };
        self.groups.iter().map(one).collect()
    }
}

/// Returns the results of each group of the scheduler at place `i`.
fn groups<'a>(
    seeds: &[Vec<&'a SeedRun>],
    i: usize,
    base: Option<usize>,
) -> Vec<(&'a str, Repeated<'a>)> {
    let of_all = seeds.iter().flat_map(|seed| &seed[i].groups);
    let mut values: Vec<&str> = of_all.map(|(value, _)| value.as_str()).collect();
    values.sort_by(|a, b| compare_values(a, b));
    values.dedup();
    let one = |value: &'a str| {
        let Some(at) = base else {
            let own = seeds.iter().filter_map(|seed| seed[i].group(value));
            return (value, Repeated::of(own.collect(), Some(&[])));
        };
        let both = seeds
            .iter()
            .filter_map(|seed| Some((seed[i].group(value)?, seed[at].group(value)?)));
        let (own, base): (Vec<_>, Vec<_>) = both.unzip();
        let base = Some(base.as_slice()).filter(|_| i != at);
        (value, Repeated::of(own, base))
    };
    values.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(avg_jct_s: f64, times: &[(u32, f64)]) -> SeedRun {
        let mut figures = Fields::new();
        figures.insert("avg_jct_s".to_owned(), json!(avg_jct_s));
        let times = times.to_vec();
        SeedRun {
            figures,
            times,
            groups: Vec::new(),
        }
    }

    #[test]
    fn repeated_scheduler_is_compared_within_each_seed() {
        let base = [run(10.0, &[(0, 5.0), (1, 15.0)]), run(20.0, &[(0, 20.0)])];
        let own = [run(5.0, &[(0, 6.0), (1, 4.0)]), run(20.0, &[(0, 20.0)])];
        let (base, own): (Vec<_>, Vec<_>) = (base.iter().collect(), own.iter().collect());
        let repeated = Repeated::of(own, Some(&base));
        assert_eq!(repeated.estimate("avg_jct_s").map(|e| e.median), Some(12.5));
        let median = |of: &Repeated<'_>, name: &str| of.estimate(name).map(|e| e.median);
        assert_eq!(median(&repeated, "relative_avg_jct"), Some(0.75));
        assert_eq!(median(&repeated, "paired_mean_s"), Some(-2.5));
        let faster = |of: &Repeated<'_>| {
            let fields: Fields = of.fields().into_iter().collect();
            fields["paired_faster"].as_f64()
        };
        assert_eq!(faster(&repeated), Some(1.0 / 3.0));
        let alone = Repeated::of(base, None);
        assert_eq!(median(&alone, "relative_avg_jct"), Some(1.0));
        assert_eq!(faster(&alone), None);
        assert_eq!(alone.estimate("no_figure"), None);
    }

    #[test]
    fn counts_of_deadlines_have_medians() {
        let runs = [3, 4].map(|met| {
            let deadlines = json!({"met": met, "missed": 2, "causes": {"waiting": 2}});
            let row = json!({"avg_jct_s": 1, "deadlines": deadlines});
            SeedRun::of_jobs(row.as_object().cloned().unwrap_or_default(), &[])
        });
        let repeated = Repeated::of(runs.iter().collect(), None);
        let fields: Fields = repeated.fields().into_iter().collect();
        assert_eq!(fields["deadlines_met"], 3.5);
        assert_eq!(fields["deadlines_missed_low"], Value::Null);
    }
}
