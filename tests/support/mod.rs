//! Helpers to run the real binary.

pub mod codes;

use blox::registry::Registry;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// Returns a command for the program.
pub fn blox() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_blox"));
    // The token of the user who runs the tests stays as it is.
    command.env("XDG_STATE_HOME", env!("CARGO_TARGET_TMPDIR"));
    command
}

/// Result of a run.
#[derive(Debug)]
pub struct Seen {
    /// The exit code.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error, without the codes of errors.
    pub err: String,
}

impl From<Output> for Seen {
    fn from(output: Output) -> Self {
        Seen {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: codes::without(&output.stderr),
        }
    }
}

/// Runs the program in a folder.
pub fn at(dir: &Path, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Seen {
    blox().current_dir(dir).args(args).output().unwrap().into()
}

/// Runs a command line, split at spaces, in a folder. It must succeed.
#[allow(dead_code, reason = "not all tests that share this module call it")]
pub fn good(dir: &Path, line: &str) -> Seen {
    let seen = at(dir, line.split_whitespace());
    assert_eq!(seen.code, Some(0), "{line}\n{}", seen.err);
    seen
}

/// Runs a command line in a folder. It must fail with exit code 2. Returns standard error.
#[allow(dead_code, reason = "not all tests that share this module call it")]
pub fn failed(dir: &Path, line: &str) -> String {
    let seen = at(dir, line.split_whitespace());
    assert_eq!(seen.code, Some(2), "{line}\n{}", seen.err);
    seen.err
}

/// Starts a command line in a folder.
#[allow(dead_code, reason = "not all tests that share this module call it")]
pub fn start(dir: &Path, line: &str) -> Child {
    let mut command = blox();
    let command = command.current_dir(dir).args(line.split_whitespace());
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Runs a command line with the components of a registry.
#[allow(dead_code, reason = "not all tests that share this module call it")]
pub fn run_with(registry: &Registry, line: &str) -> Seen {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = blox::cli::run_with(registry, line.split_whitespace(), &mut out, &mut err);
    Seen {
        code: Some(code),
        out: String::from_utf8(out).unwrap(),
        err: codes::without(&err),
    }
}

/// All files below a folder with their bytes.
#[allow(dead_code, reason = "not all tests that share this module call it")]
pub fn bytes(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(dir).unwrap().display().to_string();
                files.push((name, fs::read(path).unwrap()));
            }
        }
    }
    files.sort();
    files
}
