use blox::core::{Composition, Pipeline};
use blox::policies::placement::{Migrating, NodeSets, Resizing, Resuming};
use blox::policies::scheduling::Gandiva;
use blox::schedulers::parameters::*;

const PARAMETERS: [ParamDoc; 4] = [
    param("slice_s", "60", "seconds of a slice and round"),
    param("packing", "true", "two jobs may run on the same GPUs"),
    param("growing", "true", "jobs grow onto idle GPUs"),
    param("memory_mib", "24576", "memory of a GPU in MiB"),
];

/// Time slices, packing, migration, growing and shrinking (Gandiva, OSDI 2018).
///
/// **Rule.** If all jobs fit, they run. Otherwise they take turns: each round runs the jobs that
/// had the fewest turns, as long as they fit. A job resumes on the GPUs that it had last; a new job
/// waits for GPUs of the node with the least load. A job takes GPUs elsewhere only if nothing else
/// runs there, or if it is 30 turns behind another. A turn is a slice, or 50 times as long as the
/// launches of the turn took, with the checkpoints before them. After a slice alone, a job without a turn may share the
/// GPUs of a job of the same size. Both must leave enough of their GPUs idle, and fit the memory.
/// Jobs with the lowest use come first. The attribute `gpu_utilisation` of a job states its use; a job
/// without it leaves nothing idle. The attribute `gmem` states its memory in MiB; a job without it
/// counts as small. A pair that does too little work together is separated. Jobs with a profile grow
/// onto idle GPUs of their node, a level each slice, and shrink to their request when other jobs
/// need the GPUs. Jobs of one size go to the same nodes, the least loaded one first. A job on several
/// nodes moves to one node when one has room, together with its partner. Jobs leave nodes of which three of four GPUs are idle.
///
/// **Parameters** (command line): `slice_s`, the length of a slice and of a round; `packing` and
/// `growing`, which can be turned off; `memory_mib` of a GPU.
///
/// **Differences from the paper.** Turns are counted over the whole cluster, so the jobs of a server
/// with more jobs move to servers with fewer. In the paper, jobs take turns on their server. Only jobs whose uses add up to at most 1 share GPUs; the paper tries every pair. Priorities
/// and weights are not considered.
///
/// **Verified.** Tests; cases of ElasticFlow's baseline. By tests of each mechanism. ElasticFlow's
/// released baseline is `blox_released::elasticflow::Algorithm::Gandiva`; it equals the original
/// per job on all golden runs. It keeps a set of nodes for each job size, moves nodes between these
/// sets by demand, and does not pack by utilisation.
///
/// **Claims.** All 6 claims of the paper hold here: `blox policies gandiva`.
pub fn gandiva() -> Pipeline {
    composed(&Params::of(&PARAMETERS)).expect("the defaults are valid")
}

fn composed(p: &Params) -> Result<Pipeline, RegistryError> {
    let slice = p.seconds("slice_s")?;
    let policy = Gandiva::new(slice)
        .packing(p.bool("packing")?)
        .growing(p.bool("growing")?)
        .memory_mib(above_zero(p, "memory_mib")?);
    let composition = Composition::new("gandiva")
        .in_rounds(slice)
        .scheduling(policy)
        .placement(Migrating::new(Resuming::new(Resizing::new(NodeSets))));
    Ok(composition.build()?)
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers
        .add(
            "gandiva",
            "time slices, packing, migration, growing and shrinking",
            &PARAMETERS,
            |p, _| composed(p),
        )
        .with_job_data(UTILISATION);
}
