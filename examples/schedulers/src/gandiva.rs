use blox::core::{Composition, Pipeline};
use blox::policies::placement::{Migrating, NodeSets, Resizing};
use blox::policies::scheduling::Gandiva;
use blox::schedulers::parameters::*;

const PARAMETERS: [ParamDoc; 3] = [
    param("slice_s", "60", "seconds of a slice and round"),
    param("packing", "true", "two jobs may run on the same GPUs"),
    param("growing", "true", "jobs grow onto idle GPUs"),
];

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
    composed(&Params::of(&PARAMETERS)).expect("the defaults are valid")
}

fn composed(p: &Params) -> Result<Pipeline, RegistryError> {
    let slice = p.seconds("slice_s")?;
    let policy = Gandiva::new(slice)
        .packing(p.bool("packing")?)
        .growing(p.bool("growing")?);
    let composition = Composition::new("gandiva")
        .in_rounds(slice)
        .scheduling(policy)
        .placement(Migrating::new(Resizing::new(NodeSets)));
    Ok(composition.build()?)
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "gandiva",
        "time slices, packing, migration, growing and shrinking",
        &PARAMETERS,
        |p, _| composed(p),
    );
}
