//! Assumptions of the figures of a table: about the simulated world, and about the knowledge of
//! schedulers.

use crate::prepared::{AS_STATED, Prepared};
use blox_results::grid::in_brackets;
use blox_results::losses::Lost;
use blox_results::{in_groups, number_of, whole};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// The assumptions of a table: names with lines, in order. A name may have several lines.
#[derive(Clone, Debug, Default)]
pub struct Assumptions(Vec<(&'static str, String)>);

/// Runs that differ only in their seeds.
pub(crate) struct Setting<'e, 'r, 'l> {
    /// Values of the varied options.
    pub varied: Vec<(&'l str, String)>,
    pub experiment: &'e Prepared<'r>,
    /// The finished runs, each with its scheduler.
    pub runs: Vec<(&'l str, &'l Lost)>,
}

impl Assumptions {
    /// Returns the assumptions of the runs of one experiment, each with its scheduler.
    pub(crate) fn of<'l>(
        experiment: &Prepared<'_>,
        runs: impl IntoIterator<Item = (&'l str, &'l Lost)>,
    ) -> Self {
        Self::of_settings(&[Setting {
            varied: Vec::new(),
            experiment,
            runs: runs.into_iter().collect(),
        }])
    }

    /// Returns the assumptions of several settings. A line that not all settings have states theirs.
    pub(crate) fn of_settings(settings: &[Setting<'_, '_, '_>]) -> Self {
        let trained = settings.iter().flat_map(|setting| &setting.runs);
        let trained = trained.clone().any(|(_, lost)| lost.with_training);
        let mut list = Vec::new();
        let mut add = |name, line: &dyn Fn(&Setting<'_, '_, '_>) -> Option<String>| {
            let lines: Vec<Option<String>> = settings.iter().map(line).collect();
            list.extend(merged(settings, &lines).map(|line| (name, line)));
        };
        add("rounds", &|s| s.ran(rounds));
        add("durations", &|s| s.ran(|s| durations(&s.runs)));
        add("overheads", &|s| Some(s.experiment.overheads_line(trained)));
        // Without such an option, there is no line.
        let set: [(_, _, Line); 3] = [
            ("speeds", AS_STATED, |e| e.speeds_line()),
            ("faults", "none", |e| e.faults_line()),
            ("losses", AS_STATED, losses),
        ];
        for (name, otherwise, line) in set {
            let any = settings.iter().any(|s| line(s.experiment).is_some());
            let line = |s: &Setting<'_, '_, '_>| {
                any.then(|| line(s.experiment).unwrap_or_else(|| otherwise.to_owned()))
            };
            add(name, &line);
        }
        add("GPU types", &|s| {
            let several = s.experiment.gpu_types() > 1;
            several.then(|| s.ran(|s| speeds(&s.runs))).flatten()
        });
        add("jobs end", &|s| Some(ends(s.experiment)));
        Assumptions(list)
    }

    /// Returns the lines with their names.
    pub fn lines(&self) -> impl Iterator<Item = (String, String)> {
        let lines = self.0.iter();
        lines.map(|(name, line)| ((*name).to_owned(), line.clone()))
    }

    /// Returns the assumptions as an object for files.
    pub fn fields(&self) -> Map<String, Value> {
        let mut fields = Map::new();
        for (name, lines) in in_groups(self.0.iter().map(|(name, line)| (name, line.as_str()))) {
            let name = name.to_lowercase().replace(' ', "_");
            fields.insert(name, Value::from(lines.join("; or ")));
        }
        fields
    }
}

impl Setting<'_, '_, '_> {
    /// Returns a line about the runs, if any is finished.
    fn ran(&self, line: impl Fn(&Self) -> String) -> Option<String> {
        (!self.runs.is_empty()).then(|| line(self))
    }
}

