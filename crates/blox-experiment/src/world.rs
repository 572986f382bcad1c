//! The simulated world of an experiment.

use crate::contestant::Contestant;
use crate::error::ExperimentError;
use crate::parameters::{GROUP_OVERHEADS, Parameter, open_parameter};
use crate::settings::Experiment;
use crate::value::Written;
use blox_core::{GpuCount, Seconds, Submission, Time};
use blox_registry::{
    ComponentRegistry, ComponentSpec, ParamDoc, Registry, RegistryError, WorldParts,
};
use blox_sim::Simulation;
use blox_sim::faults::Faults;
use blox_sim::overheads::{CheckpointRestart, FixedOverheads, is_free_for};
use blox_sim::registry::World as _;
use serde_json::Value;

/// The workload, if no setting names one.
pub const WORKLOAD: &str = "blox";
/// The cluster, if no setting names one.
pub const CLUSTER: &str = "32x4";
/// The seed, if no setting names one.
pub const SEED: u64 = 1;
/// Mean hours until a failed node returns, if no setting names them.
pub const NODE_MTTR_H: f64 = 1.0;

/// Simulated environment, the same for all schedulers.
pub(crate) struct World {
    /// The overheads that settings in seconds give.
    costs: Option<ComponentSpec>,
    /// The overheads if there are no such settings.
    default: FixedOverheads,
    /// Additions to the line about overheads that no setting gives: about the costs, and an advice.
    about_default: [String; 2],
    pub faults: Faults,
    /// Completion rule; `None` for detection at the ends of rounds, if there are rounds.
    pub completion: Option<ComponentSpec>,
}

impl World {
    /// Sets the overheads of launches and changes.
    pub fn charge(
        &self,
        simulation: Simulation,
        registry: &Registry,
        seed: u64,
    ) -> Result<Simulation, RegistryError> {
        Ok(match &self.costs {
            Some(costs) => simulation.overheads(registry.overhead_models().build(costs, seed)?),
            None => simulation.overheads(CheckpointRestart {
                others: self.default,
            }),
        })
    }

