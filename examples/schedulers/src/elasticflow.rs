use crate::registry::params::{flag, param, seconds};
use crate::{DEFAULTS, ONCE};
use blox_core::registry::{ParamDoc, Params, Registry, RegistryError};
use blox_core::{Composition, Pipeline, Seconds};
use blox_policies::{placement::Buddy, scheduling::ElasticFlow};

pub(crate) const SLOT: ParamDoc = param("slot_s", "60", "seconds of a slot and round");
const EXPAND: ParamDoc = param(
    "expand",
    "true",
    "give left-over GPUs to jobs that already meet their deadline",
);
const PARAMETERS: [ParamDoc; 2] = [SLOT, EXPAND];

/// ElasticFlow (ASPLOS 2023): deadlines guaranteed for elastic jobs.
///
/// **Rule.** Time is divided into slots. A job is admitted only if it and all jobs admitted before
/// can end by their deadlines. Each job gets the smallest number of GPUs that suffices (minimum
/// satisfactory share, progressive filling). The remaining GPUs go to jobs level by level, first to
/// the job whose GPU time rises least per GPU. Jobs grow and shrink only to GPU counts of their
/// profile ([`Extras::levels`](blox_core::Extras::levels) with
/// [`rates`](blox_core::Extras::rates)); a job without a profile is rigid. Best-effort jobs and
/// jobs without deadline run on the remaining GPUs. Placement is [`Buddy`]: powers of two, with
/// migration.
///
/// **Guarantee.** Without overheads and failures, no admitted job misses its deadline. If these
/// cost time, the results count missed deadlines.
///
/// **Parameters** (command line): `slot_s`, the length of a slot and of a round; `expand`, whether
/// remaining GPUs go to jobs that need no more.
///
/// **Verified.** The guarantee, on random workloads. The released program is
/// `blox_released::elasticflow::Algorithm::ElasticFlow`. It equals the original per job on all
/// golden runs, including Figure 8(a) with 142 of 195 deadlines. It differs from this scheduler:
///
/// - it fills backwards;
/// - it gives remaining GPUs first to the jobs whose GPU time rises most;
/// - it decides on all arrivals of a slot together;
/// - one late job blocks admission.
pub fn elasticflow() -> Pipeline {
    elasticflow_with(ElasticFlowParams::default())
}

/// Configuration of [`elasticflow`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ElasticFlowParams {
    /// Length of a slot and of a round, above 0.
    pub slot: Seconds,
    /// True if remaining GPUs go to jobs that need no more to end in time.
    pub expand: bool,
}

impl Default for ElasticFlowParams {
    fn default() -> Self {
        read(&Params::of(&PARAMETERS)).expect(DEFAULTS)
    }
}

/// Returns [`elasticflow`] with other parameters.
pub fn elasticflow_with(params: ElasticFlowParams) -> Pipeline {
    let policy = ElasticFlow::new(params.slot).expanding(params.expand);
    in_slots("elasticflow", policy, params.slot)
}

/// Builds a deadline scheduler that decides on every multiple of its slot.
pub(super) fn in_slots(name: &str, policy: ElasticFlow, slot: Seconds) -> Pipeline {
    Composition::new(name)
        .in_rounds(slot)
        .joint(policy, |roles| roles.admission().scheduling())
        .placement(Buddy)
        .build()
        .expect(ONCE)
}

fn read(p: &Params) -> Result<ElasticFlowParams, RegistryError> {
    Ok(ElasticFlowParams {
        slot: seconds(p, &SLOT)?,
        expand: flag(p, &EXPAND)?,
    })
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "elasticflow",
        "deadlines guaranteed at admission, elastic GPU counts",
        &PARAMETERS,
        |p, _| Ok(elasticflow_with(read(p)?)),
    );
}
