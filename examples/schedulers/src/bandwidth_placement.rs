use crate::ONCE;
use blox_core::registry::Registry;
use blox_core::{Composition, Pipeline};
use blox_policies::{
    placement::{Bandwidth, Walk},
    scheduling::Fifo,
};

/// First in, first out on the GPUs that are linked best (Blox, EuroSys 2024, table 4: Bebop).
///
/// **Rule.** As [`fifo`](crate::schedulers::fifo), but of all free GPUs of one node a job gets
/// the set with the highest bandwidth: that of the slowest link in the best tree
/// over the set. Among equals the node with the fewest free GPUs, then the set that
/// is linked best in sum, then the one that leaves the best links to others.
///
/// The nodes of the cluster say how their GPUs are linked (`32x4@p3.8xlarge`, or
/// `layout` or `links` in a cluster file); jobs say what share of a step they
/// exchange gradients (`communication`), and run slower on slower links.
///
/// **Parameters**: none.
pub fn bandwidth_placement() -> Pipeline {
    Composition::new("bandwidth-placement")
        .scheduling(Fifo::default())
        .placement(Walk::new(Bandwidth::default()))
        .build()
        .expect(ONCE)
}

/// Its entry in the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "bandwidth-placement",
        "first in, first out on the GPUs that are linked best",
        &[],
        |_, _| Ok(bandwidth_placement()),
    );
}
