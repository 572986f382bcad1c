//! Shards of commands that print one result of all runs: `claims`, `reproduce` and `compare --seeds`.
//!
//! ```text
//! shard-K-of-N/runs.jsonl  a line about the command, then a line for each finished run
//! ```
//!
//! A line has the settings of its run, which identify it. A killed shard continues after its last
//! whole line, and a merge takes each run from any shard.

use crate::args::PartArgs;
use crate::failure::Failure;
use crate::lock::Lock;
use crate::output;
use crate::shard::{Shard, lacking, shard_folders};
use crate::terminal::{INTERRUPTED, OK, Terminal};
use blox_results::number_of;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// File of the runs of a shard.
const RUNS: &str = "runs.jsonl";

/// First line of a shard.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Head {
    blox_version: String,
    command: String,
    of: u32,
}

/// A run that has ended, with its settings. The result is a `Result` with a message.
#[derive(Serialize, Deserialize)]
struct Line<R> {
    run: Value,
    result: R,
}

/// A result that is not read.
#[derive(Deserialize)]
enum Ended {
    Ok(IgnoredAny),
    Err(IgnoredAny),
}

/// The source of the results of a command's runs.
pub(crate) enum Source {
    /// This process.
    Here,
    /// One shard of them is run and kept.
    Part(Part),
    /// Shards that were run before.
    Merged(Vec<PathBuf>),
}

/// A shard of a command's runs.
pub(crate) struct Part {
    shard: Shard,
    dir: PathBuf,
    file: Mutex<File>,
    /// Settings of the runs that are kept without an error, as texts.
    kept: BTreeSet<String>,
    _lock: Lock,
}

impl Source {
    /// Returns the source that the options name.
    pub fn of(
        args: &PartArgs,
        command: &'static str,
        output_dir: Option<&Path>,
        force: bool,
    ) -> Result<Self, Failure> {
        match (&args.shard, args.merge.is_empty()) {
            (None, true) => Ok(Source::Here),
            (None, false) => Ok(Source::Merged(args.merge.clone())),
            (Some(shard), _) => {
                let parts = output_dir.ok_or_else(|| output::nowhere("shard"))?;
                Ok(Source::Part(Part::open(
                    parts,
                    shard.resolve()?,
                    command,
                    force,
                )?))
            }
        }
    }
}

impl Part {
    fn open(
        parts: &Path,
        shard: Shard,
        command: &'static str,
        force: bool,
    ) -> Result<Self, Failure> {
        let dir = parts.join(shard.folder());
        let lock = Lock::take(&dir)?;
        let path = dir.join(RUNS);
        let unwritable = |e| Failure::unwritable(&path, e);
        if force && path.exists() {
            fs::remove_file(&path).map_err(unwritable)?;
        }
        let mut options = File::options();
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&path).map_err(unwritable)?;
        let mut kept = BTreeSet::new();
        let mut whole = 0;
        let head = lines(&path, command, |end, line: Line<Ended>| {
            let run = line.run.to_string();
            // As in a sweep, a run that failed is repeated.
            match line.result {
                Ended::Ok(_) => kept.insert(run),
                Ended::Err(_) => kept.remove(&run),
            };
            whole = end;
        })?;
        file.set_len(whole).map_err(unwritable)?;
        file.seek(SeekFrom::End(0)).map_err(unwritable)?;
        if head.is_none() || whole == 0 {
            let head = Head {
                blox_version: env!("CARGO_PKG_VERSION").to_owned(),
                command: command.to_owned(),
                of: shard.of,
            };
            write_line(&mut file, &head).map_err(unwritable)?;
        }
        Ok(Part {
            shard,
            dir,
            file: Mutex::new(file),
            kept,
            _lock: lock,
        })
    }

    /// Returns the runs of the shard that are not kept yet, among runs with these settings.
    pub fn todo(&self, runs: &[Value]) -> Vec<usize> {
        let is_open = |run: &Value| self.shard.has(run) && !self.kept.contains(&run.to_string());
        (0..runs.len()).filter(|i| is_open(&runs[*i])).collect()
    }

    /// Keeps the result of a run.
    pub fn keep<R: Serialize>(&self, run: &Value, result: &R) -> Result<(), Failure> {
        let line = Line {
            run: run.clone(),
            result,
        };
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let written = write_line(&mut file, &line);
        written.map_err(|e| Failure::unwritable(&self.dir.join(RUNS), e))
    }

    /// Prints what became of the shard, and returns the exit code.
    pub fn finish(
        &self,
        runs: &[Value],
        todo: usize,
        ended: usize,
        quiet: bool,
        terminal: &mut Terminal<'_>,
    ) -> i32 {
        let all = runs.iter().filter(|run| self.shard.has(run)).count();
        let (number, of) = (self.shard.number, self.shard.of);
        let dir = self.dir.display();
        if ended < todo {
            let _ = writeln!(
                terminal.err,
                "interrupted: {} of {} of shard {number}/{of} are finished; the same command continues it",
                all - (todo - ended),
                number_of(all as u64, "run")
            );
            return INTERRUPTED;
        }
        if !quiet {
            let before = match all - todo {
                0 => String::new(),
                before => format!(", {before} finished before"),
            };
            let runs = number_of(all as u64, "run");
            let _ = writeln!(
                terminal.err,
                "shard {number}/{of}: {runs}{before}, in {dir}"
            );
        }
        OK
    }
}

