//! Simulated environment and decision triggers.

use super::super::Failure;
use super::super::args::Options;
use super::super::config::Given;
use super::parameters::value;
use blox_core::registry::{
    ComponentRegistry, ComponentSpec, ParamDoc, Registry, RegistryError, Seeded, WorldParts,
};
use blox_core::{OnEvent, Rounds, Seconds};
use blox_sim::Simulation;
use blox_sim::faults::Faults;
use blox_sim::overheads::{CheckpointRestart, FixedOverheads, GroupOverheads};
use blox_sim::registry::World as _;

/// Decision trigger that replaces the scheduler's own.
#[derive(Clone, Copy)]
pub(super) enum Tempo {
    Rounds(Rounds),
    OnEvent(OnEvent),
}

/// Simulated environment, the same for all schedulers.
pub(super) struct World {
    overheads: FixedOverheads,
    /// Group overheads, which replace `overheads`.
    group: Option<GroupOverheads>,
    pub faults: Faults,
    /// Completion rule; `None` for detection at the ends of rounds, if there are rounds.
    pub completion: Option<ComponentSpec>,
}

impl World {
    /// Sets the overheads of launches and changes.
    pub fn charge(&self, simulation: Simulation) -> Simulation {
        match self.group {
            Some(group) => simulation.overheads(group),
            None => simulation.overheads(CheckpointRestart {
                others: self.overheads,
            }),
        }
    }
}

/// Models of the environment that depend on the scheduler.
#[derive(Clone, Default, PartialEq)]
pub(super) struct Parts {
    execution: Option<ComponentSpec>,
    overheads: Option<ComponentSpec>,
}

impl Parts {
    /// Returns the models that options name. Otherwise returns the defaults of the scheduler.
    pub fn of(
        given: &Given,
        registry: &Registry,
        scheduler: &ComponentSpec,
    ) -> Result<Self, Failure> {
        let own = own_world(registry, scheduler);
        let o = &given.options;
        let parts = Parts {
            execution: named(given, "execution", o.execution.as_deref())?,
            overheads: named(given, "overheads", o.overheads.as_deref())?,
        };
        // Options in seconds replace the overheads of every scheduler.
        let costs = [o.launch_s, o.checkpoint_s, o.restart_s, o.migration_s];
        let charged = costs.iter().any(Option::is_some) || o.group_overheads_s.is_some();
        let own_overheads = own.filter(|_| !charged).and_then(|w| w.overheads.clone());
        Ok(Parts {
            execution: parts.execution.or(own.and_then(|w| w.execution.clone())),
            overheads: parts.overheads.or(own_overheads),
        })
    }

    /// Returns a line for each model of the scheduler's own world that an option replaces. `self`
    /// holds the models of [`Parts::of`].
    pub fn replaced(
        &self,
        o: &Options,
        registry: &Registry,
        scheduler: &ComponentSpec,
        label: &str,
    ) -> Vec<String> {
        let Some(own) = own_world(registry, scheduler) else {
            return Vec::new();
        };
        let of = |option: Option<String>, what, own: &Option<ComponentSpec>, now| {
            let own = own.as_ref().filter(|own| Some(*own) != now)?;
            Some(format!("{} replaces {label}'s own {what} `{own}`", option?))
        };
        let text = |key: &str, value: &Option<String>| {
            let value = value.as_ref()?;
            Some(format!("--{key} {value}"))
        };
        let seconds = |key: &str, value: Option<f64>| Some(format!("--{key} {}", value?));
        let (execution, overheads) = (self.execution.as_ref(), self.overheads.as_ref());
        let charged = text("overheads", &o.overheads)
            .or_else(|| text("group-overheads-s", &o.group_overheads_s))
            .or_else(|| seconds("launch-s", o.launch_s))
            .or_else(|| seconds("checkpoint-s", o.checkpoint_s))
            .or_else(|| seconds("restart-s", o.restart_s))
            .or_else(|| seconds("migration-s", o.migration_s));
        let model = text("execution", &o.execution);
        let lines = [
            of(model, "execution model", &own.execution, execution),
            of(charged, "overheads", &own.overheads, overheads),
        ];
        lines.into_iter().flatten().collect()
    }

    /// Returns whether a model takes a parameter from a command-line option.
    pub fn reads(&self, registry: &Registry, option: &str) -> bool {
        let reads = |params: Option<&[ParamDoc]>| {
            params.is_some_and(|params| params.iter().any(|p| p.option() == Some(option)))
        };
        let models = registry.execution_models();
        let model = self.execution.as_ref().and_then(|n| models.get(&n.name));
        let overheads = registry.overhead_models();
        let costs = self.overheads.as_ref().and_then(|n| overheads.get(&n.name));
        reads(model.map(|m| &*m.params)) || reads(costs.map(|m| &*m.params))
    }

