use blox::core::Pipeline;
use blox::policies::placement::{Compatible, Resizing};
use blox::schedulers::parameters::*;

const PARAMETERS: [ParamDoc; 2] = [LEASE, FAIRNESS];

/// Placement of jobs whose network demands interleave (CASSINI, NSDI 2024), beside the auction of
/// Themis.
///
/// **Rule.** [`themis`](blox::schedulers::themis) chooses the jobs and their numbers of GPUs. A job on
/// several nodes gets the candidate with the highest mean compatibility of its links. Compatibility
/// is 1 minus the mean excess demand of all jobs of a link, divided by its bandwidth. The demand is
/// the [`traffic`](blox::core::Extras::traffic) of the jobs. The first candidate is consolidated, and
/// 10 others take the next free GPUs from nodes all over the cluster.
///
/// The [`Network`](blox::core::Network) of the cluster states the links: `network` in a cluster file,
/// or `32x4,network=50`. The simulated world is the execution model `traffic`, in which jobs slow
/// each other on links.
///
/// **Parameters** (command line): as for `themis`.
///
/// **Differences from the paper.** Jobs are not shifted in time: iterations start at multiples of
/// their length. The candidates differ from the candidates of Themis.
/// A candidate is not refused if its jobs and links form a loop, which matters only for shifts.
///
/// **Verified.** By tests of literal placements and scores. The rule follows the paper's abstract and
/// reports by others: the paper's text and its program were not read.
pub fn cassini() -> Pipeline {
    composed(&Params::of(&PARAMETERS)).expect("the defaults are valid")
}

fn composed(p: &Params) -> Result<Pipeline, RegistryError> {
    let composition = auction("cassini", p)?.placement(Resizing::new(Compatible::default()));
    Ok(composition.build()?)
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers
        .add(
            "cassini",
            "Themis that places jobs where their network demands interleave",
            &PARAMETERS,
            |p, _| composed(p),
        )
        .with_job_data(TRAFFIC)
        .with_execution("traffic");
}