fn write_line(file: &mut File, line: &impl Serialize) -> std::io::Result<()> {
    let mut bytes = serde_json::to_vec(line)?;
    bytes.push(b'\n');
    file.write_all(&bytes)
}

/// Reads the whole lines of a shard. `each` gets the end of a line in the file, and its content. A
/// killed process may leave an unfinished line at the end. Returns the first line; `None` if the file
/// has none.
fn lines<R: DeserializeOwned>(
    path: &Path,
    command: &str,
    mut each: impl FnMut(u64, Line<R>),
) -> Result<Option<Head>, Failure> {
    let unreadable = |e: std::io::Error| Failure::at(path, format!("cannot be read: {e}"));
    let mut file = BufReader::new(File::open(path).map_err(unreadable)?);
    let (mut head, mut end, mut number, mut text) = (None, 0, 0, Vec::new());
    loop {
        text.clear();
        let bytes = file.read_until(b'\n', &mut text).map_err(unreadable)?;
        if text.last() != Some(&b'\n') {
            return Ok(head);
        }
        end += bytes as u64;
        number += 1;
        if head.is_some() {
            let line = serde_json::from_slice(&text)
                .map_err(|e| Failure::at(path, format!("line {number}: {e}")))?;
            each(end, line);
            continue;
        }
        let read: Head = serde_json::from_slice(&text)
            .map_err(|_| Failure::at(path, "is no shard, expected another --output-dir"))?;
        let version = env!("CARGO_PKG_VERSION");
        if read.command != command {
            let text = format!(
                "is a shard of `blox {}`, expected one of `blox {command}`",
                read.command
            );
            return Err(Failure::at(path, text));
        }
        if read.blox_version != version {
            let text = format!(
                "is of version {}, expected version {version}",
                read.blox_version
            );
            return Err(Failure::at(path, text));
        }
        head = Some(read);
    }
}

/// Returns the results of all runs from the shards in these folders. Each run has a name and settings.
pub(crate) fn merged<R: DeserializeOwned>(
    dirs: &[PathBuf],
    command: &'static str,
    names: &[String],
    runs: &[Value],
) -> Result<Vec<R>, Failure> {
    let wanted: BTreeMap<String, usize> = runs
        .iter()
        .enumerate()
        .map(|(i, run)| (run.to_string(), i))
        .collect();
    let mut results: Vec<Option<R>> = runs.iter().map(|_| None).collect();
    let mut of = None;
    for dir in shard_folders(dirs, RUNS)? {
        let head = lines(&dir.join(RUNS), command, |_, line: Line<R>| {
            if let Some(i) = wanted.get(&line.run.to_string()) {
                results[*i] = Some(line.result);
            }
        })?;
        of = of.or(head.map(|head| head.of));
    }
    let missing: Vec<usize> = (0..runs.len()).filter(|i| results[*i].is_none()).collect();
    if !missing.is_empty() {
        let named = missing
            .iter()
            .map(|i| (names[*i].as_str(), runs[*i].clone()));
        return Err(lacking(named, runs.len(), of));
    }
    Ok(results.into_iter().flatten().collect())
}
