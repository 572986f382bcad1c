use blox::core::{Composition, Pipeline};
use blox::policies::placement::{Consolidated, Resizing};
use blox::policies::scheduling::Rubick;
use blox::schedulers::parameters::*;

const PARAMETERS: [ParamDoc; 2] = [
    param(
        "plans",
        "tuned",
        "tuned: the fastest plan for the GPUs; own: jobs keep their plan and change their replicas",
    ),
    param("round_s", "60", "seconds of a round"),
];

/// GPUs and execution plans where they raise the throughput most (Rubick, MLSys 2025).
///
/// **Rule.** A job runs with the fastest plan of data, tensor and pipeline parallelism, ZeRO and
/// offloading for its GPUs. The *slope* of a job is the change of its throughput for a GPU, relative to
/// its request. Guaranteed jobs start first, then jobs with small slopes. If free GPUs are too few,
/// jobs with the smallest slopes give up GPUs. A job of the class `guaranteed` keeps at least the
/// throughput of its request. GPUs left over go to the largest slopes. See
/// [`Rubick`](blox::policies::scheduling::Rubick) for the component.
///
/// **Parameters** (command line): `plans`, `round_s`.
///
/// **Jobs** state their plans by attributes: `params_b`, the number of parameters in billions, for an
/// analytic model, or `plans`, a list of measured plans such as `{"gpus": 4, "tp": 4, "speed": 4.9}`.
/// `plan` is the plan that the user chose, such as `tp=2 pp=4`. `blox::perf::Plans` has the formulas.
/// Other jobs get the GPUs that they request. A job gets its plan as `BLOX_TP`, `BLOX_PP`, `BLOX_ZERO`
/// and `BLOX_OFFLOAD`. It must keep its global batch: the scheduler does not change it.
///
/// **Not done.** CPUs and memory of the host are not divided by slopes. Accumulation of gradients is
/// implied: a replica processes its samples one after the other. Activations are not recomputed. The
/// released program fits its performance model to profiles of each application; here the model has
/// fixed constants.
///
/// **Source.** The rule follows the released program (there called Morphling) without its cases for
/// single models. Only the abstract of the paper was read.
///
/// **Verified.** Tests; rule of the released program.
///
/// **Claims.** Both claims of the paper hold here: `blox policies rubick`.
pub fn rubick() -> Pipeline {
    composed(&Params::of(&PARAMETERS)).expect("the defaults are valid")
}

fn composed(p: &Params) -> Result<Pipeline, RegistryError> {
    let policy = match p.choice("plans", &["tuned", "own"])? {
        "own" => Rubick::with_own_plans(),
        _ => Rubick::default(),
    };
    let composition = Composition::new("rubick")
        .in_rounds(p.seconds("round_s")?)
        .scheduling(policy)
        .placement(Resizing::new(Consolidated::default()));
    Ok(composition.build()?)
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers
        .add(
            "rubick",
            "GPUs and execution plans where they raise the throughput most",
            &PARAMETERS,
            |p, _| composed(p),
        )
        .with_job_data(PLANS)
        .with_execution("plans");
}
