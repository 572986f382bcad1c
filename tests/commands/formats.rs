//! Result files as Parquet and as a trace for Perfetto.

use crate::support::good;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The table of jobs of the site: three users, and more jobs than GPUs.
const JOBS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/src/files/jobs.csv");

fn simulate(dir: &Path, formats: &str) {
    let line = format!(
        "simulate las --trace {JOBS} --cluster 2x4 --output-dir r --assignments --rounds \
         --file-format {formats} -q"
    );
    good(dir, &line);
}

/// Returns the rows of a table of a result folder, by column.
fn rows(dir: &Path, name: &str) -> Vec<BTreeMap<String, String>> {
    let mut csv = csv::Reader::from_path(dir.join("r/las").join(name)).unwrap();
    csv.deserialize().map(Result::unwrap).collect()
}

#[test]
fn chrome_trace_has_each_run_and_each_wait() {
    let dir = tempfile::tempdir().unwrap();
    simulate(dir.path(), "chrome");
    let text = fs::read_to_string(dir.path().join("r/las/trace.json")).unwrap();
    let trace: serde_json::Value = serde_json::from_str(&text).unwrap();
    // Seconds of slices by process and job.
    let mut seconds: BTreeMap<(u64, u64), f64> = BTreeMap::new();
    let mut ends: BTreeMap<(u64, u64), i64> = BTreeMap::new();
    let mut events: Vec<&serde_json::Value> =
        trace["traceEvents"].as_array().unwrap().iter().collect();
    events.retain(|e| e["ph"] == "X");
    events.sort_by_key(|e| e["ts"].as_i64());
    for e in events {
        let number = |key: &str| e[key].as_u64().unwrap();
        let job = e["args"]["job"].as_u64().unwrap();
        let gpus = e["args"]["gpus"].as_f64().unwrap_or(1.0);
        *seconds.entry((number("pid"), job)).or_default() += gpus * number("dur") as f64 / 1e6;
        // Slices of a track do not overlap.
        let end = ends.entry((number("pid"), number("tid"))).or_default();
        assert!(*end <= e["ts"].as_i64().unwrap(), "{e}");
        *end = (number("ts") + number("dur")) as i64;
    }
    let jobs = rows(dir.path(), "jobs.csv");
    assert_eq!(jobs.len(), 120);
    for job in &jobs {
        let number = |key: &str| job[key].parse::<f64>().unwrap();
        let of = |pid| {
            seconds
                .get(&(pid, number("job") as u64))
                .copied()
                .unwrap_or(0.0)
        };
        let (ran, waited) = (number("attained_s"), number("jct_s") - number("attained_s"));
        assert!((of(1) - ran * number("gpus")).abs() < 1e-3, "{job:?}");
        assert!((of(2) - waited).abs() < 1e-3, "{job:?}");
    }
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_results_are_a_trace_with_the_same_jobs() {
    let dir = tempfile::tempdir().unwrap();
    simulate(dir.path(), "parquet");
    for name in ["jobs", "timeline", "rounds", "assignments"] {
        let bytes = fs::read(dir.path().join(format!("r/las/{name}.parquet"))).unwrap();
        assert!(
            bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"),
            "{name}"
        );
    }
    // The table of results has the columns of a trace.
    let again = "simulate las --trace r/las/jobs.parquet --cluster 2x4 --output-dir again -q";
    good(dir.path(), again);
    let summary =
        |folder: &str| fs::read_to_string(dir.path().join(folder).join("las/summary.json"));
    assert_eq!(summary("r").unwrap(), summary("again").unwrap());
    let manifest = fs::read_to_string(dir.path().join("again/manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    let hash = manifest["inputs"][0]["sha256"].as_str().unwrap();
    assert_eq!(hash.len(), 64);
    assert_eq!(manifest["seeds"], serde_json::json!([1]));
    assert!(manifest.get("commit").is_some());
}
