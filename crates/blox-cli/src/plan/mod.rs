//! Expands lists of values to runs.

pub(crate) mod values;

use super::args::Options;
use super::config::{Given, is_among};
use super::files::not_taken;
use super::output;
use super::resolve::{Contestant, Experiment, Known};
use crate::failure::{Failure, wrong_value};
use blox_core::suggest::one_of;
use blox_registry::Registry;
use blox_results::{in_paths, whole};
use blox_traces::cluster_file::message_of;
use clap::Args;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use values::{Axis, LISTED};

/// Largest number of runs; a larger number is most likely an error.
const MOST_RUNS: usize = 100_000;

/// Keys of a configuration file that are no options of one run.
const LISTS: [&str; 6] = [
    "scheduler",
    "schedulers",
    "seeds",
    "loads",
    "vary",
    "baseline",
];

/// One combination of values, the same for all schedulers.
pub(crate) struct Cell<'r> {
    pub experiment: Experiment<'r>,
    /// One value for each axis.
    pub varied: Vec<Value>,
}

/// One run: a scheduler in a cell.
pub(crate) struct Planned {
    pub cell: usize,
    pub contestant: usize,
    /// Name that is unique in the plan and valid in a path.
    pub name: String,
}

/// All runs of a command. `simulate` and `compare` have one cell. Seeds are the outermost axis and
/// schedulers the innermost, so an interrupted sweep has complete comparisons for its first seeds.
pub(crate) struct Plan<'r> {
    /// Options that are the same for all runs.
    pub base: Options,
    pub schedulers: Vec<String>,
    /// True if each run has a folder of its own below `runs`, as in a sweep.
    pub several: bool,
    pub axes: Vec<Axis>,
    pub cells: Vec<Cell<'r>>,
    pub runs: Vec<Planned>,
    pub threads: Option<NonZeroUsize>,
    pub file: Option<PathBuf>,
}

impl<'r> Plan<'r> {
    /// Creates a plan of one cell.
    pub fn of(given: Given, registry: &'r Registry) -> Result<Self, Failure> {
        Self::with(given, None, registry)
    }

    /// Creates a plan of all combinations of the lists that are given.
    pub fn of_lists(mut given: Given, registry: &'r Registry) -> Result<Self, Failure> {
        if let Some(name) = given.first_of(&["explain", "journal"]) {
            return Err(Failure::new(format!(
                "{name} has no meaning with several runs, only with one a scheduler"
            )));
        }
        let o = &given.options;
        if output::folder(o)?.is_none() {
            // The table has no column for reasons; only the files of the runs have them.
            if o.why {
                return Err(output::nowhere("why"));
            }
        }
        let axes = axes(&given)?;
        given.schedulers = given
            .schedulers
            .iter()
            .flat_map(|s| values::alternatives(s))
            .collect();
        let o = &mut given.options;
        (o.seeds, o.loads) = (None, None);
        o.vary.clear();
        // Plots and reports cover the whole sweep and do not change its runs.
        (o.plots, o.report) = (false, false);
        Self::with(given, Some(axes), registry)
    }

    fn with(
        given: Given,
        axes: Option<Vec<Axis>>,
        registry: &'r Registry,
    ) -> Result<Self, Failure> {
        let several = axes.is_some();
        let axes = axes.unwrap_or_default();
        let mut combinations: Vec<Vec<Value>> = vec![Vec::new()];
        for axis in &axes {
            let longer = combinations.iter().flat_map(|before| {
                let values = axis.values.iter().cloned();
                values.map(|value| [&before[..], &[value][..]].concat())
            });
            combinations = longer.take(MOST_RUNS + 1).collect();
        }
        if combinations.len().saturating_mul(given.schedulers.len()) > MOST_RUNS {
            return Err(Failure::new(format!(
                "there are more than {} runs, expected fewer",
                whole(MOST_RUNS as u64)
            )));
        }
        let mut known = Known::default();
        let mut cells = Vec::new();
        for varied in combinations {
            let mut of_cell = given.clone();
            of_cell.options = options_with(&given, &axes, &varied)?;
            cells.push(Cell {
                experiment: Experiment::with_cache(of_cell, registry, &mut known)?,
                varied,
            });
        }
        let labels = cells.iter().take(1).flat_map(|c| &c.experiment.contestants);
        Ok(Plan {
            schedulers: labels.map(|c| c.label.clone()).collect(),
            runs: named_runs(several, &axes, &cells),
            several,
            axes,
            cells,
            threads: given.threads,
            file: given.file().map(PathBuf::from),
            base: given.options,
        })
    }

    /// Returns the experiment of a run.
    pub fn experiment(&self, run: &Planned) -> &Experiment<'r> {
        &self.cells[run.cell].experiment
    }

    /// Returns the scheduler of a run.
    pub fn contestant(&self, run: &Planned) -> &Contestant {
        &self.experiment(run).contestants[run.contestant]
    }

    /// Returns the scheduler of a run, with its parameters.
    pub fn label(&self, run: &Planned) -> &str {
        &self.contestant(run).label
    }

    /// Returns the result folder of a run.
    pub fn folder(&self, run: &Planned) -> Option<PathBuf> {
        let dir = self.experiment(run).options.output_dir.as_ref()?;
        Some(match self.several {
            true => dir.join("runs").join(&run.name),
            false => dir.join(&run.name),
        })
    }

    /// Returns the result folders of all runs.
    pub fn folders(&self) -> impl Iterator<Item = PathBuf> {
        self.runs.iter().filter_map(|run| self.folder(run))
    }

    /// Returns the files that the runs read.
    pub fn files(&self) -> BTreeSet<&PathBuf> {
        let cells = self.cells.iter();
        cells.flat_map(|cell| &cell.experiment.files).collect()
    }
}

