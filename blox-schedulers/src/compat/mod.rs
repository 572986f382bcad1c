//! Compositions that do exactly what published programs do, where that differs
//! from their papers. Each names the parts that make the difference.

pub mod blox;
pub mod elasticflow;
pub mod gavel;
pub mod lucid;
pub mod pollux;
pub mod sia;
pub mod synergy;
pub mod tiresias;
