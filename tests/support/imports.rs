//! Reads the imports between the files of a crate: by `use`, by paths in bodies, and by re-exports.

use crate::tree::sources;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A path of modules and an item, from the root of a crate, which is empty.
pub type Module = Vec<String>;

/// The files of a crate, each with the files that it imports.
pub type Graph = BTreeMap<Module, BTreeSet<Module>>;

/// Returns the imports between the files of a crate.
///
/// A file imports another if it names an item of that file. A re-export imports nothing: a name
/// that passes through one counts for the file that defines it. Unit tests, and programs beside a
/// library, do not count.
pub fn graph(src: &Path) -> Graph {
    let mut paths = Vec::new();
    sources(src, &mut paths);
    let mut files = BTreeMap::new();
    for path in paths {
        let relative = path.strip_prefix(src).unwrap().with_extension("");
        let mut module: Module = relative
            .iter()
            .map(|s| s.to_string_lossy().into_owned())
            .collect();
        let of_tests = module.iter().any(|part| part == "tests" || part == "test");
        if of_tests || module == ["main"] {
            continue;
        }
        module.pop_if(|last| last == "lib" || last == "mod");
        files.insert(module, fs::read_to_string(path).unwrap());
    }
    let names: BTreeSet<Module> = files.keys().cloned().collect();
    let read =
        |(module, text): (&Module, &String)| (module.clone(), File::read(text, module, &names));
    let files: BTreeMap<Module, File> = files.iter().map(read).collect();
    let imported = |module: &Module| {
        let file = &files[module];
        let homes = file
            .named
            .iter()
            .filter_map(|path| home(&files, path.clone(), &mut BTreeSet::new()));
        (module.clone(), homes.filter(|to| to != module).collect())
    };
    let all: Graph = files.keys().map(imported).collect();
    let mut graph = all.clone();
    for (module, imports) in &mut graph {
        // A module that names its child, which names it, is one place in two files.
        imports.retain(|to| {
            to.split_last().map(|(_, parent)| parent) != Some(&module[..])
                || !all[to].contains(module)
        });
    }
    graph
}

/// Returns the sets of files each of which imports, in the end, all others of its set.
pub fn circles(graph: &Graph) -> Vec<BTreeSet<&Module>> {
    let reach: BTreeMap<&Module, BTreeSet<&Module>> = graph
        .keys()
        .map(|from| (from, reached(graph, from)))
        .collect();
    let mut all: Vec<BTreeSet<&Module>> = Vec::new();
    for (from, to) in &reach {
        if to.contains(from) && !all.iter().any(|circle| circle.contains(from)) {
            let circle = to.iter().copied().filter(|to| reach[to].contains(from));
            all.push(circle.collect());
        }
    }
    all
}

/// Returns the files that a file imports, directly or through others.
fn reached<'g>(graph: &'g Graph, from: &'g Module) -> BTreeSet<&'g Module> {
    let mut seen = BTreeSet::new();
    let mut left = vec![from];
    while let Some(at) = left.pop() {
        left.extend(graph[at].iter().filter(|to| seen.insert(*to)));
    }
    seen
}

/// The items of a file, its re-exports, and the paths that it names.
#[derive(Default)]
struct File {
    /// Names of its items.
    defined: BTreeSet<String>,
    /// Names that it imports or re-exports, each with its path.
    alias: BTreeMap<String, Module>,
    /// Modules of which it imports everything.
    globs: Vec<Module>,
    /// Paths from the root that it names, without re-exports.
    named: Vec<Module>,
}

