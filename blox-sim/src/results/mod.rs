//! Collectors of a simulation and their rows: jobs, decisions, assignments, waits, use of the cluster.
//!
//! `blox_results` computes summaries of them, and writes tables.

mod assignments;
mod bills;
mod fingerprint;
mod recorder;
mod services;
mod timeline;
mod training;
mod usage;
mod waits;

pub(crate) use assignments::Occupancy;
pub use assignments::{AssignmentRow, AssignmentSink, SharedSink};
pub(crate) use bills::Bills;
pub use fingerprint::Fingerprint;
pub(crate) use recorder::is_rigid;
pub use recorder::{Moment, Recorder, RoundRow};
pub use services::Service;
pub use timeline::TimelineRow;
pub use training::{Contention, Given};
pub use usage::{Rent, Usage};
pub(crate) use waits::Waits;
pub use waits::{SharedWaitSink, WaitRow, WaitSink, WaitSpan};

use blox_core::reason::ReasonLabel;
use blox_core::{JobId, JobSpec, Name, Outcome, Seconds, Time};
use serde::{Deserialize, Serialize};
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
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
    pub reason_kind: Option<ReasonLabel>,
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
    /// For a job with a deadline that completed: time at which its work was done. With rounds, often
    /// before [`JobResult::finish`]. `None` for other jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worked_until: Option<Time>,
    /// For a training job: its allocated resources; `None` for other jobs. Boxed, since there can be
    /// a million rows without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given: Option<Box<Given>>,
    /// For a service: what it needed and lacked; `None` for other jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<Box<Service>>,
    /// Number of times that a decision stopped the spot job within its guaranteed time.
    #[serde(skip_serializing_if = "is_zero")]
    pub broken: u32,
    /// Cost of the job's GPUs while it ran; 0 without prices. On each node, the job pays for its hours
    /// and its part of the node's GPUs, at the price of the node at the time.
    #[serde(skip_serializing_if = "is_free")]
    pub cost: f64,
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
    /// All work was done in time, but the end was seen only at the end of a round.
    Round,
    /// Even an immediate start would have missed it.
    Impossible,
    /// The job crashed, or lost a node, at least once.
    Crashes,
    /// Without its own overheads ([`JobResult::overhead`]), the work would have been done in time.
    Overheads,
    /// Without waiting, the work would have been done in time, or the job had fewer or slower GPUs
    /// than it could have used. Other jobs had them, with their own overheads and crashes, or nothing
    /// had been guaranteed.
    Waiting,
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

fn is_free(cost: &f64) -> bool {
    *cost == 0.0
}

impl JobResult {
    /// Returns the [`job_id`] of the job.
    pub fn id(&self) -> Cow<'_, str> {
        job_id(self.name.as_ref(), self.job)
    }

    /// Returns the first deadline of the job, in whichever class it was submitted.
    pub fn first_deadline(&self) -> Option<Time> {
        let extras = || self.spec.as_ref()?.extras.as_ref();
        self.deadline
            .or_else(|| extras()?.deadlines.first().map(|d| d.at))
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
        let worked_until = self.worked_until.unwrap_or(end);
        Some(match () {
            () if worked_until <= due => MissCause::Round,
            () if self.submit + self.least > due => MissCause::Impossible,
            () if self.crashes > 0 => MissCause::Crashes,
            () if worked_until - self.overhead <= due => MissCause::Overheads,
            () => MissCause::Waiting,
        })
    }

    /// Returns the job completion time: from submission until the end was seen. Only for jobs that
    /// did all their work, or that the scheduler ended at their goal ([`Outcome::Terminated`]). A
    /// service has none.
    pub fn jct(&self) -> Option<Seconds> {
        match self.outcome {
            Some(Outcome::Completed | Outcome::Terminated) if self.service.is_none() => {
                self.finish.map(|f| f - self.submit)
            }
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
    fn a_miss_is_judged_by_the_end_of_the_work() {
        // Due at 1000 s: on one GPU for 600 s, with 30 s to launch; the end is seen in a round.
        let job = |least: f64, worked_until: f64, finish: f64| JobResult {
            outcome: Some(Outcome::Completed),
            gpus: 1,
            duration: Seconds::new(600.0),
            least: Seconds::new(least),
            overhead: Seconds::new(30.0),
            worked_until: Some(Time::new(worked_until)),
            finish: Some(Time::new(finish)),
            deadline: Some(Time::new(1000.0)),
            ..JobResult::default()
        };
        let cause = |j: JobResult| j.miss_cause();
        assert_eq!(cause(job(600.0, 630.0, 900.0)), None);
        // Due only after the work was done: neither the launch nor a wait is the cause.
        assert_eq!(cause(job(600.0, 990.0, 1020.0)), Some(MissCause::Round));
        assert_eq!(cause(job(600.0, 1000.0, 1200.0)), Some(MissCause::Round));
        assert_eq!(
            cause(job(600.0, 1030.0, 1200.0)),
            Some(MissCause::Overheads)
        );
        assert_eq!(cause(job(600.0, 1031.0, 1200.0)), Some(MissCause::Waiting));
        assert_eq!(cause(job(0.0, 1200.0, 1200.0)), Some(MissCause::Waiting));
        assert_eq!(
            cause(job(1001.0, 1031.0, 1200.0)),
            Some(MissCause::Impossible)
        );
        let crashed = JobResult {
            crashes: 1,
            ..job(600.0, 1030.0, 1200.0)
        };
        assert_eq!(cause(crashed), Some(MissCause::Crashes));
    }
}
