//! `blox sweep --on slurm`: the shards of a sweep as the tasks of a job array.

use super::store::{of_run, settings};
use super::{Parse, merge};
use crate::args::{ArrayArgs, MergeArgs};
use crate::config::Given;
use crate::execute::now;
use crate::failure::Failure;
use crate::output::{self, INDEX};
use crate::plan::Plan;
use crate::shard::Shard;
use crate::terminal::{INTERRUPTED, OK, Terminal};
use blox_registry::Registry;
use blox_results::number_of;
use blox_slurm::{Programs, SlurmError};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Largest number of tasks, if none is given.
const TASKS: usize = 64;

/// File with Slurm's numbers of the arrays.
const JOBS: &str = "jobs.json";

/// Time between two checks of the tasks.
const EVERY: Duration = Duration::from_millis(300);

/// States of a task that has not ended.
const ACTIVE: [&str; 9] = [
    "PENDING",
    "RUNNING",
    "CONFIGURING",
    "COMPLETING",
    "SUSPENDED",
    "REQUEUED",
    "REQUEUE_HOLD",
    "STAGE_OUT",
    "SIGNALING",
];

/// A sweep as a job array.
struct Array {
    slurm: Programs,
    args: ArrayArgs,
    /// Folder of the merged sweep.
    dir: PathBuf,
    /// Folder of the shards, beside it.
    parts: PathBuf,
    /// Number of shards.
    of: u32,
    /// The command line of each task, without its shard.
    line: Vec<String>,
    /// The settings of the sweep, as the index of each shard has them.
    settings: Value,
}

pub(super) fn run(
    registry: &Registry,
    given: Given,
    args: ArrayArgs,
    line: &[OsString],
    parse: Parse,
    terminal: &mut Terminal<'_>,
) -> Result<i32, Failure> {
    let plan = Plan::of_lists(given, registry)?;
    let Some(dir) = plan.options.output_dir.clone() else {
        return Err(output::nowhere("on"));
    };
    let dir = std::path::absolute(&dir).map_err(|e| Failure::at(&dir, e))?;
    let mut name = dir.file_name().unwrap_or_default().to_owned();
    name.push(".shards");
    let parts = dir.with_file_name(name);
    let tasks = plan.runs.len().clamp(1, TASKS) as u32;
    let array = Array {
        slurm: Programs::default(),
        of: args.tasks.map_or(tasks, std::num::NonZeroU32::get),
        dir,
        parts,
        line: output::command_line(line),
        settings: settings(&plan),
        args,
    };
    // A shard may have no run.
    let used: BTreeSet<u32> = (0..plan.runs.len())
        .map(|i| Shard::number_of(&of_run(&plan, i), array.of))
        .collect();
    let (force, quiet) = (plan.options.force, plan.options.quiet);
    drop(plan);
    let todo: Vec<u32> = used
        .iter()
        .copied()
        .filter(|k| !array.is_complete(*k))
        .collect();
    if array.args.dry_run {
        terminal.print(&array.script(&todo)?)?;
        return Ok(OK);
    }
    fs::create_dir_all(array.parts.join("logs")).map_err(|e| Failure::at(&array.parts, e))?;
    if !quiet && todo.len() < used.len() {
        let _ = writeln!(
            terminal.err,
            "resumed: {} of {} shards were complete before",
            used.len() - todo.len(),
            used.len()
        );
    }
    // Tasks of an earlier command may still run.
    let mut jobs = array.jobs();
    let active = array.active(&jobs)?;
    let active = active.ok_or_else(|| Failure::new("Slurm does not answer"))?;
    let todo: Vec<u32> = todo.into_iter().filter(|k| !active.contains(k)).collect();
    if !todo.is_empty() {
        let job = array.submit(&todo, &mut jobs)?;
        let tasks = number_of(todo.len() as u64, "task");
        if !quiet {
            let parts = array.parts.display();
            let _ = writeln!(terminal.err, "Slurm job {job}: {tasks}, shards in {parts}");
        }
    }
    if array.args.detach {
        return Ok(OK);
    }
    if !array.watch(&used, jobs, terminal)? {
        return Ok(INTERRUPTED);
    }
    let merged = MergeArgs {
        // Shards of another number of tasks may lie beside them.
        dirs: used.iter().map(|number| array.folder(*number)).collect(),
        output_dir: array.dir.clone(),
        force,
        quiet: true,
    };
    merge::merge(registry, merged, parse, terminal)
}

