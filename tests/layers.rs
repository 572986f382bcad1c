//! Permitted dependencies between crates, import cycles between files, and features of packages.

#[path = "support/imports.rs"]
mod imports;
#[path = "support/tree.rs"]
mod tree;

use imports::{Module, circles, code_of, graph, is_of_name};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use tree::{members, sources};

/// The folder of each crate, and the crates of this workspace that it may depend on.
const CRATES: [(&str, &[&str]); 26] = [
    ("blox-core", &[]),
    ("crates/blox-cpython", &[]),
    ("crates/blox-features", &[]),
    ("crates/blox-learn", &[]),
    ("crates/blox-plot", &[]),
    ("crates/blox-solve", &[]),
    ("crates/blox-table", &[]),
    ("crates/blox-microlp", &["solve"]),
    ("crates/blox-perf", &["core", "solve"]),
    ("blox-cluster", &["core", "perf"]),
    ("blox-policies", &["core", "cpython", "perf", "solve"]),
    ("crates/blox-registry", &["core"]),
    ("crates/blox-slurm", &["core"]),
    ("crates/blox-workloads", &["core"]),
    ("blox-sim", &["core", "perf", "registry", "workloads"]),
    ("crates/blox-testing", &["core", "perf", "sim"]),
    ("crates/blox-parquet", &["table"]),
    (
        "crates/blox-traces",
        &[
            "core",
            "cpython",
            "parquet",
            "perf",
            "registry",
            "table",
            "workloads",
        ],
    ),
    ("crates/blox-results", &["core", "plot", "sim", "table"]),
    (
        "crates/blox-components",
        &[
            "core",
            "learn",
            "microlp",
            "perf",
            "policies",
            "registry",
            "sim",
            "traces",
            "workloads",
        ],
    ),
    (
        "examples/schedulers",
        &["components", "core", "policies", "registry", "sim"],
    ),
    (
        "crates/blox-experiment",
        &[
            "core",
            "perf",
            "policies",
            "registry",
            "results",
            "sim",
            "traces",
            "workloads",
        ],
    ),
    (
        "crates/blox-claims",
        &[
            "core",
            "experiment",
            "perf",
            "registry",
            "results",
            "sim",
            "traces",
        ],
    ),
    (
        "crates/blox-released",
        &[
            "components",
            "core",
            "cpython",
            "experiment",
            "learn",
            "microlp",
            "perf",
            "plot",
            "policies",
            "registry",
            "results",
            "schedulers",
            "sim",
            "solve",
            "traces",
        ],
    ),
    (
        "crates/blox-cli",
        &[
            "claims",
            "cluster",
            "components",
            "core",
            "experiment",
            "features",
            "learn",
            "parquet",
            "plot",
            "registry",
            "released",
            "results",
            "schedulers",
            "sim",
            "slurm",
            "traces",
        ],
    ),
    (
        ".",
        &[
            "claims",
            "cli",
            "components",
            "core",
            "experiment",
            "perf",
            "plot",
            "policies",
            "registry",
            "released",
            "results",
            "schedulers",
            "sim",
            "slurm",
            "solve",
            "testing",
            "traces",
            "workloads",
        ],
    ),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The crates of this workspace that a manifest names as dependencies, without `blox-`.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let mut inside = false;
    let mut all = BTreeSet::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            // Test dependencies are not restricted.
            inside = line.ends_with("dependencies]") && !line.contains("dev-");
        } else if let Some(rest) = line.strip_prefix("blox-").filter(|_| inside) {
            let end = rest.find(|c: char| !c.is_ascii_lowercase() && c != '-');
            all.insert(rest[..end.unwrap_or(rest.len())].to_owned());
        }
    }
    all
}

#[test]
fn crates_depend_only_on_lower_ones() {
    for (folder, allowed) in CRATES {
        let manifest = fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap();
        // The root's manifest ends with a table of the workspace's crates.
        let own = manifest.split("[workspace.dependencies]").next().unwrap();
        let allowed: BTreeSet<String> = allowed.iter().map(|s| (*s).to_owned()).collect();
        assert_eq!(dependencies(own), allowed, "{folder}/Cargo.toml");
    }
}

#[test]
fn every_member_of_the_workspace_has_a_layer() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let members: BTreeSet<&str> = members(&manifest).into_iter().collect();
    assert_eq!(members, CRATES.iter().map(|(folder, _)| *folder).collect());
}

#[test]
fn files_do_not_import_each_other_in_circles() {
    let mut found = String::new();
    for (folder, _) in CRATES {
        let graph = graph(&root().join(folder).join("src"));
        for circle in circles(&graph) {
            let name = |module: &&Module| match module[..] {
                [] => "(root)".to_owned(),
                _ => module.join("::"),
            };
            let names: Vec<String> = circle.iter().map(name).collect();
            found += &format!("{folder}: {}\n", names.join(", "));
        }
    }
    assert_eq!(found, "", "move what both files need to a third file");
}

/// Folders of `blox-core`, each of which imports only from itself and from those before it.
const CORE: [&str; 4] = ["model", "state", "policy", "runtime"];

