//! A scheduler on a real Slurm. Each test prints why and passes where Slurm cannot run.
#![allow(
    clippy::disallowed_methods,
    reason = "limits of tests, never for a decision"
)]

mod cluster;
mod nemesis;
mod running;
mod users;
