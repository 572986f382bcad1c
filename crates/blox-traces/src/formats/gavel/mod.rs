//! Input of Gavel's and Shockwave's simulators: traces, the throughput oracle, and the jobs that
//! Gavel generates.

mod adapting;
mod batches;
mod oracle;
mod trace;

pub use batches::{model_and_batch, samples};
pub use oracle::{Oracle, with_oracle};
pub use trace::read_jobs;
pub(crate) use trace::{open_rows, open_rows_with, oracle_of};