/// Prints the state of the shards of a sweep.
pub(super) fn status(dir: &Path, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    let mut name = dir.file_name().unwrap_or_default().to_owned();
    name.push(".shards");
    let beside = dir.with_file_name(name);
    let parts = match beside.is_dir() {
        true => beside,
        false => dir.to_owned(),
    };
    let (mut statuses, mut runs) = (
        BTreeMap::<String, u64>::new(),
        BTreeMap::<String, u64>::new(),
    );
    for entry in fs::read_dir(&parts).map_err(|e| Failure::at(&parts, e))? {
        let path = entry.map_err(|e| Failure::at(&parts, e))?.path();
        let Some(index) = index(&path) else { continue };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        *statuses.entry(text(&index["status"])).or_default() += 1;
        for run in index["runs"].as_array().into_iter().flatten() {
            *runs.entry(text(&run["status"])).or_default() += 1;
        }
    }
    if statuses.is_empty() {
        return Err(Failure::at(&parts, "has no shard of a sweep yet"));
    }
    let listed = |counts: &BTreeMap<String, u64>| {
        let each = counts
            .iter()
            .map(|(status, count)| format!("{count} {status}"));
        each.collect::<Vec<_>>().join(", ")
    };
    terminal.print(&format!(
        "shards  {}\nruns    {}\n",
        listed(&statuses),
        listed(&runs)
    ))?;
    Ok(OK)
}

/// Returns the index of a shard's folder, if there is one.
fn index(dir: &Path) -> Option<Value> {
    serde_json::from_str(&fs::read_to_string(dir.join(INDEX)).ok()?).ok()
}

impl Array {
    /// Returns the folder of a shard.
    fn folder(&self, number: u32) -> PathBuf {
        let of = self.of;
        self.parts.join(Shard { number, of }.folder())
    }

    /// Returns whether all runs of a shard have ended, also with an error. The index of a shard
    /// of a shorter sweep has other settings; its task then adds what is missing.
    fn is_complete(&self, number: u32) -> bool {
        index(&self.folder(number)).is_some_and(|index| {
            let ended = index["status"] == "complete" || index["status"] == "failed";
            ended && index["settings"] == self.settings
        })
    }

