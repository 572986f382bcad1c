//! Commands that send a request to a scheduler and print the response.

use super::args::{
    At, ChangeArgs, ClusterCommand, FilterArgs, JobArgs, JobName, ListNodesArgs, LogsArgs, Meaning,
    StopArgs, SubmitArgs,
};
use super::cells::{client, id, me, own_name, short, span};
use super::daemons::{credentials, runtime};
use super::sbatch::{self, Options, Script};
use super::{acct, batch, top};
use crate::failure::{Code, Failure};
use crate::help::Late;
use crate::terminal::{OK, Terminal};
use crate::text::plain;
use crate::trace::info::date;
use blox_cluster::client::{Client, ClientError, Credentials};
use blox_cluster::private;
use blox_cluster::wire::pb;
use blox_core::{Outcome, Seconds, Share, TrainingSpec};
use blox_results::grid::Grid;
use blox_results::{number_of, quoted};
use clap::ArgMatches;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::Path;

pub(super) fn run(command: ClusterCommand, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    runtime()?.block_on(answer(command, terminal))
}

async fn answer(command: ClusterCommand, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    match command {
        ClusterCommand::Submit(Late { args, matches }) => {
            batch::only_on_slurm(&matches)?;
            submit(*args, &matches, terminal).await?;
        }
        ClusterCommand::Queue(a) => {
            let filter = filter_of(&a.at, a.filter, [a.jobs, a.listed].concat())?;
            let columns = columns_of(&a.format)?;
            let limit = a.limit.map_or(usize::MAX, NonZeroUsize::get);
            let mut client = client(&a.at).await?;
            let (jobs, more) = client.list_selected(filter, a.all, limit).await?;
            let lines = a.json.then(|| jobs.iter().map(job_json).collect());
            list(lines, queue(&jobs, &columns), terminal)?;
            if more {
                let shown = jobs.len();
                writeln!(terminal.err, "more jobs follow: --limit is {shown}")?;
            }
        }
        ClusterCommand::Top(a) => return top::run(a, terminal).await,
        ClusterCommand::Acct(a) => return acct::run(a, terminal).await,
        ClusterCommand::Cancel(a) => return change(a, pb::Verb::Cancel, terminal).await,
        ClusterCommand::Hold(a) => return change(a, pb::Verb::Hold, terminal).await,
        ClusterCommand::Release(a) => return change(a, pb::Verb::Release, terminal).await,
        ClusterCommand::Requeue(a) => return change(a, pb::Verb::Requeue, terminal).await,
        ClusterCommand::Priority(a) => {
            let filter = filter_of(&a.at, FilterArgs::default(), vec![a.job])?;
            let (verb, mut client) = (pb::Verb::Prioritize, client(&a.at).await?);
            let reply = client.change_many(filter, verb, a.priority).await?;
            return changed(&reply, verb, a.json, terminal);
        }
        ClusterCommand::Nodes(ListNodesArgs { nodes: a, .. }) => {
            let nodes = client(&a.at).await?.nodes().await?;
            let lines = a.json.then(|| nodes.iter().map(node_json).collect());
            list(lines, node_table(&nodes), terminal)?;
        }
        ClusterCommand::Offers(a) => {
            let mut client = client(&a.at).await?;
            let offers = client.offers(a.offer, a.price, a.reclaim).await?;
            let lines = a.json.then(|| offers.iter().map(offer_json).collect());
            list(lines, offer_table(&offers), terminal)?;
        }
        ClusterCommand::Drain(a) => {
            let evict_after = a.evict_after.map(|after| Seconds::new(after.0));
            let mut client = client(&a.at).await?;
            client.drain(a.node.clone(), a.why, evict_after).await?;
            confirm(a.json, &json!({"node": a.node}), terminal)?;
        }
        ClusterCommand::Resume(a) => {
            client(&a.at).await?.resume(a.node.clone()).await?;
            confirm(a.json, &json!({"node": a.node}), terminal)?;
        }
        ClusterCommand::Remove(a) => {
            client(&a.at).await?.remove(a.node.clone()).await?;
            confirm(a.json, &json!({"node": a.node}), terminal)?;
        }
        ClusterCommand::Down(a) => {
            client(&a.at).await?.down(a.node.clone()).await?;
            confirm(a.json, &json!({"node": a.node}), terminal)?;
        }
        ClusterCommand::Logs(a) => logs(a, terminal).await?,
        ClusterCommand::Why(a) => {
            let j = one(&a).await?;
            if a.json {
                let why = json!({"job": j.job, "phase": j.phase, "reason": j.reason});
                print(terminal, &why)?;
            } else {
                let (before, why) = match j.reason.is_empty() {
                    true => ("", String::new()),
                    false => (": ", plain(&j.reason)),
                };
                writeln!(terminal.out, "job {} is {}{before}{why}", id(&j), j.phase)?;
            }
        }
        ClusterCommand::Show(a) => {
            let job = one(&a).await?;
            match a.json {
                true => {
                    let mut all = job_json(&job);
                    all["command"] = json!(job.command);
                    all["working_directory"] = json!(job.working_directory);
                    all["metrics"] = json!(job.metrics);
                    all["exit_code"] = json!(exit_code(&job));
                    print(terminal, &all)?;
                }
                false => show(&job, terminal)?,
            }
        }
        ClusterCommand::When(_)
        | ClusterCommand::Scheduler(_)
        | ClusterCommand::Node(_)
        | ClusterCommand::Log(_)
        | ClusterCommand::Cluster(_)
        | ClusterCommand::Demo
        | ClusterCommand::Init(_)
        | ClusterCommand::Login(_)
        | ClusterCommand::Token(_)
        | ClusterCommand::Whoami(_)
        | ClusterCommand::Rank { .. }
        | ClusterCommand::Shim { .. } => {}
    }
    Ok(OK)
}

/// Time in which a scheduler that stops has to end.
const ENDED: std::time::Duration = std::time::Duration::from_secs(10);

