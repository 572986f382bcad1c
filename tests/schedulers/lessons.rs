//! Runs the lessons in `examples/`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the sources of the lessons, in order of their names.
fn sources() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let files = std::fs::read_dir(folder).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    let mut lessons: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|e| e == "rs"))
        .collect();
    lessons.sort();
    lessons
}

fn name(path: &Path) -> &str {
    path.file_stem().unwrap().to_str().unwrap()
}

#[test]
fn each_lesson_shows_what_it_asserts() {
    let built = Path::new(env!("CARGO_BIN_EXE_blox")).with_file_name("examples");
    for lesson in sources() {
        let program = built.join(name(&lesson));
        if !program.exists() {
            let _ = writeln!(
                std::io::stderr(),
                "skipped: {} is not built, expected a build of all targets",
                program.display()
            );
            continue;
        }
        let mut command = Command::new(program);
        if name(&lesson) == "custom_policy" {
            command.args(["compare", "fifo", "two-queues", "--jobs", "50"]);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}: {output:?}", name(&lesson));
        assert!(!output.stdout.is_empty(), "{}", name(&lesson));
    }
}

#[test]
fn each_lesson_is_short_and_imports_only_the_prelude() {
    let mut lessons = sources();
    // The first writes the trace of this folder; the others run studies, and show no policy.
    let others = ["heterogeneous_trace", "answers", "experiment"];
    lessons.retain(|lesson| !others.contains(&name(lesson)));
    assert_eq!(lessons.len(), 9);
    for lesson in lessons {
        let (name, source) = (name(&lesson), std::fs::read_to_string(&lesson).unwrap());
        assert!(source.lines().count() < 60, "{name}");
        for import in source.lines().filter(|line| line.starts_with("use blox")) {
            let more = [
                ("faults", "use blox::backend::*;"),
                ("mix", "use blox::results::Summary;"),
            ];
            let allowed = more.contains(&(name, import));
            assert!(
                import == "use blox::prelude::*;" || allowed,
                "{name}: {import}"
            );
        }
        let command = format!("`cargo run --release --example {name}");
        assert!(source.contains(&command), "{name}");
    }
}
