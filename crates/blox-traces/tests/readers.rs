//! Readers on damaged input. For any bytes, a reader ends with valid jobs or an error of one line;
//! it never panics and never hangs.
//!
//! `BLOX_MUTATIONS=N` tries N damaged inputs for each format instead of some hundred. With
//! `BLOX_SEEDS=FOLDER`, the inputs are written there, as seeds for a fuzzer.

use blox_core::{ClusterSpec, Time};
use blox_traces::cluster_file;
use blox_traces::formats::synergy::{self, Profiles};
use blox_traces::source::Source;
use blox_traces::{Format, ReadOptions, Trace, check};
use blox_workloads::{Workload, WorkloadError, collect};
use std::io::Write;
use std::path::Path;

/// Path under which the inputs are opened: its folder has Synergy's profiles and Gavel's oracle.
const NAME: &str = "tests/inputs/damaged";

/// Small valid inputs with their read options: one for each format, and two mapped tables. Gavel and
/// Synergy also read `throughputs.json` and `profiles.json` beside it.
fn inputs() -> Vec<(ReadOptions, &'static str)> {
    let known = |format| ReadOptions {
        format: Some(format),
        columns: None,
    };
    let mapped = |map: &str| ReadOptions {
        format: None,
        columns: Some(map.parse().unwrap()),
    };
    let mut all: Vec<_> = Format::ALL.map(|f| (known(f), f.example())).into();
    all.extend([
        (
            mapped(
                "job_id=id,submit=when:date,gpus=n:percent,start=b:epoch-ms,end=e:epoch-ms,memory=m:mib,user_estimate=l:clock",
            ),
            include_str!("inputs/map-dates.txt"),
        ),
        (
            mapped("submit=\"t, s\":h,gpus=g,duration=d:min,cpus=c:milli,deadline=x:ms"),
            include_str!("inputs/map-numbers.txt"),
        ),
    ]);
    all
}

/// Random numbers that are the same on every machine (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// Text pieces that often break readers.
const SHORT: [&str; 34] = [
    "", "0", "-1", "-0", "NaN", "inf", "-inf", "1e308", "1e-320", "1e999", "0.1", "1.5", " 7 ",
    "٣", "\"", "\"\"", ",", "|", ";", ":", "=", "\n", "\r\n", "\r", "\0", "\u{feff}", "{", "}",
    "[", "]", "\\", "null", "1-", "💥",
];
const LONG: [&str; 6] = [
    "4294967296",
    "18446744073709551616",
    "9223372036854775807",
    "2024-02-30 00:00:00",
    "9999-12-31T23:59:60.999999999+14:59",
    "gres/gpu=4294967295",
];

fn some_piece(random: &mut Random) -> &'static str {
    let all = [&SHORT[..], &LONG[..]].concat();
    all[random.below(all.len())]
}

/// Applies one to four changes: bytes, cells, lines, pieces, cuts.
fn damaged(text: &str, random: &mut Random) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        match random.below(8) {
            0 if !bytes.is_empty() => bytes[at] = random.next() as u8,
            1 => {
                let to = (at + random.below(9)).min(bytes.len());
                bytes.drain(at..to);
            }
            2 => {
                let piece = some_piece(random);
                bytes.splice(at..at, piece.bytes());
            }
            3 | 4 => {
                // Replaces a cell by another.
                let is_end = |b: &u8| b",;|\n:\"".contains(b);
                let before = bytes[..at].iter().rposition(is_end);
                let behind = bytes[at..].iter().position(is_end);
                let from = before.map_or(0, |i| i + 1);
                let to = behind.map_or(bytes.len(), |i| at + i);
                let piece = some_piece(random);
                bytes.splice(from..to, piece.bytes());
            }
            5 => bytes.truncate(at),
            6 => {
                // Copies a line to another place.
                let lines = bytes.split_inclusive(|b| *b == b'\n');
                let mut lines: Vec<Vec<u8>> = lines.map(<[u8]>::to_vec).collect();
                if !lines.is_empty() {
                    let (from, to) = (random.below(lines.len()), random.below(lines.len()));
                    let line = lines[from].clone();
                    lines.insert(to, line);
                }
                bytes = lines.concat();
            }
            _ => {
                let to = (at + random.below(40)).min(bytes.len());
                let part = bytes[at..to].to_vec();
                let at = random.below(bytes.len());
                bytes.splice(at..at, part);
            }
        }
    }
    bytes
}

