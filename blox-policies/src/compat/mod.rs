//! Rules of published programs where they differ from their papers.

pub mod blox;
pub mod elasticflow;
pub mod gavel;
pub mod lucid;
pub mod sia;
pub mod synergy;
pub mod tiresias;
