//! Reads the files of this workspace.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the folders of the workspace's libraries, given the manifest of the root: all members
/// except packages of tests.
pub fn members(manifest: &str) -> Vec<&str> {
    let members = manifest.split("members = [").nth(1).unwrap();
    let members = members.split(']').next().unwrap();
    let folders = members.split('"').skip(1).step_by(2);
    folders
        .filter(|folder| !folder.ends_with("/tests"))
        .collect()
}

/// Collects the Rust files in a folder and below it.
pub fn sources(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => sources(&path, into),
            false => into.extend(path.extension().is_some_and(|e| e == "rs").then_some(path)),
        }
    }
}
