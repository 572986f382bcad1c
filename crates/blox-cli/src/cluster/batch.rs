//! `blox submit --on slurm`: submits a held job, which `blox scheduler --on slurm` starts.

use super::args::SubmitArgs;
use crate::failure::{Code, Failure};
use crate::help::Late;
use crate::terminal::{OK, Terminal};
use crate::text::plain;
use blox_core::{GpuCount, Name};
use blox_results::{number_of, quoted};
use blox_slurm::{Batch, Description, Programs, Task, requests_gpus};
use clap::ArgMatches;
use clap::parser::ValueSource;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::Read as _;
use std::path::Path;

/// Name of the standard input in place of a script.
pub(super) const STDIN: &str = "-";

/// Bytes of a file in which `#SBATCH` lines are searched.
const BEGINNING: u64 = 65_536;

/// Options that need node managers.
const OF_NODES: [&str; 42] = [
    "at",
    "token_file",
    "gpu_share",
    "gpu_memory_share",
    "need",
    "user",
    "grace",
    "lease",
    "stall",
    "cpus",
    "memory",
    "processes",
    "max_retries",
    "on_exit",
    "training",
    "key",
    "patience",
    "array",
    "chdir",
    "comment",
    "cpus_per_gpu",
    "cpus_per_task",
    "dependency",
    "error",
    "export",
    "gpu_type",
    "gpus_per_node",
    "gres",
    "hold",
    "input",
    "mem",
    "mem_per_cpu",
    "mem_per_gpu",
    "nice",
    "no_requeue",
    "nodes",
    "ntasks",
    "ntasks_per_node",
    "output",
    "parsable",
    "requeue",
    "signal",
];

pub(super) fn is_given(matches: &ArgMatches, option: &str) -> bool {
    matches.value_source(option) == Some(ValueSource::CommandLine)
}

/// Refuses the first of these options that is given.
fn refuse(matches: &ArgMatches, options: &[&str], why: &str) -> Result<(), Failure> {
    match options.iter().find(|option| is_given(matches, option)) {
        Some(option) => {
            let option = option.replace('_', "-");
            Err(Failure::new(format!("--{option} has no meaning {why}")))
        }
        None => Ok(()),
    }
}

/// Refuses options of Slurm for a job of node managers.
#[cfg(feature = "cluster")]
pub(super) fn only_on_slurm(matches: &ArgMatches) -> Result<(), Failure> {
    let options = ["slurm_arg", "dry_run"];
    refuse(matches, &options, "without --on slurm")
}

/// Refuses a batch script that does not exist. Only `blox sbatch` takes scripts alone; a program of
/// `blox submit` may exist on the nodes alone.
pub(super) fn check_script(a: &SubmitArgs) -> Result<(), Failure> {
    let Some(name) = a.command.first().filter(|_| a.sbatch.wrap.is_none()) else {
        return Ok(());
    };
    if name == STDIN || Path::new(name).exists() || !name.contains('/') && is_in_search_path(name) {
        return Ok(());
    }
    let path = std::path::absolute(name).map_err(|e| Failure::new(e.to_string()))?;
    let (path, name) = (plain(&path.to_string_lossy()), quoted(&plain(name)));
    Err(Failure::new(format!(
        "there is no file {path}, expected a batch script; `blox submit -- {name}` runs a program of the nodes"
    )))
}

/// Checks the levels of an elastic job and their rates.
pub(super) fn check_levels(a: &SubmitArgs) -> Result<(), Failure> {
    if !a.levels.is_sorted_by(|a, b| a < b) || a.levels.first() == Some(&0) {
        let levels: Vec<String> = a.levels.iter().map(u32::to_string).collect();
        return Err(Failure::new(format!(
            "--levels is `{}`, expected ascending counts of at least 1",
            levels.join(",")
        )));
    }
    if !a.rates.is_empty() && a.rates.len() != a.levels.len() {
        let (rates, levels) = (number_of(a.rates.len() as u64, "value"), a.levels.len());
        return Err(Failure::new(format!(
            "--rates has {rates}, expected {levels}: one for each of --levels"
        )));
    }
    Ok(())
}

/// Collects a repeated option with keys.
pub(super) fn unique<K: Ord + Display, V>(
    option: &str,
    pairs: impl IntoIterator<Item = (K, V)>,
) -> Result<BTreeMap<K, V>, Failure> {
    let mut map = BTreeMap::new();
    for (key, value) in pairs {
        if map.contains_key(&key) {
            return Err(Failure::new(format!(
                "{option}: `{key}` is given twice, expected one value"
            )));
        }
        map.insert(key, value);
    }
    Ok(map)
}

