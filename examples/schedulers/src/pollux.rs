use blox::core::{Composition, Pipeline, Seconds};
use blox::policies::scheduling::{Autoscale, Pollux, PolluxSettings};
use blox::schedulers::parameters::*;

const SEARCH: PolluxSettings = PolluxSettings::DEFAULT;
const PARAMETERS: [ParamDoc; 5] = [
    numeric(
        "power",
        SEARCH.power,
        "power p of the fairness objective, not 0",
    ),
    numeric(
        "population",
        SEARCH.population as f64,
        "allocations of a generation, from 2 to 10000",
    ),
    numeric(
        "generations",
        SEARCH.generations as f64,
        "most generations of a round",
    ),
    numeric(
        "patience",
        SEARCH.patience as f64,
        "generations without improvement that end the search",
    ),
    param("round_s", "60", "seconds of a round"),
];

/// A genetic search for the allocation with the best fitness (Pollux, OSDI 2021).
///
/// **Rule.** A job's speedup is its goodput on an allocation, divided by its goodput on its fair
/// share of nodes and GPUs. It is lower if a job that has run would have to restart. The fitness of an allocation is a power
/// mean of speedups, by default the harmonic mean. Two jobs that span nodes never share a node.
/// Jobs tune their batch sizes themselves. See [`Pollux`](blox::policies::scheduling::Pollux).
///
/// **Parameters** (command line): `power`, `population`, `generations`, `patience` (generations
/// without improvement), `round_s`, and the seed.
///
/// **Jobs** that train need a [`TrainingSpec`](blox::core::TrainingSpec), as in workloads of the
/// format `sia`. Other jobs run on their requested number of GPUs; the paper has no such jobs. They
/// count as jobs at their fair share, and so does a new job on its first GPU.
///
/// **Not done.** A restart takes as long as the job states, instead of 30 s for each job. The paper
/// does not define how allocations mutate and cross; these steps are this library's own.
///
/// **Verified.** Tests; recorded decisions of its simulator are replayed.
///
/// **Claims.** All 3 claims of the paper hold here: `blox policies pollux`.
pub fn pollux() -> Pipeline {
    composed(&Params::of(&PARAMETERS)).expect("the defaults are valid")
}

/// Returns [`pollux`] with another search, rounds of another length, above 0, and autoscaling of
/// the cluster, if any.
pub fn pollux_with(
    search: PolluxSettings,
    round: Seconds,
    autoscale: Option<Autoscale>,
) -> Pipeline {
    let mut policy = Pollux::new(search);
    if let Some(autoscale) = autoscale {
        policy = policy.autoscaling(autoscale);
    }
    policy
        .compose(Composition::new("pollux").in_rounds(round))
        .build()
        .expect("each role is taken once")
}

fn composed(p: &Params) -> Result<Pipeline, RegistryError> {
    let search = PolluxSettings {
        power: not_zero(p, "power")?,
        population: p.whole("population", 2..=10_000)? as usize,
        generations: p.u64("generations")? as usize,
        patience: p.u64("patience")? as usize,
    };
    Ok(pollux_with(search, p.seconds("round_s")?, None))
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers
        .add(
            "pollux",
            "genetic search for the allocation with the best mean speed-up",
            &PARAMETERS,
            |p, _| composed(p),
        )
        .with_job_data(TRAINING);
}
