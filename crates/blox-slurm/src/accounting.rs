//! Slurm's accounting as a workload.

use crate::document::each;
use crate::error::SlurmError;
use crate::import::{Counts, ImportError, Imported};
use crate::read::{number, text, words};
use blox_core::{Extras, GpuCount, JobSpec, Name, Seconds, Time};
use serde_json::Value;

impl Imported {
    /// Reads the text of `sacct --json`: jobs with GPUs that have ended, at their times of
    /// submission. The earliest arrives at time 0. There are no nodes.
    ///
    /// ```
    /// use blox_slurm::Imported;
    ///
    /// let text = br#"{"jobs": [{"job_id": 7, "user": "ada", "state": {"current": ["TIMEOUT"]},
    ///     "time": {"submission": 1000, "start": 1060, "elapsed": 600, "limit": {"number": 10}},
    ///     "tres": {"allocated": [{"type": "gres", "name": "gpu", "count": 2}]}}]}"#;
    /// let history = Imported::history(text)?;
    /// assert_eq!((history.jobs[0].gpus.get(), history.jobs[0].duration().secs()), (2, 600.0));
    /// # Ok::<(), blox_slurm::ImportError>(())
    /// ```
    ///
    /// # Errors
    /// The text is not Slurm's, or a job has no number or no time of submission.
    pub fn history(sacct: &[u8]) -> Result<Self, ImportError> {
        let mut imported = Imported::default();
        let mut out = Counts::default();
        each("sacct", sacct, "jobs", |job| {
            match spec(&job)? {
                Ok(spec) => imported.jobs.push(spec),
                Err(why) => out.add(why),
            }
            Ok(())
        })?;
        out.left_out("job", &mut imported.notices);
        imported.shift_to_zero();
        Ok(imported)
    }

    /// Sorts the jobs by their submission, and lets the first arrive at time 0.
    pub fn shift_to_zero(&mut self) {
        self.jobs.sort_by_key(|job| job.submit);
        let first = self.jobs.first().map_or(Time::ZERO, |job| job.submit);
        for job in &mut self.jobs {
            job.submit = Time::ZERO + job.submit.since(first);
        }
    }
}

/// Returns a job that has ended, else why it is left out.
fn spec(job: &Value) -> Result<Result<JobSpec, &'static str>, SlurmError> {
    let wrong = |expected| SlurmError::Output {
        program: "sacct",
        found: format!("the job {job}"),
        expected,
    };
    let id = number(job, "job_id").ok_or_else(|| wrong("a job with a number"))?;
    let of = |key: &str| job.get(key).unwrap_or(&Value::Null);
    let (time, tres, array) = (of("time"), of("tres"), of("array"));
    let (had, _) = gpus(tres, "allocated");
    let (asked, kind) = gpus(tres, "requested");
    let count = if had > 0 { had } else { asked };
    let Some(count) = u32::try_from(count).ok().filter(|n| *n > 0) else {
        return Ok(Err("without GPUs"));
    };
    let start = number(time, "start").unwrap_or(0);
    let state = words(of("state"), "current");
    match state.first().copied().unwrap_or_default() {
        "PENDING" | "CONFIGURING" | "REQUEUED" => return Ok(Err("never started")),
        "RUNNING" | "SUSPENDED" | "COMPLETING" => return Ok(Err("not ended")),
        _ if start == 0 => return Ok(Err("never started")),
        _ => {}
    }
    let submit = number(time, "submission");
    let submit = submit.ok_or_else(|| wrong("a job with a time of submission"))?;
    let name = |key: &str| Some(Name::from(text(job, key))).filter(|name| !name.is_empty());
    let limit = number(time, "limit").filter(|minutes| *minutes > 0);
    let extras = Extras {
        user_estimate: limit.map(|minutes| Seconds::new(minutes as f64 * 60.0)),
        gpu_types: kind.map(Name::from).into_iter().collect(),
        group: name("account"),
        ..Extras::default()
    };
    let elapsed = number(time, "elapsed").unwrap_or(0) as f64;
    let mut spec = JobSpec::new(
        Time::new(submit as f64),
        GpuCount(count),
        Seconds::new(elapsed),
    );
    spec.name = Some(Name::from(
        match (number(array, "job_id"), number(array, "task_id")) {
            (Some(array @ 1..), Some(task)) => format!("{array}_{task}"),
            _ => id.to_string(),
        },
    ));
    (spec.user, spec.virtual_cluster) = (name("user"), name("partition"));
    match extras == Extras::default() {
        true => Ok(Ok(spec)),
        false => Ok(Ok(spec.with_extras(extras))),
    }
}

