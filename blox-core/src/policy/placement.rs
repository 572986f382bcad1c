//! Placement: assigns GPUs to jobs.

use super::Policy;
use crate::decision::Validity;
use crate::draft::{Draft, DraftError};
use crate::job::JobRef;
use crate::reason::Reason;
use crate::request::JobQueue;
use crate::view::View;

/// Assigns GPUs to the jobs that a scheduling policy requests (Blox's placement policy).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no placement policy",
    note = "a rule such as `Consolidated` finds GPUs for one job: `InOrder::new(rule)` places all by it"
)]
pub trait PlacementPolicy: Policy {
    /// Fills the draft. Returns the validity of the placement as long as the requests do not
    /// change. A policy returns [`Validity::UntilEvent`] if it leaves placed jobs where they are, or
    /// always finds the same place for the same jobs.
    ///
    /// # Errors
    /// The policy requested something impossible from the draft: an error of the policy.
    fn place(
        &self,
        memory: &mut Self::Memory,
        requests: &mut JobQueue,
        draft: &mut Draft<'_>,
    ) -> Result<Validity, DraftError>;

    /// Returns whether the policy could place the job on the empty cluster with all nodes in view
    /// up. The runtime rejects other jobs at submission.
    ///
    /// # Errors
    /// The reason why the policy could not place the job.
    fn can_ever_place(&self, view: View<'_>, job: &JobRef<'_>) -> Result<(), Reason> {
        let possible = view.installed_gpus();
        if job.gpus() <= possible {
            Ok(())
        } else {
            Err(Reason::NeverFits {
                asked: job.gpus(),
                possible,
            })
        }
    }
}
