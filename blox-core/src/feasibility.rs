//! Which jobs a cluster can never hold, decided before a job is submitted.

use crate::job::spec::JobSpec;
use crate::policy::AnyPlacement;
use crate::reason::Reason;
use crate::state::State;
use crate::view::View;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The rule by which a scheduler rejects jobs that its cluster can never hold
/// ([`Pipeline::feasibility`](crate::Pipeline::feasibility)).
///
/// It asks [`PlacementPolicy::can_ever_place`](crate::PlacementPolicy::can_ever_place), as the
/// scheduler does when it decides about a submitted job.
#[derive(Clone)]
pub struct Feasibility {
    placement: Arc<dyn AnyPlacement>,
    may_grow: bool,
}

impl Feasibility {
    pub(crate) fn new(placement: Arc<dyn AnyPlacement>, may_grow: bool) -> Self {
        Feasibility {
            placement,
            may_grow,
        }
    }

    /// Returns whether the cluster of a state, with all its nodes empty and up, could hold a job.
    ///
    /// A cluster without nodes, and one whose scheduler adds nodes, can hold every job. So does a
    /// cluster whose placement policy panics: the decision about the job reports the panic.
    ///
    /// # Errors
    /// The reason if it could not.
    pub fn check(&self, state: &State, spec: &Arc<JobSpec>) -> Result<(), Reason> {
        let view = View::of(state);
        if self.may_grow || view.installed_gpus().get() == 0 {
            return Ok(());
        }
        let ask =
            || state.with_candidate(spec, |job| (*self.placement).any_can_ever_place(view, &job));
        catch_unwind(AssertUnwindSafe(ask)).unwrap_or(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::{NodeActions, Validity};
    use crate::order::SortKey;
    use crate::policy::{ClusterManager, Stateless, by_key};
    use crate::testing::FirstFit;
    use crate::{ClusterSpec, Composition, GpuCount, Pipeline, Seconds, Time};

    struct Grows;

    impl Stateless for Grows {}

    impl ClusterManager for Grows {
        fn manage(&self, (): &mut (), _: View<'_>, _: &mut NodeActions) -> Validity {
            Validity::UntilEvent
        }
    }

    fn fifo() -> Pipeline {
        Composition::new("fifo")
            .scheduling(by_key(|job| SortKey::by(job.submit().secs())))
            .placement(FirstFit)
            .build()
            .unwrap()
    }

    #[test]
    fn check_too_large_job_is_refused_unless_it_grows() {
        let job = |gpus| {
            let job = JobSpec::new(Time::ZERO, GpuCount(gpus), Seconds::new(1.0));
            Arc::new(job.owned_by("ada"))
        };
        let rule = fifo().feasibility();
        assert_eq!(rule.check(&State::default(), &job(9)), Ok(()));
        let cluster: ClusterSpec = "1x4".parse().unwrap();
        let state = State::new(&cluster).unwrap();
        assert_eq!(rule.check(&state, &job(4)), Ok(()));
        assert_eq!(
            rule.check(&state, &job(9)),
            Err(Reason::NeverFits {
                asked: GpuCount(9),
                possible: GpuCount(4),
            })
        );
        for grows in [
            fifo().awaiting_growth(true),
            fifo().with_cluster(Grows).unwrap(),
        ] {
            assert_eq!(grows.feasibility().check(&state, &job(9)), Ok(()));
        }
    }
}
