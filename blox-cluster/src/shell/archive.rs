//! Archive of ended jobs, in files of a thousand job numbers each. The scheduler's memory, log and
//! snapshots contain only the live jobs and the latest ended jobs.
//!
//! A file has one JSON line per job. A crash may repeat the line of a job or tear the last line: the
//! last complete line counts. A job is archived before the log records that the scheduler drops it,
//! so no job is in neither place.

use crate::private;
use crate::protocol::launches::Past;
use blox_core::JobId;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Number of job numbers in one file.
const PER_FILE: u32 = 1_000;

/// The archive in the state directory of a scheduler.
#[derive(Clone, Debug)]
pub(super) struct Archive(PathBuf);

impl Archive {
    /// Returns the archive of a state directory. Nothing is created before the first
    /// [`Archive::add`].
    pub fn in_dir(state: &Path) -> Self {
        Archive(state.join("archive"))
    }

    /// Appends jobs. They are on disk when it returns.
    pub fn add(&self, jobs: &[Past]) -> io::Result<()> {
        private::folder(&self.0)?;
        let mut files: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
        for past in jobs {
            let lines = files.entry(past.job.0 / PER_FILE).or_default();
            serde_json::to_writer(&mut *lines, past)?;
            lines.push(b'\n');
        }
        for (number, lines) in files {
            let path = self.file(number);
            let mut options = private::options();
            let mut file = options.create(true).append(true).read(true).open(path)?;
            // A torn line must not swallow the next one.
            if !ends_with_newline(&mut file)? {
                file.write_all(b"\n")?;
            }
            file.write_all(&lines)?;
            file.sync_all()?;
        }
        File::open(&self.0)?.sync_all()
    }

    /// Returns an archived job, or `None` if the archive does not have it.
    pub fn find(&self, job: JobId) -> io::Result<Option<Past>> {
        let file = match File::open(self.file(job.0 / PER_FILE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut found = None;
        for line in BufReader::new(file).split(b'\n') {
            let past = serde_json::from_slice::<Past>(&line?).ok();
            found = past.filter(|past| past.job == job).or(found);
        }
        Ok(found)
    }

    /// Reads all archived jobs. A job with several lines is returned several times, the last line
    /// last. Lines that are not complete are skipped.
    pub fn all(&self) -> io::Result<impl Iterator<Item = io::Result<Past>>> {
        let mut files = Vec::new();
        match fs::read_dir(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            entries => {
                for entry in entries? {
                    files.push(entry?.path());
                }
            }
        }
        files.sort();
        let lines = files.into_iter().flat_map(|path| match File::open(path) {
            Ok(file) => {
                let lines = BufReader::new(file).split(b'\n');
                Box::new(lines) as Box<dyn Iterator<Item = io::Result<Vec<u8>>>>
            }
            Err(error) => Box::new(std::iter::once(Err(error))),
        });
        let past = |line: io::Result<Vec<u8>>| match line {
            Ok(line) => serde_json::from_slice(&line).ok().map(Ok),
            Err(error) => Some(Err(error)),
        };
        Ok(lines.filter_map(past))
    }

    fn file(&self, number: u32) -> PathBuf {
        self.0.join(format!("{number:07}.jsonl"))
    }
}

fn ends_with_newline(file: &mut File) -> io::Result<bool> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(true);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::launches::Brief;
    use blox_core::{Outcome, Time};
    use std::fs::OpenOptions;

    fn past(job: u32, name: &str) -> Past {
        Past {
            job: JobId(job),
            brief: Brief {
                name: name.to_owned(),
                submit: Time::new(f64::from(job)),
                ended: Some(Time::new(9.0)),
                ..Brief::default()
            },
            outcome: Some(Outcome::Completed),
            accounts: Vec::new(),
        }
    }

    #[test]
    fn archived_job_is_found_and_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let archive = Archive::in_dir(dir.path());
        assert_eq!(archive.find(JobId(7)).unwrap(), None);
        let jobs = [
            past(7, "a"),
            past(999, "b"),
            past(1_000, "c"),
            past(2_500, "d"),
        ];
        archive.add(&jobs).unwrap();
        let all: Vec<Past> = archive.all().unwrap().map(Result::unwrap).collect();
        assert_eq!(all, jobs);
        for job in &jobs {
            assert_eq!(archive.find(job.job).unwrap().as_ref(), Some(job));
        }
        for other in [8, 1_001, 2_499, u32::MAX] {
            assert_eq!(archive.find(JobId(other)).unwrap(), None);
        }
        assert_eq!(fs::read_dir(dir.path().join("archive")).unwrap().count(), 3);
    }

    #[test]
    fn torn_line_is_skipped_and_the_last_line_counts() {
        let dir = tempfile::tempdir().unwrap();
        let archive = Archive::in_dir(dir.path());
        archive.add(&[past(1, "first")]).unwrap();
        let path = archive.file(0);
        let mut file = OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(b"{\"job\":2,\"bri").unwrap();
        archive.add(&[past(2, "whole"), past(1, "again")]).unwrap();
        let name = |job| archive.find(JobId(job)).unwrap().unwrap().brief.name;
        assert_eq!((name(1).as_str(), name(2).as_str()), ("again", "whole"));
    }
}