/// Checks the properties that hold for any bytes.
fn hold(bytes: &[u8], options: &ReadOptions) {
    let opened = Trace::of_bytes(NAME, bytes, options);
    match &opened {
        Ok(trace) => {
            let mut jobs = trace.jobs().unwrap();
            let (mut count, mut last) = (0, Time::ZERO);
            while let Some(job) = jobs.next_job().unwrap() {
                job.check().unwrap();
                assert!(job.submit >= last, "not in order");
                assert!(job.duration().secs() >= 0.0);
                last = job.submit;
                count += 1;
            }
            assert_eq!(count, trace.len());
            assert!(count <= bytes.len() as u64);
        }
        Err(e) => one_sentence(e),
    }
    let source = Source::of(NAME, bytes);
    match source.and_then(|source| check(&source, options, 5, &mut |_, _| {})) {
        Ok(checked) => {
            assert!(checked.problems.len() <= 5);
            assert!(checked.problems.len() as u64 <= checked.problem_count);
            checked.problems.iter().for_each(one_sentence);
            assert_eq!(checked.problem_count == 0, opened.is_ok());
        }
        Err(e) => one_sentence(&e),
    }
}

fn one_sentence(e: &WorkloadError) {
    let text = e.to_string();
    assert!(text.starts_with(&format!("{NAME}:")), "{text}");
    assert!(!text.contains(['\n', '\r', '\u{1b}']), "{text}");
    assert!(text.len() < 6_000, "{} bytes", text.len());
}

fn mutations() -> usize {
    let tries = std::env::var("BLOX_MUTATIONS").ok();
    tries.and_then(|n| n.parse().ok()).unwrap_or(400)
}

#[test]
fn ends_of_lines_and_compression_change_nothing() {
    for (options, text) in inputs() {
        let read = |bytes: &[u8]| {
            let trace = Trace::of_bytes(NAME, bytes, &options).unwrap();
            collect(&mut trace.jobs().unwrap()).unwrap()
        };
        let jobs = read(text.as_bytes());
        assert!(!jobs.is_empty(), "{options:?}");
        let other = format!("\u{feff}{}", text.replace('\n', "\r\n"));
        assert_eq!(read(other.as_bytes()), jobs);
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(other.as_bytes()).unwrap();
        let gz = gz.finish().unwrap();
        assert_eq!(read(&gz), jobs);
        let cut = Trace::of_bytes(NAME, &gz[..gz.len() - 5], &options).unwrap_err();
        assert_eq!(
            cut.to_string(),
            format!("{NAME}: the gzip data ends too early, the file is truncated")
        );
    }
}

#[test]
fn inputs_are_distinct_seeds() {
    let folder = std::env::var_os("BLOX_SEEDS");
    let mut seen = std::collections::BTreeSet::new();
    for (number, (_, text)) in inputs().into_iter().enumerate() {
        assert!(seen.insert(text), "{text}");
        if let Some(folder) = &folder {
            let folder = Path::new(folder);
            std::fs::create_dir_all(folder).unwrap();
            std::fs::write(folder.join(format!("{number}.txt")), text).unwrap();
        }
    }
}

#[test]
fn no_damage_makes_a_reader_panic() {
    for (i, (options, text)) in inputs().iter().enumerate() {
        let mut random = Random(i as u64);
        for n in 0..mutations() {
            let bytes = damaged(text, &mut random);
            let result = std::panic::catch_unwind(|| hold(&bytes, options));
            assert!(
                result.is_ok(),
                "input {i}, try {n}, {options:?}: {:?}",
                String::from_utf8_lossy(&bytes)
            );
        }
    }
}

#[test]
fn any_bytes_in_any_format_are_jobs_or_an_error() {
    let inputs = inputs();
    let mut random = Random(99);
    for n in 0..mutations() {
        let (_, text) = &inputs[n % inputs.len()];
        let (options, _) = &inputs[random.below(inputs.len())];
        let bytes = damaged(text, &mut random);
        hold(&bytes, options);
        hold(&bytes, &ReadOptions::default());
    }
}

