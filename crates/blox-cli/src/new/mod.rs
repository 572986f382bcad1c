//! `blox new`: creates a crate with a custom component.

use super::args::{Kind, NewArgs};
use super::{Failure, OK, Terminal};
use blox_core::registry::{ComponentRegistry, Registry};
use blox_sim::registry::World;
use std::path::Path;

/// Files of every kind of crate: path and template.
const FILES: [(&str, &str); 6] = [
    ("Cargo.toml", include_str!("template/Cargo.toml.txt")),
    (
        ".cargo/config.toml",
        include_str!("template/config.toml.txt"),
    ),
    ("README.md", include_str!("template/README.md.txt")),
    (".gitignore", include_str!("template/gitignore.txt")),
    ("src/main.rs", include_str!("template/main.rs.txt")),
    ("tests/compare.rs", include_str!("template/compare.rs.txt")),
];

/// Templates of one kind of component.
struct Template {
    what: &'static str,
    /// Option of a comparison with the component, with a blank behind it.
    option: &'static str,
    library: &'static str,
    tests: &'static str,
}

fn template(kind: Kind) -> Template {
    macro_rules! of {
        ($what:literal, $option:literal, $file:literal) => {
            Template {
                what: $what,
                option: $option,
                library: include_str!(concat!("template/", $file, ".rs.txt")),
                tests: include_str!(concat!("template/", $file, "_test.rs.txt")),
            }
        };
    }
    match kind {
        Kind::Scheduling => of!("A scheduling policy", "", "scheduling"),
        Kind::Placement => of!("A placement", "--placement ", "placement"),
        Kind::Admission => of!("An admission policy", "--admission ", "admission"),
        Kind::ClusterManager => of!("A cluster manager", "--cluster-manager ", "cluster_manager"),
        Kind::Collector => of!("A collector of metrics", "--collect ", "collector"),
        Kind::Execution => of!("An execution model", "--execution ", "execution"),
    }
}

/// Returns the names of the built-in components of a kind.
fn shipped(registry: &Registry, kind: Kind) -> Vec<String> {
    fn of<T>(shelf: &ComponentRegistry<T>) -> Vec<String> {
        shelf.iter().map(|(name, _)| name.to_owned()).collect()
    }
    match kind {
        Kind::Scheduling => [of(&registry.schedulers), of(&registry.scheduling)].concat(),
        Kind::Placement => of(&registry.placement),
        Kind::Admission => of(&registry.admission),
        Kind::ClusterManager => of(&registry.cluster),
        Kind::Collector => of(&registry.collectors),
        Kind::Execution => of(&registry.execution_models()),
    }
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
    if shipped(registry, args.kind).contains(&name) {
        let what = match args.kind {
            Kind::Scheduling => "scheduler",
            _ => "part",
        };
        return Err(Failure::new(format!(
            "`{name}` is the name of a {what} that ships, expected another one; --name says another \
             than the folder's"
        )));
    }
    if dir.exists() && std::fs::read_dir(dir).map_or(true, |mut d| d.next().is_some()) {
        let text = "is there already, expected a new or an empty folder";
        return Err(Failure::at(dir, text));
    }
    let dependency = dependency();
    let template = template(args.kind);
    let compare = format!("compare fifo las {}{name}", template.option);
    let own = [
        ("src/lib.rs", template.library),
        ("tests/part.rs", template.tests),
    ];
    for (file, text) in FILES.into_iter().chain(own) {
        let path = dir.join(file);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(|e| Failure::unwritable(parent, e))?;
        }
        let text = text.replace("{{compare}}", &compare);
        let text = text.replace("{{what}}", template.what);
        let text = filled(&text, &name, &dependency);
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
        "next: cd '{}' && cargo test && cargo run --release -- {} --load 8\n\
         The first build of each of the two commands compiles blox: minutes, not seconds.",
        dir.display(),
        compare
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

fn filled(template: &str, name: &str, dependency: &str) -> String {
    let type_name: String = name
        .split('-')
        .map(|word| {
            let mut chars = word.chars();
            let first = chars.next().map(|c| c.to_ascii_uppercase());
            first.into_iter().chain(chars).collect::<String>()
        })
        .collect();
    template
        .replace("{{name}}", name)
        .replace("{{crate}}", &name.replace('-', "_"))
        .replace("{{type}}", &type_name)
        .replace("{{dependency}}", dependency)
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
    use clap::ValueEnum;

    #[test]
    fn what_is_left_out_of_the_manifest_could_stand_there() {
        let manifest = filled(FILES[0].1, "a", "path = 'b'");
        let lines = manifest.lines().filter_map(|l| l.strip_prefix("# "));
        let left_out: Vec<&str> = lines.filter(|l| l.contains(" = ")).collect();
        assert_eq!(left_out.len(), 2);
        for text in left_out.iter().copied().chain([manifest.as_str()]) {
            assert!(text.parse::<toml::Table>().is_ok(), "{text}");
        }
        assert!(left_out[0].ends_with("features = [\"cluster\"] }"));
    }

    #[test]
    fn new_crate_has_profiles_and_flags_of_the_checkout() {
        let source = checkout().unwrap();
        let read = |file| std::fs::read_to_string(source.join(file)).unwrap();
        assert_eq!(FILES[1].1, read(".cargo/config.toml"));
        let mut own: toml::Table = filled(FILES[0].1, "a", "path = 'b'").parse().unwrap();
        let mut theirs: toml::Table = read("Cargo.toml").parse().unwrap();
        let profiles = theirs["profile"].as_table_mut().unwrap();
        profiles.remove("bench");
        let tested = profiles["test"]["package"].as_table_mut().unwrap();
        // A new crate depends on none of these.
        for absent in [
            "blox-cluster",
            "blox-core-tests",
            "blox-policies-tests",
            "blox-released",
            "blox-sim-tests",
            "microlp",
        ] {
            tested.remove(absent).unwrap();
        }
        // The level for packages of others is not meant for the toolkit.
        let own_tested = own["profile"]["test"]["package"].as_table_mut().unwrap();
        for part in [
            "blox-learn",
            "blox-perf",
            "blox-policies",
            "blox-scheduler-core",
            "blox-schedulers",
            "blox-solve",
        ] {
            let level = own_tested.remove(part).unwrap();
            assert_eq!(level["opt-level"], theirs["profile"]["test"]["opt-level"]);
        }
        // A new crate keeps its own debug assertions.
        let own_others = own["profile"]["test"]["package"]["*"]
            .as_table_mut()
            .unwrap();
        let theirs_test = theirs["profile"]["test"].as_table_mut().unwrap();
        for check in ["debug-assertions", "overflow-checks"] {
            assert_eq!(own_others.remove(check), theirs_test.remove(check));
        }
        assert_eq!(own["profile"], theirs["profile"]);
    }

    #[test]
    fn names_become_valid_rust_names() {
        let text = "{{name}} {{crate}} {{type}} {{dependency}}";
        assert_eq!(
            filled(text, "my-policy2", "\"1\""),
            "my-policy2 my_policy2 MyPolicy2 \"1\""
        );
        for kind in Kind::value_variants() {
            let Template { library, tests, .. } = template(*kind);
            for text in [library, tests] {
                assert!(!filled(text, "a", "b").contains("{{"));
            }
        }
        for bad in ["", "My", "2x", "a b", "fn", "blox", "a_b", "a-", "-a"] {
            assert!(check(bad).is_err(), "{bad}");
        }
        assert!(check("my-policy").is_ok());
    }
}
