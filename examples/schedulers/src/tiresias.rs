use blox::core::{Composition, Pipeline};
use blox::policies::placement::{Blocked, InOrder, Profiled};
use blox::schedulers::parameters::*;

const PARAMETERS: [ParamDoc; 8] = [
    THRESHOLDS, PROMOTE, HISTORY, GITTINS, SIGMA, MODEL, ORIGIN, PACK_LIMIT,
];

/// Discretised two-dimensional attained service, and consolidation only for skewed models (Tiresias,
/// NSDI 2019).
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
/// **Verified.** Cases; queues: one GPU. With GPUs counted and decisions at events, the queues of
/// 2D-LAS decide on one-GPU jobs like `blox_released::tiresias`, per job. The program equals the
/// released simulator on all its golden runs. On larger jobs, and in 2D-Gittins, the simulator
/// differs from the paper, as `blox_released::tiresias` states. The simulator has no placement by
/// skew, nor speeds that depend on it. This part has only its own tests, and the default limits
/// above are this toolkit's choice.
///
/// **Claims.** 5 of 6 claims of the paper hold here, 1 does not hold: `blox policies tiresias`.
pub fn tiresias() -> Pipeline {
    composed(&Params::of(&PARAMETERS), 0).expect("the defaults are valid")
}

fn composed(p: &Params, seed: u64) -> Result<Pipeline, RegistryError> {
    let composition = Composition::new("tiresias")
        .scheduling(two_das(p, believed(p, seed)?)?)
        .placement(InOrder::new(Profiled::by(skew(p)?)).when_blocked(Blocked::Skip));
    Ok(composition.build()?)
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "tiresias",
        "queues by attained GPU-seconds, preemptive; skewed models are consolidated",
        &PARAMETERS,
        composed,
    );
}
