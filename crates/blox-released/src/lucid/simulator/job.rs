//! What the original keeps about a job.

use super::nodes::{Nodes, Part};
use blox_core::perf::PairTable;
use blox_core::{JobSpec, ServiceClass};

pub use blox_policies::estimate::ESTIMATE;

/// The attribute of a job that holds its sharing score: 0 tiny, 1 medium, 2 jumbo.
pub const SHARING_SCORE: &str = "sharing_score";
/// The attribute of a job that holds the GPU memory that it was measured to need, in MiB.
pub const GPU_MEMORY: &str = "gmem";

/// A job that comes in. Times are whole seconds.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub id: u32,
    /// What it is called, if that is a number; else as `id`.
    pub number: i64,
    pub submit: i64,
    pub gpus: u32,
    pub duration: i64,
    pub estimate: f64,
    pub score: f64,
    pub memory: f64,
    /// Model, data set, batch size and precision as the pair table names them.
    pub profile: Option<String>,
    /// Moments with what it is worth to end by then.
    pub deadlines: Vec<(f64, f64)>,
    pub best_effort: bool,
}

impl Job {
    /// Reads the job at place `id` of the workload.
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
            // Without a profile it is packed with nobody.
            score: number(SHARING_SCORE).unwrap_or(3.0),
            memory: number(GPU_MEMORY).unwrap_or(f64::MAX),
            profile: PairTable::key_of(spec),
            deadlines: extras
                .deadlines
                .iter()
                .map(|d| (d.at.secs(), d.value))
                .collect(),
            best_effort: extras.class == ServiceClass::BestEffort,
        }
    }
}

/// What became of a job, as the original logs it. Times are seconds of its clock.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// The job.
    pub job: u32,
    /// Its first start.
    pub start: i64,
    /// Its end.
    pub end: i64,
    /// All its waits together.
    pub queue: i64,
    /// How often it was preempted.
    pub preemptions: u32,
    /// The key by which it was ordered; -1 where it never had one.
    pub priority: f64,
    /// Its GPUs at the end: names of nodes with their GPUs.
    pub nodes: Vec<(u32, Vec<u32>)>,
    /// True if it ended alone on its GPUs, as the original believed.
    pub exclusive: bool,
    /// Its speed at the end, 1 for alone.
    pub rate: f64,
    /// Seconds of work left at the end, at most 0.
    pub remain: f64,
    /// When it was last put beside another job; 0 for never.
    pub colocated: i64,
    /// When it was last found to be alone again; 0 for never.
    pub separated: i64,
}

impl Record {
    pub(super) fn name_nodes(&mut self, nodes: &Nodes, parts: &[Part]) {
        let named = parts
            .iter()
            .map(|p| (nodes.list[p.0].name, Nodes::gpus_of(*p).collect()));
        self.nodes = named.collect();
    }
}
