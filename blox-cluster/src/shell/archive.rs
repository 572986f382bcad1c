//! Archive of ended jobs, in files of a thousand job numbers each. The scheduler's memory, log and
//! snapshots contain only the live jobs and the latest ended jobs.
//!
//! A file has one JSON line per job. A crash may repeat the line of a job or tear the last line: the
//! last complete line counts. A job is archived before the log records that the scheduler drops it,
//! so no job is in neither place.

use crate::private;
use crate::protocol::launches::Past;
use crate::protocol::scheduler::LONGEST_ARRAY;
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
        self.last_in(job.0 / PER_FILE, |past| past.job == job)
    }

    /// Returns an archived job of an array, or `None` if the archive does not have it.
    pub fn find_in_array(&self, array: JobId, index: u32) -> io::Result<Option<Past>> {
        let is_it = |past: &Past| {
            let place = past.brief.array;
            place.is_some_and(|place| (place.id, place.index) == (array, index))
        };
        // The indices of an array ascend with the numbers of its jobs.
        let last = array.0.saturating_add(index.min(LONGEST_ARRAY as u32));
        for number in array.0 / PER_FILE..=last / PER_FILE {
            let found = self.last_in(number, is_it)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Returns the last job of a file that meets a condition.
    fn last_in(&self, number: u32, is_it: impl Fn(&Past) -> bool) -> io::Result<Option<Past>> {
        let file = match File::open(self.file(number)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut found = None;
        for line in BufReader::new(file).split(b'\n') {
            let past = serde_json::from_slice::<Past>(&line?).ok();
            found = past.filter(&is_it).or(found);
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
    use crate::protocol::after::InArray;
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
    fn archived_job_of_an_array_is_found_by_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let archive = Archive::in_dir(dir.path());
        let id = JobId(998);
        // The indices 5, 7, 9 and so on have the jobs 998, 999, 1000 and so on.
        let of = |job: u32| {
            let mut past = past(job, "sweep");
            let index = 5 + 2 * (job - id.0);
            let place = InArray {
                id,
                index,
                ..InArray::default()
            };
            past.brief.array = Some(place);
            past
        };
        archive
            .add(&[past(997, "other"), of(998), of(1_001)])
            .unwrap();
        let find = |array, index| archive.find_in_array(JobId(array), index).unwrap();
        assert_eq!(
            (find(998, 5), find(998, 11)),
            (Some(of(998)), Some(of(1_001)))
        );
        for (array, index) in [(998, 0), (998, 9), (998, u32::MAX), (997, 0), (u32::MAX, 0)] {
            assert_eq!(find(array, index), None);
        }
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
