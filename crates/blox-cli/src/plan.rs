//! Plans of experiments, with the options about what is printed and written of their results.

use crate::args::Output;
use crate::config::Given;
use crate::failure::Failure;
use crate::files::{folder_name, not_taken};
use crate::output;
use blox_experiment::{Experiment, Failed, Prepared, Results, shown};
use blox_registry::Registry;
use blox_results::{Run, in_paths};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;

/// All runs of a command. `simulate` and `compare` have one cell.
pub(crate) struct Plan<'r> {
    plan: blox_experiment::Plan<'r>,
    pub options: Output,
    /// The experiment without its lists.
    pub given: Experiment,
    /// True for a comparison of schedulers.
    pub compares: bool,
    /// True if each run has a folder of its own below `runs`, as in a sweep.
    pub several: bool,
    /// Name of each scheduler in paths.
    pub folders: Vec<String>,
    /// Name of each run, which is unique and valid in a path.
    pub names: Vec<String>,
    pub threads: Option<NonZeroUsize>,
}

impl<'r> Deref for Plan<'r> {
    type Target = blox_experiment::Plan<'r>;

    fn deref(&self) -> &Self::Target {
        &self.plan
    }
}

impl DerefMut for Plan<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.plan
    }
}

impl<'r> Plan<'r> {
    /// Creates a plan of one cell.
    pub fn of(given: Given, registry: &'r Registry) -> Result<Self, Failure> {
        let prepared = Prepared::of(given.experiment.clone(), registry)?;
        Ok(Self::with(given, prepared.into(), false))
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
        Ok(Self::with(given, plan, true))
    }

    fn with(given: Given, plan: blox_experiment::Plan<'r>, several: bool) -> Self {
        let mut folders: Vec<String> = Vec::new();
        for label in plan.schedulers() {
            let taken = |folder: &str| folders.iter().any(|own| own == folder);
            folders.push(not_taken(folder_name(label), taken));
        }
        let mut names: Vec<String> = Vec::new();
        let mut taken = BTreeSet::new();
        for run in &plan.runs {
            let mut name = folders[run.contestant].clone();
            for (axis, value) in plan.axes.iter().zip(&plan.cells[run.cell].varied) {
                name.push_str(&format!("_{}={}", axis.key, shown(value)));
            }
            if several {
                let plain: String = in_paths(&name).chars().take(150).collect();
                name = not_taken(plain, |name| taken.contains(name));
                taken.insert(name.clone());
            }
            names.push(name);
        }
        Plan {
            plan,
            several,
            folders,
            names,
            threads: given.threads,
            compares: given.compares,
            options: given.output,
            given: given.experiment,
        }
    }

    /// Keeps some runs, such as the runs of a shard.
    pub fn retain(&mut self, kept: &[bool]) {
        let mut flags = kept.iter();
        self.names.retain(|_| *flags.next().unwrap_or(&false));
        let mut flags = kept.iter();
        self.plan.runs.retain(|_| *flags.next().unwrap_or(&false));
    }

    /// Returns the experiment of a plan of one cell.
    pub fn only(&self) -> &Prepared<'r> {
        &self.cells[0].experiment
    }

    /// Collects runs of an experiment of the plan, and the schedulers that failed.
    pub fn results<'a>(
        &self,
        of: &'a Prepared<'r>,
        runs: impl IntoIterator<Item = &'a Run>,
        failed: &'a [Failed],
    ) -> Results<'a, 'r> {
        let mut results = Results::of(of, runs, failed);
        results.compares = self.compares;
        results
    }

    /// Returns the settings of an experiment and the options, by their long names.
    pub fn values(&self, of: &Experiment) -> Map<String, Value> {
        let mut all = of.values();
        all.extend(self.options.values());
        all
    }

    /// Returns the number of the job to explain: by its `job_id`, otherwise by its number.
    pub fn explained(&self) -> Result<Option<u32>, Failure> {
        let Some(text) = &self.options.explain else {
            return Ok(None);
        };
        match self.only().number_of(text.text())? {
            None => Err(Failure::new(format!(
                "--explain is `{text}`, expected the job_id of a job in the trace, or its number from 0"
            ))),
            number => Ok(number),
        }
    }

    /// Returns the result folder of a run.
    pub fn folder(&self, i: usize) -> Option<PathBuf> {
        let dir = self.options.output_dir.as_ref()?;
        Some(match self.several {
            true => dir.join("runs").join(&self.names[i]),
            false => dir.join(&self.names[i]),
        })
    }

    /// Returns the result folders of all runs.
    pub fn run_folders(&self) -> impl Iterator<Item = PathBuf> {
        (0..self.runs.len()).filter_map(|i| self.folder(i))
    }

    /// Returns the files that the runs read.
    pub fn files(&self) -> BTreeSet<&PathBuf> {
        let cells = self.cells.iter();
        cells.flat_map(|cell| &cell.experiment.files).collect()
    }
}
