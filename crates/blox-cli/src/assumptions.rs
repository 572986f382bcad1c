//! Assumptions of the figures of a table: about the simulated world, and about the knowledge of
//! schedulers.

use crate::experiment::Experiment;
use blox_experiment::AS_STATED;
use blox_results::grid::in_brackets;
use blox_results::losses::Lost;
use blox_results::{in_groups, number_of, whole};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// The assumptions of a table: names with lines, in order. A name may have several lines.
#[derive(Default)]
pub(super) struct Assumptions(pub Vec<(&'static str, String)>);

/// Runs that differ only in their seeds.
pub(super) struct Setting<'e, 'r, 'l> {
    /// Values of the varied options.
    pub varied: Vec<(&'l str, String)>,
    pub experiment: &'e Experiment<'r>,
    /// The finished runs, each with its scheduler.
    pub runs: Vec<(&'l str, &'l Lost)>,
}

impl Assumptions {
    /// Returns the assumptions of the runs of one experiment, each with its scheduler.
    pub fn of<'l>(
        experiment: &Experiment<'_>,
        runs: impl IntoIterator<Item = (&'l str, &'l Lost)>,
    ) -> Self {
        Self::of_settings(&[Setting {
            varied: Vec::new(),
            experiment,
            runs: runs.into_iter().collect(),
        }])
    }

    /// Returns the assumptions of several settings. A line that not all settings have states theirs.
    pub fn of_settings(settings: &[Setting<'_, '_, '_>]) -> Self {
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
type Line = fn(&Experiment<'_>) -> Option<String>;

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
fn losses(experiment: &Experiment<'_>) -> Option<String> {
    let generated = experiment.given.losses;
    generated.then(|| "made up for jobs that report none".to_owned())
}

/// Returns the line about the time at which ends of jobs are seen.
fn ends(experiment: &Experiment<'_>) -> String {
    let rule = experiment.given.completion.as_ref();
    match rule.map(|rule| rule.text()) {
        None if experiment.has_rounds() => {
            "at ends of rounds; with --completion exact, when the work is done".to_owned()
        }
        Some("round") => "at ends of rounds".to_owned(),
        None | Some("exact") => "when the work is done".to_owned(),
        Some(rule) => format!("by the rule `{rule}`"),
    }
}

#[cfg(test)]
mod tests {
    use crate::run_with;

    /// Runs a command, and returns what it prints.
    fn run(command: &str) -> String {
        let registry = blox_sim::registry::register(blox_schedulers::registry());
        let registry = blox_traces::registry::register(registry);
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let args = ["blox"].into_iter().chain(command.split(' '));
        let code = run_with(&registry, args, &mut out, &mut err);
        let err = String::from_utf8_lossy(&err);
        assert_eq!(code, 0, "{command}: {err}");
        String::from_utf8(out).unwrap()
    }

    /// Returns the lines of a text that begin with a word.
    fn lines<'a>(text: &'a str, word: &str) -> Vec<&'a str> {
        text.lines().filter(|line| line.starts_with(word)).collect()
    }

    #[test]
    fn set_parts_of_the_world_have_a_line() {
        let plain = "simulate las --workload poisson --load 4 --jobs 20 --cluster 2x4";
        let text = run(plain);
        for word in ["speeds", "faults", "losses"] {
            assert_eq!(lines(&text, word), [""; 0], "{text}");
        }
        let text = run(&format!(
            "{plain} --execution contention{{slowdown=5}} --node-mtbf-h 200 --losses"
        ));
        let speeds = "speeds     by the model `contention{slowdown=5}`";
        assert_eq!(lines(&text, "speeds"), [speeds]);
        let faults = lines(&text, "faults");
        assert!(faults[0].contains("a node fails after 200 h"), "{text}");
        let losses = "losses     made up for jobs that report none";
        assert_eq!(lines(&text, "losses"), [losses]);
    }

    #[test]
    fn jobs_that_did_not_come_have_no_speeds() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("jobs.csv");
        let rows = "0,1,60,v100:2\n5,1,60,v100:2\n90000,1,60,v100:2\n";
        std::fs::write(&path, format!("submit_s,gpus,duration_s,speeds\n{rows}")).unwrap();
        let path = path.display();
        let text = run(&format!(
            "simulate fifo --trace {path} --cluster 1x4:v100,1x4:k80 --until 20000"
        ));
        let line = "GPU types  each job has its speeds by type";
        assert_eq!(lines(&text, "GPU types"), [line], "{text}");
    }

    #[test]
    fn seeds_state_measured_jobs_and_assumptions() {
        let text =
            "compare fifo srtf --workload poisson --load 4 --jobs 20 --cluster 2x4 --seeds 1..2";
        let measured = "measured   all 20 jobs of each run";
        assert_eq!(lines(&run(text), "measured"), [measured]);
        let sweep = text.replace("compare", "sweep");
        assert_eq!(lines(&run(&sweep), "measured"), [measured]);
        let json = run(&format!("{text} --output-format json"));
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let durations = "the true ones are known to srtf, not to fifo";
        assert_eq!(json["assumptions"]["durations"], durations);
        assert_eq!(json["schedulers"][1]["knew_true_durations"], true);
        assert_eq!(json["schedulers"][0]["knew_true_durations"], false);
    }

    #[test]
    fn jobs_without_a_value_are_a_group_apart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("jobs.csv");
        let rows = "0,1,60,-\n0,1,600,\n";
        std::fs::write(&path, format!("submit_s,gpus,duration_s,user\n{rows}")).unwrap();
        let path = path.display();
        let of = |command: &str| {
            let text = run(&format!(
                "{command} --trace {path} --cluster 1x4 --overheads none --by user --seeds 1..2"
            ));
            let (_, groups) = text.split_once("\n\n").unwrap();
            let rows = groups.lines().filter(|line| line.starts_with("fifo"));
            rows.map(|row| row.split_whitespace().nth(1).unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(of("sweep fifo"), ["-", "(none)"]);
        assert_eq!(of("compare fifo las"), ["-", "(none)"]);
    }
}
