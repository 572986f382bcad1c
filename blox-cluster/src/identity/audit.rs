//! The audit log: changes and refusals, with their callers.
//!
//! Refusals have files of their own, because any client causes as many of them as it likes.

use super::IdentityError;
use crate::private;
use serde::Serialize;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Size at which the log is rotated, in bytes.
const LARGEST: u64 = 16 << 20;
/// Number of older files.
const KEPT: u32 = 4;

/// One line of the log.
#[derive(Debug, Serialize)]
pub struct Entry<'a> {
    /// Time in milliseconds of Unix time.
    pub at_ms: u64,
    /// Address of the caller.
    pub peer: &'a str,
    /// Name of the caller; empty if it is unknown.
    pub name: &'a str,
    /// Its role; empty if it is unknown.
    pub role: &'a str,
    /// The method, as `Service/Method`.
    pub method: &'a str,
    /// Object of the call, such as `job 3`.
    pub object: &'a str,
    /// True if it was allowed.
    pub allowed: bool,
    /// Reason of a refusal, or the error of the call.
    pub reason: &'a str,
    /// Number of earlier refusals of this caller without a line.
    #[serde(skip_serializing_if = "is_zero")]
    pub omitted: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// The logs of a folder: `audit.jsonl` has a line for each change, `refused.jsonl` for refusals. Both
/// consist of JSON lines and are rotated by size, each on its own.
#[derive(Debug)]
pub struct Audit {
    changes: Mutex<Lines>,
    refusals: Mutex<Lines>,
}

impl Audit {
    /// Opens the logs of a folder, and creates them if they are missing.
    ///
    /// # Errors
    /// A file cannot be opened.
    pub fn open(dir: &Path) -> Result<Self, IdentityError> {
        private::folder(dir).map_err(IdentityError::io(dir))?;
        let open = |name: &str| Lines::open(dir.join(name)).map(Mutex::new);
        Ok(Audit {
            changes: open("audit.jsonl")?,
            refusals: open("refused.jsonl")?,
        })
    }

    /// Appends a line. A full disk loses the line, and not the call.
    pub fn add(&self, entry: &Entry<'_>) {
        let lines = match entry.allowed {
            true => &self.changes,
            false => &self.refusals,
        };
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = lines.write(entry);
    }
}

/// An append-only file of JSON lines, rotated by size.
#[derive(Debug)]
struct Lines {
    path: PathBuf,
    largest: u64,
    file: Option<File>,
}

impl Lines {
    fn open(path: PathBuf) -> Result<Self, IdentityError> {
        let file = append(&path).map_err(IdentityError::io(&path))?;
        Ok(Lines {
            path,
            largest: LARGEST,
            file: Some(file),
        })
    }

    fn write(&mut self, entry: &Entry<'_>) -> io::Result<()> {
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        let file = self.file.as_ref();
        let bytes = file.map_or(0, |f| f.metadata().map_or(0, |m| m.len()));
        if bytes + line.len() as u64 > self.largest {
            self.file = None;
            for number in (1..KEPT).rev() {
                let _ = fs::rename(self.older(number), self.older(number + 1));
            }
            fs::rename(&self.path, self.older(1))?;
        }
        if self.file.is_none() {
            self.file = Some(append(&self.path)?);
        }
        let file = self.file.as_mut();
        file.map_or(Ok(()), |file| file.write_all(&line))
    }

    fn older(&self, number: u32) -> PathBuf {
        self.path.with_extension(format!("{number}.jsonl"))
    }
}

fn append(path: &Path) -> io::Result<File> {
    private::options().create(true).append(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(object: &str, allowed: bool) -> Entry<'_> {
        Entry {
            at_ms: 1,
            peer: "127.0.0.1:1",
            name: "bob\n",
            role: "user",
            method: "Jobs/Change",
            object,
            allowed,
            reason: "",
            omitted: 0,
        }
    }

    fn open(dir: &Path) -> Audit {
        let mut audit = Audit::open(dir).unwrap();
        audit.changes.get_mut().unwrap().largest = 400;
        audit.refusals.get_mut().unwrap().largest = 400;
        audit
    }

    #[test]
    fn a_full_audit_log_is_rotated_and_keeps_its_lines() {
        let dir = tempfile::tempdir().unwrap();
        let audit = open(dir.path());
        for n in 0..8 {
            audit.add(&entry(&format!("job {n}"), true));
        }
        let text = |path: &Path| fs::read_to_string(path).unwrap();
        let newest = text(&dir.path().join("audit.jsonl"));
        let before = text(&dir.path().join("audit.1.jsonl"));
        let last = newest.lines().last().unwrap();
        let parsed: serde_json::Value = serde_json::from_str(last).unwrap();
        assert_eq!(parsed["object"], "job 7");
        assert_eq!(parsed["name"], "bob\n");
        assert!(before.lines().count() >= 1 && before.len() <= 400);
        drop(audit);
        let lines = newest.lines().count();
        let audit = Audit::open(dir.path()).unwrap();
        drop(audit);
        assert_eq!(text(&dir.path().join("audit.jsonl")).lines().count(), lines);
    }

    #[test]
    fn refusals_remove_no_lines_of_changes() {
        let dir = tempfile::tempdir().unwrap();
        let audit = open(dir.path());
        audit.add(&entry("job 1", true));
        let changes = fs::read(dir.path().join("audit.jsonl")).unwrap();
        for _ in 0..100 {
            audit.add(&entry("job 2", false));
        }
        assert_eq!(fs::read(dir.path().join("audit.jsonl")).unwrap(), changes);
        assert!(!dir.path().join("audit.1.jsonl").exists());
        let refused = (1..=KEPT).map(|n| dir.path().join(format!("refused.{n}.jsonl")));
        assert!(refused.into_iter().all(|path| path.exists()));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 6);
    }
}
