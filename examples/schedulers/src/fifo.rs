use crate::ONCE;
use crate::registry::params::{BACKFILL, backfilled};
use blox_core::estimate::Oracle;
use blox_core::registry::Registry;
use blox_core::{Composition, Pipeline};
use blox_policies::{
    placement::{Consolidated, InOrder},
    scheduling::Fifo,
};

/// First in, first out (the base of Blox, EuroSys 2024).
///
/// **Rule.** Jobs run in order of submission, without preemption. The first job that does not fit
/// blocks all later ones (head-of-line blocking). Placement is consolidated: exact fit, best fit,
/// otherwise as few nodes as possible. Decisions fall in rounds of 300 s.
///
/// **Parameters** (command line): `backfill` = `none`, `skip` or `easy`.
///
/// **Verified.** On one-GPU jobs equal per job to `blox_released::blox::fifo`, which equals the
/// released program on all its golden runs.
pub fn fifo() -> Pipeline {
    Composition::new("fifo")
        .scheduling(Fifo::default())
        .placement(InOrder::new(Consolidated::default()))
        .build()
        .expect(ONCE)
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers
        .add("fifo", "first in, first out", &[BACKFILL], |p, _| {
            backfilled(fifo(), p, Oracle, true)
        });
}