    /// Returns the line about overheads that are not a model of a scheduler. `trained` is true if
    /// jobs have training data.
    pub fn overheads_line(&self, trained: bool) -> String {
        let cost = |name: &str| {
            let costs = self.costs.as_ref();
            let cost = costs.map(|costs| costs.params.f64(name));
            Seconds::new(cost.and_then(Result::ok).unwrap_or(0.0))
        };
        if self
            .costs
            .as_ref()
            .is_some_and(|costs| costs.name == "groups")
        {
            let (switch, doubling) = (cost("switch_s"), cost("doubling_s"));
            return format!(
                "each launch and change takes {switch} s, and {doubling} s more for each doubling of a new group of GPUs"
            );
        }
        let costs = match &self.costs {
            Some(_) => FixedOverheads {
                launch: cost("launch_s"),
                checkpoint: cost("checkpoint_s"),
                restart: cost("restart_s"),
                migration: cost("migration_s"),
                ..FixedOverheads::FREE
            },
            None => self.default,
        };
        let [more, advice] = &self.about_default;
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
pub(crate) fn overheads_of(
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
        _ if built.is_ok_and(|model| is_free_for(&*model, &job)) => {
            format!("{FREE} (the model `{model}`)")
        }
        _ => format!("by the model `{model}`"),
    };
    line + training
}

/// Describes random faults, if there are any.
pub(crate) fn faults_line(faults: &Faults) -> Option<String> {
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

/// Returns the given value of a parameter, or the value of the workload's parameter of this name. Whole
/// numbers have no decimal point.
fn value(of: &Experiment, parameter: &Parameter) -> Option<Value> {
    let given = of.workload_parameters.get(parameter.key).cloned();
    let own = || {
        let params = &of.workload.as_deref()?.params;
        let number = || params.f64(parameter.name).map(Value::from);
        let text = || params.text(parameter.name).into();
        let has = params.has(parameter.name);
        has.then(|| number().unwrap_or_else(|_| text()))
    };
    let value = given.or_else(own)?;
    Some(match value.as_f64() {
        Some(v) => number(v),
        None => value,
    })
}

/// Returns a number as JSON; a whole one has no decimal point.
fn number(v: f64) -> Value {
    match v.fract() == 0.0 && v.abs() < 9e15 {
        true => (v as i64).into(),
        false => v.into(),
    }
}

/// Returns the first given setting of overheads, which replaces the overheads of every scheduler, with
/// its value.
fn charge(of: &Experiment) -> Option<(&'static str, String)> {
    let given = of.overheads.as_ref();
    let named = given.map(|model| ("overheads", model.to_string()));
    let group = of.overhead_parameters.get(GROUP_OVERHEADS);
    let group = group.map(|pair| {
        (
            GROUP_OVERHEADS,
            pair.as_str().unwrap_or_default().to_owned(),
        )
    });
    let costs = of.overhead_parameters.given();
    let mut costs = costs.filter_map(|(p, value)| Some((p.key, value.as_f64()?.to_string())));
    named.or(group).or_else(|| costs.next())
}

/// Returns the models that settings name. Otherwise returns the defaults of the scheduler.
pub(crate) fn models(
    of: &Experiment,
    registry: &Registry,
    scheduler: &ComponentSpec,
) -> WorldParts {
    let mut models = own_models(registry, scheduler).cloned().unwrap_or_default();
    // Settings in seconds replace the overheads of every scheduler.
    if of.overhead_parameters.component().is_some() {
        models.overheads = None;
    }
    models.execution = component(&of.execution).or(models.execution);
    models.overheads = component(&of.overheads).or(models.overheads);
    models
}

/// Returns the execution model and the overheads.
pub(crate) fn each(models: &WorldParts) -> impl Iterator<Item = &ComponentSpec> {
    models.execution.iter().chain(&models.overheads)
}

/// Returns a line for each model of the scheduler's own world that a setting replaces. [`models`]
/// returned `models`.
pub(crate) fn replaced(
    models: &WorldParts,
    of: &Experiment,
    registry: &Registry,
    Contestant { named, label, .. }: &Contestant,
) -> Vec<String> {
    let Some(own) = own_models(registry, named) else {
        return Vec::new();
    };
    let execution = of.execution.as_ref();
    let execution = execution.map(|model| ("execution", model.to_string()));
    let line = |by: Option<(&str, String)>, what, own: &Option<ComponentSpec>, now| {
        let own = own.as_ref().filter(|own| Some(*own) != now)?;
        let (key, value) = by?;
        let option = of.origin.option(key);
        Some(format!(
            "{option} {value} replaces {label}'s own {what} `{own}`"
        ))
    };
    let lines = [
        line(
            execution,
            "execution model",
            &own.execution,
            models.execution.as_ref(),
        ),
        line(
            charge(of),
            "overheads",
            &own.overheads,
            models.overheads.as_ref(),
        ),
    ];
    lines.into_iter().flatten().collect()
}

/// Returns a line for each scheduler with models of its own, if the models of the schedulers
/// differ.
pub(crate) fn differing(
    of: &Experiment,
    contestants: &[Contestant],
    all: &[WorldParts],
) -> Vec<String> {
    if all.windows(2).all(|pair| pair[0] == pair[1]) {
        return Vec::new();
    }
    let mut lines = Vec::new();
    for (contestant, models) in contestants.iter().zip(all) {
        let models: Vec<String> = each(models).map(|model| format!("`{model}`")).collect();
        if !models.is_empty() {
            lines.push(format!(
                "{}: jobs run under its own {}, unlike those of other schedulers; {} or {} sets one for all",
                contestant.label,
                models.join(" and "),
                of.origin.option("execution"),
                of.origin.option("overheads")
            ));
        }
    }
    lines
}

/// Returns whether a model takes the load of the workload.
pub(crate) fn reads_load(models: &WorldParts, registry: &Registry) -> bool {
    let (known, costs) = (registry.execution_models(), registry.overhead_models());
    let model = models.execution.iter().flat_map(|m| known.get(&m.name));
    let costs = models.overheads.iter().flat_map(|m| costs.get(&m.name));
    let params = model.flat_map(|m| &m.params);
    let mut params = params.chain(costs.flat_map(|m| &m.params));
    params.any(|param| open_parameter(param).is_some_and(|p| p.key == "load"))
}

/// Fills parameters from the settings, and checks each model by building it once. `load` is the load
/// that follows from a [demand](demands) for a fraction of the cluster.
pub(crate) fn checked(
    mut models: WorldParts,
    of: &Experiment,
    registry: &Registry,
    seed: u64,
    load: Option<f64>,
) -> Result<WorldParts, ExperimentError> {
    let components = registry.execution_models();
    models.execution = filled(of, "execution", models.execution, &components, seed, load)?;
    let components = registry.overhead_models();
    models.overheads = filled(of, "overheads", models.overheads, &components, seed, load)?;
    Ok(models)
}

/// Returns the key whose value gives the load as a fraction of the cluster, if there is one.
pub(crate) fn demands(of: &Experiment) -> Option<&'static str> {
    let own = of.workload_parameters.get("load-of-capacity").is_some();
    let inside = of.workload.as_deref();
    let inside = inside.is_some_and(|spec| spec.params.has("load_of_capacity"));
    match (own, inside) {
        (true, _) => Some("load-of-capacity"),
        (false, true) => Some("workload"),
        (false, false) => None,
    }
}

/// Adds the named models to a simulation.
///
/// # Errors
/// There is no such model, or a parameter is wrong.
pub fn with_models(
    mut simulation: Simulation,
    models: &WorldParts,
    registry: &Registry,
    seed: u64,
) -> Result<Simulation, RegistryError> {
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

/// Returns the models for which a scheduler is designed.
pub fn own_models<'r>(registry: &'r Registry, scheduler: &ComponentSpec) -> Option<&'r WorldParts> {
    let own = registry.schedulers.get(&scheduler.name);
    let own = own.map(|entry| &entry.world);
    own.or_else(|| Some(&registry.scheduling.get(&scheduler.name)?.world))
}

