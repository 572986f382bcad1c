//! Merges the command line and the configuration file.

use crate::args::{
    ArrayArgs, CompareArgs, Options, Output, OutputFormat, PartArgs, ReplayArgs, SimulateArgs,
    StepArgs, SweepArgs, steps,
};
use crate::failure::Failure;
use crate::help::Late;
use blox_experiment::value::Axis;
use blox_experiment::{Experiment, Origin, PARAMETERS};
use clap::parser::ValueSource;
use clap::{ArgMatches, FromArgMatches};
use serde::Deserialize;
use serde::de::value::MapDeserializer;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeValue, Error, ValueDeserializer};

/// Merged options, with the source of each option.
#[derive(Clone)]
pub(super) struct Given {
    /// The experiment, with at least one scheduler.
    pub experiment: Experiment,
    /// The options about its results.
    pub output: Output,
    /// True for a comparison of schedulers.
    pub compares: bool,
    /// Number of simultaneous simulations, if given.
    pub threads: Option<NonZeroUsize>,
}

impl Given {
    /// Returns a key as the user wrote it, for messages.
    pub fn name(&self, key: &str) -> String {
        self.experiment.origin.name(key)
    }

    /// Returns the first given option among these, as the user wrote it.
    pub fn first_of(&self, keys: &[&str]) -> Option<String> {
        let (settings, output) = (self.experiment.values(), self.output.values());
        let given = |key: &str| settings.contains_key(key) || output.contains_key(key);
        let first = keys.iter().find(|key| given(key))?;
        Some(self.name(first))
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
        match self.experiment.origin.options().find(|key| !fits(key)) {
            Some(key) => Err(no_meaning(&format!("--{key}"), command)),
            None => Ok(()),
        }
    }
}

/// Merges the options of a command that takes one scheduler.
pub(super) fn one_scheduler(
    args: SimulateArgs,
    matches: &ArgMatches,
    command: &str,
) -> Result<Given, Failure> {
    let mut given = merge(args.options, matches)?;
    let on_command_line = args.positional.or(args.scheduler);
    let o = &given.experiment;
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
    given.experiment.schedulers = Some(vec![scheduler]);
    for (list, one) in [("seeds", "seed"), ("loads", "load")] {
        if let Some(name) = given.first_of(&[list]) {
            return Err(Failure::new(format!(
                "{name} has no meaning with `blox {command}`, expected one value: --{one} replaces it"
            )));
        }
    }
    given.refuse(&["vary", "baseline"], command)?;
    Ok(given)
}

fn no_meaning(option: &str, command: &str) -> Failure {
    Failure::new(format!("{option} has no meaning with `blox {command}`"))
}

/// Merges the options of `step`, which prints events and writes no results except a journal.
pub(super) fn step(late: Late<StepArgs>) -> Result<Given, Failure> {
    let given = one_scheduler(late.args.simulate, &late.matches, "step")?;
    given.refuse_unless(steps, "step")?;
    Ok(given)
}

/// Merges the options of `replay`. `named` reads the scheduler's name from a journal.
pub(super) fn replay(
    late: Late<ReplayArgs>,
    named: impl Fn(&Path) -> Result<String, Failure>,
) -> Result<Given, Failure> {
    let ReplayArgs {
        file,
        simulate: mut args,
        ..
    } = *late.args;
    let unnamed = args.positional.is_none() && args.scheduler.is_none();
    let output = &mut args.options.output;
    match (&output.journal, file) {
        (None, file) => output.journal = file.map(PathBuf::from),
        (Some(_), None) => {}
        // The spelling `replay SCHEDULER --journal FILE`.
        (Some(_), name) if unnamed => args.positional = name,
        (Some(_), _) => {
            return Err(Failure::new(
                "a journal is given twice, expected `blox replay JOURNAL [SCHEDULER]`",
            ));
        }
    }
    let journal = args.options.output.journal.as_deref().ok_or_else(|| {
        Failure::new("no journal, expected `blox replay JOURNAL`, the file of an earlier --journal")
    })?;
    if args.positional.is_none() && args.scheduler.is_none() {
        args.positional = Some(named(journal)?);
    }
    one_scheduler(args, &late.matches, "replay")
}

