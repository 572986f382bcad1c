//! Tests of sweeps and of comparisons over seeds, through the real binary.

use crate::support::{Seen, at, blox, bytes, good};
use blox::core::{
    Draft, DraftError, JobId, JobQueue, PlacementPolicy, Reason, Stateless, Validity,
};
use std::ffi::OsString;
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
    let line = line.replace(
        "--loads 4,9 --seeds 0..1",
        "--load 9 --seed 1 --output-dir one",
    );
    good(dir.path(), &line);
    assert_eq!(
        fs::read(dir.path().join("one/las_guard_h=500/jobs.csv")).unwrap(),
        fs::read(
            dir.path()
                .join("out1/runs/las_guard_h=500_seed=1_load=9/jobs.csv")
        )
        .unwrap()
    );
}

#[test]
fn the_table_of_a_sweep_has_settings_and_figures() {
    let dir = tempfile::tempdir().unwrap();
    let line = format!("{SMALL} --output-dir out --output-format csv");
    let seen = good(dir.path(), &line);
    let text = fs::read_to_string(dir.path().join("out/sweep.csv")).unwrap();
    assert_eq!(seen.out, text);
    let mut csv = csv::Reader::from_reader(text.as_bytes());
    let head: Vec<String> = csv.headers().unwrap().iter().map(str::to_owned).collect();
    assert_eq!(
        head.join(","),
        "run,scheduler,policy,param_guard_h,cluster,durations,gpu_mix,load,max_jobs,seed,workload,\
         nodes,gpus,ended,end_s,jobs,measured,completed,rejected,failed,unfinished,avg_jct_s,\
         median_jct_s,p99_jct_s,avg_responsiveness_s,avg_queueing_s,makespan_s,utilisation,\
         preemptions,rounds,decisions"
    );
    let rows: Vec<csv::StringRecord> = csv.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 12);
    let start: Vec<&str> = rows[2].iter().take(15).collect();
    let expected = [
        "las_guard_h=500_seed=0_load=4",
        "las{guard_h=500}",
        "las",
        "500",
        "2x4",
        "exponential:3600",
        "1:70,4:30",
        "4",
        "60",
        "0",
        "poisson",
        "2",
        "8",
        "finished",
    ];
    assert_eq!(start[..14], expected);
    // Seeds are outermost, schedulers innermost.
    let seeds: Vec<&str> = rows.iter().map(|r| &r[9]).collect();
    assert_eq!(seeds[..6], ["0"; 6]);
    // The figures equal those in the summary of a single run.
    let summary = json(
        &dir.path()
            .join("out/runs/las_guard_h=500_seed=0_load=4/summary.json"),
    );
    assert_eq!(
        rows[2][21].parse::<f64>().ok(),
        summary["avg_jct_s"].as_f64()
    );
    let json_rows = good(dir.path(), &format!("{SMALL} --output-format json -q"));
    assert_eq!(json_rows.err, "");
    let list: serde_json::Value = serde_json::from_str(&json_rows.out).unwrap();
    assert_eq!(list[2]["avg_jct_s"], summary["avg_jct_s"]);
}