/// Returns the component of an option.
pub(crate) fn component(option: &Option<Written<ComponentSpec>>) -> Option<ComponentSpec> {
    option.as_deref().cloned()
}

/// Returns a component whose missing parameters are filled from the options. It is checked by
/// building it once.
fn filled<T>(
    of: &Experiment,
    key: &str,
    part: Option<ComponentSpec>,
    components: &ComponentRegistry<T>,
    seed: u64,
    load: Option<f64>,
) -> Result<Option<ComponentSpec>, ExperimentError> {
    let Some(part) = part else {
        return Ok(None);
    };
    check_load(of, key, &part, components, load)?;
    let is_load = |p: &ParamDoc| open_parameter(p).is_some_and(|own| own.key == "load");
    let from_demand = components.filled(&part, |p| load.filter(|_| is_load(p)).map(number));
    let params = components.get(&part.name).map_or(&[][..], |e| &e.params);
    let filled_in = params
        .iter()
        .find(|p| is_load(p) && from_demand.params.has(p.name) && !part.params.has(p.name));
    if let (Some(param), Some(demand)) = (filled_in, demands(of))
        && let Err(RegistryError::BadValue {
            param: wrong,
            found,
            expected,
        }) = components.build(&from_demand, seed)
        && wrong == param.name
    {
        return Err(ExperimentError::Setting(format!(
            "{} gives the load {found}, expected {expected}",
            of.name(demand)
        )));
    }
    Ok(Some(
        built(of, key, from_demand, components, seed, open_parameter)?.0,
    ))
}

/// Refuses a model for another load than the workload has.
fn check_load<T>(
    of: &Experiment,
    key: &str,
    part: &ComponentSpec,
    components: &ComponentRegistry<T>,
    from_demand: Option<f64>,
) -> Result<(), ExperimentError> {
    let mut params = components
        .get(&part.name)
        .into_iter()
        .flat_map(|e| &e.params);
    let load =
        params.find_map(|p| Some((p.name, open_parameter(p)?)).filter(|(_, p)| p.key == "load"));
    let Some((name, parameter)) = load else {
        return Ok(());
    };
    let workload = value(of, parameter).or_else(|| from_demand.map(number));
    match (part.params.f64(name), workload) {
        (Ok(own), Some(load)) if load.as_f64() != Some(own) => {
            Err(ExperimentError::Setting(format!(
                "{} has the load {own}, but the workload has {load}, expected the same load",
                of.name(key)
            )))
        }
        _ => Ok(()),
    }
}

/// Builds a component whose missing parameters are filled from the settings. `setting` returns the
/// setting that stands for a parameter.
pub(crate) fn built<T>(
    of: &Experiment,
    key: &str,
    part: ComponentSpec,
    components: &ComponentRegistry<T>,
    seed: u64,
    setting: impl Fn(&ParamDoc) -> Option<&'static Parameter>,
) -> Result<(ComponentSpec, T), ExperimentError> {
    let whole = components.filled(&part, |p| value(of, setting(p)?));
    let error = match components.build(&whole, seed) {
        Ok(built) => return Ok((whole, built)),
        Err(error) => error,
    };
    let RegistryError::BadValue {
        param, expected, ..
    } = &error
    else {
        return Err(error.into());
    };
    let params = components.get(&part.name).map_or(&[][..], |e| &e.params);
    let open = params.iter().find(|p| p.name == param);
    let open = open.filter(|_| !part.params.has(param));
    match open.and_then(setting) {
        None => Err(of.because(key, error)),
        Some(p) if whole.params.has(param) && of.workload_parameters.get(p.key).is_none() => {
            Err(of.because("workload", error))
        }
        Some(p) if whole.params.has(param) => {
            Err(of.wrong(p.key, whole.params.text(param), expected))
        }
        Some(p) => {
            let option = of.origin.option(p.key);
            Err(ExperimentError::Setting(format!(
                "{option} is missing, expected {expected}"
            )))
        }
    }
}

