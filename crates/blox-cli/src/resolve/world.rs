//! Simulated environment and decision triggers.

use super::super::args::{NODE_MTTR_H, Options, WORKLOAD};
use super::super::config::Given;
use super::super::value::{Duration, Written};
use super::contestant::Contestant;
use crate::failure::Failure;
use blox_core::{GpuCount, Seconds, Submission, Time};
use blox_registry::{
    ComponentRegistry, ComponentSpec, ParamDoc, Registry, RegistryError, WorldParts,
};
use blox_sim::Simulation;
use blox_sim::faults::Faults;
use blox_sim::overheads::{CheckpointRestart, FixedOverheads, GroupOverheads};
use blox_sim::registry::World as _;
use serde_json::{Map, Value};

/// Simulated environment, the same for all schedulers.
pub(super) struct World {
    overheads: FixedOverheads,
    /// Group overheads, which replace `overheads`.
    group: Option<GroupOverheads>,
    /// Additions to the line about overheads that no option sets: about the costs, and an advice.
    about_default: [&'static str; 2],
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

    /// Returns the line about overheads that are not a model of a scheduler. `trained` is true if
    /// jobs have training data.
    pub fn overheads_line(&self, trained: bool) -> String {
        if let Some(group) = self.group {
            let (switch, doubling) = group.seconds();
            return format!(
                "each launch and change takes {switch} s, and {doubling} s more for each doubling of a new group of GPUs"
            );
        }
        let (costs, [more, advice]) = (self.overheads, self.about_default);
        let training = restarts(trained);
        if costs == FixedOverheads::FREE {
            return format!("{FREE}{more}{training}{advice}");
        }
        if costs == FixedOverheads::TYPICAL {
            return typical() + more + training + advice;
        }
        let FixedOverheads {
            launch,
            checkpoint,
            restart,
            migration,
            ..
        } = costs;
        format!(
            "a first launch takes {launch} s, a checkpoint {checkpoint} s, a restart {restart} s, a move {migration} s{training}"
        )
    }
}

/// Describes overheads that are all 0.
const FREE: &str = "free: launches, preemption and moves take no time";

/// Describes [`FixedOverheads::TYPICAL`].
fn typical() -> String {
    let each = FixedOverheads::TYPICAL.launch;
    format!("each launch, restart and move takes {each} s")
}

/// Returns the addition about training jobs under [`CheckpointRestart`].
fn restarts(trained: bool) -> &'static str {
    match trained {
        true => "; training jobs: the time of their specification",
        false => "",
    }
}

/// Describes a model of overheads. `trained` is true if jobs have training data.
pub(super) fn overheads_of(
    model: &ComponentSpec,
    registry: &Registry,
    seed: u64,
    trained: bool,
) -> String {
    let by_specification = ["typical", "checkpoint-restart"].contains(&model.name.as_str());
    let training = restarts(trained && by_specification);
    let job = Submission::new(Time::ZERO, GpuCount(1));
    let built = registry.overhead_models().build(model, seed);
    let line = match model.name.as_str() {
        "none" => FREE.to_owned(),
        "typical" => typical(),
        _ if built.is_ok_and(|model| model.any_is_free_for(&job)) => {
            format!("{FREE} (the model `{model}`)")
        }
        _ => format!("by the model `{model}`"),
    };
    line + training
}

/// Describes random faults, if there are any.
pub(super) fn faults_line(faults: &Faults) -> Option<String> {
    if faults.is_none() {
        return None;
    }
    let hours = |mean: Seconds| shortest(mean.hours());
    let mut parts = Vec::new();
    if let Some(mtbf) = faults.node_mtbf {
        let (mtbf, mttr) = (hours(mtbf), hours(faults.node_mttr));
        parts.push(format!(
            "on average, a node fails after {mtbf} h and returns after {mttr} h"
        ));
    }
    if let Some(mtbf) = faults.job_mtbf {
        let mtbf = hours(mtbf);
        parts.push(format!("on average, a job crashes after running {mtbf} h"));
    }
    if faults.node_mtbf.is_some() || faults.job_mtbf.is_some() {
        parts.push(match faults.checkpoint_every {
            Some(every) => format!(
                "a job that is hit keeps its work up to the last checkpoint, every {every} s"
            ),
            None => "a job that is hit loses all work since its launch".to_owned(),
        });
    }
    if faults.launch_failure > 0.0 {
        let share = shortest(faults.launch_failure * 100.0);
        parts.push(format!("{share} % of launches fail"));
    }
    Some(parts.join("; "))
}

/// Formats a number without the rounding of its unit.
fn shortest(number: f64) -> String {
    ((number * 1e9).round() / 1e9).to_string()
}

