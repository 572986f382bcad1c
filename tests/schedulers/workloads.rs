//! Tests of workloads that are generated on the command line or from a file.

use crate::support::good;
use std::fs;

/// Returns a column of a CSV file.
fn column(text: &str, name: &str) -> Vec<String> {
    let mut csv = csv::Reader::from_reader(text.as_bytes());
    let i = csv.headers().unwrap().iter().position(|h| h == name);
    csv.records()
        .map(|r| r.unwrap()[i.unwrap()].to_owned())
        .collect()
}

#[test]
fn bursts_come_when_they_should() {
    let dir = tempfile::tempdir().unwrap();
    let line = "simulate -s fifo --workload bursty --load 4 --burst-factor 10 --quiet-h 3 --burst-h 1 \
                --durations fixed:7200 --burst-durations uniform:60,600 --jobs 300 --output-dir out";
    let seen = good(dir.path(), line);
    let about = "workload   the first 300 jobs of bursty jobs, 4 per hour for 10,800 s, then 40 per hour \
                 for 3,600 s, mean duration 7,200 s (330 s for those of bursts), seed 1";
    assert!(seen.out.contains(about), "{}", seen.out);
    let jobs = fs::read_to_string(dir.path().join("out/fifo/jobs.csv")).unwrap();
    let (submits, durations) = (column(&jobs, "submit_s"), column(&jobs, "duration_s"));
    let mut short = 0;
    for (submit, duration) in submits.iter().zip(&durations) {
        if duration != "7200" {
            short += 1;
            let hour = submit.parse::<f64>().unwrap() / 3600.0;
            assert!(hour.rem_euclid(4.0) >= 3.0, "{submit}");
        }
    }
    assert!((180..240).contains(&short), "{short}");
}

#[test]
fn configuration_names_a_durations_file_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("conf")).unwrap();
    fs::write(dir.path().join("conf/durations.txt"), "60\n900\n").unwrap();
    let text = "workload = \"diurnal\"\ndiurnal = \"sine:1,12\"\nload = 60\njobs = 200\n\
                durations = \"file:durations.txt\"\nusers = \"ada:1,bob:1\"\nmodels = \"bert:1\"\n";
    fs::write(dir.path().join("conf/day.toml"), text).unwrap();
    let line = "simulate -s fifo --config conf/day.toml --output-dir out";
    let seen = good(dir.path(), line);
    let about = "diurnal jobs, 60 per hour over a day, mean duration 480 s, seed 1";
    assert!(seen.out.contains(about), "{}", seen.out);
    let jobs = fs::read_to_string(dir.path().join("out/fifo/jobs.csv")).unwrap();
    let durations = column(&jobs, "duration_s");
    assert!(durations.iter().all(|d| d == "60" || d == "900"));
    // Few jobs arrive after midnight.
    let early = |s: &&String| s.parse::<f64>().unwrap() < 4.0 * 3600.0;
    assert!(column(&jobs, "submit_s").iter().filter(early).count() < 40);
    let manifest = fs::read_to_string(dir.path().join("out/manifest.json")).unwrap();
    assert!(manifest.contains("conf/durations.txt"), "{manifest}");
}

#[test]
fn the_durations_of_a_trace_can_be_drawn_from() {
    let dir = tempfile::tempdir().unwrap();
    let trace = "submit_s,gpus,duration_s\n0,1,100\n5,1,250\n";
    fs::write(dir.path().join("t.csv"), trace).unwrap();
    let line = "simulate -s fifo --workload poisson --load-of-capacity 0.5 --cluster 1x4 \
                --durations trace:t.csv --jobs 50";
    let seen = good(dir.path(), line);
    // Half of 4 GPUs is 2 GPU-seconds per second, which are 41.1 jobs of 175 s per hour.
    assert!(
        seen.out
            .contains("Poisson jobs, 41.143 per hour, mean duration 175 s"),
        "{}",
        seen.out
    );
}