/// Returns each line of the settings once. A line that not all settings have states the varied
/// options on which it depends, with their values.
fn merged(
    settings: &[Setting<'_, '_, '_>],
    lines: &[Option<String>],
) -> impl Iterator<Item = String> {
    let of = settings.iter().zip(lines);
    let of: Vec<_> = of
        .filter_map(|(setting, line)| Some((&setting.varied, line.as_deref()?)))
        .collect();
    let groups = in_groups(of.iter().map(|(varied, line)| (*line, *varied)));
    let several = groups.len() > 1;
    let varied = of.first().map_or(0, |(varied, _)| varied.len());
    let alike = |a: &[(&str, String)], b: &[(&str, String)], but: usize| {
        (0..varied).all(|i| i == but || a[i] == b[i])
    };
    let matters = |i: usize| {
        of.iter().enumerate().any(|(k, (a, line))| {
            let mut later = of[k + 1..].iter();
            later.any(|(b, other)| line != other && alike(a, b, i))
        })
    };
    let mut axes: Vec<usize> = (0..varied).filter(|i| several && matters(*i)).collect();
    if several && axes.is_empty() {
        // Too few settings are finished to tell.
        axes = (0..varied).collect();
    }
    let line = move |(line, of): (&str, Vec<&Vec<(&str, String)>>)| {
        let chosen = |varied: &Vec<(&str, String)>| -> Vec<String> {
            let values = axes.iter().map(|i| &varied[*i]);
            values
                .map(|(key, value)| format!("{key}={value}"))
                .collect()
        };
        let rows = in_groups(of.into_iter().map(|varied| (chosen(varied).join(" "), ())));
        let rows: Vec<String> = rows.into_iter().map(|(row, _)| row).collect();
        match several {
            true => format!("{line} (rows with {})", rows.join(", ")),
            false => line.to_owned(),
        }
    };
    let lines: Vec<String> = groups.into_iter().map(line).collect();
    lines.into_iter()
}

/// Formats the length of a round of the first scheduler, with different lengths of others in
/// brackets.
fn rounds(setting: &Setting<'_, '_, '_>) -> String {
    let of_runs = in_groups(setting.runs.iter().copied());
    let period = |label: &str| setting.experiment.period_of(label);
    let first = of_runs.first().and_then(|(label, _)| period(label));
    let text = first.map_or_else(
        || "none: decisions follow events".to_owned(),
        |s| format!("{s} s"),
    );
    let others = of_runs.iter().filter(|(label, _)| period(label) != first);
    let others = others.map(|(label, _)| {
        let length = period(label).map_or("none".to_owned(), |s| format!("{s} s"));
        format!("{label} {length}")
    });
    let others: Vec<String> = others.collect();
    in_brackets(text, &others)
}

/// The line about an option of an experiment, if it is set.
type Line = fn(&Prepared<'_>) -> Option<String>;

/// Returns the line about schedulers that read true durations.
fn durations(runs: &[(&str, &Lost)]) -> String {
    let of = in_groups(runs.iter().copied());
    let all = of.len();
    let knew = |(_, runs): &(&str, Vec<&Lost>)| runs.iter().any(|lost| lost.knew_truth);
    let (informed, others): (Vec<_>, Vec<_>) = of.into_iter().partition(knew);
    let names = |list: &[(&str, Vec<&Lost>)]| {
        let names: Vec<&str> = list.iter().map(|(name, _)| *name).collect();
        names.join(", ")
    };
    match (informed.len(), all) {
        (0, _) => "no scheduler reads the true ones".to_owned(),
        (1, 1) => "the true ones are known to the scheduler; no real cluster knows them".to_owned(),
        (n, all) if n == all => {
            "the true ones are known to all schedulers; no real cluster knows them".to_owned()
        }
        _ => format!(
            "the true ones are known to {}, not to {}",
            names(&informed),
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

/// Returns the line about generated losses.
fn losses(experiment: &Prepared<'_>) -> Option<String> {
    let generated = experiment.given.losses;
    generated.then(|| "made up for jobs that report none".to_owned())
}

/// Returns the line about the time at which ends of jobs are seen.
fn ends(experiment: &Prepared<'_>) -> String {
    let rule = experiment.given.completion.as_ref();
    match rule.map(|rule| rule.text()) {
        None if experiment.has_rounds() => {
            let option = experiment.given.origin.option("completion");
            format!("at ends of rounds; with {option} exact, when the work is done")
        }
        Some("round") => "at ends of rounds".to_owned(),
        None | Some("exact") => "when the work is done".to_owned(),
        Some(rule) => format!("by the rule `{rule}`"),
    }
}
