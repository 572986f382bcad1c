//! Plain data: jobs, clusters, requests for GPUs, and decisions.

pub mod assignment;
pub(crate) mod bits;
pub mod cluster;
pub mod config;
pub mod curve;
pub mod decide_error;
pub mod decision;
pub mod ids;
pub mod job;
pub mod reason;
pub mod shape;
pub mod share;
pub mod sort;
pub mod sorted;
pub mod units;
