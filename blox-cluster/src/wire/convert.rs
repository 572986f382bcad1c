//! Conversions between messages and protocol types.

use super::pb;
use crate::history::{Account, By};
use crate::protocol::message::{first_protocol, understands};
use crate::protocol::timers::{LEASES_S, LONGEST_GRACE_S};
use crate::protocol::{AttemptId, Orders, PROTOCOL, Report};
use blox_core::{
    Adapts, Deadline, Extras, GpuCount, JobSpec, Name, Seconds, Share, Submission, Time,
    TrainingSpec, Work,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::sync::Arc;

/// A protobuf message that failed validation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {found}, expected {expected}")]
pub struct WireError {
    /// The field.
    pub field: &'static str,
    /// The value found.
    pub found: String,
    /// The expected value.
    pub expected: &'static str,
}

impl WireError {
    /// Returns true if the sender has a protocol version that this program does not understand.
    pub fn is_of_version(&self) -> bool {
        self.field == VERSION
    }
}

/// Field of the error of a protocol version.
const VERSION: &str = "the sender's protocol version";

fn wrong(field: &'static str, found: String, expected: &'static str) -> WireError {
    WireError {
        field,
        found,
        expected,
    }
}

fn finite(field: &'static str, x: f64) -> Result<f64, WireError> {
    if x.is_finite() && x >= 0.0 {
        return Ok(x);
    }
    let expected = "a finite number that is not negative";
    Err(wrong(field, x.to_string(), expected))
}

fn name_of(text: &str) -> Option<Name> {
    (!text.is_empty()).then(|| Name::from(text))
}

/// Returns the part of each GPU; 0 is the whole GPU, and memory that is not counted.
fn share_of(compute: f64, memory: f64) -> Result<Share, WireError> {
    let part = |field, part| {
        let expected = "a part from 1/21000 to 1";
        Share::of(part).ok_or_else(|| wrong(field, part.to_string(), expected))
    };
    let share = match compute {
        0.0 => Share::WHOLE,
        _ => part("gpu_share", compute)?,
    };
    Ok(match memory {
        0.0 => share,
        _ => share.with_memory_of(part("gpu_memory_share", memory)?),
    })
}

/// Parses a text that may be empty.
fn written<T: FromStr<Err = &'static str>>(
    field: &'static str,
    text: &str,
) -> Result<Option<T>, WireError> {
    if text.is_empty() {
        return Ok(None);
    }
    let value = text.parse();
    let value = value.map_err(|expected| wrong(field, format!("`{text}`"), expected))?;
    Ok(Some(value))
}

/// Values of the protocol always have a JSON form.
fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

/// Parses a message of another process. Fields that this version does not know have no effect.
fn parsed<T: DeserializeOwned>(field: &'static str, json: &[u8]) -> Result<T, WireError> {
    let expected = "JSON of a program of this version";
    serde_json::from_slice(json).map_err(|e| wrong(field, format!("unreadable ({e})"), expected))
}

impl From<AttemptId> for pb::AttemptId {
    fn from(id: AttemptId) -> Self {
        pb::AttemptId {
            job: id.job.0,
            attempt: id.attempt,
        }
    }
}

/// The part of a message that all protocol versions have.
#[derive(Deserialize)]
struct Head {
    #[serde(default = "first_protocol")]
    protocol: u32,
}

/// Checks the protocol version of a message before the rest of it, which another version may have
/// changed.
fn check_version(json: &[u8]) -> Result<(), WireError> {
    match serde_json::from_slice::<Head>(json) {
        Ok(Head { protocol }) if !understands(protocol) => {
            let found = format!("{protocol} and that of the receiver {PROTOCOL}");
            let expected = "a difference of 1 at most: upgrade one version at a time";
            Err(wrong(VERSION, found, expected))
        }
        // The parser of the message names other errors.
        _ => Ok(()),
    }
}

impl From<&Report> for pb::Report {
    fn from(report: &Report) -> Self {
        let json = json(report);
        pb::Report { json }
    }
}

impl TryFrom<pb::Report> for Report {
    type Error = WireError;

    fn try_from(report: pb::Report) -> Result<Self, WireError> {
        check_version(&report.json)?;
        let report: Report = parsed("report", &report.json)?;
        for progress in report.attempts.iter().filter_map(|a| a.reported.progress) {
            finite("progress.done", progress.done)?;
            finite("progress.saved", progress.saved)?;
        }
        Ok(report)
    }
}

