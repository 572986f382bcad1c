//! The `blox` command with all built-in components.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    blox::cli::run(blox::registry())
}