/// Merges the options of the scheduler of a real cluster, which simulates nothing.
pub(super) fn scheduler(args: SimulateArgs, matches: &ArgMatches) -> Result<Given, Failure> {
    use crate::args::decides;
    let mut given = one_scheduler(args, matches, "scheduler")?;
    given.refuse_unless(decides, "scheduler")?;
    // A configuration file may also contain options of simulations.
    for key in Experiment::keys().iter().filter(|key| !decides(key)) {
        if key != "schedulers" {
            given.experiment.clear(key);
        }
    }
    given.output = Output::default();
    Ok(given)
}

/// Merges the options of a command that takes any number of schedulers.
fn several_schedulers(
    mut options: Options,
    on_command_line: Vec<String>,
    threads: Option<NonZeroUsize>,
    matches: &ArgMatches,
) -> Result<Given, Failure> {
    options.experiment.schedulers = Some(on_command_line).filter(|list| !list.is_empty());
    let mut given = merge(options, matches)?;
    let o = &mut given.experiment;
    let one = o.scheduler.take();
    let schedulers = o.schedulers.take().unwrap_or_else(|| Vec::from_iter(one));
    if schedulers.is_empty() {
        return Err(Failure::new(
            "no scheduler, expected names such as fifo srtf las; `blox policies` lists them",
        ));
    }
    o.schedulers = Some(schedulers);
    given.compares = true;
    given.threads = threads;
    Ok(given)
}

pub(super) fn compare(late: Late<CompareArgs>) -> Result<(PartArgs, Given), Failure> {
    let args = *late.args;
    let mut options = args.options;
    options.experiment.seeds = args.seeds;
    options.experiment.baseline = args.baseline;
    let given = several_schedulers(options, args.schedulers, args.threads, &late.matches)?;
    given.refuse(&["loads", "vary"], "compare")?;
    let sharded = match (&args.parts.shard, args.parts.merge.is_empty()) {
        (Some(_), _) => Some("shard"),
        (None, false) => Some("merge"),
        (None, true) => None,
    };
    match sharded.filter(|_| given.experiment.seeds.is_none()) {
        Some(name) => Err(Failure::new(format!(
            "--{name} has no meaning without --seeds"
        ))),
        None => Ok((args.parts, given)),
    }
}

/// Merges the options of a sweep. The options of its job array stay apart.
pub(super) fn sweep(late: Late<SweepArgs>) -> Result<(ArrayArgs, Given), Failure> {
    let args = *late.args;
    let array = args.array;
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
    options.experiment.seeds = args.seeds;
    options.experiment.loads = args.loads;
    for Axis { key, values } in args.vary {
        let earlier = options.experiment.vary.insert(key.clone(), values);
        if earlier.is_some() {
            return Err(Failure::new(format!("--vary {key} is given twice")));
        }
    }
    let given = several_schedulers(options, schedulers, args.threads, &late.matches)?;
    given.refuse(&["baseline", "plot"], "sweep")?;
    let output = Output::keys();
    let of_output = |key: &&String| *key != "fairness" && output.contains(key);
    match given.experiment.vary.keys().find(of_output) {
        Some(key) => Err(given.experiment.no_setting(key).into()),
        None => Ok((array, given)),
    }
}

/// Returns whether an option, given by its long name, describes a generated workload.
pub(super) fn generates(key: &str) -> bool {
    let own = [
        "throughputs",
        "data",
        "workload",
        "services",
        "losses",
        "jobs",
        "seed",
    ];
    own.contains(&key) || PARAMETERS[0].iter().any(|parameter| parameter.key == key)
}

/// Merges the options of `trace generate`, which creates a workload and runs nothing. It rejects
/// options about anything else instead of ignoring them.
pub(super) fn generate(options: Options, matches: &ArgMatches) -> Result<Given, Failure> {
    let mut given = merge(options, matches)?;
    let also = ["cluster", "force", "quiet", "schedulers", "scheduler"];
    let meant = |key: &str| also.contains(&key) || generates(key);
    given.refuse_unless(meant, "trace generate")?;
    // Nothing runs, so any scheduler without required parameters will do.
    given.experiment.schedulers = Some(vec!["fifo".to_owned()]);
    Ok(given)
}

