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

/// A small input, with which tests try the reader.
pub(super) const EXAMPLE: &str = "\
ResNet-18 (batch size 32)\tpython3 main.py\tcifar10\t--num_steps\t1\t9000\t1\t1\t-1\t0.5
LM (batch size 20)\tpython3 main.py\t\t--steps\t0\t400.5\t2\t2.5\t3600.25\t7.75
ResNet-18 (batch size 16)\tpython3 main.py\tcifar10\t--num_steps\t1\t80000\t1\taccordion\t1\t-1\t640\t9
ResNet-18 (batch size 16)\tpython3 main.py\tcifar10\t--num_steps\t1\t70000\t1\tgns\t1\t-1\t640\t12
";