/// Stops a scheduler, and waits until its address is free.
pub(super) fn stop(a: StopArgs, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    runtime()?.block_on(async {
        let mut client = client(&a.at).await?;
        let reply = client.stop(a.absence.map(Seconds::new)).await?;
        if a.json {
            let what = json!({
                "absence_s": reply.absence_s,
                "unacknowledged": reply.unacknowledged,
            });
            print(terminal, &what)?;
        } else if reply.absence_s > 0.0 {
            writeln!(
                terminal.out,
                "the scheduler stops; running jobs continue for {} s without it",
                reply.absence_s
            )?;
        } else {
            writeln!(
                terminal.out,
                "the scheduler stops; running jobs end with their leases without it"
            )?;
        }
        if !reply.unacknowledged.is_empty() {
            let nodes = reply.unacknowledged.join(", ");
            writeln!(
                terminal.err,
                "{}: not acknowledged in time, so the jobs there may end with their leases",
                plain(&nodes)
            )?;
        }
        if !client.ended(ENDED).await {
            writeln!(
                terminal.err,
                "a scheduler still answers at {}: it was started again, or its process has not ended yet",
                a.at.at
            )?;
        }
        Ok(OK)
    })
}

async fn one(a: &JobArgs) -> Result<pb::JobLine, Failure> {
    let mut client = client(&a.at).await?;
    let number = number(&mut client, &a.job).await?;
    let jobs = client.list(Some(number), true).await?;
    let job = jobs.into_iter().next();
    job.ok_or_else(|| Failure::new(format!("there is no job {number}")))
}

/// Returns the number of a job that may be named by its place in an array, such as `12_3`.
async fn number(client: &mut Client, job: &JobName) -> Result<u32, Failure> {
    let name = match job {
        JobName::Number(number) => return Ok(*number),
        JobName::InArray(name) => name,
    };
    let filter = pb::Filter {
        jobs: vec![name.clone()],
        ..pb::Filter::default()
    };
    let (jobs, _) = client.list_selected(filter, true, 1).await?;
    let job = jobs.first().map(|line| line.job);
    job.ok_or_else(|| Failure::new(format!("there is no job {name}")))
}

fn filter_of(at: &At, a: FilterArgs, jobs: Vec<String>) -> Result<pb::Filter, Failure> {
    let user = match a.me {
        true => me(at)?,
        false => a.user.unwrap_or_default(),
    };
    Ok(pb::Filter {
        jobs,
        user,
        state: a.state.unwrap_or_default().to_lowercase(),
        name: a.name.unwrap_or_default(),
        queue: a.queue.unwrap_or_default(),
        node: a.node.unwrap_or_default(),
    })
}

async fn change(
    a: ChangeArgs,
    verb: pb::Verb,
    terminal: &mut Terminal<'_>,
) -> Result<i32, Failure> {
    let filter = filter_of(&a.at, a.filter, a.jobs)?;
    let mut client = client(&a.at).await?;
    let counts_ended = verb == pb::Verb::Cancel && !filter.jobs.is_empty() && !a.json;
    let mut ended: BTreeMap<u32, pb::JobLine> = BTreeMap::new();
    let of_job = |line: pb::JobLine| (line.job, line);
    if counts_ended {
        // The reply to the change itself names jobs that do not exist.
        let jobs = client.list_selected(filter.clone(), true, usize::MAX).await;
        let (jobs, _) = jobs.unwrap_or_default();
        let jobs = jobs.into_iter().filter(|j| j.ended_s > 0.0);
        ended.extend(jobs.map(of_job));
    }
    let mut reply = client.change_many(filter.clone(), verb, 0).await?;
    if counts_ended {
        // A job may have ended meanwhile in another way.
        let jobs = client.list_selected(filter, true, usize::MAX).await;
        let (jobs, _) = jobs.unwrap_or_default();
        let is_other = |j: &pb::JobLine| j.ended_s > 0.0 && j.phase != "cancelled";
        ended.extend(jobs.into_iter().filter(is_other).map(of_job));
        let all = reply.changed.len() as u64;
        reply.changed.retain(|job| !ended.contains_key(job));
        let ended: Vec<&pb::JobLine> = ended.values().collect();
        if !ended.is_empty() {
            let text = before(&ended, all, reply.changed.len());
            writeln!(terminal.out, "{text}")?;
            let (json, verb) = (a.json, pb::Verb::Unspecified);
            reply.changed.clear();
            return changed(&reply, verb, json, terminal);
        }
    }
    changed(&reply, verb, a.json, terminal)
}

/// Describes the jobs that had ended before they were to be cancelled, as `all` jobs were.
fn before(ended: &[&pb::JobLine], all: u64, cancelled: usize) -> String {
    if let ([job], 1) = (ended, all) {
        return format!("job {} had ended before: it is {}", id(job), job.phase);
    }
    let mut phases: BTreeMap<&str, usize> = BTreeMap::new();
    for job in ended {
        *phases.entry(&job.phase).or_default() += 1;
    }
    let phases = phases
        .iter()
        .map(|(phase, count)| format!("{count} {phase}"));
    let phases = phases.collect::<Vec<_>>().join(", ");
    let had = ended.len();
    let all = number_of(all, "job");
    format!("{cancelled} of {all} cancelled: {had} had ended before ({phases})")
}

/// Prints the number of changed jobs and the refused ones. The command fails if one was refused.
fn changed(
    reply: &pb::ChangeManyReply,
    verb: pb::Verb,
    json: bool,
    terminal: &mut Terminal<'_>,
) -> Result<i32, Failure> {
    let done = match verb {
        pb::Verb::Cancel => "cancelled",
        pb::Verb::Hold => "held",
        pb::Verb::Release => "released",
        pb::Verb::Requeue => "requeued",
        _ => "changed",
    };
    let count = reply.changed.len() as u64;
    if json {
        let refused = reply.refused.iter();
        let refused: Vec<_> = refused
            .map(|r| json!({"job": r.job, "why": r.why}))
            .collect();
        print(
            terminal,
            &json!({"jobs": reply.changed, "refused": refused}),
        )?;
    } else if verb != pb::Verb::Unspecified && (count != 1 || !reply.refused.is_empty()) {
        writeln!(terminal.out, "{} {done}", number_of(count, "job"))?;
    }
    let mut refused = reply.refused.iter();
    let Some(last) = refused.next_back() else {
        return Ok(OK);
    };
    for refused in refused {
        writeln!(terminal.err, "{}", plain(&refused.why))?;
    }
    Err(Failure::of(Code::Request, plain(&last.why)))
}

