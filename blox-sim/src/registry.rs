//! Components of the simulated world by name: execution models, overheads, completion rules and
//! workloads.
//!
//! They are in the same [`Registry`] as policies and collectors. Another crate adds a component
//! with one call. The command line then accepts it in `--execution`, `--overheads`, `--completion`
//! or `--workload`.
//!
//! ```
//! use blox_registry::{ComponentSpec, Registry};
//! use blox_sim::execution::{Contention, FixedRate};
//! use blox_sim::registry::World;
//!
//! let mut registry = Registry::new();
//! registry.execution_models_mut().add(
//!     "half-speed-neighbours",
//!     "each other job on a node halves the speed",
//!     &[],
//!     |_params, _seed| Ok(Box::new(Contention::over(FixedRate, 1.0))),
//! );
//! let model = registry.execution_models().build(&ComponentSpec::plain("half-speed-neighbours"), 1);
//! assert!(model.is_ok());
//! ```

use crate::collectors::{NodeHours, QueueLength};
use crate::completion::{CompletionRule, Exact};
use crate::execution::{
    AnyExecution, Contention, FixedRate, LOCALITY, Traffic, Variability, as_specified,
    opportunistic, planned, untrained,
};
use crate::overheads::{AnyOverheads, CheckpointRestart, FixedOverheads, GroupOverheads};
use crate::workload::WorkloadSource;
use blox_core::Seconds;
use blox_registry::{ComponentRegistry, ParamDoc, Params, Registry, RegistryError, numeric, param};

/// Execution models by name.
pub type ExecutionModels = ComponentRegistry<Box<dyn AnyExecution>>;
/// Overheads by name.
pub type OverheadModels = ComponentRegistry<Box<dyn AnyOverheads>>;
/// Completion rules by name.
pub type CompletionRules = ComponentRegistry<Box<dyn CompletionRule>>;
/// Workloads by name. The crate `blox-traces` registers the built-in ones.
pub type Workloads = ComponentRegistry<Box<dyn WorkloadSource>>;

/// Access to the components of the simulated world in a registry.
///
/// ```
/// use blox_registry::{ComponentSpec, Registry};
/// use blox_sim::overheads::FixedOverheads;
/// use blox_sim::registry::World;
///
/// let mut registry = blox_sim::registry::register(Registry::new());
/// registry.overhead_models_mut().add("free", "changes cost nothing", &[], |_params, _seed| {
///     Ok(Box::new(FixedOverheads::default()))
/// });
/// assert!(registry.overhead_models().build(&ComponentSpec::plain("free"), 1).is_ok());
/// assert!(registry.completion_rules().build(&ComponentSpec::plain("exact"), 1).is_ok());
/// ```
pub trait World {
    /// Returns a copy of the execution models.
    fn execution_models(&self) -> ExecutionModels;
    /// Returns the execution models, to add one.
    fn execution_models_mut(&mut self) -> &mut ExecutionModels;
    /// Returns a copy of the overheads.
    fn overhead_models(&self) -> OverheadModels;
    /// Returns the overheads, to add one.
    fn overhead_models_mut(&mut self) -> &mut OverheadModels;
    /// Returns a copy of the completion rules.
    fn completion_rules(&self) -> CompletionRules;
    /// Returns the completion rules, to add one.
    fn completion_rules_mut(&mut self) -> &mut CompletionRules;
    /// Returns a copy of the workloads.
    fn workloads(&self) -> Workloads;
    /// Returns the workloads, to add one. See [`WorkloadSource`] for an example.
    fn workloads_mut(&mut self) -> &mut Workloads;
}

const EXECUTION: &str = "execution model";
const OVERHEADS: &str = "overheads";
const COMPLETION: &str = "completion rule";
const WORKLOAD: &str = "workload";

fn copy<T: 'static>(registry: &Registry, kind: &'static str) -> ComponentRegistry<T> {
    let known = registry.others::<T>().cloned();
    known.unwrap_or_else(|| ComponentRegistry::new(kind))
}

impl World for Registry {
    fn execution_models(&self) -> ExecutionModels {
        copy(self, EXECUTION)
    }

    fn execution_models_mut(&mut self) -> &mut ExecutionModels {
        self.others_mut(EXECUTION)
    }

    fn overhead_models(&self) -> OverheadModels {
        copy(self, OVERHEADS)
    }

    fn overhead_models_mut(&mut self) -> &mut OverheadModels {
        self.others_mut(OVERHEADS)
    }

    fn completion_rules(&self) -> CompletionRules {
        copy(self, COMPLETION)
    }

    fn completion_rules_mut(&mut self) -> &mut CompletionRules {
        self.others_mut(COMPLETION)
    }

    fn workloads(&self) -> Workloads {
        copy(self, WORKLOAD)
    }

    fn workloads_mut(&mut self) -> &mut Workloads {
        self.others_mut(WORKLOAD)
    }
}

/// Returns a number of seconds, at least 0.
fn seconds(p: &Params, name: &str) -> Result<Seconds, RegistryError> {
    let expected = "a number of seconds, at least 0";
    p.number(name, expected, |s| s >= 0.0).map(Seconds::new)
}

/// Costs of [`FixedOverheads`].
const COSTS: [ParamDoc; 5] = [
    param("launch_s", "0", "seconds of a first launch"),
    param("checkpoint_s", "0", "seconds of a checkpoint at a stop"),
    param(
        "restart_s",
        "0",
        "seconds of a later launch on the same GPUs",
    ),
    param(
        "migration_s",
        "0",
        "seconds of a later launch on other GPUs",
    ),
    param(
        "boot_s",
        "0",
        "seconds until a requested or powered-on node is up",
    ),
];