#[test]
fn a_sweep_goes_on_where_it_was() {
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
    assert!(
        seen.err
            .starts_with("resumed: 8 of 12 runs were finished before\n"),
        "{}",
        seen.err
    );
    assert_eq!(bytes(&out), whole);

    let refused = at(
        dir.path(),
        line.replace("--loads 4,9", "--loads 4,8")
            .split_whitespace(),
    );
    assert_eq!(
        (refused.code, refused.err.as_str()),
        (
            Some(2),
            "error: out: a sweep with other settings was begun here (varied.load was [4,9], now it is \
             [4,8]), expected the same settings, another --output-dir, or --force to begin anew\n"
        )
    );
    assert_eq!(bytes(&out), whole);
    let anew = good(dir.path(), &format!("{line} --force"));
    assert!(!anew.err.contains("resumed"), "{}", anew.err);
    assert_eq!(bytes(&out), whole);
    fs::write(out.join("sweep.json"), "{}").unwrap();
    let seen = at(dir.path(), line.split_whitespace());
    assert_eq!(
        seen.err,
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
        assert!(
            svg.starts_with("<svg") && svg.ends_with("</svg>\n"),
            "{name}"
        );
        assert!(
            ["fifo", "srtf", "las"]
                .iter()
                .all(|s| svg.contains(&format!(">{s}<")))
        );
    }
    assert_eq!(
        whole
            .iter()
            .filter(|(n, _)| n.starts_with("plots/"))
            .count(),
        7
    );
    let page = find("report.html");
    assert!(page.contains("<title>Sweep of 27 runs</title>"));
    assert!(page.contains("Each of the 27 runs") && page.contains("fifo, load 4"));
    assert!(page.contains("the first 9 runs with the seed 0"), "{page}");
    assert_eq!(
        whole
            .iter()
            .filter(|(n, _)| n.ends_with("assignments.csv"))
            .count(),
        27
    );
    // If plots and the page are requested later, finished runs are kept and the bytes are the same.
    good(dir.path(), &format!("{line} --output-dir late"));
    fs::remove_file(
        dir.path()
            .join("late/runs/las_seed=2_load=9/assignments.csv"),
    )
    .unwrap();
    let seen = good(
        dir.path(),
        &format!("{line} --output-dir late --plots --report"),
    );
    assert!(seen.err.starts_with("resumed: 26 of 27"), "{}", seen.err);
    let late = bytes(&dir.path().join("late"));
    for ((name, a), (other, b)) in whole.iter().zip(&late) {
        // The page names its folder.
        assert!(
            name == other && (a == b || name == "report.html"),
            "{name} {other}"
        );
    }
    assert_eq!(whole.len(), late.len());
    good(dir.path(), "plot late --output-dir again");
    for (name, svg) in whole.iter().filter(|(n, _)| n.starts_with("plots/")) {
        let again = dir
            .path()
            .join("again")
            .join(name.trim_start_matches("plots/"));
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
        let seen = at(dir.path(), line.split_whitespace());
        assert_eq!(
            (seen.code, seen.err.as_str()),
            (
                Some(2),
                "error: out: another process writes here, expected another --output-dir, or to \
                 wait for its end\n"
            ),
            "{line}"
        );
    }
    drop(lock);
    good(dir.path(), &line);
}

#[test]
fn a_changed_trace_is_another_sweep() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("t.csv");
    fs::write(&trace, "submit_s,gpus,duration_s\n0,1,100\n").unwrap();
    let line = "sweep fifo las --trace t.csv --vary cluster=1x2|1x4 --output-dir out";
    good(dir.path(), line);
    fs::write(&trace, "submit_s,gpus,duration_s\n0,1,200\n").unwrap();
    let seen = at(dir.path(), line.split(' '));
    assert_eq!(seen.code, Some(2));
    assert!(
        seen.err
            .contains("a sweep with other settings was begun here (inputs was"),
        "{}",
        seen.err
    );
}

/// Gavel's speeds are in the parent folder of the trace, and a parameter names the forecast.
#[test]
fn a_file_that_is_not_named_by_an_option_is_known_as_well() {
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
        let seen = at(d, line.split_whitespace());
        assert_eq!(seen.code, Some(2), "{name}");
        let why = "a sweep with other settings was begun here (inputs was";
        assert!(seen.err.contains(why), "{}", seen.err);
        fs::write(d.join(name), text).unwrap();
    }
    // These input files are not overwritten either.
    let over = "simulate fifo --trace jobs/a.trace --format gavel --cluster 1x1:v100 --force \
                --journal throughputs.json";
    let seen = at(d, over.split_whitespace());
    assert_eq!(seen.code, Some(2), "{}", seen.out);
    assert!(seen.err.contains("throughputs.json"), "{}", seen.err);
}

