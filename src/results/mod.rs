//! Result folders, as `simulate` and `compare` write them: read again, drawn,
//! and as one page.
//!
//! ```no_run
//! use blox::results::{Folder, pictures};
//!
//! let folder = Folder::open("results".as_ref())?;
//! for picture in pictures(&[folder])? {
//!     std::fs::write(format!("{}.svg", picture.name), picture.svg)?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod fairness;
mod folder;
mod pictures;
mod report;
mod sweep;
mod table;

pub use fairness::finish_time_fairness;
pub use folder::{AssignmentSpan, Folder, FolderError, JobRow, RunResults};
pub use pictures::{Picture, pictures};
pub use report::report;
