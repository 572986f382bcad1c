//! What the figures of a table assume: about the simulated world, and about what schedulers know.

use super::grid::{number_of, whole};
use super::losses::Lost;
use super::resolve::Experiment;
use blox_results::in_groups;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// The assumptions of a table: names with lines, in order.
#[derive(Default)]
pub(super) struct Assumptions(pub Vec<(&'static str, String)>);

impl Assumptions {
    /// Returns the assumptions of the runs of one experiment, each with its scheduler.
    pub fn of<'a>(
        experiment: &Experiment<'_>,
        runs: impl IntoIterator<Item = (&'a str, &'a Lost)>,
    ) -> Self {
        Self::of_several(&[experiment], runs)
    }

    /// Returns the assumptions of the runs of several experiments, each with its scheduler. An
    /// assumption that depends on the experiment states all its values.
    pub fn of_several<'a>(
        experiments: &[&Experiment<'_>],
        runs: impl IntoIterator<Item = (&'a str, &'a Lost)>,
    ) -> Self {
        let runs: Vec<(&str, &Lost)> = runs.into_iter().collect();
        let of_each = |line: fn(&Experiment<'_>) -> String| {
            let mut lines: Vec<String> = Vec::new();
            for line in experiments.iter().map(|e| line(e)) {
                if !lines.contains(&line) {
                    lines.push(line);
                }
            }
            lines.join("; or ")
        };
        let mut list = vec![("durations", durations(&runs))];
        list.push(("overheads", of_each(|e| e.overheads_line())));
        if experiments.iter().any(|e| e.gpu_types() > 1) {
            list.push(("GPU types", speeds(&runs)));
        }
        list.push(("jobs end", of_each(ends)));
        Assumptions(list)
    }

    /// Returns the assumptions as an object for files.
    pub fn fields(&self) -> Map<String, Value> {
        let of = |(name, line): &(&str, String)| {
            let name = name.to_lowercase().replace(' ', "_");
            (name, Value::from(line.as_str()))
        };
        self.0.iter().map(of).collect()
    }
}

/// Returns the line about schedulers that read true durations.
fn durations(runs: &[(&str, &Lost)]) -> String {
    let of = in_groups(runs.iter().copied());
    let all = of.len();
    let knew = |(_, runs): &(&str, Vec<&Lost>)| runs.iter().any(|lost| lost.knew_truth);
    let (knowing, others): (Vec<_>, Vec<_>) = of.into_iter().partition(knew);
    let names = |list: &[(&str, Vec<&Lost>)]| {
        let names: Vec<&str> = list.iter().map(|(name, _)| *name).collect();
        names.join(", ")
    };
    match (knowing.len(), all) {
        (0, _) => "no scheduler reads the true ones".to_owned(),
        (1, 1) => "the true ones are known to the scheduler; no real cluster knows them".to_owned(),
        (n, all) if n == all => {
            "the true ones are known to all schedulers; no real cluster knows them".to_owned()
        }
        _ => format!(
            "the true ones are known to {}, not to {}",
            names(&knowing),
            names(&others)
        ),
    }
}

/// Returns the line about the speeds of jobs on several types of GPU.
fn speeds(runs: &[(&str, &Lost)]) -> String {
    let counts: BTreeSet<(u64, u64)> = runs.iter().map(|(_, lost)| lost.with_speeds).collect();
    match counts.last() {
        Some((with, jobs)) if with == jobs && *jobs > 0 => {
            "each job has its speeds by type".to_owned()
        }
        Some((with, jobs)) if *with > 0 => format!(
            "{} of {} have speeds by type, the others are equally fast on all",
            whole(*with),
            number_of(*jobs, "measured job")
        ),
        _ => "equally fast: no measured job has speeds by type".to_owned(),
    }
}

/// Returns the line about the time at which ends of jobs are seen.
fn ends(experiment: &Experiment<'_>) -> String {
    let rule = experiment.options.completion.as_ref();
    match rule.map(|rule| rule.text()) {
        None if experiment.has_rounds => {
            "at ends of rounds; with --completion exact, when the work is done".to_owned()
        }
        Some("round") => "at ends of rounds".to_owned(),
        None => "when the work is done".to_owned(),
        Some("exact") => "when the work is done".to_owned(),
        Some(rule) => format!("by the rule `{rule}`"),
    }
}
