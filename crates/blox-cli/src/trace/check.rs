//! `blox trace check`: reports all problems of a file.

use super::CheckArgs;
use crate::grid::{number_of, whole};
use crate::reading::cluster_of;
use crate::{BAD_INPUT, Failure, OK, Terminal};
use blox_core::{ClusterSpec, JobSpec};
use blox_traces::source::Source;
use blox_traces::{ReadOptions, check};
use std::path::Path;

pub(super) fn run(args: &CheckArgs, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    let options = args.file.options()?;
    let cluster = args.cluster.as_deref().map(cluster_of).transpose()?;
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
    cluster: Option<&(&str, ClusterSpec)>,
    terminal: &mut Terminal<'_>,
) -> Result<u64, Failure> {
    let path = file.display();
    let mut too_large = Vec::new();
    let mut too_large_count = 0;
    let mut each = |job: &JobSpec, line: u64| {
        if let Some((text, cluster)) = &cluster
            && let Some(what) = never_fits(job, cluster)
        {
            too_large_count += 1;
            if too_large.len() < args.limit {
                too_large.push(format!("{path}:{line}: {what} in the cluster {text}"));
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
    let problems = match count {
        0 => "no problem".to_owned(),
        n => number_of(n, "problem"),
    };
    let (format, jobs) = (&checked.format, number_of(checked.jobs, "job"));
    writeln!(terminal.out, "{path} ({format}): {problems}, {jobs}")?;
    Ok(count)
}

/// Returns the reason for which a job can never run, even on an empty cluster.
fn never_fits(job: &JobSpec, cluster: &ClusterSpec) -> Option<String> {
    let extras = job.extras();
    let mut wanted: Vec<_> = extras.gpu_types.iter().map(|name| name.as_str()).collect();
    if let Some(training) = &extras.training {
        // A job does not run on GPU types that its application does not describe.
        let told = training.types.keys().map(|name| name.as_str());
        wanted = match wanted.is_empty() {
            true => told.collect(),
            false => told.filter(|name| wanted.contains(name)).collect(),
        };
    }
    let any = wanted.is_empty() && extras.training.is_none();
    let fits = |node: &&blox_core::NodeSpec| {
        any || wanted.contains(&node.gpu_type.as_deref().unwrap_or_default())
    };
    let nodes = cluster.nodes.iter().filter(fits);
    let gpus: u64 = nodes.map(|node| u64::from(node.gpus)).sum();
    let asked = extras.levels.first().map_or(job.gpus, |least| *least);
    if u64::from(asked.get()) <= gpus {
        return None;
    }
    // The type of nodes without a type is empty.
    wanted.retain(|name| !name.is_empty());
    let types = match any {
        true => String::new(),
        false => format!(" of type {}", wanted.join(" or ")),
    };
    Some(format!(
        "gpus is `{asked}`, expected at most the {}{types}",
        number_of(gpus, "GPU")
    ))
}