    /// Fills parameters from the options, and checks each model by building it once.
    pub fn checked(self, given: &Given, registry: &Registry, seed: u64) -> Result<Self, Failure> {
        let shelf = registry.execution_models();
        let execution = filled(given, "execution", self.execution, &shelf, seed)?;
        let shelf = registry.overhead_models();
        let overheads = filled(given, "overheads", self.overheads, &shelf, seed)?;
        Ok(Parts {
            execution,
            overheads,
        })
    }

    pub fn iter(&self) -> impl Iterator<Item = &ComponentSpec> {
        [&self.execution, &self.overheads].into_iter().flatten()
    }

    /// Adds these models to the simulation.
    pub fn put_into(
        &self,
        mut simulation: Simulation,
        registry: &Registry,
        seed: u64,
    ) -> Result<Simulation, Failure> {
        if let Some(named) = &self.execution {
            let model = registry.execution_models().build(named, seed);
            simulation = simulation.execution(model.map_err(Failure::new)?);
        }
        if let Some(named) = &self.overheads {
            let overheads = registry.overhead_models().build(named, seed);
            simulation = simulation.overheads(overheads.map_err(Failure::new)?);
        }
        Ok(simulation)
    }
}

/// Returns the simulated world that a scheduler brings.
fn own_world<'r>(registry: &'r Registry, scheduler: &ComponentSpec) -> Option<&'r WorldParts> {
    let own = registry.schedulers.get(&scheduler.name);
    let own = own.map(|entry| &entry.world);
    own.or_else(|| Some(&registry.scheduling.get(&scheduler.name)?.world))
}

/// Parses an option of the form `NAME{..}`.
pub(super) fn named(
    given: &Given,
    key: &str,
    text: Option<&str>,
) -> Result<Option<ComponentSpec>, Failure> {
    let parsed = text.map(str::parse).transpose();
    parsed.map_err(|e: RegistryError| given.because(key, e))
}

/// Returns a component whose missing parameters are filled from the options. It is checked by
/// building it once.
fn filled<T: Seeded>(
    given: &Given,
    key: &str,
    part: Option<ComponentSpec>,
    shelf: &ComponentRegistry<T>,
    seed: u64,
) -> Result<Option<ComponentSpec>, Failure> {
    part.map(|part| Ok(built(given, key, part, shelf, seed, ParamDoc::option)?.0))
        .transpose()
}

/// Builds a component whose missing parameters are filled from the options. `option` returns the
/// option that sets a parameter.
pub(super) fn built<T: Seeded>(
    given: &Given,
    key: &str,
    part: ComponentSpec,
    shelf: &ComponentRegistry<T>,
    seed: u64,
    option: impl Fn(&ParamDoc) -> Option<&'static str>,
) -> Result<(ComponentSpec, T), Failure> {
    let whole = shelf.filled(&part, |p| value(&given.options, option(p)?));
    let error = match shelf.build(&whole, seed) {
        Ok(built) => return Ok((whole, built)),
        Err(error) => error,
    };
    let RegistryError::BadValue {
        param, expected, ..
    } = &error
    else {
        return Err(Failure::new(error));
    };
    let params = shelf.get(&part.name).map_or(&[][..], |e| &e.params);
    let open = params.iter().find(|p| p.name == param);
    let open = open.filter(|_| !part.params.has(param));
    match open.and_then(option) {
        None => Err(given.because(key, error)),
        Some(name) if whole.params.has(param) => {
            Err(given.wrong(name, whole.params.text(param), expected))
        }
        Some(name) => Err(Failure::new(format!(
            "--{name} is missing, expected {expected}"
        ))),
    }
}

/// Parses the collectors, and checks each by building it once.
pub(super) fn collectors(
    given: &Given,
    registry: &Registry,
    seed: u64,
) -> Result<Vec<ComponentSpec>, Failure> {
    let mut list: Vec<ComponentSpec> = Vec::new();
    for text in given.options.collect.iter().flatten() {
        let Some(one) = named(given, "collect", Some(text))? else {
            continue;
        };
        if list.contains(&one) {
            let expected = "each collector once";
            return Err(given.wrong("collect", one, expected));
        }
        let collector = registry.collectors.build(&one, seed);
        collector.map_err(|e| given.because("collect", e))?;
        list.push(one);
    }
    Ok(list)
}

pub(super) fn trigger(given: &Given) -> Result<Option<Tempo>, Failure> {
    let o = &given.options;
    match (o.round, o.on_event) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(given.both("round", "on-event")),
        (Some(s), None) => Seconds::try_new(s)
            .and_then(Rounds::every)
            .map(|r| Some(Tempo::Rounds(r)))
            .ok_or_else(|| given.wrong("round", s, "a number of seconds above 0")),
        (None, Some(s)) => not_negative(given, "on-event", Some(s))
            .map(|gap| Some(Tempo::OnEvent(OnEvent::with_gap(gap)))),
    }
}

