//! A crate from `blox new` builds, passes its tests and runs.

#[path = "support/codes.rs"]
mod codes;

use std::path::Path;
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

/// Without a network, in a path with spaces, against this checkout.
#[test]
fn a_new_crate_builds_and_passes_its_tests() {
    let kinds = [
        ("scheduling", "a_short_job_passes_one_that_ran_for_long"),
        ("placement", "the_second_job_takes_the_other_node"),
        ("admission", "a_job_waits_outside_until_there_is_room"),
        ("cluster-manager", "the_spare_node_is_used_when_jobs_wait"),
        ("collector", "queue_of_three_jobs_is_found"),
        ("execution", "a_neighbour_slows_a_job_while_it_runs"),
    ];
    for (kind, test) in kinds {
        let tested = build_and_test(kind);
        let conforms = kind != "collector";
        for name in ["the_command_line_compares_with_it", test] {
            assert!(tested.contains(&format!("{name} ... ok")), "{tested}");
        }
        assert_eq!(tested.contains("it_conforms ... ok"), conforms, "{tested}");
    }
}

/// Returns what the tests of a crate of this kind print.
fn build_and_test(kind: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let name = format!("my-{kind}");
    let args = ["a path/with spaces", "--name", &name, "--kind", kind];
    let (code, said) = new(dir.path(), &args);
    assert_eq!(code, Some(0), "{said}");
    let build =
        "\nThe first build of each of the two commands compiles blox: minutes, not seconds.\n";
    assert!(said.ends_with(build), "{said}");
    let krate = dir.path().join("a path/with spaces");
    let manifest = std::fs::read_to_string(krate.join("Cargo.toml")).unwrap();
    let dependency = format!("blox = {{ path = '{}' }}", env!("CARGO_MANIFEST_DIR"));
    assert!(manifest.contains(&dependency), "{manifest}");
    // The crate has the profiles, the flags and the lock file of this checkout, so the crates that
    // blox depends on are built already. The toolkit has other features here and is built again,
    // without optimization: that is faster, and it simulates little.
    let toolkit = [
        "blox",
        "blox-learn",
        "blox-perf",
        "blox-plot",
        "blox-policies",
        "blox-scheduler-core",
        "blox-schedulers",
        "blox-sim",
        "blox-solve",
        "blox-testing",
        "blox-traces",
    ];
    let plain = toolkit.map(|name| format!("profile.test.package.{name}.opt-level=0"));
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let output = Command::new(env!("CARGO"))
        .current_dir(&krate)
        .args(["test", "--offline"])
        .args(plain.iter().flat_map(|line| ["--config", line]))
        .env("CARGO_TARGET_DIR", target)
        .env_remove("RUSTFLAGS")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));
    text(&output)
}

#[test]
fn what_cannot_be_made_is_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("full")).unwrap();
    std::fs::write(dir.path().join("full/x"), "").unwrap();
    let (code, said) = new(dir.path(), &["full"]);
    assert_eq!(code, Some(2));
    assert_eq!(
        said,
        "error: full: is there already, expected a new or an empty folder\n"
    );
    let (code, said) = new(dir.path(), &["My Policy"]);
    assert_eq!(code, Some(2));
    assert!(
        said.starts_with("error: the name is `My Policy`, expected one for a crate"),
        "{said}"
    );
    assert!(!dir.path().join("My Policy").exists());
    // Otherwise the new policy would replace the built-in one.
    let (code, said) = new(dir.path(), &["las"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.starts_with("error: `las` is the name of a scheduler that ships, expected another"),
        "{said}"
    );
}
