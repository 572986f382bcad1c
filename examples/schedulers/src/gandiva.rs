use crate::ONCE;
use crate::registry::params::{default, flag, is_set, param, seconds};
use blox_core::registry::ParamDoc;
use blox_core::registry::Registry;
use blox_core::{Composition, Pipeline, Seconds};
use blox_policies::{
    placement::{Migrating, NodeSets, Resizing},
    scheduling::Gandiva,
};

const SLICE: ParamDoc = param("slice_s", "60", "seconds of a slice and round");
const PACKING: ParamDoc = param("packing", "true", "two jobs may run on the same GPUs");
const GROWING: ParamDoc = param("growing", "true", "jobs grow onto idle GPUs");

/// Time slices, packing, migration, growing and shrinking (Gandiva, OSDI 2018).
///
/// **Rule.** If all jobs fit, they run. Otherwise they take turns: each round runs the jobs that
/// had the fewest turns, as long as they fit. A job without a turn may share the GPUs of a job of
/// the same size, if both leave enough of their GPUs idle. The attribute `gpu_utilisation` of a job
/// states its use; a job without it leaves nothing idle. A pair that does too little work together
/// is separated. Jobs with a profile grow onto idle GPUs, and shrink to their request when other
/// jobs need the GPUs. Jobs of one size go to the same nodes. A job on several nodes moves to one
/// node when one has room.
///
/// **Parameters** (command line): `slice_s`, the length of a slice and of a round (default 60);
/// `packing` and `growing` (default `true`).
///
/// **Verified.** By tests of each mechanism. ElasticFlow's released baseline is
/// `blox_released::elasticflow::Algorithm::Gandiva`; it equals the original per job on all golden
/// runs. It keeps a set of nodes for each job size, moves nodes between these sets by demand, and
/// does not pack by utilisation.
pub fn gandiva() -> Pipeline {
    gandiva_with(GandivaParams::default())
}

/// Configuration of [`gandiva`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GandivaParams {
    /// Length of a slice and of a round, above 0.
    pub slice: Seconds,
    /// True if two jobs may run on the same GPUs.
    pub packing: bool,
    /// True if jobs grow onto idle GPUs.
    pub growing: bool,
}

impl Default for GandivaParams {
    fn default() -> Self {
        GandivaParams {
            slice: Seconds::new(default(&SLICE)),
            packing: is_set(&PACKING),
            growing: is_set(&GROWING),
        }
    }
}

/// Returns [`gandiva`] with other parameters.
pub fn gandiva_with(params: GandivaParams) -> Pipeline {
    let base = Composition::new("gandiva").in_rounds(params.slice);
    let policy = Gandiva::new(params.slice)
        .packing(params.packing)
        .growing(params.growing);
    base.scheduling(policy)
        .placement(Migrating::new(Resizing::new(NodeSets)))
        .build()
        .expect(ONCE)
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "gandiva",
        "time slices, packing, migration, growing and shrinking",
        &[SLICE, PACKING, GROWING],
        |p, _| {
            Ok(gandiva_with(GandivaParams {
                slice: seconds(p, &SLICE)?,
                packing: flag(p, &PACKING)?,
                growing: flag(p, &GROWING)?,
            }))
        },
    );
}
