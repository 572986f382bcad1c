//! A token without which no function can be called or overridden.

/// The argument of functions that only this crate implements: they state a property by which the
/// simulator skips calls, and no check would find a wrong statement in a run.
#[derive(Clone, Copy, Debug)]
pub struct Sealed;
