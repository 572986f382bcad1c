//! Tests of schedulers, policies and the simulated world, as one program: each program is linked anew.

#[path = "../support/rehearsal.rs"]
mod rehearsal;
#[path = "../support/mod.rs"]
mod support;

mod antman;
mod baselines;
mod cases;
mod changing;
mod compositions;
mod conformance;
#[cfg(feature = "testing")]
mod divided;
mod elasticflow;
mod estimates;
mod eva;
mod feasibility;
mod formula;
mod gavel;
mod gfs;
mod hived;
mod lessons;
mod loans;
mod lucid;
mod matrix;
mod moving;
mod outside;
mod parts;
mod placement;
mod plain;
mod promises;
#[cfg(feature = "testing")]
mod random;
mod rubick;
mod serving;
mod sharing;
mod sia;
mod skipping;
mod stepping;
mod synergy;
mod tiresias;
mod walks;
mod workloads;
mod world;
mod zero_work;
