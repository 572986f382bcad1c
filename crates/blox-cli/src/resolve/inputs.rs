//! Files on which results depend.

use super::super::config::Given;
use super::super::reading::file_of;
use crate::failure::Failure;
use blox_core::ClusterSpec;
use blox_registry::ComponentSpec;
use blox_traces::scaling::ScalingTable;
use blox_traces::{Trace, fingerprint};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A file on which the results depend, with its hash.
pub(crate) struct Input {
    pub path: PathBuf,
    pub sha256: String,
}

/// Options that identify a trace and how it is read.
pub(super) const OF_TRACE: [&str; 4] = ["trace", "format", "map", "throughputs"];
/// Options that identify the jobs of a trace, together with [`OF_TRACE`].
pub(super) const OF_JOBS: [&str; 2] = ["virtual-cluster", "jobs"];

/// Cache of facts about files, shared by the experiments of a sweep.
#[derive(Default)]
pub(crate) struct Known {
    pub(super) hashes: BTreeMap<PathBuf, String>,
    /// Opened traces, by the values of [`OF_TRACE`].
    pub(super) traces: BTreeMap<String, Trace>,
    /// Ids of a trace's jobs, if all are whole numbers, by the values of [`OF_TRACE`] and
    /// [`OF_JOBS`].
    pub(super) ids: BTreeMap<String, Option<Vec<u64>>>,
}

/// Returns true if the path is one JSON file with throughputs, false for a folder of tables.
pub(super) fn is_oracle(path: &Path) -> bool {
    let name = path.to_string_lossy();
    path.is_file() || name.ends_with(".json") || name.ends_with(".json.gz")
}

/// Returns the files on which the results depend, except the trace and its second file.
pub(super) fn other_files<'a>(
    given: &Given,
    cluster_text: &str,
    parts: impl Iterator<Item = &'a ComponentSpec>,
) -> Result<Vec<PathBuf>, Failure> {
    let mut paths: Vec<PathBuf> = Vec::new();
    paths.extend(given.file().map(Path::to_owned));
    match &given.options.throughputs {
        Some(file) if is_oracle(file) => paths.push(file.clone()),
        Some(dir) => paths.extend(ScalingTable::files(dir)?),
        None => {}
    }
    if let Some(dir) = &given.options.data {
        paths.extend(blox_traces::applications::files(dir)?);
    }
    paths.extend(given.options.prices.clone());
    if cluster_text.parse::<ClusterSpec>().is_err() {
        paths.push(PathBuf::from(cluster_text));
    }
    // Policies know which parameters name files: models, histories, forecasts. Here any existing
    // file counts.
    for ComponentSpec { params, .. } in parts {
        let values = params.names().map(|name| params.text(name));
        let named = values.map(|text| file_of(text).unwrap_or(text));
        for path in named.map(PathBuf::from).filter(|path| path.is_file()) {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
    }
    Ok(paths)
}

/// Returns files with their hashes.
pub(super) fn hashed(files: &[PathBuf], known: &mut Known) -> Result<Vec<Input>, Failure> {
    files
        .iter()
        .map(|path| {
            let sha256 = match known.hashes.get(path) {
                Some(hash) => hash.clone(),
                None => fingerprint(path)?,
            };
            known.hashes.insert(path.clone(), sha256.clone());
            let path = path.clone();
            Ok(Input { path, sha256 })
        })
        .collect()
}
