//! Tests of workload files: the `trace` command, formats and invalid input.

use crate::support::{Seen, at, blox, good};
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

/// A table of no known format.
const OWN: &str = "id;when;n;minutes\na;2024-01-01 00:00:00;2;5\n";
const HEAD: &str = "job_id,submit_s,gpus,duration_s\n";

/// Every kind of invalid row gives one sentence, exit code 2 and nothing on standard output.
#[test]
fn bad_input_is_one_sentence_and_exit_2() {
    let seconds = "expected a number of seconds, at least 0";
    for (text, sentence) in [
        (
            "job_id,submit_s,gpus\na,0,1\n".to_owned(),
            "line 1: the column duration_s is missing, found the columns job_id, submit_s, gpus".to_owned(),
        ),
        (
            "job_id,submit_s,gpus,duration\na,0,1,5\n".to_owned(),
            "line 1: the column duration_s is missing, found the columns job_id, submit_s, gpus, duration; is `duration` meant for duration_s?".to_owned(),
        ),
        (
            "submit_s,gpus,duration_s,gpus\n0,1,5,1\n".to_owned(),
            "line 1: the column `gpus` occurs twice, expected it once".to_owned(),
        ),
        (
            format!("{HEAD}a,0,one,5\n"),
            "line 2: gpus is `one`, expected a whole number of at least 1".to_owned(),
        ),
        (
            format!("{HEAD}a,0,1.5,5\n"),
            "line 2: gpus is `1.5`, expected a whole number of at least 1".to_owned(),
        ),
        (
            format!("{HEAD}a,0,0,5\n"),
            "line 2: gpus is `0`, expected a whole number of at least 1".to_owned(),
        ),
        (
            format!("{HEAD}a,0,1,-5\n"),
            format!("line 2: duration_s is `-5`, {seconds}"),
        ),
        (
            format!("{HEAD}a,0,1,NaN\n"),
            format!("line 2: duration_s is `NaN`, {seconds}"),
        ),
        (
            format!("{HEAD}a,0,1,inf\n"),
            format!("line 2: duration_s is `inf`, {seconds}"),
        ),
        (
            format!("{HEAD}a,0,1,1e18\n"),
            "line 2: the duration is `1e18`, expected at most 1e10 seconds, three hundred years: is the unit right?".to_owned(),
        ),
        (
            format!("{HEAD}a,1.5e12,1,5\n"),
            "line 2: submit is `1500000000000`, expected at most 1e10 seconds, three hundred years: is the unit right?".to_owned(),
        ),
        (
            format!("{HEAD}a,-1,1,5\n"),
            format!("line 2: submit_s is `-1`, {seconds}"),
        ),
        (
            format!("{HEAD}a,0,1\n"),
            "line 2: the row has 3 fields, expected 4 as in the header".to_owned(),
        ),
        (
            format!("{HEAD}a,0,1,5\nb,0,1,5\na,1,1,5\n"),
            "line 4: job_id is `a`, expected a name of its own: line 2 has the same".to_owned(),
        ),
        (String::new(), "the file is empty, expected a header or a job".to_owned()),
    ] {
        let dir = folder(&[("t.csv", &text)]);
        for command in [
            "simulate -s fifo --trace t.csv --format csv",
            "compare fifo las --trace t.csv --format csv --output-dir results",
            "trace info t.csv --format csv",
            "trace convert t.csv --format csv --output out.csv",
            "trace sample t.csv --format csv --output out.csv",
        ] {
            let seen = line(dir.path(), command);
            let expected = format!("error: t.csv: {sentence}\n");
            assert_eq!((seen.err.as_str(), seen.out.as_str()), (expected.as_str(), ""), "{command}");
            assert_eq!(seen.code, Some(2), "{command}");
        }
        // There is no output that could be mistaken for a result.
        let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["t.csv"], "{text}");
    }
}

