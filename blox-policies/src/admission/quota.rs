//! Quotas by user or virtual cluster.

use blox_core::{
    AdmissionPolicy, JobId, JobRef, NameId, Outlook, Reason, Stateless, Verdicts, View,
};
use std::collections::BTreeMap;

/// Whose jobs are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaBy {
    /// Those of a user.
    User,
    /// Those of a virtual cluster.
    VirtualCluster,
}

/// Admits a job only while its user (or virtual cluster) asks for at most a
/// number of GPUs with all admitted jobs, its own included; others wait
/// outside, oldest first. A job that alone asks for more than the quota is
/// turned away. Jobs without a user (or virtual cluster) share one quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    by: QuotaBy,
    gpus: u32,
    named: BTreeMap<String, u32>,
}

impl Quota {
    /// `gpus` for each.
    pub fn new(by: QuotaBy, gpus: u32) -> Self {
        Quota {
            by,
            gpus,
            named: BTreeMap::new(),
        }
    }

    /// Another number for one of them.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, gpus: u32) -> Self {
        self.named.insert(name.into(), gpus);
        self
    }

    fn owner(&self, job: &JobRef<'_>) -> Option<NameId> {
        match self.by {
            QuotaBy::User => job.user(),
            QuotaBy::VirtualCluster => job.virtual_cluster(),
        }
    }

    fn limit(&self, view: View<'_>, owner: Option<NameId>) -> u64 {
        let named = owner
            .and_then(|id| view.names().get(id))
            .and_then(|name| self.named.get(name.as_str()));
        u64::from(*named.unwrap_or(&self.gpus))
    }
}

impl Stateless for Quota {}

impl AdmissionPolicy for Quota {
    fn admit(&self, (): &mut (), view: View<'_>, asking: &[JobId], out: &mut Verdicts) -> Outlook {
        let mut used: BTreeMap<Option<NameId>, u64> = BTreeMap::new();
        for job in view.active() {
            *used.entry(self.owner(&job)).or_default() += u64::from(job.gpus().get());
        }
        let newcomers = asking.iter().filter_map(|id| view.job(*id));
        let deferred = view.admissible().map(|job| (job, false));
        for (job, asks) in deferred.chain(newcomers.map(|job| (job, true))) {
            let owner = self.owner(&job);
            let asked = u64::from(job.gpus().get());
            let limit = self.limit(view, owner);
            let used = used.entry(owner).or_default();
            if asked > limit {
                out.reject(job.id(), Reason::QuotaReached);
            } else if *used + asked <= limit {
                *used += asked;
                out.accept(job.id());
            } else {
                // Oldest first: nobody of this owner passes it.
                *used = limit + 1;
                if asks {
                    out.defer(job.id(), Reason::QuotaReached);
                }
            }
        }
        Outlook::Stable
    }
}
