//! Tests of sweeps and of comparisons over seeds, through the real binary.

use crate::support::{Seen, blox, bytes, failed, good, run_with, start};
use blox::prelude::*;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// A sweep of 2 x 3 x 2 fast runs.
const SMALL: &str = "sweep fifo las{guard_h=1|500} --workload poisson --durations exponential:3600 \
                     --gpu-mix 1:70,4:30 --jobs 60 --cluster 2x4 --loads 4,9 --seeds 0..1";

fn json(path: &Path) -> serde_json::Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn any_number_of_threads_gives_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let mut seen = Vec::new();
    for threads in [1, 2, 5] {
        let line = format!("{SMALL} --rounds --why --threads {threads} --output-dir out{threads}");
        let s = good(dir.path(), &line);
        assert!(s.err.starts_with("wall time "), "{}", s.err);
        seen.push((s.out, bytes(&dir.path().join(format!("out{threads}")))));
    }
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[0], seen[2]);
    let names: Vec<&str> = seen[0].1.iter().map(|(n, _)| n.as_str()).collect();
    assert_eq!(names.len(), 12 * 5 + 2);
    for name in [
        "runs/fifo_seed=0_load=4/jobs.csv",
        "runs/las_guard_h=500_seed=1_load=9/manifest.json",
        "runs/las_guard_h=500_seed=1_load=9/rounds.csv",
        "sweep.csv",
        "sweep.json",
    ] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    // A run equals the result of `simulate`.
    let line = SMALL.replace(
        "sweep fifo las{guard_h=1|500}",
        "simulate -s las{guard_h=500}",
    );
    let one = "--load 9 --seed 1 --output-dir one";
    good(dir.path(), &line.replace("--loads 4,9 --seeds 0..1", one));
    let jobs = |path: &str| fs::read(dir.path().join(path).join("jobs.csv")).unwrap();
    let run = jobs("out1/runs/las_guard_h=500_seed=1_load=9");
    assert_eq!(jobs("one/las_guard_h=500"), run);
}

#[test]
fn sweep_resumes_where_it_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let line = format!("{SMALL} --output-dir out");
    good(dir.path(), &line);
    let whole = bytes(&out);
    // One run has no manifest, one lost some rows, one lost its folder, and one has a manifest with
    // other settings.
    fs::remove_file(out.join("runs/fifo_seed=0_load=4/manifest.json")).unwrap();
    fs::write(out.join("runs/fifo_seed=1_load=4/jobs.csv"), "job_id\n").unwrap();
    fs::remove_dir_all(out.join("runs/fifo_seed=0_load=9")).unwrap();
    let foreign = out.join("runs/fifo_seed=1_load=9/manifest.json");
    let text = fs::read_to_string(&foreign).unwrap();
    fs::write(&foreign, text.replace("exponential:3600", "exponential:60")).unwrap();
    fs::remove_file(out.join("sweep.csv")).unwrap();
    let seen = good(dir.path(), &line);
    let resumed = "resumed: 8 of 12 runs were finished before\n";
    assert!(seen.err.starts_with(resumed), "{}", seen.err);
    assert_eq!(bytes(&out), whole);

    assert_eq!(
        failed(dir.path(), &line.replace("--loads 4,9", "--loads 4,8")),
        "error: out: a sweep with other settings was begun here (varied.load was [4,9], now it is \
         [4,8]), expected the same settings, another --output-dir, or --force to begin anew\n"
    );
    assert_eq!(bytes(&out), whole);
    let anew = good(dir.path(), &format!("{line} --force"));
    assert!(!anew.err.contains("resumed"), "{}", anew.err);
    assert_eq!(bytes(&out), whole);
    fs::write(out.join("sweep.json"), "{}").unwrap();
    assert_eq!(
        failed(dir.path(), &line),
        "error: out/sweep.json: is no index of a sweep, expected one, another --output-dir, or --force to begin anew\n"
    );
}