#[test]
fn a_file_says_what_the_command_line_would() {
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
    // The command line has precedence.
    let one = good(
        dir.path(),
        "sweep conf/sweep.toml fifo --loads 4 --seeds 7 --output-format csv",
    );
    assert_eq!(one.out.lines().count(), 2);
    assert!(one.out.contains("fifo_seed=7_load=4"), "{}", one.out);
    let table = "[vary]\nlaunch-s = [0, 30]\ncluster = [\"1x4\", \"2x4\"]\n";
    let text = text.replace("cluster = \"2x4\"\n", "");
    fs::write(dir.path().join("conf/vary.toml"), format!("{text}{table}")).unwrap();
    let many = good(dir.path(), "sweep conf/vary.toml --output-format csv");
    assert_eq!(many.out.lines().count(), 1 + 12 * 4);
    assert!(
        many.out
            .contains("\nfifo_seed=0_cluster=1x4_launch-s=30_load=4,"),
        "{}",
        many.out
    );
    // The command line has precedence over varied settings of the file, also through an equivalent
    // option.
    let file = "trace = \"../t.csv\"\n[vary]\nround = [30, 60]\nload = [1, 2]\n";
    fs::write(dir.path().join("conf/round.toml"), file).unwrap();
    fs::write(
        dir.path().join("t.csv"),
        "submit_s,gpus,duration_s\n0,1,100\n",
    )
    .unwrap();
    for said in ["--round 45", "--on-event 0", "--vary round=15"] {
        let line = format!("sweep conf/round.toml fifo --workload blox --jobs 9 --load 4 {said}");
        let one = good(dir.path(), &format!("{line} --output-format csv"));
        assert_eq!(one.out.lines().count(), 2, "{}", one.out);
    }
    for (line, sentence) in [
        (
            "simulate -s fifo --config conf/sweep.toml",
            "conf/sweep.toml: seeds has no meaning with `blox simulate`",
        ),
        (
            "compare fifo --config conf/sweep.toml",
            "conf/sweep.toml: loads has no meaning with `blox compare`",
        ),
    ] {
        let seen = at(dir.path(), line.split(' '));
        assert_eq!(seen.err, format!("error: {sentence}\n"));
    }
}

#[test]
fn what_a_sweep_cannot_do_is_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let numbers = "expected at most 100,000 different numbers, such as 1..9, 4..8:0.5 or 2,4,8";
    for (line, sentence) in [
        (
            "sweep fifo --loads 5..1",
            &*format!("--loads is `5..1`, {numbers}"),
        ),
        (
            "sweep fifo --loads 1,1",
            &*format!("--loads is `1,1`, {numbers}"),
        ),
        (
            "sweep fifo --seeds 0.5",
            "--seeds is `0.5`, expected at most 100,000 different whole numbers, such as 0..9 or 1,2,5",
        ),
        (
            "sweep fifo --seeds 1,2 --seed 3",
            "--seed and --seeds are both given, expected one of them",
        ),
        (
            "sweep fifo --load 1 --loads 1..2",
            "--load and --loads are both given, expected one of them",
        ),
        (
            "sweep fifo --cluster 1x4 --vary cluster=1x2|1x4",
            "--cluster and --vary cluster are both given, expected one of them",
        ),
        (
            "sweep fifo --vary quiet=true|false",
            "--vary names `quiet`, which is no setting of a simulation",
        ),
        (
            "sweep fifo --vary colour=red|green",
            "--vary names `colour`, expected one of trace, format, map, throughputs, data, workload, \
             load-of-capacity, durations, gpu-mix, models, users, quiet-h, burst-h, burst-factor, \
             burst-durations, diurnal, losses, jobs, cluster, virtual-cluster, admission, placement, \
             cluster-manager, round, on-event, completion, execution, overheads, launch-s, checkpoint-s, restart-s, \
             migration-s, group-overheads-s, node-mtbf-h, node-mttr-h, job-mtbf-h, \
             checkpoint-every-s, launch-failure, visit-every-round, measure, fairness",
        ),
        (
            "sweep fifo --vary load=1|2",
            "--vary names `load`, expected --loads for it",
        ),
        (
            "sweep fifo --vary launch-s=x",
            "--vary launch-s: invalid type: string \"x\", expected f64",
        ),
        (
            "sweep fifo --vary launch-s",
            "--vary is `launch-s`, expected OPTION=VALUE|VALUE",
        ),
        (
            "sweep fifo --vary launch-s=1|1",
            "--vary of `launch-s` has a value twice, expected different values",
        ),
        (
            "sweep fifo --vary round=300|0 --jobs 1",
            "--vary round is `0`, expected a number of seconds above 0",
        ),
        (
            "sweep fifo --explain 3",
            "--explain has no meaning with several runs, only with one a scheduler",
        ),
        (
            "sweep fifo --threads 0",
            "--threads is `0`, expected a whole number, at least 1",
        ),
        (
            "sweep fifo --loads 0..90000 --seeds 0..9",
            "there are more than 100,000 runs, expected fewer",
        ),
        (
            "sweep fifo a.toml b.toml",
            "more than one TOML file is given, expected one",
        ),
        (
            "compare fifo las --baseline sjf",
            "--baseline is `sjf`, expected one of fifo, las",
        ),
        (
            "compare fifo las --output-format xml",
            "--output-format is `xml`, expected one of table, markdown, csv, json",
        ),
        (
            "compare fifo las --seeds 0..1 --output-dir out",
            "--output-dir has no meaning with --seeds; `blox sweep` writes the results of each seed",
        ),
        (
            "compare fifo las --seeds 0..1 --report",
            "--report has no meaning with --seeds; `blox sweep` writes the results of each seed",
        ),
        (
            "sweep fifo --loads 1..2 --plots",
            "--plots has nowhere to write, expected --output-dir DIR with it",
        ),
        (
            "sweep fifo --loads 1..2 --why",
            "--why has nowhere to write, expected --output-dir DIR with it",
        ),
        (
            "sweep fifo --loads 1..2 --fairness",
            "--fairness has nowhere to write, expected --output-dir DIR with it",
        ),
        (
            "sweep synthesizer --vary admission=load|accept-all --jobs 1",
            "--admission is `load`, which has no meaning with `synthesizer`: that brings its own",
        ),
    ] {
        let seen = at(dir.path(), line.split(' '));
        assert_eq!(seen.err, format!("error: {sentence}\n"), "{line}");
        assert_eq!((seen.code, seen.out.as_str()), (Some(2), ""), "{line}");
    }
}

