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

/// The notices of a workload without any.
pub(super) static NONE: Notices = Notices { list: Vec::new() };

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
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum NoticeKind {
    /// Jobs submitted before the job in the line above; all jobs were sorted.
    #[error("not in order of submission: sorted")]
    OutOfOrder,
    /// Jobs without work, kept.
    #[error("no work: kept as a job that ends at once")]
    NoWork,
    /// A column unknown to the format, ignored.
    #[error("unknown column `{0}`: ignored; with the name `attributes.{0}`, it is kept")]
    IgnoredColumn(Name),
    /// An unknown column, left out, whose name is close to a known one.
    #[error("unknown column `{column}`: ignored; did you mean `{known}`?")]
    MisspeltColumn {
        /// The column.
        column: Name,
        /// The known column, which the file does not have.
        known: Name,
    },
    /// The number, from 1, of a column without a name, ignored. Pandas writes its index so.
    #[error("column {0} has no name: ignored")]
    UnnamedColumn(u32),
    /// A column that `--map` does not name.
    #[error("column `{0}`: not mapped, ignored; attributes.NAME=COLUMN keeps it")]
    UnmappedColumn(Name),
    /// Jobs whose last deadline is before their submission.
    #[error("the deadline is before the submission: no scheduler can meet it")]
    PastDeadline,
    /// The first submission is decades after 0: its time counts from 1970.
    #[error(
        "the first submission is at {0} s, decades after the start: seconds since 1970 are read by --map, as in submit=COLUMN:epoch"
    )]
    LateStart(u64),
    /// Rows whose GPU time differs from duration times GPUs; duration and GPUs count.
    #[error("GPU time differs from duration times GPUs: ignored")]
    GpuTimeDiffers,
    /// Cells of a throughput table without a number, ignored.
    #[error("no throughput for a GPU count: jobs do not run on it")]
    NoThroughput,
    /// Cells of a throughput table with the value 0.
    #[error("a throughput of 0: jobs do not run on that GPU count")]
    ZeroThroughput,
    /// Cells of a throughput table with no more than the throughput on fewer GPUs.
    #[error("no higher throughput than on fewer GPUs: elastic jobs do not run on that GPU count")]
    NoGain,
    /// Jobs without an entry in a table of additional job data.
    #[error("not in the tables of speeds: the job is as its row says")]
    NoProfile,
    /// Rows of the input that did not become jobs.
    #[error("dropped: {0}")]
    Dropped(Dropped),
    /// Jobs that request a part of a GPU, rounded up to whole GPUs.
    #[error("asks for parts of GPUs: rounded up to whole ones")]
    PartOfGpu,
    /// Jobs of a log that counts processors, not GPUs.
    #[error("processors: taken as GPUs")]
    ProcessorsAsGpus,
    /// Jobs whose attempts had different numbers of GPUs; the largest counts.
    #[error("attempts with different numbers of GPUs: the largest taken")]
    GpusDiffer,
    /// Attempts without start or end, ignored in a job with others.
    #[error("an attempt without start or end: left out of its job")]
    AttemptLeftOut,
    /// Jobs with the name of an earlier job, where the format allows that.
    #[error("the name of a job above: kept as another job")]
    RepeatedName,
    /// Jobs whose names were not compared because there are too many.
    #[error("not looked at whether the name is unique, being too many")]
    NamesNotCompared,
    /// Jobs without an entry in the accompanying table.
    #[error("not in the table of jobs: submission taken from its first task")]
    NotInOtherTable,
}

/// Reason why a row did not become a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Dropped {
    /// The job requests no GPU.
    #[error("asks for no GPU")]
    NoGpus,
    /// The job never started: it was cancelled while waiting, or still waits.
    #[error("never started")]
    NeverStarted,
    /// The job had not ended when the log was taken, so its running time is unknown.
    #[error("had not ended when the log was taken")]
    StillRunning,
    /// The log lacks the start or end of the job.
    #[error("the log does not say when it ran")]
    NoTimes,
    /// A step of a job that has its own row.
    #[error("a step of a job")]
    Step,
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
                "unknown column `x`: ignored; with the name `attributes.x`, it is kept (once, on line 1)"
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
