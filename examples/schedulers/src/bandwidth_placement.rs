use blox::core::{Composition, Pipeline};
use blox::policies::placement::{Bandwidth, InOrder};
use blox::policies::scheduling::Fifo;
use blox::schedulers::parameters::*;

/// First in, first out on the GPUs with the best links (Blox, EuroSys 2024, table 4: Bebop).
///
/// **Rule.** Like [`fifo`](blox::schedulers::fifo), but a job gets the set of free GPUs on one
/// node with the highest bandwidth. The bandwidth of a set is the slowest link in the best tree
/// over the set. Ties go to the node with the fewest free GPUs, then to the set with the highest
/// sum of bandwidths. Remaining ties go to the set that leaves the best links to others.
///
/// The nodes of the cluster state how their GPUs are linked: `32x4@p3.8xlarge,network=10`, or
/// `layout` or `links` and `network` in a cluster file. Jobs state the fraction of a step in which they exchange gradients
/// (`communication`). They run slower on slower links.
///
/// **Parameters**: none.
///
/// **Verified.** Tests.
///
/// **Claims.** The claim of the paper holds here: `blox policies bandwidth-placement`.
pub fn bandwidth_placement() -> Pipeline {
    Composition::new("bandwidth-placement")
        .scheduling(Fifo::default())
        .placement(InOrder::new(Bandwidth::default()))
        .build()
        .expect("each role is taken once")
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers
        .add(
            "bandwidth-placement",
            "first in, first out, on the GPUs with the fastest links",
            &[],
            |_, _| Ok(bandwidth_placement()),
        )
        .with_job_data(COMMUNICATION);
}
