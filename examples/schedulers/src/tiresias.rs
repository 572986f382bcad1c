use crate::estimate::Belief;
use crate::registry::queues::{PARAMETERS, believed, history, promote, skew, thresholds};
use crate::{CHECKED, DEFAULTS, ONCE};
use blox_core::registry::{Params, Registry, RegistryError};
use blox_core::{Composition, Pipeline, Seconds};
use blox_policies::placement::{Blocked, InOrder, Profiled, TensorSkew};
use blox_policies::scheduling::{ServiceHistory, TwoDas};

/// Configuration of [`tiresias`].
#[derive(Clone, Debug)]
pub struct TiresiasParams {
    /// Thresholds between the queues in GPU-seconds, ascending: one fewer than queues.
    pub thresholds: Vec<Seconds>,
    /// Promote knob: a job that waited this many times as long as it ran returns to the first
    /// queue. `None` never promotes.
    pub promote: Option<f64>,
    /// Services of past jobs. With them, jobs of a queue are ordered by their Gittins index
    /// (2D-Gittins); without them, by their first start (2D-LAS).
    pub history: Option<ServiceHistory>,
    /// Estimator of durations. With it, jobs of a queue are ordered by the Gittins index of their
    /// own estimated service. Then `history` holds true durations divided by estimates; without a
    /// history, estimates are trusted.
    pub belief: Option<Belief>,
    /// Predicate for jobs that must be consolidated.
    pub skew: TensorSkew,
}

impl Default for TiresiasParams {
    fn default() -> Self {
        read(&Params::of(&PARAMETERS), 0).expect(DEFAULTS)
    }
}

/// Tiresias (Gu et al., NSDI 2019): discretised two-dimensional attained service, and consolidation
/// only for skewed models.
///
/// **Rule.** Jobs are in queues by their attained GPU-seconds. All jobs of a queue come before the
/// jobs of later queues. A job moves to the next queue when it reaches the threshold of its queue.
///
/// Within a queue, 2D-LAS orders jobs by their first start. So jobs of one queue do not preempt
/// each other, and jobs that never ran come by submission. In 2D-Gittins, they come by their
/// Gittins index over a history of past jobs, with the queue's threshold as look-ahead. The last
/// queue has none and keeps the order of 2D-LAS.
///
/// A job that does not fit is skipped. A job whose model has skewed tensors is consolidated on as
/// few nodes as possible. All other jobs take the remaining GPUs, from the fullest nodes first.
/// Decisions fall in rounds of 300 s.
///
/// **Parameters** (command line):
///
/// - `thresholds`: GPU-seconds from first to last with `/` between them. The default makes two
///   queues, as in the paper; the value is the first limit of the released simulator.
/// - `promote`: the promote knob. With `none`, as in the paper, no job is promoted.
/// - `history`: a file with a column `duration` of past GPU-seconds, for 2D-Gittins. With `none`,
///   the order is 2D-LAS.
/// - `estimator`: an estimator of durations, for 2D-Gittins by each job's own estimated service.
///   `sigma`, `model` and `origin` are as for `sjf`. The file of `history` then holds true durations
///   divided by estimates.
/// - `pack_limit`: the share of a model's largest tensor above which a job is consolidated. The
///   default is between the skewed and the even models of the paper; the paper's limit depends on
///   its testbed. With 0, all jobs are consolidated; with 1, no job whose model is known.
///
/// A trace names the model of each job in `model`; jobs without it are consolidated.
///
/// **Verified.** With GPUs counted and decisions at events, the queues of 2D-LAS decide on one-GPU
/// jobs like `blox_released::tiresias`, per job. That program equals the released simulator on all
/// its golden runs. On larger jobs, and in 2D-Gittins, the simulator differs from the paper, as
/// `blox_released::tiresias` states. The simulator has no placement by skew, nor speeds that depend
/// on it. That part has only its own tests, and the default limits above are this toolkit's choice.
pub fn tiresias() -> Pipeline {
    tiresias_with(TiresiasParams::default()).expect(DEFAULTS)
}

/// Returns [`tiresias`] with other parameters.
///
/// Returns `None` unless the thresholds ascend from above 0 and the promote knob is above 0.
pub fn tiresias_with(params: TiresiasParams) -> Option<Pipeline> {
    let thresholds = &params.thresholds;
    let policy = match (params.belief, params.history) {
        (Some(belief), errors) => {
            let errors = errors.unwrap_or_else(ServiceHistory::exact);
            TwoDas::gittins_by(thresholds, belief, errors)
        }
        (None, Some(history)) => TwoDas::gittins(thresholds, history),
        (None, None) => TwoDas::las(thresholds),
    };
    let pipeline = Composition::new("tiresias")
        .scheduling(policy?.promoting(params.promote)?)
        .placement(InOrder::new(Profiled::by(params.skew)).when_blocked(Blocked::Skip));
    Some(pipeline.build().expect(ONCE))
}

fn read(p: &Params, seed: u64) -> Result<TiresiasParams, RegistryError> {
    Ok(TiresiasParams {
        thresholds: thresholds(p)?,
        promote: promote(p)?,
        history: history(p)?,
        belief: believed(p, seed)?,
        skew: skew(p)?,
    })
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "tiresias",
        "queues by attained GPU-seconds, preemptive; skewed models are consolidated",
        &PARAMETERS,
        |p, seed| Ok(tiresias_with(read(p, seed)?).expect(CHECKED)),
    );
}