#[test]
fn damaged_clusters_and_profiles_give_one_sentence() {
    let line = |e: String| {
        assert!(!e.contains(['\n', '\r', '\u{1b}']), "{e:?}");
        assert!(e.len() < 6_000, "{} bytes", e.len());
    };
    let (toml, ini) = (
        include_str!("inputs/cluster.toml"),
        include_str!("inputs/cluster.ini"),
    );
    let profiles = include_str!("inputs/profiles.json");
    let path = Path::new("damaged");
    assert!(cluster_file::parse_cluster(toml, path).is_ok());
    assert!(synergy::parse_cluster(ini, path).is_ok());
    assert!(Profiles::parse(profiles, path).is_ok());
    let mut random = Random(7);
    for _ in 0..mutations() {
        for text in [toml, ini, profiles, "6x4:t4,3x8:rtx"] {
            let bytes = damaged(text, &mut random);
            let text = String::from_utf8_lossy(&bytes);
            match text.parse::<ClusterSpec>() {
                Ok(cluster) => cluster.check().unwrap(),
                Err(e) => line(e.to_string()),
            }
            for parse in [cluster_file::parse_cluster, synergy::parse_cluster] {
                match parse(&text, path) {
                    Ok(cluster) => cluster.check().unwrap(),
                    Err(e) => line(e.to_string()),
                }
            }
            if let Err(e) = Profiles::parse(&text, path) {
                line(e.to_string());
            }
        }
    }
}

/// Appends a column to a table: its name to the first line, and a value to every other.
fn with_column(text: &str, separator: char, name: &str, value: &str) -> String {
    let lines = text.lines().filter(|line| !line.is_empty()).enumerate();
    let cell = |i| if i == 0 { name } else { value };
    let lines = lines.map(|(i, line)| format!("{line}{separator}{}\n", cell(i)));
    lines.collect()
}

#[test]
fn every_table_keeps_columns_of_attributes() {
    let without_header = [
        Format::Jsonl,
        Format::PhillyLog,
        Format::Synergy,
        Format::Gavel,
        Format::Swf,
    ];
    for format in Format::ALL
        .into_iter()
        .filter(|f| !without_header.contains(f))
    {
        let (text, separator) = match format {
            Format::Slurm => (format.example().to_owned(), '|'),
            Format::Tiresias if !format.example().contains(',') => {
                (format.example().to_owned(), ' ')
            }
            // This input has no header.
            Format::Pai => {
                let header = "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,\
                              plan_mem,plan_gpu,gpu_type\n";
                (header.to_owned() + format.example(), ',')
            }
            _ => (format.example().to_owned(), ','),
        };
        let text = with_column(&text, separator, "attributes.estimate_s", "12.5");
        let options = ReadOptions {
            format: Some(format),
            columns: None,
        };
        let source = Source::of("table.txt", text.as_bytes()).unwrap();
        let mut estimates = Vec::new();
        let mut each = |job: &blox_core::JobSpec, _: u64| {
            estimates.push(job.extras().attributes.get("estimate_s").cloned());
        };
        let checked = check(&source, &options, 9, &mut each).unwrap();
        assert!(
            !estimates.is_empty(),
            "{} has no job: {checked:?}",
            format.name()
        );
        let expected = Some(serde_json::json!(12.5));
        assert!(
            estimates.iter().all(|t| *t == expected),
            "{}: {estimates:?}",
            format.name()
        );
        let notices: Vec<String> = checked.notices.iter().map(ToString::to_string).collect();
        let ignored = notices.iter().find(|n| n.contains("estimate_s"));
        assert_eq!(ignored, None, "{}", format.name());
    }
}

#[test]
fn a_map_keeps_columns_of_attributes() {
    let text = "t,g,d,attributes.a,attributes.b,x\n0,1,60,1,2,3\n";
    let map = "submit=t,gpus=g,duration=d,attributes.b=x";
    let options = ReadOptions {
        format: None,
        columns: Some(map.parse().unwrap()),
    };
    let source = Source::of("table.csv", text.as_bytes()).unwrap();
    let mut found = Vec::new();
    let mut each = |job: &blox_core::JobSpec, _: u64| {
        let attributes = &job.extras().attributes;
        found.push((attributes["a"].clone(), attributes["b"].clone()));
    };
    check(&source, &options, 9, &mut each).unwrap();
    // The map takes precedence.
    assert_eq!(found, [(serde_json::json!(1), serde_json::json!(3))]);
}
