//! Slurm as a cluster: a scheduler of the toolkit decides, and Slurm runs the jobs.
//!
//! The scheduler is an ordinary user of Slurm: it needs no plugin and no rights of an administrator.
//! Users submit jobs held, with a comment that begins with `blox`. Each decision becomes orders for
//! such jobs: pin them to nodes and release them, requeue and hold them, or resize them. Slurm
//! itself selects the indices of GPUs within a node.
//!
//! | Task | Start with |
//! |---|---|
//! | Run a scheduler on a Slurm | [`SlurmBackend`] with [`drive`](blox_core::drive::drive) |
//! | Continue after a restart | [`Folder`] |
//! | Decide without processes, as in a test | [`Tracker`] |
//! | Read what Slurm shows | [`Programs`], [`JobInfo`], [`NodeInfo`] |
//! | Describe a job in a comment | [`Description`], [`spec_of`] |
//! | Submit a job that a scheduler starts | [`Batch`] |
//! | Submit another batch script | [`Script`] with [`Programs::submit`] |
//! | Read what a step may use | [`Grant`] |
//! | Turn a queue into a workload and a cluster | [`Imported`] |

#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod accounting;
mod backend;
mod batch;
mod client;
mod document;
mod error;
mod folder;
mod grant;
mod hosts;
mod import;
mod job;
mod node;
mod order;
mod queue;
mod read;
mod script;
mod spec;
mod tasks;
mod tracker;

pub use backend::{CarryError, Pace, SlurmBackend, shares_gpus};
pub use batch::{Batch, Task, requests_gpus};
pub use client::{Programs, Slurm, is_active};
pub use error::SlurmError;
pub use folder::{Folder, FolderError, Restored, is_in_use};
pub use grant::{Grant, suffix};
pub use hosts::hosts;
pub use import::{ImportError, Imported, Place, Selection};
pub use job::{JobInfo, JobState};
pub use node::{Health, NodeInfo};
pub use order::Order;
pub use script::Script;
pub use spec::{Description, MARK, SLURM_JOB, is_marked, spec_of};
pub use tracker::{News, Scope, Snapshot, Tracker};
