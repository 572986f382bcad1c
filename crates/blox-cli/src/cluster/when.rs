//! `blox when`: forecasts starts and ends of queued jobs.
#![allow(
    clippy::disallowed_methods,
    reason = "the time of a forecast, from which it shows times"
)]

use super::args::{Carrier, WhenArgs, WhenQueue};
use crate::config;
use crate::failure::{Code, Failure};
use crate::help::Late;
use crate::import::{LiveQueue, queue};
use crate::terminal::{OK, Terminal};
use crate::text::plain;
use crate::trace::info::date;
use blox_core::forecast::{Expected, Forecaster, Interval, PastJob};
use blox_core::runtime::Observers;
use blox_core::{JobSpec, Pipeline, State, Time};
use blox_experiment::Prepared;
use blox_registry::Registry;
use blox_results::grid::Grid;
use blox_sim::completion::Exact;
use blox_sim::forecast::{ENOUGH, LookAhead, Recent};
use blox_slurm::{Folder, Imported, SLURM_JOB, Selection, is_in_use};
use serde_json::{Value, json};
use std::any::Any;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// A queued job with its interval, in seconds of Unix time.
struct Row {
    /// Its number, or its place in an array.
    job: String,
    /// Its number if `job` is its place in an array.
    number: Option<u32>,
    name: String,
    user: String,
    gpus: u32,
    start: [Option<f64>; 3],
    end: [Option<f64>; 3],
}

/// A forecast.
struct Forecasted {
    now: f64,
    rows: Vec<Row>,
}

pub(super) fn run(
    registry: &Registry,
    mut late: Late<WhenArgs>,
    terminal: &mut Terminal<'_>,
) -> Result<i32, Failure> {
    let args = &mut late.args;
    let is_job = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    // `blox when SCHEDULER` has no job.
    if args.simulate.positional.is_none() && !args.job.as_deref().is_none_or(is_job) {
        args.simulate.positional = args.job.take();
    }
    let json = std::mem::take(&mut args.simulate.options.output.json);
    let job = args.job.clone();
    let mut forecast = match (&args.queue.state_dir, args.queue.on) {
        (Some(_), _) => driven(registry, late, terminal)?,
        (None, Carrier::Slurm) => imported(registry, late, terminal)?,
        (None, Carrier::Nodes) => of_nodes(late)?,
    };
    if let Some(job) = job {
        let in_array = format!("{job}_");
        let is_named = |row: &Row| row.job == job || row.job.starts_with(&in_array);
        forecast.rows.retain(is_named);
        if forecast.rows.is_empty() {
            return Err(Failure::new(format!(
                "no forecast of job {job}, expected a job that waits for GPUs: not running, ended, \
                 rejected, held by a user or with a later begin"
            )));
        }
    }
    let text = match json {
        true => format!("{}\n", json_of(&forecast)),
        false if forecast.rows.is_empty() => "no job is queued\n".to_owned(),
        false => table(&forecast).text(terminal.form),
    };
    terminal.print(&text)?;
    Ok(OK)
}

/// Asks a scheduler with node managers.
#[cfg(feature = "cluster")]
fn of_nodes(late: Late<WhenArgs>) -> Result<Forecasted, Failure> {
    use blox_cluster::wire::pb;
    let WhenArgs {
        job,
        simulate,
        queue,
    } = *late.args;
    refuse_files(&queue)?;
    if simulate.positional.is_some() || simulate.scheduler.is_some() {
        return Err(Failure::new(
            "the scheduler forecasts with its own policies: name another only with --on slurm",
        ));
    }
    let reply: Result<pb::WhenReply, Failure> = super::daemons::runtime()?.block_on(async {
        let mut client = super::cells::client(&queue.at).await?;
        Ok(client.when(job).await?)
    });
    let reply = reply?;
    let times = |of: Option<pb::IntervalLine>| {
        let of = of.unwrap_or_default();
        [of.low_s, of.median_s, of.high_s]
    };
    let rows = reply.jobs.into_iter().map(|line| Row {
        job: match line.array {
            Some(array) => format!("{array}_{}", line.index),
            None => line.job.to_string(),
        },
        number: line.array.map(|_| line.job),
        name: line.name,
        user: line.user,
        gpus: line.gpus,
        start: times(line.start),
        end: times(line.end),
    });
    Ok(Forecasted {
        now: reply.now_s,
        rows: rows.collect(),
    })
}

#[cfg(not(feature = "cluster"))]
fn of_nodes(late: Late<WhenArgs>) -> Result<Forecasted, Failure> {
    refuse_files(&late.args.queue)?;
    Err(Failure::new(super::MISSING))
}

fn refuse_files(queue: &WhenQueue) -> Result<(), Failure> {
    let given = [
        ("squeue", queue.squeue.is_some()),
        ("sacct", queue.sacct.is_some()),
        ("partition", queue.partition.is_some()),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((name, _)) => Err(Failure::new(format!(
            "--{name} needs --on slurm, which reads the queue of Slurm"
        ))),
        None => Ok(()),
    }
}

