//! Permitted dependencies between crates, import cycles between files, and features of packages.

#[path = "support/tree.rs"]
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use tree::{members, sources};

/// The folder of each crate, and the crates of this workspace that it may depend on.
const CRATES: [(&str, &[&str]); 22] = [
    ("blox-core", &[]),
    ("crates/blox-cpython", &[]),
    ("crates/blox-features", &[]),
    ("crates/blox-learn", &[]),
    ("crates/blox-plot", &[]),
    ("crates/blox-solve", &[]),
    ("crates/blox-microlp", &["solve"]),
    ("crates/blox-perf", &["core", "solve"]),
    ("blox-cluster", &["core", "perf"]),
    ("blox-policies", &["core", "cpython", "perf", "solve"]),
    ("crates/blox-registry", &["core"]),
    ("crates/blox-workloads", &["core"]),
    ("blox-sim", &["core", "perf", "registry", "workloads"]),
    ("crates/blox-testing", &["core", "sim"]),
    ("crates/blox-parquet", &["sim"]),
    (
        "crates/blox-traces",
        &[
            "core",
            "cpython",
            "parquet",
            "perf",
            "registry",
            "sim",
            "workloads",
        ],
    ),
    ("crates/blox-results", &["plot", "sim"]),
    (
        "examples/schedulers",
        &[
            "core", "learn", "microlp", "perf", "policies", "registry", "sim", "traces",
        ],
    ),
    (
        "crates/blox-claims",
        &["core", "perf", "policies", "registry", "sim", "traces"],
    ),
    (
        "crates/blox-released",
        &[
            "core",
            "cpython",
            "learn",
            "microlp",
            "perf",
            "plot",
            "policies",
            "registry",
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
            "core",
            "features",
            "learn",
            "parquet",
            "plot",
            "policies",
            "registry",
            "released",
            "results",
            "schedulers",
            "sim",
            "traces",
        ],
    ),
    (
        ".",
        &[
            "claims",
            "cli",
            "core",
            "perf",
            "plot",
            "policies",
            "registry",
            "released",
            "results",
            "schedulers",
            "sim",
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

type Module = Vec<String>;

/// Collects the paths of a use tree. A renamed item is listed under its own name.
fn leaves(tree: &str, before: &[String], into: &mut Vec<Module>) {
    let (head, group) = match tree.split_once('{') {
        Some((head, rest)) => (head, rest.rsplit_once('}').map(|(inner, _)| inner)),
        None => (tree, None),
    };
    let mut path = before.to_vec();
    let segments = head.split("::").map(str::trim).filter(|s| !s.is_empty());
    path.extend(segments.map(|s| s.split(' ').next().unwrap_or_default().to_owned()));
    let Some(group) = group else {
        path.retain(|s| s != "self");
        return into.push(path);
    };
    let (mut depth, mut start) = (0, 0);
    for (i, c) in group.char_indices().chain([(group.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !group[start..i].trim().is_empty() {
                    leaves(&group[start..i], &path, into);
                }
                start = i + 1;
            }
            _ => {}
        }
    }
}

/// Returns a file without comments and unit tests.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let lines = text.lines().map(|l| l.split("//").next().unwrap());
    lines.flat_map(|l| [l, "\n"]).collect()
}

/// Returns the paths from the root of the crate that a file names, in its imports or elsewhere.
fn named(text: &str) -> Vec<(bool, Module)> {
    let of_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let path = |(at, _): (usize, &str)| {
        let rest = &text[at..];
        let path = &rest[..rest.find(|c| !of_path(c)).unwrap_or(rest.len())];
        let path = path.trim_end_matches(':').split("::").map(str::to_owned);
        (false, path.collect())
    };
    text.match_indices("crate::").map(path).collect()
}

/// Returns the imports of a file, each with true if `pub use` re-exports it.
fn imports(text: &str) -> Vec<(bool, Module)> {
    let mut all = Vec::new();
    let mut start = 0;
    while let Some(end) = text[start..].find('\n').map(|i| start + i) {
        let line = text[start..end].trim_start();
        let (line, public) = match line.strip_prefix("pub") {
            // `pub use` and `pub(super) use`
            Some(rest) => (
                rest.trim_start_matches(|c: char| c != ' ').trim_start(),
                true,
            ),
            None => (line, false),
        };
        start = end + 1;
        if let Some(first) = line.strip_prefix("use ") {
            let mut tree = first.to_owned();
            while !tree.contains(';') {
                let end = text[start..].find('\n').map_or(text.len(), |i| start + i);
                tree.push_str(&text[start..end]);
                start = end + 1;
            }
            let mut paths = Vec::new();
            leaves(tree.split(';').next().unwrap(), &[], &mut paths);
            all.extend(paths.into_iter().map(|p| (public, p)));
        }
    }
    all
}

/// Returns the files of a crate with their imports. The crate's root file re-exports others and is
/// omitted. With `all`, a path outside of an import counts as one.
fn graph(src: &Path, all: bool) -> BTreeMap<Module, BTreeSet<Module>> {
    let mut files = Vec::new();
    sources(src, &mut files);
    let mut modules = BTreeMap::new();
    for file in files {
        let relative = file.strip_prefix(src).unwrap().with_extension("");
        let mut module: Module = relative
            .iter()
            .map(|s| s.to_string_lossy().into_owned())
            .collect();
        module.pop_if(|last| ["lib", "main", "mod"].contains(&last.as_str()));
        let text = code(&fs::read_to_string(file).unwrap());
        let mut found = imports(&text);
        found.extend(all.then(|| named(&text)).into_iter().flatten());
        modules.insert(module, found);
    }
    let absolute = |module: &Module, path: &Module| -> Option<Module> {
        let up = path.iter().take_while(|s| *s == "super").count();
        match path.first()?.as_str() {
            "crate" => Some(path[1..].to_vec()),
            "super" => Some([&module[..module.len().checked_sub(up)?], &path[up..]].concat()),
            first => {
                let child = [&module[..], &[first.to_owned()]].concat();
                let known = modules.contains_key(&child);
                known.then(|| [&module[..], &path[..]].concat())
            }
        }
    };
    let mut handed_on = BTreeMap::new();
    for (module, imports) in &modules {
        for (_, path) in imports.iter().filter(|(public, _)| *public) {
            if let Some(to) = absolute(module, path) {
                let name = [&module[..], &path[path.len() - 1..]].concat();
                handed_on.insert(name, to);
            }
        }
    }
    let defined_in = |mut path: Module| -> Module {
        for _ in 0..8 {
            let depth = (0..=path.len()).rev();
            let depth = depth.clone().find(|n| modules.contains_key(&path[..*n]));
            let depth = depth.unwrap_or(0);
            let end = path.len().min(depth + 1);
            match handed_on.get(&path[..end]) {
                Some(to) if to[..] != path[..end] => path = [to, &path[end..]].concat(),
                _ => return path[..depth].to_vec(),
            }
        }
        path
    };
    let imported = |(module, imports): (&Module, &Vec<(bool, Module)>)| {
        let ours = imports.iter().filter(|(_, path)| {
            path.first()
                .is_some_and(|s| ["crate", "super"].contains(&s.as_str()))
        });
        let files = ours.filter_map(|(_, path)| absolute(module, path).map(&defined_in));
        let files = files.filter(|file| file != module && !file.is_empty());
        (module.clone(), files.collect())
    };
    modules.iter().map(imported).collect()
}

/// The files that a file imports, directly or through others.
fn reached<'g>(
    graph: &'g BTreeMap<Module, BTreeSet<Module>>,
    from: &'g Module,
) -> BTreeSet<&'g Module> {
    let mut seen = BTreeSet::new();
    let mut left = vec![from];
    while let Some(at) = left.pop() {
        left.extend(graph[at].iter().filter(|to| seen.insert(*to)));
    }
    seen
}