/// Options that are alternatives to each other.
const ONE_THING: [&[&str]; 5] = [
    &["trace", "workload"],
    &["format", "map"],
    &["load", "load-of-capacity", "loads"],
    &["round", "on-event"],
    &["seed", "seeds"],
];

/// Merges the command line and the configuration file. An option on the command line overrides its
/// alternatives in the file.
fn merge(cli: Options, matches: &ArgMatches) -> Result<Given, Failure> {
    let not_text = |e: serde_json::Error| Failure::new(format!("an option: {e}"));
    let mut given = cli.experiment.try_values().map_err(not_text)?;
    given.extend(cli.output.try_values().map_err(not_text)?);
    both_varied(&cli.experiment, |key| given.contains_key(key))?;
    let path = cli.config.clone();
    let (mut merged, replaced) = match &path {
        Some(path) => with_file(cli, &given, path, matches)?,
        None => (cli, Vec::new()),
    };
    let mut options: BTreeSet<String> = given.into_iter().map(|(key, _)| key).collect();
    if merged.output.fairness {
        options.insert("fairness".to_owned());
        merged.experiment.fairness = true;
    }
    let (mut experiment, output) = (merged.experiment, merged.output);
    experiment.origin = Origin::command_line(options, path).replacing(replaced);
    experiment.records.collectors = output.collect.clone().unwrap_or_default();
    experiment.records.rounds = output.rounds;
    experiment.records.waits = output.why;
    experiment.records.by = output.by.clone();
    experiment.records.timeline = output.output_dir.is_some();
    experiment.records.hashes = output.output_dir.is_some();
    let given = Given {
        experiment,
        output,
        compares: false,
        threads: None,
    };
    one_form(&given)?;
    Ok(given)
}

/// Refuses two formats of standard output, and a form of tables beside another format.
fn one_form(given: &Given) -> Result<(), Failure> {
    let o = &given.output;
    let both = |one, other| {
        Err(Failure::new(format!(
            "{} and {} are both given, expected one of them",
            given.name(one),
            given.name(other)
        )))
    };
    let of_data = match (o.json, o.output_format) {
        (true, None | Some(OutputFormat::Json)) => "json",
        (true, Some(_)) => return both("json", "output-format"),
        (false, _) => "output-format",
    };
    match o.table.is_some() && o.format().is_data() {
        true => both(of_data, "table"),
        false => Ok(()),
    }
}

/// Adds the options of a file to the command line, whose values by key are `given`. Also returns the
/// options that replace keys of the file by alternatives, each with the key.
fn with_file(
    cli: Options,
    given: &Map<String, Value>,
    path: &Path,
    matches: &ArgMatches,
) -> Result<(Options, Vec<(String, String)>), Failure> {
    let mut options = read(path)?;
    let of_file = options.experiment.values();
    both_varied(&options.experiment, |key| of_file.contains_key(key))?;
    let mut settled: BTreeSet<&str> = given.keys().map(String::as_str).collect();
    settled.extend(cli.experiment.vary.keys().map(String::as_str));
    let in_file =
        |way: &str| of_file.contains_key(way) || options.experiment.vary.contains_key(way);
    let mut replaced = of_formats(&cli.output, given, &mut options.output);
    for ways in ONE_THING {
        if let Some(by) = ways.iter().find(|way| settled.contains(*way)) {
            let option = match given.contains_key(*by) {
                true => format!("--{by}"),
                false => format!("--vary {by}"),
            };
            let others = ways
                .iter()
                .filter(|way| !settled.contains(*way) && in_file(way));
            replaced.extend(others.map(|way| (option.clone(), (*way).to_owned())));
            settled.extend(ways);
        }
    }
    if cli.experiment.trace.is_some() {
        settled.extend(["format", "map"]);
    }
    let own = &mut options.experiment;
    let varied = own.vary.keys().filter(|key| given.contains_key(*key));
    replaced.extend(varied.map(|key| (format!("--{key}"), format!("vary {key}"))));
    own.vary.retain(|key, _| !settled.contains(&**key));
    settled.remove("vary");
    settled.iter().for_each(|key| own.clear(key));
    // What the command line does not give is not a value, not even a default.
    let mut only_given = matches.clone();
    let ids: Vec<String> = matches.ids().map(ToString::to_string).collect();
    for id in ids {
        if matches.value_source(&id) != Some(ValueSource::CommandLine) {
            let _ = only_given.try_clear_id(&id);
        }
    }
    options
        .update_from_arg_matches(&only_given)
        .map_err(|e| Failure::new(e.to_string()))?;
    let (own, cli) = (&mut options.experiment, cli);
    own.schedulers = cli.experiment.schedulers.or(own.schedulers.take());
    own.baseline = cli.experiment.baseline.or(own.baseline.take());
    own.seeds = cli.experiment.seeds.or(own.seeds.take());
    own.loads = cli.experiment.loads.or(own.loads.take());
    own.vary.extend(cli.experiment.vary);
    options.output.journal = cli.output.journal.or(options.output.journal.take());
    Ok((options, replaced))
}

