//! Journals, one for each scheduler.

use super::folder::resolved;
use crate::failure::Failure;
use crate::plan::Plan;
use blox_core::input::Input;
use blox_core::journal::{Journal, JsonLines, Start};
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A journal whose errors can still be read after the simulation has dropped it.
#[derive(Clone)]
pub(crate) struct SharedJournal {
    path: PathBuf,
    lines: Arc<Mutex<JsonLines<BufWriter<File>>>>,
}

impl SharedJournal {
    fn create(path: PathBuf) -> Result<Self, Failure> {
        let file = File::create(&path).map_err(|e| Failure::unwritable(&path, e))?;
        Ok(SharedJournal {
            path,
            lines: Arc::new(Mutex::new(JsonLines::new(BufWriter::new(file)))),
        })
    }

    fn lock(&self) -> MutexGuard<'_, JsonLines<BufWriter<File>>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Flushes the journal and returns the first write error.
    pub fn close(&self) -> Result<(), Failure> {
        let flushed = self.lock().flush();
        flushed.map_err(|e| Failure::unwritable(&self.path, e))
    }
}

impl Journal for SharedJournal {
    fn start(&mut self, start: &Start) {
        self.lock().start(start);
    }

    fn record(&mut self, input: &Input) {
        self.lock().record(input);
    }

    fn flush(&mut self) -> io::Result<()> {
        self.lock().flush()
    }
}

/// Returns the path of each scheduler's journal, if journals are written. With several schedulers,
/// the path contains the scheduler's name. An existing file is an error unless `--force` is given.
pub(crate) fn journals(plan: &Plan<'_>) -> Result<Vec<PathBuf>, Failure> {
    let o = &plan.options;
    let Some(path) = &o.journal else {
        return Ok(Vec::new());
    };
    let path_of = |folder: &str| match path.extension() {
        Some(ending) => path.with_extension(format!("{folder}.{}", ending.to_string_lossy())),
        None => path.with_extension(folder),
    };
    let list: Vec<PathBuf> = match plan.folders.as_slice() {
        [_] => vec![path.clone()],
        several => several.iter().map(|folder| path_of(folder)).collect(),
    };
    let files = resolved(plan.files());
    for path in &list {
        if path.canonicalize().is_ok_and(|p| files.contains_key(&p)) {
            let text = "is read, and the journal would replace it, expected another --journal";
            return Err(Failure::at(path, text));
        }
        if path.is_file() && !o.force {
            let text = "is there already, expected a new file for the journal, or --force";
            return Err(Failure::at(path, text));
        }
    }
    Ok(list)
}

/// Opens one journal for each scheduler.
pub(crate) fn open_journals(paths: Vec<PathBuf>) -> Result<Vec<SharedJournal>, Failure> {
    paths.into_iter().map(SharedJournal::create).collect()
}
