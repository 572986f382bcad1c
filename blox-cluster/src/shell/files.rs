//! Small JSON files that are replaced atomically, and files that jobs write.

use crate::private;
use rustix::fs::OFlags;
use rustix::io::Errno;
use serde::{Serialize, de::DeserializeOwned};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Error of a file that a job can write. The message names the file and the reason.
#[derive(Debug, Error)]
#[error("{} {what}", path.display())]
pub struct BadFile {
    path: PathBuf,
    what: String,
}

impl BadFile {
    /// Creates an error of a file, such as `has 9 bytes, expected at most 8`.
    pub fn new(path: &Path, what: impl Into<String>) -> Self {
        BadFile {
            path: path.to_owned(),
            what: what.into(),
        }
    }
}

/// Error of reading a file that a job can write.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The job caused the error through the file.
    #[error(transparent)]
    Bad(#[from] BadFile),
    /// The machine caused the error, for example its disk or too many open files.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Returns true if the job caused an error of the operating system.
fn is_of_the_file(e: &io::Error) -> bool {
    let of_the_file = [
        Errno::ISDIR,
        Errno::NOTDIR,
        Errno::ACCESS,
        Errno::PERM,
        Errno::LOOP,
        Errno::NXIO,
        Errno::NODEV,
        Errno::NOTEMPTY,
        Errno::EXIST,
        Errno::AGAIN,
    ];
    Errno::from_io_error(e).is_some_and(|e| of_the_file.contains(&e))
}

/// Classifies an error of reading a file that a job can write.
pub fn unreadable(path: &Path, source: io::Error) -> ReadError {
    match is_of_the_file(&source) {
        true => ReadError::Bad(BadFile::new(path, format!("cannot be read: {source}"))),
        false => ReadError::Io(named(path, &source)),
    }
}

fn named(path: &Path, e: &io::Error) -> io::Error {
    io::Error::new(e.kind(), format!("{}: {e}", path.display()))
}

/// Opens a file without blocking, even if it is a pipe without a writer.
pub fn open(path: &Path) -> io::Result<File> {
    // A link could lead to a file that the job may not read.
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits();
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags as i32).open(path)
}

/// Opens a file that a job can write, and returns its length; `None` if it does not exist.
///
/// # Errors
/// It is not a regular file, has more than `most` bytes, or cannot be opened.
pub fn open_regular(path: &Path, most: u64) -> Result<Option<(File, u64)>, ReadError> {
    let file = match open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(unreadable(path, e)),
    };
    let meta = file.metadata().map_err(|e| unreadable(path, e))?;
    if !meta.is_file() {
        let found = match meta.is_dir() {
            true => "a folder",
            false => "a pipe or a device",
        };
        let what = format!("is {found}, expected a regular file");
        return Err(BadFile::new(path, what).into());
    }
    let bytes = meta.len();
    if bytes > most {
        let what = format!("has {bytes} bytes, expected at most {most}");
        return Err(BadFile::new(path, what).into());
    }
    Ok(Some((file, bytes)))
}

/// Largest status or result of a launch in bytes.
pub const LARGEST_STATUS: u64 = 64 << 10;
/// Largest description of a launch in bytes.
pub const LARGEST_LAUNCH: u64 = 16 << 20;

/// Reads a JSON value of at most `most` bytes from a file that a job can write; `None` if it does
/// not exist.
///
/// # Errors
/// The file is invalid ([`ReadError::Bad`]), or the operating system failed.
pub fn read_checked<T: DeserializeOwned>(path: &Path, most: u64) -> Result<Option<T>, ReadError> {
    let Some((file, _)) = open_regular(path, most)? else {
        return Ok(None);
    };
    let mut bytes = Vec::new();
    file.take(most)
        .read_to_end(&mut bytes)
        .map_err(|e| unreadable(path, e))?;
    let parsed = serde_json::from_slice(&bytes).map(Some);
    parsed.map_err(|e| BadFile::new(path, format!("cannot be parsed: {e}")).into())
}

/// Writes a value to a temporary file and renames it. If `durable` is set, both are synchronized to
/// disk.
///
/// # Errors
/// The operating system failed.
pub fn write<T: Serialize>(path: &Path, value: &T, durable: bool) -> io::Result<()> {
    let tmp = path.with_extension("tmp");
    // A job may have put a link there.
    let mut options = private::options();
    options.write(true).create(true).truncate(true);
    options.custom_flags(OFlags::NOFOLLOW.bits() as i32);
    let mut file = options.open(&tmp)?;
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

/// Writes a value in the folder of a launch, and replaces anything that a job put there.
///
/// # Errors
/// The file cannot be replaced ([`ReadError::Bad`]), or the operating system failed.
pub fn replace<T: Serialize>(path: &Path, value: &T, durable: bool) -> Result<(), ReadError> {
    for path in [path.to_owned(), path.with_extension("tmp")] {
        let meta = fs::symlink_metadata(&path);
        if meta.is_ok_and(|m| !m.is_file()) {
            // If this fails, the next step returns an error.
            let _ = remove(&path);
        }
    }
    write(path, value, durable).map_err(|source| {
        let gone = source.kind() == io::ErrorKind::NotFound;
        match gone || is_of_the_file(&source) {
            true => ReadError::Bad(BadFile::new(path, format!("cannot be written: {source}"))),
            false => ReadError::Io(named(path, &source)),
        }
    })
}

/// Removes a file, or a folder with its contents.
///
/// # Errors
/// The operating system failed.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path)?.is_dir() {
        true => {
            remove_folders(path)?;
            fs::remove_dir_all(path)
        }
        false => fs::remove_file(path),
    }
}

/// Beginning of the names of files and folders that are being removed.
pub const REMOVED: &str = ".removed-";