/// Prints lines of JSON as a list, or the table.
fn list(
    lines: Option<Vec<Value>>,
    table: Grid,
    terminal: &mut Terminal<'_>,
) -> Result<(), Failure> {
    match lines {
        Some(lines) => print(terminal, &Value::Array(lines)),
        None => terminal.print(&table.text(terminal.form)),
    }
}

/// Prints what was changed, if JSON is requested.
pub(super) fn confirm(
    json: bool,
    what: &Value,
    terminal: &mut Terminal<'_>,
) -> Result<(), Failure> {
    match json {
        true => print(terminal, what),
        false => Ok(()),
    }
}

/// Returns the variables that `--export` names, from this process.
fn exported(names: &str) -> Result<Vec<(String, String)>, Failure> {
    let mut all = Vec::new();
    for name in names.split(',') {
        match name.split_once('=') {
            Some((name, value)) => all.push((name.to_owned(), value.to_owned())),
            None if name == "NONE" || name == "NIL" => {}
            None if name == "ALL" => {
                let others = std::env::vars_os();
                let text = others
                    .filter_map(|(n, v)| Some((n.into_string().ok()?, v.into_string().ok()?)));
                let own = |name: &str| {
                    ["BLOX_", "SLURM_"].iter().any(|p| name.starts_with(p)) || name == "OLDPWD"
                };
                all.extend(text.filter(|(name, _)| !own(name)));
            }
            None => {
                let value = std::env::var(name)
                    .map_err(|_| Failure::new(format!("--export: `{}` is not set", plain(name))))?;
                all.push((name.to_owned(), value));
            }
        }
    }
    Ok(all)
}

/// Returns the options of sbatch in the script's lines and on the command line. The command line
/// wins.
fn options(
    a: &SubmitArgs,
    script: Option<&Script>,
    matches: &ArgMatches,
) -> Result<Options, Failure> {
    let mut options = script.map_or(Ok(Options::default()), Script::options)?;
    options.replace_by(a.sbatch.clone());
    for (given, replaced) in [
        ("gpus", &sbatch::GPUS[..]),
        ("name", &["job-name"]),
        ("queue", &["partition"]),
        ("priority", &["priority", "nice"]),
        ("grace", &["signal"]),
        ("max_retries", &["no-requeue"]),
        ("account", &["account"]),
        ("time", &["time"]),
    ] {
        if batch::is_given(matches, given) {
            options.drop(replaced);
        }
    }
    if batch::is_given(matches, "gpus") {
        options.set_gpus(a.gpus);
    }
    Ok(options)
}

