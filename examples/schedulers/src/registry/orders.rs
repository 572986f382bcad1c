//! One order of jobs each.

use super::params::{
    BACKFILL, ESTIMATOR, GPU_TIME, GUARD, MODEL, NO_EASY, ORIGIN, SIGMA, backfilled, belief,
    service,
};
use crate::schedulers;
use blox_core::estimate::Oracle;
use blox_core::registry::Registry;
use blox_policies::placement::{Consolidated, Walk};
use blox_policies::scheduling::{Sjf, Srtf};

pub(super) fn add(r: &mut Registry) {
    let s = &mut r.schedulers;
    s.add("fifo", "first in, first out", &[BACKFILL], |p, _| {
        backfilled(schedulers::fifo(), p, Oracle, true)
    });
    s.add(
        "sjf",
        "shortest job first, never stopped",
        &[ESTIMATOR, SIGMA, MODEL, ORIGIN, BACKFILL],
        |p, seed| {
            let belief = belief(p, seed)?;
            let base = blox_core::Composition::new("sjf")
                .scheduling(Sjf::with(belief.clone()))
                .placement(Walk::new(Consolidated::default()))
                .build()?;
            backfilled(base, p, belief, true)
        },
    );
    s.add(
        "srtf",
        "shortest remaining time first, preemptive, with a starvation guard",
        &[ESTIMATOR, SIGMA, MODEL, ORIGIN, GUARD, NO_EASY],
        |p, seed| {
            let policy = Srtf::with(belief(p, seed)?);
            let base = schedulers::srtf_with(policy, p.hours("guard_h", 1000.0)?);
            backfilled(base, p, Oracle, false)
        },
    );
    s.add(
        "las",
        "least attained service, preemptive, with a starvation guard",
        &[GPU_TIME, GUARD, NO_EASY],
        |p, _| {
            let params = schedulers::LasParams {
                service: service(p)?,
                guard: p.hours("guard_h", 1000.0)?,
            };
            backfilled(schedulers::las_with(params), p, Oracle, false)
        },
    );
}
