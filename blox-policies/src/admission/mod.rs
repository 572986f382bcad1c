//! Admission policies: which jobs may enter.

mod load;
mod quota;

use blox_core::{JobId, JobRef, View};

pub use blox_core::policy::AcceptAll;
pub use load::LoadThreshold;
pub use quota::{Quota, QuotaBy};

/// Returns the jobs to decide about, each with whether it asks now. Deferred jobs came before the
/// new ones.
fn oldest_first<'v>(view: View<'v>, asking: &[JobId]) -> impl Iterator<Item = (JobRef<'v>, bool)> {
    let newcomers = asking.iter().filter_map(move |id| view.job(*id));
    let deferred = view.admissible().map(|job| (job, false));
    deferred.chain(newcomers.map(|job| (job, true)))
}
