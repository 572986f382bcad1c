//! Formats of workload files, one module for each.
//!
//! | format | content |
//! |---|---|
//! | [`csv`] | the toolkit's own CSV |
//! | [`jsonl`] | JSON lines: every field of a job |
//! | [`philly`], [`philly_log`] | Microsoft's Philly trace as a table, and as published |
//! | [`itp`] | Microsoft's ITP traces and ElasticFlow's traces |
//! | [`helios`] | SenseTime's Helios traces |
//! | [`pai`], [`openb`] | Alibaba's GPU traces of 2020 and 2023 |
//! | [`slurm`] | Slurm's accounting |
//! | [`blox_jobs`], [`gavel`], [`sia`], [`synergy`], [`tiresias`] | files of other simulators |

pub mod blox_jobs;
pub mod csv;
pub mod gavel;
pub mod helios;
pub mod itp;
pub mod jsonl;
pub mod openb;
pub mod pai;
pub mod philly;
pub mod philly_log;
pub mod sia;
pub mod slurm;
pub mod synergy;
pub mod tiresias;
