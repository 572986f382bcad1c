//! Files and steps of Tiresias' released simulator.
//!
//! - [`read_jobs`]: jobs, a header with
//!   `job_id,num_gpu,submit_time,iterations,model_name,duration,interval`.
//!   Times are in seconds, a duration is cut to whole ones. `iterations` and
//!   `interval` were never looked at; they and further columns are left out.
//! - [`read_cluster`]: a cluster, a header and one row of
//!   `num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node`,
//!   memory in GB. Nodes are in order of their switches, which are their location.
//! - [`read_samples`]: services of past jobs in whole GPU-seconds, a column
//!   `duration`.
//!
//! Cells of jobs and clusters stand between commas or, where the header has none, between
//! single spaces: the program reads `.txt` files so.

mod cluster;
mod jobs;
mod samples;

pub use cluster::read_cluster;
pub(crate) use jobs::open_rows;
pub use jobs::{read_jobs, read_rows};
pub use samples::read_samples;

use crate::source::{Source, first_line};
use crate::table::{Layout, Table};
use blox_sim::workload::WorkloadError;

/// Returns what stands between two names of a header.
pub(crate) fn delimiter(header: &str) -> u8 {
    if header.contains(',') { b',' } else { b' ' }
}

/// Opens a file as the program does, and as ElasticFlow's, which grew from it.
pub fn open_table(source: &Source) -> Result<Table, WorkloadError> {
    let layout = Layout {
        delimiter: delimiter(&first_line(source)?),
        ..Layout::CSV
    };
    Table::open_as(source, layout)
}
