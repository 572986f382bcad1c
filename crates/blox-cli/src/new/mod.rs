//! `blox new`: creates a crate with a custom component.

use super::args::NewArgs;
use crate::failure::Failure;
use crate::terminal::{OK, Terminal};
use blox_registry::{ComponentRegistry, Registry};
use blox_sim::registry::World;
use std::path::Path;

/// Files of every crate: path and template.
const FILES: [(&str, &str); 6] = [
    ("Cargo.toml", include_str!("template/Cargo.toml.txt")),
    (
        ".cargo/config.toml",
        include_str!("template/config.toml.txt"),
    ),
    ("README.md", include_str!("template/README.md.txt")),
    (".gitignore", include_str!("template/gitignore.txt")),
    ("src/main.rs", include_str!("template/main.rs.txt")),
    ("src/lib.rs", include_str!("template/lib.rs.txt")),
];

/// The file with the composition of all policies, if the crate has any.
const SCHEDULER: &str = include_str!("template/scheduler.rs.txt");

/// Its tests. A policy alone is tested in its own file.
const SCHEDULER_TESTS: &str = include_str!("template/scheduler_test.rs.txt");

/// A part that a crate may have.
struct Part {
    what: &'static str,
    module: &'static str,
    file: &'static str,
    used: Use,
    /// Names of the parts that ship.
    shipped: fn(&Registry) -> Vec<String>,
}

