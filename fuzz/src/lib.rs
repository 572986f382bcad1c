//! Fuzz targets of the readers. For any bytes, a reader must end with valid jobs or an error of one
//! line.
//!
//! Run a target with a nightly compiler and `cargo install cargo-fuzz`:
//!
//! ```text
//! mkdir -p fuzz/corpus/slurm
//! BLOX_SEEDS=$PWD/fuzz/corpus/seeds cargo test -p blox-traces --test readers seeds
//! cargo +nightly fuzz run slurm fuzz/corpus/slurm fuzz/corpus/seeds -- -max_total_time=300 -max_len=4096
//! ```
//!
//! Targets:
//!
//! - one for each workload format;
//! - `detect`: detection of the format;
//! - `map`: column maps, with the map on the first line;
//! - `cluster`: cluster files;
//! - `profiles`: Synergy's profiles;
//! - `tables`: other files that accompany workloads, selected by the first byte.
//!
//! `crates/blox-traces/tests/readers.rs` does the same with damaged inputs and needs no fuzzer.

use blox_released::elasticflow::files as elasticflow;
use blox_released::lucid::files as lucid;
use blox_sim::workload::{Workload, WorkloadError};
use blox_traces::formats::synergy::{self, Profiles};
use blox_traces::formats::{gavel, tiresias};
use blox_traces::scaling::ScalingTable;
use blox_traces::source::Source;
use blox_traces::{ColumnMap, ReadOptions, Trace, check};
use blox_traces::{cluster_file, lucid_cluster};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Path under which the bytes are opened: Synergy's profiles are searched in its folder.
const NAME: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../crates/blox-traces/tests/inputs/fuzzed"
);

/// Reads bytes as the given format.
pub fn known(format: &str, bytes: &[u8]) {
    let options = ReadOptions {
        format: Some(format.parse().expect("a format")),
        columns: None,
    };
    read(bytes, &options);
}

/// Reads bytes and detects their format.
pub fn detect(bytes: &[u8]) {
    read(bytes, &ReadOptions::default());
}

/// Reads a table with the column map on the first line.
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
    let source = Source::of(NAME, bytes);
    match source.and_then(|source| check(&source, options, 3, &mut |_, _| {})) {
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

/// Reads text as a cluster: as a shorthand, as TOML and as Synergy's INI.
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

/// Readers whose only argument is a path.
const TABLES: [fn(&Path) -> Result<(), WorkloadError>; 13] = [
    |path| gavel::Oracle::read(path).map(drop),
    |path| lucid_cluster::read_virtual_clusters(path).map(drop),
    |path| {
        lucid_cluster::read_cluster(path).map(|cluster| cluster.check().expect("it makes sense"))
    },
    |path| lucid::read_estimates(path).map(drop),
    |path| lucid::read_scores(path).map(drop),
    |path| lucid::read_pairs(path).map(drop),
    |path| lucid::read_chronus_trace(path, 60.0).map(sensible),
    |path| elasticflow::read_trace(path).map(sensible),
    |path| elasticflow::read_cluster(path).map(drop),
    |path| tiresias::read_cluster(path).map(|cluster| cluster.check().expect("it makes sense")),
    |path| tiresias::read_samples(path).map(drop),
    |path| ScalingTable::read_dir(path.parent().expect("a folder")).map(drop),
    |path| {
        blox_traces::applications::read_dir(path.ancestors().nth(2).expect("a folder")).map(drop)
    },
];

/// Writes the remaining bytes into a file and reads it with the reader that the first byte selects.
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

/// Two file names of an application: a table of step times and a validation curve.
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
