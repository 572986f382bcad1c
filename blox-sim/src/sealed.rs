//! A token without which no function can be called or overridden.

/// The argument of functions that only this crate implements. They state a property by which the
/// simulator skips calls. In a run, nothing would find a wrong statement.
#[derive(Clone, Copy, Debug)]
pub struct Sealed;
