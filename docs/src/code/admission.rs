use blox::prelude::*;
use std::sync::Arc;

// ANCHOR: policy
/// Admits jobs while at most `limit` jobs are in the system.
struct AtMost {
    limit: usize,
}

impl Stateless for AtMost {}

impl AdmissionPolicy for AtMost {
    fn admit(
        &self,
        (): &mut (),
        view: View<'_>,
        asking: &[JobId],
        out: &mut AdmissionDecisions,
    ) -> Validity {
        let free = self.limit.saturating_sub(view.active().count());
        // Deferred jobs are older than new ones.
        let deferred = view.admissible().map(|job| job.id());
        let mut jobs = deferred.chain(asking.iter().copied());
        jobs.by_ref().take(free).for_each(|job| out.accept(job));
        jobs.for_each(|job| out.defer(job, Reason::other("too many jobs")));
        Validity::UntilEvent // until the next event
    }
}
// ANCHOR_END: policy

pub fn scheduler() -> Composition {
    Composition::new("at-most")
        .admission(AtMost { limit: 4 })
        .scheduling(Fifo::default())
        .placement(InOrder::new(Consolidated::default()))
}

// ANCHOR: register
pub fn registry() -> Registry {
    let mut registry = blox::registry();
    let limit = param("limit", "100", "jobs in the system");
    registry.admission.add(
        "at-most",
        "while few jobs are in the system",
        &[limit],
        |params, _seed| {
            let limit = params.u64("limit")? as usize;
            Ok(Arc::new(AtMost { limit }))
        },
    );
    registry
}
// ANCHOR_END: register
