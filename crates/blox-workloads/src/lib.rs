//! Workloads: the jobs of a simulation.
//!
//! A workload returns jobs in order of submission. Jobs with equal times keep the order of the
//! source. [`Jobs`] are a list in memory. The crate `blox-traces` reads and generates others. A
//! [`WorkloadSource`] opens a workload for each simulation.
//!
//! | Task | Start with |
//! |---|---|
//! | Provide jobs from a list | [`Jobs`] |
//! | Generate or read jobs | [`Workload`] |
//! | Provide jobs by name | [`WorkloadSource`] |
//! | Select the measured jobs | [`Measure`] |
//! | Report dropped or repaired input | [`Notices`] |

#![warn(missing_docs)]

mod error;
mod measure;
mod notices;
pub mod text;

pub use error::WorkloadError;
pub use measure::Measure;
pub use notices::{Dropped, Notice, NoticeKind, Notices};

use blox_core::{ClusterSpec, JobSpec, sort};
use text::number_of;

/// Jobs in order of submission.
///
/// The rank of a job in this order, from 0, is its number in a run.
///
/// ```
/// use blox_core::{GpuCount, JobSpec, Seconds, Time};
/// use blox_workloads::{Limited, Workload, WorkloadError, collect};
///
/// /// An endless workload: a job with one GPU every minute.
/// #[derive(Default)]
/// struct EachMinute {
///     minutes: u32,
/// }
///
/// impl Workload for EachMinute {
///     fn next_job(&mut self) -> Result<Option<JobSpec>, WorkloadError> {
///         let submit = Time::new(60.0 * f64::from(self.minutes));
///         self.minutes += 1;
///         Ok(Some(JobSpec::new(submit, GpuCount(1), Seconds::new(600.0))))
///     }
///
///     fn describe(&self) -> String {
///         "a job every minute".to_owned()
///     }
/// }
///
/// let jobs = collect(&mut Limited::new(EachMinute::default(), 3))?;
/// assert_eq!(jobs[2].submit, Time::new(120.0));
/// # Ok::<(), WorkloadError>(())
/// ```
pub trait Workload: Send {
    /// Returns the next job; `None` at the end, which a generator may never reach.
    ///
    /// # Errors
    /// The source cannot be read or contains invalid jobs.
    fn next_job(&mut self) -> Result<Option<JobSpec>, WorkloadError>;

    /// Returns whether the jobs certainly end. By default they may be endless, and a simulation ends
    /// if its measured jobs starve behind later ones.
    fn is_finite(&self) -> bool {
        false
    }

    /// Returns the notices so far: dropped, repaired or remarkable input. A file's notices are
    /// complete from the start. By default, there are none.
    fn notices(&self) -> &Notices {
        &notices::NONE
    }

    /// Describes the workload in a few words.
    fn describe(&self) -> String;
}

impl<W: Workload + ?Sized> Workload for Box<W> {
    fn next_job(&mut self) -> Result<Option<JobSpec>, WorkloadError> {
        (**self).next_job()
    }
    fn is_finite(&self) -> bool {
        (**self).is_finite()
    }
    fn notices(&self) -> &Notices {
        (**self).notices()
    }
    fn describe(&self) -> String {
        (**self).describe()
    }
}

/// Source of a workload: opens it for each simulation.
///
/// A registry builds a source from parameters and a seed.
///
/// ```
/// use blox_registry::{ComponentSpec, Registry, param};
/// use blox_core::{ClusterSpec, GpuCount, JobSpec, Seconds, Time};
/// use blox_workloads::{Jobs, Workload, WorkloadError, WorkloadSource, collect};
///
/// /// Jobs that are submitted together, one for each node of the cluster.
/// struct Full {
///     duration: Seconds,
/// }
///
/// impl WorkloadSource for Full {
///     fn open(&self, cluster: &ClusterSpec) -> Result<Box<dyn Workload>, WorkloadError> {
///         let job = JobSpec::new(Time::ZERO, GpuCount(1), self.duration);
///         Ok(Box::new(Jobs::new(vec![job; cluster.nodes.len()])))
///     }
/// }
///
/// let mut registry = Registry::new();
/// let duration = param("duration_s", "600", "seconds of each job");
/// registry.others_mut::<Box<dyn WorkloadSource>>("workload").add("full", "a job for each node", &[duration], |params, _seed| {
///     let duration = params.seconds("duration_s")?;
///     Ok(Box::new(Full { duration }))
/// });
/// let source = registry.others::<Box<dyn WorkloadSource>>().unwrap().build(&"full{duration_s=60}".parse()?, 1)?;
/// let jobs = collect(&mut source.open(&ClusterSpec::uniform(2, 4))?)?;
/// assert_eq!(jobs.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait WorkloadSource: Send + Sync {
    /// Returns the workload of a simulation of this cluster, from the first job on. Equal clusters
    /// get equal jobs.
    ///
    /// # Errors
    /// The source cannot be read, or its settings are invalid for this cluster.
    fn open(&self, cluster: &ClusterSpec) -> Result<Box<dyn Workload>, WorkloadError>;

    /// Returns the mean number of arrivals per hour of an endless workload; `None`, the default, if
    /// the workload ends.
    ///
    /// The command line requires a limit for an endless workload, and ends it in any case after a
    /// multiple of the measured jobs.
    fn jobs_per_hour(&self, _cluster: &ClusterSpec) -> Option<f64> {
        None
    }

    /// Returns the jobs that the command line measures unless options select others. The default is
    /// all jobs.
    fn measured(&self) -> Measure {
        Measure::All
    }
}

