//! The cluster: what it is made of and who holds it.

pub mod spec;
