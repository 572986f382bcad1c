use crate::ONCE;
use blox_core::estimate::{Estimator, Oracle};
use blox_core::perf::PairTable;
use blox_core::{Composition, Pipeline, Seconds};
use blox_policies::scheduling::{Lucid, LucidSettings};

/// Configuration of [`lucid`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LucidParams {
    /// Settings of profiling and packing.
    pub settings: LucidSettings,
    /// Measured speeds of colocated jobs.
    pub pairs: PairTable,
}

/// Lucid (ASPLOS 2023): non-intrusive profiling, packing, and order by estimates.
///
/// **NodeSelector.** New jobs of up to 8 GPUs first run on reserved nodes for at most 200 s, smallest jobs
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
    Composition::new("lucid")
        .in_rounds(Seconds::new(60.0))
        .joint(
            Lucid::with(params.settings, estimator, params.pairs),
            |roles| roles.scheduling().placement(),
        )
        .build()
        .expect(ONCE)
}
