//! Small files that are there whole or not at all, as JSON.

use serde::{Serialize, de::DeserializeOwned};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Writes a value beside the file and moves it there; `durable` waits for the disk.
///
/// # Errors
/// The operating system refused.
pub fn write<T: Serialize>(path: &Path, value: &T, durable: bool) -> io::Result<()> {
    let tmp = path.with_extension("tmp");
    let mut file = File::create(&tmp)?;
    file.write_all(&serde_json::to_vec(value)?)?;
    if durable {
        file.sync_all()?;
    }
    fs::rename(&tmp, path)?;
    if durable && let Some(dir) = path.parent() {
        File::open(dir)?.sync_all()?;
    }
    Ok(())
}

/// Reads a value; `None` if the file is not there.
///
/// # Errors
/// It cannot be read, or is not such a value.
pub fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Reads a value that nobody waited to have on the disk: after a power cut there may be anything,
/// which counts as nothing.
pub fn said<T: DeserializeOwned>(path: &Path) -> Option<T> {
    read(path).ok().flatten()
}
