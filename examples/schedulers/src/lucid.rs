use crate::ONCE;
use blox_core::estimate::{Estimator, Oracle};
use blox_core::perf::PairTable;
use blox_core::{Composition, Pipeline, Seconds};
use blox_policies::scheduling::{Lucid, LucidSettings};

/// What can be chosen about [`lucid`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LucidParams {
    /// How it profiles and packs.
    pub settings: LucidSettings,
    /// How fast jobs are beside each other, as far as that was measured.
    pub pairs: PairTable,
}

/// Lucid (ASPLOS 2023): non-intrusive profiling, packing, and order by estimates.
///
/// **Rule.** New jobs of up to 8 GPUs first run on nodes that are set aside, at most 200 s,
/// smallest first; many end there. The others then wait in order of estimated duration
/// times GPUs; nobody waits behind one that does not fit. A job goes beside a running one
/// of as many GPUs if their sharing scores allow it, at most two on a GPU; pairs that prove
/// slow are separated. See [`Lucid`] for all of it.
///
/// Scores and memory are read from jobs (attributes `sharing_score` and `gmem`, which
/// the reader of Helios logs and `blox estimate` set). A simulation slows packed jobs down
/// by [`blox_sim::execution::Shared`].
///
/// **Parameters** (command line): `estimator` and what belongs to it (see
/// [`crate::schedulers::qssf`]),
/// `profiler_nodes` (2), `limit_s` (200), `profiled_gpus` (8), `scores` (2; -1 for no packing),
/// `memory_mib` of a GPU (24576), `least_speed` (0.7).
///
/// **Verified.** What the released simulator does is `blox_released::lucid`; it equals
/// the original per job on all golden runs. Where it differs from the paper, this scheduler
/// follows the paper:
///
/// - There, profiling costs nothing: a job is in its virtual cluster while it is
///   profiled, with all its work still to do. No plan can say that honestly; the comparison runs the
///   profiler and the virtual clusters as two simulations, one after the other. Here a job leaves the
///   profiler before it runs elsewhere, and what it did there counts.
/// - There, a job whose partner ends first keeps the speed of the pair to its end, since the
///   partner is looked for by comparing a number with a job. Here it is alone again.
/// - There, jobs are found ended a second late, and a pair is never separated.
///
/// `blox reproduce lucid-quirks` shows what each of those costs.
pub fn lucid() -> Pipeline {
    lucid_with(LucidParams::default(), Oracle)
}

/// [`lucid`] with other parameters and beliefs.
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
