//! Admission: which jobs may enter.

use super::{Policy, Stateless};
use crate::decision::{Outlook, Verdicts};
use crate::ids::JobId;
use crate::view::View;

/// Decides which submitted jobs may enter the queue (Blox's admission policy).
pub trait AdmissionPolicy: Policy {
    /// Answers about the jobs in `asking`, which came in since the last
    /// decision, in order of submission. It may also answer about any job of
    /// [`View::deferred`]. A job of `asking` without an answer is deferred.
    fn admit(
        &self,
        memory: &mut Self::Memory,
        view: View<'_>,
        asking: &[JobId],
        out: &mut Verdicts,
    ) -> Outlook;
}

/// Accepts every job, also those that an earlier policy deferred.
#[derive(Clone, Copy, Debug, Default)]
pub struct AcceptAll;

impl Stateless for AcceptAll {}

impl AdmissionPolicy for AcceptAll {
    fn admit(&self, (): &mut (), view: View<'_>, asking: &[JobId], out: &mut Verdicts) -> Outlook {
        if view.deferred_count() > 0 {
            view.admissible().for_each(|job| out.accept(job.id()));
        }
        for &job in asking {
            out.accept(job);
        }
        Outlook::Stable
    }
}
