use crate::ONCE;
use crate::estimate::Belief;
use blox_core::registry::RegistryError;
use blox_core::{Composition, Pipeline, Seconds};
use blox_policies::{
    placement::{Blocked, Profiled, TensorSkew, Walk},
    scheduling::{ServiceHistory, TwoDas},
};

/// What can be chosen about [`tiresias`].
#[derive(Clone, Debug)]
pub struct TiresiasParams {
    /// The thresholds between the queues in GPU-seconds, ascending: one less
    /// than there are queues.
    pub thresholds: Vec<Seconds>,
    /// A job that waited this many times as long as it ran returns to the first
    /// queue; `None` never promotes.
    pub promote: Option<f64>,
    /// Services of past jobs: with them, jobs of a queue are ordered by their
    /// Gittins index (2D-Gittins), without, by their first start (2D-LAS).
    pub history: Option<ServiceHistory>,
    /// What is believed about durations: with it, jobs of a queue are ordered by the
    /// Gittins index of their own believed service. Then `history` holds what durations
    /// were, divided by what was believed; without one beliefs are trusted.
    pub belief: Option<Belief>,
    /// Which jobs are consolidated.
    pub skew: TensorSkew,
}

impl Default for TiresiasParams {
    fn default() -> Self {
        TiresiasParams {
            thresholds: vec![Seconds::new(3250.0)],
            promote: None,
            history: None,
            belief: None,
            skew: TensorSkew::default(),
        }
    }
}

/// Tiresias (Gu et al., NSDI 2019): discretised two-dimensional attained
/// service, and consolidation for skewed models alone.
///
/// **Rule.** Jobs are in queues by the GPU-seconds that they attained: all of a
/// queue come before those of the next, and a job goes down when it reaches the
/// threshold of its queue. Within a queue 2D-LAS goes by the first start, so that
/// jobs of one queue do not stop each other, and who never ran comes by
/// submission; 2D-Gittins goes by the Gittins index over a history of past jobs,
/// looking ahead by the queue's threshold. A job that does not fit is passed over.
/// A job whose model has skewed tensors is consolidated on as few nodes as
/// possible; all others take what is left over, from the fullest nodes first.
/// Decisions fall in rounds of 300 s.
///
/// **Parameters** (command line): `thresholds`, GPU-seconds from first to last
/// with `/` between them (default `3250`: two queues, as in the paper; the value
/// is the first limit of the released simulator); `promote`, the promote knob
/// (default `none`, as in the paper); `history`, a file with a column `duration` of
/// past GPU-seconds, for 2D-Gittins (default `none`: 2D-LAS); `estimator`, who believes
/// something about durations, for 2D-Gittins by the index of each job's own believed
/// service, with `sigma`, `model` and `origin` as `sjf` has them (default `none`; the file of
/// `history` then holds durations divided by beliefs); `pack_limit`, the
/// share of a model's largest tensor above which a job is consolidated (default
/// 0.3, between the skewed and the even models of the paper, whose own limit is
/// of its testbed; 0 consolidates all, 1 none whose model is known). A trace says
/// what its jobs train by `model`; jobs that do not say are consolidated.
///
/// **Verified.** With GPUs counted and decisions at events, the queues of 2D-LAS
/// decide on jobs of one GPU as `blox_released::tiresias` does, per job; that
/// equals the released simulator on all its golden runs. On larger jobs, and in
/// 2D-Gittins, the simulator differs from the paper, as
/// `blox_released::tiresias` says. It has no placement by skew, nor
/// speeds for one to act on: that part has tests of its own alone, and the
/// default limits above are this toolkit's choice.
pub fn tiresias() -> Pipeline {
    composed(TwoDas::default(), TensorSkew::default())
}

/// [`tiresias`] with other parameters.
///
/// # Errors
/// The thresholds do not ascend from above 0, or the promote knob is not above 0.
pub fn tiresias_with(params: TiresiasParams) -> Result<Pipeline, RegistryError> {
    let thresholds = &params.thresholds;
    let policy = match (params.belief, params.history) {
        (Some(belief), history) => {
            let trusted = || ServiceHistory::of([Seconds::new(1.0)]);
            match history.or_else(trusted) {
                Some(errors) => TwoDas::gittins_by(thresholds, belief, errors)?,
                None => TwoDas::las(thresholds)?,
            }
        }
        (None, Some(history)) => TwoDas::gittins(thresholds, history)?,
        (None, None) => TwoDas::las(thresholds)?,
    };
    Ok(composed(policy.promoting(params.promote)?, params.skew))
}

fn composed(policy: TwoDas, skew: TensorSkew) -> Pipeline {
    Composition::new("tiresias")
        .scheduling(policy)
        .placement(Walk::new(Profiled::by(skew)).when_blocked(Blocked::Skip))
        .build()
        .expect(ONCE)
}
