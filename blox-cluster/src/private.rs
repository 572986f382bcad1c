//! Files and folders that other users cannot read, with any umask.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Bit of a folder such as `/tmp`, in which users may only remove their own files.
const STICKY: u32 = 0o1000;
const OTHERS_WRITE: u32 = 0o002;

/// Returns the effective user of this process.
///
/// # Errors
/// `/proc` cannot be read.
pub fn user() -> io::Result<u32> {
    Ok(fs::metadata("/proc/self")?.uid())
}

/// Creates a folder of mode 700, unless it exists. An existing folder of this user becomes private.
///
/// # Errors
/// The path is a file, or the folder belongs to another user or is one that all users share.
pub fn folder(dir: &Path) -> io::Result<()> {
    of_mode(dir, 0o700)
}

/// Creates a folder of mode 711, in which other users reach only files that they can name, unless
/// it exists.
///
/// # Errors
/// The path is a file, or the folder belongs to another user or is one that all users share.
pub fn passage(dir: &Path) -> io::Result<()> {
    of_mode(dir, 0o711)
}

fn of_mode(dir: &Path, mode: u32) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    let made = builder.recursive(true).mode(mode).create(dir);
    made.map_err(|e| match dir.is_file() {
        true => io::Error::other("is a file, expected a folder"),
        false => e,
    })?;
    let meta = fs::metadata(dir)?;
    let found = meta.mode() & 0o7777;
    if found & 0o777 == mode {
        return Ok(());
    }
    let own = user()?;
    let refused = |what: String| io::Error::new(io::ErrorKind::PermissionDenied, what);
    if meta.uid() != own {
        let owner = meta.uid();
        return Err(refused(format!(
            "belongs to user {owner} and has mode {found:o}, expected a folder of user {own}"
        )));
    }
    if found & (STICKY | OTHERS_WRITE) != 0 {
        return Err(refused(format!(
            "has mode {found:o}, so others may write in it: expected a folder of mode {mode:o}"
        )));
    }
    fs::set_permissions(dir, fs::Permissions::from_mode(mode))
}

/// Lets other users read a file in a folder that they can pass.
///
/// # Errors
/// The operating system failed.
pub fn show(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o644))
}

/// Returns options that create files of mode 600.
pub fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// Creates a file of mode 600, or truncates an existing one.
///
/// # Errors
/// The operating system failed.
pub fn create(path: &Path) -> io::Result<File> {
    options().create(true).write(true).truncate(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn new_and_looser_folders_become_private() {
        let dir = tempfile::tempdir().unwrap();
        let (new, looser) = (dir.path().join("new").join("in"), dir.path().join("looser"));
        fs::create_dir(&looser).unwrap();
        fs::set_permissions(&looser, fs::Permissions::from_mode(0o775)).unwrap();
        for path in [&new, &looser] {
            folder(path).unwrap();
            assert_eq!(mode(path), 0o700);
        }
        passage(&looser).unwrap();
        assert_eq!(mode(&looser), 0o711);
        create(&new.join("file")).unwrap();
        assert_eq!(mode(&new.join("file")), 0o600);
    }

    #[test]
    fn a_folder_that_all_users_share_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let shared = dir.path().join("shared");
        fs::create_dir(&shared).unwrap();
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
        let message = folder(&shared).unwrap_err().to_string();
        assert!(message.starts_with("has mode 1777"), "{message}");
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let message = folder(&file).unwrap_err().to_string();
        assert_eq!(message, "is a file, expected a folder");
    }
}
