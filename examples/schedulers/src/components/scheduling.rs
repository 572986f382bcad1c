//! Registry entries of scheduling policies.

use crate::CHECKED;
use crate::registry::params::{
    ESTIMATOR, GPU_TIME, GUARD, MODEL, ORIGIN, SIGMA, belief, hours, service,
};
use crate::registry::queues::{HISTORY, PROMOTE, THRESHOLDS, history, promote, thresholds};
use blox_core::AnyScheduling;
use blox_core::registry::Registry;
use blox_policies::scheduling::{
    Drf, Fifo, FinishTimeFairness, Las, Sjf, Srsf, Srtf, StarvationGuard, Tetris, TwoDas,
};
use std::sync::Arc;

pub(super) fn add(r: &mut Registry) {
    let s = &mut r.scheduling;
    s.add("fifo", "in order of submission", &[], |_, _| {
        Ok(Arc::new(Fifo::default()))
    });
    s.add(
        "sjf",
        "in order of duration",
        &[ESTIMATOR, SIGMA, MODEL, ORIGIN],
        |p, seed| Ok(Arc::new(Sjf::with(belief(p, seed)?)) as Arc<dyn AnyScheduling>),
    );
    s.add(
        "srtf",
        "in order of remaining time, preemptive",
        &[ESTIMATOR, SIGMA, MODEL, ORIGIN],
        |p, seed| Ok(Arc::new(Srtf::with(belief(p, seed)?)) as Arc<dyn AnyScheduling>),
    );
    s.add(
        "las",
        "in order of attained service, preemptive, with a starvation guard",
        &[GPU_TIME, GUARD],
        |p, _| {
            Ok(Arc::new(StarvationGuard::new(
                Las::by(service(p)?),
                hours(p, &GUARD)?,
            )))
        },
    );
    s.add(
        "srsf",
        "in order of remaining GPU time, preemptive",
        &[ESTIMATOR, SIGMA, MODEL, ORIGIN],
        |p, seed| Ok(Arc::new(Srsf::with(belief(p, seed)?)) as Arc<dyn AnyScheduling>),
    );
    s.add(
        "ftf",
        "in order of finish-time fairness, the largest rho first, preemptive",
        &[ESTIMATOR, SIGMA, MODEL, ORIGIN],
        |p, seed| {
            Ok(Arc::new(FinishTimeFairness::with(belief(p, seed)?)) as Arc<dyn AnyScheduling>)
        },
    );
    s.add(
        "drf",
        "in order of the dominant share of the requested resources, preemptive",
        &[],
        |_, _| Ok(Arc::new(Drf)),
    );
    s.add(
        "tetris",
        "in order of remaining time on all resources, preemptive",
        &[ESTIMATOR, SIGMA, MODEL, ORIGIN],
        |p, seed| Ok(Arc::new(Tetris::with(belief(p, seed)?)) as Arc<dyn AnyScheduling>),
    );
    s.add(
        "2das",
        "queues by attained GPU-seconds, preemptive: 2D-LAS or 2D-Gittins",
        &[THRESHOLDS, PROMOTE, HISTORY],
        |p, _| {
            let thresholds = thresholds(p)?;
            let policy = match history(p)? {
                Some(history) => TwoDas::gittins(&thresholds, history),
                None => TwoDas::las(&thresholds),
            };
            let knob = promote(p)?;
            let policy = policy.and_then(|policy| policy.promoting(knob));
            Ok(Arc::new(policy.expect(CHECKED)))
        },
    );
}
