//! Reads result folders of `simulate`, `compare` and `sweep`.

use super::error::FolderError;
use super::run::{RunResults, json, optional_json};
use super::sweep::{RUNS, Run, Sweep};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A result folder.
#[derive(Clone, Debug)]
pub struct Folder {
    /// The path of the folder.
    pub path: PathBuf,
    /// The content of `manifest.json`. Null for the folder of a sweep.
    pub manifest: Value,
    /// The schedulers, in the order of the command line.
    pub runs: Vec<RunResults>,
    /// The runs of a sweep.
    pub(super) sweep: Option<Sweep>,
}

impl Folder {
    /// Reads a folder, except the assignments.
    ///
    /// # Errors
    /// The path is no result folder, or a file in it cannot be read.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        let missing = |what| FolderError::NotAResult {
            path: path.to_owned(),
            what,
        };
        let sweep = Sweep::lies_in(path).then(|| Sweep::open(path));
        let sweep = sweep.transpose()?;
        let manifest = optional_json(&path.join("manifest.json"))?;
        if manifest.is_none() && sweep.is_none() {
            return Err(missing("manifest.json"));
        }
        let manifest = manifest.unwrap_or_default();
        let mut runs = Vec::new();
        for entry in manifest["schedulers"].as_array().into_iter().flatten() {
            let (Some(name), Some(folder)) = (entry["name"].as_str(), entry["folder"].as_str())
            else {
                continue;
            };
            runs.push(RunResults::read(path, name, folder)?);
        }
        if runs.is_empty() && sweep.is_none() {
            return Err(missing("scheduler in manifest.json"));
        }
        Ok(Folder {
            path: path.to_owned(),
            manifest,
            runs,
            sweep,
        })
    }

    /// Returns at most `most` runs of the first seed of a sweep, each as a folder.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(super) fn first_runs(sweep: &Sweep, most: usize) -> Result<Vec<Self>, FolderError> {
        let first = |r: &&Run| r.seed == sweep.runs[0].seed;
        let mut folders = Vec::new();
        for run in sweep.runs.iter().filter(first).take(most) {
            let Some(mut results) = sweep.results(run)? else {
                continue;
            };
            let label = sweep.label(&run.settings);
            results.name = match label.is_empty() {
                true => run.scheduler.clone(),
                false => format!("{}, {label}", run.scheduler),
            };
            let path = sweep.path.join(RUNS).join(&run.name);
            folders.push(Folder {
                manifest: json(&path.join("manifest.json"))?,
                path,
                runs: vec![results],
                sweep: None,
            });
        }
        Ok(folders)
    }

    /// Returns the number of GPUs of the cluster.
    pub fn gpus(&self) -> u32 {
        self.manifest["gpus"].as_u64().unwrap_or(0) as u32
    }

    /// Returns the number of GPUs of each node at the start.
    pub fn node_gpus(&self) -> Vec<u32> {
        let kinds = self.kinds();
        kinds
            .flat_map(|(nodes, gpus, _)| std::iter::repeat_n(gpus, nodes))
            .collect()
    }

    /// Returns the type of the GPUs of each node at the start; empty if the type is not known.
    pub fn node_types(&self) -> Vec<&str> {
        let kinds = self.kinds();
        kinds
            .flat_map(|(nodes, _, gpu_type)| std::iter::repeat_n(gpu_type, nodes))
            .collect()
    }

    /// Returns numbers of equal nodes in order, with the number and the type of the GPUs of each.
    pub(super) fn kinds(&self) -> impl Iterator<Item = (usize, u32, &str)> {
        let kinds = self.manifest["cluster"].as_array().into_iter().flatten();
        kinds.map(|kind| {
            let of = |key: &str| kind[key].as_u64().unwrap_or(0);
            let gpu_type = kind["gpu_type"].as_str().unwrap_or("");
            (of("nodes") as usize, of("gpus") as u32, gpu_type)
        })
    }

    /// Returns a short description of the workload.
    pub fn workload(&self) -> &str {
        self.manifest["workload"].as_str().unwrap_or("")
    }

    /// Returns the description of the workload with the names of files instead of their paths.
    pub(super) fn workload_shown(&self) -> String {
        let inputs = self.manifest["inputs"].as_array().into_iter().flatten();
        let paths = inputs.filter_map(|input| input["path"].as_str());
        paths.fold(self.workload().to_owned(), |text, path| {
            match Path::new(path).file_name() {
                Some(name) => text.replace(path, &name.to_string_lossy()),
                None => text,
            }
        })
    }
}
