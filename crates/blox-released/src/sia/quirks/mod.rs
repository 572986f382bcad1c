//! Differences between the simulator that Sia (SOSP 2023) released and the paper.

mod canonical;
mod placement;
mod released;
mod single;

pub use canonical::Canonical;
pub use placement::RoundAndRound;
pub use released::ReleasedScores;
pub(crate) use released::{LEAVING_OUT, coefficients};
