//! Tests of the command line, as one program: each program is linked anew.

#[path = "../support/mod.rs"]
mod support;

mod cli;
mod formats;
mod pictures;
mod recipes;
mod shards;
mod sweep;
mod trace;
mod transcripts;
mod walk;
