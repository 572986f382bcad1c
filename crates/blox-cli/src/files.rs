//! Writes files completely or not at all.

use super::failure::Failure;
use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Writes a file under a temporary name and renames it at the end, so that a partial file is never
/// visible. A target that is no regular file, such as a pipe, is written directly.
pub(super) fn write_whole<E: Error + 'static>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), E>,
) -> Result<(), Failure> {
    let cannot = |e: &(dyn Error + 'static)| {
        // The message of the operating system is the innermost cause.
        let mut cause = e;
        while let Some(deeper) = cause.source() {
            cause = deeper;
        }
        Failure::unwritable(path, cause)
    };
    let fill = |to: &Path| -> Result<(), Failure> {
        let mut out = BufWriter::new(File::create(to).map_err(|e| cannot(&e))?);
        write(&mut out).map_err(|e| cannot(&e))?;
        out.flush().map_err(|e| cannot(&e))
    };
    if std::fs::metadata(path).is_ok_and(|meta| !meta.is_file()) {
        return fill(path);
    }
    let part = part_of(path);
    let filled = fill(&part).and_then(|()| std::fs::rename(&part, path).map_err(|e| cannot(&e)));
    if filled.is_err() {
        // Only the first error is reported.
        let _ = std::fs::remove_file(&part);
    }
    filled
}

/// Fails if [`write_whole`] cannot create the file. Long work then fails before it begins. Changes
/// nothing.
pub(super) fn check_writable(path: &Path) -> Result<(), Failure> {
    if std::fs::metadata(path).is_ok_and(|meta| !meta.is_file() && !meta.is_dir()) {
        // Opening a pipe would wait for its reader.
        return Ok(());
    }
    if path.is_dir() {
        let text = "is a directory, expected the path of a file";
        return Err(Failure::at(path, text));
    }
    let part = part_of(path);
    let opened = File::options().append(true).create(true).open(&part);
    opened.map_err(|e| Failure::unwritable(path, e))?;
    std::fs::remove_file(&part).map_err(|e| Failure::unwritable(path, e))
}

/// Returns a name that is not taken: this one, or with a number.
pub(super) fn not_taken(name: String, taken: impl Fn(&str) -> bool) -> String {
    let numbered = (2_u32..).map(|n| format!("{name}-{n}"));
    let mut names = std::iter::once(name.clone()).chain(numbered);
    names.find(|name| !taken(name)).unwrap_or(name)
}

/// Largest length of the name of a scheduler in paths. Names of pictures and runs add to it, and file
/// systems accept 255 bytes.
const LONGEST: usize = 100;

/// Returns the name of a scheduler in paths, without the number that distinguishes equal names. A long
/// name ends with a hash of the label.
pub(super) fn folder_name(label: &str) -> String {
    let name = blox_results::in_paths(label.trim_end_matches('}'));
    if name.len() <= LONGEST {
        return name;
    }
    // FNV-1a, folded to 32 bits.
    let hash = label.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let start: String = name.chars().take(LONGEST - 9).collect();
    format!("{start}-{:08x}", (hash ^ hash >> 32) as u32)
}

/// Returns the temporary path of a file that is being written.
pub(super) fn part_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checked_files_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.svg");
        assert!(check_writable(&path).is_ok() && !path.exists());
        std::fs::write(&path, "x").unwrap();
        assert!(check_writable(&path).is_ok());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "x");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        assert!(check_writable(dir.path()).is_err());
        let error = check_writable(&dir.path().join("none/a.svg")).unwrap_err();
        assert!(error.into_text().contains("cannot be written"));
    }

    #[test]
    fn long_labels_become_short_names() {
        let label = |n| format!("order{{by={}}}", vec!["age"; n].join(" + "));
        assert_eq!(folder_name(&label(2)), "order_by=age___age");
        let long = [50, 51].map(|n| folder_name(&label(n)));
        assert!(long.iter().all(|name| name.len() == LONGEST));
        assert_ne!(long[0], long[1]);
        assert!(long[0].starts_with("order_by=age___age"));
    }

    #[test]
    fn taken_name_gets_the_first_free_number() {
        let taken = ["a", "a-2"];
        let name = |name: &str| not_taken(name.to_owned(), |name| taken.contains(&name));
        assert_eq!(["a", "b"].map(name), ["a-3", "b"]);
    }
}
