//! The commands that ask a scheduler and print its answer.

use super::args::{ClusterCommand, JobArgs, SubmitArgs};
use super::daemons::runtime;
use crate::cli::grid::Grid;
use crate::cli::{Failure, OK, Terminal};
use blox_cluster::client::{Client, ClientError};
use blox_cluster::wire::pb;
use serde_json::{Value, json};
use std::io::Write;

impl From<ClientError> for Failure {
    fn from(e: ClientError) -> Self {
        Failure::new(e)
    }
}

pub(super) fn run(command: ClusterCommand, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    runtime()?.block_on(answer(command, terminal))
}

async fn answer(command: ClusterCommand, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    match command {
        ClusterCommand::Submit(a) => submit(a, terminal).await?,
        ClusterCommand::Queue(a) => {
            let jobs = Client::connect(&a.at.at).await?.list(None, a.all).await?;
            if a.json {
                print(terminal, &Value::Array(jobs.iter().map(job_json).collect()))?;
            } else {
                write!(terminal.out, "{}", queue(&jobs).text())?;
            }
        }
        ClusterCommand::Cancel(a) => change(a, pb::Verb::Cancel, terminal).await?,
        ClusterCommand::Hold(a) => change(a, pb::Verb::Hold, terminal).await?,
        ClusterCommand::Release(a) => change(a, pb::Verb::Release, terminal).await?,
        ClusterCommand::Requeue(a) => change(a, pb::Verb::Requeue, terminal).await?,
        ClusterCommand::Nodes(a) => {
            let nodes = Client::connect(&a.at.at).await?.nodes().await?;
            if a.json {
                print(
                    terminal,
                    &Value::Array(nodes.iter().map(node_json).collect()),
                )?;
            } else {
                write!(terminal.out, "{}", node_table(&nodes).text())?;
            }
        }
        ClusterCommand::Drain(a) => {
            let mut client = Client::connect(&a.at.at).await?;
            client.drain(a.node, a.why).await?;
        }
        ClusterCommand::Resume(a) => {
            let mut client = Client::connect(&a.at.at).await?;
            client.drain(a.node, String::new()).await?;
        }
        ClusterCommand::Why(a) => {
            let job = one(&a).await?;
            match a.json {
                true => print(
                    terminal,
                    &json!({"job": job.job, "phase": job.phase, "reason": job.reason}),
                )?,
                false if job.reason.is_empty() => {
                    writeln!(terminal.out, "job {} is {}", job.job, job.phase)?;
                }
                false => writeln!(
                    terminal.out,
                    "job {} is {}: {}",
                    job.job, job.phase, job.reason
                )?,
            }
        }
        ClusterCommand::Show(a) => {
            let job = one(&a).await?;
            match a.json {
                true => print(terminal, &job_json(&job))?,
                false => show(&job, terminal)?,
            }
        }
        ClusterCommand::Scheduler(_)
        | ClusterCommand::Node(_)
        | ClusterCommand::Demo
        | ClusterCommand::Shim { .. } => {}
    }
    Ok(OK)
}

async fn one(a: &JobArgs) -> Result<pb::JobLine, Failure> {
    let jobs = Client::connect(&a.at.at)
        .await?
        .list(Some(a.job), true)
        .await?;
    let job = jobs.into_iter().next();
    job.ok_or_else(|| Failure::new(format!("there is no job {}", a.job)))
}

async fn change(a: JobArgs, verb: pb::Verb, terminal: &mut Terminal<'_>) -> Result<(), Failure> {
    let mut client = Client::connect(&a.at.at).await?;
    client.change(a.job, verb).await?;
    if a.json {
        print(terminal, &json!({"job": a.job}))?;
    }
    Ok(())
}

async fn submit(a: SubmitArgs, terminal: &mut Terminal<'_>) -> Result<(), Failure> {
    let mut env = std::collections::BTreeMap::new();
    for pair in &a.env {
        let (key, value) = pair
            .split_once('=')
            .ok_or_else(|| Failure::new(format!("--env: found `{pair}`, expected NAME=VALUE")))?;
        env.insert(key.to_owned(), value.to_owned());
    }
    let fresh = || {
        let uuid = std::fs::read_to_string("/proc/sys/kernel/random/uuid");
        uuid.map(|u| u.trim().to_owned())
    };
    let key = match a.key {
        Some(key) => key,
        None => fresh().map_err(Failure::new)?,
    };
    let here = std::env::current_dir().map_err(Failure::new)?;
    let job = pb::Job {
        name: a.name.unwrap_or_default(),
        user: a
            .user
            .or_else(|| std::env::var("USER").ok())
            .unwrap_or_default(),
        queue: a.queue.unwrap_or_default(),
        gpus: a.gpus,
        priority: a.priority,
        iterations: a.duration,
        rate: 1.0,
        command: a.command,
        env,
        working_directory: here.to_string_lossy().into_owned(),
        grace_s: a.grace.unwrap_or(0.0),
        max_retries: a.max_retries,
        ..pb::Job::default()
    };
    let mut client = Client::connect(&a.at.at).await?;
    let number = client.submit(key, job).await?;
    match a.json {
        true => print(terminal, &json!({"job": number})),
        false => Ok(writeln!(terminal.out, "{number}")?),
    }
}

