//! Admission: decides which jobs may enter the queue.

use super::{Policy, Stateless};
use crate::decision::{Validity, Verdicts};
use crate::ids::JobId;
use crate::view::View;

/// Decides which submitted jobs may enter the queue (Blox's admission policy).
pub trait AdmissionPolicy: Policy {
    /// Decides about the jobs in `asking`, which were submitted since the last decision, in order
    /// of submission. May also decide about any job of [`View::deferred`]. A job of `asking`
    /// without a decision is deferred.
    fn admit(
        &self,
        memory: &mut Self::Memory,
        view: View<'_>,
        asking: &[JobId],
        out: &mut Verdicts,
    ) -> Validity;
}

/// Accepts every job, including jobs that an earlier policy deferred.
#[derive(Clone, Copy, Debug, Default)]
pub struct AcceptAll;

impl Stateless for AcceptAll {}

impl AdmissionPolicy for AcceptAll {
    fn admit(&self, (): &mut (), view: View<'_>, asking: &[JobId], out: &mut Verdicts) -> Validity {
        if view.deferred_count() > 0 {
            view.admissible().for_each(|job| out.accept(job.id()));
        }
        for &job in asking {
            out.accept(job);
        }
        Validity::UntilEvent
    }
}
