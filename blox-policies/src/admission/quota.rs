//! Quotas by user or virtual cluster.

use super::oldest_first;
use blox_core::{
    AdmissionDecisions, AdmissionPolicy, GpuCount, Gpus, JobId, JobRef, NameId, Reason, SortedMap,
    Stateless, Validity, View,
};

/// Owner whose jobs are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaBy {
    /// The user.
    User,
    /// The virtual cluster.
    VirtualCluster,
}

/// Admits a job only if its owner's admitted jobs, this one included, request at most a number of
/// GPUs. Parts of GPUs count as parts.
///
/// The owner is a user or a virtual cluster. Other jobs wait for admission, oldest first. A job
/// that alone requests more than the quota is rejected. Jobs without an owner share one quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    by: QuotaBy,
    gpus: Gpus,
    named: SortedMap<String, Gpus>,
}

impl Quota {
    /// Creates a quota of `gpus` GPUs for each owner.
    pub fn new(by: QuotaBy, gpus: impl Into<Gpus>) -> Self {
        Quota {
            by,
            gpus: gpus.into(),
            named: SortedMap::new(),
        }
    }

    /// Sets another quota for one owner.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, gpus: impl Into<Gpus>) -> Self {
        self.named.insert(name.into(), gpus.into());
        self
    }

    pub(crate) fn owner(&self, job: &JobRef<'_>) -> Option<NameId> {
        match self.by {
            QuotaBy::User => job.user(),
            QuotaBy::VirtualCluster => job.virtual_cluster(),
        }
    }

    pub(crate) fn limit(&self, view: View<'_>, owner: Option<NameId>) -> Gpus {
        let named = owner
            .and_then(|id| view.names().get(id))
            .and_then(|name| self.named.get(name.as_str()));
        *named.unwrap_or(&self.gpus)
    }
}

impl Stateless for Quota {}

impl AdmissionPolicy for Quota {
    fn admit(
        &self,
        (): &mut (),
        view: View<'_>,
        asking: &[JobId],
        out: &mut AdmissionDecisions,
    ) -> Validity {
        let mut used: SortedMap<Option<NameId>, Gpus> = SortedMap::new();
        for job in view.active() {
            *used.entry(self.owner(&job)).or_default() += job.amount();
        }
        for (job, asks) in oldest_first(view, asking) {
            let owner = self.owner(&job);
            let asked = job.amount();
            let most = self.limit(view, owner);
            let used = used.entry(owner).or_default();
            if asked > most {
                let name = owner.and_then(|id| view.names().get(id));
                let name = match (self.by, name) {
                    (_, None) => "the quota of jobs without an owner".to_owned(),
                    (QuotaBy::User, Some(name)) => format!("the quota of user {name}"),
                    (QuotaBy::VirtualCluster, Some(name)) => {
                        format!("the quota of virtual cluster {name}")
                    }
                };
                out.reject(job.id(), Reason::above_limit(asked, most, name));
            } else if *used + asked <= most {
                *used += asked;
                out.accept(job.id());
            } else {
                // Oldest first: later jobs of this owner must not pass this one.
                *used = most + GpuCount(1).into();
                if asks {
                    out.defer(job.id(), Reason::QuotaReached);
                }
            }
        }
        Validity::UntilEvent
    }
}
