//! The audit log: changes and refusals, with their callers.

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
}

/// An append-only log of JSON lines in a folder, rotated by size.
#[derive(Debug)]
pub struct Audit {
    path: PathBuf,
    largest: u64,
    file: Mutex<Option<File>>,
}

impl Audit {
    /// Opens the log `audit.jsonl` of a folder, and creates it if it is missing.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(dir: &Path) -> io::Result<Self> {
        private::folder(dir)?;
        let path = dir.join("audit.jsonl");
        let file = append(&path)?;
        Ok(Audit {
            path,
            largest: LARGEST,
            file: Mutex::new(Some(file)),
        })
    }

    /// Appends a line. A full disk loses the line, and not the call.
    pub fn add(&self, entry: &Entry<'_>) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.write(&mut file, entry);
    }

    fn write(&self, file: &mut Option<File>, entry: &Entry<'_>) -> io::Result<()> {
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        let bytes = file
            .as_ref()
            .map_or(0, |f| f.metadata().map_or(0, |m| m.len()));
        if bytes + line.len() as u64 > self.largest {
            *file = None;
            for number in (1..KEPT).rev() {
                let _ = fs::rename(self.older(number), self.older(number + 1));
            }
            fs::rename(&self.path, self.older(1))?;
        }
        if file.is_none() {
            *file = Some(append(&self.path)?);
        }
        file.as_mut().map_or(Ok(()), |file| file.write_all(&line))
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

    #[test]
    fn a_full_audit_log_is_rotated_and_keeps_its_lines() {
        let dir = tempfile::tempdir().unwrap();
        let mut audit = Audit::open(dir.path()).unwrap();
        audit.largest = 400;
        for n in 0..8 {
            let object = format!("job {n}");
            audit.add(&Entry {
                at_ms: 1,
                peer: "127.0.0.1:1",
                name: "bob\n",
                role: "user",
                method: "Jobs/Change",
                object: &object,
                allowed: false,
                reason: "",
            });
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
}
