use blox::core::{Composition, Pipeline, Seconds};
use blox::policies::placement::KeepNodes;
use blox::policies::scheduling::{Sia, sia::Goodputs};
use blox::schedulers::parameters::*;

const PARAMETERS: [ParamDoc; 4] = [
    numeric(
        "power",
        Goodputs::DEFAULT.power,
        "power p of the fairness objective, not 0",
    ),
    numeric(
        "lambda",
        Goodputs::DEFAULT.lambda,
        "penalty lambda for a job without GPUs, at least 0",
    ),
    param(
        "restart_s",
        "30",
        "seconds of a restart of a job that does not state them",
    ),
    param("round_s", "60", "seconds of a round"),
];

/// The best assignment of training jobs to GPU types and numbers, in rounds (Sia, SOSP 2023).
///
/// **Rule.** A configuration is a GPU type and a number of GPUs: powers of two within a node, whole
/// nodes beyond. The value of a configuration for a job is its reported goodput there; it is lower
/// if the job would have to restart. An integer program chooses the configurations with the best
/// sum of values to a power. If choices are equally good, jobs keep their configurations. A job
/// starts on one GPU, and at most doubles its GPUs from round to round. A job within a node is
/// never split. Jobs tune their batch sizes themselves. See
/// [`Sia`](blox::policies::scheduling::Sia) and [`KeepNodes`] for the components.
///
/// **Parameters** (command line): `power`, `lambda`, `restart_s`, `round_s`.
///
/// **Jobs** that train need a [`TrainingSpec`](blox::core::TrainingSpec), as in workloads of the
/// format `sia`. Other jobs run on their requested number of GPUs, of any one type.
///
/// **Not done.** A job keeps its configuration while it restarts, also over several rounds. A job
/// that was stopped pays for its restart too, but only up to the worth of its first GPU: otherwise
/// GPUs would idle while it waits. It starts on one GPU again; the paper does not define this case.
/// On several GPU types, the search for the best assignment is bounded, so a better one may exist.
///
/// **Verified.** Cases; the solver's choice among equal optima is replayed. The program that its
/// authors released is `blox_released::sia`. It equals the original per job where the original's
/// choice among equally good assignments is known.
///
/// **Claims.** All 8 claims of the paper hold here: `blox policies sia`.
pub fn sia() -> Pipeline {
    composed(&Params::of(&PARAMETERS)).expect("the defaults are valid")
}

fn composed(p: &Params) -> Result<Pipeline, RegistryError> {
    let goodputs = Goodputs {
        power: not_zero(p, "power")?,
        lambda: at_least(p, "lambda", 0.0)?,
        restart: Seconds::new(at_least(p, "restart_s", 0.0)?),
    };
    let composition = Composition::new("sia")
        .in_rounds(p.seconds("round_s")?)
        .scheduling(Sia::new(goodputs))
        .placement(KeepNodes);
    Ok(composition.build()?)
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers
        .add(
            "sia",
            "best assignment of training jobs to GPU types and counts, by an integer program",
            &PARAMETERS,
            |p, _| composed(p),
        )
        .with_job_data(TRAINING);
}
