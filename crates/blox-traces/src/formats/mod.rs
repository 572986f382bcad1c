//! Formats of workload files, one module for each.
//!
//! | format | content |
//! |---|---|
//! | [`csv`] | the toolkit's own CSV |
//! | [`jsonl`] | JSON lines: every field of a job |
//! | [`philly`], [`philly_log`] | Microsoft's Philly trace as a table, and as published |
//! | [`itp`] | Microsoft's ITP traces and ElasticFlow's traces |
//! | [`helios`] | SenseTime's Helios traces |
//! | [`pai`], [`openb`], [`spot`] | Alibaba's GPU traces of 2020, 2023 and 2026 |
//! | [`genai`] | requests of Alibaba's image generation of 2026 |
//! | [`acme`] | Shanghai AI Laboratory's Acme traces |
//! | [`slurm`] | Slurm's accounting |
//! | [`supercloud`] | the MIT Supercloud trace |
//! | [`swf`] | the Standard Workload Format of the Parallel Workloads Archive |
//! | [`blox_jobs`], [`gavel`], [`sia`], [`synergy`], [`tiresias`] | files of other simulators |

pub mod acme;
pub mod blox_jobs;
pub mod csv;
pub mod gavel;
pub mod genai;
pub mod helios;
pub mod itp;
pub mod jsonl;
pub mod openb;
pub mod pai;
pub mod philly;
pub mod philly_log;
pub mod sia;
pub mod slurm;
pub mod spot;
pub mod supercloud;
pub mod swf;
pub mod synergy;
pub mod tiresias;