#[test]
fn layers_of_the_core_import_only_lower_ones() {
    let layer = |module: &Module| {
        CORE.iter()
            .position(|l| module.first().is_some_and(|m| m == l))
    };
    let mut found = Vec::new();
    // The root names its layers for the rest of the crate.
    let files = graph(&root().join("blox-core/src")).into_iter();
    for (file, imports) in files.filter(|(file, _)| !file.is_empty()) {
        // Files beside the layers import nothing.
        let own = layer(&file);
        let higher = |to: &&Module| own.is_none() || layer(to) > own;
        let higher = imports.iter().filter(higher).map(|to| to.join("::"));
        found.extend(higher.map(|to| format!("{} imports {to}", file.join("::"))));
    }
    assert_eq!(found, [""; 0]);
}

#[test]
fn circles_are_found_by_each_way_to_name_a_file() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("d")).unwrap();
    let write = |file: &str, text: &str| fs::write(dir.path().join(file), text).unwrap();
    let found = || {
        let graph = graph(dir.path());
        let names = |circle: &BTreeSet<&Module>| {
            let names: Vec<String> = circle.iter().map(|module| module.join("::")).collect();
            names.join(" ")
        };
        circles(&graph).iter().map(names).collect::<Vec<String>>()
    };
    let plain = [
        (
            "lib.rs",
            "mod a;\nmod b;\nmod c;\nmod d;\npub use b::{\n    B,\n    Other as Else,\n};\npub fn root() {}\n",
        ),
        ("a.rs", "use crate::B; // and nothing else\npub fn a() {}\n"),
        ("b.rs", "use super::c::{self, C};\npub struct B;\n"),
        (
            "c.rs",
            "pub struct C;\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n",
        ),
        ("d/mod.rs", "mod e;\npub fn d() { e::e() }\n"),
        ("d/e.rs", "pub fn e() { super::d() }\n"),
    ];
    for (file, text) in plain {
        write(file, text);
    }
    // A module and its own child are one place.
    assert_eq!(found(), [""; 0]);
    for (file, text, circle) in [
        // Through a re-export of the root.
        ("c.rs", "use crate::{\n    a::{a},\n};\n", "a b c"),
        // By a path in a body.
        ("c.rs", "fn c() { let _ = \"\"; crate::a::a() }\n", "a b c"),
        // Through the root's own items.
        (
            "lib.rs",
            "mod a;\npub fn root() { a::a() }\npub use b::B;\n",
            "",
        ),
        ("d/e.rs", "pub fn e() { crate::a::a() }\n", ""),
    ] {
        write(file, text);
        let expected: &[&str] = if circle.is_empty() { &[] } else { &[circle] };
        assert_eq!(found(), expected, "{file}: {text}");
        let before = plain.iter().find(|(name, _)| *name == file).unwrap();
        write(file, before.1);
    }
    write(
        "lib.rs",
        "mod a;\nmod d;\npub fn root() { a::a() }\npub use b::B;\n",
    );
    write("b.rs", "pub struct B;\nfn b() { crate::root() }\n");
    assert_eq!(found(), [" a b"]);
    // Through a child, which names another child, which names the parent.
    write("b.rs", "pub struct B;\n");
    write("d/e.rs", "pub fn e() { super::f::f() }\n");
    write("d/f.rs", "pub fn f() { super::d() }\n");
    assert_eq!(found(), ["d d::e d::f"]);
}

/// Returns the packages of a build, each with its version and features.
fn packages(options: &[&str]) -> BTreeSet<String> {
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--package", "blox", "--locked"])
        .args(["--prefix", "none", "--format", "{p} {f}"])
        .args(options)
        .current_dir(root())
        .output()
        .unwrap();
    assert!(
        tree.status.success(),
        "{}",
        String::from_utf8_lossy(&tree.stderr)
    );
    let text = String::from_utf8(tree.stdout).unwrap();
    let lines = text.lines().map(|l| l.trim_end_matches(" (*)").to_owned());
    lines.collect()
}

#[test]
fn optional_feature_recompiles_only_its_crates() {
    let first = packages(&["--edges", "normal"]);
    for (option, parts) in [
        (["--features", "cluster"], &["blox", "blox-cli"][..]),
        (["--features", "png"], &["blox", "blox-cli", "blox-plot"]),
        (
            ["--features", "parquet"],
            // Only the crates before it depend on chrono.
            &["blox", "blox-cli", "blox-traces", "chrono"],
        ),
        (["--features", "released"], &["blox", "blox-cli"]),
        (
            ["--features", "microlp"],
            &["blox", "blox-components", "blox-schedulers"],
        ),
        // Examples are built with the packages that tests need.
        (["--edges", "dev"], &[]),
    ] {
        let edges = ["--edges", "normal", option[0], option[1]];
        let then = packages(&edges);
        let changed: Vec<&str> = first
            .difference(&then)
            .map(|package| package.split(' ').next().unwrap())
            .collect();
        assert_eq!(changed, parts, "{option:?}");
    }
}

