//! Conversions between protocol types and protobuf messages.

use super::pb;
use crate::protocol::{
    AttemptId, AttemptReport, ClusterId, Epoch, Exit, Fence, Final, Incarnation, Meeting, Millis,
    Order, Orders, Progress, Report, Said, Session, Status, Task, Wish, timers::LONGEST_GRACE_S,
};
use blox_core::{
    Adapts, BatchConfig, Deadline, Extras, GpuCount, JobId, JobSpec, Name, NodeSpec, Seconds, Time,
    TrainingSpec, Work,
};
use std::collections::BTreeMap;
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

fn missing(field: &'static str) -> WireError {
    WireError {
        field,
        found: "missing".to_owned(),
        expected: "a value",
    }
}

fn finite(field: &'static str, x: f64) -> Result<f64, WireError> {
    if x.is_finite() && x >= 0.0 {
        return Ok(x);
    }
    Err(WireError {
        field,
        found: x.to_string(),
        expected: "a finite number that is not negative",
    })
}

fn port(field: &'static str, x: u32) -> Result<u16, WireError> {
    u16::try_from(x).map_err(|_| WireError {
        field,
        found: x.to_string(),
        expected: "a port below 65536",
    })
}

fn name_of(text: &str) -> Option<Name> {
    (!text.is_empty()).then(|| Name::from(text))
}

fn text_of(name: &Option<Name>) -> String {
    name.as_ref().map_or_else(String::new, |n| n.to_string())
}

impl From<AttemptId> for pb::AttemptId {
    fn from(id: AttemptId) -> Self {
        pb::AttemptId {
            job: id.job.0,
            attempt: id.attempt,
        }
    }
}

fn id(field: &'static str, id: Option<pb::AttemptId>) -> Result<AttemptId, WireError> {
    let id = id.ok_or_else(|| missing(field))?;
    Ok(AttemptId {
        job: JobId(id.job),
        attempt: id.attempt,
    })
}

impl From<&Report> for pb::Report {
    fn from(r: &Report) -> Self {
        let o = &r.offer;
        pb::Report {
            node: r.node.to_string(),
            boot: r.boot.to_string(),
            session: r.session.0,
            seq: r.seq,
            epoch: r.epoch.0,
            incarnation: r.incarnation.0,
            offer: Some(pb::Offer {
                name: text_of(&o.name),
                gpus: o.gpus,
                gpu_type: text_of(&o.gpu_type),
                gpu_memory_gib: o.gpu_memory_gib,
                cpus: o.cpus,
                memory_gib: o.memory_gib,
                labels: o
                    .labels
                    .iter()
                    .map(|(k, v)| (k.to_string(), v.to_string()))
                    .collect(),
                jobs_per_gpu: Some(o.jobs_per_gpu),
            }),
            address: r.address.to_string(),
            attempts: r.attempts.iter().map(attempt_to).collect(),
            cluster: r
                .cluster
                .as_ref()
                .map_or_else(String::new, |c| c.0.to_string()),
        }
    }
}

fn attempt_to(a: &AttemptReport) -> pb::AttemptReport {
    let (status, last) = match &a.status {
        Status::Prepared => (pb::Status::Prepared, None),
        Status::Starting => (pb::Status::Starting, None),
        Status::Running => (pb::Status::Running, None),
        Status::Stopping => (pb::Status::Stopping, None),
        Status::Done(f) => (pb::Status::Done, Some(f)),
    };
    let end = |f: &Final| {
        let (exit, code) = match f.exit {
            Exit::NeverRan => (pb::Exit::NeverRan, 0),
            Exit::Completed => (pb::Exit::Completed, 0),
            Exit::Yielded => (pb::Exit::Yielded, 0),
            Exit::Failed { code } => (pb::Exit::Failed, code),
            Exit::Cut => (pb::Exit::Cut, 0),
            Exit::Lost => (pb::Exit::Lost, 0),
            Exit::BadFile => (pb::Exit::BadFile, 0),
        };
        pb::Final {
            exit: exit.into(),
            code,
            ran_ms: f.ran.0,
            estimated: f.estimated,
            why: f.why.clone(),
            exited_zero: f.exited_zero,
        }
    };
    pb::AttemptReport {
        id: Some(a.id.into()),
        fence: a.fence.0,
        status: status.into(),
        port: a.port.into(),
        progress: a.said.progress.map(|p| pb::Progress {
            done: p.done,
            saved: p.saved,
        }),
        r#final: last.map(end),
        metrics: a
            .said
            .metrics
            .iter()
            .map(|(name, value)| (name.to_string(), *value))
            .collect(),
    }
}

