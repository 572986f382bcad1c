//! Jobs as `squeue --json` shows them.

use crate::error::SlurmError;
use crate::hosts::hosts;
use crate::read::{gpus, number, text, words};
use blox_core::{Name, Outcome};
use serde_json::Value;

/// State of a job in Slurm, in the kinds that a scheduler distinguishes.
#[derive(Clone, Debug, PartialEq)]
pub enum JobState {
    /// The job waits, and Slurm does not start it: a user holds it.
    Held,
    /// The job waits, and Slurm starts it as soon as it can.
    Queued {
        /// Slurm's reason, such as `Resources`.
        why: String,
    },
    /// Slurm prepares the nodes of the job.
    Configuring,
    /// The job runs.
    Running,
    /// An administrator has suspended the job.
    Suspended,
    /// The job leaves its nodes.
    Completing,
    /// The job has ended.
    Over(Outcome, &'static str),
}

/// A job of Slurm.
#[derive(Clone, Debug, PartialEq)]
pub struct JobInfo {
    /// Slurm's number of the job.
    pub id: u32,
    /// The state.
    pub state: JobState,
    /// Slurm's reason of the state, such as `BadConstraints`; may be empty.
    pub reason: String,
    /// The name.
    pub name: String,
    /// The user.
    pub user: String,
    /// The partitions that it was submitted to.
    pub partition: String,
    /// The comment, in which a user describes the job for a scheduler.
    pub comment: String,
    /// Time of the submission, in seconds of Unix time.
    pub submit: u64,
    /// Start of the last launch in seconds of Unix time; 0 if unknown.
    pub start: u64,
    /// End in seconds of Unix time; 0 if unknown.
    pub end: u64,
    /// Time limit in minutes, if there is one.
    pub limit_min: Option<u64>,
    /// Number of restarts.
    pub restarts: u64,
    /// The nodes of a running job, each with its number of GPUs.
    pub on: Vec<(Name, u32)>,
    /// Number of requested GPUs; 0 for a job without GPUs.
    pub gpus: u32,
    /// Requested type of GPU.
    pub gpu_type: Option<Name>,
    /// Number of requested nodes.
    pub nodes: u32,
    /// CPU cores.
    pub cpus: u64,
    /// True if Slurm returns the job to its queue on request.
    pub requeues: bool,
    /// True if the GPUs are requested for each task, so that their number cannot change.
    pub per_task: bool,
    /// True if the job takes whole nodes.
    pub exclusive: bool,
    /// Time in seconds of Unix time before which Slurm does not start the job; 0 for none.
    pub begin: u64,
    /// Jobs that must end before it, as Slurm shows them; empty if it waits for none.
    pub dependency: String,
    /// Tasks of an array that have no numbers of their own yet, such as `1-9%2`; empty otherwise.
    pub tasks: String,
    /// Number of the array and of the task, for a task of an array with a number of its own.
    pub task: Option<(u32, u32)>,
    /// Number of the heterogeneous job that it is a part of.
    pub part_of: Option<u32>,
}

impl JobInfo {
    /// Reads the jobs of `squeue --json`.
    ///
    /// # Errors
    /// The value has no list of jobs, or one has no number.
    pub fn list(value: &Value) -> Result<Vec<JobInfo>, SlurmError> {
        let list = value.get("jobs").and_then(Value::as_array);
        let list = list.ok_or_else(|| SlurmError::Output {
            program: "squeue",
            found: "no list `jobs`".to_owned(),
            expected: "a list of jobs",
        })?;
        list.iter().map(JobInfo::read).collect()
    }

    /// Reads one job of `squeue --json`.
    pub(crate) fn read(job: &Value) -> Result<Self, SlurmError> {
        JobInfo::of(job).ok_or_else(|| SlurmError::Output {
            program: "squeue",
            found: format!("the job {job}"),
            expected: "a job with a number",
        })
    }