/// Returns the composition of the command line.
fn pipeline(registry: &Registry, late: Late<WhenArgs>) -> Result<(Pipeline, WhenQueue), Failure> {
    let WhenArgs {
        simulate, queue, ..
    } = *late.args;
    let given = config::scheduler(simulate, &late.matches)?.experiment;
    Ok((Prepared::of(given, registry)?.pipeline(0)?, queue))
}

/// Follows the journals of a scheduler on Slurm.
fn driven(
    registry: &Registry,
    mut late: Late<WhenArgs>,
    terminal: &mut Terminal<'_>,
) -> Result<Forecasted, Failure> {
    let daemon =
        |error: &dyn std::fmt::Display| Failure::of(Code::Daemon, plain(&error.to_string()));
    let dir = late.args.queue.state_dir.clone().unwrap_or_default();
    let simulate = &mut late.args.simulate;
    if simulate.positional.is_none() && simulate.scheduler.is_none() {
        let name = Folder::scheduler_of(&dir).map_err(|e| daemon(&e))?;
        let none = || Failure::at(&dir, "has no journal of a scheduler on Slurm");
        simulate.positional = Some(name.ok_or_else(none)?.to_string());
    }
    let (pipeline, _) = pipeline(registry, late)?;
    let (trigger, ahead) = (pipeline.trigger(), LookAhead::of(pipeline.trigger()));
    let mut observers = Observers::default();
    observers.add(Box::new(Recent::default()));
    if !is_in_use(&dir).unwrap_or(false) {
        let text = format!(
            "{}: no scheduler runs here; the last journal is forecast",
            dir.display()
        );
        terminal.notices(&[text]);
    }
    let looked = Folder::look(&dir, Box::new(pipeline), trigger, &mut observers);
    let (core, scheduler) = looked.map_err(|e| daemon(&e))?;
    let mut state = core.into_state();
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    state.advance(Time::new(now.as_secs_f64()));
    let past = observers.collectors().iter().find_map(|collector| {
        let any: &dyn Any = &**collector;
        any.downcast_ref::<Recent>().map(Recent::jobs)
    });
    let past = past.unwrap_or_default();
    few(&past, terminal);
    let ahead = ahead.completion(Exact);
    let expected = ahead.expect(&state, &*scheduler, &past, &Arc::default());
    let expected = expected.unwrap_or_default();
    Ok(forecasted(&state, &expected, Time::ZERO, 0.0))
}

/// Imports the queue of Slurm, and forecasts it under a scheduler.
fn imported(
    registry: &Registry,
    late: Late<WhenArgs>,
    terminal: &mut Terminal<'_>,
) -> Result<Forecasted, Failure> {
    if late.args.simulate.positional.is_none() && late.args.simulate.scheduler.is_none() {
        return Err(Failure::new(
            "no scheduler, expected `blox when SCHEDULER --on slurm`",
        ));
    }
    let (mut pipeline, given) = pipeline(registry, late)?;
    let which = Selection {
        partition: given.partition.clone(),
        whole: true,
        ..Selection::default()
    };
    let live = LiveQueue {
        squeue: given.squeue.as_deref(),
        sinfo: given.sinfo.as_deref(),
        now: given.now,
    };
    let queue = queue(&live, &which)?;
    let past = match &given.sacct {
        Some(path) => ended(path)?,
        None => Vec::new(),
    };
    // Times of the past are at least 0.
    let longest = past.iter().map(|job| job.end).max().unwrap_or(Time::ZERO);
    let now = longest.max(Time::new(86_400.0));
    let trigger = pipeline.trigger();
    let ahead = LookAhead::of(trigger.clone()).completion(Exact);
    let begun = queue.begin(now, trigger, &mut pipeline);
    let (state, left_out) = begun.map_err(|error| Failure::of(Code::Cluster, error.to_string()))?;
    let notices: Vec<String> = queue
        .notices
        .iter()
        .chain(&left_out)
        .map(|text| plain(text))
        .collect();
    terminal.notices(&notices);
    few(&past, terminal);
    let expected = ahead.expect(&state, &pipeline, &past, &Arc::default());
    let expected = expected.unwrap_or_default();
    Ok(forecasted(&state, &expected, now, queue.now))
}

/// Reads the ended jobs of a log. The last of them ends at the time of the queue.
fn ended(path: &Path) -> Result<Vec<PastJob>, Failure> {
    let read = |error: std::io::Error| {
        Failure::of(Code::WorkloadFile, format!("{}: {error}", path.display()))
    };
    let text = std::fs::read(path).map_err(read)?;
    let log = Imported::history(&text);
    let log = log.map_err(|error| {
        Failure::of(
            Code::Format,
            format!("{}: {}", path.display(), plain(&error.to_string())),
        )
    })?;
    let past = log.jobs.into_iter().map(|spec: JobSpec| PastJob {
        ran: spec.duration(),
        end: spec.submit + spec.duration(),
        spec: spec.into(),
    });
    Ok(past.collect())
}