impl From<&Orders> for pb::Orders {
    fn from(orders: &Orders) -> Self {
        let json = json(orders);
        pb::Orders { json }
    }
}

impl TryFrom<pb::Orders> for Orders {
    type Error = WireError;

    fn try_from(orders: pb::Orders) -> Result<Self, WireError> {
        check_version(&orders.json)?;
        parsed("orders", &orders.json)
    }
}

impl From<pb::AccountsBy> for By {
    fn from(by: pb::AccountsBy) -> Self {
        match by {
            pb::AccountsBy::User => By::User,
            pb::AccountsBy::Job => By::Job,
            pb::AccountsBy::Day => By::Day,
            pb::AccountsBy::Queue => By::Queue,
            pb::AccountsBy::GpuType => By::GpuType,
        }
    }
}

impl From<Account> for pb::GroupLine {
    fn from(account: Account) -> Self {
        let [completed, failed, cancelled, rejected] = account.outcomes;
        pb::GroupLine {
            group: account.group,
            jobs: account.jobs,
            completed,
            failed,
            cancelled,
            rejected,
            timed_out: account.timed_out,
            gpu_h: account.gpu_h,
            lost_gpu_h: account.lost_gpu_h,
            wait_mean_s: account.wait_mean_s,
            wait_median_s: account.wait_median_s,
        }
    }
}

/// Largest number of characters in a job's name, user and queue, which job listings show.
const LONGEST_NAME: usize = 100;

/// Attributes with a protobuf field of their own.
const OWN: [&str; 10] = [
    "array",
    "env",
    "working_directory",
    "grace_s",
    "lease_s",
    "stall_s",
    "max_retries",
    "on_exit",
    "time_limit_s",
    "processes",
];

/// Most CPU cores and GiB that a job can request. More cannot be intended.
const MOST: f64 = 1e6;
/// Shortest time without an iteration in seconds that ends a launch.
const LEAST_STALL_S: f64 = 1.0;
/// Longest time limit in seconds: ten years.
const LONGEST_LIMIT_S: f64 = 315_360_000.0;

fn on_exit_from(rules: BTreeMap<i32, i32>) -> Result<serde_json::Value, WireError> {
    let expected = "what an exit code means";
    let word = |(code, value): (i32, i32)| {
        let known = pb::OnExit::try_from(value).unwrap_or_default();
        match known.as_str_name().strip_prefix("ON_EXIT_") {
            Some(word) if known != pb::OnExit::Unspecified => {
                Ok((code.to_string(), word.to_lowercase().into()))
            }
            _ => Err(wrong("on_exit", value.to_string(), expected)),
        }
    };
    let all = rules.into_iter().map(word);
    Ok(serde_json::Value::Object(all.collect::<Result<_, _>>()?))
}

/// Returns a number with few digits, also if it is very large or close to 0.
fn short(number: f64) -> String {
    match number == 0.0 || (1e-6..1e15).contains(&number.abs()) {
        true => number.to_string(),
        false => format!("{number:.2e}"),
    }
}

