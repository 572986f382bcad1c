//! Commands that print one result of all runs, shared between shards.

#[cfg(feature = "released")]
use crate::support::bytes;
use crate::support::{at, failed, good};
use std::fs;
use std::path::Path;

/// Runs the shards of a command into the folder `parts`.
fn shards(dir: &Path, line: &str, of: u32) {
    for number in 1..=of {
        let line = format!("{line} --shard {number}/{of} --output-dir parts");
        let seen = good(dir, &line);
        assert_eq!(seen.out, "");
        assert!(
            seen.err.starts_with(&format!("shard {number}/{of}: ")),
            "{}",
            seen.err
        );
    }
}

/// Checks that the merged shards of a command give its result, in each format.
fn merges_to_the_same(dir: &Path, line: &str) {
    for format in [
        "",
        " --output-format csv",
        " --output-format json",
        " --table latex",
    ] {
        let whole = at(dir, format!("{line}{format}").split_whitespace());
        let merged = at(
            dir,
            format!("{line}{format} --merge parts").split_whitespace(),
        );
        assert_eq!(
            (whole.code, whole.out),
            (merged.code, merged.out),
            "{format}"
        );
        // The wall time is of the merge.
        let notes = |text: &str| {
            let lines = text.lines().filter(|l| !l.starts_with("wall time"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(notes(&whole.err), notes(&merged.err));
    }
}

#[test]
fn sharded_claims_equal_the_unsharded() {
    let dir = tempfile::tempdir().unwrap();
    let line = "claims tiresias/avg-jct-fifo tiresias/median-jct-fifo gandiva/packed themis/max-rho-tiresias-rigid";
    shards(dir.path(), line, 3);
    merges_to_the_same(dir.path(), line);
    // Fewer claims need fewer runs, and others are missing.
    merges_to_the_same(dir.path(), "claims gandiva/packed");
    let error = failed(dir.path(), "claims gandiva --merge parts");
    assert!(
        error.contains("runs are missing or damaged: gandiva, "),
        "{error}"
    );
}

#[test]
fn sharded_seeds_equal_the_unsharded() {
    let dir = tempfile::tempdir().unwrap();
    let line = "compare las fifo srtf --workload poisson --load 4 --jobs 60 --cluster 2x4 \
                --seeds 0..5 --by gpus --fairness";
    shards(dir.path(), line, 4);
    merges_to_the_same(dir.path(), line);
    good(dir.path(), &format!("{line} --plot whole.svg"));
    good(
        dir.path(),
        &format!("{line} --plot merged.svg --merge parts"),
    );
    let read = |name: &str| fs::read(dir.path().join(name)).unwrap();
    assert_eq!(read("whole.svg"), read("merged.svg"));
    // A longer list of seeds keeps the runs.
    let longer = line.replace("0..5", "0..6");
    let error = failed(dir.path(), &format!("{longer} --merge parts"));
    assert!(
        error.starts_with("error: 3 of 21 runs are missing or damaged: "),
        "{error}"
    );
    shards(dir.path(), &longer, 4);
    merges_to_the_same(dir.path(), &longer);
    merges_to_the_same(dir.path(), line);
    // Other jobs are other runs.
    let error = failed(
        dir.path(),
        &format!("{} --merge parts", line.replace("60", "61")),
    );
    assert!(
        error.starts_with("error: 18 of 18 runs are missing"),
        "{error}"
    );
}

#[test]
fn failed_runs_of_shards_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    // One scheduler fails with each seed, and another one lacks data of the jobs.
    let line = "compare fifo pollux order{by=(age-age)/(age-age)} --workload poisson --load 4 \
                --jobs 30 --cluster 2x4 --seeds 0..2";
    for _ in 0..2 {
        for number in 1..=2 {
            let line = format!("{line} --shard {number}/2 --output-dir parts");
            let error = failed(dir.path(), &line);
            assert!(error.contains("error: run order"), "{error}");
        }
        merges_to_the_same(dir.path(), line);
    }
    let line = "compare fifo las --workload poisson --load 4 --jobs 30 --cluster 2x4 --seeds 0..2 \
                --measure 40..50";
    shards(dir.path(), line, 2);
    merges_to_the_same(dir.path(), line);
}

#[cfg(feature = "released")]
#[test]
fn sharded_figure_equals_the_unsharded() {
    let dir = tempfile::tempdir().unwrap();
    let line = "reproduce blox-table4 --quiet";
    let whole = good(dir.path(), &format!("{line} --output-dir whole"));
    for number in [1, 2] {
        let line = format!("{line} --shard {number}/2 --output-dir parts");
        assert_eq!(good(dir.path(), &line).out, "");
    }
    let merged = good(
        dir.path(),
        &format!("{line} --merge parts --output-dir merged"),
    );
    assert_eq!((whole.out, whole.err), (merged.out, merged.err));
    let files = |name: &str| bytes(&dir.path().join(name));
    assert_eq!(files("whole"), files("merged"));
    fs::remove_dir_all(dir.path().join("parts/shard-2-of-2")).unwrap();
    let error = failed(dir.path(), &format!("{line} --merge parts"));
    assert!(error.contains("(shard 2/2)"), "{error}");
    // A figure may be one computation.
    let error = failed(
        dir.path(),
        "reproduce gavel-fig13 --shard 1/2 --output-dir other",
    );
    assert!(error.contains("has no separate simulations"), "{error}");
}

#[test]
fn killed_shard_continues_after_its_last_run() {
    let dir = tempfile::tempdir().unwrap();
    let line = "compare fifo las --workload poisson --load 4 --jobs 60 --cluster 2x4 --seeds 0..5";
    shards(dir.path(), line, 2);
    let path = dir.path().join("parts/shard-1-of-2/runs.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let runs = text.lines().count() - 1;
    assert!(runs > 2, "{runs}");
    for (cut, kept) in [
        (text.len() - 1, runs - 1),
        (text.len() / 2, 1),
        (10, 0),
        (0, 0),
    ] {
        fs::write(&path, &text.as_bytes()[..cut]).unwrap();
        let error = failed(dir.path(), &format!("{line} --merge parts"));
        assert!(
            error.contains("(shard 1/2)") && !error.contains("(shard 2/2)"),
            "{error}"
        );
        let seen = good(
            dir.path(),
            &format!("{line} --shard 1/2 --output-dir parts"),
        );
        let before = seen
            .err
            .split(", ")
            .nth(1)
            .and_then(|part| part.split(' ').next());
        let before = before.and_then(|number| number.parse().ok()).unwrap_or(0);
        assert!(before >= kept && before < runs, "{cut} {}", seen.err);
        merges_to_the_same(dir.path(), line);
    }
}
