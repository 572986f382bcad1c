//! Files of a log: the operating system's, or a model with faults in tests.

use crate::private;
use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The directory of a log. A change of names, such as a new or renamed file, is durable once
/// [`Files::sync_dir`] returns.
///
/// ```
/// use blox_cluster::log::{Files, SystemFiles};
///
/// # let dir = tempfile::tempdir()?;
/// let path = dir.path().join("1.log");
/// let mut file = SystemFiles.create(&path)?;
/// file.append(b"entry")?;
/// file.sync()?;
/// SystemFiles.sync_dir(dir.path())?; // the name is durable, too
/// assert_eq!(SystemFiles.read(&path)?, b"entry");
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait Files: Debug + Send + Sync {
    /// Creates a directory, unless it exists.
    ///
    /// # Errors
    /// The directory cannot be created.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;

    /// Lists the entries of a directory, in any order.
    ///
    /// # Errors
    /// The directory cannot be read.
    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>>;

    /// Reads a whole file.
    ///
    /// # Errors
    /// The file cannot be read.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Creates an empty file, or empties it if it exists.
    ///
    /// # Errors
    /// The file cannot be created.
    fn create(&self, path: &Path) -> io::Result<Box<dyn FileHandle>>;

    /// Opens an existing file. Writes append to it.
    ///
    /// # Errors
    /// The file cannot be opened.
    fn open(&self, path: &Path) -> io::Result<Box<dyn FileHandle>>;

    /// Renames a file, and replaces the target if it exists.
    ///
    /// # Errors
    /// The file cannot be renamed.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// The file cannot be removed.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Writes the names of a directory to disk.
    ///
    /// # Errors
    /// The state of the disk is unknown.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
}

/// An open file.
///
/// ```
/// use blox_cluster::log::FileHandle;
/// use std::io;
///
/// /// A disk that is full after a number of bytes.
/// #[derive(Debug)]
/// struct Full(usize);
///
/// impl FileHandle for Full {
///     fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
///         let left = self.0.checked_sub(bytes.len());
///         self.0 = left.ok_or(io::ErrorKind::StorageFull)?;
///         Ok(())
///     }
///
///     fn set_len(&mut self, _len: u64) -> io::Result<()> {
///         Ok(())
///     }
///
///     fn sync(&mut self) -> io::Result<()> {
///         Ok(())
///     }
/// }
///
/// let mut file = Full(8);
/// assert!(file.append(b"entry").is_ok());
/// assert!(file.append(b"entry").is_err());
/// ```
pub trait FileHandle: Debug + Send {
    /// Appends bytes. After an error, any number of them may be in the file.
    ///
    /// # Errors
    /// The write failed, for example because the disk is full.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Truncates the file. The next bytes are appended there.
    ///
    /// # Errors
    /// The file cannot be truncated.
    fn set_len(&mut self, len: u64) -> io::Result<()>;

    /// Writes the content to disk.
    ///
    /// # Errors
    /// The state of the disk is unknown.
    fn sync(&mut self) -> io::Result<()>;
}

/// The files of the operating system.
#[derive(Clone, Copy, Debug)]
pub struct SystemFiles;

impl Files for SystemFiles {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        private::folder(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect()
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        // A device has no end.
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is no regular file",
            ));
        }
        fs::read(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn FileHandle>> {
        Ok(Box::new(private::create(path)?))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn FileHandle>> {
        Ok(Box::new(OpenOptions::new().append(true).open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }
}

impl FileHandle for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        File::set_len(self, len)?;
        self.seek(SeekFrom::Start(len)).map(drop)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}