/// Rejects a new job with values that cannot be intended. Not part of [`job_spec`], which also
/// accepts jobs from before a check was added.
///
/// # Errors
/// A value would have no effect or is out of range.
pub fn check_new(j: &pb::Job) -> Result<(), WireError> {
    let types = j.gpu_types.iter().map(|name| ("gpu_types", name));
    let names = [("name", &j.name), ("user", &j.user), ("queue", &j.queue)];
    for (field, text) in names.into_iter().chain(types) {
        let length = text.chars().count();
        if length > LONGEST_NAME {
            let found = format!("{length} characters long");
            return Err(wrong(field, found, "100 characters at most"));
        }
    }
    let complete = i32::from(pb::OnExit::Complete);
    for (code, meaning) in &j.on_exit {
        let is_sound = match code {
            0 => *meaning == complete,
            _ => (1..=255).contains(code),
        };
        if !is_sound {
            let expected = "an exit code from 1 to 255, or 0=complete";
            return Err(wrong("on_exit", code.to_string(), expected));
        }
    }
    let is_name = |k: &String| !k.is_empty() && !k.contains(['=', '\0']);
    let pair = "a name, `=` and a value";
    if let Some((name, value)) = j.env.iter().find(|(k, _)| !is_name(k)) {
        return Err(wrong("env", format!("`{name}={value}`"), pair));
    }
    if let Some(value) = j.attributes.get("") {
        return Err(wrong("attributes", format!("`={value}`"), pair));
    }
    if !j.levels.is_sorted() || j.levels.first() == Some(&0) {
        let found = format!("{:?}", j.levels);
        return Err(wrong("levels", found, "ascending counts of at least 1"));
    }
    // `job_spec` reports invalid JSON.
    let training = serde_json::from_str::<TrainingSpec>(&j.training).ok();
    if training.is_some_and(|t| t.adapts == Adapts::Gpus && j.batch_size < t.initial_batch)
        && j.batch_size > 0
    {
        let least = "at least the initial_batch of its training, as its batch stays";
        return Err(wrong("batch_size", j.batch_size.to_string(), least));
    }
    for (field, amount) in [("cpus", j.cpus), ("memory_gib", j.memory_gib)] {
        if amount > MOST {
            let expected = "a million at most";
            return Err(wrong(field, short(amount), expected));
        }
    }
    let is_limit = |secs: f64| secs > 0.0 && secs <= LONGEST_LIMIT_S;
    if let Some(secs) = j.time_limit_s.filter(|secs| !is_limit(*secs)) {
        let expected = "above 0, and ten years at most";
        return Err(wrong(
            "time_limit_s",
            format!("{} s", short(secs)),
            expected,
        ));
    }
    if j.processes == Some(0) {
        return Err(wrong("processes", "0".to_owned(), "at least 1"));
    }
    if j.command.first().is_none_or(String::is_empty) {
        return Err(wrong("command", "empty".to_owned(), "a program"));
    }
    if let Some(grace_s) = j.grace_s.filter(|s| !(*s > 0.0 && *s <= LONGEST_GRACE_S)) {
        let expected = "above 0, and a day (86400 s) at most";
        return Err(wrong("grace_s", format!("{} s", short(grace_s)), expected));
    }
    let (least, most) = LEASES_S;
    if let Some(lease_s) = j.lease_s.filter(|s| !(least..=most).contains(s)) {
        let expected = "10 s at least, and a day (86400 s) at most";
        return Err(wrong("lease_s", format!("{} s", short(lease_s)), expected));
    }
    let stall = |s: &f64| (LEAST_STALL_S..=LONGEST_LIMIT_S).contains(s);
    if let Some(stall_s) = j.stall_s.filter(|s| !stall(s)) {
        let expected = "1 s at least, and ten years at most";
        return Err(wrong("stall_s", format!("{} s", short(stall_s)), expected));
    }
    Ok(())
}

