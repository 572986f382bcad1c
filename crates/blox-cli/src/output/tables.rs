//! Tables of a result folder: CSV, and Parquet on request.

use super::super::files::write_whole;
use super::super::value::FileFormats;
use crate::failure::Failure;
#[cfg(feature = "parquet")]
use blox_parquet::ParquetTable;
use blox_results::{CsvTable, TableSink, WriteError};
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// Returns the files of a table.
pub(crate) fn table_files(dir: &Path, name: &str, formats: FileFormats) -> Vec<PathBuf> {
    let endings = ["csv"]
        .into_iter()
        .chain(formats.parquet.then_some("parquet"));
    endings
        .map(|ending| dir.join(format!("{name}.{ending}")))
        .collect()
}

/// Writes a table in each format.
pub(crate) fn write_table(
    dir: &Path,
    name: &str,
    formats: FileFormats,
    fill: impl Fn(&mut dyn TableSink) -> Result<(), WriteError>,
) -> Result<(), Failure> {
    for path in table_files(dir, name, formats) {
        write_whole(&path, |out| fill(&mut *sink(&path, out)))?;
    }
    Ok(())
}

/// Returns a table in the format of the file's ending.
pub(crate) fn sink<'a, W: std::io::Write + Send + 'a>(
    path: &Path,
    out: W,
) -> Box<dyn TableSink + Send + 'a> {
    match path.extension().and_then(|ending| ending.to_str()) {
        #[cfg(feature = "parquet")]
        Some("parquet") => Box::new(ParquetTable::new(out)),
        _ => Box::new(CsvTable::new(out)),
    }
}

/// One table in several files.
pub(crate) struct Several(pub Vec<Box<dyn TableSink + Send>>);

impl Several {
    /// Begins a table in files that exist.
    pub fn of(files: impl IntoIterator<Item = (PathBuf, File)>) -> Self {
        let files = files.into_iter();
        Several(
            files
                .map(|(path, file)| sink(&path, BufWriter::new(file)))
                .collect(),
        )
    }
}

impl TableSink for Several {
    fn begin(&mut self, columns: &[&str]) {
        self.0.iter_mut().for_each(|sink| sink.begin(columns));
    }
    fn text(&mut self, value: Option<&str>) {
        self.0.iter_mut().for_each(|sink| sink.text(value));
    }
    fn whole(&mut self, value: u64) {
        self.0.iter_mut().for_each(|sink| sink.whole(value));
    }
    fn number(&mut self, value: Option<f64>) {
        self.0.iter_mut().for_each(|sink| sink.number(value));
    }
    fn end_row(&mut self) -> Result<(), WriteError> {
        self.0.iter_mut().try_for_each(|sink| sink.end_row())
    }
    fn finish(&mut self) -> Result<(), WriteError> {
        self.0.iter_mut().try_for_each(|sink| sink.finish())
    }
}
