use crate::source::Source;
use crate::table::Table;
use blox_sim::workload::WorkloadError;
use std::path::Path;

/// Reads attained services of past jobs in GPU-seconds, see the [module](super).
///
/// # Errors
/// If the file cannot be read, has no column `duration` or no row, or has a value that is not a
/// whole number of at least 1.
pub fn read_samples(path: impl AsRef<Path>) -> Result<Vec<u32>, WorkloadError> {
    read_source(&Source::at(path.as_ref())?)
}

fn read_source(source: &Source) -> Result<Vec<u32>, WorkloadError> {
    let mut table = Table::open(source)?;
    let [duration] = table.require(["duration"])?;
    let mut samples = Vec::new();
    while table.advance()? {
        samples.push(table.count(duration)?);
    }
    if samples.is_empty() {
        let what = "found no row, expected one a past job";
        return Err(WorkloadError::line(table.path(), table.line(), what));
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_a_column() {
        let read = |text: &str| {
            Source::of("s.csv", text.as_bytes())
                .and_then(|source| read_source(&source))
                .map_err(|e| e.to_string())
        };
        assert_eq!(read("duration\n500\n20\n"), Ok(vec![500, 20]));
        assert_eq!(
            read("duration\n"),
            Err("s.csv: line 1: found no row, expected one a past job".to_owned())
        );
    }
}
