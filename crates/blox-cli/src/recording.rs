//! Writes assignments of GPUs over time into a file.

use super::failure::Failure;
use super::files::part_of;
use blox_sim::results::{AssignmentWriter, CsvTable, SharedSink};
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The file `assignments.csv` while a simulation writes it.
pub(super) struct Assignments {
    path: PathBuf,
    writer: Arc<Mutex<AssignmentWriter<CsvTable<BufWriter<File>>>>>,
}

impl Assignments {
    /// Creates the file in the folder of a run.
    pub fn create(dir: &Path) -> Result<Self, Failure> {
        let path = dir.join("assignments.csv");
        let cannot = |e| Failure::unwritable(&path, e);
        std::fs::create_dir_all(dir).map_err(cannot)?;
        let file = File::create(part_of(&path)).map_err(cannot)?;
        let writer = AssignmentWriter::new(CsvTable::new(BufWriter::new(file)));
        Ok(Assignments {
            path,
            writer: Arc::new(Mutex::new(writer)),
        })
    }

    pub fn sink(&self) -> SharedSink {
        self.writer.clone()
    }

    /// Removes the file of a run that was interrupted.
    pub fn discard(self) {
        // A remaining file is overwritten by the next start.
        let _ = std::fs::remove_file(part_of(&self.path));
    }

    /// Completes the file.
    pub fn close(self) -> Result<(), Failure> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let finished = writer.finish();
        finished.map_err(|e| Failure::unwritable(&self.path, e))?;
        let renamed = std::fs::rename(part_of(&self.path), &self.path);
        renamed.map_err(|e| Failure::unwritable(&self.path, e))
    }
}