/// Moves a file or folder into `dir`, under a free name for what is being removed, and returns the
/// new path. `next` is the number of the first name that is tried, and then the one after the name.
///
/// # Errors
/// The operating system failed.
pub fn set_aside(path: &Path, dir: &Path, next: &mut u64) -> io::Result<PathBuf> {
    let aside = loop {
        let aside = dir.join(format!("{REMOVED}{next}"));
        *next += 1;
        if aside.symlink_metadata().is_err() {
            break aside;
        }
    };
    fs::rename(path, &aside)?;
    Ok(aside)
}

/// Most passes over a folder from which files are removed. A process may fill it meanwhile.
const PASSES: u32 = 1_000;

/// Removes the folders in a folder that only this account may change, however deep they are.
///
/// Each folder is first moved to the top, where no job can replace it by a link. A job can nest
/// folders deeper than the longest path, and deeper than a process can have open files.
///
/// # Errors
/// The operating system failed.
pub fn remove_folders(top: &Path) -> io::Result<()> {
    let mut next = 0;
    let mut waiting = vec![];
    for entry in fs::read_dir(top)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            waiting.push(entry.path());
        }
    }
    while let Some(folder) = waiting.pop() {
        // Its owner may have taken the rights from it.
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))?;
        // Entries may be skipped while others are removed.
        for _ in 0..PASSES {
            for entry in fs::read_dir(&folder)? {
                let path = entry?.path();
                if !path.symlink_metadata()?.is_dir() {
                    fs::remove_file(&path)?;
                    continue;
                }
                let lifted = set_aside(&path, top, &mut next)?;
                match lifted.symlink_metadata()?.is_dir() {
                    true => waiting.push(lifted),
                    // A link has replaced it in between.
                    false => fs::remove_file(&lifted)?,
                }
            }
            if fs::read_dir(&folder)?.next().is_none() {
                break;
            }
        }
        fs::remove_dir(&folder)?;
    }
    Ok(())
}

/// Reads a value; `None` if the file does not exist. The error for invalid content names the file.
///
/// # Errors
/// The file cannot be read, or its content is invalid.
pub fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    let mut bytes = Vec::new();
    match open(path).and_then(|mut file| file.read_to_end(&mut bytes)) {
        Ok(_) => serde_json::from_slice(&bytes).map(Some).map_err(|e| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{}: {e}", path.display()),
            )
        }),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Reads a value that was written without synchronization. After a power cut the file may have any
/// content; invalid content counts as no value.
pub fn read_unsynced<T: DeserializeOwned>(path: &Path) -> Option<T> {
    read_checked(path, LARGEST_LAUNCH).ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_deeper_than_a_path_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let outside = dir.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("kept"), "kept").unwrap();
        // Four pieces of a thousand folders each, one in the other.
        let mut inner = dir.path().join("inner");
        fs::create_dir(&inner).unwrap();
        std::os::unix::fs::symlink(&outside, inner.join("link")).unwrap();
        for piece in 0..4 {
            let next = dir.path().join(format!("piece {piece}"));
            let deepest = next.join("a/".repeat(1_000));
            fs::create_dir_all(&deepest).unwrap();
            fs::rename(&inner, deepest.join("inner")).unwrap();
            inner = next;
        }
        let top = dir.path().join("top");
        fs::create_dir_all(top.join("b/c")).unwrap();
        fs::write(top.join("b/c/file"), "1").unwrap();
        fs::write(top.join("log"), "line").unwrap();
        fs::set_permissions(top.join("b"), fs::Permissions::from_mode(0o500)).unwrap();
        fs::rename(&inner, top.join("job")).unwrap();
        remove_folders(&top).unwrap();
        let left = fs::read_dir(&top).unwrap();
        let left: Vec<_> = left.map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["log"]);
        remove(&top).unwrap();
        assert!(!top.exists());
        assert!(outside.join("kept").exists());
    }

    #[test]
    fn a_file_that_is_no_such_value_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("node.json");
        std::fs::write(&path, "").unwrap();
        let message = super::read::<String>(&path).unwrap_err().to_string();
        assert!(
            message.starts_with(&format!("{}: ", path.display())),
            "{message}"
        );
    }

    #[test]
    fn replace_over_a_folder_writes_the_value() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("final.json");
        for blocked in [path.clone(), path.with_extension("tmp")] {
            fs::create_dir_all(blocked.join("within")).unwrap();
        }
        assert!(write(&path, &7, false).is_err());
        replace(&path, &7, false).unwrap();
        assert_eq!(read::<u32>(&path).unwrap(), Some(7));
    }

    #[test]
    fn replace_in_a_missing_folder_blames_the_job() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gone").join("control.json");
        let message = match replace(&path, &7, false) {
            Err(ReadError::Bad(bad)) => bad.to_string(),
            other => panic!("{other:?}"),
        };
        let begin = format!("{} cannot be written: ", path.display());
        assert!(message.starts_with(&begin), "{message}");
    }

    #[test]
    fn read_checked_rubbish_blames_the_job() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("final.json");
        let message = || match read_checked::<u32>(&path, 64) {
            Err(ReadError::Bad(bad)) => bad.to_string(),
            other => panic!("{other:?}"),
        };
        fs::write(&path, b"\xff\x00 rubbish").unwrap();
        let begin = format!("{} cannot be parsed: ", path.display());
        assert!(message().starts_with(&begin), "{}", message());
        fs::write(&path, [b' '; 65]).unwrap();
        let expected = format!("{} has 65 bytes, expected at most 64", path.display());
        assert_eq!(message(), expected);
        fs::write(&path, b"7").unwrap();
        assert_eq!(read_checked::<u32>(&path, 64).unwrap(), Some(7));
    }
}