/// Jobs in memory.
///
/// ```
/// use blox_core::{GpuCount, JobSpec, Seconds, Time};
/// use blox_workloads::{Jobs, Workload};
/// let at = |s| JobSpec::new(Time::new(s), GpuCount(1), Seconds::new(60.0));
/// let mut jobs = Jobs::new(vec![at(5.0), at(1.0)]);
/// assert_eq!(jobs.next_job()?, Some(at(1.0)));
/// # Ok::<(), blox_workloads::WorkloadError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Jobs {
    rest: std::vec::IntoIter<JobSpec>,
    count: usize,
    notices: Notices,
}

impl Jobs {
    /// Creates a workload of jobs, sorted by submission. Jobs with equal times keep their order.
    pub fn new(mut jobs: Vec<JobSpec>) -> Self {
        sort::by_key(&mut jobs, |job| job.submit);
        Jobs {
            count: jobs.len(),
            rest: jobs.into_iter(),
            notices: Notices::default(),
        }
    }

    /// Adds notices about the source of the jobs.
    #[must_use]
    pub fn with_notices(mut self, notices: Notices) -> Self {
        self.notices = notices;
        self
    }
}

impl Workload for Jobs {
    fn next_job(&mut self) -> Result<Option<JobSpec>, WorkloadError> {
        Ok(self.rest.next())
    }
    fn is_finite(&self) -> bool {
        true
    }
    fn notices(&self) -> &Notices {
        &self.notices
    }
    fn describe(&self) -> String {
        format!("{} in memory", number_of(self.count as u64, "job"))
    }
}

/// The first jobs of another workload.
#[derive(Clone, Debug)]
pub struct Limited<W> {
    inner: W,
    limit: u64,
    left: u64,
}

impl<W: Workload> Limited<W> {
    /// Limits `inner` to at most `limit` jobs.
    pub fn new(inner: W, limit: u64) -> Self {
        Limited {
            inner,
            limit,
            left: limit,
        }
    }
}

impl<W: Workload> Workload for Limited<W> {
    fn next_job(&mut self) -> Result<Option<JobSpec>, WorkloadError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        self.inner.next_job()
    }
    fn is_finite(&self) -> bool {
        true
    }
    fn notices(&self) -> &Notices {
        self.inner.notices()
    }
    fn describe(&self) -> String {
        let first = match self.limit {
            1 => "job".to_owned(),
            n => format!("{n} jobs"),
        };
        format!("the first {first} of {}", self.inner.describe())
    }
}

/// Returns all remaining jobs in memory. An endless workload must be [`Limited`] first.
///
/// # Errors
/// Errors of the workload.
pub fn collect(workload: &mut (impl Workload + ?Sized)) -> Result<Vec<JobSpec>, WorkloadError> {
    let mut jobs = Vec::new();
    while let Some(job) = workload.next_job()? {
        jobs.push(job);
    }
    Ok(jobs)
}

/// Returns the names of all remaining jobs as whole numbers, in order of submission. Returns `None`
/// if a job has another name or none. An endless workload must be [`Limited`] first.
///
/// # Errors
/// Errors of the workload.
pub fn whole_ids(
    workload: &mut (impl Workload + ?Sized),
) -> Result<Option<Vec<u64>>, WorkloadError> {
    let mut ids = Vec::new();
    while let Some(job) = workload.next_job()? {
        let Some(id) = job.name.as_deref().and_then(|name| name.parse().ok()) else {
            return Ok(None);
        };
        ids.push(id);
    }
    Ok(Some(ids))
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::{GpuCount, Seconds, Time};

    fn job(submit: f64, name: &str) -> JobSpec {
        JobSpec::new(Time::new(submit), GpuCount(1), Seconds::new(1.0)).named(name)
    }

    #[test]
    fn jobs_of_one_moment_keep_their_order() {
        let mut jobs = Jobs::new(vec![job(2.0, "c"), job(1.0, "b"), job(1.0, "a")]);
        assert_eq!(jobs.describe(), "3 jobs in memory");
        let names: Vec<_> = collect(&mut jobs)
            .unwrap()
            .into_iter()
            .map(|j| j.submission.name.unwrap())
            .collect();
        assert_eq!(names, ["b".into(), "a".into(), "c".into()]);
    }

    #[test]
    fn a_limit_cuts_and_a_box_passes_through() {
        let jobs: Box<dyn Workload> = Box::new(Jobs::new(vec![job(0.0, "a"), job(1.0, "b")]));
        let mut first = Limited::new(jobs, 1);
        assert_eq!(first.describe(), "the first job of 2 jobs in memory");
        assert_eq!(collect(&mut first).unwrap(), [job(0.0, "a")]);
        assert!(first.notices().is_empty());
    }
}