impl TryFrom<pb::Report> for Report {
    type Error = WireError;

    fn try_from(r: pb::Report) -> Result<Self, WireError> {
        let o = r.offer.ok_or_else(|| missing("offer"))?;
        let offer = NodeSpec {
            name: name_of(&o.name),
            gpus: o.gpus,
            jobs_per_gpu: o.jobs_per_gpu.unwrap_or(NodeSpec::default().jobs_per_gpu),
            gpu_type: name_of(&o.gpu_type),
            gpu_memory_gib: finite("offer.gpu_memory_gib", o.gpu_memory_gib)?,
            cpus: finite("offer.cpus", o.cpus)?,
            memory_gib: finite("offer.memory_gib", o.memory_gib)?,
            labels: o
                .labels
                .into_iter()
                .map(|(k, v)| (k.into(), v.into()))
                .collect(),
            ..NodeSpec::default()
        };
        if r.node.is_empty() {
            return Err(missing("node"));
        }
        Ok(Report {
            node: r.node.into(),
            boot: r.boot.into(),
            session: Session(r.session),
            seq: r.seq,
            cluster: name_of(&r.cluster).map(ClusterId),
            epoch: Epoch(r.epoch),
            incarnation: Incarnation(r.incarnation),
            offer: Arc::new(offer),
            address: r.address.into(),
            attempts: r
                .attempts
                .into_iter()
                .map(attempt_from)
                .collect::<Result<_, _>>()?,
        })
    }
}

fn attempt_from(a: pb::AttemptReport) -> Result<AttemptReport, WireError> {
    let unknown = |field, found: i32, expected| WireError {
        field,
        found: found.to_string(),
        expected,
    };
    let status = match a.status() {
        pb::Status::Prepared => Status::Prepared,
        pb::Status::Starting => Status::Starting,
        pb::Status::Running => Status::Running,
        pb::Status::Stopping => Status::Stopping,
        pb::Status::Done => {
            let f = a.r#final.as_ref().ok_or_else(|| missing("final"))?;
            let exit = match f.exit() {
                pb::Exit::NeverRan => Exit::NeverRan,
                pb::Exit::Completed => Exit::Completed,
                pb::Exit::Yielded => Exit::Yielded,
                pb::Exit::Failed => Exit::Failed { code: f.code },
                pb::Exit::Cut => Exit::Cut,
                pb::Exit::Lost => Exit::Lost,
                pb::Exit::BadFile => Exit::BadFile,
                pb::Exit::Unspecified => {
                    return Err(unknown("final.exit", f.exit, "a known exit"));
                }
            };
            Status::Done(Final {
                exit,
                ran: Millis(f.ran_ms),
                estimated: f.estimated,
                why: f.why.clone(),
                exited_zero: f.exited_zero,
            })
        }
        pb::Status::Unspecified => return Err(unknown("status", a.status, "a known status")),
    };
    let progress = match a.progress {
        Some(p) => Some(Progress {
            done: finite("progress.done", p.done)?,
            saved: finite("progress.saved", p.saved)?,
        }),
        None => None,
    };
    let metric = |(name, value): (String, f64)| match value.is_finite() {
        true => Ok((Name::from(name), value)),
        false => Err(WireError {
            field: "metrics",
            found: format!("{name} = {value}"),
            expected: "finite numbers",
        }),
    };
    let metrics = a
        .metrics
        .into_iter()
        .map(metric)
        .collect::<Result<_, _>>()?;
    Ok(AttemptReport {
        id: id("id", a.id)?,
        fence: Fence(a.fence),
        status,
        port: port("port", a.port)?,
        said: Said { progress, metrics },
    })
}

