//! `blox trace check`: reports all problems of a file.

use super::CheckArgs;
use crate::failure::Failure;
use crate::reading::cluster_of;
use crate::terminal::{BAD_INPUT, OK, Terminal};
use blox_core::{ClusterSpec, JobSpec, State};
use blox_results::{number_of, whole};
use blox_traces::source::Source;
use blox_traces::{ReadOptions, check};
use std::path::Path;
use std::sync::Arc;

pub(super) fn run(args: &CheckArgs, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    let options = args.file.options()?;
    let cluster = args.cluster.as_deref().map(cluster_of).transpose()?;
    let state = |(text, spec): (_, ClusterSpec)| Ok::<_, Failure>((text, State::new(&spec)?));
    let cluster = cluster.map(state).transpose()?;
    let first = &args.file.file;
    if args.others.is_empty() {
        let problems = of_file(first, args, &options, cluster.as_ref(), terminal)?;
        return Ok(if problems == 0 { OK } else { BAD_INPUT });
    }
    let mut sound = true;
    for path in std::iter::once(first).chain(&args.others) {
        match of_file(path, args, &options, cluster.as_ref(), terminal) {
            Ok(problems) => sound &= problems == 0,
            // The other files are checked nevertheless.
            Err(Failure::Message { text, .. }) => {
                writeln!(terminal.out, "{text}")?;
                sound = false;
            }
            Err(other) => return Err(other),
        }
    }
    Ok(if sound { OK } else { BAD_INPUT })
}

/// Reports the problems of a file, and returns their number.
fn of_file(
    file: &Path,
    args: &CheckArgs,
    options: &ReadOptions,
    cluster: Option<&(&str, State)>,
    terminal: &mut Terminal<'_>,
) -> Result<u64, Failure> {
    let path = file.display();
    let mut too_large = Vec::new();
    let mut too_large_count = 0;
    let mut each = |job: &JobSpec, line: u64| {
        if let Some((text, state)) = cluster
            && let Err(why) = state.could_hold(&Arc::new(job.clone()))
        {
            too_large_count += 1;
            if too_large.len() < args.limit {
                let what = format!("the job can never run in the cluster {text}: it {why}");
                too_large.push(format!("{path}:{line}: {what}"));
            }
        }
    };
    let source = Source::at(file)?;
    let checked = check(&source, options, args.limit, &mut each)?;
    let count = checked.problem_count + too_large_count;
    let lines = checked.problems.iter().map(ToString::to_string);
    for line in lines.chain(too_large).take(args.limit) {
        writeln!(terminal.out, "{line}")?;
    }
    if count > args.limit as u64 {
        let more = whole(count - args.limit as u64);
        writeln!(terminal.out, "and {more} more; --limit N shows N")?;
    }
    for notice in checked.notices.iter() {
        writeln!(terminal.out, "notice: {notice}")?;
    }
    let empty = checked.jobs == 0 && count == 0;
    if empty {
        writeln!(terminal.out, "{path}: no job, expected at least one row")?;
    }
    let count = count + u64::from(empty);
    let problems = match count {
        0 => "no problem".to_owned(),
        n => number_of(n, "problem"),
    };
    let (format, jobs) = (&checked.format, number_of(checked.jobs, "job"));
    writeln!(terminal.out, "{path} ({format}): {problems}, {jobs}")?;
    Ok(count)
}