/// Options that set the parameter of a workload with the same name.
pub(super) const OPTIONS: [&str; 11] = [
    "load",
    "load-of-capacity",
    "durations",
    "gpu-mix",
    "models",
    "users",
    "quiet-h",
    "burst-h",
    "burst-factor",
    "burst-durations",
    "diurnal",
];

/// Returns the option that sets a parameter of a workload: the option that its default names, or
/// the option with its name.
pub(super) fn option_of(param: &ParamDoc) -> Option<&'static str> {
    let same = |name: &&str| name.split('-').eq(param.name.split('_'));
    let by_name = || OPTIONS.into_iter().find(same);
    param.option().or_else(by_name)
}

/// Returns the value of an option for a parameter, from the given options; whole numbers have no
/// decimal point.
fn value(given: &Map<String, Value>, option: &str) -> Option<Value> {
    let value = given.get(option)?;
    Some(match value.as_f64() {
        Some(v) if v.fract() == 0.0 && v.abs() < 9e15 => (v as i64).into(),
        _ => value.clone(),
    })
}

/// Options of overheads, which replace the overheads of every scheduler.
const CHARGES: [&str; 6] = [
    "overheads",
    "group-overheads-s",
    "launch-s",
    "checkpoint-s",
    "restart-s",
    "migration-s",
];

/// Returns the models that options name. Otherwise returns the defaults of the scheduler.
pub(super) fn models(o: &Options, registry: &Registry, scheduler: &ComponentSpec) -> WorldParts {
    let mut models = own_world(registry, scheduler).cloned().unwrap_or_default();
    // Options in seconds replace the overheads of every scheduler.
    let given = o.given();
    if CHARGES[1..].iter().any(|key| given.contains_key(*key)) {
        models.overheads = None;
    }
    models.execution = component(&o.execution).or(models.execution);
    models.overheads = component(&o.overheads).or(models.overheads);
    models
}

/// Returns the execution model and the overheads.
pub(super) fn each(models: &WorldParts) -> impl Iterator<Item = &ComponentSpec> {
    models.execution.iter().chain(&models.overheads)
}

/// Returns a line for each model of the scheduler's own world that an option replaces. `models` are
/// those of [`models`].
pub(super) fn replaced(
    models: &WorldParts,
    o: &Options,
    registry: &Registry,
    Contestant { named, label, .. }: &Contestant,
) -> Vec<String> {
    let Some(own) = own_world(registry, named) else {
        return Vec::new();
    };
    let given = o.given();
    let first = |keys: &[&str]| {
        keys.iter().find_map(|key| {
            let value = given.get(*key)?;
            let number = value.as_f64().map(|v| v.to_string());
            let text = number.or_else(|| Some(value.as_str()?.to_owned()));
            Some(format!("--{key} {}", text?))
        })
    };
    let of = |keys, what, own: &Option<ComponentSpec>, now: &Option<ComponentSpec>| {
        let own = own.as_ref().filter(|own| Some(*own) != now.as_ref())?;
        Some(format!(
            "{} replaces {label}'s own {what} `{own}`",
            first(keys)?
        ))
    };
    let lines = [
        of(
            &["execution"],
            "execution model",
            &own.execution,
            &models.execution,
        ),
        of(&CHARGES, "overheads", &own.overheads, &models.overheads),
    ];
    lines.into_iter().flatten().collect()
}

/// Returns a line for each scheduler with models of its own, if the models of the schedulers
/// differ.
pub(super) fn differing(contestants: &[Contestant], all: &[WorldParts]) -> Vec<String> {
    if all.windows(2).all(|pair| pair[0] == pair[1]) {
        return Vec::new();
    }
    let mut lines = Vec::new();
    for (contestant, models) in contestants.iter().zip(all) {
        let models: Vec<String> = each(models).map(|model| format!("`{model}`")).collect();
        if !models.is_empty() {
            lines.push(format!(
                "{}: jobs run under its own {}, unlike those of other schedulers; --execution or --overheads sets one for all",
                contestant.label,
                models.join(" and ")
            ));
        }
    }
    lines
}

/// Returns whether a model takes a parameter from a command-line option.
pub(super) fn reads(models: &WorldParts, registry: &Registry, option: &str) -> bool {
    let (known, costs) = (registry.execution_models(), registry.overhead_models());
    let model = models.execution.iter().flat_map(|m| known.get(&m.name));
    let costs = models.overheads.iter().flat_map(|m| costs.get(&m.name));
    let params = model.flat_map(|m| &m.params);
    let mut params = params.chain(costs.flat_map(|m| &m.params));
    params.any(|param| param.option() == Some(option))
}