impl From<&Orders> for pb::Orders {
    fn from(o: &Orders) -> Self {
        pb::Orders {
            node: o.node.to_string(),
            epoch: o.epoch.0,
            incarnation: o.incarnation.0,
            session: o.session.0,
            seq: o.seq,
            reply_to: o.reply_to,
            orders: o.orders.iter().map(order_to).collect(),
            forget: o.forget.iter().map(|id| (*id).into()).collect(),
            cluster: o.cluster.0.to_string(),
        }
    }
}

fn order_to(o: &Order) -> pb::Order {
    use pb::order::Wish as W;
    let wish = match &o.wish {
        Wish::Prepare => W::Prepare(pb::Prepare {}),
        Wish::Run(m) => W::Run(pb::Meeting {
            address: m.address.to_string(),
            port: m.port.into(),
        }),
        Wish::Yield(grace) => W::Yield(pb::Yield { grace_ms: grace.0 }),
        Wish::Kill => W::Kill(pb::Kill {}),
    };
    pb::Order {
        id: Some(o.id.into()),
        fence: o.fence.0,
        wish: Some(wish),
        task: o.task.as_ref().map(|t| pb::Task {
            job: Some(job_to(&t.spec)),
            gpus: t.gpus.clone(),
            ranks: t.ranks.clone(),
            world: t.world,
            node_rank: t.node_rank,
            nodes: t.nodes.iter().map(|n| n.to_string()).collect(),
            beside: t.beside.iter().map(|j| j.0).collect(),
            cpus: t.cpus,
            memory_gib: t.memory_gib,
            batch_per_gpu: t.batch.map(|b| b.per_gpu),
            accumulation: t.batch.map_or(0, |b| b.accumulation),
        }),
    }
}

impl TryFrom<pb::Orders> for Orders {
    type Error = WireError;

    fn try_from(o: pb::Orders) -> Result<Self, WireError> {
        let forget = o.forget.into_iter().map(|i| id("forget", Some(i)));
        Ok(Orders {
            node: o.node.into(),
            cluster: ClusterId(name_of(&o.cluster).ok_or_else(|| missing("cluster"))?),
            epoch: Epoch(o.epoch),
            incarnation: Incarnation(o.incarnation),
            session: Session(o.session),
            seq: o.seq,
            reply_to: o.reply_to,
            orders: o
                .orders
                .into_iter()
                .map(order_from)
                .collect::<Result<_, _>>()?,
            forget: forget.collect::<Result<_, _>>()?,
        })
    }
}

fn order_from(o: pb::Order) -> Result<Order, WireError> {
    use pb::order::Wish as W;
    let wish = match o.wish.ok_or_else(|| missing("wish"))? {
        W::Prepare(_) => Wish::Prepare,
        W::Run(m) => Wish::Run(Meeting {
            address: m.address.into(),
            port: port("run.port", m.port)?,
        }),
        W::Yield(y) => Wish::Yield(Millis(y.grace_ms)),
        W::Kill(_) => Wish::Kill,
    };
    let task = match o.task {
        Some(t) => {
            let job = t.job.ok_or_else(|| missing("task.job"))?;
            Some(Arc::new(Task {
                spec: Arc::new(job_spec(job)?),
                gpus: t.gpus,
                ranks: t.ranks,
                world: t.world,
                node_rank: t.node_rank,
                nodes: t.nodes.into_iter().map(Name::from).collect(),
                beside: t.beside.into_iter().map(JobId).collect(),
                cpus: finite("task.cpus", t.cpus)?,
                memory_gib: finite("task.memory_gib", t.memory_gib)?,
                batch: t.batch_per_gpu.map(|per_gpu| BatchConfig {
                    per_gpu,
                    accumulation: t.accumulation,
                }),
            }))
        }
        None => None,
    };
    Ok(Order {
        id: id("id", o.id)?,
        fence: Fence(o.fence),
        wish,
        task,
    })
}

