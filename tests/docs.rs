//! Documentation in the sources: examples of public traits, front pages of the libraries, and
//! facts that two files state.

#[path = "support/tree.rs"]
mod tree;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use tree::{members, sources};

/// Public traits without an example.
const ERASED: [&str; 8] = [
    // Implemented for every type that has the role.
    "AnyPolicy",
    "AnyAdmission",
    "AnyClusterManager",
    "AnyScheduling",
    "AnyPlacement",
    "AnyExecution",
    "AnyOverheads",
    "AnyShares",
];
/// Traits in private modules.
const PRIVATE: [&str; 2] = ["Program", "Text"];

fn read(path: impl AsRef<Path>) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Returns the folders of all libraries of the workspace.
fn libraries() -> Vec<String> {
    let manifest = read("Cargo.toml");
    let members = members(&manifest).into_iter();
    members.map(str::to_owned).collect()
}

/// Returns the public traits of a source with their documentation.
fn traits(source: &str) -> Vec<(String, String)> {
    let (mut doc, mut found) = (String::new(), Vec::new());
    let mut attribute = false;
    for line in source.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("///") {
            doc.push_str(text);
            doc.push('\n');
        } else if attribute || line.starts_with("#[") {
            attribute = !line.ends_with(']');
        } else {
            let doc = std::mem::take(&mut doc);
            if let Some(rest) = line.strip_prefix("pub trait ") {
                let end = rest.find(|c: char| !c.is_alphanumeric()).unwrap();
                found.push((rest[..end].to_owned(), doc));
            }
        }
    }
    found
}

#[test]
fn every_public_trait_has_an_example() {
    let mut seen = BTreeSet::new();
    for library in libraries() {
        let mut files = Vec::new();
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        sources(&root.join(&library).join("src"), &mut files);
        for file in files {
            for (name, doc) in traits(&read(&file)) {
                let place = format!("{}: {name}", file.display());
                let erased = ERASED.contains(&&*name);
                assert!(!erased || doc.contains("by hand"), "{place}");
                let exempt = erased || PRIVATE.contains(&&*name);
                assert_ne!(doc.contains("```"), exempt, "{place}");
                seen.insert(name);
            }
        }
    }
    for name in ERASED.iter().chain(&PRIVATE) {
        assert!(seen.contains(*name), "{name} is gone");
    }
    assert!(seen.len() > 40, "{seen:?}");
}

#[test]
fn every_front_page_has_a_table_of_tasks() {
    for library in libraries() {
        let source = read(format!("{library}/src/lib.rs"));
        if !source.contains("pub ") {
            // A package without code.
            continue;
        }
        let front: Vec<&str> = source.lines().filter(|l| l.starts_with("//!")).collect();
        let table = front.iter().position(|l| *l == "//! | Task | Start with |");
        let table = table.unwrap_or_else(|| panic!("{library}: no table of tasks"));
        let rows = front[table + 2..].iter();
        let rows = rows.take_while(|l| l.starts_with("//! |")).count();
        assert!(rows >= 4, "{library}: {rows}");
    }
}

/// Returns the value of the first line that starts with a key.
fn value<'a>(text: &'a str, key: &str) -> &'a str {
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    line.unwrap_or_else(|| panic!("{key}"))
        .trim()
        .trim_matches('"')
}

#[test]
fn the_citation_has_the_version_of_the_packages() {
    let version = value(&read("Cargo.toml"), "version = ").to_owned();
    assert_eq!(value(&read("CITATION.cff"), "version:"), version);
}

#[test]
fn every_test_of_the_list_of_faults_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for dir in ["blox-cluster", "tests"] {
        sources(&root.join(dir), &mut files);
    }
    let all: String = files.iter().map(read).collect();
    let page = read("docs/src/reference/cluster-faults.md");
    let mut rows = 0;
    for line in page.lines().filter(|line| line.starts_with("| ")) {
        let Some((_, tests)) = line.trim_end_matches(" |").rsplit_once(" | ") else {
            continue;
        };
        let names: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        rows += usize::from(!names.is_empty());
        for name in names {
            assert!(all.contains(&format!("fn {name}(")), "{line}");
        }
    }
    assert_eq!(rows, 60);
}
