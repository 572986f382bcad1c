//! Merges the command line and the configuration file.

use super::args::{CompareArgs, Options, ReplayArgs, SimulateArgs, SweepArgs, is_result_option};
use super::plan::values::{Axis, LISTED};
use super::reading;
use crate::failure::{Coded, Failure};
use blox_core::ClusterSpec;
use blox_core::suggest::one_of;
use blox_traces::cluster_file::{is_path, message_of, place_of};
use clap::Args;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

/// Merged options, with the source of each option.
#[derive(Clone)]
pub(super) struct Given {
    pub options: Options,
    /// The schedulers by name, at least one.
    pub schedulers: Vec<String>,
    /// True for a comparison of schedulers.
    pub compares: bool,
    /// Number of simultaneous simulations, if given.
    pub threads: Option<NonZeroUsize>,
    on_command_line: BTreeSet<String>,
    file: Option<PathBuf>,
}

impl Given {
    /// Returns a key as the user wrote it, for messages.
    pub fn name(&self, key: &str) -> String {
        let given = |key: &str| self.on_command_line.contains(key);
        let list = format!("{key}s");
        match &self.file {
            // The key takes its value from a list, such as --loads.
            _ if LISTED.contains(&key) && !given(key) && given(&list) => format!("--{list}"),
            Some(file) if !self.on_command_line.contains(key) => {
                format!("{}: {key}", file.display())
            }
            _ => format!("--{key}"),
        }
    }

    /// Returns the error for an invalid value.
    pub fn wrong(&self, key: &str, found: impl std::fmt::Display, expected: &str) -> Failure {
        Failure::new(format!(
            "{} is `{found}`, expected {expected}",
            self.name(key)
        ))
    }

    /// Returns an error for a value that is not among the known names.
    pub fn unknown<'a>(
        &self,
        key: &str,
        found: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Failure {
        self.wrong(key, found, &one_of(found, known))
    }

    /// Returns an error about the value of a key.
    pub fn because(&self, key: &str, why: impl Coded) -> Failure {
        Failure::of(why.code(), format!("{}: {why}", self.name(key)))
    }

    /// Returns the first given option among these, as the user wrote it.
    pub fn first_of(&self, keys: &[&str]) -> Option<String> {
        let given = self.options.given();
        let first = keys.iter().find(|key| given.contains_key(**key))?;
        Some(self.name(first))
    }

    /// Returns the error for two options that exclude each other.
    pub fn both(&self, one: &str, other: &str) -> Failure {
        Failure::new(format!(
            "{} and {} are both given, expected one of them",
            self.name(one),
            self.name(other)
        ))
    }

    /// Refuses keys that would be ignored.
    fn refuse(&self, keys: &[&str], command: &str) -> Result<(), Failure> {
        match self.first_of(keys) {
            Some(name) => Err(no_meaning(&name, command)),
            None => Ok(()),
        }
    }

    /// Refuses options of the command line that do not fit.
    fn refuse_unless(&self, fits: impl Fn(&str) -> bool, command: &str) -> Result<(), Failure> {
        match self.on_command_line.iter().find(|key| !fits(key)) {
            Some(key) => Err(no_meaning(&format!("--{key}"), command)),
            None => Ok(()),
        }
    }

    /// Path of the configuration file.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }
}

/// Merges the options of a command that takes one scheduler.
pub(super) fn one_scheduler(args: SimulateArgs, command: &str) -> Result<Given, Failure> {
    let mut given = merge(args.options)?;
    let on_command_line = args.positional.or(args.scheduler);
    let o = &given.options;
    let scheduler = match (on_command_line.or(o.scheduler.clone()), &o.schedulers) {
        (Some(one), _) => one,
        (None, Some(list)) if list.len() == 1 => list[0].clone(),
        (None, Some(list)) => {
            return Err(Failure::new(format!(
                "{} names {}, expected one with `blox {command}`",
                given.name("schedulers"),
                list.len()
            )));
        }
        (None, None) => {
            return Err(Failure::new(
                "no scheduler, expected a name such as las; `blox policies` lists the names",
            ));
        }
    };
    given.schedulers = vec![scheduler];
    given.refuse(&["seeds", "loads", "vary", "baseline"], command)?;
    Ok(given)
}

fn no_meaning(option: &str, command: &str) -> Failure {
    Failure::new(format!("{option} has no meaning with `blox {command}`"))
}

/// Merges the options of `step`, which prints events and writes no results.
pub(super) fn step(args: SimulateArgs) -> Result<Given, Failure> {
    let given = one_scheduler(args, "step")?;
    given.refuse_unless(|key| !is_among(key, is_result_option), "step")?;
    Ok(given)
}

