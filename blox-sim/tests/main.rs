//! Tests of the simulator as a whole.

mod contention;
mod fingerprint;
mod forecast;
mod links;
mod memory;
mod reasons;
mod simulation;
mod virtual_clusters;
