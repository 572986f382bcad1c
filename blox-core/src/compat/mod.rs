//! What published programs were written in, where their results depend on it.

pub mod cpython;
