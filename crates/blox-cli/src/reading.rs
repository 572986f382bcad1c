//! How a workload file is to be read, from what was said.

use super::Failure;
use blox_traces::{ColumnMap, Format, ReadOptions};

/// `name` is a key as the user wrote it, for messages.
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
    let of = |key: &str, e: &dyn std::fmt::Display| Failure::new(format!("{}: {e}", name(key)));
    Ok(ReadOptions {
        format: format
            .map(str::parse::<Format>)
            .transpose()
            .map_err(|e| of("format", &e))?,
        columns: map
            .map(str::parse::<ColumnMap>)
            .transpose()
            .map_err(|e| of("map", &e))?,
    })
}