/// Use of a part in a run.
enum Use {
    /// A policy of the crate's scheduler: the method of a composition, and the policy.
    Role(&'static str, &'static str),
    /// An option of the command line.
    Option(&'static str),
}

fn names<T>(components: &ComponentRegistry<T>) -> Vec<String> {
    components.iter().map(|(name, _)| name.to_owned()).collect()
}

/// Returns the parts of a crate, in the order of a composition.
fn parts(args: &NewArgs) -> Vec<Part> {
    macro_rules! part {
        ($chosen:expr, $what:literal, $module:literal, $used:expr, $shipped:expr) => {
            $chosen.then_some(Part {
                what: $what,
                module: $module,
                file: include_str!(concat!("template/", $module, ".rs.txt")),
                used: $used,
                shipped: $shipped,
            })
        };
    }
    let any = args.placement
        || args.admission
        || args.cluster_manager
        || args.collector
        || args.execution;
    [
        part!(
            args.cluster_manager,
            "a cluster manager",
            "cluster_manager",
            Use::Role("cluster", "cluster_manager::SpareNodes::new(params)?"),
            |r| names(&r.cluster)
        ),
        part!(
            args.admission,
            "an admission policy",
            "admission",
            Use::Role("admission", "admission::AtMost::new(params)?"),
            |r| names(&r.admission)
        ),
        part!(
            (args.policy || !any),
            "a scheduling policy",
            "policy",
            Use::Role("scheduling", "policy::ShortFirst::new(params)?"),
            |r| names(&r.scheduling)
        ),
        part!(
            args.placement,
            "a placement",
            "placement",
            Use::Role(
                "placement",
                "InOrder::new(placement::OneNode::new(params)?)"
            ),
            |r| names(&r.placement)
        ),
        part!(
            args.collector,
            "a collector of metrics",
            "collector",
            Use::Option("--collect"),
            |r| names(&r.collectors)
        ),
        part!(
            args.execution,
            "an execution model",
            "execution",
            Use::Option("--execution"),
            |r| names(&r.execution_models())
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns the files of a crate: path and text.
fn files(parts: &[Part], name: &str, dependency: &str) -> Vec<(String, String)> {
    let whats: Vec<&str> = parts.iter().map(|part| part.what).collect();
    let what = match whats.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, first)) => format!("{} and {last}", first.join(", ")),
        None => String::new(),
    };
    let what = what[..1].to_uppercase() + &what[1..];
    let mut modules: Vec<&str> = parts.iter().map(|part| part.module).collect();
    // The policy is added with the scheduler, whose name it has.
    let mut added: Vec<&str> = modules.clone();
    added.retain(|module| *module != "policy");
    let mut roles = Vec::new();
    let mut parameters = String::new();
    for part in parts {
        if let Use::Role(role, policy) = part.used {
            roles.push((role, policy));
            parameters += &format!("    all.extend({}::PARAMETERS);\n", part.module);
        }
    }
    let policies = roles.len();
    if policies > 0 {
        modules.push("scheduler");
        added.push("scheduler");
        let defaults = [
            ("scheduling", "Fifo::default()"),
            ("placement", "InOrder::new(Consolidated::default())"),
        ];
        for (role, policy) in defaults {
            if roles.iter().all(|(taken, _)| *taken != role) {
                roles.push((role, policy));
            }
        }
    }
    modules.sort_unstable();
    let lines = |line: &dyn Fn(&str) -> String, of: &[&str]| of.iter().map(|m| line(m)).collect();
    let modules: String = lines(&|module| format!("pub mod {module};\n"), &modules);
    let added: String = lines(
        &|module| format!("    {module}::add(&mut registry);\n"),
        &added,
    );
    let roles: Vec<String> = roles
        .iter()
        .map(|(role, policy)| format!("        .{role}({policy})"))
        .collect();
    let compare = compare(parts, "{NAME}");
    let filled = |text: &str| {
        text.replace("{{what}}", &what)
            .replace("{{modules}}", &modules)
            .replace("{{added}}", &added)
            .replace("{{parameters}}", &parameters)
            .replace("{{roles}}", &roles.join("\n"))
            .replace("{{compare}}", &compare)
            .replace("{{compare_name}}", &compare.replace("{NAME}", name))
            .replace("{{name}}", name)
            .replace("{{crate}}", &name.replace('-', "_"))
            .replace("{{dependency}}", dependency)
    };
    let scheduler = (policies > 0).then(|| {
        let tests = if policies > 1 { SCHEDULER_TESTS } else { "" };
        let text = filled(SCHEDULER) + tests;
        ("src/scheduler.rs".to_owned(), text)
    });
    let common = FILES.map(|(path, text)| (path.to_owned(), filled(text)));
    let own = parts
        .iter()
        .map(|part| (format!("src/{}.rs", part.module), part.file.to_owned()));
    common.into_iter().chain(scheduler).chain(own).collect()
}

/// Returns the arguments of a comparison with all parts of a crate.
fn compare(parts: &[Part], name: &str) -> String {
    let mut schedulers = String::new();
    let mut options = String::new();
    for part in parts {
        match part.used {
            Use::Role(..) => schedulers = format!(" {name}"),
            Use::Option(option) => options += &format!(" {option} {name}"),
        }
    }
    format!("compare fifo las{schedulers}{options}")
}

pub(super) fn run(
    registry: &Registry,
    args: &NewArgs,
    terminal: &mut Terminal<'_>,
) -> Result<i32, Failure> {
    let dir = &args.path;
    let name = match (&args.name, dir.file_name()) {
        (Some(name), _) => name.clone(),
        (None, Some(name)) => name.to_string_lossy().into_owned(),
        (None, None) => String::new(),
    };
    check(&name)?;
    let parts = parts(args);
    let is_scheduler = parts.iter().any(|part| matches!(part.used, Use::Role(..)));
    let what = if is_scheduler && names(&registry.schedulers).contains(&name) {
        Some("a scheduler")
    } else {
        let taken = |part: &&Part| (part.shipped)(registry).contains(&name);
        parts.iter().find(taken).map(|part| part.what)
    };
    if let Some(what) = what {
        return Err(Failure::new(format!(
            "`{name}` is the name of {what} that ships, expected another one; --name says another \
             than the folder's"
        )));
    }
    if dir.exists() && std::fs::read_dir(dir).map_or(true, |mut d| d.next().is_some()) {
        let text = "is there already, expected a new or an empty folder";
        return Err(Failure::at(dir, text));
    }
    for (file, text) in files(&parts, &name, &dependency()) {
        let path = dir.join(file);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(|e| Failure::unwritable(parent, e))?;
        }
        std::fs::write(&path, text).map_err(|e| Failure::unwritable(&path, e))?;
        writeln!(terminal.out, "{}", path.display())?;
    }
    // The crate uses the versions of dependencies that blox was tested with.
    if let Some(lock) = checkout().map(|source| source.join("Cargo.lock"))
        && lock.is_file()
    {
        let path = dir.join("Cargo.lock");
        std::fs::copy(lock, &path).map_err(|e| Failure::unwritable(&path, e))?;
        writeln!(terminal.out, "{}", path.display())?;
    }
    writeln!(
        terminal.out,
        "next: cd '{}' && cargo test && cargo run -- {} --load 8\n\
         The first of these commands compiles blox for both: minutes, not seconds.",
        dir.display(),
        compare(&parts, &name)
    )?;
    Ok(OK)
}

