//! A crate from `blox new` builds, passes its tests and runs.

#[path = "support/codes.rs"]
mod codes;

use std::path::{Path, PathBuf};
use std::process::Command;

fn text(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &codes::without(&output.stderr)
}

fn new(dir: &Path, args: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_blox"));
    let output = command
        .current_dir(dir)
        .arg("new")
        .args(args)
        .output()
        .unwrap();
    (output.status.code(), text(&output))
}

const PARTS: [&str; 6] = [
    "--policy",
    "--placement",
    "--admission",
    "--cluster-manager",
    "--collector",
    "--execution",
];

/// Creates a crate with these parts and returns its folder.
fn created(dir: &Path, name: &str, parts: &[&str]) -> PathBuf {
    let args = [&[name], parts].concat();
    let (code, output) = new(dir, &args);
    assert_eq!(code, Some(0), "{output}");
    dir.join(name)
}

/// Runs cargo on a crate without a network, and returns what it prints.
///
/// The settings let it use dependencies as built for this checkout. The toolkit has
/// other features here and is built again.
fn cargo(krate: &Path, args: &[&str], settings: &[String]) -> String {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let (command, rest) = args.split_first().unwrap();
    let output = Command::new(env!("CARGO"))
        .current_dir(krate)
        .args([command, "--offline"])
        .args(settings.iter().flat_map(|line| ["--config", line]))
        .args(rest)
        .env("CARGO_TARGET_DIR", target)
        .env_remove("RUSTFLAGS")
        .output()
        .unwrap();
    assert!(output.status.success(), "{args:?}: {}", text(&output));
    text(&output)
}

/// Returns the settings of this checkout's tests.
fn as_tests() -> Vec<String> {
    let read = [
        "adler2",
        "crc32fast",
        "csv",
        "csv-core",
        "fixedbitset",
        "flate2",
        "libm",
        "memchr",
        "rand_mt",
        "serde_json",
    ];
    let settings = [
        "profile.dev.strip='debuginfo'",
        "profile.dev.package.'*'.overflow-checks=true",
    ];
    let levels = read.map(|name| format!("profile.dev.package.{name}.opt-level=2"));
    let settings = settings.iter().map(|setting| (*setting).to_owned());
    settings.chain(levels).collect()
}

/// In a path with spaces, against this checkout.
#[test]
fn a_crate_with_every_part_passes_its_tests() {
    let dir = tempfile::tempdir().unwrap();
    let args = [&["a path/with spaces", "--name", "my-parts"], &PARTS[..]].concat();
    let (code, output) = new(dir.path(), &args);
    assert_eq!(code, Some(0), "{output}");
    let next = "cargo test && cargo run -- compare fifo las my-parts --collect my-parts \
                --execution my-parts --load 8\n\
                The first of these commands compiles blox for both: minutes, not seconds.\n";
    assert!(output.ends_with(next), "{output}");
    let krate = dir.path().join("a path/with spaces");
    let manifest = std::fs::read_to_string(krate.join("Cargo.toml")).unwrap();
    let dependency = format!(
        "blox = {{ path = '{}', features = [\"testing\"] }}",
        env!("CARGO_MANIFEST_DIR")
    );
    assert!(manifest.contains(&dependency), "{manifest}");
    let tested = cargo(&krate, &["test"], &as_tests());
    for test in [
        "tests::the_command_line_compares_with_it",
        "scheduler::tests::the_whole_conforms",
        "policy::tests::it_conforms",
        "policy::tests::a_short_job_passes_one_that_ran_for_long",
        "placement::tests::it_conforms",
        "placement::tests::the_second_job_takes_the_other_node",
        "admission::tests::it_conforms",
        "admission::tests::a_job_waits_outside_until_there_is_room",
        "cluster_manager::tests::it_conforms",
        "cluster_manager::tests::the_spare_node_is_used_when_jobs_wait",
        "collector::tests::queue_of_three_jobs_is_found",
        "execution::tests::it_conforms",
        "execution::tests::a_neighbour_slows_a_job_while_it_runs",
    ] {
        assert!(tested.contains(&format!("test {test} ... ok")), "{tested}");
    }
    // The program is linked from what the tests compiled.
    let run = "run -- compare fifo my-parts{short_h=4,limit=50,spare=2} --collect my-parts \
               --execution my-parts{share=0.5} --load 8 --jobs 30 --cluster 4x4";
    let ran = cargo(&krate, &run.split(' ').collect::<Vec<_>>(), &as_tests());
    assert!(ran.contains("longest_jobs"), "{ran}");
    let compiled = ran.lines().filter(|line| line.contains("Compiling"));
    assert!(
        compiled.clone().all(|line| line.contains("my-parts")),
        "{ran}"
    );
}

