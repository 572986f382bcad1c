//! Records of a run that are written while it is simulated.

use super::args::Options;
use super::chrome::Chrome;
use super::failure::Failure;
use super::files::part_of;
use super::output::{CHROME, Several, table_files};
use blox_core::ClusterSpec;
use blox_sim::results::{
    AssignmentRow, AssignmentSink, AssignmentWriter, SharedSink, SharedWaitSink, WaitSink, WaitSpan,
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
    assignments: Option<AssignmentWriter<Several>>,
    chrome: Option<Chrome<BufWriter<File>>>,
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
    pub fn create(dir: &Path, o: &Options, cluster: &ClusterSpec) -> Result<Option<Self>, Failure> {
        let formats = o.formats();
        let table = (o.assignments || o.plots).then(|| table_files(dir, "assignments", formats));
        let chrome = formats.chrome.then(|| dir.join(CHROME));
        if table.is_none() && chrome.is_none() {
            return Ok(None);
        }
        std::fs::create_dir_all(dir).map_err(|e| Failure::unwritable(dir, e))?;
        let create =
            |path: &PathBuf| File::create(part_of(path)).map_err(|e| Failure::unwritable(path, e));
        let mut paths = Vec::new();
        let mut files = Vec::new();
        for path in table.iter().flatten() {
            files.push((path.clone(), create(path)?));
            paths.push(path.clone());
        }
        let mut trace = None;
        if let Some(path) = chrome {
            trace = Some(Chrome::new(BufWriter::new(create(&path)?), cluster));
            paths.push(path);
        }
        let writers = Writers {
            assignments: table.map(|_| AssignmentWriter::new(Several::of(files))),
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