#[test]
fn what_is_no_workload_file_is_one_sentence() {
    let dir = folder(&[("t.csv", HEAD), ("other.txt", "hello\n"), ("own.csv", OWN)]);
    let d = dir.path();
    fs::create_dir(d.join("folder")).unwrap();
    let whole = gzip(format!("{HEAD}a,0,1,5\n").repeat(50).as_bytes());
    fs::write(d.join("cut.csv.gz"), &whole[..whole.len() - 6]).unwrap();
    fs::write(
        d.join("latin.csv"),
        b"job_id,submit_s,gpus,duration_s\n\xe9,0,1,5\n",
    )
    .unwrap();
    for (args, sentence) in [
        (
            "info none.csv",
            "none.csv: no such file, expected an existing file",
        ),
        (
            "info folder",
            "folder: is a directory, expected a workload file",
        ),
        (
            "info cut.csv.gz",
            "cut.csv.gz: the gzip data ends too early, the file is truncated",
        ),
        (
            "info latin.csv",
            "latin.csv: line 2: the row is no text in UTF-8",
        ),
        (
            "info t.csv --format xml",
            "--format: `xml` is no workload format, expected one of csv, jsonl, philly, philly-log, itp, helios, pai, openb, slurm, blox-jobs, tiresias, synergy",
        ),
        (
            "info t.csv --format csv --map submit=a,gpus=b,duration=c",
            "--format and --map are both given, expected one of them",
        ),
        (
            "info t.csv --map submit=a,gpus=b",
            "--map: duration is not mapped, expected duration=COLUMN, or start and end",
        ),
        (
            "info t.csv --format slurm",
            "t.csv: line 1: the columns JobID, Elapsed, Submit, State, ReqTRES are missing, found the columns job_id,submit_s,gpus,duration_s; cells are separated by `,`, expected `|`",
        ),
        (
            "info t.csv --format phily",
            "--format: `phily` is no workload format, expected one of csv, jsonl, philly, philly-log, itp, helios, pai, openb, slurm, blox-jobs, tiresias, synergy, gavel, sia; did you mean `philly`?",
        ),
        (
            "info t.csv --map submit=submit_s,gpu=gpus,duration=duration_s",
            "--map: unknown field `gpu`, did you mean `gpus`? known: submit, gpus,",
        ),
        (
            "info t.csv --map submit=submit_s,gpus=gpu,duration=duration_s",
            "t.csv: line 1: the column gpu is missing, found the columns job_id, submit_s, gpus, duration_s; is `gpus` meant for gpu?",
        ),
        (
            "info own.csv",
            "own.csv: the format is unknown, the first line is `id;when;n;minutes`, expected --map 'submit=when:date,gpus=COLUMN,duration=minutes:min,job_id=id' with the name of a column for each COLUMN, or --format with one of csv,",
        ),
        (
            "info t.csv --cluster 3",
            "--cluster: cluster `3`: part 1 is `3`, expected NODESxGPUS or NODESxGPUS:TYPE, for instance 32x4 or 3x8:a100, or the path of a TOML file",
        ),
        (
            "sample t.csv --window 5..9",
            "--window is `5..9`, expected A..B with A <= B: times such as 10h..2d (s, m, h, d)",
        ),
        (
            "sample t.csv --fraction 1.5",
            "--fraction is `1.5`, expected a probability, from 0 to 1",
        ),
        (
            "convert t.csv --output t.csv",
            "t.csv: is there already, expected a new file, or --force",
        ),
        (
            "convert t.csv --output folder",
            "folder: is a directory, expected the name of a file",
        ),
        (
            "convert t.csv --output a.csv.gz",
            "a.csv.gz: is written as plain text, expected a name without .gz",
        ),
        (
            "convert t.csv --output none/a.csv",
            "none/a.csv: cannot be written: No such file or directory (os error 2)",
        ),
        (
            "generate",
            "--jobs is missing, expected how many jobs to generate",
        ),
        (
            "generate --jobs 5 --round 60",
            "--round has no meaning with `blox trace generate`",
        ),
        (
            "generate --jobs 5 --trace t.csv",
            "--trace has no meaning with `blox trace generate`",
        ),
        (
            "generate --jobs 5 --workload x",
            "--workload is `x`, expected",
        ),
        (
            "generate --jobs 5 --workload poison",
            "--workload is `poison`, expected one of blox, bursty, diurnal, poisson; did you mean `poisson`?",
        ),
    ] {
        let seen = line(d, &format!("trace {args}"));
        let expected = format!("error: {sentence}");
        assert!(seen.err.starts_with(&expected), "{args}: {}", seen.err);
        assert_eq!(seen.err.lines().count(), 1, "{args}: {}", seen.err);
        assert_eq!((seen.code, seen.out.as_str()), (Some(2), ""), "{args}");
    }
    let seen = line(d, "trace check other.txt");
    assert!(seen.err.starts_with("error: other.txt: the format is unknown, the first line is `hello`, expected --format NAME, --map for a table of other columns, or a header with"), "{}", seen.err);
    assert_eq!(seen.code, Some(2));
}

