//! Tests of the core as a whole.

mod composition;
mod conformance;
mod functions;
mod planted;
mod regressions;
mod vocabulary;
