//! State of a job in the original.

use super::nodes::{Nodes, Part};
use blox_core::JobSpec;
use blox_perf::PairTable;

pub use blox_policies::estimate::ESTIMATE;

/// Attribute with a job's sharing score: 0 tiny, 1 medium, 2 jumbo.
pub const SHARING_SCORE: &str = "sharing_score";
/// Attribute with a job's measured GPU memory in MiB.
pub const GPU_MEMORY: &str = "gmem";

/// Sets a numeric attribute of a job.
pub(crate) fn set_attribute(job: &mut JobSpec, name: &str, value: f64) {
    let extras = job.extras.get_or_insert_default();
    extras.attributes.insert(name.into(), value.into());
}

/// A submitted job. Times are whole seconds.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub id: u32,
    /// Number in the job's name, or `id` if the name is not a number.
    pub number: i64,
    pub submit: i64,
    pub gpus: u32,
    pub duration: i64,
    pub estimate: f64,
    pub score: f64,
    pub memory: f64,
    /// Model, data set, batch size and precision in the form of the pair table's keys.
    pub profile: Option<String>,
    /// Deadlines and their values.
    pub deadlines: Vec<(f64, f64)>,
    pub best_effort: bool,
}

impl Job {
    /// Reads the job at index `id` of the workload.
    pub fn of(id: u32, spec: &JobSpec) -> Self {
        let extras = spec.extras();
        let number = |name: &str| extras.attributes.get(name).and_then(|v| v.as_f64());
        let called = spec.name.as_deref().and_then(|name| name.parse().ok());
        Job {
            id,
            number: called.unwrap_or(i64::from(id)),
            submit: spec.submit.secs() as i64,
            gpus: spec.gpus.get(),
            duration: spec.duration().secs().ceil() as i64,
            estimate: number(ESTIMATE).unwrap_or(f64::MAX),
            // A job without a profile is never packed.
            score: number(SHARING_SCORE).unwrap_or(3.0),
            memory: number(GPU_MEMORY).unwrap_or(f64::MAX),
            profile: PairTable::key_of(spec),
            deadlines: extras
                .deadlines
                .iter()
                .map(|d| (d.at.secs(), d.value))
                .collect(),
            best_effort: extras.class.is_spot(),
        }
    }
}

/// Result of a job as the original logs it. Times are in seconds of its clock.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// The job.
    pub job: u32,
    /// First start.
    pub start: i64,
    /// End of the job.
    pub end: i64,
    /// Total waiting time.
    pub queue: i64,
    /// Number of preemptions.
    pub preemptions: u32,
    /// Sort key of the job, or -1 if it never had one.
    pub priority: f64,
    /// GPUs at the end: node names with their GPUs.
    pub nodes: Vec<(u32, Vec<u32>)>,
    /// True if the original counted the job as alone on its GPUs at the end.
    pub exclusive: bool,
    /// Speed at the end. A job that runs alone has speed 1.
    pub rate: f64,
    /// Remaining work in seconds at the end, at most 0.
    pub remain: f64,
    /// Last time at which the job was packed with another job, or 0.
    pub colocated: i64,
    /// Last time at which the job was found to be alone again, or 0.
    pub separated: i64,
}

impl Record {
    /// Returns the record of a job that runs alone and has no sort key.
    pub(crate) fn alone(job: u32) -> Self {
        Record {
            job,
            priority: -1.0,
            exclusive: true,
            rate: 1.0,
            ..Record::default()
        }
    }

    pub(super) fn name_nodes(&mut self, nodes: &Nodes, parts: &[Part]) {
        let named = parts
            .iter()
            .map(|p| (nodes.list[p.0].name, Nodes::gpus_of(*p).collect()));
        self.nodes = named.collect();
    }
}
