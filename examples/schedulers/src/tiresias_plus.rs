use crate::registry::params::{default, param, share};
use crate::registry::queues::THRESHOLDS;
use crate::{DEFAULTS, ONCE};
use blox_core::registry::ParamDoc;
use blox_core::registry::Registry;
use blox_core::{Composition, JobRef, Pipeline, Seconds};
use blox_policies::{
    placement::{Blocked, InOrder, Profiled},
    scheduling::TwoDas,
};

const LIMIT: ParamDoc = param(
    "limit",
    "0.1",
    "jobs are consolidated if they spend more than this fraction of a step on communication",
);

/// Tiresias+ (Blox, EuroSys 2024, figures 10 and 11): Tiresias with a profile of each job in place
/// of its heuristic of tensor sizes.
///
/// **Rule.** The queues are those of [`tiresias`](crate::schedulers::tiresias). A job is
/// consolidated if it spends more than `limit` of a step on gradient exchange over the best links.
/// The attribute `communication` of the job is this profile. Over the network, the exchange takes
/// many times as long. All other jobs, including those without a profile, take the remaining GPUs.
/// Decisions fall in rounds of 300 s.
///
/// **Parameters** (command line): `limit`, that fraction of a step (0 consolidates every job that
/// communicates, 1 no job).
///
/// **Verified.** Only by its own tests: the paper's profiles are not released.
pub fn tiresias_plus() -> Pipeline {
    tiresias_plus_with(default(&LIMIT))
}

/// Returns [`tiresias_plus`] with another limit.
pub fn tiresias_plus_with(limit: f64) -> Pipeline {
    let measured = move |job: &JobRef<'_>| job.spec().extras().communication > limit;
    Composition::new("tiresias-plus")
        .scheduling(TwoDas::las(&[Seconds::new(default(&THRESHOLDS))]).expect(DEFAULTS))
        .placement(InOrder::new(Profiled::by(measured)).when_blocked(Blocked::Skip))
        .build()
        .expect(ONCE)
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "tiresias-plus",
        "Tiresias that consolidates jobs by their measured communication",
        &[LIMIT],
        |p, _| Ok(tiresias_plus_with(share(p, &LIMIT)?)),
    );
}
