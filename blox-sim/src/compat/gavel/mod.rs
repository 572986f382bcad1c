//! What Gavel's and Shockwave's simulators read: traces, the throughput oracle, and
//! the jobs that Gavel's makes up.

mod batches;
mod generate;
mod oracle;
mod trace;

pub use batches::{model_and_batch, samples};
pub use generate::GavelWorkload;
pub use oracle::Oracle;
pub(crate) use trace::open_rows;
pub use trace::{read_jobs, read_trace};