/// Converts a job from its message.
///
/// # Errors
/// A value is invalid.
pub fn job_spec(j: pb::Job) -> Result<JobSpec, WireError> {
    let estimate_s = finite("estimate_s", j.estimate_s)?;
    let mut extras = Extras {
        model: name_of(&j.model),
        cpus: finite("cpus", j.cpus)?,
        memory_gib: finite("memory_gib", j.memory_gib)?,
        command: j.command,
        user_estimate: (estimate_s > 0.0).then(|| Seconds::new(estimate_s)),
        levels: j.levels.into_iter().map(GpuCount).collect(),
        gpu_types: j.gpu_types.into_iter().map(Name::from).collect(),
        nodes: NonZeroU32::new(j.nodes),
        batch_size: (j.batch_size > 0).then_some(j.batch_size),
        group: name_of(&j.group),
        weight: finite("weight", j.weight)?,
        share: share_of(j.gpu_share, j.gpu_memory_share)?,
        class: written("class", &j.class)?.unwrap_or_default(),
        need: written("need", &j.need)?,
        ..Extras::default()
    };
    for rate in j.rates {
        extras.rates.push(finite("rates", rate)?);
    }
    for at in j.deadlines_s {
        // Relative to the submission; the scheduler adds the submission time.
        extras.deadlines.push(Deadline {
            at: Time::new(finite("deadlines_s", at)?),
            value: 1.0,
        });
    }
    for (key, text) in j.attributes {
        let value = serde_json::from_str(&text).ok();
        let value = value.filter(|_| !OWN.contains(&key.as_str()));
        let expected = "a name of your own and a value in JSON";
        let found = || format!("`{key}` = `{text}`");
        let value = value.ok_or_else(|| wrong("attributes", found(), expected))?;
        extras.attributes.insert(key.into(), value);
    }
    if !j.training.is_empty() {
        let expected = "what a job that trains says of its batches";
        let training = serde_json::from_str(&j.training);
        let training = training.map_err(|e| wrong("training", e.to_string(), expected))?;
        extras.training = Some(Arc::new(training));
    }
    if !j.on_exit.is_empty() {
        let rules = on_exit_from(j.on_exit)?;
        extras.attributes.insert("on_exit".into(), rules);
    }
    let mut set = |key: &str, value: serde_json::Value| {
        extras.attributes.insert(key.into(), value);
    };
    if !j.env.is_empty() {
        set("env", j.env.into_iter().collect());
    }
    if !j.working_directory.is_empty() {
        set("working_directory", j.working_directory.into());
    }
    if let Some(grace_s) = j.grace_s {
        set("grace_s", finite("grace_s", grace_s)?.into());
    }
    if let Some(lease_s) = j.lease_s {
        set("lease_s", finite("lease_s", lease_s)?.into());
    }
    if let Some(stall_s) = j.stall_s {
        set("stall_s", finite("stall_s", stall_s)?.into());
    }
    if let Some(n) = j.max_retries {
        set("max_retries", n.into());
    }
    if let Some(secs) = j.time_limit_s {
        set("time_limit_s", finite("time_limit_s", secs)?.into());
    }
    if let Some(most) = j.processes {
        set("processes", most.into());
    }
    Ok(JobSpec {
        work: Work {
            iterations: finite("iterations", j.iterations)?,
            rate: finite("rate", j.rate)?,
        },
        submission: Submission {
            priority: j.priority,
            name: name_of(&j.name),
            user: name_of(&j.user),
            virtual_cluster: name_of(&j.queue),
            extras: Some(Box::new(extras)),
            ..Submission::new(Time::ZERO, GpuCount(j.gpus))
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{
        AttemptReport, ClusterId, Epoch, Exit, Fence, Final, Incarnation, JobReport, Millis, Order,
        Progress, Session, Status, Task, Wish,
    };
    use blox_core::{JobId, NodeSpec, Share};
    use serde_json::json;

    #[test]
    fn a_report_comes_back_as_it_went() {
        let attempt = |attempt, status| AttemptReport {
            lease_left: None,
            id: AttemptId {
                job: JobId(3),
                attempt,
            },
            fence: Fence(9),
            status,
            port: 29_500,
            reported: JobReport {
                progress: Some(Progress {
                    done: 5.0,
                    saved: 4.0,
                }),
                metrics: [("loss".into(), 0.5)].into(),
            },
        };
        let ended = Final {
            exited_zero: true,
            exit: Exit::Failed { code: 3 },
            ran: Millis(77),
            estimated: false,
            why: "rank 0".to_owned(),
        };
        let report = Report {
            protocol: PROTOCOL,
            absence: None,
            node: "n".into(),
            boot: "b".into(),
            session: Session(1),
            seq: 2,
            cluster: Some(ClusterId("c".into())),
            epoch: Epoch(3),
            incarnation: Incarnation(4),
            offer: Arc::new(NodeSpec::with_gpus(8).of_type("a100")),
            address: "10.0.0.1".into(),
            attempts: vec![attempt(1, Status::Running), attempt(2, Status::Done(ended))],
            trouble: None,
            failed_gpus: Default::default(),
            unknown_health: None,
        };
        let mut sent = pb::Report::from(&report);
        assert_eq!(Report::try_from(sent.clone()), Ok(report.clone()));
        // A later version may add a field.
        assert_eq!(sent.json.remove(0), b'{');
        sent.json.splice(0..0, *b"{\"humidity\":0.4,");
        assert_eq!(Report::try_from(sent.clone()), Ok(report));
        // It may not leave one out.
        sent.json = b"{\"node\":\"n\"}".to_vec();
        let refused = Report::try_from(sent).unwrap_err().to_string();
        assert!(refused.contains("missing field `boot`"), "{refused}");
    }

    #[test]
    fn orders_round_trip_with_any_share() {
        for share in [Share::WHOLE, Share::WHOLE.overlapping()] {
            let task = Task {
                spec: Arc::new(JobSpec::new(Time::ZERO, GpuCount(2), Seconds::new(60.0))),
                gpus: vec![1, 0],
                ranks: vec![0, 1],
                world: 2,
                node_rank: 0,
                nodes: vec!["n".into()],
                share,
                gpu_memory_gib: 0.0,
                cpus: 4.0,
                memory_gib: 8.0,
                config: blox_core::Config::NONE,
            };
            let id = AttemptId {
                job: JobId(9),
                attempt: 1,
            };
            let order = Order {
                lease: None,
                id,
                fence: Fence(5),
                wish: Wish::Prepare,
                task: Some(Arc::new(task)),
                leaves_in: Some(Millis(1)),
                time_left: Some(Millis(2)),
            };
            let orders = Orders {
                protocol: PROTOCOL,
                timers: None,
                node: "n".into(),
                cluster: ClusterId("c".into()),
                epoch: Epoch(1),
                incarnation: Incarnation(1),
                session: Session(1),
                seq: 1,
                reply_to: 2,
                orders: vec![order],
                forget: vec![id],
            };
            assert_eq!(Orders::try_from(pb::Orders::from(&orders)), Ok(orders));
        }
    }

    #[test]
    fn nonsense_is_refused_by_field() {
        let refusal = |r: serde_json::Value| {
            let json = r.to_string().into_bytes();
            Report::try_from(pb::Report { json })
                .unwrap_err()
                .to_string()
        };
        let progress = json!({ "done": -1.0, "saved": 0.0 });
        let attempt = json!({
            "id": { "job": 0, "attempt": 1 }, "fence": 1, "status": "Running", "port": 0,
            "said": { "progress": progress },
        });
        let mut report = json!({
            "node": "n", "boot": "b", "session": 1, "seq": 1, "cluster": null, "epoch": 0,
            "incarnation": 0, "offer": { "gpus": 1 }, "address": "a", "attempts": [attempt],
        });
        assert_eq!(
            refusal(report.clone()),
            "progress.done is -1, expected a finite number that is not negative"
        );
        report["offer"]["cpus"] = json!(null);
        assert!(
            refusal(report).starts_with("report is unreadable (invalid type: null, expected f64")
        );
        let json = Vec::new();
        let orders = Orders::try_from(pb::Orders { json })
            .unwrap_err()
            .to_string();
        assert!(orders.starts_with("orders is unreadable (EOF"), "{orders}");
    }

    #[test]
    fn what_would_be_of_no_effect_does_not_come_in() {
        let job = || pb::Job {
            command: vec!["true".into()],
            ..pb::Job::default()
        };
        let on_exit = |code| pb::Job {
            on_exit: [(code, pb::OnExit::Fail.into())].into(),
            ..job()
        };
        let env = |name: &str| pb::Job {
            env: [(name.to_owned(), "x".to_owned())].into(),
            ..job()
        };
        let grace_s = |grace_s| pb::Job {
            grace_s: Some(grace_s),
            ..job()
        };
        let name = |length| pb::Job {
            name: "ä".repeat(length),
            ..job()
        };
        let sound = [job(), on_exit(1), on_exit(255), env("A"), grace_s(86_400.0)];
        let zero = pb::Job {
            on_exit: [(0, pb::OnExit::Complete.into())].into(),
            ..job()
        };
        for sound in sound.into_iter().chain([name(100), zero]) {
            assert_eq!(check_new(&sound), Ok(()));
        }
        let codes = "expected an exit code from 1 to 255, or 0=complete";
        let names = "expected a name, `=` and a value";
        let graces = "expected above 0, and a day (86400 s) at most";
        for (wrong, message) in [
            (on_exit(0), format!("on_exit is 0, {codes}")),
            (on_exit(300), format!("on_exit is 300, {codes}")),
            (on_exit(-3), format!("on_exit is -3, {codes}")),
            (env(""), format!("env is `=x`, {names}")),
            (
                name(101),
                "name is 101 characters long, expected 100 characters at most".to_owned(),
            ),
            (
                pb::Job {
                    gpu_types: vec!["a100".to_owned(), "x".repeat(101)],
                    ..job()
                },
                "gpu_types is 101 characters long, expected 100 characters at most".to_owned(),
            ),
            (env("A=B"), format!("env is `A=B=x`, {names}")),
            (
                pb::Job {
                    attributes: [(String::new(), "3".to_owned())].into(),
                    ..job()
                },
                format!("attributes is `=3`, {names}"),
            ),
            (
                pb::Job {
                    memory_gib: 1e300,
                    ..job()
                },
                "memory_gib is 1.00e300, expected a million at most".to_owned(),
            ),
            (
                pb::Job::default(),
                "command is empty, expected a program".to_owned(),
            ),
            (grace_s(1e9), format!("grace_s is 1000000000 s, {graces}")),
            (grace_s(1e300), format!("grace_s is 1.00e300 s, {graces}")),
            (grace_s(0.0), format!("grace_s is 0 s, {graces}")),
            (grace_s(-1.0), format!("grace_s is -1 s, {graces}")),
            (grace_s(f64::NAN), format!("grace_s is NaN s, {graces}")),
        ] {
            assert_eq!(check_new(&wrong).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn a_job_is_taken_in_as_its_message_describes_it() {
        let types = json!({ "t4": { "per_gpu": [8, 64], "one_gpu_rate": 100.0, "stages": 2 } });
        let training = json!({
            "initial_batch": 64,
            "max_batch": 256,
            "adapts": "gpus",
            "restart": 1.5,
            "types": types,
        });
        let training: TrainingSpec = serde_json::from_value(training).unwrap();
        let job = pb::Job {
            training: serde_json::to_string(&training).unwrap(),
            name: "resnet".into(),
            gpus: 4,
            iterations: 100.0,
            rate: 2.0,
            command: vec!["python".into(), "train.py".into()],
            env: [("A".to_owned(), "b".to_owned())].into(),
            working_directory: "/data".into(),
            grace_s: Some(2.5),
            stall_s: Some(90.0),
            max_retries: Some(0),
            on_exit: [(3, pb::OnExit::Fail.into())].into(),
            levels: vec![1, 2, 4],
            rates: vec![1.0, 1.5, 2.0],
            deadlines_s: vec![60.0],
            batch_size: 64,
            group: "search".into(),
            weight: 2.0,
            nodes: 2,
            gpu_share: 0.5,
            gpu_memory_share: 0.25,
            class: "spot:60".into(),
            need: "0:1;60:2/120".into(),
            attributes: [("gmem".to_owned(), "2458.5".to_owned())].into(),
            ..pb::Job::default()
        };
        let expected = json!({
            "submit": 0.0,
            "gpus": 4,
            "work": { "iterations": 100.0, "rate": 2.0 },
            "job_id": "resnet",
            "extras": {
                "command": ["python", "train.py"],
                "levels": [1, 2, 4],
                "rates": [1.0, 1.5, 2.0],
                "deadlines": [{ "at": 60.0, "value": 1.0 }],
                "batch_size": 64,
                "group": "search",
                "weight": 2.0,
                "nodes": 2,
                "share": { "compute": 10500, "memory": 5250 },
                "class": "spot:60",
                "need": { "period": 120.0, "steps": [[0.0, 1.0], [60.0, 2.0]] },
                "attributes": {
                    "gmem": 2458.5,
                    "env": { "A": "b" },
                    "working_directory": "/data",
                    "grace_s": 2.5,
                    "stall_s": 90.0,
                    "max_retries": 0,
                    "on_exit": { "3": "fail" },
                },
                "training": training,
            },
        });
        let expected: JobSpec = serde_json::from_value(expected).unwrap();
        assert_eq!(job_spec(job.clone()).unwrap(), expected);
        let wrong = pb::Job {
            estimate_s: f64::NAN,
            ..pb::Job::default()
        };
        let message = job_spec(wrong).unwrap_err().to_string();
        assert!(message.starts_with("estimate_s is NaN"), "{message}");
        let wrong = pb::Job {
            attributes: [("env".to_owned(), "{}".to_owned())].into(),
            ..pb::Job::default()
        };
        let message = job_spec(wrong).unwrap_err().to_string();
        assert!(
            message.starts_with("attributes is `env` = `{}`"),
            "{message}"
        );
        let default = pb::Job::default;
        let part = "expected a part from 1/21000 to 1";
        for (wrong, text) in [
            (
                pb::Job { gpu_share: 1.5, ..default() },
                format!("gpu_share is 1.5, {part}"),
            ),
            (
                pb::Job { gpu_share: -0.5, ..default() },
                format!("gpu_share is -0.5, {part}"),
            ),
            (
                pb::Job { gpu_memory_share: f64::NAN, ..default() },
                format!("gpu_memory_share is NaN, {part}"),
            ),
            (
                pb::Job { class: "on demand".into(), ..default() },
                "class is `on demand`, expected guaranteed, best-effort, spot or spot:SECONDS".into(),
            ),
            (
                pb::Job { need: "3".into(), ..default() },
                "need is `3`, expected SECONDS:VALUE joined by `;`, ascending from 0, then /PERIOD, above the last".into(),
            ),
        ] {
            assert_eq!(job_spec(wrong).unwrap_err().to_string(), text);
        }
        let wrong = pb::Job {
            training: r#"{"initial_batch": 64}"#.into(),
            ..pb::Job::default()
        };
        let message = job_spec(wrong).unwrap_err().to_string();
        assert!(
            message.starts_with("training is missing field"),
            "{message}"
        );
        let wrong = pb::Job {
            batch_size: 63,
            ..job
        };
        let message = check_new(&wrong).unwrap_err().to_string();
        assert!(
            message.starts_with("batch_size is 63, expected at least the initial_batch"),
            "{message}"
        );
    }

    /// A report and orders of protocol version 1.
    const FIRST_REPORT: &str = r#"{"node":"n","boot":"b","session":7,"seq":2,"cluster":"c","epoch":3,
        "incarnation":1,"offer":{"name":"n0","gpus":2},"address":"10.0.0.2","attempts":[{"id":
        {"job":4,"attempt":1},"fence":9,"status":"Running","port":29500,
        "said":{"progress":{"done":2.0,"saved":1.0},"metrics":{"loss":0.5}}}]}"#;
    const FIRST_ORDERS: &str = r#"{"node":"n","cluster":"c","epoch":3,"incarnation":1,"session":7,
        "seq":5,"reply_to":2,"orders":[{"id":{"job":4,"attempt":1},"fence":9,"wish":{"Run":
        {"address":"10.0.0.2","port":29500}},"task":null}],"forget":[]}"#;

    #[test]
    fn messages_of_the_version_before_are_read() {
        let report = pb::Report {
            json: FIRST_REPORT.into(),
        };
        let report = Report::try_from(report).unwrap();
        assert_eq!((report.protocol, report.absence), (1, None));
        assert_eq!(report.attempts[0].lease_left, None);
        let orders = pb::Orders {
            json: FIRST_ORDERS.into(),
        };
        let orders = Orders::try_from(orders).unwrap();
        assert_eq!((orders.protocol, orders.timers), (1, None));
        assert_eq!(orders.orders[0].lease, None);
        // A later version adds fields.
        let later = FIRST_ORDERS.replacen('{', r#"{"protocol":3,"moon":"full","#, 1);
        let orders = Orders::try_from(pb::Orders { json: later.into() });
        assert_eq!(orders.unwrap().protocol, 3);
    }

    #[test]
    fn other_protocol_versions_are_refused_by_name() {
        for (found, understood) in [(0, false), (1, true), (2, true), (3, true), (4, false)] {
            let with = |text: &str| {
                let head = format!("{{\"protocol\":{found},");
                text.replacen('{', &head, 1).into_bytes()
            };
            let json = with(FIRST_REPORT);
            let report = Report::try_from(pb::Report { json }).map(drop);
            let json = with(FIRST_ORDERS);
            let orders = Orders::try_from(pb::Orders { json }).map(drop);
            assert_eq!((report.is_ok(), orders.is_ok()), (understood, understood));
            for error in [report, orders].into_iter().filter_map(Result::err) {
                assert!(error.is_of_version());
                assert_eq!(
                    error.to_string(),
                    format!(
                        "the sender's protocol version is {found} and that of the receiver 2, expected a difference of 1 at most: upgrade one version at a time"
                    )
                );
            }
        }
        // The rest of the message may have another form.
        let json = br#"{"protocol":9,"nodes":[]}"#.to_vec();
        let error = Report::try_from(pb::Report { json }).unwrap_err();
        assert!(error.is_of_version());
    }
}
