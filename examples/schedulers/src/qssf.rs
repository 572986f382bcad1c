use blox::core::estimate::{Estimator, Oracle};
use blox::core::{Composition, Pipeline, Seconds};
use blox::policies::placement::{Consolidated, InOrder, Split};
use blox::policies::scheduling::Qssf;
use blox::schedulers::parameters::*;

/// Quasi-shortest service first (Helios, SC 2021, section 4.2).
///
/// **Rule.** Jobs run in ascending order of estimated GPU time: the estimated duration times the
/// requested GPUs. There is no preemption, and a job that does not fit blocks all later ones.
/// A job waits until it fits on as few nodes as possible.
///
/// **Parameters** (command line): `estimator`, the source of durations, and `backfill`. The
/// estimators are:
///
/// - `oracle`: true durations;
/// - `user`: estimates of users;
/// - `noisy` (with `sigma`): true durations with errors;
/// - `brought`: the job's attribute `estimate_s`; `blox estimate tell` writes a trace with a column
///   `attributes.estimate_s`;
/// - `learned` (with `model` and `origin`): a trained model. A job that lacks a feature of the model
///   is refused.
///
/// For `user` and `brought`, jobs without an estimate come last, in order of submission. If no job
/// has an estimate, the result is [`fifo`](blox::schedulers::fifo).
///
/// **Verified.** Cases. Helios' rule as implemented in Lucid's released simulator is
/// `blox_released::lucid::qssf`. With the given estimates, it equals the original per job on all
/// golden runs. It differs from this scheduler in one point: in a second in which only new jobs
/// wait, it orders by GPUs alone.
///
/// **Claims.** All 3 claims of the paper hold here: `blox policies qssf`.
pub fn qssf() -> Pipeline {
    qssf_with(Oracle)
}

/// Returns [`qssf`] with another estimator.
pub fn qssf_with(estimator: impl Estimator) -> Pipeline {
    Composition::new("qssf")
        .in_rounds(Seconds::new(60.0))
        .scheduling(Qssf::with(estimator))
        .placement(InOrder::new(Consolidated::new(Split::WholeNodes)))
        .build()
        .expect("each role is taken once")
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "qssf",
        "least estimated GPU time first, no preemption (Helios)",
        &[ESTIMATOR, SIGMA, MODEL, ORIGIN, BACKFILL],
        |p, seed| {
            let belief = belief(p, seed)?;
            let rule = Consolidated::new(Split::WholeNodes);
            let placement = backfilled(rule, p, belief.clone())?;
            Ok(qssf_with(belief).with_placement(placement)?)
        },
    );
}
