//! Notices of readers about their input.

use blox_core::Name;
use serde::Serialize;
use std::fmt;

/// Notices about dropped, repaired or remarkable input, counted by kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Notices {
    list: Vec<Notice>,
}

impl Notices {
    /// Returns each kind once, in order of first occurrence.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Notice> {
        self.list.iter()
    }

    /// Returns whether there are no notices.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the number of occurrences of a kind.
    pub fn count(&self, kind: &NoticeKind) -> u64 {
        self.list
            .iter()
            .find(|n| n.kind == *kind)
            .map_or(0, |n| n.count)
    }

    /// Returns the number of rows that did not become jobs.
    pub fn dropped(&self) -> u64 {
        let dropped = |n: &&Notice| matches!(n.kind, NoticeKind::Dropped(_));
        self.list.iter().filter(dropped).map(|n| n.count).sum()
    }

    /// Adds all notices of another list.
    pub fn extend(&mut self, other: &Notices) {
        for notice in &other.list {
            match self.list.iter_mut().find(|n| n.kind == notice.kind) {
                Some(mine) => mine.count += notice.count,
                None => self.list.push(notice.clone()),
            }
        }
    }

    /// Adds an occurrence of a kind in line `line`, counted from 1.
    pub fn add(&mut self, kind: NoticeKind, line: u64) {
        match self.list.iter_mut().find(|n| n.kind == kind) {
            Some(notice) => notice.count += 1,
            None => self.list.push(Notice {
                kind,
                count: 1,
                first_line: line,
            }),
        }
    }
}

/// A kind of notice, with its number of occurrences and the first of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Notice {
    /// Kind of the notice.
    pub kind: NoticeKind,
    /// Number of affected lines or jobs, at least 1.
    pub count: u64,
    /// Line of the first occurrence, from 1. For [`NoticeKind::NoProfile`] the job's number in
    /// order of submission, from 1.
    pub first_line: u64,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Notice {
            kind,
            count,
            first_line,
        } = self;
        let place = match kind {
            NoticeKind::NoProfile => "for job number",
            _ => "on line",
        };
        match count {
            1 => write!(f, "{kind} (once, {place} {first_line})"),
            _ => write!(f, "{kind} ({count} times, first {place} {first_line})"),
        }
    }
}

/// Kinds of notices.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum NoticeKind {
    /// Jobs submitted before the job in the line above; all jobs were sorted.
    OutOfOrder,
    /// Jobs without work, kept.
    NoWork,
    /// A column unknown to the format, ignored.
    IgnoredColumn(Name),
    /// A column that the format does not know, left out, with a name like that of a known one.
    MisspeltColumn {
        /// The column.
        column: Name,
        /// The known column, which the file does not have.
        known: Name,
    },
    /// A column that `--map` does not name.
    UnmappedColumn(Name),
    /// Rows whose GPU time differs from duration times GPUs; duration and GPUs count.
    GpuTimeDiffers,
    /// Cells of a throughput table without a number, ignored.
    NoThroughput,
    /// Cells of a throughput table with the value 0.
    ZeroThroughput,
    /// Cells of a throughput table with no more than the throughput on fewer GPUs.
    NoGain,
    /// Jobs without an entry in a table of additional job data.
    NoProfile,
    /// Rows of the input that did not become jobs.
    Dropped(Dropped),
    /// Jobs that request a part of a GPU, rounded up to whole GPUs.
    PartOfGpu,
    /// Jobs whose attempts had different numbers of GPUs; the largest counts.
    GpusDiffer,
    /// Attempts without start or end, ignored in a job with others.
    AttemptLeftOut,
    /// Jobs with the name of an earlier job, where the format allows that.
    RepeatedName,
    /// Jobs whose names were not compared because there are too many.
    NamesNotCompared,
    /// Jobs without an entry in the accompanying table.
    NotInOtherTable,
}

/// Reason why a row did not become a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Dropped {
    /// The job requests no GPU.
    NoGpus,
    /// The job never started: it was cancelled while waiting, or still waits.
    NeverStarted,
    /// The job had not ended when the log was taken, so its running time is unknown.
    StillRunning,
    /// The log lacks the start or end of the job.
    NoTimes,
    /// A step of a job that has its own row.
    Step,
}

impl fmt::Display for NoticeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoticeKind::OutOfOrder => f.write_str("not in order of submission: sorted"),
            NoticeKind::NoWork => f.write_str("no work: kept as a job that ends at once"),
            NoticeKind::IgnoredColumn(name) => write!(f, "unknown column `{name}`: ignored"),
            NoticeKind::MisspeltColumn { column, known } => write!(
                f,
                "unknown column `{column}`: ignored; did you mean `{known}`?"
            ),
            NoticeKind::UnmappedColumn(name) => write!(
                f,
                "column `{name}`: not mapped, ignored; attributes.NAME=COLUMN keeps it"
            ),
            NoticeKind::GpuTimeDiffers => {
                f.write_str("GPU time differs from duration times GPUs: ignored")
            }
            NoticeKind::NoThroughput => {
                f.write_str("no throughput for a GPU count: jobs do not run on it")
            }
            NoticeKind::ZeroThroughput => {
                f.write_str("a throughput of 0: jobs do not run on that GPU count")
            }
            NoticeKind::NoProfile => {
                f.write_str("not in the tables of speeds: the job is as its row says")
            }
            NoticeKind::NoGain => f.write_str(
                "no higher throughput than on fewer GPUs: elastic jobs do not run on that GPU count",
            ),
            NoticeKind::Dropped(why) => write!(f, "dropped: {why}"),
            NoticeKind::PartOfGpu => {
                f.write_str("asks for parts of GPUs: rounded up to whole ones")
            }
            NoticeKind::GpusDiffer => {
                f.write_str("attempts with different numbers of GPUs: the largest taken")
            }
            NoticeKind::AttemptLeftOut => {
                f.write_str("an attempt without start or end: left out of its job")
            }
            NoticeKind::RepeatedName => f.write_str("the name of a job above: kept as another job"),
            NoticeKind::NamesNotCompared => {
                f.write_str("not looked at whether the name is unique, being too many")
            }
            NoticeKind::NotInOtherTable => {
                f.write_str("not in the table of jobs: submission taken from its first task")
            }
        }
    }
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Dropped::NoGpus => "asks for no GPU",
            Dropped::NeverStarted => "never started",
            Dropped::StillRunning => "had not ended when the log was taken",
            Dropped::NoTimes => "the log does not say when it ran",
            Dropped::Step => "a step of a job",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_count_by_kind_and_keep_the_first_line() {
        let mut notices = Notices::default();
        notices.add(NoticeKind::NoWork, 7);
        notices.add(NoticeKind::IgnoredColumn("x".into()), 1);
        notices.add(NoticeKind::NoWork, 9);
        assert_eq!(notices.count(&NoticeKind::NoWork), 2);
        assert_eq!(notices.count(&NoticeKind::OutOfOrder), 0);
        let lines: Vec<_> = notices.iter().map(Notice::to_string).collect();
        assert_eq!(
            lines,
            [
                "no work: kept as a job that ends at once (2 times, first on line 7)",
                "unknown column `x`: ignored (once, on line 1)"
            ]
        );
        let mut notices = Notices::default();
        notices.add(NoticeKind::NoProfile, 3);
        assert_eq!(
            notices.iter().next().unwrap().to_string(),
            "not in the tables of speeds: the job is as its row says (once, for job number 3)"
        );
    }
}
