use blox_core::{Composition, Pipeline};
use blox_policies::{
    placement::{Consolidated, Walk},
    scheduling::Srtf,
};

/// Shortest remaining time first.
///
/// **Rule.** Jobs in ascending order of the time that they still need; a
/// running job is stopped for one that needs less, last in the order first, if
/// that makes enough room. The times are the true ones; for others, build it
/// with [`Srtf::with`](blox_policies::scheduling::Srtf::with).
/// Placement is consolidated; decisions fall in rounds of 300 s.
///
/// **Parameters** (command line): `estimator` = `oracle` (default) or `user`;
/// `backfill` = `none` (default) or `skip`.
///
/// **Verified.** On one-GPU jobs equal per job to [`crate::compat::blox::srtf`],
/// which equals the released program on its golden run.
pub fn srtf() -> Pipeline {
    Composition::new("srtf")
        .scheduling(Srtf::default())
        .placement(Walk::new(Consolidated::default()))
        .build()
}
