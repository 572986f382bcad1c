//! Admission, cluster, scheduling and placement policies of the blox toolkit.
//!
//! Each kind has a folder, and each policy a file. The policies follow the papers. If a published
//! program deviates, its rule is a component of `blox-released` that is composed by name, never a
//! flag.
//!
//! Read [`scheduling::Fifo`] and [`placement::Consolidated`] first: the simplest policies.
//!
//! | Task | Start with |
//! |---|---|
//! | Choose a scheduling policy | [`scheduling`] |
//! | Choose a placement | [`placement`] |
//! | Write a rule that finds GPUs for one job | [`placement::NodeSelector`], [`placement::InOrder`] |
//! | Let small jobs pass a blocked job | [`placement::Blocked`], [`placement::EasyBackfill`] |
//! | Resize or migrate jobs | [`placement::Resizing`], [`placement::Migrating`] |
//! | Place jobs by their sensitivity | [`placement::Profiled`], [`placement::Sensitivity`] |
//! | Limit jobs or GPUs of users | [`admission::Quota`] |
//! | Hold jobs back under load | [`admission::LoadThreshold`] |
//! | Service, isolate or power off nodes | [`cluster::Maintenance`], [`cluster::Quarantine`], [`cluster::PowerSaving`] |
//! | Order jobs by a formula | [`formula`], [`scheduling::ByFormula`] |
//! | Estimate running times | [`estimate`] |
//! | Divide time over GPU types | [`scheduling::gavel::SharePolicy`] |
//! | Rate Sia's configurations | [`scheduling::sia::Scores`], [`scheduling::sia::Ties`] |
//!
//! The traits of the policies are in [`blox_core::policy`].

#![warn(missing_docs)]

pub mod admission;
pub mod cluster;
pub mod estimate;
pub mod formula;
pub mod placement;
pub mod scheduling;
mod splitmix;
mod type_sets;
mod unit;
