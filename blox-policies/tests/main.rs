//! Tests of policies in which several parts act together, or that another solver checks.

mod gavel;
mod papers;
mod regressions;
mod shockwave;
