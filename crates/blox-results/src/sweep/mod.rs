//! Reads the folder of a sweep.

mod pictures;

pub(super) use pictures::pictures;

use super::error::FolderError;
use super::run::{RunResults, optional_json, value_or_none};
use super::table::{ColumnAt, Table};
use super::text::in_groups;
use crate::statistics::Estimate;
use crate::summary::{COLUMNS, PARTS};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const TABLE: &str = "sweep.csv";
const GROUPS: &str = "groups.csv";
const INDEX: &str = "sweep.json";
pub(super) const RUNS: &str = "runs";

/// The finished runs of a sweep.
#[derive(Clone, Debug)]
pub(super) struct Sweep {
    pub path: PathBuf,
    /// The content of `sweep.json`. Null without the file.
    pub index: Value,
    /// The settings that vary, in order of their columns, without the seed.
    pub varied: Vec<String>,
    pub runs: Vec<Run>,
}

/// One run: its settings and its figures.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// The name of the run and of its folder.
    pub name: String,
    pub scheduler: String,
    pub seed: String,
    /// A value for each setting that varies.
    pub settings: Vec<String>,
    /// The figure of each column after the settings.
    figures: BTreeMap<String, f64>,
}

/// Runs that differ only in their seeds.
pub(super) struct Group<'a> {
    pub scheduler: &'a str,
    pub settings: &'a [String],
    pub runs: Vec<&'a Run>,
}

impl Run {
    /// Returns the figure of a column.
    pub fn figure(&self, name: &str) -> Option<f64> {
        self.figures.get(name).copied()
    }

    /// Returns the numbers of completed and of measured jobs if some measured jobs did not complete.
    pub fn partial(&self) -> Option<(u64, u64)> {
        let count = |name| self.figure(name).unwrap_or(0.0) as u64;
        let (completed, measured) = (count("completed"), count("measured"));
        (completed < measured).then_some((completed, measured))
    }
}

impl Group<'_> {
    /// Returns the numbers of completed and of measured jobs over all seeds if some measured jobs did
    /// not complete.
    pub fn partial(&self) -> Option<(u64, u64)> {
        let count = |name| self.runs.iter().filter_map(|r| r.figure(name)).sum::<f64>() as u64;
        let (completed, measured) = (count("completed"), count("measured"));
        (completed < measured).then_some((completed, measured))
    }

    /// Returns the median over seeds, or `None` if no run has the figure.
    pub fn estimate(&self, name: &str) -> Option<Estimate> {
        let values: Vec<f64> = self.runs.iter().filter_map(|r| r.figure(name)).collect();
        Estimate::of(&values)
    }
}

impl Sweep {
    /// Returns whether a sweep wrote the folder.
    pub fn lies_in(dir: &Path) -> bool {
        dir.join(TABLE).is_file()
    }

    /// Reads the table of the runs, without the files of each run.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn open(dir: &Path) -> Result<Self, FolderError> {
        Sweep::of_table(dir, TABLE)
    }

    /// Reads the table of groups of jobs, if there is one. The value of a group is a setting.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn groups_of_jobs(&self) -> Result<Option<Self>, FolderError> {
        let found = self.path.join(GROUPS).is_file();
        found
            .then(|| Sweep::of_table(&self.path, GROUPS))
            .transpose()
    }

    fn of_table(dir: &Path, name: &str) -> Result<Self, FolderError> {
        let (settings, mut runs) = read(&dir.join(name))?;
        let differs = |k: &usize| runs.iter().any(|r| r.settings[*k] != runs[0].settings[*k]);
        let varied: Vec<usize> = (0..settings.len()).filter(differs).collect();
        for run in &mut runs {
            run.settings = varied.iter().map(|k| run.settings[*k].clone()).collect();
        }
        Ok(Sweep {
            path: dir.to_owned(),
            index: optional_json(&dir.join(INDEX))?.unwrap_or_default(),
            varied: varied.iter().map(|k| settings[*k].clone()).collect(),
            runs,
        })
    }

    /// Returns the groups in order of their first runs.
    pub fn groups(&self) -> Vec<Group<'_>> {
        let runs = self.runs.iter();
        let groups = in_groups(runs.map(|run| ((&run.scheduler, &run.settings), run)));
        let groups = groups.into_iter();
        groups
            .map(|((scheduler, settings), runs)| Group {
                scheduler,
                settings,
                runs,
            })
            .collect()
    }

    /// Formats settings, for example as `load 4, cluster 8x4`.
    pub fn label(&self, settings: &[String]) -> String {
        let named = self.varied.iter().zip(settings);
        let parts: Vec<String> = named
            .map(|(name, value)| format!("{name} {}", value_or_none(value)))
            .collect();
        parts.join(", ")
    }

    /// Reads the files of a run. Returns `None` if only the table is left.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn results(&self, run: &Run) -> Result<Option<RunResults>, FolderError> {
        let base = self.path.join(RUNS);
        match run.name.is_empty() || !base.join(&run.name).join("jobs.csv").is_file() {
            true => Ok(None),
            false => RunResults::read(&base, &run.name, &run.name).map(Some),
        }
    }
}

/// Returns the names of the settings, and the runs that have an average.
fn read(path: &Path) -> Result<(Vec<String>, Vec<Run>), FolderError> {
    let mut table = Table::open(path)?;
    let scheduler = table.column("scheduler")?;
    let jct = table.column("avg_jct_s")?;
    let (name, seed) = (table.find("run"), table.find("seed"));
    // Settings stand before the size of the cluster or the number of jobs, figures behind it. Seeds
    // repeat a setting, and parameters are in the scheduler's name.
    let no_setting = |name: &str| {
        matches!(name, "run" | "scheduler" | "policy" | "seed") || name.starts_with("param_")
    };
    let (names, columns): (Vec<String>, Vec<_>) = table
        .columns()
        .take_while(|(name, _)| !matches!(*name, "nodes" | "jobs" | "avg_jct_s"))
        .filter(|(name, _)| !no_setting(name))
        .map(|(name, column)| (name.to_owned(), column))
        .unzip();
    let known = || COLUMNS.iter().chain(&PARTS);
    let is_known = |name: &str| known().any(|c| c.name == name);
    let figures = table
        .columns()
        .filter(|(name, _)| is_known(name) && *name != "scheduler");
    let figures = figures.map(|(name, column)| (name.to_owned(), column));
    let figures: Vec<(String, ColumnAt)> = figures.collect();
    let mut runs = Vec::new();
    while table.advance()? {
        if table.maybe(jct)?.is_none() {
            continue;
        }
        let text = |column: Option<ColumnAt>| column.map_or("", |c| table.text(c)).to_owned();
        let mut found = BTreeMap::new();
        for (name, column) in &figures {
            found.extend(table.maybe(*column)?.map(|value| (name.clone(), value)));
        }
        runs.push(Run {
            name: text(name),
            scheduler: text(Some(scheduler)),
            seed: text(seed),
            settings: columns.iter().map(|c| text(Some(*c))).collect(),
            figures: found,
        });
    }
    Ok((names, runs))
}