fn job_to(spec: &JobSpec) -> pb::Job {
    let extras = spec.extras();
    let text = |key: &str| {
        let value = extras.attributes.get(key).and_then(|v| v.as_str());
        value.unwrap_or_default().to_owned()
    };
    let env = extras.attributes.get("env").and_then(|v| v.as_object());
    let env = env.map(|all| {
        all.iter()
            .map(|(k, v)| (k.clone(), v.as_str().unwrap_or_default().to_owned()))
            .collect()
    });
    let number = |key: &str| {
        extras
            .attributes
            .get(key)
            .and_then(serde_json::Value::as_f64)
    };
    let training = extras.training.as_ref();
    let training = training.and_then(|t| serde_json::to_string(t).ok());
    pb::Job {
        name: text_of(&spec.name),
        user: text_of(&spec.user),
        queue: text_of(&spec.virtual_cluster),
        gpus: spec.gpus.get(),
        priority: spec.priority,
        iterations: spec.work.iterations,
        rate: spec.work.rate,
        command: extras.command.clone(),
        env: env.unwrap_or_default(),
        working_directory: text("working_directory"),
        grace_s: number("grace_s"),
        max_retries: number("max_retries").map(|n| n as u32),
        model: text_of(&extras.model),
        cpus: extras.cpus,
        memory_gib: extras.memory_gib,
        estimate_s: extras.user_estimate.map_or(0.0, Seconds::secs),
        on_exit: on_exit_to(extras),
        levels: extras.levels.iter().map(|g| g.get()).collect(),
        rates: extras.rates.clone(),
        deadlines_s: extras
            .deadlines
            .iter()
            .map(|d| (d.at - spec.submit).secs())
            .collect(),
        batch_size: extras.batch_size.unwrap_or(0),
        group: text_of(&extras.group),
        weight: extras.weight,
        attributes: extras
            .attributes
            .iter()
            .filter(|(k, _)| !OWN.contains(&k.as_str()))
            .map(|(k, v)| (k.to_string(), v.to_string()))
            .collect(),
        training: training.unwrap_or_default(),
    }
}

/// Largest number of characters in a job's name, user and queue, which job listings show.
const LONGEST_NAME: usize = 100;

/// Attributes with a protobuf field of their own.
const OWN: [&str; 5] = [
    "env",
    "working_directory",
    "grace_s",
    "max_retries",
    "on_exit",
];

fn on_exit_to(extras: &Extras) -> BTreeMap<i32, i32> {
    let rules = extras.attributes.get("on_exit").and_then(|v| v.as_object());
    let rules = rules.into_iter().flatten();
    rules
        .filter_map(|(code, said)| {
            let meant = match said.as_str()? {
                "fail" => pb::OnExit::Fail,
                "complete" => pb::OnExit::Complete,
                "requeue" => pb::OnExit::Requeue,
                _ => pb::OnExit::Retry,
            };
            Some((code.parse().ok()?, meant.into()))
        })
        .collect()
}

fn on_exit_from(rules: BTreeMap<i32, i32>) -> Result<serde_json::Value, WireError> {
    let word = |code: i32, said: i32| {
        let word = match pb::OnExit::try_from(said) {
            Ok(pb::OnExit::Retry) => "retry",
            Ok(pb::OnExit::Fail) => "fail",
            Ok(pb::OnExit::Complete) => "complete",
            Ok(pb::OnExit::Requeue) => "requeue",
            _ => {
                return Err(WireError {
                    field: "on_exit",
                    found: said.to_string(),
                    expected: "what an exit code means",
                });
            }
        };
        Ok((code.to_string(), serde_json::Value::from(word)))
    };
    let all = rules.into_iter().map(|(code, said)| word(code, said));
    Ok(serde_json::Value::Object(all.collect::<Result<_, _>>()?))
}

