//! The files that results depend on.

use super::super::Failure;
use super::super::config::Given;
use super::super::generated;
use super::jobs::Source;
use blox_core::ClusterSpec;
use blox_core::registry::Named;
use blox_traces::scaling::ScalingTable;
use blox_traces::{Trace, fingerprint};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A file that the results depend on.
pub(crate) struct Input {
    pub path: PathBuf,
    pub sha256: String,
}

/// What says how a trace is read.
pub(super) type TraceKey = (PathBuf, Option<String>, Option<String>, Option<PathBuf>);

/// What says which jobs of a trace there are: also the virtual cluster, and how many at most.
pub(super) type JobsKey = (TraceKey, Option<String>, Option<u64>);

/// What was found out about files, so that the experiments of a sweep need not
/// find it out again.
#[derive(Default)]
pub(crate) struct Known {
    pub(super) hashes: BTreeMap<PathBuf, String>,
    /// By path, format, map and throughputs.
    pub(super) traces: BTreeMap<TraceKey, Trace>,
    /// The ids of a trace's jobs, if they are whole numbers.
    pub(super) ids: BTreeMap<JobsKey, Option<Vec<u64>>>,
}

/// Returns whether throughputs are those of one JSON file, and not tables in a folder.
pub(super) fn is_oracle(path: &Path) -> bool {
    let name = path.to_string_lossy();
    path.is_file() || name.ends_with(".json") || name.ends_with(".json.gz")
}

/// The files that the results depend on, but for the trace and what lies beside it.
pub(super) fn other_files<'a>(
    given: &Given,
    source: &Source,
    cluster_text: &str,
    parts: impl Iterator<Item = &'a Named>,
) -> Result<Vec<PathBuf>, Failure> {
    let mut paths: Vec<PathBuf> = Vec::new();
    paths.extend(given.file().map(Path::to_owned));
    if let Source::Generated(..) = source {
        paths.extend(generated::files(given));
    }
    match &given.options.throughputs {
        Some(file) if is_oracle(file) => paths.push(file.clone()),
        Some(dir) => paths.extend(ScalingTable::files(dir).map_err(Failure::new)?),
        None => {}
    }
    if let Some(dir) = &given.options.data {
        paths.extend(blox_traces::applications::files(dir).map_err(Failure::new)?);
    }
    if cluster_text.parse::<ClusterSpec>().is_err() {
        paths.push(PathBuf::from(cluster_text));
    }
    // Which parameters name files, their policies know: models, histories, forecasts.
    for Named { params, .. } in parts {
        let values = params.names().map(|name| params.text(name, ""));
        for path in values.map(PathBuf::from).filter(|path| path.is_file()) {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
    }
    Ok(paths)
}

/// Files with their hashes.
pub(super) fn hashed(files: &[PathBuf], known: &mut Known) -> Result<Vec<Input>, Failure> {
    files
        .iter()
        .map(|path| {
            let sha256 = match known.hashes.get(path) {
                Some(hash) => hash.clone(),
                None => fingerprint(path).map_err(Failure::new)?,
            };
            known.hashes.insert(path.clone(), sha256.clone());
            let path = path.clone();
            Ok(Input { path, sha256 })
        })
        .collect()
}