fn print(terminal: &mut Terminal<'_>, value: &Value) -> Result<(), Failure> {
    Ok(writeln!(terminal.out, "{value}")?)
}

fn queue(jobs: &[pb::JobLine]) -> Grid {
    let head = [
        "job", "name", "user", "phase", "nodes", "why", "GPUs", "launch", "ran s",
    ];
    let row = |j: &pb::JobLine| {
        vec![
            j.job.to_string(),
            j.name.clone(),
            j.user.clone(),
            j.phase.clone(),
            j.nodes.join(" "),
            if j.nodes.is_empty() {
                j.reason.clone()
            } else {
                String::new()
            },
            j.gpus.to_string(),
            j.attempt.to_string(),
            format!("{:.0}", j.running_s),
        ]
    };
    Grid {
        head: head.map(str::to_owned).to_vec(),
        rows: jobs.iter().map(row).collect(),
        words: 6,
    }
}

fn node_table(nodes: &[pb::NodeLine]) -> Grid {
    let head = [
        "node", "name", "status", "drained", "jobs", "GPUs", "free", "silent s",
    ];
    let row = |n: &pb::NodeLine| {
        let jobs: Vec<String> = n.jobs.iter().map(u32::to_string).collect();
        vec![
            n.node.to_string(),
            n.name.clone(),
            n.status.clone(),
            n.drained.clone(),
            jobs.join(" "),
            n.gpus.to_string(),
            n.free.to_string(),
            if n.silent_s < 0.0 {
                String::new()
            } else {
                format!("{:.1}", n.silent_s)
            },
        ]
    };
    Grid {
        head: head.map(str::to_owned).to_vec(),
        rows: nodes.iter().map(row).collect(),
        words: 5,
    }
}

fn show(j: &pb::JobLine, terminal: &mut Terminal<'_>) -> Result<(), Failure> {
    let out = &mut terminal.out;
    writeln!(out, "job        {} {}", j.job, j.name)?;
    writeln!(out, "phase      {}", j.phase)?;
    if !j.reason.is_empty() {
        writeln!(out, "why        {}", j.reason)?;
    }
    writeln!(out, "GPUs       {} on {}", j.gpus, j.nodes.join(" "))?;
    writeln!(
        out,
        "launches   {}, preempted {} times",
        j.attempt, j.preemptions
    )?;
    for a in &j.accounts {
        let id = a.id.unwrap_or_default();
        let guess = if a.estimated { ", estimated" } else { "" };
        writeln!(
            out,
            "launch {}   node {}: {}, {:.1} s on {} GPUs{guess} {}",
            id.attempt,
            a.node,
            a.exit,
            a.ran_ms as f64 / 1000.0,
            a.gpus,
            a.why
        )?;
    }
    Ok(())
}

fn job_json(j: &pb::JobLine) -> Value {
    let account = |a: &pb::AccountLine| {
        json!({
            "launch": a.id.map(|i| i.attempt), "node": a.node, "exit": a.exit,
            "ran_s": a.ran_ms as f64 / 1000.0, "gpus": a.gpus, "estimated": a.estimated, "why": a.why,
        })
    };
    json!({
        "job": j.job, "name": j.name, "user": j.user, "phase": j.phase, "gpus": j.gpus,
        "launch": j.attempt, "reason": j.reason, "submitted_s": j.submitted_s,
        "running_s": j.running_s, "iterations_done": j.iterations_done,
        "iterations": j.iterations, "nodes": j.nodes, "preemptions": j.preemptions,
        "accounts": j.accounts.iter().map(account).collect::<Vec<_>>(),
    })
}

fn node_json(n: &pb::NodeLine) -> Value {
    json!({
        "node": n.node, "name": n.name, "status": n.status, "gpus": n.gpus, "free": n.free,
        "drained": n.drained, "silent_s": n.silent_s, "jobs": n.jobs,
    })
}
