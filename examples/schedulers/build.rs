//! Lists the files in `src`, each of which is a scheduler.

use std::env::var;
use std::fs;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=src");
    let folder = Path::new(&var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("src");
    let entries = fs::read_dir(&folder).expect("a folder");
    let paths = entries.map(|entry| entry.expect("a file").path());
    let rust = paths.filter(|path| path.extension().is_some_and(|e| e == "rs"));
    let mut names: Vec<String> = rust
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .filter(|name| name != "lib")
        .collect();
    names.sort();
    let lines = |line: &dyn Fn(&String) -> String| -> String { names.iter().map(line).collect() };
    let file = |name: &String| folder.join(format!("{name}.rs"));
    let modules = lines(&|name| format!("#[path = {:?}]\nmod {name};\n", file(name)));
    let functions = lines(&|name| format!("pub use crate::{name}::*;\n"));
    let tests = lines(&|name| {
        let named = name.replace('_', "-");
        format!("#[test]\nfn {name}() {{\n    conforms({named:?});\n}}\n\n")
    });
    let entries = lines(&|name| format!("{name}::add as fn(&mut Registry), "));
    for (name, text) in [
        ("modules.rs", modules),
        ("functions.rs", functions),
        ("entries.rs", format!("[{entries}]\n")),
        ("tests.rs", tests),
    ] {
        let path = Path::new(&var("OUT_DIR").expect("cargo sets it")).join(name);
        fs::write(path, text).expect("a folder for results");
    }
}
