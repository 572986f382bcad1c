//! Runs the transcripts of commands in `tests/cli`.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs the transcripts in a child, whose progress of hundreds of lines is hidden. With `BLOX_BLESS`,
/// it rewrites them.
#[test]
fn transcripts_repeat_their_output() {
    let mut child = Command::new(std::env::current_exe().unwrap());
    if std::env::var_os("BLOX_BLESS").is_some() {
        child.env("TRYCMD", "overwrite");
    }
    let child = child
        .args(["--exact", "--ignored", "--nocapture"])
        .arg("transcripts::each_transcript_in_its_own_folder")
        .output()
        .unwrap();
    let text = [child.stdout, child.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let passed = |l: &&str| l.starts_with("Testing ") && l.contains(" ... ok");
    let shown: Vec<&str> = text.lines().filter(|l| !passed(l)).collect();
    assert!(child.status.success(), "{}", shown.join("\n"));
    assert!(text.contains("1 passed"), "{text}");
}

/// Each command runs in a temporary copy of its input folder.
#[test]
#[ignore = "a child of the test above"]
fn each_transcript_in_its_own_folder() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli");
    let cases = trycmd::TestCases::new();
    let program = Path::new(env!("CARGO_BIN_EXE_blox"));
    cases
        .default_bin_path(program)
        .register_bin("blox", program);
    for topic in fs::read_dir(root).unwrap() {
        let topic = topic.unwrap().path();
        let runs = match topic.file_name().and_then(|name| name.to_str()) {
            Some("cluster") => cfg!(feature = "cluster"),
            Some("released") => cfg!(feature = "released"),
            _ => true,
        };
        if runs {
            cases
                .case(topic.join("*.trycmd"))
                .case(topic.join("*.toml"));
        }
    }
}

/// Without a folder of outputs, the commands would run in the source tree.
#[test]
fn transcripts_run_in_temporary_folders() {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli")];
    let mut transcripts = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let text = || fs::read_to_string(&path).unwrap();
            match path.extension().and_then(|e| e.to_str()) {
                None => folders.push(path),
                Some("trycmd") => {
                    assert!(path.with_extension("out").is_dir(), "{path:?}");
                    // A command of another name would be skipped.
                    for command in text().lines().filter_map(|l| l.strip_prefix("$ ")) {
                        assert_eq!(command.split(' ').next(), Some("blox"), "{path:?}");
                    }
                }
                Some("toml") => assert!(text().contains("\nfs.sandbox = true\n"), "{path:?}"),
                _ => continue,
            }
            transcripts += 1;
        }
    }
    assert!(transcripts > 60, "{transcripts}");
}
