use crate::registry::params::{
    ESTIMATOR, MODEL, ORIGIN, SIGMA, above_zero, belief, from_zero, numeric, seconds,
};
use crate::{DEFAULTS, ONCE};
use blox_core::estimate::{Estimator, Oracle};
use blox_core::registry::{ParamDoc, Params, Registry, RegistryError};
use blox_core::{Composition, Pipeline, Seconds};
use blox_policies::placement::PackingLimits;
use blox_policies::scheduling::{Lucid, LucidSettings};

const SETTINGS: LucidSettings = LucidSettings::DEFAULT;
const NODES: ParamDoc = numeric(
    "profiler_nodes",
    SETTINGS.profiler_nodes as f64,
    "reserved nodes, at most a quarter of all; 0 disables profiling",
);
const LIMIT: ParamDoc = numeric(
    "limit_s",
    SETTINGS.limit.secs(),
    "most seconds of profiling",
);
const LARGEST: ParamDoc = numeric(
    "profiled_gpus",
    SETTINGS.profiled_gpus as f64,
    "most GPUs of a job that is profiled",
);
const SCORES: ParamDoc = numeric(
    "scores",
    SETTINGS.packing.scores,
    "largest sum of two sharing scores; -1 disables packing",
);
const MEMORY: ParamDoc = numeric(
    "memory_mib",
    SETTINGS.packing.memory_mib,
    "memory of a GPU in MiB",
);
const PARAMETERS: [ParamDoc; 9] = [
    ESTIMATOR, SIGMA, MODEL, ORIGIN, NODES, LIMIT, LARGEST, SCORES, MEMORY,
];

/// Lucid (ASPLOS 2023): non-intrusive profiling, packing, and order by estimates.
///
/// **Rule.** New jobs of few GPUs first run on reserved nodes for at most `limit_s`, smallest jobs
/// first; many end there. The other jobs then wait in order of estimated duration times GPUs. A job
/// that does not fit does not block later jobs. A job may share GPUs with a running job of the same
/// size on one node if their sharing scores allow it. At most two jobs share a GPU. Apart from the
/// profiler, no job is stopped. See [`Lucid`] for all rules.
///
/// Scores and memory are the job attributes `sharing_score` and `gmem`. The reader of Helios logs
/// and `blox estimate` set them. In a simulation, [`blox_sim::execution::Shared`] slows packed jobs
/// down.
///
/// **Parameters** (command line): `estimator` and its parameters (see [`crate::schedulers::qssf`]),
/// `profiler_nodes`, `limit_s`, `profiled_gpus`, `scores` (-1 disables packing), `memory_mib` of a
/// GPU.
///
/// **Not done.** Packing is not reduced while few jobs come (section 3.3): the paper leaves the load
/// and the forecast to the operator. Partners are running jobs only, as in the released program.
///
/// **Verified.** The released simulator is `blox_released::lucid`; it equals the original per job
/// on all golden runs. This scheduler follows the paper in these points:
///
/// - In the simulator, profiling is free: a profiled job is in its virtual cluster with all its
///   work left. No plan can express that. So the comparison runs profiler and virtual clusters as
///   two simulations, one after the other. Here, a job leaves the profiler before it runs
///   elsewhere, and its work there counts.
/// - In the simulator, a job whose partner ends first keeps the speed of the pair until its end.
///   The reason is a search for the partner that compares a number with a job. Here, the job is
///   alone again.
/// - In the simulator, ended jobs are found a second late.
///
/// `blox reproduce lucid-quirks` shows the cost of each difference.
pub fn lucid() -> Pipeline {
    lucid_with(read(&Params::of(&PARAMETERS)).expect(DEFAULTS), Oracle)
}

/// Returns [`lucid`] with other parameters and another estimator.
pub fn lucid_with(settings: LucidSettings, estimator: impl Estimator) -> Pipeline {
    let policy = Lucid::with(settings, estimator);
    Composition::new("lucid")
        .in_rounds(Seconds::new(60.0))
        .joint(policy, |roles| roles.scheduling().placement())
        .build()
        .expect(ONCE)
}

fn read(p: &Params) -> Result<LucidSettings, RegistryError> {
    let scores = "a number of at least 0, or -1";
    let fits = |x| x >= 0.0 || x == -1.0;
    let packing = PackingLimits {
        scores: p.number(SCORES.name, scores, fits)?,
        memory_mib: above_zero(p, &MEMORY)?,
        ..SETTINGS.packing
    };
    Ok(LucidSettings {
        profiler_nodes: from_zero(p, &NODES)? as u32,
        limit: seconds(p, &LIMIT)?,
        profiled_gpus: from_zero(p, &LARGEST)? as u32,
        packing,
        ..SETTINGS
    })
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "lucid",
        "profiling on reserved nodes, packing of two jobs by scores, least estimated service first",
        &PARAMETERS,
        |p, seed| Ok(lucid_with(read(p)?, belief(p, seed)?)),
    );
}