/// Shows that running times are only those that users state.
fn few(past: &[PastJob], terminal: &mut Terminal<'_>) {
    if past.len() < ENOUGH {
        let text = format!(
            "{} ended jobs are known, fewer than {ENOUGH}: jobs run as stated",
            past.len()
        );
        terminal.notices(&[text]);
    }
}

/// Shows times relative to `zero` of the state as Unix times after `unix`.
fn forecasted(state: &State, expected: &[Expected], zero: Time, unix: f64) -> Forecasted {
    let time = |at: Option<Time>| at.map(|at| unix + (at.secs() - zero.secs()));
    let times = |of: &Interval| [time(of.low), time(of.median), time(of.high)];
    let rows = expected.iter().filter_map(|expected| {
        let job = state.job(expected.job)?;
        let spec = job.spec();
        let text = |name: &Option<blox_core::Name>| {
            name.as_ref().map_or_else(String::new, ToString::to_string)
        };
        // Jobs of Slurm have a number of their own.
        let own = spec.extras().attributes.get(SLURM_JOB);
        let mut own = own.map_or_else(
            || expected.job.to_string(),
            |id| id.to_string().trim_matches('"').to_owned(),
        );
        let mut name = text(&spec.name);
        if name == own || name.starts_with(&format!("{own}_")) {
            // An imported job, or a task of an array: the name is its number in Slurm.
            own = std::mem::take(&mut name);
        }
        Some(Row {
            job: own,
            number: None,
            name,
            user: text(&spec.user),
            gpus: job.gpus().get(),
            start: times(&expected.start),
            end: times(&expected.end),
        })
    });
    Forecasted {
        now: unix + (state.now().secs() - zero.secs()),
        rows: rows.collect(),
    }
}

fn table(forecast: &Forecasted) -> Grid {
    let now = forecast.now;
    let start = |row: &&Row| span(row.start[1], now);
    let end = |row: &&Row| span(row.end[1], now);
    let starts = |row: &&Row| format!("{} to {}", span(row.start[0], now), span(row.start[2], now));
    let ends = |row: &&Row| format!("{} to {}", span(row.end[0], now), span(row.end[2], now));
    let at = |row: &&Row| row.start[1].map_or_else(String::new, date);
    Grid::of(
        &forecast.rows,
        3,
        &[
            ("job", &|row| row.job.clone()),
            ("name", &|row| plain(&row.name)),
            ("user", &|row| plain(&row.user)),
            ("GPUs", &|row| row.gpus.to_string()),
            ("starts in", &start),
            ("90 % interval", &starts),
            ("at (UTC)", &at),
            ("ends in", &end),
            ("90 % interval", &ends),
        ],
    )
}

/// Formats the time from now, such as `2 h 05 min`. A time beyond the forecast is `later`.
fn span(at: Option<f64>, now: f64) -> String {
    let Some(at) = at else {
        return "later".to_owned();
    };
    let s = (at - now).max(0.0).round() as u64;
    match s {
        0..=99 => format!("{s} s"),
        100..=5_999 => format!("{} min", (s + 30) / 60),
        6_000..=172_799 => format!("{} h {:02} min", s / 3_600, s % 3_600 / 60),
        _ => format!("{} d {} h", s / 86_400, s % 86_400 / 3_600),
    }
}

fn json_of(forecast: &Forecasted) -> Value {
    let times = |of: &[Option<f64>; 3]| json!({"low_s": of[0], "median_s": of[1], "high_s": of[2]});
    let jobs = forecast.rows.iter().map(|row| {
        let number = row.job.parse::<u32>();
        let job = number.map_or_else(|_| json!(row.job), |number| json!(number));
        let mut line = json!({
            "job": job, "name": row.name, "user": row.user, "gpus": row.gpus,
            "start": times(&row.start), "end": times(&row.end),
        });
        if let Some(number) = row.number {
            (line["job"], line["task"]) = (json!(number), json!(row.job));
        }
        line
    });
    json!({"now_s": forecast.now, "jobs": jobs.collect::<Vec<Value>>()})
}

#[cfg(test)]
mod tests {
    use super::span;

    #[test]
    fn spans_have_two_units() {
        for (s, text) in [
            (0.4, "0 s"),
            (99.0, "99 s"),
            (100.0, "2 min"),
            (5_999.0, "100 min"),
            (7_500.0, "2 h 05 min"),
            (200_000.0, "2 d 7 h"),
        ] {
            assert_eq!(span(Some(1000.0 + s), 1000.0), text);
        }
        assert_eq!(span(Some(900.0), 1000.0), "0 s"); // due
        assert_eq!(span(None, 1000.0), "later");
    }
}
