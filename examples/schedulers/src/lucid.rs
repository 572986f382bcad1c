use crate::registry::params::{
    ESTIMATOR, MODEL, ORIGIN, SIGMA, above_zero, belief, from_zero, param, seconds, share,
};
use crate::{DEFAULTS, ONCE};
use blox_core::estimate::{Estimator, Oracle};
use blox_core::registry::{ParamDoc, Params, Registry, RegistryError};
use blox_core::{Composition, Pipeline, Seconds};
use blox_perf::PairTable;
use blox_policies::scheduling::{Lucid, LucidSettings};

const NODES: ParamDoc = param(
    "profiler_nodes",
    "2",
    "reserved nodes, at most a quarter of all; 0 disables profiling",
);
const LIMIT: ParamDoc = param("limit_s", "200", "most seconds of profiling");
const LARGEST: ParamDoc = param("profiled_gpus", "8", "most GPUs of a job that is profiled");
const SCORES: ParamDoc = param(
    "scores",
    "2",
    "largest sum of two sharing scores; -1 disables packing",
);
const MEMORY: ParamDoc = param("memory_mib", "24576", "memory of a GPU in MiB");
const SPEED: ParamDoc = param(
    "least_speed",
    "0.7",
    "a pair is separated below this fraction of its speed alone",
);
const PARAMETERS: [ParamDoc; 10] = [
    ESTIMATOR, SIGMA, MODEL, ORIGIN, NODES, LIMIT, LARGEST, SCORES, MEMORY, SPEED,
];

/// Configuration of [`lucid`].
#[derive(Clone, Debug, PartialEq)]
pub struct LucidParams {
    /// Settings of profiling and packing.
    pub settings: LucidSettings,
    /// Measured speeds of colocated jobs.
    pub pairs: PairTable,
}

impl Default for LucidParams {
    fn default() -> Self {
        read(&Params::of(&PARAMETERS)).expect(DEFAULTS)
    }
}

/// Lucid (ASPLOS 2023): non-intrusive profiling, packing, and order by estimates.
///
/// **Rule.** New jobs of up to 8 GPUs first run on reserved nodes for at most 200 s, smallest jobs
/// first; many end there. The other jobs then wait in order of estimated duration times GPUs. A job
/// that does not fit does not block later jobs. A job may share GPUs with a running job of the same
/// size if their sharing scores allow it. At most two jobs share a GPU. Pairs that turn out to be
/// slow are separated. See [`Lucid`] for all rules.
///
/// Scores and memory are the job attributes `sharing_score` and `gmem`. The reader of Helios logs
/// and `blox estimate` set them. In a simulation, [`blox_sim::execution::Shared`] slows packed jobs
/// down.
///
/// **Parameters** (command line): `estimator` and its parameters (see [`crate::schedulers::qssf`]),
/// `profiler_nodes` (2), `limit_s` (200), `profiled_gpus` (8), `scores` (2; -1 disables packing),
/// `memory_mib` of a GPU (24576), `least_speed` (0.7).
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
/// - In the simulator, ended jobs are found a second late, and pairs are never separated.
///
/// `blox reproduce lucid-quirks` shows the cost of each difference.
pub fn lucid() -> Pipeline {
    lucid_with(LucidParams::default(), Oracle)
}

/// Returns [`lucid`] with other parameters and another estimator.
pub fn lucid_with(params: LucidParams, estimator: impl Estimator) -> Pipeline {
    let policy = Lucid::with(params.settings, estimator, params.pairs);
    Composition::new("lucid")
        .in_rounds(Seconds::new(60.0))
        .joint(policy, |roles| roles.scheduling().placement())
        .build()
        .expect(ONCE)
}

fn read(p: &Params) -> Result<LucidParams, RegistryError> {
    let scores = "a number of at least 0, or -1";
    let fits = |x| x >= 0.0 || x == -1.0;
    let settings = LucidSettings {
        profiler_nodes: from_zero(p, &NODES)? as u32,
        limit: seconds(p, &LIMIT)?,
        profiled_gpus: from_zero(p, &LARGEST)? as u32,
        scores: p.number(SCORES.name, scores, fits)?,
        memory_mib: above_zero(p, &MEMORY)?,
        least_speed: share(p, &SPEED)?,
        ..LucidSettings::default()
    };
    let pairs = PairTable::default();
    Ok(LucidParams { settings, pairs })
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
