//! Results of a simulation: a row for each job, a summary, files.

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
pub(crate) use waits::Waits;
pub use waits::{SharedWaitSink, WaitRow, WaitSink, WaitSpan};
pub use write::{
    AssignmentWriter, Cell, CsvTable, InputColumns, TableSink, WriteError, write_jobs,
    write_rounds, write_timeline,
};

use blox_core::{JobId, JobSpec, Name, Outcome, Seconds, Time};
use serde::Serialize;
use std::borrow::Cow;
use std::sync::Arc;

/// Returns the `job_id` of a job in files and pictures: its identifier in the trace, or its number if
/// it has none.
pub fn job_id(name: Option<&Name>, job: JobId) -> Cow<'_, str> {
    match name {
        Some(name) => Cow::Borrowed(name),
        None => Cow::Owned(job.to_string()),
    }
}

/// Result of one job.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct JobResult {
    /// Number of the job: its rank in order of submission, from 0.
    pub job: JobId,
    /// Identifier of the job in its trace, if it has one. See [`JobResult::id`].
    #[serde(rename = "job_id")]
    pub name: Option<Name>,
    /// Specification of the job. `None` if it holds only the values of other fields: there can be a
    /// million rows without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<Arc<JobSpec>>,
    /// Time of submission, in seconds since the start of the simulation.
    pub submit: Time,
    /// Number of requested GPUs.
    pub gpus: u32,
    /// True running time on the requested GPUs, in seconds: total work / requested rate. Contains
    /// no waiting, no overheads and no slowdown by other jobs.
    pub duration: Seconds,
    /// Outcome; `None` if the job had not ended when the simulation ended.
    pub outcome: Option<Outcome>,
    /// Time at which the job first ran on GPUs, after its launch; `None` if it never did.
    pub first_start: Option<Time>,
    /// Time at which the end was seen, whatever the outcome; with rounds, often the end of a round.
    /// For a rejected job, the time of the rejection. `None` if the job had not ended.
    pub finish: Option<Time>,
    /// Attained service: total time in seconds in which the job ran, on any number of GPUs. Includes
    /// lost work; excludes waiting, launches and stops.
    pub attained: Seconds,
    /// Attained service in GPU-seconds: the sum over its runs of running time x number of GPUs. A
    /// shared GPU counts in full for each of its jobs.
    pub attained_gpu: Seconds,
    /// Number of times that a decision stopped the running or starting job. Excludes changes in
    /// place and crashes.
    pub preemptions: u32,
    /// Number of launches, failed ones and changes in place included.
    pub launches: u32,
    /// Number of crashes, including lost nodes. Excludes failed launches.
    pub crashes: u32,
    /// Reason for a rejection or, for an unfinished job, the reason for its wait or its phase. `None`
    /// for other jobs.
    pub reason: Option<Box<str>>,
    /// Kind of that reason without details, for counting.
    pub reason_kind: Option<&'static str>,
    /// True if [`Measure`](crate::Measure) selects the job.
    pub measured: bool,
    /// First deadline at submission, in seconds since the start of the simulation; `None` unless the
    /// job was submitted in the guaranteed class.
    pub deadline: Option<Time>,
    /// For a job with a deadline: total time in seconds from each placement until the start on those
    /// GPUs. Caused by launches, restarts, migrations, and checkpoints that it waited for. Zero for
    /// other jobs.
    pub overhead: Seconds,
    /// For a job with a deadline: smallest possible running time in seconds, on the best of its GPU
    /// counts. Zero if the time depends on more than their number, and for other jobs.
    pub least: Seconds,
    /// For a training job: its allocated resources; `None` for other jobs. Boxed, since there can be
    /// a million rows without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given: Option<Box<Given>>,
    /// Finish-time fairness, if requested: the completion time divided by the job's [fair
    /// time](crate::fairness::FairTimes). No unit; above 1, the job was treated unfairly. `None` for
    /// jobs that are not measured or have no completion time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rho: Option<f64>,
}

/// Result for a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadlineFate {
    /// All work was done before the deadline, or the scheduler had ended the job at its goal.
    Met,
    /// The job ended later, or failed, or had not ended.
    Missed,
    /// Admission rejected the job. A job that it accepted as a best-effort job may meet its deadline.
    Declined,
}

impl DeadlineFate {
    /// Returns the word used in files.
    pub fn as_str(self) -> &'static str {
        match self {
            DeadlineFate::Met => "met",
            DeadlineFate::Missed => "missed",
            DeadlineFate::Declined => "declined",
        }
    }
}

/// Cause of a missed deadline: the first of these that applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissCause {
    /// The job failed, or was cancelled.
    Failed,
    /// The job had not ended when the simulation did.
    Unfinished,
    /// Even an immediate start would have missed it.
    Impossible,
    /// The job crashed, or lost a node, at least once.
    Crashes,
    /// Without its own overheads ([`JobResult::overhead`]), the job would have ended in time.
    Overheads,
    /// Without waiting, the job would have ended in time, or it had fewer or slower GPUs than it
    /// could have used. Other jobs had them, with their own overheads and crashes, or nothing had
    /// been guaranteed.
    Waiting,
    /// The job had its GPUs in time, but its end was seen only at the end of a round.
    Round,
}

impl MissCause {
    /// Returns the word used in files.
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
    /// Returns the [`job_id`] of the job.
    pub fn id(&self) -> Cow<'_, str> {
        job_id(self.name.as_ref(), self.job)
    }

    /// Returns the cause of a missed deadline; `None` if the deadline was not missed.
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
        // Tolerates rounding errors of a sum.
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

    /// Returns the job completion time: from submission until the end was seen. Only for jobs that
    /// did all their work, or that the scheduler ended at their goal ([`Outcome::Terminated`]).
    pub fn jct(&self) -> Option<Seconds> {
        match self.outcome {
            Some(Outcome::Completed | Outcome::Terminated) => self.finish.map(|f| f - self.submit),
            _ => None,
        }
    }

    /// Returns the result for the deadline; `None` without a deadline.
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

    /// Returns the responsiveness in seconds: first start - submission. `None` if the job never
    /// started. Known for jobs of any outcome.
    pub fn responsiveness(&self) -> Option<Seconds> {
        self.first_start.map(|s| s - self.submit)
    }

    /// Returns the queueing time in seconds: the part of the job completion time in which the job did
    /// not run (`jct - attained`, at least 0). `None` if [`JobResult::jct`] is.
    pub fn queueing(&self) -> Option<Seconds> {
        self.jct().map(|j| (j - self.attained).max(Seconds::ZERO))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_blamed_only_for_what_it_cost() {
        // Due at 1000 s: on one GPU for 600 s, and the end is seen at the end of a round of 300 s.
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