    fn of(job: &Value) -> Option<Self> {
        let id = u32::try_from(number(job, "job_id")?).ok()?;
        let nodes = number(job, "node_count").unwrap_or(1).max(1) as u32;
        let tasks = number(job, "tasks").unwrap_or(1).max(1) as u32;
        let asked = |key: &str, times: u32| {
            let (count, kind) = gpus(text(job, key))?;
            Some((count.saturating_mul(times), kind))
        };
        // Other requests, as for each socket, are only in the sum, if Slurm accounts GPUs.
        let sum = || {
            let mut all = text(job, "tres_req_str").split(',');
            all.find_map(|part| Some((part.strip_prefix("gres/gpu=")?.parse().ok()?, None)))
        };
        let asked = (asked("tres_per_job", 1))
            .or_else(|| asked("tres_per_node", nodes))
            .or_else(|| asked("tres_per_task", tasks))
            .or_else(sum);
        let (count, kind) = asked.unwrap_or_default();
        let names = hosts(text(job, "nodes")).unwrap_or_default();
        let details = words(job, "gres_detail");
        let on = names.into_iter().enumerate().map(|(i, name)| {
            let its = details.get(i).and_then(|detail| gpus(detail));
            (Name::from(name), its.map_or(0, |(count, _)| count))
        });
        Some(JobInfo {
            id,
            state: state(job),
            reason: text(job, "state_reason").to_owned(),
            name: text(job, "name").to_owned(),
            user: text(job, "user_name").to_owned(),
            partition: text(job, "partition").to_owned(),
            comment: text(job, "comment").to_owned(),
            submit: number(job, "submit_time").unwrap_or(0),
            start: number(job, "start_time").unwrap_or(0),
            end: number(job, "end_time").unwrap_or(0),
            limit_min: number(job, "time_limit"),
            restarts: number(job, "restart_cnt").unwrap_or(0),
            on: on.collect(),
            gpus: count,
            gpu_type: kind.map(Name::from),
            nodes,
            cpus: number(job, "cpus").unwrap_or(0),
            requeues: job.get("requeue").and_then(Value::as_bool) != Some(false),
            per_task: gpus(text(job, "tres_per_task")).is_some(),
            exclusive: ["none", "exclusive"].contains(&text(job, "shared"))
                || words(job, "exclusive").contains(&"true"),
            begin: number(job, "eligible_time").unwrap_or(0),
            dependency: text(job, "dependency").to_owned(),
            tasks: text(job, "array_task_string").to_owned(),
            task: positive(job, "array_job_id").zip(whole(job, "array_task_id")),
            part_of: positive(job, "het_job_id"),
        })
    }

    /// Returns whether it is an array whose tasks have no numbers of their own yet.
    pub fn is_array(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// Returns whether the job has GPUs at present.
    pub fn has_gpus(&self) -> bool {
        use JobState::{Completing, Configuring, Running, Suspended};
        matches!(self.state, Running | Completing | Configuring | Suspended)
    }
}

fn whole(job: &Value, key: &str) -> Option<u32> {
    u32::try_from(number(job, key)?).ok()
}

fn positive(job: &Value, key: &str) -> Option<u32> {
    whole(job, key).filter(|n| *n > 0)
}

fn state(job: &Value) -> JobState {
    let states = words(job, "job_state");
    let flags = words(job, "flags");
    let has = |name: &str| states.contains(&name) || flags.contains(&name);
    let reason = text(job, "state_reason");
    let held = number(job, "priority") == Some(0)
        || reason.starts_with("JobHeld")
        || has("REQUEUE_HOLD")
        || has("SPECIAL_EXIT");
    if has("COMPLETING") {
        return JobState::Completing;
    }
    if has("CONFIGURING") {
        return JobState::Configuring;
    }
    let over = |outcome, why| JobState::Over(outcome, why);
    match states.first().copied().unwrap_or_default() {
        "PENDING" | "REQUEUED" | "REQUEUE_HOLD" | "SPECIAL_EXIT" | "REQUEUE_FED" => match held {
            true => JobState::Held,
            false => JobState::Queued {
                why: reason.to_owned(),
            },
        },
        "RUNNING" | "SIGNALING" | "STAGE_OUT" | "RESIZING" => JobState::Running,
        "SUSPENDED" | "STOPPED" => JobState::Suspended,
        "COMPLETED" => over(Outcome::Completed, "completed"),
        "CANCELLED" | "REVOKED" => over(Outcome::Cancelled, "was cancelled"),
        "TIMEOUT" => over(Outcome::Failed, "reached its time limit"),
        "DEADLINE" => over(Outcome::Failed, "reached its deadline"),
        "NODE_FAIL" => over(Outcome::Failed, "lost its node"),
        "BOOT_FAIL" => over(Outcome::Failed, "had no node that starts"),
        "OUT_OF_MEMORY" => over(Outcome::Failed, "ran out of memory"),
        "PREEMPTED" => over(Outcome::Failed, "was preempted by Slurm"),
        _ => over(Outcome::Failed, "failed"),
    }
}
