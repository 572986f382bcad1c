use blox::core::{Composition, Pipeline};
use blox::policies::placement::LocalSearch;
use blox::policies::scheduling::Chronus;
use blox::schedulers::parameters::*;

const PARAMETERS: [ParamDoc; 4] = [
    param(
        "lease_s",
        "1200",
        "seconds of a lease of jobs with deadlines, a multiple of round_s",
    ),
    param(
        "round_s",
        "300",
        "seconds of a round: the lease of best-effort jobs",
    ),
    CHOICE,
    SEARCH_NODES,
];

/// Leases for jobs with deadlines, the rest for best-effort jobs (Chronus, SoCC 2021).
///
/// **Rule.** Time is divided into leases. A job is accepted if enough leases before one of its
/// deadlines can be reserved, beside the leases of jobs accepted before. A job with several
/// deadlines is promised the most valuable that it can meet. Leases are reserved as late as
/// possible, for GPUs rounded up to a power of two. A job that is not accepted runs as best-effort.
///
/// A job with a reservation keeps its GPUs for the whole lease. In each round, all other GPUs go to
/// best-effort jobs by least remaining time, then to accepted jobs ahead of their leases. Placement
/// searches locally for a job order that uses few nodes.
///
/// **Parameters** (command line): `lease_s`, the length of a lease; `round_s`, the length of a
/// round, which divides a lease; `choice` among jobs that arrive in one round. `greedy` takes
/// the most valuable first. `optimal` maximises the total value, by a mixed-integer program with at
/// most `nodes` nodes; it needs the feature `microlp`.
///
/// **Differences from the paper.** There is no profiler: plans use the true durations, without
/// overheads. The program considers the jobs of one round, and accepted jobs keep their leases; the
/// paper's solves for all jobs at the end of each lease. Placement moves a running job only from
/// GPUs that a job needs because of their type. So a job may span more nodes than its rounded size
/// needs.
///
/// **Verified.** Cases. `blox_released::elasticflow::chronus` is the program that ElasticFlow
/// released, on the path without its commercial solver. It equals the original row by row on all
/// golden runs.
///
/// **Claims.** 5 of 8 claims of the paper hold here, 2 are weaker, 1 does not hold: `blox policies chronus`.
pub fn chronus() -> Pipeline {
    composed(&Params::of(&PARAMETERS)).expect("the defaults are valid")
}

fn composed(p: &Params) -> Result<Pipeline, RegistryError> {
    let choice = lease_choice(p)?;
    let (lease, round) = (p.seconds("lease_s")?, p.seconds("round_s")?);
    if lease.secs() % round.secs() != 0.0 {
        return Err(p.wrong("lease_s", "a multiple of round_s"));
    }
    let policy = Chronus::new(lease).choosing(choice);
    let composition = Composition::new("chronus")
        .in_rounds(round)
        .joint(policy, |roles| roles.admission().scheduling())
        .placement(LocalSearch);
    Ok(composition.build()?)
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers
        .add(
            "chronus",
            "leases for jobs with deadlines; best-effort jobs get the remaining GPUs",
            &PARAMETERS,
            |p, _| composed(p),
        )
        .with_job_data(DEADLINES);
}
