//! What came of a simulation: a row a job, a summary, files.

mod assignments;
mod fairness;
mod fingerprint;
mod recorder;
pub mod statistics;
mod summary;
mod timeline;
mod training;
mod waits;
mod write;

pub(crate) use assignments::Occupancy;
pub use assignments::{AssignmentRow, AssignmentSink, SharedSink};
pub use fairness::Fairness;
pub use fingerprint::Fingerprint;
pub use recorder::{Moment, Recorder, RoundRow};
pub use summary::{COLUMNS, Column, Deadlines, MissCauses, Summary};
pub use timeline::TimelineRow;
pub use training::{Contention, Given, TrainingFigures};
pub use waits::WaitRow;
pub(crate) use waits::Waits;
pub use write::{AssignmentWriter, WriteError, write_jobs, write_rounds, write_timeline};

use blox_core::{JobId, Name, Outcome, Seconds, Time};
use serde::Serialize;

/// Whose a job is.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Owner {
    /// Who submitted it, if that is known.
    pub user: Option<Name>,
    /// The virtual cluster that it belongs to, if to one.
    pub virtual_cluster: Option<Name>,
}

/// What became of one job.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct JobResult {
    /// Its number.
    pub job: JobId,
    /// The trace's own identifier, if it has one.
    pub name: Option<Name>,
    /// Whose it is, if anybody's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<Box<Owner>>,
    /// When it was submitted.
    pub submit: Time,
    /// GPUs that it asked for.
    pub gpus: u32,
    /// How long it runs on them: the truth.
    pub duration: Seconds,
    /// How it ended; `None` if it had not when the simulation ended.
    pub outcome: Option<Outcome>,
    /// When it ran first.
    pub first_start: Option<Time>,
    /// When its end was seen.
    pub finish: Option<Time>,
    /// Time for which it ran.
    pub attained: Seconds,
    /// GPU-seconds for which it ran.
    pub attained_gpu: Seconds,
    /// How often a plan stopped it.
    pub preemptions: u32,
    /// How often it was launched.
    pub launches: u32,
    /// How often it crashed or lost its node.
    pub crashes: u32,
    /// Why it was turned away, or where it stood at the end.
    pub reason: Option<Box<str>>,
    /// The kind of that reason, without particulars: for counting.
    pub reason_kind: Option<&'static str>,
    /// True if it is measured.
    pub measured: bool,
    /// The deadline that it was submitted with, unless it was best-effort.
    pub deadline: Option<Time>,
    /// Of a job with a deadline: how long it held GPUs that it did not run on yet,
    /// because of launches, restarts, migrations, and checkpoints that it waited for.
    pub overhead: Seconds,
    /// Of a job with a deadline: how long it runs at least, on the best of the GPU counts that
    /// it may have; zero where that depends on more than their number.
    pub least: Seconds,
    /// Of a job that trains: what it was given. Boxed, since there can be a million rows
    /// without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given: Option<Box<Given>>,
    /// Finish-time fairness, if asked for: its completion time over its
    /// [fair time](crate::fairness::FairTimes).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rho: Option<f64>,
}

/// What became of a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadlineFate {
    /// All work was done by then, or the scheduler had ended the job at its goal.
    Met,
    /// The job ended later, or failed, or had not ended.
    Missed,
    /// Admission turned the job away.
    Declined,
}

impl DeadlineFate {
    /// The word in files.
    pub fn as_str(self) -> &'static str {
        match self {
            DeadlineFate::Met => "met",
            DeadlineFate::Missed => "missed",
            DeadlineFate::Declined => "declined",
        }
    }
}

/// Why a deadline was missed: the first of these that is so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissCause {
    /// The job failed, or was cancelled.
    Failed,
    /// The job had not ended when the simulation did.
    Unfinished,
    /// Not even a start at once would have met it.
    Impossible,
    /// It crashed, or lost a node, at least once.
    Crashes,
    /// Without its own overheads ([`JobResult::overhead`]) it would have ended in time.
    Overheads,
    /// Without waiting it would have ended in time, or it had fewer or slower GPUs than it
    /// could have used: others held them, with their own overheads and crashes, or nothing had
    /// been guaranteed.
    Waiting,
    /// It had its GPUs in time, but its end was seen only when a round ended.
    Round,
}