/// Merges the options of `replay`. `named` reads the scheduler's name from a journal.
pub(super) fn replay(
    args: ReplayArgs,
    named: impl Fn(&Path) -> Result<String, Failure>,
) -> Result<Given, Failure> {
    let ReplayArgs {
        file,
        simulate: mut args,
    } = args;
    let unnamed = args.positional.is_none() && args.scheduler.is_none();
    match (&args.options.journal, file) {
        (None, file) => args.options.journal = file.map(PathBuf::from),
        (Some(_), None) => {}
        // The spelling `replay SCHEDULER --journal FILE`.
        (Some(_), name) if unnamed => args.positional = name,
        (Some(_), _) => {
            return Err(Failure::new(
                "a journal is given twice, expected `blox replay JOURNAL [SCHEDULER]`",
            ));
        }
    }
    let journal = args.options.journal.as_deref().ok_or_else(|| {
        Failure::new("no journal, expected `blox replay JOURNAL`, the file of an earlier --journal")
    })?;
    if args.positional.is_none() && args.scheduler.is_none() {
        args.positional = Some(named(journal)?);
    }
    one_scheduler(args, "replay")
}

/// Merges the options of the scheduler of a real cluster, which simulates nothing.
#[cfg(feature = "cluster")]
pub(super) fn scheduler(args: SimulateArgs) -> Result<Given, Failure> {
    use super::args::decides;
    let mut given = one_scheduler(args, "scheduler")?;
    given.refuse_unless(decides, "scheduler")?;
    // A configuration file may also contain options of simulations.
    let mut all = given.options.given();
    all.retain(|key, _| decides(key));
    given.options = Options::of(all)?;
    Ok(given)
}

/// Merges the options of a command that takes any number of schedulers.
fn several_schedulers(
    mut options: Options,
    on_command_line: Vec<String>,
    threads: Option<NonZeroUsize>,
) -> Result<Given, Failure> {
    options.schedulers = Some(on_command_line).filter(|list| !list.is_empty());
    let mut given = merge(options)?;
    let o = &given.options;
    let one = || Vec::from_iter(o.scheduler.clone());
    given.schedulers = o.schedulers.clone().unwrap_or_else(one);
    if given.schedulers.is_empty() {
        return Err(Failure::new(
            "no scheduler, expected names such as fifo srtf las; `blox policies` lists them",
        ));
    }
    given.compares = true;
    given.threads = threads;
    Ok(given)
}

pub(super) fn compare(args: CompareArgs) -> Result<Given, Failure> {
    let mut options = args.options;
    options.seeds = args.seeds;
    options.baseline = args.baseline;
    let given = several_schedulers(options, args.schedulers, args.threads)?;
    given.refuse(&["loads", "vary"], "compare")?;
    Ok(given)
}

pub(super) fn sweep(args: SweepArgs) -> Result<Given, Failure> {
    let mut options = args.options;
    let (files, schedulers): (Vec<String>, Vec<String>) = args
        .schedulers
        .into_iter()
        .partition(|s| s.ends_with(".toml"));
    let mut files = options
        .config
        .take()
        .into_iter()
        .chain(files.into_iter().map(PathBuf::from));
    options.config = files.next();
    if files.next().is_some() {
        return Err(Failure::new(
            "more than one TOML file is given, expected one",
        ));
    }
    options.seeds = args.seeds;
    options.loads = args.loads;
    for Axis { key, values } in args.vary {
        if options.vary.insert(key.clone(), values).is_some() {
            return Err(Failure::new(format!("--vary {key} is given twice")));
        }
    }
    let given = several_schedulers(options, schedulers, args.threads)?;
    given.refuse(&["baseline", "plot"], "sweep")?;
    Ok(given)
}

/// Merges the options of `trace generate`, which creates a workload and runs nothing. It rejects
/// options about anything else instead of ignoring them.
pub(super) fn generate(options: Options, not_meant: &[&str]) -> Result<Given, Failure> {
    let mut given = merge(options)?;
    let meant = |key: &str| {
        let also = ["cluster", "force", "quiet", "schedulers", "scheduler"];
        let of_workloads = is_among(key, |arg| arg.get_help_heading() == Some("Workload"));
        also.contains(&key) || (of_workloads && !not_meant.contains(&key))
    };
    given.refuse_unless(meant, "trace generate")?;
    // Nothing runs, so any scheduler without required parameters will do.
    given.schedulers = vec!["fifo".to_owned()];
    Ok(given)
}

/// Returns whether an option, given by its long name, satisfies a condition.
pub(super) fn is_among(key: &str, those: impl Fn(&clap::Arg) -> bool) -> bool {
    let command = Options::augment_args(clap::Command::new(""));
    command
        .get_arguments()
        .any(|arg| arg.get_long() == Some(key) && those(arg))
}

/// Options that are alternatives to each other.
const ONE_THING: [&[&str]; 5] = [
    &["trace", "workload"],
    &["format", "map"],
    &["load", "load-of-capacity", "loads"],
    &["round", "on-event"],
    &["seed", "seeds"],
];

/// Keys of paths in a configuration file, which are relative to its folder.
const PATHS: [&str; 6] = [
    "trace",
    "throughputs",
    "data",
    "prices",
    "output-dir",
    "journal",
];