async fn submit(
    mut a: SubmitArgs,
    matches: &ArgMatches,
    terminal: &mut Terminal<'_>,
) -> Result<(), Failure> {
    let script = match a.sbatch.wrap.take() {
        Some(line) => {
            a.command = vec!["wrap".to_owned()];
            Some(Script::wrapping(&line))
        }
        None if a.command[0] == batch::STDIN => Some(Script::read(&mut *terminal.input)?),
        None => Script::of(&a.command[0], a.slurm.script)?,
    };
    let described = options(&a, script.as_ref(), matches)?.job()?;
    let own = a.slurm.time.take().map(|time| (String::new(), time));
    let time = own.or_else(|| described.time.clone());
    let time = time.map(|(place, time)| limit(&place, &time)).transpose()?;
    if let Some(time) = time.filter(|_| !batch::is_given(matches, "duration")) {
        a.duration = time;
    }
    a.gpus = described.gpus.unwrap_or(a.gpus);
    a.name = a.name.or_else(|| described.name.clone());
    if let Some(script) = script.as_ref().filter(|_| a.name.is_none()) {
        let name = Path::new(&script.name).file_name();
        a.name = name.map(|name| name.to_string_lossy().into_owned());
    }
    a.queue = a.queue.or_else(|| described.queue.clone());
    a.priority = described.priority.unwrap_or(a.priority);
    a.grace = a.grace.or(described.grace);
    a.max_retries = a.max_retries.or(described.max_retries);
    let account = a.slurm.account.take().or_else(|| described.account.clone());
    for (name, value) in [("account", account), ("comment", described.comment.clone())] {
        if let Some(value) = value {
            a.attribute
                .push((name.to_owned(), Value::from(value).to_string()));
        }
    }
    if let Some(names) = &described.export {
        let given: Vec<String> = a.env.iter().map(|(name, _)| name.clone()).collect();
        let exported = exported(names)?.into_iter();
        let exported: BTreeMap<_, _> = exported.filter(|(name, _)| !given.contains(name)).collect();
        a.env.extend(exported);
    }

    // The scheduler would refuse these, but may not answer for a while.
    batch::check_levels(&a)?;
    if described.nodes.is_some() && (!a.levels.is_empty() || a.training.is_some()) {
        return Err(Failure::new(
            "--nodes fixes the GPUs of the job, expected it without --levels and --training",
        ));
    }
    let env = batch::unique("--env", a.env)?;
    let attributes = batch::unique("--attribute", a.attribute)?;
    let meaning = |(code, meaning)| {
        let meaning = match meaning {
            Meaning::Retry => pb::OnExit::Retry,
            Meaning::Fail => pb::OnExit::Fail,
            Meaning::Complete => pb::OnExit::Complete,
            Meaning::Requeue => pb::OnExit::Requeue,
        };
        (code, i32::from(meaning))
    };
    let on_exit = batch::unique("--on-exit", a.on_exit.into_iter().map(meaning))?;
    let fresh = || {
        let uuid = std::fs::read_to_string("/proc/sys/kernel/random/uuid");
        uuid.map(|u| u.trim().to_owned())
    };
    let key = match a.key {
        Some(key) => key,
        None => fresh().map_err(Failure::system)?,
    };
    let duration = a.duration;
    if a.iterations.is_some() && duration == 0.0 {
        return Err(Failure::new(
            "--duration is `0`, expected a finite number above 0 with --iterations",
        ));
    }
    let iterations = a.iterations.unwrap_or(duration);
    let speed = a.iterations.map_or(1.0, |_| iterations / duration);
    // With a certificate, the scheduler takes the name from it.
    let is_named = matches!(credentials(&a.at)?, Credentials::Identity(_));
    let here = std::env::current_dir()
        .map_err(|e| Failure::new(format!("the working directory cannot be used: {e}")))?;
    let here = match &described.chdir {
        Some(dir) => here.join(dir),
        None => here,
    };
    if script.is_none()
        && let Some(note) = missing_program(&a.command[0], &here)
    {
        writeln!(terminal.err, "note: {note}")?;
    }
    let user = match a.user {
        Some(user) => user,
        None if is_named => String::new(),
        None => own_name(),
    };
    let name = a.name.unwrap_or_default();
    let variables = [
        ("SLURM_JOB_NAME", name.clone()),
        ("SLURM_JOB_USER", user.clone()),
        ("SLURM_SUBMIT_DIR", here.to_string_lossy().into_owned()),
        ("SLURM_NTASKS", described.tasks.unwrap_or(1).to_string()),
    ];
    let command = sbatch::command(script.as_ref(), a.command, &described, a.gpus, &variables);
    let job = pb::Job {
        name,
        user,
        queue: a.queue.unwrap_or_default(),
        gpus: a.gpus,
        gpu_share: a.gpu_share.unwrap_or(0.0),
        gpu_memory_share: a.gpu_memory_share.unwrap_or(0.0),
        class: match a.class.is_spot() {
            true => a.class.to_string(),
            false => String::new(),
        },
        need: a.need.map(|need| need.to_string()).unwrap_or_default(),
        priority: a.priority,
        iterations,
        rate: speed,
        command,
        gpu_types: Vec::from_iter(described.gpu_type),
        nodes: described.nodes.unwrap_or(0),
        env,
        working_directory: here.to_string_lossy().into_owned(),
        grace_s: a.grace,
        lease_s: a.lease,
        stall_s: a.stall,
        max_retries: a.max_retries,
        on_exit,
        attributes,
        cpus: a.cpus.unwrap_or(described.cpus),
        memory_gib: a.memory.unwrap_or(described.memory_gib),
        processes: a.processes,
        time_limit_s: time,
        levels: a.levels,
        rates: a.rates.iter().map(|rate| rate * speed).collect(),
        deadlines_s: Vec::from_iter(a.deadline),
        model: a.model.unwrap_or_default(),
        batch_size: a.batch_size.unwrap_or(0),
        training: a.training.as_deref().map_or(Ok(String::new()), training)?,
        ..pb::Job::default()
    };
    let (indices, at_once) = match described.array {
        Some(array) => (array.indices, array.at_once),
        None => (Vec::new(), 0),
    };
    let is_array = !indices.is_empty();
    let request = pb::SubmitManyRequest {
        key,
        job: Some(job),
        indices,
        at_once,
        dependency: described.dependency.unwrap_or_default(),
        hold: described.hold,
    };
    let pb::SubmitManyReply { job: number, count } = insist(&a.at, a.patience, request).await?;
    match a.json {
        true if is_array => print(terminal, &json!({"job": number, "jobs": count})),
        true => print(terminal, &json!({"job": number})),
        false => Ok(writeln!(terminal.out, "{number}")?),
    }
}

/// Returns a note about a program that this machine cannot run, if it is named by its path.
fn missing_program(program: &str, here: &Path) -> Option<String> {
    use rustix::fs::{Access, access};
    let path = Path::new(program);
    if !program.contains('/') || access(here.join(path), Access::EXEC_OK).is_ok() {
        return None;
    }
    let what = match here.join(path).exists() {
        true => "is not executable",
        false => "does not exist",
    };
    let program = plain(program);
    Some(format!(
        "`{program}` {what} on this machine: the job fails if this is so on its node, too"
    ))
}

/// Reads a time limit as Slurm does, and also seconds such as `90s`. `place` names the line of a
/// script.
fn limit(place: &str, text: &str) -> Result<f64, Failure> {
    let wrong = || {
        Failure::new(format!(
            "{place}--time is `{}`, expected minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS, or seconds such as 90s",
            plain(text)
        ))
    };
    let secs = time_limit(text).ok_or_else(wrong)?;
    (secs > 0.0).then_some(secs).ok_or_else(wrong)
}

fn time_limit(text: &str) -> Option<f64> {
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| text.parse::<u32>().ok().map(f64::from))?
    };
    if let Some(secs) = text.strip_suffix('s') {
        return number(secs);
    }
    let (days, rest) = match text.split_once('-') {
        Some((days, rest)) => (Some(number(days)?), rest),
        None => (None, text),
    };
    let parts: Option<Vec<f64>> = rest.split(':').map(number).collect();
    Some(match (days, &parts?[..]) {
        (None, [minutes]) => minutes * 60.0,
        (None, [minutes, secs]) => minutes * 60.0 + secs,
        (None, [hours, minutes, secs]) => hours * 3600.0 + minutes * 60.0 + secs,
        (Some(days), [hours]) => days * 86_400.0 + hours * 3600.0,
        (Some(days), [hours, minutes]) => days * 86_400.0 + hours * 3600.0 + minutes * 60.0,
        (Some(days), [hours, minutes, secs]) => {
            days * 86_400.0 + hours * 3600.0 + minutes * 60.0 + secs
        }
        _ => return None,
    })
}

