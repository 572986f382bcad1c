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
/// **Rule.** While all jobs fit they run; when there are more, they take turns: in
/// every round the jobs that had the fewest turns run, as many as fit. A job whose turn it is
/// not runs beside one of the same size if both leave enough of their GPUs idle
/// (`gpu_utilisation` among the attributes of a job; a job that does not say leaves nothing). A pair that
/// does too little together is parted. Jobs with a profile grow onto GPUs that nobody wants and shrink
/// to what they asked for when somebody does. Jobs of one size go to the same nodes, and a job
/// on several nodes moves to one when one has room.
///
/// **Parameters** (command line): `slice_s`, the length of a slice and of a round
/// (default 60); `packing` and `growing` (default `true`).
///
/// **Verified.** By tests of each mechanism. ElasticFlow's released baseline, which keeps a set of nodes a
/// job size, moves nodes between them by demand and does not pack by use, is
/// `blox_released::elasticflow::Algorithm::Gandiva`; it equals the original per job on all
/// golden runs.
pub fn gandiva() -> Pipeline {
    gandiva_with(GandivaParams::default())
}

/// What can be chosen about [`gandiva`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GandivaParams {
    /// The length of a slice and of a round, above 0.
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

/// [`gandiva`] with other parameters.
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

/// Its entry in the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "gandiva",
        "time slices in turn, packing, migration, growing and shrinking",
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
