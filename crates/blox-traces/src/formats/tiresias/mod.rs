//! Files of Tiresias' released simulator.
//!
//! - [`read_rows`]: jobs, with the header
//!   `job_id,num_gpu,submit_time,iterations,model_name,duration,interval`. Times are in seconds; a
//!   duration is truncated to whole seconds. The simulator ignores `iterations` and `interval`;
//!   these and further columns are left out.
//! - [`read_cluster`]: a cluster, with a header and one row of
//!   `num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node`. Memory is in GB.
//!   Nodes are in order of their switches; the switch is the location of a node.
//! - [`read_samples`]: attained services of past jobs in whole GPU-seconds, in the column
//!   `duration`.
//!
//! Cells of jobs and clusters are separated by commas. If the header has no comma, they are
//! separated by single spaces, as in the simulator's `.txt` files.

mod cluster;
mod jobs;
mod samples;

pub use cluster::read_cluster;
pub(crate) use jobs::open_rows;
pub use jobs::read_rows;
pub use samples::read_samples;

use crate::source::{Source, first_line};
use crate::table::{Layout, Table};
use blox_sim::workload::WorkloadError;

/// Returns the separator of the names in a header.
pub(crate) fn delimiter(header: &str) -> u8 {
    if header.contains(',') { b',' } else { b' ' }
}

/// Opens a file of Tiresias' simulator, or of ElasticFlow's simulator, which is derived from it.
pub fn open_table(source: &Source) -> Result<Table, WorkloadError> {
    let layout = Layout {
        delimiter: delimiter(&first_line(source)?),
        ..Layout::CSV
    };
    Table::open_as(source, layout)
}
