//! Speeds by GPU type for jobs of other formats.

use super::Oracle;
use blox_core::JobSpec;
use blox_sim::workload::{NoticeKind, Notices, Workload, WorkloadError};
use std::sync::Arc;

/// A workload whose jobs get their speeds from an oracle, by model and number of GPUs.
///
/// A model is named such as `ResNet-18 (batch size 32)`. The duration of a job then applies to the
/// fastest GPU type. Jobs with speeds of their own are unchanged. Jobs that the oracle lacks are
/// unchanged and counted in a notice.
///
/// ```
/// use blox_core::{Extras, GpuCount, JobSpec, Seconds, Time};
/// use blox_traces::formats::gavel::{Oracle, WithOracle};
/// use blox_sim::workload::{Jobs, Workload};
/// # let dir = std::env::temp_dir().join(format!("blox-speeds-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir)?;
/// # let file = dir.join("throughputs.json");
/// std::fs::write(&file, r#"{"k80": {"('A3C', 1)": {"null": 0.5}}, "v100": {"('A3C', 1)": {"null": 2.0}}}"#)?;
/// let extras = Extras { model: Some("A3C".into()), ..Extras::default() };
/// let job = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(60.0)).with_extras(extras);
/// let mut jobs = WithOracle::new(Jobs::new(vec![job]), Oracle::read(&file)?.into());
/// let job = jobs.next_job()?.expect("a job");
/// assert_eq!((job.work.iterations, job.work.rate), (120.0, 2.0));
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct WithOracle<W> {
    jobs: W,
    oracle: Arc<Oracle>,
    notices: Notices,
    handed_out: u64,
}

impl<W: Workload> WithOracle<W> {
    /// Adds the speeds of this oracle to these jobs.
    pub fn new(jobs: W, oracle: Arc<Oracle>) -> Self {
        let notices = jobs.notices().clone();
        WithOracle {
            jobs,
            oracle,
            notices,
            handed_out: 0,
        }
    }
}

impl<W: Workload> Workload for WithOracle<W> {
    fn next_job(&mut self) -> Result<Option<JobSpec>, WorkloadError> {
        let Some(mut job) = self.jobs.next_job()? else {
            return Ok(None);
        };
        self.handed_out += 1;
        if job.extras().speeds.is_none() {
            let duration = job.duration().secs();
            match self.oracle.profile(&mut job) {
                true => job.work.iterations = duration * job.work.rate,
                false => self.notices.add(NoticeKind::NoProfile, self.handed_out),
            }
        }
        Ok(Some(job))
    }

    fn notices(&self) -> &Notices {
        &self.notices
    }

    fn describe(&self) -> String {
        format!("{}, with speeds by type of GPU", self.jobs.describe())
    }
}
