//! Traces of the blox toolkit: readers, writers, generators and statistics of jobs, and the files
//! that describe clusters and applications.
//!
//! Every source of jobs implements [`Workload`](blox_workloads::Workload). [`Trace`] and
//! [`open_file`] read files, [`generate`] makes jobs.
//!
//! | format | content |
//! |---|---|
//! | [`formats`] | one module for each format |
//! | [`map`] | any other table, by its columns |
//!
//! | Task | Start with |
//! |---|---|
//! | Read a file of jobs | [`open_file`], [`Trace`] |
//! | Check a file and count its defects | [`check`], [`Checked`] |
//! | Read a table with other column names | [`ColumnMap`], [`map`] |
//! | Write jobs | [`formats::csv`], [`formats::jsonl`] |
//! | Generate jobs | [`generate`] |
//! | Name generated jobs on a command line | [`registry`] |
//! | Select a window or a sample of jobs | [`sample`] |
//! | Add speeds by GPU count from a table | [`scaling`] |
//! | Compute statistics | [`stats`] |
//! | Read a cluster | [`cluster_file`], [`lucid_cluster`] |
//! | Read prices of offers | [`prices`] |
//! | Read the applications of training jobs | [`applications`] |

#![warn(missing_docs)]

pub mod applications;
mod cell;
mod cells;
pub mod cluster_file;
mod draws;
mod edited;
pub(crate) mod file;
mod format;
pub mod formats;
pub mod generate;
mod guess;
pub mod lucid_cluster;
pub mod map;
mod mapped;
pub(crate) mod moment;
mod open;
pub mod prices;
pub mod registry;
mod rows;
pub mod sample;
pub mod scaling;
pub mod source;
pub mod stats;
pub mod table;
mod trace;
mod words;

pub use cells::Cells;
pub use edited::Edited;
pub use file::FileWorkload;
pub use format::{FormatError, ReadOptions};
pub use formats::Format;
pub use map::{ColumnMap, MapError};
pub use moment::parse_date;
pub use open::open_file;
pub use rows::Rows;
pub use source::fingerprint;
pub use trace::{Checked, Trace, check};

/// Returns the fields that most reader tests compare: name, submission and duration in seconds,
/// GPUs.
#[cfg(test)]
pub(crate) fn rows_of(jobs: &[blox_core::JobSpec]) -> Vec<(&str, f64, u32, f64)> {
    jobs.iter()
        .map(|j| {
            let name = j.name.as_deref().unwrap();
            (name, j.submit.secs(), j.gpus.get(), j.duration().secs())
        })
        .collect()
}
