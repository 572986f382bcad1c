//! Admission by load (Blox, section 5.2: Accept-1.2x and its variants).

use blox_core::{AdmissionDecisions, AdmissionPolicy, JobId, Reason, Stateless, Validity, View};

/// Admits jobs, oldest first, while the requested GPUs of admitted jobs are at most `threshold`
/// times the GPUs of the cluster.
///
/// The test comes before the job is counted, so the last job may exceed the threshold. Other jobs
/// wait for admission; their completion time still counts from submission.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadThreshold {
    threshold: f64,
}

impl LoadThreshold {
    /// Creates the policy with a threshold; `None` unless it is finite and above 0.
    pub fn new(threshold: f64) -> Option<Self> {
        let valid = threshold.is_finite() && threshold > 0.0;
        valid.then_some(LoadThreshold { threshold })
    }
}

impl Stateless for LoadThreshold {}

impl AdmissionPolicy for LoadThreshold {
    fn admit(
        &self,
        (): &mut (),
        view: View<'_>,
        asking: &[JobId],
        out: &mut AdmissionDecisions,
    ) -> Validity {
        let room = self.threshold * f64::from(view.usable_gpus().get());
        let mut demand = view.demand();
        // Once the cluster is full, no older job needs to be looked at: the demand only grows.
        let mut deferred = view.admissible();
        while demand.number() <= room
            && let Some(job) = deferred.next()
        {
            out.accept(job.id());
            demand += job.amount();
        }
        for job in asking.iter().filter_map(|id| view.job(*id)) {
            if demand.number() <= room {
                out.accept(job.id());
                demand += job.amount();
            } else {
                out.defer(job.id(), Reason::AdmissionLoad);
            }
        }
        Validity::UntilEvent
    }
}
