use crate::registry::params::{flag, param, seconds};
use crate::{DEFAULTS, ONCE};
use blox_core::registry::{ParamDoc, Params, Registry, RegistryError};
use blox_core::{Composition, Pipeline, Seconds};
use blox_policies::{
    placement::{Migrating, NodeSets, Resizing},
    scheduling::Gandiva,
};

const SLICE: ParamDoc = param("slice_s", "60", "seconds of a slice and round");
const PACKING: ParamDoc = param("packing", "true", "two jobs may run on the same GPUs");
const GROWING: ParamDoc = param("growing", "true", "jobs grow onto idle GPUs");
const PARAMETERS: [ParamDoc; 3] = [SLICE, PACKING, GROWING];

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
/// **Parameters** (command line): `slice_s`, the length of a slice and of a round; `packing` and
/// `growing`, which can be turned off.
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
        read(&Params::of(&PARAMETERS)).expect(DEFAULTS)
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

fn read(p: &Params) -> Result<GandivaParams, RegistryError> {
    Ok(GandivaParams {
        slice: seconds(p, &SLICE)?,
        packing: flag(p, &PACKING)?,
        growing: flag(p, &GROWING)?,
    })
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "gandiva",
        "time slices, packing, migration, growing and shrinking",
        &PARAMETERS,
        |p, _| Ok(gandiva_with(read(p)?)),
    );
}
