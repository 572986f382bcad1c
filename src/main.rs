//! The `blox` command: everything that ships, on the command line.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    blox::cli::run(blox::registry())
}
