//! A job on GPUs for an interval of time.

/// A job on GPUs for an interval of time.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// The number of the job.
    pub job: u32,
    /// The identifier of the job, which a hint shows.
    pub job_id: Box<str>,
    /// The GPUs as ranges with both ends included, numbered through all nodes.
    pub gpus: Vec<(u32, u32)>,
    /// Start in seconds.
    pub start_s: f64,
    /// End in seconds.
    pub end_s: f64,
}
