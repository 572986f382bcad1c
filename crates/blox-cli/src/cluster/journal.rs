//! Journal of a scheduler process. Each start writes a new file, since a journal begins with the state
//! at the start.

use crate::failure::Failure;
use blox_cluster::private;
use blox_core::Input;
use blox_core::journal::{Journal, JsonLines, Start};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Size of the parts in which the end of a journal is searched for its last complete line.
const PART: u64 = 64 << 10;

/// A journal that is created when the scheduler has its log. An existing journal is then renamed to
/// the first free of `FILE.1`, `FILE.2`, and so on.
pub(super) struct Rotated {
    path: PathBuf,
    lines: Option<io::Result<JsonLines<BufWriter<File>>>>,
}

impl Rotated {
    /// Checks that the file can be written. Nothing is renamed before the scheduler has its log, which
    /// a running scheduler may be using.
    pub fn at(path: &Path) -> Result<Box<dyn Journal>, Failure> {
        let failed = |why: &dyn std::fmt::Display| {
            Failure::new(format!("--journal: {}: {why}", path.display()))
        };
        if fs::metadata(path).is_ok_and(|meta| !meta.is_file()) {
            return Err(failed(&"found a folder or device, expected a regular file"));
        }
        let mut options = private::options();
        let opened = options.create(true).append(true).open(path);
        opened.map_err(|e| failed(&e))?;
        Ok(Box::new(Rotated {
            path: path.to_owned(),
            lines: None,
        }))
    }
}

/// Renames an existing journal, and creates an empty one.
fn rotate(path: &Path) -> io::Result<File> {
    let bytes = match fs::metadata(path) {
        Ok(meta) => meta.len(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => 0,
        Err(e) => return Err(e),
    };
    if bytes > 0 {
        cut_last_line(path)?;
        let numbered = (1_u32..).map(|n| {
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".{n}"));
            PathBuf::from(name)
        });
        for old in numbered {
            // A link fails if the name exists, so no older journal is replaced.
            match fs::hard_link(path, &old) {
                Ok(()) => break,
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                // A file system without links.
                Err(_) if !old.exists() => {
                    fs::rename(path, &old)?;
                    return private::options().write(true).create_new(true).open(path);
                }
                Err(_) => {}
            }
        }
        fs::remove_file(path)?;
    }
    private::create(path)
}

/// Removes a last line that a killed scheduler did not complete.
fn cut_last_line(path: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    let mut end = file.seek(SeekFrom::End(0))?;
    let whole = end;
    while end > 0 {
        let begin = end.saturating_sub(PART);
        let mut part = vec![0; (end - begin) as usize];
        file.seek(SeekFrom::Start(begin))?;
        file.read_exact(&mut part)?;
        if let Some(at) = part.iter().rposition(|b| *b == b'\n') {
            let kept = begin + at as u64 + 1;
            return match kept < whole {
                true => file.set_len(kept),
                false => Ok(()),
            };
        }
        end = begin;
    }
    Ok(())
}

impl Journal for Rotated {
    fn start(&mut self, start: &Start) {
        let created = rotate(&self.path).map(|file| JsonLines::new(BufWriter::new(file)));
        let lines = self.lines.insert(created);
        if let Ok(lines) = lines {
            lines.start(start);
        }
    }

    fn record(&mut self, input: &Input) {
        if let Some(Ok(lines)) = &mut self.lines {
            lines.record(input);
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.lines {
            Some(Ok(lines)) => lines.flush(),
            Some(Err(error)) => Err(io::Error::new(
                error.kind(),
                format!("{}: {error}", self.path.display()),
            )),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn journal_of_each_start_is_kept_in_its_own_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a journal.jsonl");
        let at = |n: u32| dir.path().join(format!("a journal.jsonl.{n}"));
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        drop(rotate(&path).unwrap());
        // An empty journal is used again.
        drop(rotate(&path).unwrap());
        assert!(!at(1).exists());
        fs::write(&path, "{\"a\":1}\n{\"b\":").unwrap();
        drop(rotate(&path).unwrap());
        assert_eq!(
            (read(&path), read(&at(1))),
            (String::new(), "{\"a\":1}\n".to_owned())
        );
        let long = format!("first\n{}", "x".repeat(3 * PART as usize));
        fs::write(&path, long).unwrap();
        drop(rotate(&path).unwrap());
        assert_eq!(read(&at(2)), "first\n");
        assert_eq!(read(&at(1)), "{\"a\":1}\n");
    }

    #[test]
    fn journal_that_cannot_be_written_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let refused = Rotated::at(dir.path()).err().unwrap().to_string();
        assert!(
            refused.contains("found a folder or device, expected a regular file"),
            "{refused}"
        );
        assert!(Rotated::at(&dir.path().join("none/journal")).is_err());
    }
}
