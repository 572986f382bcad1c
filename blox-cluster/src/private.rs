//! Files and folders that other users cannot read, with any umask, and files that users name.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Bit of a folder such as `/tmp`, in which users may only remove their own files.
const STICKY: u32 = 0o1000;
const OTHERS_WRITE: u32 = 0o002;
/// Largest file of a secret in bytes.
const LARGEST: u64 = 1 << 16;
/// Largest other file that a user names, in bytes.
const LARGEST_GIVEN: u64 = 16 << 20;

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

/// Returns why a secret in a file is not private to its owner, this user or root, if so. Root may
/// read the file of any user.
///
/// # Errors
/// `/proc` cannot be read.
pub fn exposed(meta: &Metadata) -> io::Result<Option<String>> {
    let (mode, owner, own) = (meta.mode() & 0o777, meta.uid(), user()?);
    if meta.is_file() && mode & 0o077 != 0 {
        return Ok(Some(format!(
            "it has mode {mode:03o}, so others may use it: expected mode 600"
        )));
    }
    let foreign = own != 0 && owner != 0 && owner != own;
    Ok(foreign.then(|| format!("it belongs to user {owner}, expected a file of user {own}")))
}

/// Reads a secret from a file that is private to its owner, this user or root. Returns the owner
/// with it.
///
/// # Errors
/// The file cannot be read, others can read it, or another user owns it.
pub fn read(path: &Path) -> io::Result<(String, u32)> {
    let file = open_given(path).map_err(|e| match (e.kind(), fs::metadata(path)) {
        (io::ErrorKind::PermissionDenied, Ok(meta)) => {
            let (mode, owner) = (meta.mode() & 0o777, meta.uid());
            let why = e.kind();
            let text = format!("it belongs to user {owner} and has mode {mode:03o}: {why}");
            io::Error::new(e.kind(), text)
        }
        _ => e,
    })?;
    let meta = file.metadata()?;
    if let Some(why) = exposed(&meta)? {
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    let mut text = String::new();
    file.take(LARGEST).read_to_string(&mut text)?;
    Ok((text, meta.uid()))
}

/// Opens a file that a user names. A named pipe is refused, since it may never get a writer, and a
/// device, since it may have no end. The pipe of a shell's `<(COMMAND)` is read.
///
/// # Errors
/// The file cannot be opened, or is a folder, a device or a named pipe.
pub fn open_given(path: &Path) -> io::Result<File> {
    // A pipe without a name has no path.
    if !fs::metadata(path)?.is_file() && fs::canonicalize(path).is_ok() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is a folder, a device or a named pipe, expected a regular file",
        ));
    }
    File::open(path)
}

/// Reads a text that a user names, of at most 16 MiB.
///
/// # Errors
/// [`open_given`] fails, or the text is longer or no UTF-8.
pub fn read_given(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let mut file = open_given(path)?.take(LARGEST_GIVEN + 1);
    file.read_to_string(&mut text)?;
    match text.len() as u64 > LARGEST_GIVEN {
        true => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("it has more than {LARGEST_GIVEN} bytes"),
        )),
        false => Ok(text),
    }
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

    #[test]
    fn special_files_are_refused_without_a_wait() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("a pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        for path in [&pipe, Path::new("/dev/zero"), dir.path()] {
            let wrong = read_given(path).unwrap_err().to_string();
            assert!(wrong.contains("expected a regular file"), "{wrong}");
            assert!(read(path).is_err());
        }
        let large = dir.path().join("large");
        File::create(&large)
            .unwrap()
            .set_len(LARGEST_GIVEN + 1)
            .unwrap();
        let wrong = read_given(&large).unwrap_err().to_string();
        assert!(wrong.contains("more than 16777216 bytes"), "{wrong}");
        fs::write(&large, "{}").unwrap();
        assert_eq!(read_given(&large).unwrap(), "{}");
    }

    #[test]
    fn pipe_of_a_shell_is_read() {
        let (from, mut to) = io::pipe().unwrap();
        io::Write::write_all(&mut to, b"text").unwrap();
        drop(to);
        let number = std::os::fd::AsRawFd::as_raw_fd(&from);
        let path = format!("/proc/self/fd/{number}");
        assert_eq!(read_given(Path::new(&path)).unwrap(), "text");
    }

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
    fn a_secret_that_others_read_is_named_with_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        fs::write(&path, "text").unwrap();
        let own = user().unwrap();
        for (mode, shown) in [(0o644, "644"), (0o604, "604"), (0o620, "620")] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let text = format!("it has mode {shown}, so others may use it: expected mode 600");
            assert_eq!(read(&path).unwrap_err().to_string(), text);
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
        assert_eq!(read(&path).unwrap(), ("text".to_owned(), own));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
        // Root reads it anyway.
        if let Err(e) = read(&path) {
            let text = format!("it belongs to user {own} and has mode 000: permission denied");
            assert_eq!(e.to_string(), text);
        }
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
