use blox::core::{Composition, Pipeline, Seconds};
use blox::policies::placement::{Compatible, Resizing};
use blox::policies::scheduling::Themis;
use blox::schedulers::parameters::*;

/// Leases start and end at multiples of this time.
const ROUND: Seconds = Seconds::new(60.0);

const PARAMETERS: [ParamDoc; 2] = [
    param("lease_s", "600", "seconds of a lease"),
    param(
        "fairness",
        "0.8",
        "fairness knob f: the fraction 1 - f of the jobs bids",
    ),
];

/// Placement of jobs whose network demands interleave (CASSINI, NSDI 2024), beside the auction of
/// Themis.
///
/// **Rule.** Jobs and numbers of GPUs are those of [`themis`](blox::schedulers::themis). A job that
/// lies on several nodes gets the candidate with the highest mean compatibility of its links: 1
/// minus the mean excess demand of all jobs of a link, as a fraction of its bandwidth. The demand is
/// the [`traffic`](blox::core::Extras::traffic) of the jobs. The first candidate is consolidated, and
/// 10 others take the next free GPUs from nodes all over the cluster.
///
/// Links are those of the cluster's [`Network`](blox::core::Network): `network` in a cluster file,
/// or `32x4,network=50`. The simulated world is the execution model `traffic`, in which jobs slow
/// each other on links.
///
/// **Parameters** (command line): those of `themis`.
///
/// **Differences from the paper.** Jobs are not shifted in time, so the score takes the phases as
/// they are: iterations start at multiples of their length. The candidates are not those of Themis.
/// A candidate is not refused if its jobs and links form a loop, which matters only for shifts.
///
/// **Verified.** By tests of literal placements and scores. The rule follows the paper's abstract and
/// reports by others: the paper's text and its program were not read.
pub fn cassini() -> Pipeline {
    composed(&Params::of(&PARAMETERS)).expect("the defaults are valid")
}

fn composed(p: &Params) -> Result<Pipeline, RegistryError> {
    let lease = p.seconds("lease_s")?;
    let composition = Composition::new("cassini")
        .in_rounds(ROUND)
        .scheduling(Themis::new(lease, share(p, "fairness")?))
        .placement(Resizing::new(Compatible::default()));
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
