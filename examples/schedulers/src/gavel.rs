use crate::registry::params::{at_least, default, param, seconds};
use crate::registry::shares::{
    ALPHA, BESIDE, POLICY, PRICES, SPEEDS, beside, knowledge, prices, share_policy,
};
use crate::{DEFAULTS, ONCE};
use blox_core::registry::{ParamDoc, Params, Registry, RegistryError};
use blox_core::{Composition, DecisionTrigger, Name, Pipeline, Rounds, Seconds};
use blox_policies::placement::{Consolidated, Leases};
use blox_policies::scheduling::gavel::Gavel;
use blox_policies::scheduling::gavel::shares::{GavelPolicy, Knows};

const ROUND: ParamDoc = param("round_s", "360", "seconds of a round");
const GAP: ParamDoc = param(
    "gap_s",
    "0",
    "least seconds between two allocations; 0 for an allocation after each change",
);
const PARAMETERS: [ParamDoc; 7] = [POLICY, SPEEDS, ROUND, GAP, PRICES, BESIDE, ALPHA];

/// Configuration of [`gavel`].
#[derive(Clone, Debug, PartialEq)]
pub struct GavelParams {
    /// Share policy.
    pub policy: GavelPolicy,
    /// Knowledge of speeds; with [`Knows::Pairs`], jobs share GPUs.
    pub knows: Knows,
    /// Length of a round.
    pub round: Rounds,
    /// Minimum time between two allocations; 0 if every change counts.
    pub gap: Seconds,
    /// Cost of a GPU type per hour; 1 for a type that is not listed.
    pub prices: Vec<(Name, f64)>,
    /// Assumed fraction of its speed, from 0 to 1, that a job keeps in a pair without known speeds.
    /// Requires [`Knows::Pairs`]. The fraction is then learned from measurements
    /// ([`Gavel::learning_pairs`]). With `None`, such jobs do not share GPUs.
    pub beside: Option<f64>,
}

impl Default for GavelParams {
    fn default() -> Self {
        read(&Params::of(&PARAMETERS)).expect(DEFAULTS)
    }
}

/// Gavel (Narayanan et al., OSDI 2020): max-min fairness over GPU types.
///
/// **Rule.** A linear program computes the fraction of its time that each job should spend on each
/// GPU type. It maximizes the level of the worst-off job. The level is relative to the throughput
/// on all types in proportion to their numbers. In each round, the jobs that are furthest behind
/// their share run. All GPUs of a job run at once and are of one type. A job that stays on its type
/// keeps its GPUs. The program is solved again when jobs, speeds or the cluster changed. See
/// [`Gavel`] for the rounds, and [`GavelPolicy`] for Gavel's other policies.
///
/// Jobs state their speed on each type ([`Extras::speeds`](blox_core::Extras::speeds)); jobs of
/// `--format gavel` do. A job without speeds is equally fast on all types.
///
/// **Ties.** Optimal shares are seldom unique: a job that is not the worst off can gain in many
/// ways. This scheduler takes the center of the set of optima, where the interior-point method
/// ends. No job is pushed to an extreme without need, and every job that could gain does gain. The
/// result is the same on every machine.
///
/// **Parameters** (command line): `policy`, the share policy; `speeds` = `types`, `pairs` or
/// `nothing`; `round_s`; `gap_s`, the least time between two allocations (with 0, every change
/// counts); `prices`, the price of an hour on each type for the policies that count cost, such as
/// `v100:2.48+k80:0.45`; `alpha`, of `policy=allox`. With `speeds=pairs`, `beside` is the fraction
/// of its speed that a job is assumed to keep in a pair without known speeds. It is learned from
/// then on. With `apart`, such jobs do not share GPUs.
///
/// **Verified.** The rounds equal recorded allocations of the released program per job and round.
/// The policies equal it per job if the optimum is unique. Otherwise the objective of every
/// allocation agrees to one part in a million. `blox_released::gavel` lists the differences of the
/// released program.
pub fn gavel() -> Pipeline {
    gavel_with(GavelParams::default())
}

/// Returns [`gavel`] with another policy or other parameters.
pub fn gavel_with(params: GavelParams) -> Pipeline {
    let round = params.round.period();
    let mut policy = Gavel::any(params.policy.shares(params.knows))
        .at_most_every(params.gap)
        .in_rounds_of(round.unwrap_or(Seconds::new(default(&ROUND))));
    for (gpu_type, price) in params.prices {
        policy = policy.price(gpu_type, price);
    }
    if let Some(believed) = params.beside {
        policy = policy.learning_pairs(believed);
    }
    Composition::new("gavel")
        .trigger(params.round)
        .scheduling(policy)
        .placement(Leases::new(Consolidated::default()))
        .build()
        .expect(ONCE)
}

fn read(p: &Params) -> Result<GavelParams, RegistryError> {
    let (policy, knows) = (share_policy(p)?, knowledge(p)?);
    Ok(GavelParams {
        policy,
        knows,
        round: Rounds::every(seconds(p, &ROUND)?).unwrap_or_default(),
        gap: Seconds::new(at_least(p, &GAP, 0.0)?),
        prices: prices(p, policy)?,
        beside: beside(p, knows)?,
    })
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "gavel",
        "optimized time shares over GPU types, realized in rounds",
        &PARAMETERS,
        |p, _| Ok(gavel_with(read(p)?)),
    );
}