/// Returns the number of GPUs in a list of resources, and their type if there is one.
fn gpus<'v>(tres: &'v Value, key: &str) -> (u64, Option<&'v str>) {
    let list = tres.get(key).and_then(Value::as_array);
    let of_gpus = list.into_iter().flatten().filter_map(|one| {
        let kind = match (text(one, "type"), text(one, "name")) {
            ("gres", name) => name.strip_prefix("gpu")?,
            (full, _) => full.strip_prefix("gres/gpu")?,
        };
        let kind = match kind.is_empty() {
            true => None,
            false => Some(kind.strip_prefix(':')?),
        };
        Some((number(one, "count").unwrap_or(0), kind))
    });
    // GPUs of a type count once more in the sum of all types.
    let (mut all, mut typed, mut first) = (None, 0, None);
    for (count, kind) in of_gpus.filter(|(count, _)| *count > 0) {
        match kind {
            None => all = Some(count),
            Some(_) => {
                typed += count;
                first = first.or(kind);
            }
        }
    }
    (all.unwrap_or(typed), first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(jobs: &[Value]) -> Imported {
        let text = json!({"meta": {}, "jobs": jobs, "errors": []}).to_string();
        Imported::history(text.as_bytes()).unwrap()
    }

    fn job(id: u32, submission: u64) -> Value {
        json!({
            "job_id": id, "user": "ada", "account": "vision", "partition": "gpu", "steps": [],
            "array": {"job_id": 0, "task_id": null}, "state": {"current": "COMPLETED"},
            "time": {"submission": submission, "start": submission + 5, "elapsed": 77, "limit": 60},
            "tres": {
                "requested": [{"type": "cpu", "name": null, "count": 8},
                    {"type": "gres", "name": "gpu:a100", "count": 4}],
                "allocated": [{"type": "gres", "name": "gpu", "count": 4},
                    {"type": "gres", "name": "gpu:a100", "count": 4}]
            }
        })
    }

    #[test]
    fn jobs_of_all_versions_are_read() {
        let mut newer = job(9, 990);
        newer["array"] =
            json!({"job_id": 8, "task_id": {"set": true, "infinite": false, "number": 0}});
        newer["state"]["current"] = json!(["TIMEOUT"]);
        newer["time"]["limit"] = json!({"set": false, "infinite": true, "number": 0});
        let read = read(&[job(7, 1000), newer]);
        assert_eq!(read.notices, Vec::<String>::new());
        let [first, second] = &read.jobs[..] else {
            panic!("{read:?}")
        };
        assert_eq!(first.name.as_deref(), Some("8_0"));
        assert_eq!(first.extras().user_estimate, None);
        assert_eq!((second.submit, second.gpus.get()), (Time::new(10.0), 4));
        assert_eq!(second.duration().secs(), 77.0);
        assert_eq!(second.extras().user_estimate, Some(Seconds::new(3600.0)));
        assert_eq!(second.extras().gpu_types, ["a100".into()]);
        assert_eq!(second.extras().group.as_deref(), Some("vision"));
        assert_eq!(second.virtual_cluster.as_deref(), Some("gpu"));
    }

    #[test]
    fn jobs_that_did_not_run_to_an_end_are_counted() {
        let mut all: Vec<Value> = (1..=5).map(|id| job(id, 1000)).collect();
        all[0]["tres"] = json!({"requested": [], "allocated": []});
        all[1]["state"]["current"] = json!("PENDING");
        all[2]["state"]["current"] = json!(["RUNNING"]);
        all[3]["time"]["start"] = json!(0);
        let read = read(&all);
        assert_eq!(read.jobs.len(), 1);
        assert_eq!(
            read.notices,
            [
                "left out 2 jobs: never started",
                "left out 1 job: not ended",
                "left out 1 job: without GPUs"
            ]
        );
        let error = Imported::history(br#"{"jobs": [{"x": 1}]}"#).unwrap_err();
        assert_eq!(
            error.to_string(),
            "sacct: found the job {\"x\":1}, expected a job with a number"
        );
    }
}
