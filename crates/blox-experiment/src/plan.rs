//! Expands lists of values to runs.

use crate::contestant::Contestant;
use crate::error::ExperimentError;
use crate::inputs::Known;
use crate::message::wrong_value;
use crate::origin::LISTED;
use crate::prepared::Prepared;
use crate::run::{Observed, each};
use crate::settings::Experiment;
use crate::value::{Axis, alternatives};
use blox_core::suggest::one_of;
use blox_registry::Registry;
use blox_results::{Run, losses};
use blox_traces::cluster_file::message_of;
use serde_json::{Value, json};
use std::num::NonZeroUsize;
use std::sync::Arc;

/// Largest number of runs; a larger number is most likely an error.
const MOST_RUNS: usize = 100_000;

/// Settings of several runs.
const LISTS: [&str; 6] = [
    "scheduler",
    "schedulers",
    "seeds",
    "loads",
    "vary",
    "baseline",
];

/// One combination of values, the same for all schedulers.
#[allow(
    missing_debug_implementations,
    reason = "it has a registry of closures"
)]
pub struct Cell<'r> {
    /// The experiment with these values.
    pub experiment: Prepared<'r>,
    /// One value for each axis.
    pub varied: Vec<Value>,
}

/// One run: a scheduler in a cell.
#[derive(Clone, Copy, Debug)]
pub struct Planned {
    /// Index of the cell.
    pub cell: usize,
    /// Index of the scheduler.
    pub contestant: usize,
}

/// All runs of an experiment. Seeds are the outermost axis and schedulers the innermost, so an
/// interruption leaves complete comparisons for the first seeds.
#[allow(
    missing_debug_implementations,
    reason = "it has a registry of closures"
)]
pub struct Plan<'r> {
    /// The settings that vary, with their values.
    pub axes: Vec<Axis>,
    /// All combinations of these values.
    pub cells: Vec<Cell<'r>>,
    /// Each scheduler in each cell.
    pub runs: Vec<Planned>,
}

impl<'r> Plan<'r> {
    /// Plans all combinations of the lists of an experiment, and of alternatives in its schedulers.
    ///
    /// # Errors
    /// A setting is wrong, or contradicts another.
    pub fn of(mut of: Experiment, registry: &'r Registry) -> Result<Self, ExperimentError> {
        let axes = axes(&of)?;
        let schedulers = of.schedulers.take();
        let schedulers = schedulers.unwrap_or_else(|| Vec::from_iter(of.scheduler.take()));
        of.schedulers = Some(schedulers.iter().flat_map(|s| alternatives(s)).collect());
        let given = of.values();
        of.origin.note_lists(|list| given.contains_key(list));
        (of.seeds, of.loads) = (None, None);
        of.vary.clear();
        let mut combinations: Vec<Vec<Value>> = vec![Vec::new()];
        for axis in &axes {
            let longer = combinations.iter().flat_map(|before| {
                let values = axis.values.iter().cloned();
                values.map(|value| [&before[..], &[value][..]].concat())
            });
            combinations = longer.take(MOST_RUNS + 1).collect();
        }
        let schedulers = of.schedulers.as_ref().map_or(1, Vec::len);
        if combinations.len().saturating_mul(schedulers) > MOST_RUNS {
            return Err(ExperimentError::Setting(
                "there are more than 100,000 runs, expected fewer".to_owned(),
            ));
        }
        let mut known = Known::default();
        let mut cells = Vec::new();
        for varied in combinations {
            let of_cell = with_values(&of, &axes, &varied)?;
            cells.push(Cell {
                experiment: Prepared::with_cache(of_cell, registry, &mut known)?
                    .without_schedulers(),
                varied,
            });
        }
        let of_cell = |(cell, c): (usize, &Cell<'_>)| {
            let contestants = 0..c.experiment.contestants.len();
            contestants.map(move |contestant| Planned { cell, contestant })
        };
        let runs = cells.iter().enumerate().flat_map(of_cell).collect();
        Ok(Plan { axes, cells, runs })
    }

    /// Returns the experiment of a run.
    pub fn experiment(&self, run: &Planned) -> &Prepared<'r> {
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

