//! Records of a run that are written while it is simulated.

use super::failure::Failure;
use super::files::part_of;
use super::output::{CHROME, Several, table_files};
use crate::args::Output;
use blox_core::ClusterSpec;
use blox_results::chrome::Chrome;
use blox_results::{AssignmentWriter, WriteError};
use blox_sim::results::{
    AssignmentRow, AssignmentSink, SharedSink, SharedWaitSink, WaitSink, WaitSpan,
};
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The table `assignments` and the trace for Chrome while a simulation writes them.
pub(super) struct Recording {
    paths: Vec<PathBuf>,
    writers: Arc<Mutex<Writers>>,
    waits: bool,
}

struct Writers {
    assignments: Option<Table>,
    chrome: Option<Chrome<BufWriter<File>>>,
}

/// The table `assignments`. It has columns of shares and configs from the first row with one on.
struct Table {
    paths: Vec<PathBuf>,
    writer: AssignmentWriter<Several>,
    is_plain: bool,
    /// Why the columns could not be added.
    failed: Option<WriteError>,
}

impl Table {
    fn create(paths: Vec<PathBuf>) -> Result<Self, Failure> {
        let create =
            |path: &PathBuf| File::create(part_of(path)).map_err(|e| Failure::unwritable(path, e));
        let files: Vec<File> = paths.iter().map(create).collect::<Result<_, _>>()?;
        Ok(Table {
            writer: AssignmentWriter::new(Several::of(paths.iter().cloned().zip(files))),
            paths,
            is_plain: true,
            failed: None,
        })
    }

    fn take(&mut self, row: AssignmentRow) {
        if self.is_plain && !row.is_plain() {
            self.is_plain = false;
            self.failed = self.add_columns().err();
        }
        if self.failed.is_none() {
            self.writer.take(row);
        }
    }

    /// Begins the files again, with all columns.
    fn add_columns(&mut self) -> Result<(), WriteError> {
        self.writer.finish()?;
        let mut rows = None;
        let mut files = Vec::new();
        for path in &self.paths {
            let part = part_of(path);
            // The first one is CSV.
            if rows.is_none() {
                rows = Some(File::open(&part)?);
            }
            std::fs::remove_file(&part)?;
            files.push((path.clone(), File::create(part)?));
        }
        if let Some(rows) = rows {
            self.writer = AssignmentWriter::with_shares(Several::of(files), rows)?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), WriteError> {
        match self.failed.take() {
            Some(error) => Err(error),
            None => self.writer.finish(),
        }
    }
}

impl AssignmentSink for Writers {
    fn take(&mut self, row: AssignmentRow) {
        if let Some(chrome) = &mut self.chrome {
            chrome.ran(&row);
        }
        if let Some(table) = &mut self.assignments {
            table.take(row);
        }
    }
}

impl WaitSink for Writers {
    fn take(&mut self, span: WaitSpan) {
        if let Some(chrome) = &mut self.chrome {
            chrome.waited(&span);
        }
    }
}

impl Recording {
    /// Creates the files in the folder of a run; `None` if no record is requested.
    pub fn create(dir: &Path, o: &Output, cluster: &ClusterSpec) -> Result<Option<Self>, Failure> {
        let formats = o.formats();
        let table = (o.assignments || o.plots).then(|| table_files(dir, "assignments", formats));
        let chrome = formats.chrome.then(|| dir.join(CHROME));
        if table.is_none() && chrome.is_none() {
            return Ok(None);
        }
        std::fs::create_dir_all(dir).map_err(|e| Failure::unwritable(dir, e))?;
        let create =
            |path: &PathBuf| File::create(part_of(path)).map_err(|e| Failure::unwritable(path, e));
        let mut paths = table.clone().unwrap_or_default();
        let assignments = table.map(Table::create).transpose()?;
        let mut trace = None;
        if let Some(path) = chrome {
            trace = Some(Chrome::new(BufWriter::new(create(&path)?), cluster));
            paths.push(path);
        }
        let writers = Writers {
            assignments,
            chrome: trace,
        };
        Ok(Some(Recording {
            paths,
            waits: writers.chrome.is_some(),
            writers: Arc::new(Mutex::new(writers)),
        }))
    }

    pub fn assignments(&self) -> SharedSink {
        self.writers.clone()
    }

    pub fn waits(&self) -> Option<SharedWaitSink> {
        self.waits.then(|| self.writers.clone() as SharedWaitSink)
    }

    /// Returns the number of slices that the trace for Chrome leaves out.
    pub fn left_out(&self) -> u64 {
        let writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        writers.chrome.as_ref().map_or(0, Chrome::left_out)
    }

    /// Removes the files of a run that was interrupted.
    pub fn discard(self) {
        for path in &self.paths {
            // A remaining file is overwritten by the next start.
            let _ = std::fs::remove_file(part_of(path));
        }
    }

    /// Completes the files.
    pub fn close(self) -> Result<(), Failure> {
        let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = |path: Option<&PathBuf>| path.cloned().unwrap_or_default();
        if let Some(table) = &mut writers.assignments {
            let finished = table.finish();
            finished.map_err(|e| Failure::unwritable(&shown(self.paths.first()), e))?;
        }
        if let Some(chrome) = &mut writers.chrome {
            let finished = chrome.finish();
            finished.map_err(|e| Failure::unwritable(&shown(self.paths.last()), e))?;
        }
        for path in &self.paths {
            let renamed = std::fs::rename(part_of(path), path);
            renamed.map_err(|e| Failure::unwritable(path, e))?;
        }
        Ok(())
    }
}