/// Returns all sets of one or two parts.
fn small_sets() -> Vec<Vec<&'static str>> {
    let mut sets = Vec::new();
    for (place, part) in PARTS.iter().enumerate() {
        sets.push(vec![*part]);
        sets.extend(PARTS[..place].iter().map(|other| vec![*other, *part]));
    }
    sets
}

/// Copies the file of every built-in scheduler into a module of a crate.
fn copy_schedulers(krate: &Path) {
    let from = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/schedulers/src");
    let module = krate.join("src/schedulers");
    std::fs::create_dir(&module).unwrap();
    let mut names = Vec::new();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if name != "lib" {
            std::fs::copy(&path, module.join(format!("{name}.rs"))).unwrap();
            names.push(name);
        }
    }
    names.sort();
    assert!(names.len() > 30, "{names:?}");
    let mut text = "// The function of a scheduler beside its entry is for other crates.\n\
                    #![allow(dead_code)]\n\n"
        .to_owned();
    text.extend(names.iter().map(|name| format!("mod {name};\n")));
    text += "\npub fn add(registry: &mut blox::registry::Registry) {\n";
    text.extend(names.iter().map(|n| format!("    {n}::add(registry);\n")));
    text += "}\n";
    std::fs::write(module.join("mod.rs"), text).unwrap();
}

/// Each set is a module of one crate, so that one run checks them all. So is each copied scheduler:
/// its file imports only from `blox`.
#[test]
fn sets_of_parts_and_copies_have_no_warnings() {
    let dir = tempfile::tempdir().unwrap();
    let mut sets = small_sets();
    assert_eq!(sets.len(), 21);
    sets.push(PARTS.to_vec());
    let all = created(dir.path(), "all-sets", &[]);
    let mut library = String::new();
    for (number, parts) in sets.iter().enumerate() {
        let krate = created(dir.path(), &format!("set-{number}"), parts);
        let module = all.join(format!("src/set_{number:02}"));
        std::fs::rename(krate.join("src"), &module).unwrap();
        std::fs::rename(module.join("lib.rs"), module.join("mod.rs")).unwrap();
        std::fs::remove_file(module.join("main.rs")).unwrap();
        library += &format!("pub mod set_{number:02};\n");
    }
    copy_schedulers(&all);
    library = format!("pub mod schedulers;\n{library}\npub use set_21::registry;\n");
    std::fs::write(all.join("src/lib.rs"), library).unwrap();
    for own in ["policy.rs", "scheduler.rs"] {
        std::fs::remove_file(all.join("src").join(own)).unwrap();
    }
    let formatted = Command::new(env!("CARGO"))
        .current_dir(&all)
        .args(["fmt", "--check"])
        .output()
        .unwrap();
    let remedy = "`rustfmt examples/schedulers/src/*.rs` formats schedulers";
    assert!(formatted.status.success(), "{}\n{remedy}", text(&formatted));
    let args = ["clippy", "--all-targets", "--", "-D", "warnings"];
    // Metadata of dependencies is shared with a check of the checkout.
    let settings = [
        "profile.dev.strip='debuginfo'".to_owned(),
        "profile.dev.package.'*'.debug-assertions=true".to_owned(),
    ];
    cargo(&all, &args, &settings);
}

#[test]
fn what_cannot_be_made_is_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("full")).unwrap();
    std::fs::write(dir.path().join("full/x"), "").unwrap();
    let (code, output) = new(dir.path(), &["full"]);
    assert_eq!(code, Some(2));
    assert_eq!(
        output,
        "error: full: is there already, expected a new or an empty folder\n"
    );
    let (code, output) = new(dir.path(), &["My Policy"]);
    assert_eq!(code, Some(2));
    assert!(
        output.starts_with("error: the name is `My Policy`, expected one for a crate"),
        "{output}"
    );
    assert!(!dir.path().join("My Policy").exists());
    // Otherwise the new policy would replace the built-in one.
    let (code, output) = new(dir.path(), &["las"]);
    assert_eq!(code, Some(2), "{output}");
    assert!(
        output.starts_with("error: `las` is the name of a scheduler that ships, expected another"),
        "{output}"
    );
    let (code, output) = new(dir.path(), &["consolidated", "--collector", "--placement"]);
    assert_eq!(code, Some(2), "{output}");
    assert!(
        output.starts_with("error: `consolidated` is the name of a placement that ships"),
        "{output}"
    );
}
