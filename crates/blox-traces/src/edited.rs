//! Workloads whose jobs come from another workload.

use blox_core::JobSpec;
use blox_workloads::{NoticeKind, Notices, Workload, WorkloadError};

/// The fate of a job.
pub(crate) enum Edit {
    Keep(JobSpec),
    /// Kept unchanged, with a notice, because its profile is unknown.
    Unprofiled(JobSpec),
    Skip,
    /// This job and all later ones are left out.
    End,
}

/// The jobs of another workload, some of them changed or left out.
pub struct Edited<W> {
    inner: W,
    label: String,
    edit: Box<dyn FnMut(JobSpec) -> Edit + Send>,
    /// Notices of this workload and of the inner one; `None` if this one adds no notices.
    pub(crate) notices: Option<Notices>,
    taken: u64,
}

impl<W: Workload> Edited<W> {
    pub(crate) fn new(
        inner: W,
        label: String,
        edit: impl FnMut(JobSpec) -> Edit + Send + 'static,
    ) -> Self {
        Edited {
            inner,
            label,
            edit: Box::new(edit),
            notices: None,
            taken: 0,
        }
    }

    /// Changes each job by a profile, which returns false for a job that it does not know.
    pub(crate) fn profiled(
        inner: W,
        with: &str,
        profile: impl Fn(&mut JobSpec) -> bool + Send + 'static,
    ) -> Self {
        let label = format!("{}, with {with}", inner.describe());
        let notices = Some(inner.notices().clone());
        let edit = move |mut job| match profile(&mut job) {
            true => Edit::Keep(job),
            false => Edit::Unprofiled(job),
        };
        Edited {
            notices,
            ..Edited::new(inner, label, edit)
        }
    }
}

impl<W: Workload> Workload for Edited<W> {
    fn next_job(&mut self) -> Result<Option<JobSpec>, WorkloadError> {
        while let Some(job) = self.inner.next_job()? {
            self.taken += 1;
            match (self.edit)(job) {
                Edit::Keep(job) => return Ok(Some(job)),
                Edit::Unprofiled(job) => {
                    let notices = self.notices.get_or_insert_default();
                    notices.add(NoticeKind::NoProfile, self.taken);
                    return Ok(Some(job));
                }
                Edit::Skip => {}
                Edit::End => break,
            }
        }
        Ok(None)
    }

    fn is_finite(&self) -> bool {
        self.inner.is_finite()
    }

    fn notices(&self) -> &Notices {
        let own = self.notices.as_ref();
        own.unwrap_or_else(|| self.inner.notices())
    }

    fn describe(&self) -> String {
        self.label.clone()
    }
}
