use crate::registry::params::{not_zero, numeric, param, seconds};
use crate::{DEFAULTS, ONCE};
use blox_core::registry::{ParamDoc, Params, Registry, RegistryError};
use blox_core::{Composition, Pipeline, Seconds};
use blox_policies::scheduling::{Autoscale, Pollux, PolluxSettings};

const SEARCH: PolluxSettings = PolluxSettings::DEFAULT;
const POWER: ParamDoc = numeric(
    "power",
    SEARCH.power,
    "power p of the fairness objective, not 0",
);
const POPULATION: ParamDoc = numeric(
    "population",
    SEARCH.population as f64,
    "allocations of a generation, from 2 to 10000",
);
const GENERATIONS: ParamDoc = numeric(
    "generations",
    SEARCH.generations as f64,
    "most generations of a round",
);
const PATIENCE: ParamDoc = numeric(
    "patience",
    SEARCH.patience as f64,
    "generations without improvement that end the search",
);
const ROUND: ParamDoc = param("round_s", "60", "seconds of a round");
const PARAMETERS: [ParamDoc; 5] = [POWER, POPULATION, GENERATIONS, PATIENCE, ROUND];

/// Configuration of [`pollux`].
#[derive(Clone, Debug, PartialEq)]
pub struct PolluxParams {
    /// Settings of the search.
    pub search: PolluxSettings,
    /// Length of a round, above 0.
    pub round: Seconds,
    /// Autoscaling of the cluster, if any.
    pub autoscale: Option<Autoscale>,
}

impl Default for PolluxParams {
    fn default() -> Self {
        read(&Params::of(&PARAMETERS)).expect(DEFAULTS)
    }
}

/// A genetic search for the allocation with the best fitness (Pollux, OSDI 2021).
///
/// **Rule.** A job's speedup is its goodput on an allocation, divided by its goodput on its fair
/// share. It is lower if the job would have to restart. The fitness of an allocation is a power
/// mean of speedups, by default the harmonic mean. Two jobs that span nodes never share a node.
/// Jobs tune their batch sizes themselves. See [`Pollux`](blox_policies::scheduling::Pollux).
///
/// **Parameters** (command line): `power`, `population`, `generations`, `patience` (generations
/// without improvement), `round_s`, and the seed.
///
/// **Jobs** that train need a [`TrainingSpec`](blox_core::TrainingSpec), as in workloads of the
/// format `sia`. Other jobs run on their requested number of GPUs.
pub fn pollux() -> Pipeline {
    pollux_with(PolluxParams::default())
}

/// Returns [`pollux`] with other settings.
pub fn pollux_with(params: PolluxParams) -> Pipeline {
    let grows = params.autoscale.is_some();
    let base = Composition::new("pollux").in_rounds(params.round);
    let mut policy = Pollux::new(params.search);
    if let Some(autoscale) = params.autoscale {
        policy = policy.autoscaling(autoscale);
    }
    policy
        .compose(base)
        .build()
        .expect(ONCE)
        .awaiting_growth(grows)
}

fn read(p: &Params) -> Result<PolluxParams, RegistryError> {
    Ok(PolluxParams {
        search: PolluxSettings {
            power: not_zero(p, &POWER)?,
            population: p.whole(POPULATION.name, 2..=10_000)? as usize,
            generations: p.u64(GENERATIONS.name)? as usize,
            patience: p.u64(PATIENCE.name)? as usize,
        },
        round: seconds(p, &ROUND)?,
        autoscale: None,
    })
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "pollux",
        "genetic search for the allocation with the best mean speed-up",
        &PARAMETERS,
        |p, _| Ok(pollux_with(read(p)?)),
    );
}
