use blox::core::Pipeline;
use blox::policies::placement::{Compatible, Resizing, Shifting};
use blox::schedulers::parameters::*;

const PARAMETERS: [ParamDoc; 3] = [
    LEASE,
    FAIRNESS,
    param(
        "shifts",
        "true",
        "jobs are shifted in time so that their traffic interleaves",
    ),
];

/// Placement of jobs whose network demands interleave (CASSINI, NSDI 2024), beside the auction of
/// Themis.
///
/// **Rule.** [`themis`](blox::schedulers::themis) chooses the jobs and their numbers of GPUs. A job on
/// several nodes gets the candidate with the highest mean compatibility of its links. Compatibility
/// is 1 minus the mean excess demand of all jobs of a link, divided by its bandwidth, with the best
/// rotations of the jobs. The demand is the [`traffic`](blox::core::Extras::traffic) of the jobs. The
/// first candidate is consolidated, and 10 others take the next free GPUs from nodes all over the
/// cluster. A candidate whose jobs and links form a loop is dropped.
///
/// Jobs are then shifted in time so that their rotations hold on all links: the knob `shift` of their
/// [`Config`](blox::core::Config). A change of this knob alone costs nothing.
///
/// The [`Network`](blox::core::Network) of the cluster states the links: `network` in a cluster file,
/// or `32x4,network=50`. The simulated world is the execution model `traffic`, in which jobs slow
/// each other on links.
///
/// **Parameters** (command line): as for `themis`, and `shifts`. Without shifts, iterations start at
/// multiples of their length.
///
/// **Differences from the paper.** The candidates differ from the candidates of Themis. Rotations
/// are chosen one job after another, in steps of a 72nd of the job's iteration. Links with the same
/// jobs count as one, and links that no set of phases can exceed do not count. If each candidate has a
/// loop, the first is taken, and some of its links do not interleave. Iterations keep their length,
/// so shifts need no correction. On a cluster, a running job whose shift changes restarts.
///
/// **Verified.** By tests of literal placements, rotations, shifts and ends. The rule follows the
/// paper's abstract and reports by others: the paper's text and its program were not read. The
/// steps of 5 degrees, the 10 candidates and the loops are from memory.
///
/// **Claims.** Both claims of the paper hold here: `blox policies cassini`.
pub fn cassini() -> Pipeline {
    composed(&Params::of(&PARAMETERS)).expect("the defaults are valid")
}

fn composed(p: &Params) -> Result<Pipeline, RegistryError> {
    let composition = auction("cassini", p)?;
    let composition = match p.bool("shifts")? {
        true => composition.placement(Shifting::new(Resizing::new(Compatible::for_shifted_jobs()))),
        false => composition.placement(Resizing::new(Compatible::default())),
    };
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