/// Takes GPUs from a job that does not exist, which is an error of the policy.
struct Broken;

impl Stateless for Broken {}

impl PlacementPolicy for Broken {
    fn place(
        &self,
        (): &mut (),
        _: &mut JobQueue,
        draft: &mut Draft<'_>,
    ) -> Result<Validity, DraftError> {
        draft.release(JobId(1_000_000), Reason::NotChosen)?;
        Ok(Validity::UntilEvent)
    }
}

#[test]
fn a_failed_run_is_told_and_the_others_stay() {
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
    let go = || {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let args = line.split_whitespace().map(OsString::from);
        let args = args.chain([out_dir.clone().into_os_string()]);
        let code = blox::cli::run_with(&registry, args, &mut out, &mut err);
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (code, text(out), text(err))
    };
    let (code, out, err) = go();
    assert_eq!(code, 2);
    assert_eq!(out.lines().count(), 3, "{out}");
    let told = "error: run broken_seed=0: broken: ";
    assert_eq!(err.matches(told).count(), 1, "{err}");
    let index = json(&out_dir.join("sweep.json"));
    assert_eq!(index["status"], "failed");
    let status = |i: usize| index["runs"][i]["status"].clone();
    assert_eq!([status(0), status(1)], ["finished", "failed"]);
    // Failed runs are repeated, and finished runs are not.
    let (code, _, err) = go();
    assert_eq!(code, 2);
    assert!(err.starts_with("resumed: 2 of 4 runs"), "{err}");
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
    let child = blox()
        .current_dir(dir)
        .args(line.split_whitespace())
        // Slow enough to be interrupted.
        .args(["--threads", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let third = dir.join("out/runs/fifo_seed=2/manifest.json");
    while !third.exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    signal(name, child.id());
    child.wait_with_output().unwrap().into()
}

#[cfg(unix)]
#[test]
fn a_signal_keeps_what_is_finished_and_the_rest_follows() {
    let line = "sweep fifo --workload poisson --durations exponential:3600 --load 7 --jobs 800 \
                --cluster 2x4 --seeds 0..119 --output-dir out";
    let reference = tempfile::tempdir().unwrap();
    good(reference.path(), line);
    let whole = bytes(&reference.path().join("out"));
    for name in ["INT", "TERM"] {
        let dir = tempfile::tempdir().unwrap();
        let seen = interrupted(dir.path(), line, name);
        assert_eq!(seen.code, Some(130), "{}", seen.err);
        assert!(
            seen.err.starts_with("interrupted: ")
                && seen
                    .err
                    .ends_with("; the same command continues the sweep\n"),
            "{}",
            seen.err
        );
        // The output is usable: it has one row for each finished run.
        let out = dir.path().join("out");
        let index = json(&out.join("sweep.json"));
        assert_eq!(index["status"], "interrupted");
        let runs = index["runs"].as_array().unwrap();
        let finished = runs.iter().filter(|r| r["status"] == "finished").count();
        assert!((3..120).contains(&finished), "{finished}");
        let table = fs::read_to_string(out.join("sweep.csv")).unwrap();
        assert_eq!(table.lines().count(), 1 + finished);
        assert!(
            seen.out.contains(&format!("\nfifo       {finished:>5}"))
                && seen
                    .out
                    .contains(&format!("\nruns       {finished} of 120\n")),
            "{}",
            seen.out
        );
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
    let mut child = blox()
        .current_dir(dir.path())
        .args(line.split_whitespace())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
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
fn a_killed_sweep_goes_on() {
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
    let full_out = |line: &str| -> Seen {
        let file = fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let child = blox()
            .current_dir(dir.path())
            .args(line.split_whitespace())
            .stdout(file)
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
        assert_eq!(
            seen.err,
            format!("error: the output cannot be written: {full}\n"),
            "{line}"
        );
    }
    let seen = at(
        dir.path(),
        "simulate -s fifo --jobs 5 --journal /dev/full".split(' '),
    );
    assert_eq!(
        (seen.code, seen.err),
        (
            Some(2),
            format!("error: /dev/full: cannot be written: {full}\n")
        )
    );
    // If the error cannot be written either, the exit code shows it.
    let file = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let status = blox().arg("nope").stderr(file).status().unwrap();
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
        assert!(!dir.path().join(file).exists());
        assert!(
            !dir.path()
                .join(file)
                .with_file_name("manifest.json")
                .exists()
        );
        if line.starts_with("sweep") {
            // The sweep continues when there is space again.
            good(dir.path(), line);
        }
    }
}

#[test]
fn the_jobs_that_figures_are_over_are_named_below_them() {
    let dir = tempfile::tempdir().unwrap();
    let told = "\nmeasured   jobs numbers 10 to 20; makespan, GPU util., preempted: of all jobs\n";
    for line in [
        "compare fifo las --jobs 50 --seeds 1..2",
        "sweep fifo las --jobs 50 --loads 4,6 --output-dir swept",
    ] {
        let all = good(dir.path(), line);
        let whole = "\nmeasured   all jobs that completed\n";
        assert!(all.out.contains(whole), "{}", all.out);
        let line = line.replace("swept", "again");
        let some = good(dir.path(), &format!("{line} --measure 10..20"));
        assert!(some.out.contains(told), "{}", some.out);
    }
}

#[test]
fn seeds_without_a_measured_job_are_left_out_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let line = "compare fifo las --workload poisson --load 1 --durations exponential:3600 \
                --jobs 5 --cluster 1x4 --measure 1h..2h";
    let is_empty = |seed: u32| {
        let seen = at(
            dir.path(),
            format!("{line} --seed {seed}").split_whitespace(),
        );
        let empty = seen.err.contains("--measure is `1h..2h`, but ");
        assert_eq!(seen.code, Some(if empty { 2 } else { 0 }), "{}", seen.err);
        empty
    };
    let (empty, full): (Vec<u32>, Vec<u32>) = (0..8).partition(|seed| is_empty(*seed));
    assert!(empty.len() > 1 && full.len() > 1, "{empty:?} {full:?}");
    let list = |seeds: &[u32]| {
        seeds
            .iter()
            .map(u32::to_string)
            .collect::<Vec<_>>()
            .join(",")
    };
    let compared = |seeds: &str| good(dir.path(), &format!("{line} --seeds {seeds} --json"));
    let (all, some) = (compared("0..7"), compared(&list(&full)));
    let notice = format!(
        "notice: {} of 8 seeds left out: --measure selects none of their jobs\n",
        empty.len()
    );
    assert!(all.err.contains(&notice), "{}", all.err);
    assert!(!some.err.contains("left out"), "{}", some.err);
    // The other seeds give the same result as a run without the omitted seeds.
    let [mut all, some] = [all, some].map(|seen| serde_json::from_str(&seen.out).unwrap());
    let left_out = |all: &mut serde_json::Value| all["seeds_left_out"].take();
    assert_eq!(left_out(&mut all), serde_json::json!(empty));
    assert_eq!(left_out(&mut some.clone()), serde_json::json!([]));
    assert_eq!(all["schedulers"], some["schedulers"]);
    assert_eq!(all["seeds"], some["seeds"]);
    let nothing = format!("{line} --seeds {}", list(&empty));
    let seen = at(dir.path(), nothing.split_whitespace());
    assert_eq!(seen.code, Some(2));
    let error = "error: --measure is `1h..2h`, but ";
    assert!(seen.err.contains(error), "{}", seen.err);
}

#[test]
fn seeds_are_compared_in_pairs() {
    let dir = tempfile::tempdir().unwrap();
    let line = "compare fifo las --workload poisson --load-of-capacity 0.9 --durations exponential:3600 \
                --gpu-mix 1:70,4:30 --jobs 200 --cluster 2x4";
    // Compute the result from runs with one seed each.
    let mut differences = Vec::new();
    let mut averages = Vec::new();
    for seed in 0..4 {
        let seen = good(dir.path(), &format!("{line} --seed {seed} --json"));
        let list: serde_json::Value = serde_json::from_str(&seen.out).unwrap();
        differences.push(list[1]["paired"]["mean_s"].as_f64().unwrap());
        averages.push(list[1]["avg_jct_s"].as_f64().unwrap());
        assert_eq!(list[1]["paired"]["pairs"], 200);
        assert!(list[0].get("paired").is_none());
    }
    let seen = good(dir.path(), &format!("{line} --seeds 0..3 --json"));
    let all: serde_json::Value = serde_json::from_str(&seen.out).unwrap();
    assert_eq!(all["baseline"], "fifo");
    assert_eq!(all["seeds"], serde_json::json!([0, 1, 2, 3]));
    let las = &all["schedulers"][1];
    // t of 3 degrees of freedom at 97.5 % is 3.1824.
    let expect = |values: &[f64], name: &str| {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let half = 3.182_446 * (variance / n).sqrt();
        let close = |key: &str, expected: f64| {
            let found = las[key].as_f64().unwrap();
            assert!(
                (found - expected).abs() < 1e-5 * expected.abs(),
                "{key}: {found} {expected}"
            );
        };
        close(name, mean);
        close(&format!("{name}_ci95"), half);
    };
    expect(&averages, "avg_jct_s");
    expect(&differences, "paired_difference_s");
    for threads in [1, 3] {
        let again = good(
            dir.path(),
            &format!("{line} --seeds 0..3 --json --threads {threads}"),
        );
        assert_eq!(again.out, seen.out);
    }

    let csv = good(
        dir.path(),
        &format!("{line} --seeds 0..3 --output-format csv"),
    )
    .out;
    assert!(csv.starts_with("scheduler,seeds,jobs,jobs_ci95,"), "{csv}");
    assert_eq!(csv.lines().count(), 3);
    let markdown = good(
        dir.path(),
        &format!("{line} --seeds 0..3 --baseline las -q --output-format markdown"),
    )
    .out;
    let lines: Vec<&str> = markdown.lines().collect();
    assert_eq!(
        lines[0],
        "| scheduler | avg JCT s | ± 95 % | relative | diff. a job s | ± 95 % | faster | slower | avg resp. s | GPU util. |"
    );
    assert_eq!(lines.len(), 4);
    let cells: Vec<&str> = lines[3].split(" | ").collect();
    // The baseline is 1, without a difference to itself.
    assert_eq!((cells[0], cells[3], cells[4]), ("| las", "1.000", "-"));
    let table = good(dir.path(), &format!("{line} --seeds 0..3")).out;
    assert!(table.lines().all(|l| l.chars().count() <= 100), "{table}");
    assert!(
        table.contains("interval   ± is half of the 95 % interval over 4 seeds (Student's t)"),
        "{table}"
    );
    // A zero difference is not reported as certain.
    let alike = "every seed gives the same results";
    assert!(!table.contains(alike), "{table}");
    let trace = "job_id,submit_s,gpus,duration_s\na,0,1,400\nb,10,2,900\n";
    fs::write(dir.path().join("jobs.csv"), trace).unwrap();
    let fixed = "compare fifo las --trace jobs.csv --cluster 1x2 --seeds";
    let table = good(dir.path(), &format!("{fixed} 0..2")).out;
    assert!(table.contains(alike), "{table}");
    let one = good(dir.path(), &format!("{fixed} 0")).out;
    assert!(!one.contains(alike), "{one}");
    let table = good(dir.path(), &format!("{line} --seeds 3")).out;
    assert!(table.contains("interval over 1 seed ("), "{table}");
}

#[test]
fn one_seed_has_quantiles_of_differences() {
    let dir = tempfile::tempdir().unwrap();
    let trace = "submit_s,gpus,duration_s\n0,1,900\n0,1,300\n0,1,300\n";
    fs::write(dir.path().join("t.csv"), trace).unwrap();
    let line = "compare fifo sjf --trace t.csv --cluster 1x1 --baseline fifo";
    let seen = good(dir.path(), line);
    // Ends at 900, 1200, 1500 s under fifo and at 1500, 300, 600 s under sjf.
    let paired = "\
paired     sjf: 66.7 % of 3 jobs faster, 33.3 % slower
diff.      sjf: JCT -400.0 s on average; p10 -900 s, median -900 s, p90 600 s
";
    assert!(seen.out.contains(paired), "{}", seen.out);
    let other = good(
        dir.path(),
        &line.replace("--baseline fifo", "--baseline sjf"),
    );
    assert!(
        other
            .out
            .contains("relative   avg JCT to that of sjf: fifo 1.500"),
        "{}",
        other.out
    );
    let csv = good(dir.path(), &format!("{line} --output-format csv")).out;
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let head = reader.headers().unwrap().clone();
    let at = head.iter().position(|h| h == "paired_mean_s").unwrap();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!((&rows[0][at], &rows[1][at]), ("", "-400"));
}

#[test]
fn why_jobs_waited_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let trace = "submit_s,gpus,duration_s\n0,1,900\n0,2,300\n0,1,300\n";
    fs::write(dir.path().join("t.csv"), trace).unwrap();
    let line = "compare fifo sjf --trace t.csv --cluster 1x2 --why";
    let seen = good(dir.path(), line);
    // Under fifo, job 1 needs both GPUs and waits until 900 s. Until then job 2 waits behind it
    // although a GPU is free. After that it waits for a GPU until 1200 s.
    let expected = "\
scheduler  waited because   jobs  hours  s a job   of all
                                                  waiting
fifo       too few GPUs        2    0.3      600   57.1 %
fifo       behind the head     1    0.2      900   42.9 %
sjf        behind the head     1    0.1      300   50.0 %
sjf        too few GPUs        1    0.1      300   50.0 %
";
    assert!(seen.out.contains(expected), "{}", seen.out);
    let again = good(dir.path(), &format!("{line} --visit-every-round"));
    assert_eq!(seen.out, again.out);
    let json: serde_json::Value =
        serde_json::from_str(&good(dir.path(), &format!("{line} --json")).out).unwrap();
    assert_eq!(json[0]["waits"][0]["reason"], "too few GPUs");
    assert_eq!(json[0]["waits"][0]["total"], 1200.0);
    // All queueing time has a wait reason.
    let queue = json[0]["avg_queueing_s"].as_f64().unwrap() * 3.0;
    let waits = json[0]["waits"].as_array().unwrap();
    let sum: f64 = waits.iter().map(|w| w["total"].as_f64().unwrap()).sum();
    assert_eq!(sum, queue);
    // With backfill, no job waits behind another; the reason is that no GPU was free.
    for passing in ["skip", "easy"] {
        let line =
            format!("simulate -s fifo{{backfill={passing}}} --trace u.csv --cluster 1x2 --why");
        let trace = "submit_s,gpus,duration_s\n0,2,300\n0,1,300\n0,1,300\n";
        fs::write(dir.path().join("u.csv"), trace).unwrap();
        let seen = good(dir.path(), &line);
        assert!(seen.out.contains("too few GPUs       1"), "{}", seen.out);
        assert!(seen.out.contains("no free GPUs       1"), "{}", seen.out);
        assert!(!seen.out.contains("behind the head"), "{}", seen.out);
    }
}

#[test]
fn seeds_that_change_nothing_are_told_of() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    fs::write(d.join("t.csv"), "submit_s,gpus,duration_s\n0,1,100\n").unwrap();
    let notice = "notice: every seed gives the same results";
    for (line, told) in [
        ("fifo --trace t.csv --seeds 0..1", true),
        ("fifo --trace t.csv --vary cluster=1x1|1x2", false),
        (
            "fifo --workload poisson --load 8 --jobs 9 --seeds 0..1",
            false,
        ),
    ] {
        let seen = good(d, &format!("sweep {line}"));
        assert_eq!(seen.err.starts_with(notice), told, "{line}: {}", seen.err);
    }
}

#[test]
fn too_little_to_draw_is_said() {
    let dir = tempfile::tempdir().unwrap();
    good(
        dir.path(),
        "sweep fifo --jobs 5 --seeds 1,2 --output-dir out",
    );
    let seen = good(dir.path(), "plot out");
    assert_eq!(
        (seen.out.as_str(), seen.err.as_str()),
        (
            "",
            "nothing to draw: no job has ended, or a sweep has fewer than two settings\n"
        )
    );
}
