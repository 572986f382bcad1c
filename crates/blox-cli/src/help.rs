//! Help texts of commands, with the defaults of options, and arguments that are defined late.

use crate::args::{OutputFormat, TableStyle};
use blox_experiment::ANSWER_WITHIN_S;
use blox_learn::{AdditiveParams, BoostedParams, TreeParams};
use blox_registry::Registry;
use blox_sim::registry::World as _;
use blox_traces::generate::{self, DurationLaw, GeneratorSpec};
use clap::builder::{Resettable, StyledStr};
use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};
use std::sync::LazyLock;

/// Texts after the help of each command: a line `== COMMAND`, then its text.
const HELP: &str = include_str!("help.txt");

/// Defaults by the names of options. The help of an option contains `{}` for each.
type Defaults = Vec<(&'static str, String)>;

static DEFAULTS: LazyLock<Defaults> = LazyLock::new(defaults);

/// Returns the defaults of simulations.
fn defaults() -> Defaults {
    let registry = blox_sim::registry::register(Registry::new());
    let registry = blox_traces::registry::register(registry);
    let (workloads, costs) = (registry.workloads(), registry.overhead_models());
    let workloads = workloads.iter().flat_map(|(_, entry)| &entry.params);
    let costs = costs.iter().flat_map(|(_, entry)| &entry.params);
    let described = workloads.chain(costs).filter(|p| !p.default.is_none());
    let described = described.map(|p| (p.name, p.default.to_string()));
    let generated = GeneratorSpec::new(generate::Load::PerHour(1.0), DurationLaw::BloxLaw).gpus;
    let mix = generated
        .iter()
        .map(|(gpus, weight)| format!("{gpus}:{weight}"));
    let format = OutputFormat::default();
    let others = [
        ("gpu_mix", mix.collect::<Vec<_>>().join(",")),
        ("answer_within_s", ANSWER_WITHIN_S.to_string()),
        ("output_format", format!("{format:?}").to_lowercase()),
        (
            "table",
            format!("{:?}", TableStyle::default()).to_lowercase(),
        ),
    ];
    described.chain(others).collect()
}

/// Returns the defaults of `estimate train`.
fn of_train() -> Defaults {
    let additive = AdditiveParams::default();
    let (boosted, tree) = (BoostedParams::default(), TreeParams::default());
    vec![
        ("learning_rate", additive.learning_rate.to_string()),
        ("learning_rate", boosted.learning_rate.to_string()),
        ("pairs", additive.pairs.to_string()),
        ("trees", boosted.trees.to_string()),
        ("depth", tree.depth.to_string()),
        ("least_rows", additive.least_rows.to_string()),
        ("least_rows", boosted.least_rows.to_string()),
        ("least_rows", tree.least_rows.to_string()),
        ("seed", additive.seed.to_string()),
    ]
}

fn with_defaults(mut arg: clap::Arg, defaults: &Defaults) -> clap::Arg {
    for (option, default) in defaults {
        if arg.get_id() == option && arg.get_help().is_some() {
            let fill = |text: &StyledStr| text.to_string().replacen("{}", default, 1);
            let (short, long) = (arg.get_help().map(fill), arg.get_long_help().map(fill));
            arg = arg.help(short.unwrap_or_default());
            arg = long.into_iter().fold(arg, clap::Arg::long_help);
        }
    }
    arg
}

/// Completes the definition of a command and of those below it: defaults in the help of options, and
/// examples.
pub(super) fn with_help(command: Command, above: &str) -> Command {
    let path = format!("{above}{}", command.get_name());
    let own = (path == "blox estimate train").then(of_train);
    let defaults = own.as_ref().unwrap_or(&DEFAULTS);
    // A negative number is a value that an option refuses, not an unknown option.
    let command = command.allow_negative_numbers(true);
    let command = command.mut_args(|arg| with_defaults(arg, defaults));
    let mut texts = HELP.split("== ").filter_map(|text| text.split_once('\n'));
    let text = texts.find(|(name, _)| *name == path);
    let above = format!("{path} ");
    let command = command.mut_subcommands(|inner| with_help(inner, &above));
    match text {
        Some((_, text)) => command.after_help(text.trim_end()),
        None => command,
    }
}

/// Arguments of a command that are defined once the command is named. Defining the arguments of all
/// commands takes longer than a short simulation.
pub(super) struct Late<A> {
    pub args: Box<A>,
    /// The arguments as they were given.
    pub matches: ArgMatches,
}

impl<A: Args> Args for Late<A> {
    fn augment_args(command: Command) -> Command {
        command.defer(|command| defined(command, A::augment_args))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<A: Subcommand> Subcommand for Late<A> {
    fn augment_subcommands(command: Command) -> Command {
        command.defer(|command| defined(command, A::augment_subcommands))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        A::has_subcommand(name)
    }
}

impl<A: FromArgMatches> FromArgMatches for Late<A> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Late {
            args: Box::new(A::from_arg_matches(matches)?),
            matches: matches.clone(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.args.update_from_arg_matches(matches)
    }
}

/// Adds the arguments of a command. They do not replace what the command is about.
fn defined(command: Command, add: fn(Command) -> Command) -> Command {
    let about = command.get_about().cloned();
    let long_about = command.get_long_about().cloned();
    let command = add(command)
        .about(Resettable::from(about))
        .long_about(Resettable::from(long_about));
    with_help(command, "blox ")
}
