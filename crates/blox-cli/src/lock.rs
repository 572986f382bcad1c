//! Locks an output folder against other processes.

use super::failure::Failure;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

/// Name of the file that a process keeps locked while it writes into a folder. An unlocked file has
/// no meaning.
pub(super) const LOCK: &str = "blox.lock";

/// Exclusive lock of an output folder, on systems with file locks.
pub(super) struct Lock {
    path: PathBuf,
    /// Unlocked when the process ends for any reason.
    _file: File,
}

impl Lock {
    /// Creates the folder if it does not exist, and locks it. Fails if the folder cannot be
    /// written, or if another process writes into it.
    pub fn take(dir: &Path) -> Result<Self, Failure> {
        let path = dir.join(LOCK);
        let file = std::fs::create_dir_all(dir).and_then(|()| File::create(&path));
        let file = file.map_err(|e| {
            let e = match dir.is_file() {
                true => "it is a file".to_owned(),
                false => e.to_string(),
            };
            Failure::at(dir, format!("the output folder cannot be written: {e}"))
        })?;
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            let text = "another process writes here, expected another --output-dir, or to wait for its end";
            return Err(Failure::at(dir, text));
        }
        Ok(Lock { path, _file: file })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A file that stays behind is unlocked and has no meaning.
        let _ = std::fs::remove_file(&self.path);
    }
}