impl MissCause {
    /// The word in files.
    pub fn as_str(self) -> &'static str {
        match self {
            MissCause::Failed => "failed",
            MissCause::Unfinished => "unfinished",
            MissCause::Impossible => "impossible",
            MissCause::Crashes => "crashes",
            MissCause::Overheads => "overheads",
            MissCause::Waiting => "waiting",
            MissCause::Round => "round",
        }
    }
}

impl JobResult {
    /// Returns why its deadline was missed; `None` if it was not.
    pub fn miss_cause(&self) -> Option<MissCause> {
        if self.deadline_fate() != Some(DeadlineFate::Missed) {
            return None;
        }
        let (Some(end), Some(due)) = (self.finish, self.deadline) else {
            return Some(MissCause::Unfinished);
        };
        if self.jct().is_none() {
            return Some(MissCause::Failed);
        }
        let late = end - due;
        let in_time = |runs: Seconds| self.submit + runs <= due;
        let idle = self.queueing().unwrap_or_default();
        // Less for what rounding may take from a sum.
        let asked = self.attained * f64::from(self.gpus) * (1.0 - 1e-9);
        let had_its_gpus = self.attained_gpu >= asked;
        Some(match () {
            () if !in_time(self.least) => MissCause::Impossible,
            () if self.crashes > 0 => MissCause::Crashes,
            () if self.overhead >= late => MissCause::Overheads,
            () if idle >= late => MissCause::Waiting,
            () if self.least > Seconds::ZERO && had_its_gpus && in_time(self.duration) => {
                MissCause::Round
            }
            () => MissCause::Waiting,
        })
    }

    /// Job completion time: submission until its end was seen; only of jobs that did all their work,
    /// or that the scheduler ended because their goal was reached ([`Outcome::Terminated`]).
    pub fn jct(&self) -> Option<Seconds> {
        match self.outcome {
            Some(Outcome::Completed | Outcome::Terminated) => self.finish.map(|f| f - self.submit),
            _ => None,
        }
    }

    /// Returns what became of its deadline; `None` if it has none.
    pub fn deadline_fate(&self) -> Option<DeadlineFate> {
        let deadline = self.deadline?;
        Some(match (self.outcome, self.finish) {
            (Some(Outcome::Rejected), _) => DeadlineFate::Declined,
            (Some(Outcome::Completed | Outcome::Terminated), Some(end)) if end <= deadline => {
                DeadlineFate::Met
            }
            _ => DeadlineFate::Missed,
        })
    }

    /// Responsiveness: submission until it ran first.
    pub fn responsiveness(&self) -> Option<Seconds> {
        self.first_start.map(|s| s - self.submit)
    }

    /// Queueing: the part of the job completion time in which it did not run.
    pub fn queueing(&self) -> Option<Seconds> {
        self.jct().map(|j| (j - self.attained).max(Seconds::ZERO))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_blamed_only_for_what_it_cost() {
        // Due at 1000: on one GPU for 600 s, and its end is seen when a round of 300 s ends.
        let job = |least: f64, attained: f64, finish: f64| JobResult {
            outcome: Some(Outcome::Completed),
            gpus: 1,
            duration: Seconds::new(600.0),
            least: Seconds::new(least),
            attained: Seconds::new(attained),
            attained_gpu: Seconds::new(attained),
            finish: Some(Time::new(finish)),
            deadline: Some(Time::new(1000.0)),
            ..JobResult::default()
        };
        let cause = |j: JobResult| j.miss_cause();
        assert_eq!(cause(job(600.0, 600.0, 900.0)), None);
        assert_eq!(cause(job(600.0, 600.0, 1200.0)), Some(MissCause::Waiting));
        assert_eq!(cause(job(600.0, 1150.0, 1200.0)), Some(MissCause::Round));
        assert_eq!(
            cause(job(1001.0, 1200.0, 1200.0)),
            Some(MissCause::Impossible)
        );
        // More GPUs, or faster ones, would have helped.
        let slow = JobResult {
            duration: Seconds::new(1100.0),
            ..job(600.0, 1200.0, 1200.0)
        };
        assert_eq!(cause(slow), Some(MissCause::Waiting));
        assert_eq!(cause(job(0.0, 1200.0, 1200.0)), Some(MissCause::Waiting));
    }
}
