use crate::registry::params::{only_with, param, seconds};
use crate::{DEFAULTS, ONCE};
use blox_core::registry::{ParamDoc, Params, Registry, RegistryError};
use blox_core::{Composition, Pipeline, Seconds};
use blox_policies::{
    placement::LocalSearch,
    scheduling::{Chronus, LeaseChoice},
};

const LEASE: ParamDoc = param("lease_s", "240", "seconds of a lease and round");
const CHOICE: ParamDoc = param(
    "choice",
    "greedy",
    "choice among jobs submitted together: greedy, optimal",
);
const NODES: ParamDoc = param(
    "nodes",
    "10000",
    "for optimal: most nodes of the search tree",
);
const PARAMETERS: [ParamDoc; 3] = [LEASE, CHOICE, NODES];

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
    read(&Params::of(&PARAMETERS)).expect(DEFAULTS)
}

/// Returns [`chronus`] with leases of another length, above 0, and another choice.
pub fn chronus_with(lease: Seconds, choice: LeaseChoice) -> Pipeline {
    Composition::new("chronus")
        .in_rounds(lease)
        .joint(Chronus::new(lease).choosing(choice), |roles| {
            roles.admission().scheduling()
        })
        .placement(LocalSearch)
        .build()
        .expect(ONCE)
}

fn read(p: &Params) -> Result<Pipeline, RegistryError> {
    let word = p.choice(CHOICE.name, &["greedy", "optimal"])?;
    only_with(p, &[NODES.name], word == "optimal", "choice=optimal")?;
    let choice = match word {
        "optimal" => optimal(p)?,
        _ => LeaseChoice::Greedy,
    };
    Ok(chronus_with(seconds(p, &LEASE)?, choice))
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "chronus",
        "leases for jobs with deadlines; best-effort jobs get the remaining GPUs",
        &PARAMETERS,
        |p, _| read(p),
    );
}

#[cfg(feature = "microlp")]
fn optimal(p: &Params) -> Result<LeaseChoice, RegistryError> {
    let limit = Some(p.u64(NODES.name)?);
    let solver = blox_microlp::BranchAndBound { limit };
    Ok(LeaseChoice::Optimal(std::sync::Arc::new(solver)))
}

#[cfg(not(feature = "microlp"))]
fn optimal(p: &Params) -> Result<LeaseChoice, RegistryError> {
    let expected = "greedy, or a build with `--features microlp`";
    Err(p.wrong(CHOICE.name, expected))
}
