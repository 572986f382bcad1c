//! Which jobs a cluster can never hold, decided before a job is submitted.

use crate::job::spec::JobSpec;
use crate::policy::{AnyPlacement, AnyPolicy};
use crate::reason::Reason;
use crate::state::State;
use crate::view::View;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The rule by which a scheduler rejects jobs that its cluster can never hold
/// ([`Pipeline::feasibility`](crate::Pipeline::feasibility)).
///
/// It asks [`Policy::check_job`](crate::Policy::check_job) of all policies and
/// [`PlacementPolicy::can_ever_place`](crate::PlacementPolicy::can_ever_place), as the
/// scheduler does when it decides about a submitted job.
#[derive(Clone)]
pub struct Feasibility {
    pub(super) policies: Vec<Arc<dyn AnyPolicy>>,
    pub(super) placement: Arc<dyn AnyPlacement>,
    pub(super) may_grow: bool,
}

impl Feasibility {
    /// Returns whether the cluster of a state, with all its nodes empty and up, could hold a job.
    ///
    /// A cluster without nodes, and one whose scheduler adds nodes, can hold every job. So does a
    /// cluster whose placement policy panics: the decision about the job reports the panic.
    ///
    /// # Errors
    /// The reason if it could not.
    pub fn check(&self, state: &State, spec: &Arc<JobSpec>) -> Result<(), Reason> {
        for policy in &self.policies {
            let check = || (**policy).any_check_job(spec);
            let checked = catch_unwind(AssertUnwindSafe(check)).unwrap_or(Ok(()));
            checked.map_err(|e| Reason::other(format!("the job {e}")))?;
        }
        let view = View::of(state);
        if self.may_grow || view.installed_gpus().get() == 0 {
            return Ok(());
        }
        let ask =
            || state.with_candidate(spec, |job| (*self.placement).any_can_ever_place(view, &job));
        catch_unwind(AssertUnwindSafe(ask)).unwrap_or(Ok(()))
    }
}