/// A single command line gives 27 runs with their plots and a page.
#[test]
fn one_command_runs_draws_and_reports() {
    let dir = tempfile::tempdir().unwrap();
    let line = "sweep fifo srtf las --workload poisson --durations exponential:3600 --jobs 60 \
                --cluster 2x4 --loads 4,6,9 --seeds 0..2 --assignments";
    let whole = format!("{line} --output-dir whole --plots --report");
    let seen = good(dir.path(), &whole);
    assert!(seen.out.contains("runs       27\n"), "{}", seen.out);
    let whole = bytes(&dir.path().join("whole"));
    let find = |name: &str| {
        let file = whole.iter().find(|(n, _)| n == name);
        String::from_utf8(file.unwrap_or_else(|| panic!("{name}")).1.clone()).unwrap()
    };
    for name in [
        "load-jct",
        "load-p99-jct",
        "load-responsiveness",
        "load-utilisation",
        "jct-cdf_load=4",
        "jct-cdf_load=6",
        "jct-cdf_load=9",
    ] {
        let svg = find(&format!("plots/{name}.svg"));
        let whole = svg.starts_with("<svg") && svg.ends_with("</svg>\n");
        assert!(whole, "{name}");
        let named = |s| svg.contains(&format!(">{s}<"));
        assert!(["fifo", "srtf", "las"].into_iter().all(named));
    }
    let count = |is: fn(&str) -> bool| whole.iter().filter(|(n, _)| is(n)).count();
    assert_eq!(count(|n| n.starts_with("plots/")), 7);
    let page = find("report.html");
    assert!(page.contains("<title>Sweep of 27 runs</title>"));
    assert!(page.contains("Each of the 27 runs") && page.contains("fifo, load 4"));
    assert!(page.contains("the first 9 runs with the seed 0"), "{page}");
    assert_eq!(count(|n| n.ends_with("assignments.csv")), 27);
    // If plots and the page are requested later, finished runs are kept and the bytes are the same.
    good(dir.path(), &format!("{line} --output-dir late"));
    let lost = "late/runs/las_seed=2_load=9/assignments.csv";
    fs::remove_file(dir.path().join(lost)).unwrap();
    let late = format!("{line} --output-dir late --plots --report");
    let seen = good(dir.path(), &late);
    assert!(seen.err.starts_with("resumed: 26 of 27"), "{}", seen.err);
    let late = bytes(&dir.path().join("late"));
    for ((name, a), (other, b)) in whole.iter().zip(&late) {
        // The page names its folder.
        let equal = a == b || name == "report.html";
        assert!(name == other && equal, "{name} {other}");
    }
    assert_eq!(whole.len(), late.len());
    good(dir.path(), "plot late --output-dir again");
    for (name, svg) in whole.iter().filter(|(n, _)| n.starts_with("plots/")) {
        let again = dir.path().join(name.replace("plots/", "again/"));
        assert!(fs::read(again).unwrap() == *svg, "{name}");
    }
}

/// Two processes cannot write to the same folder; a crash leaves no lock.
#[cfg(feature = "released")]
#[test]
fn a_folder_in_use_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    fs::create_dir(&out).unwrap();
    let lock = fs::File::create(out.join("blox.lock")).unwrap();
    lock.lock().unwrap();
    let line = format!("{SMALL} --output-dir out");
    for line in [
        &line,
        "simulate fifo --jobs 5 --output-dir out --force",
        "compare fifo las --jobs 5 --output-dir out --force",
        "reproduce blox-fig6 --output-dir out --force",
    ] {
        let used = "error: out: another process writes here, expected another --output-dir, or to \
                    wait for its end\n";
        assert_eq!(failed(dir.path(), line), used, "{line}");
    }
    drop(lock);
    good(dir.path(), &line);
}

/// Gavel's speeds are in the parent folder of the trace, and a parameter names the forecast.
#[test]
fn files_not_named_by_an_option_are_tracked() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    fs::create_dir(d.join("jobs")).unwrap();
    let speeds = |rate| format!("{{\"v100\": {{\"('LM', 1)\": {{\"null\": {rate}}}}}}}");
    let first = [
        ("throughputs.json", speeds("2.0")),
        ("f.csv", "prediction\n1\n".to_owned()),
    ];
    let changed = [speeds("4.0"), "prediction\n2\n".to_owned()];
    let job = "LM\tcmd\t.\t--steps\t0\t4000\t1\t1\t-1\t0\n";
    fs::write(d.join("jobs/a.trace"), job).unwrap();
    for (name, text) in &first {
        fs::write(d.join(name), text).unwrap();
    }
    let line = "sweep helios-ces{forecast=f.csv} --trace jobs/a.trace --format gavel \
                --vary cluster=1x1:v100|2x1:v100";
    for ((name, text), other) in first.iter().zip(changed) {
        let line = format!("{line} --output-dir {name}.out");
        good(d, &line);
        let index = json(&d.join(format!("{name}.out/sweep.json")));
        let inputs = index["settings"]["inputs"].as_array().unwrap();
        let inputs: Vec<_> = inputs.iter().map(|i| i["path"].as_str().unwrap()).collect();
        assert_eq!(inputs, ["f.csv", "jobs/a.trace", "throughputs.json"]);
        fs::write(d.join(name), other).unwrap();
        let err = failed(d, &line);
        let why = "a sweep with other settings was begun here (inputs was";
        assert!(err.contains(why), "{name}: {err}");
        fs::write(d.join(name), text).unwrap();
    }
    // These input files are not overwritten either.
    let over = "simulate fifo --trace jobs/a.trace --format gavel --cluster 1x1:v100 --force \
                --journal throughputs.json";
    let err = failed(d, over);
    assert!(err.contains("throughputs.json"), "{err}");
}

