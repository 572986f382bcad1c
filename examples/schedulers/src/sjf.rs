use crate::ONCE;
use blox_core::{Composition, Pipeline};
use blox_policies::{
    placement::{Consolidated, Walk},
    scheduling::Sjf,
};

/// Shortest job first.
///
/// **Rule.** Jobs in ascending order of their whole duration; what runs is
/// never stopped; the first that does not fit holds up all behind it. The
/// durations are the true ones; for others, build it with
/// [`Sjf::with`](blox_policies::scheduling::Sjf::with) and an
/// [`Estimator`](blox_core::estimate::Estimator).
/// Placement is consolidated; decisions fall in rounds of 300 s.
///
/// **Parameters** (command line): `estimator` and what belongs to it (see
/// [`crate::schedulers::qssf`]); `backfill` = `none` (default), `skip` or `easy`.
pub fn sjf() -> Pipeline {
    Composition::new("sjf")
        .scheduling(Sjf::default())
        .placement(Walk::new(Consolidated::default()))
        .build()
        .expect(ONCE)
}
