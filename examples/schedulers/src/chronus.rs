use blox::core::{Composition, Pipeline};
use blox::policies::placement::LocalSearch;
use blox::policies::scheduling::Chronus;
use blox::schedulers::parameters::*;

const PARAMETERS: [ParamDoc; 3] = [
    param("lease_s", "240", "seconds of a lease and round"),
    CHOICE,
    SEARCH_NODES,
];

/// Leases for jobs with deadlines, the rest for best-effort jobs (Chronus, SoCC 2021).
///
/// **Rule.** Time is divided into leases. A job with a deadline is accepted if enough leases before
/// the deadline can be reserved, beside the leases of jobs accepted before. Leases are reserved as
/// late as possible. A job that is not accepted runs as best-effort. In a lease, the jobs with a
/// reservation run first, then best-effort jobs by least remaining time, then accepted jobs ahead
/// of their leases. Placement searches locally for a job order that uses few nodes.
///
/// **Parameters** (command line): `lease_s`, the length of a lease and of a round; `choice` among
/// jobs that arrive together = `greedy` or `optimal` (a mixed-integer program with at most `nodes`
/// nodes; needs the feature `microlp`).
///
/// **Verified.** `blox_released::elasticflow::chronus` is the program that ElasticFlow released, on
/// the path without its commercial solver. It equals the original row by row on all golden runs.
pub fn chronus() -> Pipeline {
    composed(&Params::of(&PARAMETERS)).expect("the defaults are valid")
}

fn composed(p: &Params) -> Result<Pipeline, RegistryError> {
    let choice = lease_choice(p)?;
    let lease = p.seconds("lease_s")?;
    let policy = Chronus::new(lease).choosing(choice);
    let composition = Composition::new("chronus")
        .in_rounds(lease)
        .joint(policy, |roles| roles.admission().scheduling())
        .placement(LocalSearch);
    Ok(composition.build()?)
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "chronus",
        "leases for jobs with deadlines; best-effort jobs get the remaining GPUs",
        &PARAMETERS,
        |p, _| composed(p),
    );
}