#[test]
fn sweep_file_equals_the_command_line() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("conf")).unwrap();
    let text = "schedulers = [\"fifo\", \"las{guard_h=1|500}\"]\nworkload = \"poisson\"\n\
                durations = \"exponential:3600\"\ngpu-mix = \"1:70,4:30\"\njobs = 60\ncluster = \"2x4\"\n\
                loads = [4, 9]\nseeds = \"0..1\"\n";
    fs::write(dir.path().join("conf/sweep.toml"), text).unwrap();
    let by_file = good(dir.path(), "sweep conf/sweep.toml --output-dir a");
    let by_line = good(dir.path(), &format!("{SMALL} --output-dir b"));
    assert_eq!(by_file.out, by_line.out);
    let without_index = |name: &str| -> Vec<_> {
        let mut files = bytes(&dir.path().join(name));
        files.retain(|(name, _)| name != "sweep.json");
        files
    };
    assert_eq!(without_index("a"), without_index("b"));
}

/// Takes GPUs from a job that does not exist, which is an error of the policy.
struct Broken;

impl Stateless for Broken {}

impl PlacementPolicy for Broken {
    fn place(&self, (): &mut (), _: &mut JobQueue, draft: &mut Draft<'_>) -> Answer {
        draft.release(JobId(1_000_000), Reason::NotChosen)?;
        Ok(Validity::UntilEvent)
    }
}

/// Reads its order from a file that does not exist.
struct FromFile;

impl Stateless for FromFile {}

impl SchedulingPolicy for FromFile {
    fn schedule(&self, (): &mut (), _: View<'_>, _: &mut JobQueue) -> Answer {
        let order = std::fs::read_to_string("/missing/order.txt");
        order.map_err(|e| PolicyError::new(format!("/missing/order.txt: {}", e.kind())))?;
        Ok(Validity::NextRound)
    }
}

#[test]
fn policy_without_an_answer_ends_a_simulation() {
    let mut registry = blox::registry();
    registry
        .schedulers
        .add("from-file", "by a file", &[], |_, _| {
            let placement = InOrder::new(Consolidated::default());
            let composition = Composition::new("from-file").scheduling(FromFile);
            Ok(composition.placement(placement).build()?)
        });
    let line = "blox simulate from-file --load 5 --jobs 30 --cluster 1x4";
    let seen = run_with(&registry, line);
    assert_eq!((seen.code, &*seen.out), (Some(2), ""));
    let sentence = "policy `from-file` failed: /missing/order.txt: entity not found";
    assert_eq!(seen.err.matches(sentence).count(), 1, "{}", seen.err);
    assert!(!seen.err.contains("panicked"), "{}", seen.err);
}

#[test]
fn failed_run_is_reported_and_the_others_stay() {
    let mut registry = blox::registry();
    registry
        .schedulers
        .add("broken", "never right", &[], |_, _| {
            Ok(blox::schedulers::fifo().with_placement(Broken)?)
        });
    let dir = tempfile::tempdir().unwrap();
    let out_dir = dir.path().join("out");
    let line = "blox sweep fifo broken --workload poisson --load 5 --jobs 30 --cluster 1x4 --seeds 0..1 \
                --output-format csv --output-dir";
    let line = format!("{line} {}", out_dir.display());
    let go = || run_with(&registry, &line);
    let seen = go();
    assert_eq!(seen.code, Some(2));
    assert_eq!(seen.out.lines().count(), 3, "{}", seen.out);
    let message = "error: run broken_seed=0: broken: ";
    assert_eq!(seen.err.matches(message).count(), 1, "{}", seen.err);
    let index = json(&out_dir.join("sweep.json"));
    assert_eq!(index["status"], "failed");
    let status = |i: usize| index["runs"][i]["status"].clone();
    assert_eq!([status(0), status(1)], ["finished", "failed"]);
    // Failed runs are repeated, and finished runs are not.
    let seen = go();
    assert_eq!(seen.code, Some(2));
    assert!(seen.err.starts_with("resumed: 2 of 4 runs"), "{}", seen.err);
}

