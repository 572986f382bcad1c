//! `blox acct`: accounts of ended jobs, from a scheduler or from its state directory.

use super::args::{AcctArgs, AcctBy, AcctFormat};
use super::cells::{client, me, span};
use crate::failure::{Code, Failure};
use crate::files::write_whole;
use crate::output::tables::sink;
use crate::terminal::{OK, Terminal};
use crate::text::plain;
use blox_cluster::history::{self, HISTORY_FILE, Query};
use blox_cluster::wire::pb;
use blox_results::grid::{Grid, decimal};
use blox_results::{TableSink, WriteError};
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::Path;

impl From<AcctBy> for pb::AccountsBy {
    fn from(by: AcctBy) -> Self {
        match by {
            AcctBy::User => pb::AccountsBy::User,
            AcctBy::Job => pb::AccountsBy::Job,
            AcctBy::Day => pb::AccountsBy::Day,
            AcctBy::Queue => pb::AccountsBy::Queue,
            AcctBy::GpuType => pb::AccountsBy::GpuType,
        }
    }
}

fn heading(by: AcctBy) -> &'static str {
    match by {
        AcctBy::User => "user",
        AcctBy::Job => "job",
        AcctBy::Day => "day",
        AcctBy::Queue => "queue",
        AcctBy::GpuType => "gpu_type",
    }
}

pub(super) async fn run(a: AcctArgs, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    let format = format_of(&a)?;
    let user = match a.me {
        true => me(&a.at)?,
        false => a.user.unwrap_or_default(),
    };
    let by = match a.jobs.is_empty() {
        true => a.by,
        false => AcctBy::Job,
    };
    let request = pb::AccountsRequest {
        by: pb::AccountsBy::from(by).into(),
        since_s: a.since.map(|at| at.0),
        until_s: a.until.map(|at| at.0),
        user,
    };
    let mut groups: Vec<pb::GroupLine> = match &a.state_dir {
        Some(dir) => {
            let query = Query {
                by: request.by().into(),
                since_s: request.since_s,
                until_s: request.until_s,
                user: request.user,
            };
            let groups = history::accounts(&dir.join(HISTORY_FILE), &query);
            let groups = groups.map_err(|e| Failure::of(Code::Request, plain(&e.to_string())))?;
            groups.into_iter().map(Into::into).collect()
        }
        None => client(&a.at).await?.accounts(request).await?,
    };
    if !a.jobs.is_empty() {
        groups.retain(|group| a.jobs.iter().any(|job| is_of(job, &group.group)));
    }
    let name = heading(by);
    let fill = |table: &mut dyn TableSink| fill(name, &groups, table);
    match (format, &a.output) {
        (AcctFormat::Table, None) => {
            let table = table(name, &groups).text(terminal.form);
            terminal.print(&table)?;
        }
        (AcctFormat::Json, None) => writeln!(terminal.out, "{}", json_of(name, &groups))?,
        (AcctFormat::Csv, None) => {
            let mut bytes = Vec::new();
            fill(&mut *sink(Path::new("acct.csv"), &mut bytes)).map_err(io_failure)?;
            terminal.print(&String::from_utf8_lossy(&bytes))?;
        }
        (AcctFormat::Parquet, None) => {
            return Err(Failure::new("--format parquet has no --output FILE"));
        }
        (AcctFormat::Table, Some(path)) => {
            let text = table(name, &groups).text(blox_results::grid::Form::Lines);
            write_whole(path, |out| out.write_all(text.as_bytes()))?;
        }
        (AcctFormat::Json, Some(path)) => {
            let text = json_of(name, &groups).to_string();
            write_whole(path, |out| writeln!(out, "{text}"))?;
        }
        (AcctFormat::Csv, Some(path)) => {
            write_whole(path, |out| fill(&mut *sink(Path::new("acct.csv"), out)))?;
        }
        (AcctFormat::Parquet, Some(path)) => {
            write_whole(path, |out| fill(&mut *sink(Path::new("acct.parquet"), out)))?;
        }
    }
    Ok(OK)
}

