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

/// Reads a value; `None` if the file is not there. What is no such value is an error that names
/// the file.
///
/// # Errors
/// It cannot be read, or is not such a value.
pub fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|e| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{}: {e}", path.display()),
            )
        }),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Reads a value that nobody waited to have on the disk: after a power cut there may be anything,
/// which counts as nothing.
pub fn said<T: DeserializeOwned>(path: &Path) -> Option<T> {
    read(path).ok().flatten()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_file_that_is_no_such_value_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("node.json");
        std::fs::write(&path, "").unwrap();
        let said = super::read::<String>(&path).unwrap_err().to_string();
        assert!(said.starts_with(&format!("{}: ", path.display())), "{said}");
    }
}
