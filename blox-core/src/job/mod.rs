//! Jobs.

pub mod spec;
