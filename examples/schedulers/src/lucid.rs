use blox::core::estimate::{Estimator, Oracle};
use blox::core::{Composition, Pipeline, Seconds};
use blox::policies::placement::{PackingLimits, Profiling, ProfilingSettings};
use blox::policies::scheduling::Qssf;
use blox::schedulers::parameters::*;
use std::sync::Arc;

const SETTINGS: ProfilingSettings = ProfilingSettings::DEFAULT;
const LIMITS: PackingLimits = PackingLimits::DEFAULT;
const PARAMETERS: [ParamDoc; 9] = [
    ESTIMATOR,
    SIGMA,
    MODEL,
    ORIGIN,
    numeric(
        "profiler_nodes",
        SETTINGS.nodes as f64,
        "reserved nodes, at most a quarter of all; 0 disables profiling",
    ),
    numeric(
        "limit_s",
        SETTINGS.limit.secs(),
        "most seconds of profiling",
    ),
    numeric(
        "profiled_gpus",
        SETTINGS.gpus as f64,
        "most GPUs of a job that is profiled",
    ),
    numeric(
        "scores",
        LIMITS.scores,
        "largest sum of two sharing scores; -1 disables packing",
    ),
    numeric("memory_mib", LIMITS.memory_mib, "memory of a GPU in MiB"),
];

/// Non-intrusive profiling, packing, and order by estimates (Lucid, ASPLOS 2023).
///
/// **Rule.** New jobs of few GPUs first run on reserved nodes for at most `limit_s`, smallest jobs
/// first; many end there. The other jobs then wait in order of estimated duration times GPUs. A job
/// that does not fit does not block later jobs. A job may share GPUs with a running job of the same
/// size on one node if their sharing scores allow it. At most two jobs share a GPU. Apart from the
/// profiler, no job is stopped. The parts are the order of [`qssf`](blox::schedulers::qssf) and the
/// placement [`Profiling`], which has all rules.
///
/// A score is the job attribute `sharing_score`, or follows from the profile of the job by the
/// paper's decision tree. The profile has the attributes `gpu_util`, `gmem`, `gmem_util` and `amp`,
/// as in Lucid's log in the format of Helios (`blox::perf::sharing_score`). Memory is `gmem`. A
/// job without a score or without `gmem` is never packed. In a simulation,
/// [`blox::sim::execution::Shared`] slows packed jobs down.
///
/// **Parameters** (command line): `estimator` and its parameters (see [`blox::schedulers::qssf`]),
/// `profiler_nodes`, `limit_s`, `profiled_gpus`, `scores`, `memory_mib`.
///
/// **Not done.** Packing is not reduced while few jobs come (section 3.3): the paper leaves the load
/// and the forecast to the operator. Partners are running jobs only, as in the released program.
///
/// **Verified.** Cases. The released simulator is `blox_released::lucid`; it equals the original
/// per job on all golden runs. This scheduler follows the paper in these points:
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
///
/// **Claims.** 7 of 9 claims of the paper hold here, 1 is weaker, 1 does not hold: `blox policies lucid`.
pub fn lucid() -> Pipeline {
    lucid_with(SETTINGS, LIMITS, Arc::new(Oracle))
}

/// Returns [`lucid`] with other settings of the profiler, other limits of packing, and another
/// estimator.
pub fn lucid_with(
    settings: ProfilingSettings,
    limits: PackingLimits,
    estimator: Arc<dyn Estimator>,
) -> Pipeline {
    Composition::new("lucid")
        .in_rounds(Seconds::new(60.0))
        .scheduling(Qssf::with(Arc::clone(&estimator)))
        .placement(Profiling::new(settings, limits, estimator))
        .build()
        .expect("each role is taken once")
}

fn settings(p: &Params) -> Result<ProfilingSettings, RegistryError> {
    Ok(ProfilingSettings {
        nodes: from_zero(p, "profiler_nodes")? as u32,
        limit: p.seconds("limit_s")?,
        gpus: from_zero(p, "profiled_gpus")? as u32,
        ..SETTINGS
    })
}

fn limits(p: &Params) -> Result<PackingLimits, RegistryError> {
    let scores = "a number of at least 0, or -1";
    Ok(PackingLimits {
        scores: p.number("scores", scores, |x| x >= 0.0 || x == -1.0)?,
        memory_mib: above_zero(p, "memory_mib")?,
        ..LIMITS
    })
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "lucid",
        "profiling on reserved nodes, packing of two jobs by scores, least estimated service first",
        &PARAMETERS,
        |p, seed| Ok(lucid_with(settings(p)?, limits(p)?, belief(p, seed)?)),
    ).with_job_data(SHARING_SCORE);
}
