use crate::ONCE;
use crate::registry::params::{default, not_zero, param, seconds};
use blox_core::registry::ParamDoc;
use blox_core::registry::Registry;
use blox_core::{Composition, Pipeline, Seconds};
use blox_policies::scheduling::{Autoscale, Pollux, PolluxSettings};

const POWER: ParamDoc = param("power", "-1", "power p of the fairness objective, not 0");
const POPULATION: ParamDoc = param(
    "population",
    "100",
    "allocations of a generation, from 2 to 10000",
);
const GENERATIONS: ParamDoc = param("generations", "100", "most generations of a round");
const PATIENCE: ParamDoc = param(
    "patience",
    "20",
    "generations without improvement that end the search",
);
const ROUND: ParamDoc = param("round_s", "60", "seconds of a round");

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
    /// Uses the default search settings, rounds of 60 s and a fixed cluster.
    fn default() -> Self {
        PolluxParams {
            search: PolluxSettings::default(),
            round: Seconds::new(default(&ROUND)),
            autoscale: None,
        }
    }
}

/// A genetic search for the allocation with the best fitness (Pollux, OSDI 2021).
///
/// **Rule.** A job's speedup is its goodput on an allocation, divided by its goodput on its fair
/// share. It is lower if the job would have to restart. The fitness of an allocation is the
/// harmonic mean of speedups. Two jobs that span nodes never share a node. Jobs tune their batch
/// sizes themselves. See [`Pollux`](blox_policies::scheduling::Pollux).
///
/// **Parameters** (command line): `power` (default -1), `population` (100), `generations` (100),
/// `patience` (20 generations without improvement), `round_s` (60), and the seed.
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

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "pollux",
        "genetic search for the allocation with the best mean speed-up",
        &[POWER, POPULATION, GENERATIONS, PATIENCE, ROUND],
        |p, _| {
            let population = p.whole(POPULATION.name, 2..=10_000)?;
            let count = |doc: &ParamDoc| p.u64(doc.name);
            Ok(pollux_with(PolluxParams {
                search: PolluxSettings {
                    power: not_zero(p, &POWER)?,
                    population: population as usize,
                    generations: count(&GENERATIONS)? as usize,
                    patience: count(&PATIENCE)? as usize,
                },
                round: seconds(p, &ROUND)?,
                autoscale: None,
            }))
        },
    );
}
