//! From the rows of simulations to figures: summaries, statistics, tables, CSV, pictures, and an
//! HTML page. Reads result folders of `simulate`, `compare` and `sweep`.
//!
//! ```no_run
//! use blox_results::{Folder, pictures};
//!
//! let folder = Folder::open("results".as_ref())?;
//! for picture in pictures(&[folder])? {
//!     std::fs::write(format!("{}.svg", picture.name), picture.svg)?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | Task | Start with |
//! |---|---|
//! | Understand a metric | [`Summary`] |
//! | Compare two runs | [`statistics::Paired`] |
//! | Write result files | [`write_jobs`], [`write_timeline`], [`AssignmentWriter`] |
//! | Read a result folder | [`Folder::open`], [`RunResults`] |
//! | Read the jobs and assignments of a run | [`JobRow`], [`AssignmentSpan`] |
//! | Draw all pictures of a folder | [`pictures()`], [`Picture`] |
//! | Write the HTML page | [`report()`] |
//! | Get the figures of a simulation by name | [`Figures`] |
//! | Get the figures of groups of jobs | [`Groups`] |
//! | Compare schedulers over several seeds | [`SeedRun`], [`Repeated`] |

mod error;
mod fields;
mod figures;
mod folder;
mod groups;
mod pictures;
mod report;
mod rows;
mod run;
pub mod statistics;
mod summary;
mod sweep;
mod table;

pub use blox_table::{Cell, CsvTable, TableSink, WriteError};
pub use error::FolderError;
pub use fields::{Fields, figure_columns};
pub use figures::{
    Collected, Figures, OF_COMPLETED, PARTIAL, Repeated, SeedRun, collected_columns, columns,
    ended, estimate, flattened, group_columns, of_measured, part_columns, partial, total,
};
pub use folder::Folder;
pub use groups::{Group, Groups, compare_values};
pub use pictures::{
    AVERAGES, DEADLINE_COUNTS, FAIRNESS, GANTT, GROUP_AVERAGES, GROUP_DISTRIBUTION, LATENESS,
    Picture, SUMMARIES, WAITS, jct_over_seeds, pictures,
};
pub use report::report;
pub use rows::{AssignmentWriter, InputColumns, write_jobs, write_rounds, write_timeline};
pub use run::{AssignmentSpan, JobRow, RunResults, value_or_none};
pub use summary::{
    COLUMNS, Column, Deadlines, Evictions, Fairness, MissCauses, Services, Summary, TrainingFigures,
};

/// Formats a number with a comma between thousands.
pub fn whole(n: u64) -> String {
    blox_plot::grouped(n as f64, 0)
}

/// Groups items with equal keys, in order of the first item of each group.
pub fn in_groups<K: PartialEq, T>(items: impl IntoIterator<Item = (K, T)>) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for (key, item) in items {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, list)) => list.push(item),
            None => groups.push((key, vec![item])),
        }
    }
    groups
}

/// Replaces the characters of a text that do not fit into a path.
pub fn in_paths(text: &str) -> String {
    let fit = |c| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '.' | '=' => c,
        _ => '_',
    };
    text.chars().map(fit).collect()
}

/// Formats a count with its noun: `1 node`, `2 nodes`.
pub fn number_of(count: impl Into<u64>, what: &str) -> String {
    match count.into() {
        1 => format!("1 {what}"),
        n => format!("{} {what}s", whole(n)),
    }
}

/// Quotes a word of a command line for a shell, if it must be.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=,@%+…".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}
