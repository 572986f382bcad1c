//! Placement: which GPUs each job gets.

use super::Policy;
use crate::decision::Outlook;
use crate::draft::{Draft, DraftError};
use crate::job::JobRef;
use crate::reason::Reason;
use crate::request::Requests;
use crate::view::View;

/// Assigns GPUs to the jobs of a scheduling policy's answer (Blox's placement policy).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no placement policy",
    note = "a rule such as `Consolidated` finds GPUs for one job: `Walk::new(rule)` places all by it"
)]
pub trait PlacementPolicy: Policy {
    /// Fills the draft, and returns how long the placement stays correct if nothing happens and
    /// the requests stay as they are. A policy that leaves placed jobs where they are, or
    /// finds the same place for the same jobs, returns [`Outlook::Stable`].
    ///
    /// # Errors
    /// The policy asked the draft for something impossible: its own error.
    fn place(
        &self,
        memory: &mut Self::Memory,
        requests: &mut Requests,
        draft: &mut Draft<'_>,
    ) -> Result<Outlook, DraftError>;

    /// Returns whether the policy could place the job on the empty cluster, all nodes in view up.
    /// The runtime rejects other jobs when they come in.
    ///
    /// # Errors
    /// The reason if it could not.
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