pub(super) fn submit(late: Late<SubmitArgs>, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    let Late { args: a, matches } = late;
    refuse(
        &matches,
        &OF_NODES,
        "with --on slurm, only with node managers",
    )?;
    check_levels(&a)?;
    if a.levels.is_empty() != a.rates.is_empty() {
        return Err(Failure::new(
            "--levels has no --rates, which a job on Slurm needs",
        ));
    }
    let (json, dry_run) = (a.json, a.slurm.dry_run);
    let batch = batch(*a, &matches)?;
    let args = batch.args().map_err(|e| Failure::new(plain(&e)))?;
    if dry_run {
        let env = batch.env.iter();
        let env = env.map(|(name, value)| format!("{name}={} ", quoted(value)));
        let words: Vec<String> = args.iter().map(|word| quoted(word)).collect();
        let line = format!("{}sbatch {}\n", env.collect::<String>(), words.join(" "));
        terminal.print(&line)?;
        return Ok(OK);
    }
    let number = Programs::default().submit(&args, &batch.env);
    let number = number.map_err(|e| match e.is_temporary() {
        true => Failure::of(Code::Unreachable, plain(&e.to_string())),
        false => Failure::of(Code::Request, plain(&e.to_string())),
    })?;
    match json {
        true => writeln!(terminal.out, "{}", json!({"job": number}))?,
        false => writeln!(terminal.out, "{number}")?,
    }
    Ok(OK)
}

/// Returns the batch job of a command line.
fn batch(a: SubmitArgs, matches: &ArgMatches) -> Result<Batch, Failure> {
    let duration = is_given(matches, "duration").then_some(a.duration);
    // Relative rates become iterations a second, as for node managers.
    let speed = match (a.iterations, duration) {
        (None, _) => 1.0,
        (Some(iterations), Some(duration)) => iterations / duration,
        (Some(_), None) if a.rates.is_empty() => 1.0,
        (Some(_), None) => {
            return Err(Failure::new(
                "--rates with --iterations has no --duration, which both relate to",
            ));
        }
    };
    let mut attributes = unique("--attribute", a.attribute)?;
    let group = attributes.remove("group");
    let group = group.map(|text| serde_json::from_str(&text).unwrap_or(text));
    let weight = match attributes.remove("weight") {
        Some(text) => Some(text.parse().map_err(|_| {
            let expected = "expected a number above 0";
            Failure::new(format!("--attribute: weight is `{text}`, {expected}"))
        })?),
        None => None,
    };
    // The values were parsed before.
    let attributes = attributes.into_iter().map(|(name, value)| {
        let value = serde_json::from_str(&value).unwrap_or(Value::String(value));
        (Name::from(name.as_str()), value)
    });
    let description = Description {
        duration,
        iterations: a.iterations,
        priority: a.priority,
        deadline: a.deadline,
        class: a.class,
        levels: a.levels.into_iter().map(GpuCount).collect(),
        rates: a.rates.iter().map(|rate| rate * speed).collect(),
        model: a.model.as_deref().map(Name::from),
        batch_size: a.batch_size,
        group: group.as_deref().map(Name::from),
        weight,
        attributes: attributes.collect(),
    };
    let task = match a.sbatch.wrap {
        Some(line) => Task::Shell(line),
        None => task(a.command, a.slurm.script)?,
    };
    let requested = a.slurm.slurm_arg.iter().any(|arg| requests_gpus(arg))
        || matches!(&task, Task::Script { text, .. } if requests_gpus(text));
    let gpus = (is_given(matches, "gpus") || !requested).then_some(a.gpus);
    Ok(Batch {
        description,
        gpus,
        name: a.name,
        partition: a.queue,
        account: a.slurm.account,
        time: a.slurm.time,
        env: unique("--env", a.env)?.into_iter().collect(),
        options: a.slurm.slurm_arg,
        task,
    })
}

/// Returns what a job runs: a batch script, or a command without a shell.
fn task(mut command: Vec<String>, is_script: bool) -> Result<Task, Failure> {
    let first = command[0].clone();
    if first == STDIN {
        return Err(Failure::new(
            "with --on slurm, no script is read from standard input: expected --script FILE",
        ));
    }
    let path = Path::new(&first);
    if is_script {
        let wrong = |e| Failure::new(format!("--script {first}: {e}"));
        let text = text_of(beginning(path).map_err(wrong)?);
        command.remove(0);
        return Ok(Task::Script {
            path: first,
            text,
            args: command,
        });
    }
    if path.is_file() {
        let text = text_of(beginning(path).unwrap_or_default());
        if text.lines().any(|line| line.starts_with("#SBATCH ")) {
            return Err(Failure::new(format!(
                "`{first}` has #SBATCH lines, which apply with --script only"
            )));
        }
        if !first.contains('/') && !is_in_search_path(&first) {
            return Err(Failure::new(format!(
                "`{first}` is a file here and no program in the search path: expected ./{first}, or --script for a batch script"
            )));
        }
    }
    let words: Vec<String> = command.iter().map(|word| quoted(word)).collect();
    Ok(Task::Shell(format!("exec {}", words.join(" "))))
}

fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads the part of a script in which `#SBATCH` lines are searched.
pub(super) fn beginning(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // A named pipe may never get a writer.
    if !std::fs::metadata(path)?.is_file() && std::fs::canonicalize(path).is_ok() {
        let text = "it is a folder, a device or a named pipe, expected a regular file";
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, text));
    }
    std::fs::File::open(path)?
        .take(BEGINNING)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

pub(super) fn is_in_search_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let command = ["printf", "%s", word].map(str::to_owned);
            let Ok(Task::Shell(line)) = task(command.into(), false) else {
                panic!("{word}");
            };
            let out = std::process::Command::new("sh")
                .args(["-c", &line])
                .output();
            assert_eq!(String::from_utf8_lossy(&out.unwrap().stdout), word);
        }
    }
}
