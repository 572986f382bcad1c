//! Workloads whose jobs come from another workload.

use blox_core::JobSpec;
use blox_sim::workload::{Notices, Workload, WorkloadError};

/// The fate of a job.
pub(crate) enum Edit {
    Keep(JobSpec),
    Skip,
    /// This job and all later ones are left out.
    End,
}

/// The jobs of another workload, some of them changed or left out.
pub struct Edited<W> {
    inner: W,
    label: String,
    edit: Box<dyn FnMut(JobSpec) -> Edit + Send>,
}

impl<W: Workload> Edited<W> {
    pub(crate) fn new(
        inner: W,
        label: String,
        edit: impl FnMut(JobSpec) -> Edit + Send + 'static,
    ) -> Self {
        let edit = Box::new(edit);
        Edited { inner, label, edit }
    }
}

impl<W: Workload> Workload for Edited<W> {
    fn next_job(&mut self) -> Result<Option<JobSpec>, WorkloadError> {
        while let Some(job) = self.inner.next_job()? {
            match (self.edit)(job) {
                Edit::Keep(job) => return Ok(Some(job)),
                Edit::Skip => {}
                Edit::End => break,
            }
        }
        Ok(None)
    }

    fn notices(&self) -> &Notices {
        self.inner.notices()
    }

    fn describe(&self) -> String {
        self.label.clone()
    }
}
