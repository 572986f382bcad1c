//! Rules that treat jobs alike, or only state so.

use blox_core::{Assignment, Composition, Draft, JobRef, Shape};
use blox_policies::placement::{Blocked, FirstFree, InOrder, NodeSelector};
use blox_policies::scheduling::Fifo;
use blox_testing::{Property, Suite, conformance};

/// Takes any free GPUs, but for jobs without a priority only if a third of the GPUs is free.
#[derive(Clone, Copy)]
struct Odd;

impl NodeSelector for Odd {
    fn find(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
        let all = draft.view().usable_gpus().get();
        let open = job.spec().priority != 0 || 3 * draft.free_gpus() >= all;
        FirstFree.find(draft, job, shape).filter(|_| open)
    }

    fn is_alike(&self) -> bool {
        true
    }
}

fn suite(rule: impl NodeSelector + Copy + Send + Sync + 'static) -> Suite<'static> {
    conformance(move |_| {
        Composition::new("skipping")
            .scheduling(Fifo::default())
            .placement(InOrder::new(rule).when_blocked(Blocked::Skip))
            .build()
            .unwrap()
    })
}

#[test]
fn jobs_skipped_as_alike_must_be_alike() {
    suite(FirstFree).check().unwrap();
    let failure = suite(Odd).check().unwrap_err();
    assert_eq!(failure.property, Property::Alike, "{failure}");
}