/// Formats seconds as Slurm does, such as `1-02:03:04`.
fn duration_text(secs: f64) -> String {
    let secs = secs.max(0.0) as u64;
    let days = match secs / 86_400 {
        0 => String::new(),
        days => format!("{days}-"),
    };
    let (hours, minutes, secs) = (secs / 3600 % 24, secs / 60 % 60, secs % 60);
    format!("{days}{hours:02}:{minutes:02}:{secs:02}")
}

/// Reads the training description of a job from its file.
fn training(path: &Path) -> Result<String, Failure> {
    let wrong = |e: String| Failure::new(format!("--training {}: {e}", path.display()));
    let text = private::read_given(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => wrong("no such file, expected a JSON file".to_owned()),
        _ => wrong(e.to_string()),
    })?;
    let _: TrainingSpec = serde_json::from_str(&text).map_err(|e| wrong(e.to_string()))?;
    Ok(text)
}

/// Submits with the same key until the scheduler responds. The key ensures that the job is
/// submitted once, even if responses are lost.
#[allow(clippy::disallowed_methods, reason = "patience has an end")]
async fn insist(
    at: &At,
    patience: f64,
    request: pb::SubmitManyRequest,
) -> Result<pb::SubmitManyReply, Failure> {
    let is_plain = request.indices.is_empty() && request.dependency.is_empty() && !request.hold;
    let begin = std::time::Instant::now();
    let mut reached = false;
    loop {
        let attempt = async {
            let mut client = client(at).await?;
            reached = true;
            if !is_plain {
                return Ok(client.submit_many(request.clone()).await?);
            }
            let job = request.job.clone().unwrap_or_default();
            let job = client.submit(request.key.clone(), job).await?;
            Ok(pb::SubmitManyReply { job, count: 1 })
        };
        match attempt.await {
            Err(Failure::Message { code, .. })
                if code == Code::Unreachable && begin.elapsed().as_secs_f64() < patience =>
            {
                tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            }
            // It is unknown whether the scheduler has the job.
            Err(Failure::Message { code, text }) if code == Code::Unreachable && reached => {
                let key = plain(&request.key);
                let text = format!(
                    "{text}; the job may be there all the same: submit it with --key {key} to have it once"
                );
                return Err(Failure::of(code, text));
            }
            result => return result,
        }
    }
}

async fn logs(a: LogsArgs, terminal: &mut Terminal<'_>) -> Result<(), Failure> {
    let job = match &a.job {
        // A reader of a number waits for a scheduler that is away.
        JobName::Number(number) => *number,
        name => number(&mut client(&a.at).await?, name).await?,
    };
    let wanted = pb::LogsRequest {
        job,
        launch: a.launch,
        rank: a.rank,
        err: a.err,
        follow: a.follow,
        after: None,
    };
    let mut before = None;
    let err = std::cell::RefCell::new(&mut *terminal.err);
    let away = |why: Option<&ClientError>| {
        // The output may be closed.
        let _ = match why {
            Some(why) => writeln!(
                err.borrow_mut(),
                "{}: waiting for it",
                plain(&why.to_string())
            ),
            None => writeln!(err.borrow_mut(), "the scheduler answers again"),
        };
    };
    let out = &mut *terminal.out;
    let show = |launch: u32, data: &[u8]| -> Result<(), Failure> {
        if a.json {
            let text = String::from_utf8_lossy(data);
            let line = json!({"job": job, "launch": launch, "rank": a.rank, "text": text});
            writeln!(out, "{line}")?;
        } else {
            if before.is_some_and(|b| b != launch) {
                writeln!(err.borrow_mut(), "launch {launch}")?;
            }
            out.write_all(data)?;
        }
        before = Some(launch);
        Ok(out.flush()?)
    };
    client(&a.at).await?.logs(wanted, show, away).await??;
    if before.is_none() && !a.err && !a.json {
        let hint = "no output; `--err` prints what the job wrote to standard error";
        writeln!(err.borrow_mut(), "{hint}")?;
    }
    Ok(())
}

pub(super) fn print(terminal: &mut Terminal<'_>, value: &Value) -> Result<(), Failure> {
    Ok(writeln!(terminal.out, "{value}")?)
}

/// A column of the queue: its name, its heading, and the text of a job.
type QueueColumn = (&'static str, &'static str, fn(&pb::JobLine) -> String);

/// Columns of the queue; the first six are the default with the reason.
const COLUMNS: [QueueColumn; 12] = [
    ("id", "ID", id),
    ("name", "name", |j| short(&j.name)),
    ("user", "user", |j| short(&j.user)),
    ("state", "state", |j| j.phase.clone()),
    ("time", "time", |j| span(j.running_s)),
    ("gpus", "GPUs", |j| match j.gpu_share {
        0.0 => j.gpus.to_string(),
        part => format!("{} x {}", j.gpus, metric(part)),
    }),
    ("nodes", "nodes", |j| plain(&j.nodes.join(" "))),
    ("reason", "reason", |j| plain(&j.reason)),
    ("queue", "queue", |j| short(&j.queue)),
    ("priority", "priority", |j| j.priority.to_string()),
    ("launch", "launch", |j| j.attempt.to_string()),
    ("submitted", "submitted", |j| moment(j.submitted_s)),
];

/// The last column of the default.
const WHERE: QueueColumn = ("where", "nodes or reason", |j| match j.nodes.is_empty() {
    true => plain(&j.reason),
    false => plain(&j.nodes.join(" ")),
});

/// Returns the columns that a user names, or the default.
fn columns_of(names: &[String]) -> Result<Vec<QueueColumn>, Failure> {
    if names.is_empty() {
        return Ok(COLUMNS[..6].iter().copied().chain([WHERE]).collect());
    }
    let one = |name: &String| {
        let known = COLUMNS.iter().find(|(known, ..)| known == name);
        known.copied().ok_or_else(|| {
            let all = COLUMNS.map(|(name, ..)| name).join(", ");
            let name = plain(name);
            Failure::new(format!(
                "--format: there is no column `{name}`, expected one of {all}"
            ))
        })
    };
    names.iter().map(one).collect()
}