/// Merges the command line and the configuration file. An option on the command line overrides its
/// alternatives in the file.
fn merge(cli: Options) -> Result<Given, Failure> {
    let path = cli.config.clone();
    let given = cli.written();
    let given = given.map_err(|e| Failure::new(format!("an option: {e}")))?;
    let file = path.as_deref().map(read).transpose()?.unwrap_or_default();
    let varied = |all: &Map<String, Value>| match all.get("vary") {
        Some(Value::Object(vary)) => vary.clone(),
        _ => Map::new(),
    };
    for (all, path) in [(&given, None), (&file, path.as_ref())] {
        if let Some(key) = varied(all).keys().find(|key| all.contains_key(*key)) {
            let name = match path {
                Some(path) => format!("{}: {key} and vary {key}", path.display()),
                None => format!("--{key} and --vary {key}"),
            };
            return Err(Failure::new(format!(
                "{name} are both given, expected one of them"
            )));
        }
    }
    let mut settled: BTreeSet<&str> = given.keys().map(String::as_str).collect();
    settled.extend(cli.vary.keys().map(String::as_str));
    for ways in ONE_THING {
        if ways.iter().any(|way| settled.contains(way)) {
            settled.extend(ways);
        }
    }
    if cli.trace.is_some() {
        settled.extend(["format", "map"]);
    }
    let open =
        |all: Map<String, Value>| all.into_iter().filter(|(key, _)| !settled.contains(&**key));
    let mut all: Map<String, Value> = open(file.clone()).chain(given.clone()).collect();
    let vary: Map<String, Value> = open(varied(&file)).chain(varied(&given)).collect();
    all.insert("vary".to_owned(), vary.into());
    let options = Options::of(all).map_err(|e| Failure::new(format!("an option: {e}")))?;
    Ok(Given {
        options,
        schedulers: Vec::new(),
        compares: false,
        threads: None,
        on_command_line: given.keys().cloned().collect(),
        file: path,
    })
}

/// Returns the options of a configuration file by their long names.
fn read(path: &Path) -> Result<Map<String, Value>, Failure> {
    let shown = path.display();
    if path.is_dir() {
        let text = "is a directory, expected a TOML file";
        return Err(Failure::new(format!("{shown}: {text}")));
    }
    let text = std::fs::read_to_string(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => {
            Failure::new(format!("{shown}: no such file, expected an existing file"))
        }
        _ => Failure::new(format!("{shown}: the configuration cannot be read: {e}")),
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let options: Options = toml::from_str(text).map_err(|e| {
        let (line, found) = place_of(&e, text);
        let what = message_of(e.message());
        Failure::new(format!("{shown}:{line}: `{found}`: {what}"))
    })?;
    let base = path.parent().unwrap_or(Path::new(""));
    let mut all = options.given();
    for (key, value) in &mut all {
        match (&**key, value) {
            ("vary", Value::Object(vary)) => {
                for (key, values) in vary {
                    let values = values.as_array_mut().into_iter().flatten();
                    values.for_each(|value| rebase(key, value, base));
                }
            }
            ("plot", Value::Array(list)) => {
                list.iter_mut()
                    .for_each(|value| rebase("plot", value, base));
            }
            (key, value) => rebase(key, value, base),
        }
    }
    Ok(all)
}

/// Resolves a path in the value of an option relative to a folder.
fn rebase(key: &str, value: &mut Value, base: &Path) {
    let Some(text) = value.as_str() else { return };
    // An existing file needs no extension unless its name is also a shorthand.
    let is_file = |text: &str| text.parse::<ClusterSpec>().is_err() && base.join(text).is_file();
    let (before, file) = match key {
        "durations" | "burst-durations" => match reading::file_of(text) {
            Some(file) => text.split_at(text.len() - file.len()),
            None => return,
        },
        "plot" => text.split_at(text.rfind('=').map_or(0, |at| at + 1)),
        "cluster" if is_path(text) || is_file(text) => ("", text),
        key if PATHS.contains(&key) => ("", text),
        _ => return,
    };
    *value = format!("{before}{}", base.join(file).display()).into();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_a_file_are_relative_to_its_folder() {
        for (key, text, expected) in [
            ("durations", "file:d.txt", "file:conf/d.txt"),
            ("durations", "trace:/a/b.csv", "trace:/a/b.csv"),
            ("durations", "fixed:3", "fixed:3"),
            ("plot", "jct-cdf=a.svg", "jct-cdf=conf/a.svg"),
            ("plot", "a.svg", "conf/a.svg"),
            ("cluster", "2x4", "2x4"),
            ("cluster", "a.toml", "conf/a.toml"),
            ("round", "a", "a"),
        ] {
            let mut value = Value::from(text);
            rebase(key, &mut value, Path::new("conf"));
            assert_eq!(value, expected);
        }
    }
}
