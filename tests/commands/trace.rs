//! Tests of workload files: the `trace` command, formats and invalid input.

use crate::support::{Seen, at, blox, failed, good};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs a command line, split at spaces.
fn line(dir: &Path, line: &str) -> Seen {
    at(dir, line.split_whitespace())
}

/// A folder with these files.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(text).unwrap();
    gz.finish().unwrap()
}

const HEAD: &str = "job_id,submit_s,gpus,duration_s\n";

/// No output could be mistaken for a result.
#[test]
fn invalid_trace_leaves_no_file() {
    for text in [format!("{HEAD}a,0,1\n"), String::new()] {
        let dir = folder(&[("t.csv", &text)]);
        for command in [
            "simulate -s fifo --trace t.csv --format csv --output-dir results",
            "compare fifo las --trace t.csv --format csv --output-dir results",
            "trace convert t.csv --format csv --output out.csv",
            "trace sample t.csv --format csv --output out.csv",
        ] {
            let seen = line(dir.path(), command);
            assert_eq!((seen.code, seen.out.as_str()), (Some(2), ""), "{command}");
            let left = fs::read_dir(dir.path()).unwrap();
            assert_eq!(left.count(), 1, "{command}");
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn full_disk_is_an_error_and_devices_are_no_workload() {
    let text = format!("{HEAD}a,0,1,5\n");
    let dir = folder(&[("t.csv", &text)]);
    let no_space = "cannot be written: No space left on device (os error 28)";
    let full = || {
        fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap()
    };
    for command in [
        "trace convert t.csv",
        "trace convert t.csv --to jsonl",
        "trace info t.csv",
        "trace check t.csv",
        "trace generate --jobs 2",
        "simulate -q -s fifo --trace t.csv",
        "policies",
    ] {
        let child = blox()
            .current_dir(dir.path())
            .args(command.split(' '))
            .stdout(full())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let seen = Seen::from(child.wait_with_output().unwrap());
        let expected = format!("error: the output {no_space}\n");
        assert_eq!((seen.code, seen.err), (Some(2), expected), "{command}");
    }
    for command in [
        "trace convert t.csv --output /dev/full",
        "simulate -q -s fifo --trace t.csv --journal /dev/full",
    ] {
        let expected = format!("error: /dev/full: {no_space}\n");
        assert_eq!(failed(dir.path(), command), expected, "{command}");
    }
    let irregular = "error: /dev/zero: is no regular file, expected one\n";
    assert_eq!(failed(dir.path(), "trace info /dev/zero"), irregular);
}

#[test]
fn generated_jobs_are_those_that_simulate_makes() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    for made in [
        "--load 7 --jobs 200",
        "--workload poisson --load-of-capacity 0.8 --cluster 4x4 --durations lognormal:600,1 --gpu-mix 1:3,4:1 --jobs 200 --seed 9",
    ] {
        let command = format!("trace generate {made} --output jobs.csv --force");
        let seen = good(d, &command);
        assert_eq!(seen.err, "200 jobs written to jobs.csv\n");
        // The default overheads depend on the workload.
        let las = "simulate -q -s las --cluster 4x4 --overheads none";
        let table = |workload: &str| line(d, &format!("{las} {workload}")).out;
        let made = made.replace("--cluster 4x4", "");
        assert_eq!(table(&made), table("--trace jobs.csv"));
    }
}

#[cfg(unix)]
#[test]
fn pipe_works_like_a_file() {
    let text = format!("{HEAD}b,5,1,60\na,0,2,90\n");
    let dir = folder(&[("t.csv", &text)]);
    let piped = |bytes: &[u8], args: &str| {
        let mut child = blox()
            .current_dir(dir.path())
            .args(args.split(' '))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(bytes).unwrap();
        Seen::from(child.wait_with_output().unwrap())
    };
    for bytes in [text.as_bytes().to_vec(), gzip(text.as_bytes())] {
        let compare = "compare -q fifo las --trace /dev/stdin --output-dir out --force";
        let seen = piped(&bytes, compare);
        let expected = line(dir.path(), "compare -q fifo las --trace t.csv").out;
        assert_eq!(seen.out, expected, "{}", seen.err);
    }
    let manifest = fs::read_to_string(dir.path().join("out/manifest.json")).unwrap();
    assert!(manifest.contains("\"sha256\""), "{manifest}");
    let seen = piped(b"", "trace info /dev/stdin");
    assert_eq!(
        seen.err,
        "error: /dev/stdin: the file is empty, expected a header or a job\n"
    );
}

/// A small file that expands to 160 MB of text is read with a smaller address space.
#[cfg(target_os = "linux")]
#[test]
fn a_large_file_is_streamed_in_bounded_memory() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("large.csv.gz");
    let write = |head: &str, rows: u32| {
        let file = std::io::BufWriter::new(fs::File::create(&path).unwrap());
        let mut gz = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
        writeln!(gz, "{head}").unwrap();
        let padding = "x".repeat(20_000);
        for i in 0..rows {
            writeln!(gz, "{i},{i},1,60,{padding}").unwrap();
        }
        gz.finish().unwrap().flush().unwrap();
    };
    write("job_id,submit_s,gpus,duration_s,padding", 8_000);
    let limited = |args: &str| {
        let blox = env!("CARGO_BIN_EXE_blox");
        let script = format!("ulimit -v 100000; exec {blox} {args}");
        let mut shell = Command::new("sh");
        let shell = shell.current_dir(dir.path()).args(["-c", &script]);
        Seen::from(shell.output().unwrap())
    };
    let seen = limited("trace check large.csv.gz");
    assert_eq!(seen.code, Some(0), "{}", seen.err);
    let good = "large.csv.gz (csv): no problem, 8,000 jobs\n";
    assert!(seen.out.ends_with(good), "{}", seen.out);
    let seen = limited("trace convert large.csv.gz --output small.csv");
    assert_eq!(seen.code, Some(0), "{}", seen.err);
    let small = fs::read_to_string(dir.path().join("small.csv")).unwrap();
    assert_eq!(small.lines().count(), 8_001);
    // An unterminated quote does not read the rest of the file into memory.
    write(
        "job_id,submit_s,gpus,duration_s\na,0,1,60\n\"b,0,1,60",
        2_000,
    );
    let seen = limited("trace check large.csv.gz");
    assert_eq!(seen.code, Some(2), "{}", seen.err);
    let error = "large.csv.gz:3: job_id is `b,0,1,60`, expected a cell whose quote is closed on the same line\n";
    assert!(seen.out.starts_with(error), "{}{}", seen.out, seen.err);
}

#[test]
fn help_names_every_format() {
    let dir = tempfile::tempdir().unwrap();
    for command in ["simulate", "trace sample"] {
        let help = line(dir.path(), &format!("{command} --help")).out;
        let (_, formats) = help.split_once("--format <FORMAT>").unwrap();
        let (formats, _) = formats.split_once("--map").unwrap();
        for format in blox::traces::Format::ALL {
            let named = formats
                .split([' ', ',', '.', '\n'])
                .any(|word| word == format.name());
            assert!(named, "{format:?} is not in {formats}");
        }
    }
}

#[test]
fn check_names_jobs_that_can_never_run() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    let nodes = "[[node]]\ncount = 2\ngpus = 4\ngpu_type = \"v100\"\ncpus = 48\nmemory_gib = 384\n";
    write("nodes.toml", nodes);
    let jobs = "submit_s,gpus,duration_s,cpus,memory_gib,gpu_types\n0,1,60,,,\n10,64,60,,,\n\
                20,2,60,1000,,\n30,2,60,,99999,\n40,2,60,,,h100\n50,8,60,96,768,v100\n";
    write("jobs.csv", jobs);
    let job = |speeds: &str| {
        format!(
            "{{\"submit\": 0, \"gpus\": 1, \"work\": {{\"iterations\": 60, \"rate\": 1}}, \
             \"extras\": {{\"speeds\": {{\"alone\": {{{speeds}}}}}}}}}\n"
        )
    };
    write(
        "types.jsonl",
        &(job("\"v100\": 1.0") + &job("\"v100\": 0.0")),
    );
    write(
        "levels.csv",
        "submit_s,gpus,duration_s,levels,rates\n0,2,3600,1;2,0;1\n",
    );
    let problems = |line: &str| {
        let seen = at(dir.path(), line.split_whitespace());
        let (lines, last) = seen
            .out
            .trim_end()
            .rsplit_once('\n')
            .unwrap_or(("", &seen.out));
        assert_eq!(
            seen.code,
            Some(if lines.is_empty() { 0 } else { 2 }),
            "{last}"
        );
        let why = |line: &str| {
            let (place, why) = line
                .split_once(": the job can never run in the cluster ")
                .unwrap();
            format!("{place}: {}", why.split_once(": it ").unwrap().1)
        };
        lines.lines().map(why).collect::<Vec<_>>()
    };
    assert_eq!(
        problems("trace check jobs.csv --cluster nodes.toml"),
        [
            "jobs.csv:3: asks for 64 GPUs, at most 8 are possible",
            "jobs.csv:4: asks for 1000 CPUs, the largest node has 48",
            "jobs.csv:5: asks for 99999 GiB of memory, the largest node has 384 GiB",
            "jobs.csv:6: asks for 2 GPUs of type h100, the cluster has none",
        ]
    );
    assert_eq!(
        problems("trace check types.jsonl --cluster 2x4"),
        [
            "types.jsonl:1: asks for 1 GPU of type v100, the cluster has none",
            "types.jsonl:2: has a speed above 0 on no type of GPU that it may use",
        ]
    );
    assert_eq!(
        problems("trace check types.jsonl --cluster 2x4:v100").len(),
        1
    );
    assert_eq!(
        problems("trace check levels.csv --cluster 1x1"),
        ["levels.csv:2: asks for 2 GPUs, at most 1 are possible"]
    );
    assert_eq!(problems("trace check levels.csv --cluster 1x2"), [""; 0]);
}

#[path = "../../examples/heterogeneous_trace.rs"]
#[allow(dead_code, reason = "its `main` is for the example")]
mod heterogeneous_trace;

#[test]
fn shipped_trace_is_what_its_program_writes() {
    let mut written = Vec::new();
    heterogeneous_trace::write(&mut written).unwrap();
    let shipped = include_str!("../../examples/jobs.csv");
    assert_eq!(String::from_utf8(written).unwrap(), shipped);
}
