//! Keeps other processes out of an output folder.

use super::failure::{Code, Failure};
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

/// The file that a process which writes into a folder holds locked. Without a
/// process it means nothing.
pub(super) const LOCK: &str = "blox.lock";

/// Where files can be locked, nobody else writes into the folder while this lives.
pub(super) struct Lock {
    path: PathBuf,
    /// Let go when the process ends, however it does.
    _file: File,
}

impl Lock {
    /// Makes the folder if it is not there. The error says that it cannot be written, or that
    /// another process does.
    pub fn take(dir: &Path) -> Result<Self, Failure> {
        let path = dir.join(LOCK);
        let file = std::fs::create_dir_all(dir).and_then(|()| File::create(&path));
        let file = file.map_err(|e| {
            let e = match dir.is_file() {
                true => "it is a file".to_owned(),
                false => e.to_string(),
            };
            Failure::of(
                Code::Output,
                format!(
                    "{}: the output folder cannot be written: {e}",
                    dir.display()
                ),
            )
        })?;
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return Err(Failure::of(
                Code::Output,
                format!(
                    "{}: another process writes here, expected another --output-dir, or to wait for its end",
                    dir.display()
                ),
            ));
        }
        Ok(Lock { path, _file: file })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Whatever stays behind is locked by nobody, and means nothing.
        let _ = std::fs::remove_file(&self.path);
    }
}
