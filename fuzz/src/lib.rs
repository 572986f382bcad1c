//! Fuzz targets of the readers: whatever the bytes are, a reader ends with jobs
//! that make sense or an error of one line.
//!
//! With a nightly compiler and `cargo install cargo-fuzz`:
//!
//! ```text
//! mkdir -p fuzz/corpus/slurm
//! cargo +nightly fuzz run slurm fuzz/corpus/slurm crates/blox-traces/tests/inputs -- -max_total_time=300 -max_len=4096
//! ```
//!
//! There is a target a format, `told` for telling the format, `map` for
//! column maps (the first line is the map), `cluster` for cluster files,
//! `profiles` for Synergy's profiles and `tables` for the other files that lie beside
//! workloads (the first byte says which). `crates/blox-traces/tests/readers.rs` tries the same
//! on damaged inputs without any of this.

use blox_traces::cluster_file;
use blox_traces::formats::synergy::{self, Profiles};
use blox_released::{elasticflow::files as elasticflow, lucid::files as lucid};
use blox_traces::formats::{gavel, tiresias};
use blox_sim::execution::training;
use blox_traces::scaling::ScalingTable;
use blox_traces::{ColumnMap, ReadOptions, Trace, check_bytes};
use blox_sim::workload::{Workload, WorkloadError};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Where the bytes are said to lie: Synergy's profiles are looked for beside them.
const NAME: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../crates/blox-traces/tests/inputs/fuzzed"
);

/// Reads bytes as a format that is said.
pub fn known(format: &str, bytes: &[u8]) {
    let options = ReadOptions {
        format: Some(format.parse().expect("a format")),
        columns: None,
    };
    read(bytes, &options);
}

/// Reads bytes as the format that they look like.
pub fn told(bytes: &[u8]) {
    read(bytes, &ReadOptions::default());
}

/// Reads a table by the map on the first line.
pub fn mapped(bytes: &[u8]) {
    let end = bytes
        .iter()
        .position(|b| *b == b'\n')
        .unwrap_or(bytes.len());
    let Ok(map) = std::str::from_utf8(&bytes[..end]) else {
        return;
    };
    let columns = match map.parse::<ColumnMap>() {
        Ok(columns) => Some(columns),
        Err(e) => {
            assert!(!e.to_string().is_empty());
            return;
        }
    };
    let options = ReadOptions {
        format: None,
        columns,
    };
    read(bytes.get(end + 1..).unwrap_or_default(), &options);
}

fn read(bytes: &[u8], options: &ReadOptions) {
    let opened = Trace::of_bytes(NAME, bytes, options);
    match &opened {
        Ok(trace) => {
            let mut jobs = trace.jobs().expect("it was read before");
            let mut count = 0;
            let mut last = None;
            while let Some(job) = jobs.next_job().expect("it was read before") {
                job.check().expect("jobs make sense");
                assert!(last.is_none_or(|last| last <= job.submit), "in order");
                last = Some(job.submit);
                count += 1;
            }
            assert_eq!(count, trace.len());
        }
        Err(e) => one_sentence(e),
    }
    match check_bytes(NAME, bytes, options, 3) {
        Ok(checked) => {
            checked.problems.iter().for_each(one_sentence);
            assert_eq!(checked.problem_count == 0, opened.is_ok());
        }
        Err(e) => one_sentence(&e),
    }
}

fn one_sentence(e: &WorkloadError) {
    let text = e.to_string();
    assert!(text.starts_with(&format!("{NAME}: ")), "{text}");
    assert!(!text.contains(['\n', '\r', '\u{1b}']), "{text}");
}

/// Reads text as a cluster: in shorthand, as TOML and as Synergy has it.
pub fn cluster(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let read = [
        text.parse().map_err(cluster_file::ClusterFileError::Spec),
        cluster_file::parse_cluster(text, Path::new("fuzzed")),
        synergy::parse_cluster(text, Path::new("fuzzed")),
    ];
    for cluster in read {
        match cluster {
            Ok(cluster) => cluster.check().expect("a cluster makes sense"),
            Err(e) => assert!(!e.to_string().contains(['\n', '\r', '\u{1b}']), "{e}"),
        }
    }
}

/// Reads text as Synergy's profiles.
pub fn profiles(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    match Profiles::parse(text, Path::new("fuzzed")) {
        Ok(profiles) => {
            for name in profiles.names() {
                let model = profiles.get(name).expect("it is there");
                assert!(model.iteration_s > 0.0 && model.speedup > 0.0, "{name}");
            }
        }
        Err(e) => assert!(!e.to_string().contains(['\n', '\r', '\u{1b}']), "{e}"),
    }
}

/// The readers that take a path alone.
const TABLES: [fn(&Path) -> Result<(), WorkloadError>; 14] = [
    |path| gavel::Oracle::read(path).map(drop),
    |path| lucid::read_virtual_clusters(path).map(drop),
    |path| lucid::read_cluster(path).map(|cluster| cluster.check().expect("it makes sense")),
    |path| lucid::read_estimates(path).map(drop),
    |path| lucid::read_scores(path).map(drop),
    |path| lucid::read_pairs(path).map(drop),
    |path| lucid::read_chronus_trace(path).map(sensible),
    |path| elasticflow::read_trace(path).map(sensible),
    |path| elasticflow::read_chronus_trace(path).map(sensible),
    |path| elasticflow::read_cluster(path).map(drop),
    |path| tiresias::read_cluster(path).map(|cluster| cluster.check().expect("it makes sense")),
    |path| tiresias::read_samples(path).map(drop),
    |path| ScalingTable::read_dir(path.parent().expect("a folder")).map(drop),
    |path| blox_traces::applications::read_dir(path.ancestors().nth(2).expect("a folder")).map(drop),
];

/// Reads the rest of the bytes, laid in a file, by the reader that the first one names.
pub fn tables(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else {
        return;
    };
    let path: &Path = &FILES[usize::from(first & 1)];
    std::fs::write(path, rest).expect("a file in the folder for such files");
    let reader = TABLES[usize::from(first >> 1) % TABLES.len()];
    if let Err(e) = reader(path) {
        let text = e.to_string();
        assert!(!text.contains(['\n', '\r', '\u{1b}']), "{text}");
    }
    std::fs::remove_file(path).expect("it was there");
}

/// Tables of step times, and curves: two names that an application's files have.
static FILES: LazyLock<[PathBuf; 2]> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("blox-fuzz-{}/application", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for such files");
    ["placements-t4.csv", "validation-32.csv"].map(|name| folder.join(name))
});

fn sensible(jobs: Vec<blox_core::JobSpec>) {
    for job in jobs {
        job.check().expect("jobs make sense");
    }
}