#[cfg(unix)]
fn signal(name: &str, id: u32) {
    let kill = std::process::Command::new("kill")
        .args([&format!("-{name}"), &id.to_string()])
        .status();
    assert!(kill.unwrap().success());
}

/// Starts a sweep of several seconds, and signals it when some of its runs are finished.
#[cfg(unix)]
fn interrupted(dir: &Path, line: &str, name: &str) -> Seen {
    // Slow enough to be interrupted.
    let child = start(dir, &format!("{line} --threads 1"));
    let third = dir.join("out/runs/fifo_seed=2/manifest.json");
    while !third.exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    signal(name, child.id());
    child.wait_with_output().unwrap().into()
}

#[cfg(unix)]
#[test]
fn signal_keeps_finished_runs_and_the_rest_follows() {
    let line = "sweep fifo --workload poisson --durations exponential:3600 --load 7 --jobs 800 \
                --cluster 2x4 --seeds 0..119 --output-dir out";
    let reference = tempfile::tempdir().unwrap();
    good(reference.path(), line);
    let whole = bytes(&reference.path().join("out"));
    for name in ["INT", "TERM"] {
        let dir = tempfile::tempdir().unwrap();
        let seen = interrupted(dir.path(), line, name);
        assert_eq!(seen.code, Some(130), "{}", seen.err);
        let begins = seen.err.starts_with("interrupted: ");
        let hint = "; the same command continues the sweep\n";
        assert!(begins && seen.err.ends_with(hint), "{}", seen.err);
        // The output is usable: it has one row for each finished run.
        let out = dir.path().join("out");
        let index = json(&out.join("sweep.json"));
        assert_eq!(index["status"], "interrupted");
        let runs = index["runs"].as_array().unwrap();
        let finished = runs.iter().filter(|r| r["status"] == "finished").count();
        assert!((3..120).contains(&finished), "{finished}");
        let table = fs::read_to_string(out.join("sweep.csv")).unwrap();
        assert_eq!(table.lines().count(), 1 + finished);
        for line in [
            format!("\nfifo       {finished:>5}"),
            format!("\nruns       {finished} of 120\n"),
        ] {
            assert!(seen.out.contains(&line), "{}", seen.out);
        }
        let seen = good(dir.path(), line);
        let resumed = format!("resumed: {finished} of 120 runs were finished before\n");
        assert!(seen.err.starts_with(&resumed), "{}", seen.err);
        assert_eq!(bytes(&out), whole);
    }
}

/// The first signal requests an orderly end, the second ends the process immediately.
#[cfg(unix)]
#[test]
fn a_second_signal_ends_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let line = "sweep fifo --workload poisson --load 7 --jobs 5 --cluster 2x4 --seeds 0..299 \
                --output-format json --output-dir out";
    let mut child = start(dir.path(), line);
    // All runs are finished, but the output exceeds the pipe buffer and is not read.
    let index = dir.path().join("out/sweep.json");
    let done = || fs::read_to_string(&index).is_ok_and(|t| t.contains("\"status\": \"complete\""));
    while !done() {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(100));
    signal("TERM", child.id());
    std::thread::sleep(Duration::from_millis(100));
    assert!(child.try_wait().unwrap().is_none());
    signal("INT", child.id());
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

