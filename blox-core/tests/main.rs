//! Tests of the core as a whole.

mod composition;
mod conformance;
mod planted;
mod regressions;
mod vocabulary;