/// Fills parameters from the options, and checks each model by building it once.
pub(super) fn checked(
    mut models: WorldParts,
    given: &Given,
    registry: &Registry,
    seed: u64,
) -> Result<WorldParts, Failure> {
    let components = registry.execution_models();
    models.execution = filled(given, "execution", models.execution, &components, seed)?;
    let components = registry.overhead_models();
    models.overheads = filled(given, "overheads", models.overheads, &components, seed)?;
    Ok(models)
}

/// Adds models to a simulation.
pub(super) fn put_into(
    mut simulation: Simulation,
    models: &WorldParts,
    registry: &Registry,
    seed: u64,
) -> Result<Simulation, Failure> {
    if let Some(named) = &models.execution {
        let model = registry.execution_models().build(named, seed);
        simulation = simulation.execution(model?);
    }
    if let Some(named) = &models.overheads {
        let overheads = registry.overhead_models().build(named, seed);
        simulation = simulation.overheads(overheads?);
    }
    Ok(simulation)
}

/// Returns the simulated world that a scheduler brings.
fn own_world<'r>(registry: &'r Registry, scheduler: &ComponentSpec) -> Option<&'r WorldParts> {
    let own = registry.schedulers.get(&scheduler.name);
    let own = own.map(|entry| &entry.world);
    own.or_else(|| Some(&registry.scheduling.get(&scheduler.name)?.world))
}

/// Returns the component of an option.
pub(super) fn component(option: &Option<Written<ComponentSpec>>) -> Option<ComponentSpec> {
    option.as_deref().cloned()
}

/// Returns a component whose missing parameters are filled from the options. It is checked by
/// building it once.
fn filled<T>(
    given: &Given,
    key: &str,
    part: Option<ComponentSpec>,
    components: &ComponentRegistry<T>,
    seed: u64,
) -> Result<Option<ComponentSpec>, Failure> {
    part.map(|part| Ok(built(given, key, part, components, seed, ParamDoc::option)?.0))
        .transpose()
}

/// Builds a component whose missing parameters are filled from the options. `option` returns the
/// option that sets a parameter.
pub(super) fn built<T>(
    given: &Given,
    key: &str,
    part: ComponentSpec,
    components: &ComponentRegistry<T>,
    seed: u64,
    option: impl Fn(&ParamDoc) -> Option<&'static str>,
) -> Result<(ComponentSpec, T), Failure> {
    let options = given.options.given();
    let whole = components.filled(&part, |p| value(&options, option(p)?));
    let error = match components.build(&whole, seed) {
        Ok(built) => return Ok((whole, built)),
        Err(error) => error,
    };
    let RegistryError::BadValue {
        param, expected, ..
    } = &error
    else {
        return Err(Failure::new(error));
    };
    let params = components.get(&part.name).map_or(&[][..], |e| &e.params);
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
    for one in given.options.collect.iter().flatten() {
        if list.contains(one) {
            return Err(given.wrong("collect", &**one, "each collector once"));
        }
        let collector = registry.collectors.build(one, seed);
        collector.map_err(|e| given.because("collect", e))?;
        list.push((**one).clone());
    }
    Ok(list)
}

