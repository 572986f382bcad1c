//! Figures of Gavel's paper.

pub(crate) mod fig8;
pub(crate) mod physical;
pub(crate) mod scale;
