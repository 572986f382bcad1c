//! `blox sweep merge`: joins the shards of a sweep.

use super::Parse;
use super::store::{Row, Store, difference, of_run, settings};
use crate::args::MergeArgs;
use crate::config;
use crate::failure::Failure;
use crate::output::{INDEX, MANIFEST};
use crate::plan::Plan;
use crate::shard::{lacking, shard_folders};
use crate::terminal::Terminal;
use blox_registry::Registry;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// The index of a shard.
struct Index {
    dir: PathBuf,
    content: Value,
}

pub(super) fn merge(
    registry: &Registry,
    args: MergeArgs,
    parse: Parse,
    terminal: &mut Terminal<'_>,
) -> Result<i32, Failure> {
    let shards = shards(&args.dirs)?;
    let first = &shards[0];
    for other in &shards[1..] {
        let (a, b) = (&first.content["settings"], &other.content["settings"]);
        if let Some((key, was, is)) = difference("", a, b) {
            return Err(Failure::at(
                &other.dir,
                format!(
                    "is of another sweep than {}: {key} is {is} and not {was}",
                    first.dir.display()
                ),
            ));
        }
    }
    let line = line(first, &args)?;
    let Some(late) = parse(&line) else {
        return Err(Failure::at(
            &first.dir.join(INDEX),
            "has no command line of a sweep",
        ));
    };
    let (_, mut given) = config::sweep(late)?;
    let plan = Plan::of_lists(given.clone(), registry)?;
    let now = settings(&plan);
    if let Some((key, was, is)) = difference("", &first.content["settings"], &now) {
        return Err(Failure::at(
            &first.dir,
            format!("the sweep is another now: {key} was {was}, now it is {is}"),
        ));
    }
    let found = found(&shards);
    let is_whole = |i: usize| match found.get(plan.names[i].as_str()) {
        Some(Some(dir)) => {
            let dir = dir.join("runs").join(&plan.names[i]);
            Store::finished_in(&dir, &plan, i).is_some()
        }
        // It has failed, and will fail again.
        Some(None) => true,
        None => false,
    };
    let missing: Vec<usize> = (0..plan.runs.len()).filter(|i| !is_whole(*i)).collect();
    if !missing.is_empty() {
        let of = shards[0].content["shard"]["of"].as_u64();
        let of = of.and_then(|of| u32::try_from(of).ok());
        let named = missing.iter();
        let named = named.map(|i| (plan.names[*i].as_str(), of_run(&plan, *i)));
        return Err(lacking(named, plan.runs.len(), of));
    }
    let own = |shard: &Index| shard.dir.canonicalize().ok();
    let into = args.output_dir.canonicalize().ok();
    if into.is_some() && shards.iter().any(|shard| own(shard) == into) {
        let text = "is a shard of the sweep, expected another --output-dir";
        return Err(Failure::at(&args.output_dir, text));
    }
    {
        let store = Store::open(&args.output_dir, &plan, &line, None)?;
        // An interrupted merge goes on where it was.
        let none: Vec<Option<Row>> = plan.names.iter().map(|_| None).collect();
        store.write_index(&plan, &none, "incomplete")?;
        for name in &plan.names {
            if let Some(Some(dir)) = found.get(name.as_str()) {
                take(
                    &dir.join("runs").join(name),
                    &store.dir.join("runs").join(name),
                )?;
            }
        }
    }
    // The earlier results are replaced already.
    given.output.force = false;
    super::run(registry, given, None, &line, terminal)
}

/// Returns the indices of all shards in these folders.
fn shards(dirs: &[PathBuf]) -> Result<Vec<Index>, Failure> {
    let read = |dir: PathBuf| {
        let index = dir.join(INDEX);
        let text = fs::read_to_string(&index).map_err(|e| Failure::at(&index, e))?;
        let content: Value = serde_json::from_str(&text).unwrap_or_default();
        match content["settings"].is_object() && content["command_line"].is_array() {
            true => Ok(Index { dir, content }),
            false => Err(Failure::at(&index, "is no index of a sweep")),
        }
    };
    shard_folders(dirs, INDEX)?.into_iter().map(read).collect()
}

/// Returns the command line of the sweep, with the output folder of the merge.
fn line(first: &Index, args: &MergeArgs) -> Result<Vec<OsString>, Failure> {
    let words = first.content["command_line"].as_array();
    let words = words.into_iter().flatten().filter_map(Value::as_str);
    let mut line: Vec<OsString> = words.map(OsString::from).collect();
    line.push("--output-dir".into());
    line.push(args.output_dir.clone().into());
    line.extend(args.force.then(|| "--force".into()));
    line.extend(args.quiet.then(|| "--quiet".into()));
    Ok(line)
}

/// Returns the runs of all shards, each with the folder of its shard. Runs that failed have none.
fn found(shards: &[Index]) -> BTreeMap<&str, Option<&Path>> {
    let mut all = BTreeMap::new();
    for shard in shards {
        for run in shard.content["runs"].as_array().into_iter().flatten() {
            let name = run["run"].as_str().unwrap_or_default();
            let dir = match run["status"].as_str() {
                Some("finished") => Some(shard.dir.as_path()),
                Some("failed") => None,
                _ => continue,
            };
            all.entry(name).or_insert(dir);
        }
    }
    all
}

/// Links or copies the files of a run, its manifest last.
fn take(from: &Path, to: &Path) -> Result<(), Failure> {
    if to.join(MANIFEST).exists() {
        return Ok(());
    }
    fs::create_dir_all(to).map_err(|e| Failure::at(to, e))?;
    let mut names = Vec::new();
    for entry in fs::read_dir(from).map_err(|e| Failure::at(from, e))? {
        names.push(entry.map_err(|e| Failure::at(from, e))?.file_name());
    }
    names.sort_by_key(|name| (name == MANIFEST, name.clone()));
    for name in names {
        let (source, target) = (from.join(&name), to.join(&name));
        // A link costs no room; folders on another disk are copied.
        let linked = fs::hard_link(&source, &target);
        let copied = linked.or_else(|_| fs::copy(&source, &target).map(drop));
        copied.map_err(|e| Failure::at(&target, e))?;
    }
    Ok(())
}
