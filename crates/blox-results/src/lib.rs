//! Figures of simulations from their rows: summaries, statistics, tables, CSV, pictures, and an HTML
//! page. Reads result folders of `simulate`, `compare` and `sweep`.
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
//! | Compare two runs job by job | [`statistics::Paired`] |
//! | Get the tables of several runs | [`Run`], [`Comparison`] |
//! | Write a table | [`grid::Grid`] |
//! | Write result files | [`write_jobs`], [`write_timeline`], [`AssignmentWriter`] |
//! | Read a result folder | [`Folder::open`], [`RunResults`] |
//! | Read the jobs and assignments of a run | [`JobRow`], [`AssignmentSpan`] |
//! | Draw all pictures of a folder | [`pictures()`], [`Picture`] |
//! | Write the HTML page | [`report()`] |
//! | Get the figures of a simulation by name | [`Figures`] |
//! | Get the figures of groups of jobs | [`Groups`] |
//! | Compare schedulers over several seeds | [`OverSeeds`] |

pub mod chrome;
mod comparison;
mod error;
mod fields;
mod figures;
mod folder;
pub mod grid;
mod groups;
pub mod losses;
mod overview;
mod pictures;
mod report;
mod rows;
mod run;
mod seeds;
pub mod statistics;
mod summary;
mod sweep;
mod table;
mod text;

pub use blox_table::{Cell, CsvTable, TableSink, WriteError};
pub use comparison::{Comparison, Run, called, marks, of_rho};
pub use error::FolderError;
pub use fields::{Fields, figure_columns};
pub use figures::{
    Collected, Figures, collected_columns, ended, estimate, flattened, part_columns, partial,
};
pub use folder::Folder;
pub use groups::{Group, Groups};
pub use overview::{ALIKE, FigureRow, MEDIANS, Rows, intervals, table_of};
pub use pictures::{
    GANTT, GROUP_DISTRIBUTION, JCT, Kind, Picture, SUMMARIES, jct_over_seeds, pictures,
};
pub use report::report;
pub use rows::{AssignmentWriter, InputColumns, write_jobs, write_rounds, write_timeline};
pub use run::{AssignmentSpan, JobRow, RunResults};
pub use seeds::{Entry, OverSeeds, Repeated, SeedRun};
pub use summary::{
    COLUMNS, Column, Deadlines, Evictions, Fairness, MissCauses, Services, Summary, TrainingFigures,
};
pub use text::{in_groups, in_paths, number_of, quoted, whole};
