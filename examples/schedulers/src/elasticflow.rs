use crate::ONCE;
use crate::registry::params::{default, flag, is_set, param, seconds};
use blox_core::registry::ParamDoc;
use blox_core::registry::Registry;
use blox_core::{Composition, Pipeline, Seconds};
use blox_policies::{placement::Buddy, scheduling::ElasticFlow};

pub(crate) const SLOT: ParamDoc = param("slot_s", "60", "seconds of a slot and round");
const EXPAND: ParamDoc = param(
    "expand",
    "true",
    "left-over GPUs go to jobs that need no more",
);

/// ElasticFlow (ASPLOS 2023): deadlines guaranteed for elastic jobs.
///
/// **Rule.** Time is divided into slots. A job is admitted only if it and all
/// that were admitted before can end by their deadlines, each with the smallest
/// number of GPUs that does (minimum satisfactory share, progressive filling).
/// GPUs left over go to jobs level by level, first where that raises the job's GPU
/// time least for each GPU. Jobs grow and shrink only to GPU counts that their
/// profile has ([`Extras::levels`](blox_core::Extras::levels) with
/// [`rates`](blox_core::Extras::rates)); a job without a profile is rigid. Best-effort
/// jobs, and jobs without deadline, run on what is left over. Placement is
/// [`Buddy`]: powers of two, with migration.
///
/// **Guarantee.** Without overheads and failures no admitted job misses its
/// deadline. Where they cost time, misses are counted in the results.
///
/// **Parameters** (command line): `slot_s`, the length of a slot and of a round
/// (default 60); `expand`, whether left-over GPUs go to jobs that need no more
/// (default `true`).
///
/// **Verified.** The guarantee, on random workloads. The released program, which
/// differs (it fills backwards, gives left-over GPUs first to those whose GPU
/// time rises most, judges arrivals of a slot together, and lets one late job
/// block admission), is `blox_released::elasticflow::Algorithm::ElasticFlow`; it equals the
/// original per job on all golden runs, 142 of 195 deadlines of Figure 8(a)
/// among them.
pub fn elasticflow() -> Pipeline {
    elasticflow_with(ElasticFlowParams::default())
}

/// What can be chosen about [`elasticflow`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ElasticFlowParams {
    /// The length of a slot and of a round, above 0.
    pub slot: Seconds,
    /// True if left-over GPUs go to jobs that need no more to end in time.
    pub expand: bool,
}

impl Default for ElasticFlowParams {
    fn default() -> Self {
        ElasticFlowParams {
            slot: Seconds::new(default(&SLOT)),
            expand: is_set(&EXPAND),
        }
    }
}

/// [`elasticflow`] with other parameters.
pub fn elasticflow_with(params: ElasticFlowParams) -> Pipeline {
    let policy = ElasticFlow::new(params.slot).expanding(params.expand);
    in_slots("elasticflow", policy, params.slot)
}

/// A scheduler of deadlines with a decision on every multiple of its slot.
pub(super) fn in_slots(name: &str, policy: ElasticFlow, slot: Seconds) -> Pipeline {
    Composition::new(name)
        .in_rounds(slot)
        .joint(policy, |roles| roles.admission().scheduling())
        .placement(Buddy)
        .build()
        .expect(ONCE)
}

/// Its entry in the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "elasticflow",
        "deadlines guaranteed at admission, GPU counts that follow",
        &[SLOT, EXPAND],
        |p, _| {
            Ok(elasticflow_with(ElasticFlowParams {
                slot: seconds(p, &SLOT)?,
                expand: flag(p, &EXPAND)?,
            }))
        },
    );
}