/// Returns the text of a job in a column.
type Text<'a> = &'a dyn Fn(&&pb::JobLine) -> String;

fn queue(jobs: &[pb::JobLine], columns: &[QueueColumn]) -> Grid {
    let texts: Vec<_> = columns
        .iter()
        .map(|(_, head, text)| (*head, move |j: &&pb::JobLine| text(j)))
        .collect();
    let columns: Vec<(&str, Text<'_>)> = texts
        .iter()
        .map(|(head, text)| (*head, text as Text<'_>))
        .collect();
    Grid::of(jobs, columns.len(), &columns)
}

/// Returns the part of each GPU; `None` for whole GPUs.
fn share_of(j: &pb::JobLine) -> Option<Share> {
    let compute = match j.gpu_share {
        0.0 => Share::WHOLE,
        part => Share::of(part)?,
    };
    let memory = Share::of(j.gpu_memory_share);
    let share = memory.map_or(compute, |memory| compute.with_memory_of(memory));
    (!share.is_whole()).then_some(share)
}

fn node_table(nodes: &[pb::NodeLine]) -> Grid {
    let jobs = |n: &&pb::NodeLine| {
        let jobs: Vec<String> = n.jobs.iter().map(u32::to_string).collect();
        jobs.join(" ")
    };
    let status = |n: &&pb::NodeLine| match n.status.as_str() {
        "up" if !n.drained.is_empty() => "drained".to_owned(),
        status => status.to_owned(),
    };
    let reason = |n: &&pb::NodeLine| {
        let gpus = n
            .failed_gpus
            .iter()
            .map(|f| format!("GPU {} {}", f.gpu, f.why));
        let drained = Some(&n.drained).filter(|why| !why.is_empty()).cloned();
        let unknown = Some(&n.unknown_health).filter(|why| !why.is_empty());
        let unknown = unknown.map(|why| format!("health of GPUs unknown: {why}"));
        let all: Vec<String> = drained.into_iter().chain(gpus).chain(unknown).collect();
        plain(&all.join("; "))
    };
    Grid::of(
        nodes,
        5,
        &[
            ("node", &|n| n.node.to_string()),
            ("name", &|n| plain(&n.name)),
            ("status", &status),
            ("reason", &reason),
            ("jobs", &jobs),
            ("GPUs", &|n| n.gpus.to_string()),
            ("free", &|n| n.free.to_string()),
            ("silent s", &|n| format!("{:.1}", n.silent_s)),
        ],
    )
}

fn offer_table(offers: &[pb::OfferLine]) -> Grid {
    let notice = |o: &&pb::OfferLine| o.notice_s.map_or(String::new(), |s| s.to_string());
    Grid::of(
        offers,
        2,
        &[
            ("offer", &|o| plain(&o.name)),
            ("type", &|o| plain(&o.gpu_type)),
            ("GPUs", &|o| o.gpus.to_string()),
            ("price", &|o| o.price.to_string()),
            ("nodes", &|o| o.nodes.to_string()),
            ("most", &|o| o.most.to_string()),
            ("notice s", &notice),
        ],
    )
}

/// Formats seconds since 1970 as a date.
fn moment(secs: f64) -> String {
    format!("{}:{:02} UTC", date(secs), (secs as i64).rem_euclid(60))
}

/// Formats a word of a command. A word of several lines becomes its first line and their number.
fn first_line(word: &str) -> String {
    let lines = word.lines().count();
    match word.lines().next() {
        Some(first) if lines > 1 => format!("{} ({lines} lines)", quoted(first)),
        _ => quoted(word),
    }
}

/// Returns the accounts of the last launch of a job.
fn last_launch(j: &pb::JobLine) -> impl Iterator<Item = &pb::AccountLine> {
    let attempt = |a: &pb::AccountLine| a.id.map(|id| id.attempt);
    let last = j.accounts.iter().map(attempt).max().flatten();
    j.accounts.iter().filter(move |a| attempt(a) == last)
}

/// Returns the exit code of an ended job: of its last launch, the largest. Returns `None` for a
/// launch that was stopped or lost.
fn exit_code(j: &pb::JobLine) -> Option<i32> {
    let code = |a: &pb::AccountLine| match a.exit.as_str() {
        "Completed" => Some(0),
        exit => exit.strip_prefix("Failed with ")?.parse().ok(),
    };
    let codes = last_launch(j).filter_map(code).max();
    codes.filter(|_| j.ended_s > 0.0)
}

/// Returns the nodes of the last launch of an ended job.
fn last_nodes(j: &pb::JobLine) -> Vec<String> {
    let all = last_launch(j).filter(|_| j.ended_s > 0.0);
    all.map(|a| a.node.clone()).collect()
}

fn show(j: &pb::JobLine, terminal: &mut Terminal<'_>) -> Result<(), Failure> {
    let out = &mut terminal.out;
    writeln!(out, "job        {} {}", j.job, plain(&j.name))?;
    let command: Vec<String> = { sbatch::own_command(&j.command).iter() }
        .map(|word| first_line(word))
        .collect();
    let exit_code = exit_code(j).map_or(String::new(), |code| code.to_string());
    let logs = match (sbatch::output_of(j), j.attempt) {
        (Some(file), _) => file,
        (None, 0) => String::new(),
        (None, _) => format!("blox logs {}", id(j)),
    };
    // The reason of a failed start is there, too.
    let errors = match exit_code.as_str() {
        "" | "0" => String::new(),
        _ => format!("blox logs {} --err", id(j)),
    };
    let submitted = moment(j.submitted_s);
    let ended = match j.ended_s > 0.0 {
        true => moment(j.ended_s),
        false => String::new(),
    };
    let array = j.array.map(|_| id(j)).unwrap_or_default();
    let priority = match j.priority {
        0 => String::new(),
        priority => priority.to_string(),
    };
    let waited = match j.started_s > 0.0 {
        true => span(j.started_s - j.submitted_s),
        false => String::new(),
    };
    for (what, text) in [
        ("in array", &array),
        ("user", &j.user),
        ("queue", &j.queue),
        ("priority", &priority),
        ("class", &j.class),
        ("phase", &j.phase),
        ("why", &j.reason),
        ("submitted", &submitted),
        ("waited", &waited),
        ("ended", &ended),
        ("exit code", &exit_code),
        ("command", &command.join(" ")),
        ("folder", &j.working_directory),
        ("output", &logs),
        ("errors", &errors),
    ] {
        if !text.is_empty() {
            writeln!(out, "{what:10} {}", plain(text))?;
        }
    }
    let nodes = match j.nodes.is_empty() {
        true => last_nodes(j),
        false => j.nodes.clone(),
    };
    let on = match (nodes.is_empty(), j.node_count) {
        (false, _) => format!(" on {}", plain(&nodes.join(" "))),
        (true, 0) => String::new(),
        (true, 1) => " on one node".to_owned(),
        (true, nodes) => format!(", {} on each of {nodes} nodes", j.gpus / nodes),
    };
    writeln!(out, "GPUs       {}{on}", j.gpus)?;
    if let Some(share) = share_of(j) {
        writeln!(out, "share      {share}")?;
    }
    if let Some(secs) = j.time_limit_s {
        writeln!(
            out,
            "time       {} of {} used",
            duration_text(j.running_s),
            duration_text(secs)
        )?;
    }
    if let Some(needed) = j.needed_gpus {
        writeln!(out, "needs      {} now", number_of(needed, "GPU"))?;
    }
    writeln!(
        out,
        "launches   {}, preempted {}",
        j.attempt,
        number_of(j.preemptions, "time")
    )?;
    if j.iterations > 0.0 {
        let (done, all) = (j.iterations_done, j.iterations);
        writeln!(out, "work       {done:.0} of {all:.0} iterations")?;
        // A small excess is rounding, and a job that converges ends early.
        let ended = j.phase == Outcome::Completed.as_str();
        if done > 1.01 * all || (ended && done < 0.5 * all) {
            let submitted = "--iterations, or one a second of --duration";
            writeln!(
                out,
                "note       submitted as {all:.0} ({submitted}): policies misjudged what was left"
            )?;
        }
    }
    for (name, value) in &j.metrics {
        writeln!(out, "{:10} {}", plain(name), metric(*value))?;
    }
    for a in &j.accounts {
        let id = a.id.unwrap_or_default();
        let guess = if a.estimated { ", estimated" } else { "" };
        let why = match a.why.is_empty() {
            true => String::new(),
            false => format!(": {}", plain(&a.why)),
        };
        // Nothing was reported between the start and the loss.
        let ran = match a.exit == "Lost" && a.ran_ms == 0 {
            true => "running time unknown,".to_owned(),
            false => format!("{:.1} s", a.ran_ms as f64 / 1000.0),
        };
        writeln!(
            out,
            "launch {}   node {}: {}, {ran} on {}{guess}{why}",
            id.attempt,
            plain(&a.node),
            in_words(&a.exit),
            number_of(a.gpus, "GPU"),
        )?;
    }
    Ok(())
}

/// Exits of launches, and their words.
const EXITS: [(&str, &str); 8] = [
    ("Completed", "completed"),
    ("Stopped", "stopped on order"),
    ("Cut", "cut"),
    ("Lost", "lost"),
    ("Failed", "failed"),
    ("BadFile", "ended for a bad file"),
    ("TimedOut", "reached its time limit"),
    ("NeverRan", "never ran"),
];

/// Returns the words for an exit, such as `failed with 3`.
fn in_words(exit: &str) -> String {
    let known = EXITS.iter();
    let mut known = known.filter_map(|(name, words)| Some((words, exit.strip_prefix(name)?)));
    let words = known.next().map(|(words, code)| format!("{words}{code}"));
    words.unwrap_or_else(|| plain(exit))
}

/// Counts the launches by their exits, in words.
pub(super) fn counted_exits<'a>(exits: impl Iterator<Item = &'a str> + Clone) -> String {
    let counts = EXITS.map(|(name, words)| {
        let count = exits.clone().filter(|exit| exit.starts_with(name)).count();
        format!("{count} {words}")
    });
    counts.join(", ")
}

/// Formats a value that a job reports, with six digits.
fn metric(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 || (1e-4..1e9).contains(&size) {
        let places = (5.0 - size.max(1.0).log10().floor()).max(0.0) as usize;
        let places = places + usize::from(size < 1.0) * 4;
        let text = format!("{value:.places$}");
        return match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text,
        };
    }
    format!("{value:.5e}")
}

fn job_json(j: &pb::JobLine) -> Value {
    let account = |a: &pb::AccountLine| {
        json!({
            "launch": a.id.map(|i| i.attempt), "node": a.node, "exit": a.exit,
            "ran_s": a.ran_ms as f64 / 1000.0, "gpus": a.gpus, "estimated": a.estimated, "why": a.why,
        })
    };
    let mut all = json!({
        "job": j.job, "name": j.name, "user": j.user, "phase": j.phase, "gpus": j.gpus,
        "launch": j.attempt, "reason": j.reason, "submitted_s": j.submitted_s,
        "running_s": j.running_s,
        // Unknown for a job that ended without reporting iterations.
        "iterations_done": (j.iterations > 0.0).then_some(j.iterations_done),
        "iterations": (j.iterations > 0.0).then_some(j.iterations),
        "nodes": j.nodes, "preemptions": j.preemptions,
        "ended_s": (j.ended_s > 0.0).then_some(j.ended_s),
        "started_s": (j.started_s > 0.0).then_some(j.started_s),
        "queue": j.queue, "priority": j.priority,
        "accounts": j.accounts.iter().map(account).collect::<Vec<_>>(),
    });
    if j.node_count > 0 {
        all["node_count"] = json!(j.node_count);
    }
    if j.gpu_share > 0.0 {
        all["gpu_share"] = json!(j.gpu_share);
    }
    if j.gpu_memory_share > 0.0 {
        all["gpu_memory_share"] = json!(j.gpu_memory_share);
    }
    if !j.class.is_empty() {
        all["class"] = json!(j.class);
    }
    if let Some(array) = j.array {
        all["array"] = json!({"job": array, "index": j.index});
    }
    if let Some(needed) = j.needed_gpus {
        all["needed_gpus"] = json!(needed);
    }
    all
}

fn offer_json(o: &pb::OfferLine) -> Value {
    json!({
        "offer": o.name, "gpu_type": (!o.gpu_type.is_empty()).then_some(&o.gpu_type),
        "gpus": o.gpus, "price": o.price, "nodes": o.nodes, "most": o.most, "notice_s": o.notice_s,
    })
}

fn node_json(n: &pb::NodeLine) -> Value {
    let failed = |f: &pb::FailedGpu| json!({ "gpu": f.gpu, "why": f.why });
    json!({
        "node": n.node, "name": n.name, "status": n.status, "gpus": n.gpus, "free": n.free,
        "drained": n.drained, "silent_s": n.silent_s, "jobs": n.jobs,
        "failed_gpus": n.failed_gpus.iter().map(failed).collect::<Vec<_>>(),
        "unknown_health": (!n.unknown_health.is_empty()).then_some(&n.unknown_health),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_limits_have_the_formats_of_slurm() {
        let cases = [
            ("30", 1_800.0),
            ("90s", 90.0),
            ("1:30", 90.0),
            ("02:00:05", 7_205.0),
            ("1-12", 129_600.0),
            ("1-00:30", 88_200.0),
            ("1-00:00:01", 86_401.0),
        ];
        for (text, secs) in cases {
            assert_eq!(time_limit(text), Some(secs), "{text}");
        }
        for text in [
            "",
            "s",
            "-1",
            "1:2:3:4",
            "1d",
            "-",
            "1-",
            "1.5",
            "99999999999",
        ] {
            assert_eq!(time_limit(text), None, "{text}");
        }
        assert!(limit("", "0").is_err());
        assert_eq!(duration_text(93_784.9), "1-02:03:04");
        assert_eq!(duration_text(5.0), "00:00:05");
    }

    #[test]
    fn ended_jobs_are_counted_beside_cancelled_ones() {
        let job = |job, phase: &str| pb::JobLine {
            job,
            phase: phase.to_owned(),
            ..pb::JobLine::default()
        };
        let ended = [job(1, "failed"), job(2, "completed"), job(4, "completed")];
        let ended: Vec<&pb::JobLine> = ended.iter().collect();
        assert_eq!(
            before(&ended, 5, 2),
            "2 of 5 jobs cancelled: 3 had ended before (2 completed, 1 failed)"
        );
        assert_eq!(
            before(&ended[..1], 1, 0),
            "job 1 had ended before: it is failed"
        );
    }

    #[test]
    fn exits_are_words() {
        assert_eq!(in_words("Stopped"), "stopped on order");
        assert_eq!(in_words("Failed with 3"), "failed with 3");
        let exits = ["Lost", "Completed", "Failed with 3", "Completed"];
        assert_eq!(
            counted_exits(exits.into_iter()),
            "2 completed, 0 stopped on order, 0 cut, 1 lost, 1 failed, 0 ended for a bad file, 0 reached its time limit, 0 never ran"
        );
    }

    #[test]
    fn metrics_have_six_digits() {
        for (value, text) in [
            (0.0, "0"),
            (3.0, "3"),
            (0.1 + 0.2, "0.3"),
            (2.502_585_092_994, "2.50259"),
            (0.012_345_678_9, "0.012345679"),
            (1_234_567.8, "1234568"),
            (-98.765_432_1, "-98.7654"),
            (1.234_567_89e-30, "1.23457e-30"),
            (6.02e23, "6.02000e23"),
        ] {
            assert_eq!(metric(value), text);
        }
        assert_eq!(metric(f64::NAN), "NaN");
    }

    #[test]
    fn lost_launch_without_reports_has_no_length() {
        let account = |exit: &str, ran_ms| pb::AccountLine {
            exit: exit.to_owned(),
            ran_ms,
            gpus: 2,
            ..pb::AccountLine::default()
        };
        let job = pb::JobLine {
            accounts: vec![account("Lost", 0), account("Lost", 7000)],
            ..pb::JobLine::default()
        };
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut terminal = Terminal {
            input: &mut std::io::empty(),
            prompts: false,
            out: &mut out,
            form: blox_results::grid::Form::Lines,
            err: &mut err,
            interactive: false,
        };
        show(&job, &mut terminal).unwrap();
        let text = String::from_utf8(out).unwrap();
        let unknown = "lost, running time unknown, on 2 GPUs";
        assert!(
            text.contains(unknown) && text.contains("lost, 7.0 s on 2 GPUs"),
            "{text}"
        );
    }

    #[test]
    fn moments_are_dates_and_words_are_quoted_for_a_shell() {
        for (secs, date) in [
            (0.0, "1970-01-01 00:00:00 UTC"),
            (951_782_399.9, "2000-02-28 23:59:59 UTC"),
            (951_868_800.0, "2000-03-01 00:00:00 UTC"),
            (1_709_210_096.0, "2024-02-29 12:34:56 UTC"),
            (4_107_542_399.0, "2100-02-28 23:59:59 UTC"),
        ] {
            assert_eq!(moment(secs), date);
        }
        for nonsense in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(moment(nonsense).ends_with(" UTC"));
        }
        assert_eq!(quoted("--epochs=10"), "--epochs=10");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
    }
}