/// Sets of files each of which imports, in the end, all others of its set.
fn circles(graph: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<BTreeSet<&Module>> {
    let reach: BTreeMap<&Module, BTreeSet<&Module>> = graph
        .keys()
        .map(|from| (from, reached(graph, from)))
        .collect();
    let mut all: Vec<BTreeSet<&Module>> = Vec::new();
    for (from, to) in &reach {
        if to.contains(from) && !all.iter().any(|circle| circle.contains(from)) {
            all.push(
                to.iter()
                    .copied()
                    .filter(|to| reach[to].contains(from))
                    .collect(),
            );
        }
    }
    all
}

#[test]
fn files_do_not_import_each_other_in_circles() {
    let mut found = String::new();
    for (folder, _) in CRATES {
        let graph = graph(&root().join(folder).join("src"), false);
        for circle in circles(&graph) {
            let names: Vec<String> = circle.iter().map(|module| module.join("::")).collect();
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
    for (file, imports) in graph(&root().join("blox-core/src"), true) {
        // Files beside the layers import nothing.
        let own = layer(&file);
        let higher = |to: &&Module| own.is_none() || layer(to) > own;
        let higher = imports.iter().filter(higher).map(|to| to.join("::"));
        found.extend(higher.map(|to| format!("{} imports {to}", file.join("::"))));
    }
    assert_eq!(found, [""; 0]);
}

#[test]
fn circles_are_found_through_what_is_handed_on() {
    let dir = tempfile::tempdir().unwrap();
    let write = |file: &str, text: &str| fs::write(dir.path().join(file), text).unwrap();
    write(
        "lib.rs",
        "mod a;\nmod b;\nmod c;\npub use b::{\n    B,\n    Other as Else,\n};\n",
    );
    write("a.rs", "use crate::B; // and nothing else\n");
    write("b.rs", "use super::c::{self, C};\n");
    write(
        "c.rs",
        "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n",
    );
    assert_eq!(circles(&graph(dir.path(), false)).len(), 0);
    write("c.rs", "use crate::{\n    a::{A},\n};\n");
    assert_eq!(circles(&graph(dir.path(), false)).len(), 1);
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
        (["--features", "microlp"], &["blox", "blox-schedulers"]),
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

/// Returns the code of a file without comments and literals of texts, in as many lines.
fn code_of(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let hashes = rest
            .strip_prefix('r')
            .map(|r| r.len() - r.trim_start_matches('#').len());
        let raw = hashes.filter(|n| rest[1 + n..].starts_with('"') && !code.ends_with(is_of_name));
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(hashes) = raw {
            let end = format!("\"{}", "#".repeat(hashes));
            let from = hashes + 2;
            rest[from..]
                .find(&end)
                .map_or(rest.len(), |at| from + at + end.len())
        } else if first == '"' {
            let mut escaped = false;
            let end = rest[1..].find(|c| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            end.map_or(rest.len(), |at| at + 2)
        } else if let Some(quoted) = ["'\"'", "'\\\"'"].into_iter().find(|q| rest.starts_with(q)) {
            quoted.len()
        } else {
            code.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        code.extend(rest[..length].chars().filter(|c| *c == '\n'));
        rest = &rest[length..];
    }
    code
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

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
