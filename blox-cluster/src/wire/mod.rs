//! Typed messages on the wire, and the way from and to the machines' own.

#[rustfmt::skip]
#[allow(missing_docs, clippy::all, reason = "generated")]
pub mod generated;

mod convert;

pub use convert::{WireError, job_spec};
pub use generated as pb;

/// Largest message that is taken, in bytes.
pub const LARGEST: usize = 4 << 20;