/// Returns whether the account of a job is of a job or an array that a user names.
fn is_of(named: &str, job: &str) -> bool {
    let place = job.strip_prefix(named);
    place.is_some_and(|place| place.is_empty() || place.starts_with('_'))
}

fn io_failure(e: WriteError) -> Failure {
    Failure::of(Code::Output, e)
}

/// Returns the given format, or the format of the file's ending.
fn format_of(a: &AcctArgs) -> Result<AcctFormat, Failure> {
    let ending = a.output.as_deref().and_then(Path::extension);
    let format = a.format.unwrap_or(match ending.and_then(|e| e.to_str()) {
        Some("csv") => AcctFormat::Csv,
        Some("parquet") => AcctFormat::Parquet,
        Some("json") => AcctFormat::Json,
        _ => AcctFormat::Table,
    });
    if format == AcctFormat::Parquet && !cfg!(feature = "parquet") {
        return Err(Failure::new(
            "this program was built without the feature `parquet`: build it with `--features parquet`",
        ));
    }
    Ok(format)
}

fn table(name: &str, groups: &[pb::GroupLine]) -> Grid {
    let name = name.replace('_', " ");
    let wait = |wait: Option<f64>| wait.map_or_else(|| "-".to_owned(), span);
    Grid::of(
        groups,
        1,
        &[
            (&name, &|g| match g.group.is_empty() {
                true => "-".to_owned(),
                false => plain(&g.group),
            }),
            ("jobs", &|g| g.jobs.to_string()),
            ("GPU h", &|g| decimal(g.gpu_h, 2)),
            ("lost GPU h", &|g| decimal(g.lost_gpu_h, 2)),
            ("wait mean", &|g| wait(g.wait_mean_s)),
            ("wait median", &|g| wait(g.wait_median_s)),
            ("completed", &|g| g.completed.to_string()),
            ("failed", &|g| g.failed.to_string()),
            ("timed out", &|g| g.timed_out.to_string()),
            ("cancelled", &|g| g.cancelled.to_string()),
            ("rejected", &|g| g.rejected.to_string()),
        ],
    )
}

fn fill(name: &str, groups: &[pb::GroupLine], table: &mut dyn TableSink) -> Result<(), WriteError> {
    table.begin(&[
        name,
        "jobs",
        "gpu_h",
        "lost_gpu_h",
        "wait_mean_s",
        "wait_median_s",
        "completed",
        "failed",
        "timed_out",
        "cancelled",
        "rejected",
    ]);
    for g in groups {
        table.text(Some(&g.group));
        table.whole(g.jobs);
        table.number(Some(g.gpu_h));
        table.number(Some(g.lost_gpu_h));
        table.number(g.wait_mean_s);
        table.number(g.wait_median_s);
        for count in [g.completed, g.failed, g.timed_out, g.cancelled, g.rejected] {
            table.whole(count);
        }
        table.end_row()?;
    }
    table.finish()
}

fn json_of(name: &str, groups: &[pb::GroupLine]) -> Value {
    let line = |g: &pb::GroupLine| {
        let mut line = json!({
            "jobs": g.jobs, "gpu_h": g.gpu_h, "lost_gpu_h": g.lost_gpu_h,
            "wait_mean_s": g.wait_mean_s, "wait_median_s": g.wait_median_s,
            "completed": g.completed, "failed": g.failed, "timed_out": g.timed_out,
            "cancelled": g.cancelled, "rejected": g.rejected,
        });
        line[name] = json!(g.group);
        line
    };
    groups.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::is_of;

    #[test]
    fn number_of_an_array_names_all_its_jobs() {
        assert!(is_of("12", "12") && is_of("12", "12_3") && is_of("12_3", "12_3"));
        assert!(!is_of("12", "123") && !is_of("12_3", "12_30") && !is_of("12_3", "12"));
    }
}