fn not_negative(given: &Given, key: &str, value: Option<f64>) -> Result<Seconds, Failure> {
    let value = value.unwrap_or(0.0);
    Seconds::try_new(value)
        .filter(|s| *s >= Seconds::ZERO)
        .ok_or_else(|| given.wrong(key, value, "a number of seconds, at least 0"))
}

fn above_zero(
    given: &Given,
    key: &str,
    value: Option<f64>,
    unit_s: f64,
) -> Result<Option<Seconds>, Failure> {
    let unit = if unit_s == 1.0 { "seconds" } else { "hours" };
    let Some(value) = value else { return Ok(None) };
    Seconds::try_new(value * unit_s)
        .filter(|s| *s > Seconds::ZERO)
        .map(Some)
        .ok_or_else(|| given.wrong(key, value, &format!("a number of {unit} above 0")))
}

/// Parses `SWITCH,DOUBLING` in seconds.
fn group(given: &Given, text: &str) -> Result<GroupOverheads, Failure> {
    let seconds = |text: &str| {
        let number = text.trim().parse().ok().and_then(Seconds::try_new);
        number.filter(|s| *s >= Seconds::ZERO)
    };
    let both = text.split_once(',');
    both.and_then(|(switch, doubling)| Some((seconds(switch)?, seconds(doubling)?)))
        .map(|(switch, doubling)| GroupOverheads::new(switch, doubling))
        .ok_or_else(|| {
            let expected = "two numbers of seconds, at least 0, as 2,2";
            given.wrong("group-overheads-s", text, expected)
        })
}

pub(super) fn world(
    given: &Given,
    registry: &Registry,
    trigger: Option<Tempo>,
    seed: u64,
) -> Result<World, Failure> {
    let o = &given.options;
    let seconds = |key, value| not_negative(given, key, value);
    let overheads = FixedOverheads {
        launch: seconds("launch-s", o.launch_s)?,
        checkpoint: seconds("checkpoint-s", o.checkpoint_s)?,
        restart: seconds("restart-s", o.restart_s)?,
        migration: seconds("migration-s", o.migration_s)?,
        ..FixedOverheads::default()
    };
    let group = match &o.group_overheads_s {
        None => None,
        Some(_) if overheads != FixedOverheads::default() => {
            return Err(Failure::new(format!(
                "{} is given beside other overheads, expected one or the other",
                given.name("group-overheads-s")
            )));
        }
        Some(text) => Some(group(given, text)?),
    };
    if o.overheads.is_some() && (group.is_some() || overheads != FixedOverheads::default()) {
        return Err(Failure::new(format!(
            "{} is given beside other overheads, expected one or the other",
            given.name("overheads")
        )));
    }
    if o.execution.is_some() && o.data.is_some() {
        return Err(Failure::new(format!(
            "{} and {} are both given, expected one of them: both say how fast jobs are",
            given.name("execution"),
            given.name("data")
        )));
    }
    let hour = 3600.0;
    let launch_failure = o.launch_failure.unwrap_or(0.0);
    if !(0.0..1.0).contains(&launch_failure) {
        let expected = "a probability, at least 0 and below 1";
        return Err(given.wrong("launch-failure", launch_failure, expected));
    }
    let faults = Faults {
        seed,
        node_mtbf: above_zero(given, "node-mtbf-h", o.node_mtbf_h, hour)?,
        node_mttr: above_zero(given, "node-mttr-h", o.node_mttr_h, hour)?
            .unwrap_or(Seconds::from_hours(1.0)),
        job_mtbf: above_zero(given, "job-mtbf-h", o.job_mtbf_h, hour)?,
        checkpoint_every: above_zero(given, "checkpoint-every-s", o.checkpoint_every_s, 1.0)?,
        launch_failure,
    };
    let rules = registry.completion_rules();
    let completion = match (
        named(given, "completion", o.completion.as_deref())?,
        trigger,
    ) {
        (Some(rule), Some(Tempo::OnEvent(_))) if rule.name == "round" => {
            return Err(Failure::new(format!(
                "{} is `round`, which has no meaning with {}",
                given.name("completion"),
                given.name("on-event")
            )));
        }
        (Some(rule), _) if rule == ComponentSpec::plain("round") => None,
        (Some(rule), _) if rules.get(&rule.name).is_none() => {
            let known = std::iter::once("round").chain(rules.names());
            return Err(given.unknown("completion", &rule.to_string(), known));
        }
        (rule, _) => filled(given, "completion", rule, &rules, seed)?,
    };
    Ok(World {
        overheads,
        group,
        faults,
        completion,
    })
}