impl File {
    fn read(text: &str, module: &Module, files: &BTreeSet<Module>) -> File {
        let code = code_of(text);
        let code = code.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        let words = words(code);
        let mut file = File::default();
        let mut at = 0;
        while at < words.len() {
            let before = at.checked_sub(1).map_or("", |i| words[i]);
            let word = words[at];
            at += 1;
            if word == "use" {
                let end = words[at..].iter().position(|w| *w == ";");
                let tree = &words[at..at + end.unwrap_or(0)];
                at += tree.len();
                let mut paths = Vec::new();
                leaves(tree, &[], &mut paths);
                let public = before == "pub" || before == ")";
                for path in paths {
                    file.import(absolute(module, &path, files), public);
                }
            } else if ITEMS.contains(&word) {
                file.defined
                    .extend(words.get(at).map(|name| (*name).to_owned()));
            } else if word == "macro_rules" {
                file.defined
                    .extend(words.get(at + 1).map(|name| (*name).to_owned()));
            } else if word.starts_with(is_of_name) && before != "::" {
                let mut path = vec![word.to_owned()];
                while words.get(at) == Some(&"::")
                    && words.get(at + 1).is_some_and(|w| w.starts_with(is_of_name))
                {
                    path.push(words[at + 1].to_owned());
                    at += 2;
                }
                if path.len() > 1 {
                    file.named.extend(absolute(module, &path, files));
                }
            }
        }
        file
    }

    fn import(&mut self, path: Option<Module>, public: bool) {
        let Some(path) = path else { return };
        match path.split_last() {
            Some((last, of)) if last == "*" => self.globs.push(of.to_vec()),
            Some((last, _)) => {
                self.alias.insert(last.clone(), path.clone());
            }
            None => {}
        }
        if !public {
            self.named.push(path);
        }
    }
}

const ITEMS: [&str; 8] = [
    "struct", "enum", "trait", "fn", "type", "const", "static", "union",
];

/// Returns the file that defines what a path names.
fn home(
    files: &BTreeMap<Module, File>,
    path: Module,
    seen: &mut BTreeSet<Module>,
) -> Option<Module> {
    let depth = (0..=path.len())
        .rev()
        .find(|n| files.contains_key(&path[..*n]))?;
    let (module, rest) = path.split_at(depth);
    let file = &files[module];
    let own = |name: &String| file.defined.contains(name);
    let Some(name) = rest.first().filter(|name| !own(name)) else {
        return Some(module.to_vec());
    };
    if !seen.insert(path[..=depth].to_vec()) {
        return Some(module.to_vec());
    }
    if let Some(to) = file.alias.get(name) {
        return home(files, [to, &rest[1..]].concat(), seen);
    }
    let through = |glob: &Module| {
        let found = home(files, [glob, rest].concat(), seen)?;
        files[&found].defined.contains(name).then_some(found)
    };
    let found = file.globs.iter().find_map(through);
    found.or_else(|| Some(module.to_vec()))
}

/// Returns a path from the root of the crate; `None` for a path of another crate or of an item.
fn absolute(module: &Module, path: &Module, files: &BTreeSet<Module>) -> Option<Module> {
    let up = path.iter().take_while(|s| *s == "super").count();
    match path.first()?.as_str() {
        "crate" => Some(path[1..].to_vec()),
        "self" => Some([&module[..], &path[1..]].concat()),
        "super" => Some([&module[..module.len().checked_sub(up)?], &path[up..]].concat()),
        _ => {
            let whole = [&module[..], &path[..]].concat();
            files.contains(&whole[..=module.len()]).then_some(whole)
        }
    }
}

/// Collects the paths of the tree of a `use`. A renamed item is listed under its own name.
fn leaves(tree: &[&str], before: &[String], into: &mut Vec<Module>) {
    let mut path = before.to_vec();
    let mut at = 0;
    while at < tree.len() {
        match tree[at] {
            "{" => {
                let (mut depth, mut start) = (0, at + 1);
                for (i, word) in tree.iter().enumerate().skip(at) {
                    depth += i32::from(*word == "{") - i32::from(*word == "}");
                    if (*word == "," && depth == 1) || depth == 0 {
                        if start < i {
                            leaves(&tree[start..i], &path, into);
                        }
                        start = i + 1;
                    }
                    if depth == 0 {
                        break;
                    }
                }
                return;
            }
            "as" => break,
            "::" => {}
            "self" if !path.is_empty() => {}
            name => path.push(name.to_owned()),
        }
        at += 1;
    }
    into.push(path);
}

/// Returns the names and signs of code. `::` is one sign.
fn words(code: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if is_of_name(first) {
            rest.find(|c| !is_of_name(c)).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        words.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    words
}

/// Returns whether a character may stand in a name.
pub fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the code of a file without comments and literals of texts, in as many lines.
pub fn code_of(text: &str) -> String {
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