/// Removes formats of standard output of a file that the options in `given` replace. Returns these
/// options, each with the key.
fn of_formats(
    cli: &Output,
    given: &Map<String, Value>,
    file: &mut Output,
) -> Vec<(String, String)> {
    let is_given = |key: &str| given.contains_key(key);
    let mut replaced = Vec::new();
    let mut note = |option: &str, key: &str| replaced.push((format!("--{option}"), key.to_owned()));
    let option = match cli.json {
        true => "json",
        false => "output-format",
    };
    if cli.json
        && file
            .output_format
            .take()
            .is_some_and(|f| f != OutputFormat::Json)
    {
        note(option, "output-format");
    }
    if is_given("output-format") && std::mem::take(&mut file.json) {
        note("output-format", "json");
    }
    if cli.format().is_data() && file.table.take().is_some() {
        note(option, "table");
    }
    if is_given("table") && file.format().is_data() && !is_given("output-format") && !cli.json {
        let key = match std::mem::take(&mut file.json) {
            true => "json",
            false => "output-format",
        };
        note("table", key);
        file.output_format = None;
    }
    replaced
}

/// Refuses an option that is given beside a list of its values.
fn both_varied(experiment: &Experiment, given: impl Fn(&str) -> bool) -> Result<(), Failure> {
    let Some(key) = experiment.vary.keys().find(|key| given(key)) else {
        return Ok(());
    };
    let name = match experiment.origin.path() {
        Some(path) => format!("{}: {key} and vary {key}", path.display()),
        None => format!("--{key} and --vary {key}"),
    };
    Err(Failure::new(format!(
        "{name} are both given, expected one of them"
    )))
}

/// Returns the options of a configuration file.
fn read(path: &Path) -> Result<Options, Failure> {
    let own = Output::keys();
    let mut known = Experiment::keys();
    known.retain(|key| !own.contains(key));
    known.extend_from_slice(&own);
    let mut values = Map::new();
    let mut output = |key: &str, value: &Spanned<DeValue<'_>>| -> Result<bool, Error> {
        if !own.iter().any(|own| own == key) {
            return Ok(false);
        }
        let value = || ValueDeserializer::from(value.clone());
        Output::deserialize(MapDeserializer::new(std::iter::once((key, value()))))?;
        values.insert(key.to_owned(), Value::deserialize(value())?);
        Ok(true)
    };
    let experiment = Experiment::read_beside(path, &known, &mut output)?;
    let mut output: Output = serde_json::from_value(values.into())?;
    let base = path.parent().unwrap_or(Path::new(""));
    for file in output.output_dir.iter_mut().chain(&mut output.journal) {
        *file = base.join(&file);
    }
    for picture in output.plot.iter_mut().flatten() {
        let (before, file) = picture.split_at(picture.rfind('=').map_or(0, |at| at + 1));
        *picture = format!("{before}{}", base.join(file).display());
    }
    Ok(Options {
        experiment,
        output,
        config: Some(path.to_owned()),
    })
}