/// Rejects a new job with values that cannot be intended. Not part of [`job_spec`], which also
/// accepts jobs from before a check was added.
///
/// # Errors
/// A value would have no effect or is out of range.
pub fn check_new(j: &pb::Job) -> Result<(), WireError> {
    let wrong = |field, found, expected| {
        Err(WireError {
            field,
            found,
            expected,
        })
    };
    for (field, text) in [("name", &j.name), ("user", &j.user), ("queue", &j.queue)] {
        let length = text.chars().count();
        if length > LONGEST_NAME {
            let found = format!("{length} characters long");
            return wrong(field, found, "100 characters at most");
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
            return wrong("on_exit", code.to_string(), expected);
        }
    }
    let is_name = |k: &String| !k.is_empty() && !k.contains(['=', '\0']);
    if let Some((name, value)) = j.env.iter().find(|(k, _)| !is_name(k)) {
        let found = format!("`{name}={value}`");
        return wrong("env", found, "a name, `=` and a value");
    }
    if let Some(value) = j.attributes.get("") {
        return wrong(
            "attributes",
            format!("`={value}`"),
            "a name, `=` and a value",
        );
    }
    if !j.levels.is_sorted() || j.levels.first() == Some(&0) {
        let found = format!("{:?}", j.levels);
        return wrong("levels", found, "ascending counts of at least 1");
    }
    // `job_spec` reports invalid JSON.
    let training = serde_json::from_str::<TrainingSpec>(&j.training).ok();
    if training.is_some_and(|t| t.adapts == Adapts::Gpus && j.batch_size < t.initial_batch)
        && j.batch_size > 0
    {
        let least = "at least the initial_batch of its training, as its batch stays";
        return wrong("batch_size", j.batch_size.to_string(), least);
    }
    if j.command.first().is_none_or(String::is_empty) {
        return wrong("command", "empty".to_owned(), "a program");
    }
    if let Some(grace_s) = j.grace_s.filter(|s| !(*s > 0.0 && *s <= LONGEST_GRACE_S)) {
        let found = format!("{grace_s} s");
        return wrong("grace_s", found, "above 0, and a day (86400 s) at most");
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
        batch_size: (j.batch_size > 0).then_some(j.batch_size),
        group: name_of(&j.group),
        weight: finite("weight", j.weight)?,
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
        let value = value.ok_or_else(|| WireError {
            field: "attributes",
            found: format!("`{key}` = `{text}`"),
            expected: "a name of your own and a value in JSON",
        })?;
        extras.attributes.insert(key.into(), value);
    }
    if !j.training.is_empty() {
        let training: TrainingSpec = serde_json::from_str(&j.training).map_err(|e| WireError {
            field: "training",
            found: e.to_string(),
            expected: "what a job that trains says of its batches",
        })?;
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
    if let Some(n) = j.max_retries {
        set("max_retries", n.into());
    }
    Ok(JobSpec {
        submit: Time::ZERO,
        gpus: GpuCount(j.gpus),
        work: Work {
            iterations: finite("iterations", j.iterations)?,
            rate: finite("rate", j.rate)?,
        },
        priority: j.priority,
        name: name_of(&j.name),
        user: name_of(&j.user),
        virtual_cluster: name_of(&j.queue),
        extras: Some(Box::new(extras)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_report_comes_back_as_it_went() {
        let attempt = |attempt, status| AttemptReport {
            id: AttemptId {
                job: JobId(3),
                attempt,
            },
            fence: Fence(9),
            status,
            port: 29_500,
            said: Said {
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
            node: "n".into(),
            boot: "b".into(),
            session: Session(1),
            seq: 2,
            cluster: Some(ClusterId("c".into())),
            epoch: Epoch(3),
            incarnation: Incarnation(4),
            offer: Arc::new(NodeSpec::with_gpus(8).of_type("a100").shared_by(4)),
            address: "10.0.0.1".into(),
            attempts: vec![attempt(1, Status::Running), attempt(2, Status::Done(ended))],
        };
        assert_eq!(Report::try_from(pb::Report::from(&report)), Ok(report));
    }

    #[test]
    fn orders_return_as_they_were_with_any_number_of_partners() {
        for partners in [&[][..], &[3], &[0, 3, 7]] {
            let task = Task {
                spec: Arc::new(JobSpec::new(Time::ZERO, GpuCount(2), Seconds::new(60.0))),
                gpus: vec![1, 0],
                ranks: vec![0, 1],
                world: 2,
                node_rank: 0,
                nodes: vec!["n".into()],
                beside: partners.iter().copied().map(JobId).collect(),
                cpus: 4.0,
                memory_gib: 8.0,
                batch: None,
            };
            let sent = order_to(&Order {
                id: AttemptId {
                    job: JobId(9),
                    attempt: 1,
                },
                fence: Fence(5),
                wish: Wish::Prepare,
                task: Some(Arc::new(task)),
            });
            let found = order_from(sent).unwrap().task.unwrap();
            assert_eq!(
                (found.beside.len(), &found.gpus[..]),
                (partners.len(), &[1, 0][..])
            );
            assert!(
                partners
                    .iter()
                    .all(|job| found.beside.contains(JobId(*job)))
            );
        }
    }

    #[test]
    fn nonsense_is_refused_by_field() {
        let r = pb::Report {
            node: "n".into(),
            offer: Some(pb::Offer {
                cpus: f64::NAN,
                ..pb::Offer::default()
            }),
            ..pb::Report::default()
        };
        assert_eq!(
            Report::try_from(r).unwrap_err().to_string(),
            "offer.cpus is NaN, expected a finite number that is not negative"
        );
        let o = pb::Orders {
            cluster: "c".to_owned(),
            orders: vec![pb::Order::default()],
            ..pb::Orders::default()
        };
        assert_eq!(
            Orders::try_from(o).unwrap_err().to_string(),
            "wish is missing, expected a value"
        );
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
        for (wrong, said) in [
            (on_exit(0), format!("on_exit is 0, {codes}")),
            (on_exit(300), format!("on_exit is 300, {codes}")),
            (on_exit(-3), format!("on_exit is -3, {codes}")),
            (env(""), format!("env is `=x`, {names}")),
            (
                name(101),
                "name is 101 characters long, expected 100 characters at most".to_owned(),
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
                pb::Job::default(),
                "command is empty, expected a program".to_owned(),
            ),
            (grace_s(1e9), format!("grace_s is 1000000000 s, {graces}")),
            (grace_s(0.0), format!("grace_s is 0 s, {graces}")),
            (grace_s(-1.0), format!("grace_s is -1 s, {graces}")),
            (grace_s(f64::NAN), format!("grace_s is NaN s, {graces}")),
        ] {
            assert_eq!(check_new(&wrong).unwrap_err().to_string(), said);
        }
    }

    #[test]
    fn a_job_comes_back_as_it_went() {
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
            max_retries: Some(0),
            on_exit: [(3, pb::OnExit::Fail.into())].into(),
            levels: vec![1, 2, 4],
            rates: vec![1.0, 1.5, 2.0],
            deadlines_s: vec![60.0],
            batch_size: 64,
            group: "search".into(),
            weight: 2.0,
            attributes: [("gmem".to_owned(), "2458.5".to_owned())].into(),
            ..pb::Job::default()
        };
        assert_eq!(job_to(&job_spec(job.clone()).unwrap()), job);
        let wrong = pb::Job {
            estimate_s: f64::NAN,
            ..pb::Job::default()
        };
        let said = job_spec(wrong).unwrap_err().to_string();
        assert!(said.starts_with("estimate_s is NaN"), "{said}");
        let wrong = pb::Job {
            attributes: [("env".to_owned(), "{}".to_owned())].into(),
            ..pb::Job::default()
        };
        let said = job_spec(wrong).unwrap_err().to_string();
        assert!(said.starts_with("attributes is `env` = `{}`"), "{said}");
        let wrong = pb::Job {
            training: r#"{"initial_batch": 64}"#.into(),
            ..pb::Job::default()
        };
        let said = job_spec(wrong).unwrap_err().to_string();
        assert!(said.starts_with("training is missing field"), "{said}");
        let wrong = pb::Job {
            batch_size: 63,
            ..job
        };
        let said = check_new(&wrong).unwrap_err().to_string();
        assert!(
            said.starts_with("batch_size is 63, expected at least the initial_batch"),
            "{said}"
        );
    }
}