#[test]
fn offered_map_and_other_separators_read_the_table() {
    let rows = "job_id,submit_s,gpus,duration_s,prioriy\na,0,2,300,1\n";
    let dir = folder(&[
        ("own.csv", &OWN.replace(";n;", ";num_gpus;")),
        ("semicolons.csv", &rows.replace(',', ";")),
        ("tabs.tsv", &rows.replace(',', "\t")),
    ]);
    let d = dir.path();
    let seen = line(d, "trace info own.csv");
    let map = seen.err.split('\'').nth(1).unwrap_or_default();
    assert_eq!(
        map, "submit=when:date,gpus=num_gpus,duration=minutes:min,job_id=id",
        "{}",
        seen.err
    );
    assert!(
        good(d, &format!("trace info own.csv --map {}", map))
            .out
            .contains("jobs       1\n")
    );
    for file in ["semicolons.csv", "tabs.tsv"] {
        let seen = good(d, &format!("trace check {file}"));
        assert!(
            seen.out
                .contains(&format!("{file} (csv): no problem, 1 job")),
            "{}",
            seen.out
        );
        let notice = "unknown column `prioriy`: ignored; did you mean `priority`?";
        assert!(seen.out.contains(notice), "{}", seen.out);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_and_devices_are_no_workloads() {
    let text = format!("{HEAD}a,0,1,5\n");
    let dir = folder(&[("t.csv", &text)]);
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
        let expected =
            "error: the output cannot be written: No space left on device (os error 28)\n";
        assert_eq!(
            (seen.code, seen.err.as_str()),
            (Some(2), expected),
            "{command}"
        );
    }
    for (command, sentence) in [
        (
            "trace convert t.csv --output /dev/full",
            "/dev/full: cannot be written: No space left on device (os error 28)",
        ),
        (
            "simulate -q -s fifo --trace t.csv --journal /dev/full",
            "/dev/full: cannot be written: No space left on device (os error 28)",
        ),
        (
            "trace info /dev/zero",
            "/dev/zero: is no regular file, expected one",
        ),
    ] {
        let seen = line(dir.path(), command);
        assert_eq!(
            (seen.code, seen.err),
            (Some(2), format!("error: {sentence}\n")),
            "{command}"
        );
    }
}

#[test]
fn check_reports_all_problems() {
    let text = "\u{feff}job_id,submit_s,gpus,duration_s,colour\r\na,5,1,60,x\r\n\r\na,0,4,100,x\r\nb,3,2,y,x\r\nc,1,600,1,x\r\nd,1,2\r\n";
    let dir = folder(&[("t.csv", text), ("good.csv", &format!("{HEAD}a,0,2,5\n"))]);
    let seen = line(dir.path(), "trace check t.csv --cluster 4x8");
    let problems = [
        "t.csv: line 4: job_id is `a`, expected a name of its own: line 2 has the same",
        "t.csv: line 5: duration_s is `y`, expected a number of seconds, at least 0",
        "t.csv: line 7: the row has 3 fields, expected 5 as in the header",
        "t.csv: line 6: gpus is `600`, expected at most the 32 GPUs in the cluster 4x8",
    ];
    let rest = [
        "notice: unknown column `colour`: ignored (once, on line 1)",
        "notice: not in order of submission: sorted (once, on line 6)",
    ];
    let lines: Vec<_> = seen.out.lines().collect();
    assert_eq!(lines[..4], problems);
    assert_eq!(lines[4..6], rest);
    assert_eq!(lines[6..], ["t.csv (csv): 4 problems, 2 jobs"]);
    assert_eq!((seen.code, seen.err.as_str()), (Some(2), ""));
    let seen = line(dir.path(), "trace check t.csv --cluster 4x8 --limit 1");
    let lines: Vec<_> = seen.out.lines().collect();
    assert_eq!(lines[..2], [problems[0], "and 3 more; --limit N shows N"]);
    assert_eq!(seen.code, Some(2));
    let seen = line(dir.path(), "trace check good.csv");
    assert_eq!(
        (seen.code, seen.out.as_str()),
        (Some(0), "good.csv (csv): no problem, 1 job\n")
    );
    // The cluster has no GPUs of the other type.
    fs::write(
        dir.path().join("types.csv"),
        "submit_s,gpus,duration_s,gpu_types\n0,4,1,a100\n0,9,1,v100\n",
    )
    .unwrap();
    let seen = line(dir.path(), "trace check types.csv --cluster 1x8:v100");
    assert!(seen.out.starts_with(
        "types.csv: line 2: gpus is `4`, expected at most the 0 GPUs of type a100 in the cluster 1x8:v100\n\
         types.csv: line 3: gpus is `9`, expected at most the 8 GPUs of type v100 in the cluster 1x8:v100\n"
    ), "{}", seen.out);
    // The application determines the types that a job can run on.
    fs::write(
        dir.path().join("sia.csv"),
        "name,time,application,num_replicas,batch_size\na,0,cifar10,4,2048\n",
    )
    .unwrap();
    let seen = line(dir.path(), "trace check sia.csv --cluster 16x8:v100");
    assert!(seen.out.starts_with(
        "sia.csv: line 2: gpus is `4`, expected at most the 0 GPUs of type aws or dgx-ext or rtx in the cluster 16x8:v100\n"
    ), "{}", seen.out);
    // It also runs on a cluster without type names.
    for cluster in ["16x8:rtx", "16x8"] {
        let seen = line(
            dir.path(),
            &format!("trace check sia.csv --cluster {cluster}"),
        );
        assert!(seen.out.ends_with("no problem, 1 job\n"), "{}", seen.out);
        let seen = line(
            dir.path(),
            &format!("simulate fifo --trace sia.csv --cluster {cluster} --json"),
        );
        assert!(seen.out.contains("\"completed\": 1,"), "{}", seen.out);
    }
}

#[test]
fn a_job_that_can_never_run_is_reported_and_not_waited_for() {
    let text = format!("{HEAD}a,0,1,60\nwide,1,64,60\nb,2,1,60\n");
    let dir = folder(&[("t.csv", &text)]);
    for scheduler in ["fifo", "las", "srtf", "sjf"] {
        let seen = line(
            dir.path(),
            &format!("simulate -s {scheduler} --trace t.csv --cluster 2x4 --completion exact"),
        );
        assert_eq!(seen.code, Some(0), "{}", seen.err);
        assert!(
            seen.out.contains("1 rejected (never fits: 1)"),
            "{}",
            seen.out
        );
        assert!(!seen.out.contains("standstill"), "{}", seen.out);
    }
}

/// Simulates each format, detected from the file and named explicitly.
#[test]
fn every_format_is_simulated() {
    let philly_log = "[{\"status\": \"Pass\", \"vc\": \"v\", \"jobid\": \"j\", \"attempts\": \
        [{\"start_time\": \"2017-10-07 01:12:09\", \"end_time\": \"2017-10-07 01:13:09\", \
        \"detail\": [{\"ip\": \"m\", \"gpus\": [\"gpu0\"]}]}], \"submitted_time\": \"2017-10-07 01:11:39\", \"user\": \"u\"},\n\
        {\"status\": \"Killed\", \"vc\": \"v\", \"jobid\": \"k\", \"attempts\": [], \"submitted_time\": \"2017-10-07 01:11:39\", \"user\": \"u\"}]\n";
    for (name, format, text) in [
        ("a.csv", "csv", "submit_s,gpus,duration_s\n0,1,60\n"),
        (
            "a",
            "jsonl",
            "{\"submit\":0,\"gpus\":1,\"work\":{\"iterations\":60,\"rate\":1}}\n",
        ),
        (
            "a",
            "philly",
            "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,60,1,60,b\n",
        ),
        ("cluster_job_log", "philly-log", philly_log),
        (
            "a",
            "itp",
            "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration\na,0,500,bert,160,64,1,60\n",
        ),
        (
            "cluster_log.csv",
            "helios",
            "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n\
             1,u,v,1,2,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-09 18:42:01,60,0\n\
             2,u,v,0,2,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-09 18:42:01,60,0\n",
        ),
        (
            "pai_task_table.csv",
            "pai",
            "j,worker,1.0,Terminated,5.0,65.0,600.0,29.0,100.0,T4\n",
        ),
        (
            "pods",
            "openb",
            "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n\
             p,4000,512,1,1000,,LS,Running,5,65,5\n",
        ),
        (
            "sacct.txt",
            "slurm",
            "JobID|State|Submit|Start|Elapsed|ReqTRES|AllocTRES\n\
             1|COMPLETED|2024-03-01T10:00:00|2024-03-01T10:00:05|00:01:00|gres/gpu=1|gres/gpu=1\n\
             1.batch|COMPLETED|2024-03-01T10:00:00|2024-03-01T10:00:05|00:01:00||\n",
        ),
        (
            "a",
            "blox-jobs",
            "job_id,arrival_s,total_iteration,iteration_time_s,num_gpus,model_class_id\n0,0,60,1,1,0\n",
        ),
    ] {
        let dir = folder(&[(name, text)]);
        for said in ["", &format!("--format {format}")] {
            let seen = line(
                dir.path(),
                &format!("simulate -s fifo --completion exact --on-event 0 --trace {name} {said}"),
            );
            assert_eq!(seen.code, Some(0), "{}", seen.err);
            assert!(
                seen.out
                    .contains(&format!("workload   {name} ({format}, 1 job)")),
                "{}",
                seen.out
            );
            assert!(seen.out.starts_with("scheduler"), "{}", seen.out);
            assert!(
                seen.out
                    .lines()
                    .any(|l| l.starts_with("fifo        60.0") || l.starts_with("fifo       60.0")),
                "{}",
                seen.out
            );
        }
        let seen = line(dir.path(), &format!("trace info {name}"));
        let told = format!("format     {format}, detected from the file");
        assert!(seen.out.contains(&told), "{}", seen.out);
    }
}

#[test]
fn a_table_of_no_known_format_is_read_by_its_columns() {
    let text = "who;queued;need;ran\nada;2024-01-01 00:00:00;2;1.5\nbob;2024-01-01 00:00:30;0;9\n";
    let dir = folder(&[("t.txt", text)]);
    let map = "submit=queued:date,gpus=need,duration=ran:min,user=who";
    let seen = at(dir.path(), ["trace", "convert", "t.txt", "--map", map]);
    assert_eq!(
        seen.out, "submit_s,gpus,duration_s,user\n0,2,90,ada\n",
        "{}",
        seen.err
    );
    assert_eq!(
        seen.err,
        "notice: dropped: asks for no GPU (once, on line 3)\n1 job written\n"
    );
    let lost = "notice: 1 row dropped (asks for no GPU: 1)\n";
    for command in ["convert", "sample"] {
        let quiet = at(dir.path(), ["trace", command, "t.txt", "-q", "--map", map]);
        assert_eq!(quiet.err, lost, "{command}");
    }
    // Parts of GPUs are counted too.
    fs::write(dir.path().join("parts.txt"), text.replace(";2;", ";1500;")).unwrap();
    let milli = map.replace("gpus=need", "gpus=need:milli");
    let args = ["trace", "convert", "parts.txt", "-q", "--map", &milli];
    let parts = at(dir.path(), args);
    assert!(parts.out.ends_with("\n0,2,90,ada\n"), "{}", parts.out);
    let altered = "notice: 1 value altered (part of a GPU rounded up: 1)\n";
    assert_eq!(parts.err, format!("{lost}{altered}"));
    // The same works in a configuration file.
    let toml = format!("scheduler = \"fifo\"\ntrace = \"t.txt\"\nmap = \"{map}\"\n");
    fs::write(dir.path().join("e.toml"), toml).unwrap();
    let seen = line(dir.path(), "simulate --config e.toml");
    assert!(
        seen.out.contains("workload   t.txt (map, 1 job)"),
        "{}{}",
        seen.out,
        seen.err
    );
    assert!(
        seen.out.contains("notice     dropped: asks for no GPU"),
        "{}",
        seen.out
    );
}

#[test]
fn converted_jobs_are_the_same_jobs() {
    let text = "job_id,submit_s,gpus,duration_s,user,deadline_s\n\
                a,5.25,1,0.1,\"x,y\",600:0.5\nb,1,8,3600,,\n";
    let dir = folder(&[("t.csv", text)]);
    let d = dir.path();
    for command in [
        "trace convert t.csv --output one.jsonl",
        "trace convert one.jsonl --output two.csv",
        "trace convert two.csv --to jsonl --output three",
    ] {
        let seen = line(d, command);
        assert_eq!(seen.code, Some(0), "{}", seen.err);
        assert!(seen.err.contains("2 jobs written to "), "{}", seen.err);
    }
    let read = |name: &str| fs::read_to_string(d.join(name)).unwrap();
    assert_eq!(read("one.jsonl"), read("three"));
    assert_eq!(
        read("two.csv"),
        "job_id,submit_s,gpus,duration_s,user,deadline_s\nb,1,8,3600,,\na,5.25,1,0.1,\"x,y\",600:0.5\n"
    );
    let seen = line(d, "trace convert two.csv --output one.jsonl --force -q");
    assert_eq!((seen.code, seen.err.as_str()), (Some(0), ""));
    let seen = line(d, "trace convert two.csv");
    assert_eq!(seen.out, read("two.csv"));
}

#[test]
fn samples_are_parts_and_the_same_for_a_seed() {
    let rows: String = (0..1000)
        .map(|i| format!("j{i},{},1,60\n", i * 10))
        .collect();
    let dir = folder(&[("t.csv", &format!("{HEAD}{rows}"))]);
    let lines = |args: &str| {
        let seen = line(dir.path(), &format!("trace sample t.csv {args}"));
        assert_eq!(seen.code, Some(0), "{}", seen.err);
        seen.out
            .lines()
            .skip(1)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        lines("--window 100s..129s"),
        ["j10,0,1,60", "j11,10,1,60", "j12,20,1,60"]
    );
    assert_eq!(lines("--first 2"), ["j0,0,1,60", "j1,10,1,60"]);
    assert_eq!(lines("--count 7").len(), 7);
    assert_eq!(lines("--count 7 --seed 5"), lines("--count 7 --seed 5"));
    assert_ne!(lines("--count 7 --seed 5"), lines("--count 7"));
    let tenth = lines("--fraction 0.1").len();
    assert!((60..140).contains(&tenth), "{tenth}");
    assert_eq!(lines("--window 1h..2h --fraction 0.5 --first 3").len(), 3);
}

#[test]
fn generated_jobs_are_those_that_simulate_makes() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    for made in [
        "--load 7 --jobs 200",
        "--workload poisson --load-of-capacity 0.8 --cluster 4x4 --durations lognormal:600,1 --gpu-mix 1:3,4:1 --jobs 200 --seed 9",
    ] {
        let seen = line(
            d,
            &format!("trace generate {made} --output jobs.csv --force"),
        );
        assert_eq!(seen.code, Some(0), "{}", seen.err);
        assert_eq!(seen.err, "200 jobs written to jobs.csv\n");
        let table =
            |workload: &str| line(d, &format!("simulate -q -s las --cluster 4x4 {workload}")).out;
        let made = made.replace("--cluster 4x4", "");
        assert_eq!(table(&made), table("--trace jobs.csv"));
    }
    // Errors that occur only when jobs are generated are reported.
    std::fs::create_dir(d.join("tables")).unwrap();
    std::fs::write(d.join("tables/bert.csv"), "global_batch_size,1,2\n8,1,2\n").unwrap();
    for name in ["lstm.csv", "lstm.jsonl"] {
        let made = "--workload poisson --load 7 --jobs 9 --models lstm:1 --throughputs tables";
        let seen = line(d, &format!("trace generate {made} --output {name}"));
        assert!(seen.err.starts_with("notice: "), "{}", seen.err);
        assert!(seen.err.contains("lstm"), "{}", seen.err);
    }
    let seen = line(d, "trace generate --jobs 9 --output A.CSV.GZ");
    assert!(seen.err.starts_with("error: A.CSV.GZ: "), "{}", seen.err);
    let help = line(d, "trace generate --help").out;
    assert!(
        help.contains("--workload <NAME{..}>") && help.contains("--seed <N>"),
        "{help}"
    );
    assert!(
        !help.contains("--round") && !help.contains("--trace"),
        "{help}"
    );
}

