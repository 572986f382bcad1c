use crate::ONCE;
use crate::registry::params::{BACKFILL, backfilled};
use blox_core::estimate::Oracle;
use blox_core::registry::Registry;
use blox_core::{Composition, Pipeline};
use blox_policies::{
    placement::{Consolidated, Walk},
    scheduling::Fifo,
};

/// First in, first out (the base of Blox, EuroSys 2024).
///
/// **Rule.** Jobs run in order of submission and are never stopped; the first
/// that does not fit holds up all behind it (head of line). Placement is
/// consolidated: exact fit, best fit, else over as few nodes as possible.
/// Decisions fall in rounds of 300 s.
///
/// **Parameters** (command line): `backfill` = `none` (default), `skip` or `easy`.
///
/// **Verified.** On one-GPU jobs equal per job to `blox_released::blox::fifo`,
/// which equals the released program on all its golden runs.
pub fn fifo() -> Pipeline {
    Composition::new("fifo")
        .scheduling(Fifo::default())
        .placement(Walk::new(Consolidated::default()))
        .build()
        .expect(ONCE)
}

/// Its entry in the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers
        .add("fifo", "first in, first out", &[BACKFILL], |p, _| {
            backfilled(fifo(), p, Oracle, true)
        });
}
