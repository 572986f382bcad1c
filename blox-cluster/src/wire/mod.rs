//! Typed messages on the wire, and the way from and to the machines' own.

#[rustfmt::skip]
#[allow(missing_docs, clippy::all, reason = "generated")]
pub mod generated;

mod convert;

pub use convert::{WireError, check_new, job_spec};
pub use generated as pb;

/// Largest message that is taken, in bytes.
pub const LARGEST: usize = 4 << 20;

/// The protocol's own description, for reflection.
pub const DESCRIPTOR: &[u8] = include_bytes!("descriptor.bin");

/// Most bytes of a job's description.
pub const LARGEST_JOB: usize = 256 << 10;