pub(super) fn world(given: &Given, registry: &Registry, seed: u64) -> Result<World, Failure> {
    let o = &given.options;
    if o.round.is_some() && o.on_event.is_some() {
        return Err(given.both("round", "on-event"));
    }
    let free = FixedOverheads::default();
    let seconds = |cost: Option<Duration>, free| cost.map_or(free, |cost| Seconds::new(cost.0));
    let mut overheads = FixedOverheads {
        launch: seconds(o.launch_s, free.launch),
        checkpoint: seconds(o.checkpoint_s, free.checkpoint),
        restart: seconds(o.restart_s, free.restart),
        migration: seconds(o.migration_s, free.migration),
        ..free
    };
    let charged = overheads != free;
    for (key, beside) in [
        (
            "group-overheads-s",
            o.group_overheads_s.is_some() && charged,
        ),
        (
            "overheads",
            o.overheads.is_some() && (charged || o.group_overheads_s.is_some()),
        ),
    ] {
        if beside {
            return Err(Failure::new(format!(
                "{} is given beside other overheads, expected one or the other",
                given.name(key)
            )));
        }
    }
    if o.execution.is_some() && o.data.is_some() {
        return Err(Failure::new(format!(
            "{} and {} are both given, expected one of them: both say how fast jobs are",
            given.name("execution"),
            given.name("data")
        )));
    }
    let blox = o.workload.as_ref().is_some_and(|w| w.name == WORKLOAD);
    let about_default = match given.first_of(&CHARGES) {
        Some(_) => ["", ""],
        // As published: the simulations of Blox have no overheads.
        None if blox => [
            ", as in Blox's own simulations",
            "; see --overheads typical",
        ],
        None => {
            overheads = FixedOverheads::TYPICAL;
            ["", "; with --overheads none, they are free"]
        }
    };
    let hours = |hours: Option<f64>| hours.map(Seconds::from_hours);
    let faults = Faults {
        seed,
        node_mtbf: hours(o.node_mtbf_h.map(|h| h.0)),
        node_mttr: hours(o.node_mttr_h.map(|h| h.0)).unwrap_or(Seconds::from_hours(NODE_MTTR_H)),
        job_mtbf: hours(o.job_mtbf_h.map(|h| h.0)),
        checkpoint_every: o.checkpoint_every_s.map(|period| Seconds::new(period.0)),
        launch_failure: o
            .launch_failure
            .map_or(Faults::default().launch_failure, |risk| risk.0),
    };
    let rules = registry.completion_rules();
    let completion = match component(&o.completion) {
        Some(rule) if rule.name == "round" && o.on_event.is_some() => {
            return Err(Failure::new(format!(
                "{} is `round`, which has no meaning with {}",
                given.name("completion"),
                given.name("on-event")
            )));
        }
        Some(rule) if rule == ComponentSpec::plain("round") => None,
        Some(rule) if rules.get(&rule.name).is_none() => {
            let known = std::iter::once("round").chain(rules.names());
            return Err(given.unknown("completion", &rule.to_string(), known));
        }
        rule => filled(given, "completion", rule, &rules, seed)?,
    };
    Ok(World {
        overheads,
        group: o.group_overheads_s.as_ref().map(|group| group.0),
        about_default,
        faults,
        completion,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world(overheads: FixedOverheads, about_default: [&'static str; 2]) -> World {
        World {
            overheads,
            group: None,
            about_default,
            faults: Faults::default(),
            completion: None,
        }
    }

    #[test]
    fn training_jobs_restart_as_specified() {
        let free = world(FixedOverheads::FREE, ["", ""]);
        let line = "free: launches, preemption and moves take no time";
        let training = "; training jobs: the time of their specification";
        assert_eq!(free.overheads_line(false), line);
        assert_eq!(free.overheads_line(true), format!("{line}{training}"));
        let default = world(
            FixedOverheads::TYPICAL,
            ["", "; with --overheads none, they are free"],
        );
        assert_eq!(
            default.overheads_line(true),
            format!(
                "each launch, restart and move takes 30 s{training}; with --overheads none, they are free"
            )
        );
    }

    #[test]
    fn a_model_without_costs_is_free() {
        let registry = blox_sim::registry::register(Registry::new());
        let line = |model: &str, trained| {
            let model: ComponentSpec = model.parse().unwrap();
            overheads_of(&model, &registry, 1, trained)
        };
        let free = "free: launches, preemption and moves take no time";
        let training = "; training jobs: the time of their specification";
        assert_eq!(line("none", true), free);
        assert_eq!(line("fixed", true), format!("{free} (the model `fixed`)"));
        assert_eq!(
            line("fixed{launch_s=5}", true),
            "by the model `fixed{launch_s=5}`"
        );
        assert_eq!(
            line("checkpoint-restart{restart_s=5}", true),
            format!("by the model `checkpoint-restart{{restart_s=5}}`{training}")
        );
        assert_eq!(
            line("typical", true),
            format!("each launch, restart and move takes 30 s{training}")
        );
    }

    #[test]
    fn faults_are_stated_with_their_numbers() {
        let none = Faults::default();
        assert_eq!(faults_line(&none), None);
        let faults = Faults {
            node_mtbf: Some(Seconds::from_hours(200.0)),
            node_mttr: Seconds::from_hours(1.5),
            job_mtbf: Some(Seconds::from_hours(0.1)),
            checkpoint_every: Some(Seconds::new(600.0)),
            launch_failure: 0.07,
            ..none
        };
        let expected = "on average, a node fails after 200 h and returns after 1.5 h; \
            on average, a job crashes after running 0.1 h; \
            a job that is hit keeps its work up to the last checkpoint, every 600 s; \
            7 % of launches fail";
        assert_eq!(faults_line(&faults).as_deref(), Some(expected));
        let launches = Faults {
            launch_failure: 0.5,
            ..none
        };
        assert_eq!(
            faults_line(&launches).as_deref(),
            Some("50 % of launches fail")
        );
    }
}
