//! Read options of workload files, and files named in other options.

use super::Failure;
use super::failure::Coded;
use blox_core::ClusterSpec;
use blox_traces::cluster_file::{ClusterFileError, read_cluster};
use blox_traces::{ColumnMap, Format, ReadOptions};
use std::path::Path;

/// Creates read options. `name` returns a key as the user wrote it, for messages.
pub(super) fn read_options(
    format: Option<&str>,
    map: Option<&str>,
    name: impl Fn(&str) -> String,
) -> Result<ReadOptions, Failure> {
    if format.is_some() && map.is_some() {
        return Err(Failure::new(format!(
            "{} and {} are both given, expected one of them",
            name("format"),
            name("map")
        )));
    }
    Ok(ReadOptions {
        format: format
            .map(str::parse::<Format>)
            .transpose()
            .map_err(|e| Failure::of(e.code(), format!("{}: {e}", name("format"))))?,
        columns: map
            .map(str::parse::<ColumnMap>)
            .transpose()
            .map_err(|e| Failure::of(e.code(), format!("{}: {e}", name("map"))))?,
    })
}

/// Reads the cluster of an option. `name` is the option as the user wrote it.
pub(super) fn cluster(text: &str, name: &str) -> Result<ClusterSpec, Failure> {
    read_cluster(text).map_err(|e| match e {
        ClusterFileError::Shorthand(_) | ClusterFileError::Spec(_) => {
            Failure::of(e.code(), format!("{name}: {e}"))
        }
        e => Failure::new(e),
    })
}

/// Returns the file from which a duration distribution is read, if any.
pub(super) fn file_of(law: &str) -> Option<&Path> {
    match law.split_once(':') {
        Some(("file" | "trace", path)) => Some(Path::new(path)),
        _ => None,
    }
}

/// Resolves the file of a duration distribution relative to a folder; `None` if it has no file.
pub(super) fn based(law: &str, base: &Path) -> Option<String> {
    let path = file_of(law)?;
    let (name, _) = law.split_once(':')?;
    Some(format!("{name}:{}", base.join(path).display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_meant_from_the_folder_of_the_configuration() {
        let base = Path::new("conf");
        assert_eq!(
            based("file:d.txt", base).as_deref(),
            Some("file:conf/d.txt")
        );
        assert_eq!(
            based("trace:/a/b.csv", base).as_deref(),
            Some("trace:/a/b.csv")
        );
        assert_eq!(based("fixed:3", base), None);
    }
}