/// Checks each collector by building it once.
pub(crate) fn collectors(
    of: &Experiment,
    registry: &Registry,
    seed: u64,
) -> Result<Vec<ComponentSpec>, ExperimentError> {
    let mut list: Vec<ComponentSpec> = Vec::new();
    for one in &of.records.collectors {
        if list.contains(one) {
            return Err(of.wrong("collect", &**one, "each collector once"));
        }
        let collector = registry.collectors.build(one, seed);
        collector.map_err(|e| of.because("collect", e))?;
        list.push((**one).clone());
    }
    Ok(list)
}

pub(crate) fn world(
    of: &Experiment,
    registry: &Registry,
    seed: u64,
) -> Result<World, ExperimentError> {
    if of.round.is_some() && of.on_event.is_some() {
        return Err(of.both("round", "on-event"));
    }
    let costs = of.overhead_parameters.component();
    let group = of.overhead_parameters.get(GROUP_OVERHEADS).is_some();
    let mut seconds = of
        .overhead_parameters
        .given()
        .map(|(_, cost)| cost.as_f64());
    let charged = seconds.any(|cost| cost.is_some_and(|cost| cost != 0.0));
    for (key, beside) in [
        (GROUP_OVERHEADS, group && charged),
        ("overheads", of.overheads.is_some() && (charged || group)),
    ] {
        if beside {
            return Err(ExperimentError::Setting(format!(
                "{} is given beside other overheads, expected one or the other",
                of.name(key)
            )));
        }
    }
    if of.execution.is_some() && of.data.is_some() {
        return Err(ExperimentError::Setting(format!(
            "{} and {} are both given, expected one of them: both say how fast jobs are",
            of.name("execution"),
            of.name("data")
        )));
    }
    let blox = of.workload.as_ref().is_some_and(|w| w.name == WORKLOAD);
    let option = of.origin.option("overheads");
    let (default, about_default) = match charge(of) {
        Some(_) => (FixedOverheads::FREE, [String::new(), String::new()]),
        // As published: the simulations of Blox have no overheads.
        None if blox => (
            FixedOverheads::FREE,
            [
                ", as in Blox's own simulations".to_owned(),
                format!("; see {option} typical"),
            ],
        ),
        None => (
            FixedOverheads::TYPICAL,
            [
                String::new(),
                format!("; with {option} none, they are free"),
            ],
        ),
    };
    let hours = |hours: Option<f64>| hours.map(Seconds::from_hours);
    let faults = Faults {
        seed,
        node_mtbf: hours(of.node_mtbf_h.map(|h| h.0)),
        node_mttr: hours(of.node_mttr_h.map(|h| h.0)).unwrap_or(Seconds::from_hours(NODE_MTTR_H)),
        job_mtbf: hours(of.job_mtbf_h.map(|h| h.0)),
        checkpoint_every: of.checkpoint_every_s.map(|period| Seconds::new(period.0)),
        launch_failure: of
            .launch_failure
            .map_or(Faults::default().launch_failure, |risk| risk.0),
    };
    let rules = registry.completion_rules();
    let completion = match component(&of.completion) {
        Some(rule) if rule.name == "round" && of.on_event.is_some() => {
            return Err(ExperimentError::Setting(format!(
                "{} is `round`, which has no meaning with {}",
                of.name("completion"),
                of.name("on-event")
            )));
        }
        Some(rule) if rule == ComponentSpec::plain("round") => None,
        Some(rule) if rules.get(&rule.name).is_none() => {
            let known = std::iter::once("round").chain(rules.names());
            return Err(of.unknown("completion", &rule.to_string(), known));
        }
        rule => filled(of, "completion", rule, &rules, seed, None)?,
    };
    Ok(World {
        costs,
        default,
        about_default,
        faults,
        completion,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world(default: FixedOverheads, about_default: [&'static str; 2]) -> World {
        World {
            costs: None,
            default,
            about_default: about_default.map(str::to_owned),
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
