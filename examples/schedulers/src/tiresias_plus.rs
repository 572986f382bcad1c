use crate::ONCE;
use crate::registry::params::{default, param, share};
use blox_core::registry::ParamDoc;
use blox_core::registry::Registry;
use blox_core::{Composition, JobRef, Pipeline};
use blox_policies::{
    placement::{Blocked, Profiled, Walk},
    scheduling::TwoDas,
};

const LIMIT: ParamDoc = param(
    "limit",
    "0.1",
    "share of a step spent on exchange above which a job is consolidated",
);

/// Tiresias+ (Blox, EuroSys 2024, figures 10 and 11): Tiresias with a profile of
/// each job in place of its heuristic of tensor sizes.
///
/// **Rule.** The queues of [`tiresias`](crate::schedulers::tiresias). A job is consolidated if
/// it was measured to need it: if it spends more than a tenth of a step on exchange
/// of gradients over the best links (`communication` of the job, the profile), which
/// takes many times as long over the network. All others, also those that do not say,
/// take what is left over. Decisions fall in rounds of 300 s.
///
/// **Parameters** (command line): `limit`, that share (default 0.1; 0 consolidates
/// every job that communicates, 1 none).
///
/// **Verified.** By tests of its own alone: the paper's profiles are not released.
pub fn tiresias_plus() -> Pipeline {
    tiresias_plus_with(default(&LIMIT))
}

/// [`tiresias_plus`] with another limit.
pub fn tiresias_plus_with(limit: f64) -> Pipeline {
    let measured = move |job: &JobRef<'_>| job.spec().extras().communication > limit;
    Composition::new("tiresias-plus")
        .scheduling(TwoDas::default())
        .placement(Walk::new(Profiled::by(measured)).when_blocked(Blocked::Skip))
        .build()
        .expect(ONCE)
}

/// Its entry in the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "tiresias-plus",
        "Tiresias, but each job is consolidated that was measured to need it",
        &[LIMIT],
        |p, _| Ok(tiresias_plus_with(share(p, LIMIT.name, default(&LIMIT))?)),
    );
}