fn fixed(p: &Params) -> Result<FixedOverheads, RegistryError> {
    Ok(FixedOverheads {
        launch: seconds(p, "launch_s")?,
        checkpoint: seconds(p, "checkpoint_s")?,
        restart: seconds(p, "restart_s")?,
        migration: seconds(p, "migration_s")?,
        boot: seconds(p, "boot_s")?,
    })
}

/// Adds the built-in components of the world.
#[must_use]
pub fn register(mut registry: Registry) -> Registry {
    let models = registry.execution_models_mut();
    models.add(
        "as-specified",
        "jobs run at the rate of their specification; training jobs follow their application (the default)",
        &[],
        |_, _| Ok(Box::new(as_specified())),
    );
    models.add(
        "fixed-rate",
        "jobs run at the rate of their specification in proportion to their GPUs, also on shared GPUs",
        &[],
        |_, _| Ok(Box::new(FixedRate)),
    );
    models.add(
        "contention",
        "as-specified, but jobs that share a node slow each other",
        &[param(
            "slowdown",
            "0.5",
            "a rate is divided by 1 + slowdown x the other jobs on the job's nodes",
        )],
        |p, _| {
            let slowdown = p.number("slowdown", "a number, at least 0", |v| v >= 0.0)?;
            Ok(Box::new(Contention::over(untrained(), slowdown)))
        },
    );
    models.add(
        "opportunistic",
        "as-specified, but jobs with an overlapping part of a GPU use what the other jobs on it leave (AntMan, OSDI 2020)",
        &[],
        |_, _| Ok(Box::new(opportunistic())),
    );
    models.add(
        "plans",
        "as-specified, but jobs with execution plans run at the speeds of their plans",
        &[],
        |_, _| Ok(Box::new(planned())),
    );
    models.add(
        "traffic",
        "as-specified, but jobs slow each other on links of the network that lack bandwidth for their traffic",
        &[],
        |_, _| Ok(Box::new(Traffic::over(untrained()))),
    );
    models.add(
        "variability",
        "as-specified, but single GPUs have scores for the job's class (PAL, SC 2024)",
        &[numeric(
            "locality",
            LOCALITY,
            "factor by which a step takes longer across nodes",
        )],
        |p, _| {
            let locality = p.number("locality", "a number, at least 1", |v| v >= 1.0)?;
            Ok(Box::new(Variability::over(untrained(), locality)))
        },
    );
    let overheads = registry.overhead_models_mut();
    overheads.add(
        "checkpoint-restart",
        "training jobs restart in the time of their specification, other jobs at fixed costs",
        &COSTS,
        |p, _| Ok(Box::new(CheckpointRestart { others: fixed(p)? })),
    );
    overheads.add(
        "fixed",
        "the same costs for every job and node",
        &COSTS,
        |p, _| Ok(Box::new(fixed(p)?)),
    );
    overheads.add(
        "none",
        "launches, stops and changes take no time (the default for the workload blox)",
        &[],
        |_, _| Ok(Box::new(FixedOverheads::default())),
    );
    overheads.add(
        "typical",
        "each launch, restart and change takes 30 s; training jobs restart in the time of their specification (the default for other workloads)",
        &[],
        |_, _| {
            let others = FixedOverheads::TYPICAL;
            Ok(Box::new(CheckpointRestart { others }))
        },
    );
    overheads.add(
        "groups",
        "a new group of GPUs costs more the larger it is (ElasticFlow, ASPLOS 2023, section 5)",
        &[
            param("switch_s", "2", "seconds of every launch and change"),
            param(
                "doubling_s",
                "2",
                "seconds for each doubling of a new group",
            ),
        ],
        |p, _| {
            let switch = seconds(p, "switch_s")?;
            let doubling = seconds(p, "doubling_s")?;
            Ok(Box::new(GroupOverheads::new(switch, doubling)))
        },
    );
    registry.collectors.add(
        "nodes",
        "hours that nodes are up, from the first submission to the last end of a job",
        &[],
        |_, _| Ok(Box::new(NodeHours::default())),
    );
    registry.collectors.add(
        "queue",
        "waiting jobs after each decision: the maximum, and the mean over time",
        &[],
        |_, _| Ok(Box::new(QueueLength::default())),
    );
    let rules = registry.completion_rules_mut();
    rules.add(
        "exact",
        "ends are detected at once, not at the end of the round",
        &[],
        |_, _| Ok(Box::new(Exact)),
    );
    registry
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_registry::ComponentSpec;

    #[test]
    fn every_shipped_part_of_the_world_builds() {
        let registry = register(Registry::new());
        let names = |name: &str| ComponentSpec::plain(name);
        for (name, _) in registry.execution_models().iter() {
            assert!(registry.execution_models().build(&names(name), 1).is_ok());
        }
        for (name, _) in registry.overhead_models().iter() {
            assert!(registry.overhead_models().build(&names(name), 1).is_ok());
        }
        for (name, _) in registry.completion_rules().iter() {
            assert!(registry.completion_rules().build(&names(name), 1).is_ok());
        }
    }

    #[test]
    fn described_costs_equal_fixed_overheads() {
        let described = fixed(&Params::of(&COSTS));
        assert_eq!(described, Ok(FixedOverheads::default()));
    }

    #[test]
    fn an_empty_registry_names_the_kind() {
        let text = |e: Option<RegistryError>| e.map(|e| e.to_string());
        let none = Registry::new();
        let error = none
            .execution_models()
            .build(&ComponentSpec::plain("x"), 1)
            .err();
        let expected = "unknown execution model `x`; known: none";
        assert_eq!(text(error).as_deref(), Some(expected));
    }
}
