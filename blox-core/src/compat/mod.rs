//! Features of the languages of published programs that the results of these programs depend on.

pub mod cpython;