/// After SIGKILL, only unfinished runs are lost.
#[cfg(unix)]
#[test]
fn killed_sweep_resumes() {
    let line = "sweep fifo --workload poisson --durations exponential:3600 --load 7 --jobs 800 \
                --cluster 2x4 --seeds 0..59 --output-dir out";
    let dir = tempfile::tempdir().unwrap();
    let seen = interrupted(dir.path(), line, "KILL");
    assert_eq!(seen.code, None);
    let seen = good(dir.path(), line);
    assert!(seen.err.starts_with("resumed: "), "{}", seen.err);
    let reference = tempfile::tempdir().unwrap();
    good(reference.path(), line);
    let left_over = |files: Vec<(String, Vec<u8>)>| -> Vec<_> {
        let whole = |(name, _): &(String, Vec<u8>)| !name.ends_with(".part");
        files.into_iter().filter(whole).collect()
    };
    assert_eq!(
        left_over(bytes(&dir.path().join("out"))),
        bytes(&reference.path().join("out"))
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let full = "No space left on device (os error 28)";
    let file = || {
        fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap()
    };
    let full_out = |line: &str| -> Seen {
        let child = blox()
            .current_dir(dir.path())
            .args(line.split_whitespace())
            .stdout(file())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.wait_with_output().unwrap().into()
    };
    for line in [
        "simulate -s fifo --jobs 5",
        "compare fifo las --jobs 5 --json",
        "sweep fifo --jobs 5 --loads 1..2",
        "compare fifo las --jobs 5 --seeds 1..2",
        "policies",
        "--help",
    ] {
        let seen = full_out(line);
        assert_eq!(seen.code, Some(2), "{line}");
        let error = format!("error: the output cannot be written: {full}\n");
        assert_eq!(seen.err, error, "{line}");
    }
    let err = failed(dir.path(), "simulate -s fifo --jobs 5 --journal /dev/full");
    assert_eq!(
        err,
        format!("error: /dev/full: cannot be written: {full}\n")
    );
    // If the error cannot be written either, the exit code shows it.
    let status = blox().arg("nope").stderr(file()).status().unwrap();
    assert_eq!(status.code(), Some(2));
}

/// A limit on the file size simulates a disk that becomes full while a file is written.
#[cfg(target_os = "linux")]
#[test]
fn a_file_that_cannot_be_finished_is_not_there() {
    for (line, file) in [
        (
            "simulate -s fifo --jobs 2000 --output-dir out",
            "out/fifo/jobs.csv",
        ),
        (
            "sweep fifo --jobs 2000 --loads 1..2 --output-dir out",
            "out/runs/fifo_load=1/jobs.csv",
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        // The block size is 512 or 1024 bytes, depending on the shell.
        let script = format!("trap '' XFSZ; ulimit -f 20; exec \"$0\" --threads 1 {line}")
            .replace("--threads 1 simulate", "simulate")
            .replace("--threads 1 sweep", "sweep --threads 1");
        let output = std::process::Command::new("sh")
            .current_dir(dir.path())
            .args(["-c", &script, env!("CARGO_BIN_EXE_blox")])
            .output()
            .unwrap();
        let seen = Seen::from(output);
        assert_eq!(
            seen.err,
            format!("error: {file}: cannot be written: File too large (os error 27)\n")
        );
        assert_eq!(seen.code, Some(2));
        let file = dir.path().join(file);
        assert!(!file.exists());
        assert!(!file.with_file_name("manifest.json").exists());
        if line.starts_with("sweep") {
            // The sweep continues when there is space again.
            good(dir.path(), line);
        }
    }
}

#[test]
fn seeds_are_compared_in_pairs() {
    let dir = tempfile::tempdir().unwrap();
    let line = "compare fifo las --workload poisson --load-of-capacity 0.9 --durations exponential:3600 \
                --gpu-mix 1:70,4:30 --jobs 200 --cluster 2x4";
    // Compute the result from runs with one seed each.
    let mut differences = Vec::new();
    let mut averages = Vec::new();
    for seed in 0..5 {
        let seen = good(dir.path(), &format!("{line} --seed {seed} --json"));
        let list: serde_json::Value = serde_json::from_str(&seen.out).unwrap();
        differences.push(list[1]["paired"]["mean_s"].as_f64().unwrap());
        averages.push(list[1]["avg_jct_s"].as_f64().unwrap());
        assert_eq!(list[1]["paired"]["pairs"], 200);
        assert!(list[0].get("paired").is_none());
    }
    let seen = good(dir.path(), &format!("{line} --seeds 0..4 --json"));
    let all: serde_json::Value = serde_json::from_str(&seen.out).unwrap();
    assert_eq!(all["baseline"], "fifo");
    assert_eq!(all["seeds"], serde_json::json!([0, 1, 2, 3, 4]));
    let las = &all["schedulers"][1];
    // The interval of five values is their range.
    let expect = |mut values: Vec<f64>, name: &str| {
        values.sort_by(f64::total_cmp);
        for (end, value) in [("", 2), ("_low", 0), ("_high", 4)] {
            assert_eq!(las[format!("{name}{end}")], values[value], "{name}{end}");
        }
    };
    expect(averages, "avg_jct_s");
    expect(differences, "paired_difference_s");
    for threads in [1, 3] {
        let line = format!("{line} --seeds 0..4 --json --threads {threads}");
        let again = good(dir.path(), &line);
        assert_eq!(again.out, seen.out);
    }
}

#[test]
fn plot_of_too_little_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    good(
        dir.path(),
        "sweep fifo --jobs 5 --seeds 1,2 --output-dir out",
    );
    let seen = good(dir.path(), "plot out");
    let nothing = "nothing to draw: no job has ended, or a sweep has fewer than two settings\n";
    assert_eq!((&*seen.out, &*seen.err), ("", nothing));
}