/// Returns the runs of all cells, each with its name.
fn named_runs(several: bool, axes: &[Axis], cells: &[Cell<'_>]) -> Vec<Planned> {
    let mut taken = BTreeSet::new();
    let mut runs = Vec::new();
    for (cell, c) in cells.iter().enumerate() {
        for (contestant, s) in c.experiment.contestants.iter().enumerate() {
            let mut name = s.folder.clone();
            for (axis, value) in axes.iter().zip(&c.varied) {
                name.push_str(&format!("_{}={}", axis.key, shown(value)));
            }
            if several {
                let plain: String = in_paths(&name).chars().take(150).collect();
                name = not_taken(plain, |name| taken.contains(name));
                taken.insert(name.clone());
            }
            runs.push(Planned {
                cell,
                contestant,
                name,
            });
        }
    }
    runs
}

fn axes(given: &Given) -> Result<Vec<Axis>, Failure> {
    let o = &given.options;
    for key in LISTED {
        if o.vary.contains_key(key) {
            return Err(Failure::new(format!(
                "{} names `{key}`, expected --{key}s for it",
                given.name("vary")
            )));
        }
    }
    let mut axes = Vec::new();
    if let Some(seeds) = &o.seeds {
        if o.seed.is_some() {
            return Err(given.both("seed", "seeds"));
        }
        axes.push(Axis {
            key: "seed".to_owned(),
            values: seeds.0.iter().map(|s| json!(s)).collect(),
        });
    }
    for (key, list) in &o.vary {
        if LISTS.contains(&key.as_str()) || is_among(key, is_of_output) {
            return Err(Failure::new(format!(
                "{} names `{key}`, which is no setting of a simulation",
                given.name("vary")
            )));
        }
        if !is_among(key, is_setting) {
            return Err(Failure::new(format!(
                "{} names `{key}`, expected {}",
                given.name("vary"),
                one_of(key, settings().iter().map(String::as_str))
            )));
        }
        let twice = list.iter().enumerate().any(|(i, v)| list[..i].contains(v));
        if list.is_empty() || twice {
            return Err(Failure::new(format!(
                "{} of `{key}` has {}, expected different values",
                given.name("vary"),
                if twice { "a value twice" } else { "no values" }
            )));
        }
        axes.push(Axis {
            key: key.clone(),
            values: list.clone(),
        });
    }
    if let Some(loads) = &o.loads {
        if o.load.is_some() {
            return Err(given.both("load", "loads"));
        }
        axes.push(Axis {
            key: "load".to_owned(),
            values: loads.0.iter().copied().map(whole_or_not).collect(),
        });
    }
    Ok(axes)
}

/// Returns whether an option concerns the output or a single run.
fn is_of_output(arg: &clap::Arg) -> bool {
    let is_setting = ["measure", "until", "fairness"]
        .map(Some)
        .contains(&arg.get_long());
    arg.get_help_heading() == Some("Results") && !is_setting
}

/// Returns whether `--vary` accepts an option.
fn is_setting(arg: &clap::Arg) -> bool {
    let name = arg.get_long().unwrap_or_default();
    name != "config" && !LISTED.contains(&name) && !is_of_output(arg)
}

/// Returns the options that `--vary` accepts, by their long names.
fn settings() -> Vec<String> {
    let command = Options::augment_args(clap::Command::new(""));
    let settings = command.get_arguments().filter(|arg| is_setting(arg));
    settings
        .filter_map(|arg| Some(arg.get_long()?.to_owned()))
        .collect()
}

/// Returns a value without the quotes of JSON.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Converts a number to JSON; whole numbers are written without a decimal point.
fn whole_or_not(v: f64) -> Value {
    match v {
        v if v >= 0.0 && v.fract() == 0.0 && v < 9e15 => json!(v as u64),
        v => json!(v),
    }
}

/// Returns the options of a cell.
fn options_with(given: &Given, axes: &[Axis], varied: &[Value]) -> Result<Options, Failure> {
    let mut all = given.options.given();
    let mut options = given.options.clone();
    for (axis, value) in axes.iter().zip(varied) {
        all.insert(axis.key.clone(), value.clone());
        options = Options::of(all.clone()).map_err(|e| {
            let option = format!("{} {}", given.name("vary"), axis.key);
            let why = message_of(&e.to_string());
            // A value of another type than the option's.
            let why = why.split_once(", expected ").map_or(&*why, |(found, _)| {
                match found.starts_with("found ") {
                    true => &why[found.len() + 2..],
                    false => &why,
                }
            });
            Failure::new(wrong_value(&option, &shown(value), why))
        })?;
    }
    Ok(options)
}