/// Checks that a name is valid for both a crate and a scheduler.
fn check(name: &str) -> Result<(), Failure> {
    let mut chars = name.chars();
    let first = chars.next().is_some_and(|c| c.is_ascii_lowercase());
    let rest = chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    // Keywords, and names that would hide required crates.
    let taken = [
        "as", "async", "await", "blox", "box", "break", "const", "continue", "core", "crate", "do",
        "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in",
        "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref",
        "return", "self", "static", "std", "struct", "super", "test", "trait", "true", "try",
        "type", "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
    ];
    if !first || !rest || name.ends_with('-') || taken.contains(&name) {
        return Err(Failure::new(format!(
            "the name is `{name}`, expected one for a crate: lower-case letters, digits and hyphens, \
             a letter first, no word of Rust; --name NAME gives another one than the folder's"
        )));
    }
    Ok(())
}

/// Returns the dependency on the checkout from which this program was built, if it still exists;
/// otherwise the version.
fn dependency() -> String {
    if let Some(source) = checkout() {
        // A TOML literal string has no escapes; a path may hold anything but a quote.
        let path = source.display().to_string();
        if !path.contains('\'') {
            return format!("path = '{path}'");
        }
    }
    format!("version = \"{}\"", env!("CARGO_PKG_VERSION"))
}

/// Returns the checkout from which this program was built, if it still exists.
fn checkout() -> Option<&'static Path> {
    // This crate is in `crates/` of the checkout. A package from a registry is not.
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?.parent()?;
    let is_checkout = source.join("blox-core/Cargo.toml").is_file();
    is_checkout.then_some(source)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// Returns each set of parts, as chosen with options.
    fn sets() -> Vec<NewArgs> {
        let set = |bits| NewArgs {
            path: PathBuf::new(),
            name: None,
            policy: bits & 1 != 0,
            placement: bits & 2 != 0,
            admission: bits & 4 != 0,
            cluster_manager: bits & 8 != 0,
            collector: bits & 16 != 0,
            execution: bits & 32 != 0,
        };
        (0..64).map(set).collect()
    }

    #[test]
    fn manifest_is_short_and_valid() {
        let files = files(&parts(&sets()[63]), "a", "path = 'b'");
        let (_, manifest) = files.iter().find(|(p, _)| p == "Cargo.toml").unwrap();
        assert!(manifest.lines().count() < 25, "{manifest}");
        let table: toml::Table = manifest.parse().unwrap();
        assert_eq!(table["dependencies"]["blox"]["path"].as_str(), Some("b"));
        // `cargo run` would build again what has other features in tests.
        assert!(!table.contains_key("dev-dependencies"));
        assert!(!table["profile"].as_table().unwrap().contains_key("test"));
        let left_out = manifest.lines().filter_map(|l| l.strip_prefix("# "));
        let left_out = left_out.filter(|l| l.contains(" = "));
        for text in left_out {
            assert!(text.parse::<toml::Table>().is_ok(), "{text}");
        }
    }

    #[test]
    fn new_crate_has_the_flags_of_the_checkout() {
        let source = checkout().unwrap();
        let flags = std::fs::read_to_string(source.join(".cargo/config.toml")).unwrap();
        assert_eq!(FILES[1].1, flags);
    }

    #[test]
    fn every_set_of_parts_makes_whole_files() {
        for args in sets() {
            let parts = parts(&args);
            let files = files(&parts, "my-policy2", "path = 'b'");
            let text = |path| files.iter().find(|(p, _)| p == path).map(|(_, t)| t);
            for (path, text) in &files {
                assert!(!text.contains("{{"), "{path}: {text}");
            }
            let library = text("src/lib.rs").unwrap();
            for part in &parts {
                assert!(library.contains(&format!("pub mod {};", part.module)));
                let own = format!("src/{}.rs", part.module);
                assert!(files.iter().any(|(path, _)| *path == own));
            }
            let scheduler = text("src/scheduler.rs");
            let of_scheduler = |part: &&Part| matches!(part.used, Use::Role(..));
            assert_eq!(scheduler.is_some(), parts.iter().any(|p| of_scheduler(&p)));
            for part in parts.iter().filter(of_scheduler) {
                let own = format!("{}::PARAMETERS", part.module);
                assert!(scheduler.unwrap().contains(&own), "{scheduler:?}");
            }
        }
    }

    #[test]
    fn comparison_names_every_part() {
        for (set, line) in [
            (0, "compare fifo las mine"),
            (2, "compare fifo las mine"),
            (16, "compare fifo las --collect mine"),
            (17, "compare fifo las mine --collect mine"),
            (63, "compare fifo las mine --collect mine --execution mine"),
        ] {
            assert_eq!(compare(&parts(&sets()[set]), "mine"), line, "{set}");
        }
    }

    #[test]
    fn names_of_crates_are_checked() {
        for bad in ["", "My", "2x", "a b", "fn", "blox", "a_b", "a-", "-a"] {
            assert!(check(bad).is_err(), "{bad}");
        }
        assert!(check("my-policy").is_ok());
    }
}
