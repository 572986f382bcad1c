//! Files on which results depend.

use crate::error::ExperimentError;
use crate::settings::Experiment;
use blox_core::ClusterSpec;
use blox_registry::ComponentSpec;
use blox_traces::scaling::ScalingTable;
use blox_traces::{Trace, fingerprint};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A file on which the results depend, with its hash.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Input {
    /// The file.
    pub path: PathBuf,
    /// Its hash in hexadecimal digits.
    pub sha256: String,
}

/// Settings that identify a trace and how it is read.
pub(crate) const OF_TRACE: [&str; 4] = ["trace", "format", "map", "throughputs"];
/// Settings that identify the jobs of a trace, together with [`OF_TRACE`].
pub(crate) const OF_JOBS: [&str; 2] = ["virtual-cluster", "jobs"];

/// Cache of facts about files, shared by the cells of a plan.
#[derive(Default)]
pub(crate) struct Known {
    pub hashes: BTreeMap<PathBuf, String>,
    /// Opened traces, by the values of [`OF_TRACE`].
    pub traces: BTreeMap<String, Trace>,
    /// Ids of a trace's jobs, if all are whole numbers, by the values of [`OF_TRACE`] and
    /// [`OF_JOBS`].
    pub ids: BTreeMap<String, Option<Vec<u64>>>,
}

/// Returns the file from which a duration distribution is read, if any.
pub(crate) fn file_of(law: &str) -> Option<&str> {
    match law.split_once(':') {
        Some(("file" | "trace", path)) => Some(path),
        _ => None,
    }
}

/// Returns true if the path is one JSON file with throughputs, false for a folder of tables.
pub(crate) fn is_oracle(path: &Path) -> bool {
    let name = path.to_string_lossy();
    path.is_file() || name.ends_with(".json") || name.ends_with(".json.gz")
}

/// Returns the files on which the results depend, except the trace and its second file.
pub(crate) fn other_files<'a>(
    of: &Experiment,
    cluster_text: &str,
    parts: impl Iterator<Item = &'a ComponentSpec>,
) -> Result<Vec<PathBuf>, ExperimentError> {
    let mut paths: Vec<PathBuf> = Vec::new();
    paths.extend(of.origin.path().map(Path::to_owned));
    match &of.throughputs {
        Some(file) if is_oracle(file) => paths.push(file.clone()),
        Some(dir) => paths.extend(ScalingTable::files(dir)?),
        None => {}
    }
    if let Some(dir) = &of.data {
        paths.extend(blox_traces::applications::files(dir)?);
    }
    paths.extend(of.prices.clone());
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
pub(crate) fn hashed(files: &[PathBuf], known: &mut Known) -> Result<Vec<Input>, ExperimentError> {
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