    /// Returns the batch script of the array.
    fn script(&self, todo: &[u32]) -> Result<String, Failure> {
        let program =
            std::env::current_exe().map_err(|e| Failure::new(format!("no program: {e}")))?;
        let mut words = vec![program.to_string_lossy().into_owned()];
        words.extend(self.line.iter().skip(1).cloned());
        words.extend(["--shard".to_owned(), format!("slurm/{}", self.of)]);
        words.push("--output-dir".to_owned());
        words.push(self.parts.to_string_lossy().into_owned());
        words.push("--quiet".to_owned());
        let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        let a = &self.args;
        let mut script = String::from("#!/bin/sh\n");
        let mut option = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                script.push_str(&format!("#SBATCH --{name}={value}\n"));
            }
        };
        let most = a
            .max_parallel
            .map_or_else(String::new, |most| format!("%{most}"));
        option("job-name", Some("blox-sweep".to_owned()));
        option("array", Some(format!("{}{most}", ranges(todo))));
        option(
            "output",
            Some(quoted(&self.parts.join("logs/%a.log").to_string_lossy())),
        );
        option("open-mode", Some("append".to_owned()));
        option("partition", a.partition.clone());
        option("account", a.account.clone());
        option("time", a.time.clone());
        for arg in &a.slurm_arg {
            script.push_str(&format!("#SBATCH {arg}\n"));
        }
        script.push_str(&format!("exec {} > /dev/null\n", words.join(" ")));
        Ok(script)
    }

    /// Returns Slurm's numbers of the arrays that were submitted for this folder.
    fn jobs(&self) -> Vec<u32> {
        let text = fs::read_to_string(self.parts.join(JOBS));
        serde_json::from_str(&text.unwrap_or_default()).unwrap_or_default()
    }

    /// Submits shards, and returns Slurm's number of the array, which is added to `jobs`.
    fn submit(&self, todo: &[u32], jobs: &mut Vec<u32>) -> Result<u32, Failure> {
        let path = self.parts.join("array.sh");
        let script = self.script(todo)?;
        fs::write(&path, script).map_err(|e| Failure::at(&path, e))?;
        let args = ["--parsable".to_owned(), path.to_string_lossy().into_owned()];
        let out = self.slurm.run("sbatch", &args).map_err(failed)?;
        let text = String::from_utf8_lossy(&out);
        let number = text.trim().split(';').next().unwrap_or_default();
        let number = number.parse().map_err(|_| {
            let found = text.trim();
            Failure::new(format!("sbatch: found `{found}`, expected a number"))
        })?;
        jobs.push(number);
        let path = self.parts.join(JOBS);
        fs::write(&path, format!("{jobs:?}\n")).map_err(|e| Failure::at(&path, e))?;
        Ok(number)
    }

    /// Returns the shards whose tasks have not ended; `None` if Slurm does not answer.
    fn active(&self, jobs: &[u32]) -> Result<Option<BTreeSet<u32>>, Failure> {
        let mut active = BTreeSet::new();
        for job in jobs {
            let args = [
                "-h",
                "-r",
                "--states=all",
                "-o",
                "%K %T",
                "-j",
                &job.to_string(),
            ];
            let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
            let out = match self.slurm.run("squeue", &args) {
                Ok(out) => out,
                // The controller has forgotten the array.
                Err(SlurmError::Failed { message, .. }) if message.contains("Invalid job id") => {
                    continue;
                }
                Err(error) if error.is_temporary() => return Ok(None),
                Err(error) => return Err(failed(error)),
            };
            for line in String::from_utf8_lossy(&out).lines() {
                if let Some((task, state)) = line.split_once(' ')
                    && ACTIVE.contains(&state.trim())
                {
                    active.extend(task.parse::<u32>().ok());
                }
            }
        }
        Ok(Some(active))
    }

    /// Waits for all shards, and submits failed ones again. Returns `false` after an interruption,
    /// which leaves the array in Slurm.
    fn watch(
        &self,
        used: &BTreeSet<u32>,
        mut jobs: Vec<u32>,
        terminal: &mut Terminal<'_>,
    ) -> Result<bool, Failure> {
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        if terminal.interactive {
            // If the process has another handler, that one is kept.
            let _ = ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed));
        }
        let bar = match terminal.interactive && console::user_attended_stderr() {
            true => ProgressBar::new(used.len() as u64),
            false => ProgressBar::hidden(),
        };
        let template = "[{bar:30}] {human_pos} of {human_len} shards, {eta} left";
        let style = ProgressStyle::with_template(template);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let mut open: BTreeSet<u32> = used.clone();
        let mut retries: BTreeMap<u32, u32> = BTreeMap::new();
        loop {
            open.retain(|number| !self.is_complete(*number));
            bar.set_position((used.len() - open.len()) as u64);
            if open.is_empty() {
                bar.finish_and_clear();
                return Ok(true);
            }
            if stop.load(Ordering::Relaxed) {
                bar.abandon();
                let jobs: Vec<String> = jobs.iter().map(u32::to_string).collect();
                let _ = writeln!(
                    terminal.err,
                    "interrupted: {} of {} shards are complete; Slurm goes on with job {}, and the same command waits for it",
                    used.len() - open.len(),
                    used.len(),
                    jobs.join(", ")
                );
                return Ok(false);
            }
            if let Some(active) = self.active(&jobs)? {
                // A task may have ended since the last look at its shard.
                open.retain(|number| !self.is_complete(*number));
                let ended: Vec<u32> = open.difference(&active).copied().collect();
                self.again(&ended, &mut retries, &mut jobs, terminal)?;
            }
            let start = now();
            while start.elapsed() < EVERY && !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    /// Submits shards again whose tasks have ended without a result.
    fn again(
        &self,
        ended: &[u32],
        retries: &mut BTreeMap<u32, u32>,
        jobs: &mut Vec<u32>,
        terminal: &mut Terminal<'_>,
    ) -> Result<(), Failure> {
        if ended.is_empty() {
            return Ok(());
        }
        for number in ended {
            let count = retries.entry(*number).or_default();
            *count += 1;
            if *count > self.args.retries {
                let log = self.parts.join(format!("logs/{number}.log"));
                return Err(Failure::new(format!(
                    "shard {number}/{} has no result after {}; its log is {}",
                    self.of,
                    number_of(u64::from(*count), "task"),
                    log.display()
                )));
            }
        }
        let job = self.submit(ended, jobs)?;
        let tasks = number_of(ended.len() as u64, "task");
        let _ = writeln!(
            terminal.err,
            "{tasks} ended without a result: Slurm job {job} repeats them"
        );
        Ok(())
    }
}

fn failed(error: SlurmError) -> Failure {
    Failure::new(error.to_string())
}

/// Returns task numbers as Slurm reads them, such as `1-4,7`.
fn ranges(numbers: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => parts.push((*number, *number)),
        }
    }
    let one = |(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    parts.iter().map(one).collect::<Vec<_>>().join(",")
}

/// Returns a word of a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,%+@".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_written_as_ranges() {
        assert_eq!(ranges(&[1, 2, 3, 7, 9, 10]), "1-3,7,9-10");
        assert_eq!(ranges(&[]), "");
    }

    #[test]
    fn words_keep_their_characters_in_a_shell() {
        for word in [
            "las{guard_h=1|2}",
            "it's",
            "",
            "a b",
            "$HOME",
            "cluster=2x4",
        ] {
            let script = format!("printf %s {}", quoted(word));
            let out = std::process::Command::new("sh")
                .args(["-c", &script])
                .output();
            assert_eq!(String::from_utf8_lossy(&out.unwrap().stdout), word);
        }
    }
}