#[cfg(unix)]
#[test]
fn a_pipe_is_as_good_as_a_file() {
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
        let seen = piped(
            &bytes,
            "compare -q fifo las --trace /dev/stdin --output-dir out --force",
        );
        assert_eq!(
            seen.out,
            line(dir.path(), "compare -q fifo las --trace t.csv").out,
            "{}",
            seen.err
        );
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
    let file = std::io::BufWriter::new(fs::File::create(&path).unwrap());
    let mut gz = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    writeln!(gz, "job_id,submit_s,gpus,duration_s,padding").unwrap();
    let padding = "x".repeat(20_000);
    for i in 0..8_000 {
        writeln!(gz, "{i},{i},1,60,{padding}").unwrap();
    }
    gz.finish().unwrap().flush().unwrap();
    let limited = |args: &str| {
        let script = format!(
            "ulimit -v 100000; exec {} {args}",
            env!("CARGO_BIN_EXE_blox")
        );
        Seen::from(
            Command::new("sh")
                .current_dir(dir.path())
                .args(["-c", &script])
                .output()
                .unwrap(),
        )
    };
    let seen = limited("trace check large.csv.gz");
    assert_eq!(seen.code, Some(0), "{}", seen.err);
    assert!(
        seen.out
            .ends_with("large.csv.gz (csv): no problem, 8,000 jobs\n"),
        "{}",
        seen.out
    );
    let seen = limited("trace convert large.csv.gz --output small.csv");
    assert_eq!(seen.code, Some(0), "{}", seen.err);
    assert_eq!(
        fs::read_to_string(dir.path().join("small.csv"))
            .unwrap()
            .lines()
            .count(),
        8_001
    );
    // An unterminated quote does not read the rest of the file into memory.
    let file = std::io::BufWriter::new(fs::File::create(&path).unwrap());
    let mut gz = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    writeln!(gz, "job_id,submit_s,gpus,duration_s\na,0,1,60\n\"b,0,1,60").unwrap();
    for i in 0..2_000 {
        writeln!(gz, "{i},{i},1,60,{padding}").unwrap();
    }
    gz.finish().unwrap().flush().unwrap();
    let seen = limited("trace check large.csv.gz");
    assert_eq!(seen.code, Some(2), "{}", seen.err);
    assert!(
        seen.out.starts_with(
            "large.csv.gz: line 3: job_id is `b,0,1,60`, expected a cell whose quote is closed on the same line\n"
        ),
        "{}{}",
        seen.out,
        seen.err
    );
}

#[test]
fn help_names_every_format() {
    let dir = tempfile::tempdir().unwrap();
    for command in ["simulate", "trace sample"] {
        let help = line(dir.path(), &format!("{command} --help")).out;
        let (_, formats) = help.split_once("--format <FORMAT>").unwrap();
        let (formats, _) = formats.split_once("[default:").unwrap();
        for format in blox::traces::Format::ALL {
            let named = formats
                .split([' ', ',', '\n'])
                .any(|word| word == format.name());
            assert!(named, "{format:?} is not in {formats}");
        }
    }
}
