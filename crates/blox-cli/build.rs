//! Passes the commit of the source to the program, as `BLOX_COMMIT`, if it is known. Nothing fails
//! without git.
//!
//! The commit is the variable `BLOX_COMMIT`, else the commit in a published package, else the commit of
//! the checkout. Only release builds ask git: other builds would compile again after each commit.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=BLOX_COMMIT");
    let given = std::env::var("BLOX_COMMIT").ok().filter(|c| !c.is_empty());
    let release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let known = given.or_else(published);
    if let Some(commit) = known.or_else(|| release.then(checkout).flatten()) {
        println!("cargo::rustc-env=BLOX_COMMIT={commit}");
    }
}

/// Returns the commit that `cargo package` recorded.
fn published() -> Option<String> {
    let text = std::fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let (_, rest) = text.split_once("\"sha1\"")?;
    rest.split('"').nth(1).map(str::to_owned)
}

/// Returns the commit of the checkout that has this crate, with `-dirty` if tracked files differ.
fn checkout() -> Option<String> {
    let root = Path::new("../..").canonicalize().ok()?;
    // The crate may lie in a repository of another project.
    let top = git(&["rev-parse", "--show-toplevel"])?;
    if Path::new(&top).canonicalize().ok()? != root {
        return None;
    }
    for name in ["HEAD", "index", "packed-refs"] {
        watch(&git(&["rev-parse", "--git-path", name])?);
    }
    if let Some(branch) = git(&["symbolic-ref", "-q", "HEAD"]) {
        watch(&git(&["rev-parse", "--git-path", &branch])?);
    }
    let sources = ["blox-cluster", "blox-core", "blox-policies", "blox-sim"];
    for folder in sources.into_iter().chain(["crates", "examples", "src"]) {
        watch(&format!("../../{folder}"));
    }
    let commit = git(&["rev-parse", "HEAD"])?;
    let dirty = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Some(match dirty.is_empty() {
        true => commit,
        false => format!("{commit}-dirty"),
    })
}

fn watch(path: &str) {
    // A path that does not exist would run this script in each build.
    if Path::new(path).exists() {
        println!("cargo::rerun-if-changed={path}");
    }
}

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