#[test]
fn library_has_no_packages_of_the_program() {
    let library = packages(&["--edges", "normal", "--no-default-features"]);
    let names: BTreeSet<&str> = library
        .iter()
        .map(|package| package.split(' ').next().unwrap())
        .collect();
    assert!(names.contains("blox-schedulers"));
    for program in [
        "blox-claims",
        "blox-cli",
        "blox-features",
        "clap",
        "console",
        "indicatif",
        "rayon",
    ] {
        assert!(!names.contains(program), "{program}");
    }
}

/// Words that a name of a test does without: each speaks of software as of a person, or is vague.
const BANNED: &str = "who whom whoever nobody somebody someone everybody everyone anybody anyone told \
    tells tell asked asks ask heard hears hear said says say knows know knew looked_at \
    looks_at so_many as_good_as come_to_nothing comes_to_nothing by_then that_of \
    those_of and_the_like in_vain as_it_is as_they_are as_far_as what_is_more one_more \
    go_on goes_on comes_of";

/// Returns the test functions of a file whose names are too long or have a banned word, each with
/// its line.
fn bad_names(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut is_test = false;
    for (line, code) in (1..).zip(text.lines().map(str::trim_start)) {
        is_test |= code.starts_with("#[test]") || code.starts_with("#[tokio::test");
        let function = code.split_once("fn ").filter(|_| !code.starts_with("//"));
        if let Some((_, rest)) = function.filter(|_| is_test) {
            is_test = false;
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            let name = &rest[..end.unwrap_or(rest.len())];
            let words = format!("_{name}_");
            let banned = |word: &str| words.contains(&format!("_{word}_"));
            if name.len() > 50 || BANNED.split(' ').any(banned) {
                found.push((line, name));
            }
        }
    }
    found
}

/// Words that no identifier has: software reports, notifies and receives.
const SPOKEN: &str = "told tell tells telling said say says saying heard hear hears hearing knows";

/// Returns the identifiers with a word of [`SPOKEN`], each with its line.
fn spoken(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (line, code) in (1..).zip(code_of(text).lines()) {
        for name in code.split(|c| !is_of_name(c)) {
            let mut words = String::from("_");
            for c in name.chars() {
                words.extend(c.is_uppercase().then_some('_'));
                words.extend(c.to_lowercase());
            }
            words.push('_');
            let has = |word: &str| words.contains(&format!("_{word}_"));
            if SPOKEN.split(' ').any(has) {
                found.push((line, name.to_owned()));
            }
        }
    }
    found
}

#[test]
fn no_identifier_has_a_word_of_speech() {
    let text = "fn tell(said: &str, /* a */ q: char) {} // told\nlet a = \"x\\\"\nsays\";\n\
        (r#\"hears \"tell\" \"#, '\"', saying, NodeSays::Told, retold)";
    let names = ["tell", "said", "saying", "NodeSays", "Told"];
    let lines = [1, 1, 4, 4, 4];
    let expected: Vec<_> = lines.into_iter().zip(names.map(str::to_owned)).collect();
    assert_eq!(spoken(text), expected);

    let mut files = Vec::new();
    for folder in [
        "blox-core",
        "blox-policies",
        "blox-sim",
        "blox-cluster",
        "crates",
    ] {
        sources(&root().join(folder), &mut files);
    }
    for folder in ["src", "tests", "examples", "benches", "fuzz"] {
        sources(&root().join(folder), &mut files);
    }
    let mut found = String::new();
    for file in &files {
        let path = file.strip_prefix(root()).unwrap().display();
        for (line, name) in spoken(&fs::read_to_string(file).unwrap()) {
            found += &format!("{path}:{line}: {name}\n");
        }
    }
    assert_eq!(found, "", "name what is reported, or the verb of the field");
}

#[test]
fn test_names_are_short_and_plain() {
    let bad = "#[test]\nfn whose_unknown_goes() {}\n\n#[tokio::test(start_paused = true)]\n\
        // Calls fn ask().\nasync fn who_asks() {}\nfn who() {}\n";
    assert_eq!(bad_names(bad), [(6, "who_asks")]);
    let long = format!("#[test]\nfn {}() {{}}\n", "a".repeat(51));
    assert_eq!(bad_names(&long).len(), 1);
    assert_eq!(bad_names(&long.replacen('a', "", 1)), []);

    let mut files = Vec::new();
    for (folder, _) in CRATES {
        for part in ["src", "tests"].map(|part| root().join(folder).join(part)) {
            if part.is_dir() {
                sources(&part, &mut files);
            }
        }
    }
    let mut found = String::new();
    for file in &files {
        let path = file.strip_prefix(root()).unwrap().display();
        for (line, name) in bad_names(&fs::read_to_string(file).unwrap()) {
            found += &format!("{path}:{line}: {name}\n");
        }
    }
    assert_eq!(
        found, "",
        "name a test `unit_condition_result` in at most 50 characters"
    );
}

#[test]
fn workflow_of_changes_runs_all_checks() {
    let path = root().join(".github/workflows/checks.yml");
    let text = fs::read_to_string(path).unwrap();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    for line in ["pull_request:", "run: .ci/run"] {
        assert!(lines.contains(&line), "{line}");
    }
    assert!(root().join(".ci/run").exists());
}
