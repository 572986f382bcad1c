//! Admission: decides which jobs may enter the queue.

use super::{Policy, Stateless};
use crate::decision::{AdmissionDecisions, Validity};
use crate::ids::JobId;
use crate::view::View;

/// Decides which submitted jobs may enter the queue (Blox's admission policy).
///
/// ```
/// # use blox_core::{ClusterSpec, Event, JobSpec, Seconds, State, Time};
/// use blox_core::{AdmissionPolicy, GpuCount, JobId, Name, Reason, Stateless};
/// use blox_core::{Validity, AdmissionDecision, AdmissionDecisions, View};
///
/// /// Rejects jobs with more than a number of GPUs.
/// struct AtMost(GpuCount);
///
/// impl Stateless for AtMost {}
///
/// impl AdmissionPolicy for AtMost {
///     fn admit(&self, (): &mut (), view: View<'_>, asking: &[JobId], out: &mut AdmissionDecisions) -> Validity {
///         for job in asking.iter().filter_map(|id| view.job(*id)) {
///             match job.gpus() <= self.0 {
///                 true => out.accept(job.id()),
///                 false => out.reject(job.id(), Reason::Other(Name::from("too large"))),
///             }
///         }
///         Validity::UntilEvent
///     }
/// }
///
/// // Job 0 requests three GPUs, job 1 one GPU.
/// # let mut state = State::new(&ClusterSpec::uniform(1, 4))?;
/// # for (job, gpus) in [(JobId(0), 3), (JobId(1), 1)] {
/// #     let spec = JobSpec::new(Time::ZERO, GpuCount(gpus), Seconds::new(600.0)).into();
/// #     state.apply(Time::ZERO, &Event::Submitted { job, spec })?;
/// # }
/// let mut out = AdmissionDecisions::default();
/// AtMost(GpuCount(2)).admit(&mut (), View::of(&state), &[JobId(0), JobId(1)], &mut out);
/// let admissions: Vec<_> = out.iter().collect();
/// assert!(matches!(
///     admissions[..],
///     [(JobId(0), AdmissionDecision::Reject(_)), (JobId(1), AdmissionDecision::Accept { .. })]
/// ));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait AdmissionPolicy: Policy {
    /// Decides about the jobs in `asking`, which were submitted since the last decision, in order
    /// of submission. May also decide about any job of [`View::deferred`]. A job of `asking`
    /// without a decision is deferred.
    fn admit(
        &self,
        memory: &mut Self::Memory,
        view: View<'_>,
        asking: &[JobId],
        out: &mut AdmissionDecisions,
    ) -> Validity;
}

/// Accepts every job, including jobs that an earlier policy deferred.
#[derive(Clone, Copy, Debug, Default)]
pub struct AcceptAll;

impl Stateless for AcceptAll {}

impl AdmissionPolicy for AcceptAll {
    fn admit(
        &self,
        (): &mut (),
        view: View<'_>,
        asking: &[JobId],
        out: &mut AdmissionDecisions,
    ) -> Validity {
        if view.deferred_count() > 0 {
            view.admissible().for_each(|job| out.accept(job.id()));
        }
        for &job in asking {
            out.accept(job);
        }
        Validity::UntilEvent
    }
}
