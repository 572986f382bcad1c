//! Figures of the Blox paper.

pub(crate) mod fig12;
pub(crate) mod fig13;
pub(crate) mod fig14;
pub(crate) mod fig16;
pub(crate) mod fig6;
pub(crate) mod table4;
