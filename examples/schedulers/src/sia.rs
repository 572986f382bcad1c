use crate::registry::params::{at_least, not_zero, numeric, param, seconds};
use crate::{DEFAULTS, ONCE};
use blox_core::registry::{ParamDoc, Params, Registry, RegistryError};
use blox_core::{Composition, Pipeline, Seconds};
use blox_policies::{
    placement::KeepNodes,
    scheduling::{Sia, sia::Goodputs},
};

const POWER: ParamDoc = numeric(
    "power",
    Goodputs::DEFAULT.power,
    "power p of the fairness objective, not 0",
);
const LAMBDA: ParamDoc = numeric(
    "lambda",
    Goodputs::DEFAULT.lambda,
    "penalty lambda for a job without GPUs, at least 0",
);
const ROUND: ParamDoc = param("round_s", "60", "seconds of a round");
const PARAMETERS: [ParamDoc; 3] = [POWER, LAMBDA, ROUND];

/// Configuration of [`sia`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SiaParams {
    /// Fairness power. If it is below 0, worse-off jobs count more.
    pub power: f64,
    /// Cost of leaving a job out.
    pub lambda: f64,
    /// Length of a round, above 0.
    pub round: Seconds,
}

impl Default for SiaParams {
    fn default() -> Self {
        read(&Params::of(&PARAMETERS)).expect(DEFAULTS)
    }
}

/// The best assignment of training jobs to GPU types and numbers, in rounds (Sia, SOSP 2023).
///
/// **Rule.** A configuration is a GPU type and a number of GPUs: powers of two within a node, whole
/// nodes beyond. The value of a configuration for a job is its reported goodput there; it is lower
/// if the job would have to restart. An integer program chooses the configurations with the best
/// sum of values to a power. Jobs tune their batch sizes themselves. See
/// [`Sia`](blox_policies::scheduling::Sia) and [`KeepNodes`] for the components.
///
/// **Parameters** (command line): `power`, `lambda`, `round_s`.
///
/// **Jobs** that train need a [`TrainingSpec`](blox_core::TrainingSpec), as in workloads of the
/// format `sia`. Other jobs run on their requested number of GPUs, of any one type.
///
/// **Verified.** The program that its authors released is `blox_released::sia`. It equals the
/// original per job where the original's choice among equally good assignments is known.
pub fn sia() -> Pipeline {
    sia_with(SiaParams::default())
}

/// Returns [`sia`] with other settings.
pub fn sia_with(params: SiaParams) -> Pipeline {
    Composition::new("sia")
        .in_rounds(params.round)
        .scheduling(Sia::new(Goodputs {
            power: params.power,
            lambda: params.lambda,
        }))
        .placement(KeepNodes)
        .build()
        .expect(ONCE)
}

fn read(p: &Params) -> Result<SiaParams, RegistryError> {
    Ok(SiaParams {
        power: not_zero(p, &POWER)?,
        lambda: at_least(p, &LAMBDA, 0.0)?,
        round: seconds(p, &ROUND)?,
    })
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "sia",
        "best assignment of training jobs to GPU types and counts, by an integer program",
        &PARAMETERS,
        |p, _| Ok(sia_with(read(p)?)),
    );
}