    fn first(&self) -> Option<&Prepared<'r>> {
        self.cells.first().map(|cell| &cell.experiment)
    }

    /// Returns the schedulers, with their parameters.
    pub fn schedulers(&self) -> impl Iterator<Item = &str> {
        let all = self.first().into_iter().flat_map(|e| &e.contestants);
        all.map(|contestant| contestant.label.as_str())
    }

    /// Returns the place of the scheduler with which the others are compared.
    pub(crate) fn baseline(&self) -> usize {
        self.first().map_or(0, |experiment| experiment.baseline)
    }

    /// Returns the column of groups of jobs.
    pub fn by(&self) -> Option<&str> {
        let by = self.first()?.given.records.by.as_deref();
        by.map(|by| by.0.as_str())
    }

    /// Returns a key as it would be written on the command line, if there is one.
    pub(crate) fn option(&self, key: &str) -> String {
        let first = self.first();
        first.map_or_else(|| key.to_owned(), |e| e.given.origin.option(key))
    }

    /// Returns each notice about settings once.
    pub(crate) fn notices(&self) -> Vec<String> {
        losses::each_once(self.cells.iter().flat_map(|c| &c.experiment.notices))
    }

    /// Runs everything on all cores, and returns the results in the order of the runs.
    ///
    /// # Errors
    /// A simulation cannot go on. The first error ends all others.
    pub fn run(&self) -> Result<Vec<Run>, ExperimentError> {
        let watches: Vec<_> = self.runs.iter().map(|_| Arc::default()).collect();
        let cores = std::thread::available_parallelism().ok();
        let results = each(&watches, cores.or(NonZeroUsize::new(1)), |i, watch| {
            let run = self.runs[i];
            let observed = Observed::by(watch);
            let experiment = self.experiment(&run);
            experiment.run(run.contestant, observed, |simulation| simulation)
        });
        Ok(results?.into_iter().flatten().collect())
    }
}

impl<'r> From<Prepared<'r>> for Plan<'r> {
    /// Plans the schedulers of an experiment, with one run of each.
    fn from(experiment: Prepared<'r>) -> Self {
        let contestants = 0..experiment.contestants.len();
        let run = |contestant| Planned {
            cell: 0,
            contestant,
        };
        Plan {
            axes: Vec::new(),
            runs: contestants.map(run).collect(),
            cells: vec![Cell {
                experiment,
                varied: Vec::new(),
            }],
        }
    }
}

fn axes(of: &Experiment) -> Result<Vec<Axis>, ExperimentError> {
    for key in LISTED {
        if of.vary.contains_key(key) {
            return Err(ExperimentError::Setting(format!(
                "{} names `{key}`, expected {} for it",
                of.name("vary"),
                of.origin.beside("vary", &format!("{key}s"))
            )));
        }
    }
    let mut axes = Vec::new();
    if let Some(seeds) = &of.seeds {
        if of.seed.is_some() {
            return Err(of.both("seed", "seeds"));
        }
        axes.push(Axis {
            key: "seed".to_owned(),
            values: seeds.0.iter().map(|s| json!(s)).collect(),
        });
    }
    let settings = settings();
    for (key, list) in &of.vary {
        if LISTS.contains(&key.as_str()) {
            return Err(of.no_setting(key));
        }
        if !settings.contains(key) {
            return Err(ExperimentError::Setting(format!(
                "{} names `{key}`, expected {}",
                of.name("vary"),
                one_of(key, settings.iter().map(String::as_str))
            )));
        }
        let twice = list.iter().enumerate().any(|(i, v)| list[..i].contains(v));
        if list.is_empty() || twice {
            return Err(ExperimentError::Setting(format!(
                "{} of `{key}` has {}, expected different values",
                of.name("vary"),
                if twice { "a value twice" } else { "no values" }
            )));
        }
        axes.push(Axis {
            key: key.clone(),
            values: list.clone(),
        });
    }
    if let Some(loads) = &of.loads {
        if of.workload_parameters.get("load").is_some() {
            return Err(of.both("load", "loads"));
        }
        axes.push(Axis {
            key: "load".to_owned(),
            values: loads.0.iter().copied().map(whole_or_not).collect(),
        });
    }
    Ok(axes)
}

/// Returns the settings that can vary, except those with a list of their own.
fn settings() -> Vec<String> {
    let mut keys = Experiment::keys();
    keys.retain(|key| !LISTS.contains(&key.as_str()) && !LISTED.contains(&key.as_str()));
    keys
}

/// Returns a value without the quotes of JSON.
pub fn shown(value: &Value) -> String {
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

/// Returns the experiment of a cell.
fn with_values(
    of: &Experiment,
    axes: &[Axis],
    varied: &[Value],
) -> Result<Experiment, ExperimentError> {
    let mut cell = of.clone();
    for (axis, value) in axes.iter().zip(varied) {
        cell.set(&axis.key, value.clone()).map_err(|e| {
            let option = format!("{} {}", of.name("vary"), axis.key);
            let why = message_of(&e.to_string());
            // A value of another type than the setting's.
            let why = why.split_once(", expected ").map_or(&*why, |(found, _)| {
                match found.starts_with("found ") {
                    true => &why[found.len() + 2..],
                    false => &why,
                }
            });
            ExperimentError::Setting(wrong_value(&option, &shown(value), why))
        })?;
    }
    Ok(cell)
}
