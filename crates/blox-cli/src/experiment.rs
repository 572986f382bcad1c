//! Experiments beside the options about what is printed of them.

use crate::args::Output;
use crate::config::Given;
use crate::failure::Failure;
use crate::files::{folder_name, not_taken};
use crate::output;
use blox_experiment::value::Axis;
use blox_experiment::{Contestant, Prepared, shown};
use blox_registry::Registry;
use blox_results::in_paths;
use blox_results::number_of;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};

/// An experiment that is ready to run, with the options about its results.
pub(crate) struct Experiment<'r> {
    prepared: Prepared<'r>,
    pub options: Output,
    /// True for a comparison of schedulers.
    pub compares: bool,
    /// Name of each scheduler in paths.
    pub folders: Vec<String>,
}

impl<'r> Deref for Experiment<'r> {
    type Target = Prepared<'r>;

    fn deref(&self) -> &Prepared<'r> {
        &self.prepared
    }
}

impl DerefMut for Experiment<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.prepared
    }
}

impl<'r> Experiment<'r> {
    /// Prepares an experiment with one value for each setting.
    pub fn of(given: Given, registry: &'r Registry) -> Result<Self, Failure> {
        let prepared = Prepared::of(given.experiment, registry)?;
        Ok(Self::with(prepared, given.output, given.compares))
    }

    fn with(prepared: Prepared<'r>, options: Output, compares: bool) -> Self {
        let mut folders: Vec<String> = Vec::new();
        for contestant in &prepared.contestants {
            let taken = |folder: &str| folders.iter().any(|own| own == folder);
            folders.push(not_taken(folder_name(&contestant.label), taken));
        }
        Experiment {
            prepared,
            options,
            compares,
            folders,
        }
    }

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

    /// Returns the given options by their long names, with the defaults in use.
    pub fn values(&self) -> Map<String, Value> {
        let mut all = self.given.values();
        all.extend(self.options.values());
        all
    }

    /// Returns the number of the job to explain: by its `job_id`, otherwise by its number.
    pub fn explained(&self) -> Result<Option<u32>, Failure> {
        let Some(text) = &self.options.explain else {
            return Ok(None);
        };
        match self.number_of(text.text())? {
            None => Err(Failure::new(format!(
                "--explain is `{text}`, expected the job_id of a job in the trace, or its number from 0"
            ))),
            number => Ok(number),
        }
    }
}

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

/// All runs of a command. `simulate` and `compare` have one cell.
pub(crate) struct Plan<'r> {
    /// Options that are the same for all runs.
    pub base: Output,
    /// The experiment without its lists.
    pub given: blox_experiment::Experiment,
    pub schedulers: Vec<String>,
    /// True if each run has a folder of its own below `runs`, as in a sweep.
    pub several: bool,
    pub axes: Vec<Axis>,
    pub cells: Vec<Cell<'r>>,
    pub runs: Vec<Planned>,
    pub threads: Option<NonZeroUsize>,
}

impl<'r> Plan<'r> {
    /// Creates a plan of one cell.
    pub fn of(given: Given, registry: &'r Registry) -> Result<Self, Failure> {
        let cell = blox_experiment::Cell {
            experiment: Prepared::of(given.experiment.clone(), registry)?,
            varied: Vec::new(),
        };
        Ok(Self::with(given, Vec::new(), vec![cell], false))
    }

    /// Creates a plan of all combinations of the lists that are given.
    pub fn of_lists(mut given: Given, registry: &'r Registry) -> Result<Self, Failure> {
        if let Some(name) = given.first_of(&["explain", "journal"]) {
            return Err(Failure::new(format!(
                "{name} has no meaning with several runs, only with one a scheduler"
            )));
        }
        // The table has no column for reasons; only the files of the runs have them.
        if output::folder(&given.output)?.is_none() && given.output.why {
            return Err(output::nowhere("why"));
        }
        let plan = blox_experiment::Plan::of(given.experiment.clone(), registry)?;
        (given.experiment.seeds, given.experiment.loads) = (None, None);
        given.experiment.vary.clear();
        // Plots and reports cover the whole sweep and do not change its runs.
        (given.output.plots, given.output.report) = (false, false);
        Ok(Self::with(given, plan.axes, plan.cells, true))
    }

    fn with(
        given: Given,
        axes: Vec<Axis>,
        cells: Vec<blox_experiment::Cell<'r>>,
        several: bool,
    ) -> Self {
        let cell = |cell: blox_experiment::Cell<'r>| Cell {
            experiment: Experiment::with(cell.experiment, given.output.clone(), given.compares),
            varied: cell.varied,
        };
        let cells: Vec<Cell<'r>> = cells.into_iter().map(cell).collect();
        let labels = cells.iter().take(1).flat_map(|c| &c.experiment.contestants);
        Plan {
            schedulers: labels.map(|c| c.label.clone()).collect(),
            runs: named_runs(several, &axes, &cells),
            several,
            axes,
            cells,
            threads: given.threads,
            base: given.output,
            given: given.experiment,
        }
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

    /// Returns the configuration file.
    pub fn file(&self) -> Option<&Path> {
        self.given.origin.path()
    }
}

/// Returns the runs of all cells, each with its name.
fn named_runs(several: bool, axes: &[Axis], cells: &[Cell<'_>]) -> Vec<Planned> {
    let mut taken = BTreeSet::new();
    let mut runs = Vec::new();
    for (cell, c) in cells.iter().enumerate() {
        for (contestant, folder) in c.experiment.folders.iter().enumerate() {
            let mut name = folder.clone();
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
