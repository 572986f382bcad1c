use crate::ONCE;
use crate::registry::params::{BACKFILL, ESTIMATOR, MODEL, ORIGIN, SIGMA, backfilled, belief};
use blox_core::estimate::Estimator;
use blox_core::registry::Registry;
use blox_core::{Composition, Pipeline, Seconds};
use blox_policies::{
    placement::{Consolidated, Walk},
    scheduling::Qssf,
};

/// Quasi-shortest service first (Helios, SC 2021, section 4.2).
///
/// **Rule.** Jobs run in ascending order of the GPU time that they are believed to need:
/// the estimated duration times the GPUs asked for. Nobody is stopped, and nobody passes a
/// job that does not fit. Placement is consolidated.
///
/// **Parameters** (command line): `estimator`, where beliefs come from: `oracle` (default),
/// `user`, `noisy` (with `sigma`), `brought` (the job's attribute `estimate_s`, as
/// `blox estimate` tells it) or `learned` (with `model` and `origin`); `backfill`. Jobs about which
/// nothing is known come last, in order of submission: if that is all of them, it is
/// [`fifo`](crate::schedulers::fifo).
///
/// **Verified.** Helios' rule as Lucid's released simulator has it is
/// `blox_released::lucid::qssf`; it equals the original per job, with the given estimates,
/// on all golden runs. It differs in that it orders by GPUs alone in a second in which nobody
/// waits but the jobs that just came.
pub fn qssf() -> Pipeline {
    qssf_with(blox_core::estimate::Oracle)
}

/// [`qssf`] with other beliefs.
pub fn qssf_with(estimator: impl Estimator) -> Pipeline {
    Composition::new("qssf")
        .in_rounds(Seconds::new(60.0))
        .scheduling(Qssf::with(estimator))
        .placement(Walk::new(Consolidated::default()))
        .build()
        .expect(ONCE)
}

/// Its entry in the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "qssf",
        "least estimated GPU time first, never stopped (Helios)",
        &[ESTIMATOR, SIGMA, MODEL, ORIGIN, BACKFILL],
        |p, seed| {
            let belief = belief(p, seed)?;
            backfilled(qssf_with(belief.clone()), p, belief, true)
        },
    );
}
