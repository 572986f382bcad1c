//! Tests of the command line through the real binary.

use crate::support;
use crate::support::{Seen, at, blox, bytes};
use blox::core::{
    ClusterManager, Composition, NodeAction, NodeActionKind, NodeActionKinds, NodeActions, NodeId,
    Stateless, Validity, View,
};
#[cfg(feature = "released")]
use blox::sim::registry::World as _;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Runs a command line, split at spaces, in a fresh folder.
fn run(line: &str) -> Seen {
    let dir = tempfile::tempdir().unwrap();
    at(dir.path(), line.split_whitespace())
}

const TRACE: &str = "job_id,submit_s,gpus,duration_s\n\
    first,0,1,400\nsecond,10,2,900\nthird,5,8,100\nfourth,20,1,100\n";

/// A folder with a small trace, `jobs.csv`.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("jobs.csv"), TRACE).unwrap();
    dir
}

#[test]
fn the_published_average_is_on_the_terminal() {
    let seen = run("compare fifo las --load 8 --measure 3000..4000");
    assert_eq!(seen.code, Some(0), "{}", seen.err);
    assert!(
        seen.out.contains("las        188,995.2     1.438"),
        "{}",
        seen.out
    );
    assert!(
        seen.out.contains("fifo       131,411.7     1.000"),
        "{}",
        seen.out
    );
    assert!(
        seen.out.lines().all(|l| l.chars().count() <= 100),
        "{}",
        seen.out
    );
    assert!(seen.err.starts_with("wall time "), "{}", seen.err);
}

#[test]
fn replay_takes_the_journal_and_repeats_its_scheduler() {
    let dir = folder();
    let replay = |line: &str| at(dir.path(), line.split(' '));
    let line = "simulate las{guard_h=2} --trace jobs.csv --cluster 1x8 --journal las.jsonl";
    assert_eq!(replay(line).code, Some(0));
    let seen = replay("replay las.jsonl");
    assert_eq!(seen.code, Some(0), "{}", seen.err);
    let equal = " of las.jsonl\n";
    assert!(
        seen.out.starts_with("las{guard_h=2} repeats ") && seen.out.ends_with(equal),
        "{}",
        seen.out
    );
    // The spelling before 0.2 names the scheduler first.
    for line in [
        "replay las.jsonl las{guard_h=2}",
        "replay las{guard_h=2} --journal las.jsonl",
        "replay --scheduler las{guard_h=2} --journal las.jsonl",
    ] {
        let old = replay(line);
        assert_eq!(
            (old.code, &old.out),
            (Some(0), &seen.out),
            "{line}: {}",
            old.err
        );
    }
    let differs = replay("replay las.jsonl srtf");
    assert!(
        differs.code == Some(1) || differs.code == Some(2),
        "{}",
        differs.out
    );
    for (line, error) in [
        (
            "replay",
            "no journal, expected `blox replay JOURNAL`, the file of an earlier --journal",
        ),
        (
            "replay las",
            "las: no such journal, expected `blox replay JOURNAL [SCHEDULER]` with the file of an earlier --journal",
        ),
        (
            "replay a b --journal las.jsonl",
            "a journal is given twice, expected `blox replay JOURNAL [SCHEDULER]`",
        ),
        (
            "replay las.jsonl fifo",
            "las.jsonl: line 1: scheduling: cannot restore the memory of a policy: invalid type: map, expected unit; \
             the journal names the scheduler las{guard_h=2}",
        ),
    ] {
        let seen = replay(line);
        assert_eq!(
            (seen.code, seen.err),
            (Some(2), format!("error: {error}\n")),
            "{line}"
        );
    }
}

/// Without the notice, their short completion times would look good.
#[test]
fn jobs_that_the_scheduler_ended_are_told_of() {
    let seen = run("compare fifo loss-termination --losses --jobs 40 --cluster 4x4");
    assert_eq!(seen.code, Some(0), "{}", seen.err);
    let told = |l: &&str| l.contains("before all work was done, counted as completed");
    let lines: Vec<&str> = seen.out.lines().filter(told).collect();
    assert_eq!(lines.len(), 1, "{}", seen.out);
    assert!(
        lines[0].starts_with("notice     loss-termination: ended "),
        "{}",
        lines[0]
    );
}

/// The trace does not contain the speed of a job on another number of GPUs.
#[test]
fn rigid_jobs_on_other_numbers_of_gpus_are_told_of() {
    let dir = folder();
    let line = "compare fifo optimus --trace jobs.csv --cluster 1x8";
    let told = |line: &str| {
        let seen = at(dir.path(), line.split(' '));
        assert_eq!(seen.code, Some(0), "{}", seen.err);
        let all = seen.out + &seen.err;
        let of = |l: &&str| l.contains("on other numbers of GPUs");
        let lines: Vec<&str> = all.lines().filter(of).collect();
        assert_eq!(lines.len(), 1, "{all}");
        lines[0].to_owned()
    };
    let rest = "ran on other numbers of GPUs than asked for, taken to be as fast in proportion";
    let one = told(&format!("{line} --output-format csv"));
    assert_eq!(one, format!("notice: optimus: 3 rigid jobs {rest}"));
    // The sum over all seeds.
    let two = told(&format!("{line} --seeds 1..2 --json"));
    assert_eq!(two, format!("notice: optimus: 6 rigid jobs {rest}"));
}

/// A policy ignores values that no job has, and then behaves like another policy.
#[test]
fn what_a_scheduler_reads_and_jobs_do_not_tell_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let text = "job,submit_s,gpus,duration_s,user_estimate_s\na,0,1,60,\nb,5,1,60,90\nc,9,1,60,\n";
    std::fs::write(dir.path().join("some.csv"), text).unwrap();
    let names = "srtf{estimator=user} srtf{estimator=brought} srtf loss-termination";
    let line = format!("compare {names} --trace some.csv --cluster 1x8 --json");
    for more in ["", " --seeds 1..2"] {
        let seen = at(dir.path(), format!("{line}{more}").split(' '));
        let told = |l: &&str| l.contains("measured jobs");
        let told: Vec<&str> = seen.err.lines().filter(told).collect();
        let which = "srtf{estimator=user}: 2 of 3 measured jobs do not tell how long they run";
        assert!(
            told[0].starts_with(&format!("notice: {which} (user_estimate_s)")),
            "{told:?}"
        );
        let none = "srtf{estimator=brought}: none of 3 measured jobs tells an estimate";
        assert!(told[1].starts_with(&format!("notice: {none}")), "{told:?}");
        let none = "notice: loss-termination: none of 3 measured jobs tells a loss";
        assert!(told[2].starts_with(none), "{told:?}");
        assert_eq!(told.len(), 3, "{told:?}");
    }
}

#[test]
fn a_trace_is_simulated_with_its_notices_and_rejections() {
    let dir = folder();
    let seen = at(
        dir.path(),
        "simulate --scheduler fifo --trace jobs.csv --cluster 1x4".split(' '),
    );
    assert_eq!(seen.code, Some(0), "{}", seen.err);
    for line in [
        "cluster    1x4: 1 node, 4 GPUs",
        "workload   jobs.csv (csv, 4 jobs)",
        "measured   all 4 jobs; averages: of 3 that completed\n",
        "rounds     300 s",
        "fifo       1 rejected (never fits: 1)",
        "notice     not in order of submission: sorted (once, on line 4)",
    ] {
        assert!(seen.out.contains(line), "{line}\n{}", seen.out);
    }
    let quiet = at(
        dir.path(),
        "simulate -q -s fifo --trace jobs.csv --cluster 1x4".split(' '),
    );
    assert_eq!(quiet.out.lines().count(), 3);
    assert_eq!(quiet.err, "notice: fifo: 1 rejected (never fits: 1)\n");
}

#[test]
fn quiet_counts_losses_and_replaced_parts() {
    let dir = tempfile::tempdir().unwrap();
    let rows = "id,when,n,dur,extra\na,0,1,100,x\nb,0,1,200,y\nc,10,9,300,z\nd,20,0,100,z\n";
    fs::write(dir.path().join("own.csv"), rows).unwrap();
    let map = "--trace own.csv --map submit=when,gpus=n,duration=dur --cluster 1x4 -q";
    let own = "notice: 2 columns ignored (`id`, `extra`)\n\
               notice: 1 row dropped (asks for no GPU: 1)\n";
    let replaces = "--placement buddy replaces each scheduler's own placement policy and rule for blocked jobs\n";
    let placement = format!("notice: {replaces}");
    for (line, losses) in [
        (
            "simulate tiresias --placement buddy --measure 1..2",
            format!(
                "{own}notice: 1 of 3 jobs not measured\n\
                 notice: tiresias: 1 rejected (never fits: 1)\n{placement}"
            ),
        ),
        (
            "compare fifo --seeds 1,2",
            format!("{own}notice: fifo: 2 rejected in 2 of 2 runs\n"),
        ),
        (
            "sweep fifo las --placement buddy",
            format!("{own}notice: 2 rejected in 2 of 2 runs\n{placement}"),
        ),
    ] {
        let seen = support::good(dir.path(), &format!("{line} {map}"));
        assert_eq!(seen.err, losses, "{line}");
    }
    let shown = support::good(
        dir.path(),
        &format!("simulate las --placement buddy {map}").replace(" -q", ""),
    );
    let line = format!("notice     {replaces}");
    assert!(shown.out.contains(&line), "{}", shown.out);
    let shown = support::good(
        dir.path(),
        "compare sia fifo --load 8 --jobs 20 --cluster 1x4",
    );
    let line = "notice     sia: none of 20 measured jobs tells how it adapts (extras.training), and is rigid\n";
    assert!(shown.out.contains(line), "{}", shown.out);
    // Without -q as well, and for runs that an earlier sweep finished.
    let line = format!("sweep fifo las {map} --output-dir swept").replace(" -q", "");
    for begin in ["", "resumed: 2 of 2 runs were finished before\n"] {
        let seen = support::good(dir.path(), &line);
        let losses = format!("{begin}{own}notice: 2 rejected in 2 of 2 runs\nwall time ");
        assert!(seen.err.starts_with(&losses), "{}", seen.err);
    }
}

/// A line of a table, or a notice on standard error.
fn lines_with(seen: &Seen, part: &str) -> Vec<String> {
    let all = format!("{}{}", seen.out, seen.err);
    let lines = all.lines().filter(|line| line.contains(part));
    lines.map(str::to_owned).collect()
}

#[cfg(feature = "released")]
#[test]
fn every_comparison_states_its_world_and_its_averages() {
    let dir = tempfile::tempdir().unwrap();
    for command in [
        "compare",
        "compare --seeds 1..2",
        "sweep",
        "sweep --seeds 1..2",
    ] {
        let run = |more: &str| {
            let (name, seeds) = command.split_once(' ').unwrap_or((command, ""));
            let jobs = "--load 8 --jobs 20 --cluster 4x4";
            let line = format!("{name} blox-optimus fifo {seeds} {jobs} {more}");
            support::good(dir.path(), &line)
        };
        let ends = "at ends of rounds; with --completion exact, when the work is done";
        let shown = run("");
        let jobs_end = lines_with(&shown, "jobs end");
        assert_eq!(jobs_end, [format!("jobs end   {ends}")], "{command}");
        let exact = run("--completion exact");
        assert_eq!(lines_with(&exact, "jobs end"), [""; 0], "{command}");
        let measured = match command {
            "compare" => "all 20 jobs",
            _ => "all jobs that completed",
        };
        let line = format!("measured   {measured}");
        assert_eq!(lines_with(&shown, "measured   "), [line], "{command}");
        // The execution models of the two schedulers differ, and an option replaces one.
        let own = "blox-optimus: jobs run under its own `";
        let replaced =
            "--execution as-specified replaces blox-optimus's own execution model `blox-optimus`";
        for quiet in ["", " -q"] {
            let seen = run(quiet);
            assert_eq!(lines_with(&seen, own).len(), 1, "{command}{quiet}");
            assert_eq!(lines_with(&seen, replaced), [""; 0], "{command}{quiet}");
            let seen = run(&format!("--execution as-specified{quiet}"));
            assert_eq!(lines_with(&seen, replaced).len(), 1, "{command}{quiet}");
        }
    }
}

/// Returns a busy node in each decision, which is impossible.
struct Shrinks;

impl Stateless for Shrinks {}

impl ClusterManager for Shrinks {
    fn manage(&self, (): &mut (), view: View<'_>, out: &mut NodeActions) -> Validity {
        if view.running().next().is_some() {
            let node = NodeId(0);
            out.push(NodeAction::Shrink { node });
        }
        Validity::NextRound
    }

    fn actions(&self) -> NodeActionKinds {
        NodeActionKinds::of(&[NodeActionKind::Shrink])
    }
}

#[test]
fn node_actions_without_effect_are_counted() {
    let mut registry = blox::registry();
    registry
        .cluster
        .add("shrinks", "returns a busy node", &[], |_, _| {
            Ok(Arc::new(Shrinks))
        });
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("one.csv");
    fs::write(&trace, "submit_s,gpus,duration_s\n0,1,1000\n").unwrap();
    let rest = format!(
        "fifo --cluster 1x1 --cluster-manager shrinks --trace {}",
        trace.display()
    );
    for (command, count) in [
        ("simulate", 3),
        ("compare", 3),
        ("compare --seeds 1..2", 6),
        ("sweep --seeds 1..2", 6),
    ] {
        for quiet in ["", " -q"] {
            let line = format!("blox {command} {rest}{quiet}");
            let (mut out, mut err) = (Vec::new(), Vec::new());
            let code = blox::cli::run_with(&registry, line.split_whitespace(), &mut out, &mut err);
            let text = |bytes| String::from_utf8(bytes).unwrap();
            let seen = Seen {
                code: Some(code),
                out: text(out),
                err: text(err),
            };
            assert_eq!(code, 0, "{}", seen.err);
            let notice = format!(
                "fifo: {count} node actions had no effect (first: `shrink` of node 0): \
                 the node was busy, unknown or in the wrong state"
            );
            let lines = lines_with(&seen, "no effect");
            assert_eq!(lines.len(), 1, "{line}: {lines:?}");
            assert!(lines[0].ends_with(&notice), "{line}: {lines:?}");
        }
    }
}

/// A column of a trace reaches a placement.
#[test]
fn a_placement_reads_an_attribute_of_a_csv_trace() {
    let dir = tempfile::tempdir().unwrap();
    let gpus = |class: &str| {
        let text =
            format!("submit_s,gpus,duration_s,attributes.app_class\n0,2,600,\n1,4,600,{class}\n");
        fs::write(dir.path().join("t.csv"), text).unwrap();
        let line = "simulate fifo --trace t.csv --cluster 2x4 --explain 1 \
                    --placement by-class{attribute=app_class,classes=A}";
        let story = support::good(dir.path(), line).out;
        let (_, gpus) = story.split_once("runs on GPUs ").unwrap();
        gpus.lines().next().unwrap().to_owned()
    };
    // A named class has one node; other classes have the first free GPUs.
    assert!(gpus("A").starts_with("4 5 6 7 "), "{}", gpus("A"));
    assert!(gpus("B").starts_with("2 3 4 5 "), "{}", gpus("B"));
}

#[test]
fn scores_of_gpus_in_a_cluster_file_are_checked() {
    let dir = folder();
    let line = "simulate fifo --trace jobs.csv --cluster c.toml --placement pal";
    let run = |scores: &str| {
        let text = format!("[[node]]\ngpus = 8\nlabels = {{ \"pm_score.A\" = \"{scores}\" }}\n");
        fs::write(dir.path().join("c.toml"), text).unwrap();
        let output = blox()
            .current_dir(dir.path())
            .args(line.split(' '))
            .output();
        let output = output.unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), err)
    };
    assert_eq!(run("1 1 1 1 1 1 1 1.3").0, Some(0));
    for wrong in ["1 1 1 1 1 1 1 1,3", "1 1 1"] {
        let error = format!(
            "error: c.toml: node group 1: the label `pm_score.A` is `{wrong}`, expected one number \
             above 0 for each GPU (8) [E0401]\n"
        );
        assert_eq!(run(wrong), (Some(2), error));
    }
}

#[test]
fn an_execution_model_holds_for_seeds_and_results() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let averages = |more: &str| -> serde_json::Value {
        let line = format!("compare fifo las --load 8 --jobs 40 --cluster 2x4 --json {more}");
        serde_json::from_str(&support::good(d, &line).out).unwrap()
    };
    let slow = "--execution contention{slowdown=2}";
    let (plain, slowed) = (
        averages("--seeds 1..2"),
        averages(&format!("--seeds 1..2 {slow}")),
    );
    let of = |all: &serde_json::Value| all["schedulers"][0]["avg_jct_s"].as_f64().unwrap();
    assert!(of(&slowed) > of(&plain), "{slowed} {plain}");
    let kept = averages(&format!("{slow} --output-dir out --plots --report"));
    assert!(kept[0]["avg_jct_s"].as_f64() > averages("")[0]["avg_jct_s"].as_f64());
    assert!(d.join("out/plots/jct-cdf.svg").is_file());
    let average = format!("{}", kept[0]["avg_jct_s"]);
    let summary = fs::read_to_string(d.join("out/fifo/summary.json")).unwrap();
    assert!(summary.contains(&average), "{summary}");
    let page = fs::read_to_string(d.join("out/report.html")).unwrap();
    assert!(page.contains("contention"), "the report names no model");
}

#[test]
fn jobs_per_gpu_of_a_node_are_one_to_four() {
    for (jobs, code) in [("1", 0), ("4", 0), ("0", 2), ("5", 2), ("two", 2)] {
        let line = format!("node --gpus 8 --state-dir x --jobs-per-gpu {jobs} --help");
        let seen = run(&line);
        assert_eq!(seen.code, Some(code), "{line}: {}", seen.err);
        let names_it = seen
            .err
            .contains(&format!("'{jobs}' for '--jobs-per-gpu <N>'"));
        assert_eq!(names_it, code == 2, "{}", seen.err);
    }
}

#[test]
fn rounds_are_those_of_each_scheduler() {
    let dir = folder();
    for (line, rounds) in [
        ("compare las gavel fifo", "rounds     300 s (gavel 360 s)\n"),
        ("compare las gavel --round 0.001", "rounds     0.001 s\n"),
    ] {
        let line = format!("{line} --trace jobs.csv --cluster 1x8");
        let seen = support::good(dir.path(), &line);
        assert!(seen.out.contains(rounds), "{}", seen.out);
    }
}

#[test]
fn json_is_one_object_or_a_list() {
    let dir = folder();
    let json = |line: &str| -> serde_json::Value {
        let seen = at(dir.path(), line.split(' '));
        assert_eq!(seen.code, Some(0), "{}", seen.err);
        serde_json::from_str(&seen.out).unwrap()
    };
    let one = json("simulate -s fifo --trace jobs.csv --cluster 1x4 --json");
    assert_eq!(one["rejected_reasons"]["never fits"], 1);
    assert_eq!(one["ended"], "finished");
    let two = json("compare fifo las --trace jobs.csv --cluster 1x4 --json");
    assert_eq!(two[1]["scheduler"], "las");
    assert_eq!(two[0]["relative_avg_jct"], 1.0);
}

#[test]
fn a_job_tells_its_story_by_number_or_name() {
    let dir = folder();
    for job in ["0", "first"] {
        let args = [
            "simulate",
            "-s",
            "fifo",
            "--trace",
            "jobs.csv",
            "--cluster",
            "1x4",
            "--explain",
            job,
        ];
        let seen = at(dir.path(), args);
        assert!(
            seen.out.contains("job 0, first in the trace, under fifo"),
            "{}",
            seen.out
        );
        assert!(
            seen.out.contains("submitted: 1 GPU for 400 s"),
            "{}",
            seen.out
        );
        assert!(
            seen.out.contains("600.0 s  ended: completed"),
            "{}",
            seen.out
        );
    }
    let jobs = "submit_s,gpus,duration_s\n0,4,600\n0,4,600\n0,1,1.23456\n";
    fs::write(dir.path().join("behind.csv"), jobs).unwrap();
    let line = "simulate fifo --trace behind.csv --cluster 1x4 --explain 2 --why";
    let behind = support::good(dir.path(), line).out;
    for part in ["1 GPU for 1.2 s\n", "s  waits: behind"] {
        assert!(behind.contains(part), "{behind}");
    }
    let free = "simulate fifo --trace behind.csv --jobs 1 --why -q";
    let free = support::good(dir.path(), free).out;
    assert!(free.ends_with("\n\nno measured job waited\n"), "{free}");
    let told = |format: &str| {
        let line =
            format!("simulate fifo -q --trace jobs.csv --explain 0 --output-format {format}");
        support::good(dir.path(), &line)
    };
    let csv = told("csv");
    assert!(csv.err.contains("600.0 s  ended: completed"), "{}", csv.err);
    assert_eq!(csv.out.lines().count(), 2);
    let json: serde_json::Value = serde_json::from_str(&told("json").out).unwrap();
    assert_eq!(json["story"][0]["at"], 0.0);
    let seen = at(
        dir.path(),
        "simulate -s fifo --trace jobs.csv --explain 9".split(' '),
    );
    assert_eq!(seen.code, Some(2));
    assert!(
        seen.err.ends_with(
            "error: --explain is `9`, a job that was not submitted under fifo: \
             the jobs 0 to 3 were submitted before the simulation ended at 1200 s\n"
        ),
        "{}",
        seen.err
    );
}

#[cfg(feature = "released")]
#[test]
fn everything_wrong_is_one_sentence_and_exit_2() {
    let dir = folder();
    let d = dir.path();
    fs::create_dir(d.join("folder")).unwrap();
    fs::write(
        d.join("bad.csv"),
        "submit_s,gpus,duration_s\n0,1,1\n5,x,1\n",
    )
    .unwrap();
    fs::write(d.join("zero"), "").unwrap();
    fs::write(d.join("bad.toml"), "seed = 1\nspeed = 2\n").unwrap();
    fs::write(d.join("round.toml"), "round = -1.0\n").unwrap();
    fs::write(d.join("cluster.toml"), "[[node]]\ngpus = 65\n").unwrap();
    fs::create_dir(d.join("full")).unwrap();
    fs::write(d.join("full/x"), "").unwrap();
    let registry = blox::registry();
    let join = |names: &mut dyn Iterator<Item = &str>| names.collect::<Vec<_>>().join(", ");
    let known = join(&mut registry.schedulers.iter().map(|(n, _)| n));
    let placements = join(&mut registry.placement.iter().map(|(n, _)| n));
    let mut all = std::collections::BTreeSet::new();
    all.extend(registry.schedulers.iter().map(|(n, _)| n.to_owned()));
    all.extend(registry.admission.iter().map(|(n, _)| n.to_owned()));
    all.extend(registry.cluster.iter().map(|(n, _)| n.to_owned()));
    all.extend(registry.scheduling.iter().map(|(n, _)| n.to_owned()));
    all.extend(registry.placement.iter().map(|(n, _)| n.to_owned()));
    all.extend(
        registry
            .execution_models()
            .iter()
            .map(|(n, _)| n.to_owned()),
    );
    all.extend(registry.overhead_models().iter().map(|(n, _)| n.to_owned()));
    all.extend(
        registry
            .completion_rules()
            .iter()
            .map(|(n, _)| n.to_owned()),
    );
    all.extend(registry.workloads().iter().map(|(n, _)| n.to_owned()));
    all.extend(registry.collectors.iter().map(|(n, _)| n.to_owned()));
    let all = join(&mut all.iter().map(String::as_str));
    let measure = "expected A..B with A <= B: numbers of jobs such as 3000..4000, \
                   or times such as 10h..2d (s, m, h, d)";
    let optimus = "expected a whole number from 1 to 9: the scheduler `blox-optimus` \
                   takes its speed from a table of loads";
    for (line, sentence) in [
        (
            "simulate",
            "no scheduler, expected a name such as las; `blox policies` lists the names",
        ),
        (
            "compare",
            "no scheduler, expected names such as fifo srtf las; `blox policies` lists them",
        ),
        (
            "simulate -s nope",
            &format!("unknown scheduler `nope`; known: {known}"),
        ),
        (
            "compare fifo gavell",
            &format!("unknown scheduler `gavell`, did you mean `gavel`? known: {known}"),
        ),
        (
            "compare las{guard_h=1|2}",
            "`las{guard_h=1|2}`: parameter `guard_h` is `1|2`, expected a number of hours above 0; \
             alternatives with `|` belong to `blox sweep`",
        ),
        (
            "simulate -s las{x=1}",
            "scheduler `las` has no parameter `x`; it has: gpu_time, guard_h, backfill",
        ),
        (
            "simulate -s las{gard_h=1}",
            "scheduler `las` has no parameter `gard_h`, did you mean `guard_h`? it has: gpu_time, guard_h, backfill",
        ),
        (
            "simulate -s las{guard_h=-1}",
            "`las{guard_h=-1}`: parameter `guard_h` is `-1`, expected a number of hours above 0",
        ),
        (
            "simulate -s las{",
            "`las{` is not understood, expected NAME or NAME{PARAMETER=VALUE,...}",
        ),
        (
            "compare las las",
            "scheduler `las` is named twice, expected different schedulers",
        ),
        (
            "simulate -s las --placement x",
            &format!("unknown placement policy `x`; known: {placements}"),
        ),
        (
            "simulate -s las --admission load{threshold=x}",
            "--admission: parameter `threshold` is `x`, expected a number",
        ),
        (
            "simulate las --jobs 5 --rounds",
            "--rounds has nowhere to write, expected --output-dir DIR with it",
        ),
        (
            "sweep las --jobs 5 --force",
            "--force has nowhere to write, expected --output-dir DIR with it",
        ),
        (
            "simulate -s las --trace none.csv",
            "none.csv: no such file, expected an existing file",
        ),
        (
            "simulate -s las --trace folder",
            "folder: is a directory, expected a workload file",
        ),
        (
            "simulate -s las --trace zero",
            "zero: the file is empty, expected a header or a job",
        ),
        (
            "simulate -s las --trace bad.csv",
            "bad.csv: line 3: gpus is `x`, expected a whole number of at least 1",
        ),
        (
            "simulate -s las --trace jobs.csv --format xml",
            "--format: `xml` is no workload format, expected one of csv, jsonl, philly, philly-log, itp, helios, pai, openb, slurm, blox-jobs, tiresias, synergy, gavel, sia",
        ),
        (
            "simulate -s las --trace jobs.csv --durations blox",
            "--durations has no meaning with a trace, only with --workload bursty, diurnal or poisson",
        ),
        (
            "simulate -s las --trace jobs.csv --workload blox",
            "--trace and --workload are both given, expected one of them",
        ),
        (
            "simulate -s las --workload x",
            "--workload is `x`, expected one of blox, bursty, diurnal, poisson",
        ),
        (
            "simulate -s las --workload poisson",
            "--load is missing, expected a number of jobs an hour above 0, or load_of_capacity",
        ),
        (
            "simulate -s las --workload poisson --load 1",
            "--workload poisson never ends: give --jobs N or --measure A..B",
        ),
        (
            "simulate -s las --workload poisson --load 1 --jobs 9 --durations gamma:1",
            "--durations is `gamma:1`, expected blox, exponential:MEAN_S, lognormal:MEDIAN_S,SIGMA, uniform:LEAST_S,MOST_S, fixed:S, trace:FILE or file:FILE",
        ),
        (
            "simulate -s las --load 0",
            "--load is `0`, expected a number of jobs an hour above 0",
        ),
        (
            "simulate -s las --cluster 32y4",
            "--cluster: cluster `32y4`: part 1 is `32y4`, expected NODESxGPUS or NODESxGPUS:TYPE, for instance 32x4 or 3x8:a100, or the path of a TOML file",
        ),
        (
            "simulate -s las --cluster cluster.toml",
            "cluster.toml: node group 1: gpus is 65, expected at most 64",
        ),
        (
            "simulate -s las --measure 5..3",
            &format!("--measure is `5..3`, {measure}"),
        ),
        (
            "simulate -s las --measure 1h..2",
            &format!("--measure is `1h..2`, {measure}"),
        ),
        (
            "simulate -s las --round 0",
            "--round is `0`, expected a number of seconds above 0",
        ),
        (
            "simulate -s las --round nan",
            "--round is `nan`, expected a number of seconds above 0",
        ),
        (
            "simulate -s las --round 1 --on-event 1",
            "--round and --on-event are both given, expected one of them",
        ),
        (
            "simulate -s las --on-event 0 --completion round",
            "--completion is `round`, which has no meaning with --on-event",
        ),
        (
            "simulate -s las --launch-s -5",
            "--launch-s is `-5`, expected a number of seconds, at least 0",
        ),
        (
            "simulate -s las --node-mtbf-h 0",
            "--node-mtbf-h is `0`, expected a number of hours above 0",
        ),
        (
            "simulate -s las --launch-failure 1",
            "--launch-failure is `1`, expected a probability, at least 0 and below 1",
        ),
        (
            "simulate -s blox-optimus --trace jobs.csv",
            &format!("--load is missing, {optimus}"),
        ),
        (
            "simulate -s blox-optimus --load 2.5",
            &format!("--load is `2.5`, {optimus}"),
        ),
        (
            "simulate -s las --workload poisson --load 1 --jobs 9 --burst-h 1",
            "--burst-h has no meaning with --workload poisson, only with --workload bursty; `poisson` has load, load_of_capacity, durations, gpu_mix, models, users",
        ),
        (
            "simulate -s las --workload bursty --load 1 --jobs 9 --burst-factor 0.5",
            "--burst-factor is `0.5`, expected a number, at least 1",
        ),
        (
            "simulate -s las --workload diurnal --load 1 --jobs 9 --diurnal sine:2,3",
            "--diurnal is `sine:2,3`, expected sine:AMPLITUDE,PEAK_H with an amplitude from 0 to 1, or hours: and 24 weights",
        ),
        (
            "simulate -s las --workload poisson --load 1 --jobs 9 --users ada",
            "--users is `ada`, expected NAME:WEIGHT joined by commas, such as a:70,b:30",
        ),
        (
            "simulate -s las --workload poisson --load 1 --jobs 9 --durations file:none.txt",
            "none.txt: no such file, expected an existing file",
        ),
        (
            "simulate -s las --explain nobody",
            "--explain is `nobody`, expected the number of a job, from 0, or its name in the trace",
        ),
        (
            "simulate -s las --config none.toml",
            "none.toml: no such file, expected an existing file",
        ),
        (
            "simulate -s las --config round.toml",
            "round.toml: line 1 is `round = -1.0`: expected a number of seconds above 0",
        ),
        (
            "simulate -s las --output-dir full",
            "full: the output folder is not empty, expected a new one, or --force",
        ),
        (
            "simulate -s las --output-dir jobs.csv",
            "jobs.csv: the output folder cannot be written: it is a file",
        ),
        (
            "simulate -s las --output-dir jobs.csv/out",
            "jobs.csv/out: the output folder cannot be written: Not a directory (os error 20)",
        ),
        (
            "simulate -s las --journal folder",
            "folder: cannot be written: Is a directory (os error 21)",
        ),
        (
            "policies nope",
            &format!("nothing is called `nope`; known: {all}"),
        ),
        (
            "verify none",
            "none: no such folder, expected a folder with expected.csv or folders of such",
        ),
        (
            "verify folder",
            "folder: no case, expected a folder with expected.csv or folders of such",
        ),
        (
            "verify folder --system x",
            &format!(
                "unknown system `x`; known: {}",
                blox::released::verify::names().join(", ")
            ),
        ),
    ] {
        let seen = at(d, line.split(' '));
        assert_eq!(seen.err, format!("error: {sentence}\n"), "{line}");
        assert_eq!((seen.code, seen.out.as_str()), (Some(2), ""), "{line}");
    }
    let seen = at(d, "simulate -s las --config bad.toml".split(' '));
    let start = "error: bad.toml: line 2 is `speed = 2`: unknown field `speed`, expected one of `scheduler`";
    assert!(
        seen.err.starts_with(start) && seen.code == Some(2),
        "{}",
        seen.err
    );
}

/// The argument parser finds these errors. Their code ends the first paragraph.
#[test]
fn wrong_usage_has_a_code_and_a_suggestion() {
    for (line, first) in [
        (
            "simulate las --mesure 1..2",
            "error: unexpected argument '--mesure' found [E0101]\n\n  \
             tip: a similar argument exists: '--measure'\n",
        ),
        (
            "simulate --jobs x",
            "error: invalid value 'x' for '--jobs <N>': invalid digit found in string [E0101]\n",
        ),
        (
            "simulat",
            "error: unrecognized subcommand 'simulat' [E0101]\n\n  \
             tip: some similar subcommands exist: 'estimate', 'simulate'\n",
        ),
        (
            "plot",
            "error: the following required arguments were not provided:\n  <DIR>... [E0101]\n",
        ),
    ] {
        let output = blox().args(line.split(' ')).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(err.starts_with(first), "{line}: {err}");
        assert_eq!(err.matches("[E0101]").count(), 1, "{err}");
    }
    // Help is no error message.
    for line in ["", "trace"] {
        let seen = blox().args(line.split_whitespace()).output().unwrap();
        let err = String::from_utf8(seen.stderr).unwrap();
        assert!(
            seen.status.code() == Some(2) && !err.contains("[E0"),
            "{err}"
        );
    }
}

#[test]
fn messages_end_with_codes_that_explain_knows() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    fs::write(d.join("own.csv"), "id,when\n").unwrap();
    fs::write(d.join("bad.csv"), "submit_s,gpus,duration_s\n0,x,1\n").unwrap();
    fs::write(d.join("jobs.csv"), TRACE).unwrap();
    fs::create_dir(d.join("tables")).unwrap();
    fs::write(d.join("tables/notes"), "mine").unwrap();
    fs::write(d.join("no-jobs.csv"), "submit_s,gpus,duration_s\n").unwrap();
    support::good(d, "simulate las --trace jobs.csv --journal las.jsonl");
    let mut lines = vec![
        ("simulate", "E0101"),
        ("simulate las --mesure 1..2", "E0101"),
        ("simulate las --trace jobs.csv --journal own.csv", "E0102"),
        ("trace convert jobs.csv --output own.csv", "E0102"),
        ("sweep las --output-dir tables", "E0102"),
        ("new tables", "E0102"),
        ("simulate las --trace none.csv", "E0201"),
        ("simulate las --trace own.csv", "E0202"),
        ("simulate las --trace own.csv --format csv", "E0203"),
        ("simulate las --trace own.csv --map user=id", "E0203"),
        ("simulate las --trace bad.csv", "E0204"),
        ("simulate none", "E0301"),
        ("simulate las{x=1}", "E0302"),
        ("simulate las --admission load{threshold=x}", "E0302"),
        ("simulate las --cluster 4by4", "E0401"),
        ("replay las.jsonl fifo", "E0501"),
        ("report none", "E0601"),
        (
            "estimate train jobs.csv --target none --features gpus",
            "E0602",
        ),
    ];
    let generated =
        "simulate las --workload poisson --load 7 --jobs 9 --durations trace:no-jobs.csv";
    lines.push((generated, "E0205"));
    if cfg!(feature = "released") {
        lines.push(("verify tables", "E0603"));
    }
    if cfg!(feature = "cluster") {
        // No process listens at port 1.
        lines.push(("queue --at 127.0.0.1:1", "E0703"));
        let log_in_a_file = "scheduler las --listen 127.0.0.1:0 --state-dir own.csv";
        lines.push((log_in_a_file, "E0702"));
    }
    for (line, code) in lines {
        let seen = support::blox()
            .current_dir(d)
            .args(line.split(' '))
            .output()
            .unwrap();
        let expected = if code == "E0703" { 3 } else { 2 };
        assert_eq!(seen.status.code(), Some(expected), "{line}");
        let err = String::from_utf8(seen.stderr).unwrap();
        // Usage follows the message of the argument parser.
        let (sentence, _) = err.split_once("\n\n").unwrap_or((err.trim_end(), ""));
        assert!(sentence.ends_with(&format!(" [{code}]")), "{line}: {err}");
        let entry = support::good(d, &format!("explain {code}")).out;
        assert!(entry.starts_with(&format!("{code}  ")), "{entry}");
        assert_eq!(entry.lines().count(), 2);
    }
    assert!(support::good(d, "explain").out.lines().count() > 10);
    let wrong = at(d, ["explain", "E030"]);
    assert!(
        wrong
            .err
            .starts_with("error: `E030` is no error code, expected one of E0101")
    );
    // Only a registered scheduler can lack a component.
    let mut registry = blox::registry();
    registry.schedulers.add("empty", "", &[], |_, _| {
        Ok(Composition::new("empty").build()?)
    });
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = blox::cli::run_with(&registry, ["blox", "simulate", "empty"], &mut out, &mut err);
    let err = String::from_utf8(err).unwrap();
    let error =
        "error: scheduler `empty`: no component has the role `scheduling`, expected one [E0303]\n";
    assert_eq!((code, err.as_str()), (2, error));
}

#[test]
fn man_pages_are_written_for_each_command() {
    let dir = tempfile::tempdir().unwrap();
    let seen = support::good(dir.path(), "man pages");
    let page = |name: &str| fs::read_to_string(dir.path().join("pages").join(name)).unwrap();
    assert!(page("blox.1").contains(".TH blox 1"));
    assert!(page("blox-simulate.1").contains("scheduler"));
    assert!(page("blox-trace-check.1").contains("blox trace check"));
    assert!(
        seen.out.lines().any(|l| l == "pages/blox-simulate.1"),
        "{}",
        seen.out
    );
    assert!(!dir.path().join("pages/blox-shim.1").exists());
    assert_eq!(at(dir.path(), ["man", "pages"]).code, Some(0));
}

#[test]
fn an_empty_trace_is_a_table_without_averages() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("none.csv"), "submit_s,gpus,duration_s\n").unwrap();
    let seen = at(dir.path(), "compare fifo las --trace none.csv".split(' '));
    assert_eq!(seen.code, Some(0), "{}", seen.err);
    assert!(
        seen.out.contains("notice     the workload has no jobs"),
        "{}",
        seen.out
    );
    // Averages over nothing are none.
    let row: Vec<&str> = seen
        .out
        .lines()
        .nth(2)
        .unwrap()
        .split_whitespace()
        .collect();
    assert_eq!(row[..6], ["fifo", "-", "-", "-", "-", "-"], "{}", seen.out);
    let of = |format: &str| {
        let line = format!("simulate las --trace none.csv -q --output-format {format}");
        support::good(dir.path(), &line).out
    };
    let json: serde_json::Value = serde_json::from_str(&of("json")).unwrap();
    let csv = of("csv");
    let (head, row) = csv.split_once('\n').unwrap();
    for (name, field) in head.split(',').zip(row.trim().split(',')) {
        if name.contains("_jct_s") || name.starts_with("avg_") {
            assert!(json[name].is_null() && field.is_empty(), "{name}\n{csv}");
        }
    }
    for line in [
        "simulate las",
        "compare las fifo",
        "sweep las fifo --seeds 1,2",
    ] {
        let out = line.replace(' ', "-");
        let line = format!("{line} --trace none.csv --output-dir {out} --plots --report");
        support::good(dir.path(), &line);
        let timelines = bytes(&dir.path().join(out));
        let mut timelines = timelines
            .iter()
            .filter(|(n, _)| n.ends_with("timeline.csv"));
        assert!(timelines.all(|(_, text)| text.starts_with(b"time_s,") && text.len() < 200));
    }
}

#[test]
fn a_window_without_jobs_says_so() {
    let dir = folder();
    let seen = at(
        dir.path(),
        "simulate -s fifo --trace jobs.csv --measure 10..20".split(' '),
    );
    assert_eq!(seen.code, Some(2));
    let error = "--measure is `10..20`, but selects none of the 4 jobs\n";
    assert_eq!(seen.err, format!("error: {error}"));
    let seeds = "compare fifo las --trace jobs.csv --measure 10..20 --seeds 1..2";
    let seen = at(dir.path(), seeds.split(' '));
    assert_ne!(seen.code, Some(0));
    assert!(seen.err.contains(error.trim_end()), "{}", seen.err);
}

/// A full disk must not discard results that took hours to compute.
#[test]
fn what_cannot_be_written_is_shown() {
    let dir = folder();
    // One of the files is blocked by a folder of another user.
    fs::create_dir_all(dir.path().join("out/fifo/jobs.csv/theirs")).unwrap();
    let line = "compare fifo las --trace jobs.csv --cluster 1x8 --output-dir out --force";
    let seen = at(dir.path(), line.split(' '));
    assert_eq!(seen.code, Some(2));
    assert!(
        seen.err.starts_with("error: out/fifo/jobs.csv: ") && seen.err.lines().count() == 1,
        "{}",
        seen.err
    );
    for row in ["\nfifo ", "\nlas "] {
        assert!(seen.out.contains(row), "{}", seen.out);
    }
    assert!(dir.path().join("out/las/jobs.csv").is_file());
    // The folder is incomplete.
    assert!(!dir.path().join("out/manifest.json").exists());
}

#[test]
fn whole_numbers_in_a_trace_are_its_ids() {
    let dir = folder();
    let text = "job_id,submit_s,gpus,duration_s\n7,0,1,100\n6,5,1,700\n5,9,1,400\n9,11,1,100\n";
    fs::write(dir.path().join("ids.csv"), text).unwrap();
    let run = |more: &str| {
        let line = format!("simulate -s fifo --trace ids.csv --cluster 1x4 {more}");
        at(dir.path(), line.split(' '))
    };
    let seen = run("--measure 5..6");
    let measured = "2 jobs, numbers 5 to 6; makespan, GPU util., preempted: of all jobs";
    assert!(seen.out.contains(measured), "{}", seen.out);
    // Submitted at 5 s and 9 s, launched at 300 s, seen to have ended at 1200 s and 900 s.
    assert!(seen.out.contains("fifo       1,043.0"), "{}", seen.out);
    for none in ["0..3", "8..8"] {
        assert_eq!(
            run(&format!("--measure {none}")).err,
            format!(
                "error: --measure is `{none}`, but no job has such an id: they lie from 5 to 9\n"
            )
        );
    }
    // The first and the last: submitted at 0 s and 11 s, seen to have ended at 300 s and 600 s.
    let apart = run("--measure 7..9").out;
    let measured = "2 jobs, numbers 7 to 9; makespan";
    assert!(apart.contains(measured), "{apart}");
    assert!(apart.contains("fifo       444.5"), "{apart}");
    let missing = "only 2 of the 3 jobs that --measure names came";
    assert!(apart.contains(missing), "{apart}");
    let story = run("--explain 5").out;
    let of_five = "job 2, 5 in the trace, under fifo\n    9.0 s  submitted";
    assert!(story.contains(of_five), "{story}");
    let story = run("--explain 3").out;
    assert!(
        story.contains("job 3, 9 in the trace, under fifo"),
        "{story}"
    );
}

#[test]
fn a_deadline_that_cannot_be_promised_is_explained() {
    let dir = folder();
    let text = "submit_s,gpus,duration_s,deadline_s\n0,1,600,90000\n0,1,600,700\n0,1,600,\n";
    fs::write(dir.path().join("due.csv"), text).unwrap();
    let story = |job: &str| {
        let line = format!("simulate -s chronus --trace due.csv --cluster 1x4 --explain {job}");
        at(dir.path(), line.split(' ')).out
    };
    let told = "admitted as best effort: its deadline, 700 s, cannot be promised\n";
    assert!(story("1").contains(told), "{}", story("1"));
    for job in ["0", "2"] {
        assert!(story(job).contains("  admitted\n"), "{}", story(job));
    }
}

#[test]
fn a_run_in_which_a_job_never_gains_says_so() {
    let dir = folder();
    let line = "simulate -s fifo --trace jobs.csv --cluster 1x8 --job-mtbf-h 0.0001";
    let seen = at(dir.path(), line.split(' '));
    let told =
        "crashed or failed to be launched 1,000,000 times in a row and kept no more of their work";
    assert!(seen.out.contains(told), "{}", seen.out);
}

#[test]
fn a_compressed_trace_of_another_system_gives_the_same() {
    let dir = folder();
    let text = format!("\u{feff}{}", TRACE.replace('\n', "\r\n"));
    let file = fs::File::create(dir.path().join("jobs.csv.gz")).unwrap();
    let mut gz = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    gz.write_all(text.as_bytes()).unwrap();
    gz.finish().unwrap();
    let table = |trace| {
        at(
            dir.path(),
            [
                "simulate",
                "-q",
                "-s",
                "las",
                "--trace",
                trace,
                "--cluster",
                "1x4",
            ],
        )
        .out
    };
    assert_eq!(table("jobs.csv.gz"), table("jobs.csv"));
    assert!(table("jobs.csv").contains("las"));
}

#[test]
fn equal_runs_give_equal_bytes_in_folders_with_spaces() {
    let dir = folder();
    fs::rename(dir.path().join("jobs.csv"), dir.path().join("my jobs.csv")).unwrap();
    let go = |out: &str, more: &[&str]| {
        let mut args = vec![
            "compare",
            "fifo",
            "las{guard_h=500,gpu_time=true}",
            "--trace",
            "my jobs.csv",
        ];
        args.extend([
            "--cluster",
            "2x4",
            "--rounds",
            "--node-mtbf-h",
            "0.2",
            "--output-dir",
            out,
        ]);
        args.extend(more);
        at(dir.path(), args)
    };
    for out in ["a b/one", "a b/two"] {
        let seen = go(out, &[]);
        assert_eq!(seen.code, Some(0), "{}", seen.err);
    }
    let (one, two) = (
        bytes(&dir.path().join("a b/one")),
        bytes(&dir.path().join("a b/two")),
    );
    let names: Vec<&str> = one.iter().map(|(n, _)| n.as_str()).collect();
    assert_eq!(
        names,
        [
            "fifo/jobs.csv",
            "fifo/rounds.csv",
            "fifo/summary.json",
            "fifo/timeline.csv",
            "las_gpu_time=true_guard_h=500/jobs.csv",
            "las_gpu_time=true_guard_h=500/rounds.csv",
            "las_gpu_time=true_guard_h=500/summary.json",
            "las_gpu_time=true_guard_h=500/timeline.csv",
            "manifest.json"
        ]
    );
    assert_eq!(one, two);
    let manifest: serde_json::Value = serde_json::from_slice(&one[8].1).unwrap();
    assert_eq!(manifest["status"], "complete");
    assert_eq!(manifest["inputs"][0]["path"], "my jobs.csv");
    assert_eq!(
        manifest["inputs"][0]["sha256"].as_str().map(str::len),
        Some(64)
    );
    assert_eq!(manifest["configuration"]["cluster"], "2x4");
    assert_eq!(go("a b/one", &[]).code, Some(2));
    assert_eq!(go("a b/one", &["--force"]).code, Some(0));
    assert_eq!(bytes(&dir.path().join("a b/one")), two);
}

#[test]
fn a_configuration_says_what_the_command_line_would() {
    let dir = folder();
    let text = "schedulers = [\"fifo\", \"las\"]\ntrace = \"../jobs.csv\"\ncluster = \"1x4\"\nround = 60\nseed = 3\n";
    fs::create_dir(dir.path().join("conf")).unwrap();
    fs::write(dir.path().join("conf/e.toml"), text).unwrap();
    let by_file = at(dir.path(), "compare -q --config conf/e.toml".split(' '));
    let by_line = at(
        dir.path(),
        "compare -q fifo las --trace jobs.csv --cluster 1x4 --round 60".split(' '),
    );
    assert_eq!(by_file.code, Some(0), "{}", by_file.err);
    assert_eq!(by_file.out, by_line.out);
    // Commands for one scheduler refuse several, however they are named.
    let one = at(dir.path(), "simulate --config conf/e.toml".split(' '));
    assert_eq!(
        one.err,
        "error: conf/e.toml: schedulers names 2, expected one with `blox simulate`\n"
    );
    let one = at(dir.path(), "step --config conf/e.toml".split(' '));
    assert_eq!(
        one.err,
        "error: conf/e.toml: schedulers names 2, expected one with `blox step`\n"
    );
    // The path of a cluster file is relative to the configuration file.
    let nodes = "[cluster]\nracks = 1\nservers_per_rack = 1\n";
    for name in ["nodes.ini", "some nodes"] {
        fs::write(dir.path().join("conf").join(name), nodes).unwrap();
        let beside = text.replace("1x4", name);
        fs::write(dir.path().join("conf/nodes.toml"), beside).unwrap();
        let seen = at(dir.path(), "compare -q --config conf/nodes.toml".split(' '));
        let error = format!("error: conf/{name}: ");
        assert!(seen.err.starts_with(&error), "{}", seen.err);
    }
    let text = text.replace("schedulers = [\"fifo\", \"las\"]", "scheduler = \"las\"");
    fs::write(dir.path().join("conf/one.toml"), text).unwrap();
    for line in ["compare -q", "sweep -q", "simulate -q"] {
        let seen = support::good(dir.path(), &format!("{line} --config conf/one.toml"));
        assert!(seen.out.contains("\nlas "), "{}", seen.out);
    }
    // The command line has precedence, also through an equivalent option.
    let events = at(
        dir.path(),
        "compare --config conf/e.toml --on-event 0".split(' '),
    );
    assert!(
        events
            .out
            .contains("rounds     none: decisions follow events"),
        "{}",
        events.out
    );
}

#[test]
fn a_visited_round_changes_nothing() {
    let line = "compare -q fifo srtf las --jobs 60 --cluster 2x4 --load 4";
    assert_eq!(
        run(line).out,
        run(&format!("{line} --visit-every-round")).out
    );
}

#[test]
fn faults_and_overheads_are_the_same_twice() {
    let line = "compare -q fifo las sjf --workload poisson --load-of-capacity 0.9 --durations exponential:3600 \
                --gpu-mix 1:70,4:30 --jobs 100 --cluster 4x4 --node-mtbf-h 50 --job-mtbf-h 30 \
                --checkpoint-every-s 600 --launch-failure 0.01 --launch-s 20 --checkpoint-s 5 \
                --restart-s 10 --migration-s 40 --completion exact --placement first-free \
                --admission load{threshold=3} --cluster-manager quarantine";
    let seen = run(line);
    assert_eq!(seen.code, Some(0), "{}", seen.err);
    assert_eq!(seen.out, run(line).out);
    assert_ne!(seen.out, run(&format!("{line} --seed 2")).out);
}

#[test]
fn nodes_in_maintenance_take_nothing_new() {
    let dir = folder();
    let run = |manager: &str| {
        let line = "simulate -s fifo --trace jobs.csv --jobs 1 --cluster 3x1 --explain 0";
        let mut args: Vec<&str> = line.split(' ').collect();
        args.extend(["--cluster-manager", manager]);
        at(dir.path(), args)
    };
    let seen = run("maintenance{nodes=0/1,until_h=10}");
    assert!(seen.out.contains("runs on GPUs 2 "), "{}", seen.out);
    let seen = run("maintenance{nodes=0/1/2,until_h=10}");
    assert!(
        seen.out.contains("36,000.0 s  runs on GPUs 0 "),
        "{}",
        seen.out
    );
    let seen = run("maintenance{nodes=0,from_h=1,until_h=10}");
    assert!(seen.out.contains("runs on GPUs 0 "), "{}", seen.out);
    for (manager, expected) in [
        (
            "maintenance{nodes=a}",
            "numbers with / between them, or none",
        ),
        (
            "maintenance{nodes=0,until_h=0}",
            "a number of hours above from_h",
        ),
        (
            "maintenance{nodes=0,from_h=30}",
            "a number of hours below until_h, 24",
        ),
        ("maintenance{from_h=1}", "nodes=NUMBERS with it"),
    ] {
        let seen = run(manager);
        assert_eq!(seen.code, Some(2));
        assert!(
            seen.err.ends_with(&format!("expected {expected}\n")),
            "{}",
            seen.err
        );
    }
}

#[test]
fn journals_are_lines_of_json_one_a_scheduler() {
    let dir = folder();
    let seen = at(
        dir.path(),
        "compare fifo las --trace jobs.csv --journal j.jsonl".split(' '),
    );
    assert_eq!(seen.code, Some(0), "{}", seen.err);
    for name in ["j.fifo.jsonl", "j.las.jsonl"] {
        let text = fs::read_to_string(dir.path().join(name)).unwrap();
        assert!(text.lines().count() > 8);
        for line in text.lines() {
            serde_json::from_str::<serde_json::Value>(line).unwrap();
        }
    }
}

#[test]
fn what_is_there_is_not_written_over() {
    let dir = folder();
    let d = dir.path();
    let good = |line: &str| support::good(d, line);
    let bad = |line: &str, why: &str| {
        let seen = at(d, line.split(' '));
        assert_eq!((seen.code, seen.err), (Some(2), format!("error: {why}\n")));
    };
    let read = |name: &str| fs::read_to_string(d.join(name)).unwrap();
    // Not even with `--force`: the file is the input of the journal's run.
    for force in ["", " --force"] {
        bad(
            &format!("simulate las --trace jobs.csv --journal jobs.csv{force}"),
            "jobs.csv: is read, and the journal would replace it, expected another --journal",
        );
    }
    assert_eq!(read("jobs.csv"), TRACE);
    fs::write(d.join("notes"), "mine").unwrap();
    bad(
        "simulate las --trace jobs.csv --journal notes",
        "notes: is there already, expected a new file for the journal, or --force",
    );
    assert_eq!(read("notes"), "mine");
    good("simulate las --trace jobs.csv --journal notes --force");
    assert_ne!(read("notes"), "mine");
    // Results do not replace their own trace either.
    good("compare fifo las --trace jobs.csv --output-dir out");
    let was = read("out/las/jobs.csv");
    bad(
        "simulate las --trace out/las/jobs.csv --output-dir out --force",
        "out/las/jobs.csv: is read, and the results would replace it, expected another --output-dir",
    );
    assert_eq!(read("out/las/jobs.csv"), was);
}

#[test]
fn results_written_over_others_leave_nothing_of_them() {
    let dir = folder();
    let good = |line: &str| {
        let line = format!("{line} --trace jobs.csv --cluster 2x4 --output-dir out --force");
        support::good(dir.path(), &line);
        bytes(&dir.path().join("out"))
    };
    let alone = good("simulate fifo");
    good("compare fifo las --rounds --plots --report");
    good("sweep fifo las --seeds 1,2 --vary round=60|300 --plots --report");
    fs::write(dir.path().join("out/notes"), "mine").unwrap();
    fs::write(dir.path().join("out/plots/my-jct.svg"), "mine").unwrap();
    let kept = dir.path().join("out/las-then");
    fs::create_dir(&kept).unwrap();
    let run = dir.path().join("out/runs/las_seed=1_round=60/summary.json");
    fs::copy(run, kept.join("summary.json")).unwrap();
    let mut now = good("simulate fifo");
    let mine = ["las-then/summary.json", "notes", "plots/my-jct.svg"];
    let before = now.len();
    now.retain(|(name, _)| !mine.contains(&name.as_str()));
    assert_eq!(now, alone);
    assert_eq!(before, now.len() + mine.len());
    let summaries =
        |name: &(String, Vec<u8>)| name.0.starts_with("runs/") && name.0.ends_with("summary.json");
    let swept = good("sweep las --seeds 1,2");
    assert_eq!(swept.into_iter().filter(summaries).count(), 2);
}

#[test]
fn nobody_reading_is_no_error() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let child = blox()
        .arg("policies")
        .stdout(writer)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let seen = Seen::from(child.wait_with_output().unwrap());
    assert_eq!((seen.code, seen.err.as_str()), (Some(0), ""));
}

#[test]
fn policies_have_names_and_parameters() {
    let seen = run("policies");
    assert_eq!(seen.code, Some(0));
    assert!(
        seen.out.contains("guard_h=1000      hours of waiting"),
        "{}",
        seen.out
    );
    let one = run("policies quota");
    assert!(one.out.starts_with("admission policies"), "{}", one.out);
    assert!(one.out.contains("gpus=32"), "{}", one.out);
}

#[cfg(feature = "released")]
#[test]
fn a_case_is_equal_or_shows_what_differs() {
    let dir = tempfile::tempdir().unwrap();
    let case = dir.path().join("case");
    fs::create_dir(&case).unwrap();
    let jobs = "job_id,arrival_s,total_iteration,iteration_time_s,num_gpus,model_class_id\n\
                0,75,500,1,1,0\n1,80,100,1,1,0\n";
    fs::write(case.join("jobs.csv"), jobs).unwrap();
    let summary = r#"{"scheduler": "Fifo", "cluster": "1 machines x 1 GPUs", "tracked_ids": [0, 1], "load_jobs_per_hour": 1}"#;
    fs::write(case.join("summary.json"), summary).unwrap();
    let expected = |finish: &str| {
        let text = format!(
            "job_id,submit_s,first_launch_s,first_metric_s,finish_s,jct_s,responsiveness_s\n\
             0,75,300,600,900,825,525\n1,80,900,1200,{finish},1120,1120\n"
        );
        fs::write(case.join("expected.csv"), text).unwrap();
    };
    expected("1200");
    let seen = at(dir.path(), ["verify", "."]);
    assert_eq!(
        seen.out,
        "equal  ./case  2 jobs, 12 values\n  \
         note: preemptions were not compared by round: there is no preemptions_per_round.csv\n\
         1 of 1 cases equal\n"
    );
    let rounds = |rows: &str| {
        let text = format!("time_s,num_preemptions\n{rows}");
        fs::write(case.join("preemptions_per_round.csv"), text).unwrap();
    };
    rounds("");
    let seen = at(dir.path(), ["verify", "."]);
    assert_eq!(
        seen.out,
        "equal  ./case  2 jobs, 12 values\n1 of 1 cases equal\n"
    );
    assert_eq!(seen.code, Some(0));
    let text = "job_id,submit_s,first_launch_s,finish_s,mood,wall_s\n\
                0,75,300,900,good,7\n1,80,900,1200,bad,9\n";
    fs::write(case.join("expected.csv"), text).unwrap();
    let seen = at(dir.path(), ["verify", "."]);
    assert_eq!(
        seen.out,
        "equal  ./case  2 jobs, 6 values\nnot compared in blox: mood, wall_s\n1 of 1 cases equal\n"
    );
    expected("1500");
    let seen = at(dir.path(), ["verify", "case", "--system", "blox"]);
    assert_eq!(
        seen.out,
        "DIFFERS  case  2 jobs, 12 values, 1 differs\n  \
         job 1: finish_s expected 1500, found 1200\n0 of 1 cases equal\n"
    );
    assert_eq!(seen.code, Some(1));
    rounds("300,1\n300,1\n");
    let seen = at(dir.path(), ["verify", "."]);
    assert_eq!(
        seen.out,
        "ERROR  ./case/preemptions_per_round.csv: line 3: time_s is 300, as on a line above\n\
         0 of 1 cases equal\n"
    );
    rounds("");
    // A job without a row is an error, and a second row of another job does not replace it.
    let header = "job_id,submit_s,first_launch_s,finish_s\n";
    for (rows, line) in [
        (
            "0,75,300,900\n",
            "  job 1: job_id expected no row, found a job\n",
        ),
        (
            "0,75,300,900\n0,75,300,900\n",
            "ERROR  ./case/expected.csv: line 3: job_id is `0`, expected another than on line 2, a row a job\n",
        ),
    ] {
        fs::write(case.join("expected.csv"), format!("{header}{rows}")).unwrap();
        let seen = at(dir.path(), ["verify", "."]);
        assert_eq!(seen.code, Some(1));
        assert!(seen.out.contains(line), "{}", seen.out);
    }
    let text = "job_id,submit_s,first_launch_s,end_s\n0,75,300,900\n1,80,900,1200\n";
    fs::write(case.join("expected.csv"), text).unwrap();
    let seen = at(dir.path(), ["verify", ".", "--system", "blox"]);
    assert_eq!(
        seen.out,
        "ERROR  ./case/expected.csv: line 1: the column finish_s is missing, found the columns \
         job_id, submit_s, first_launch_s, end_s\n0 of 1 cases equal\n"
    );
    // Jobs of a trace are identified by their ids, which may start later.
    let late = |text: &str| text.replace("\n0,", "\n70,").replace("\n1,", "\n71,");
    fs::write(case.join("jobs.csv"), late(jobs)).unwrap();
    fs::write(
        case.join("summary.json"),
        summary.replace("[0, 1]", "[70, 71]"),
    )
    .unwrap();
    expected("1200");
    let text = fs::read_to_string(case.join("expected.csv")).unwrap();
    fs::write(case.join("expected.csv"), late(&text)).unwrap();
    let seen = at(dir.path(), ["verify", "."]);
    assert_eq!(seen.code, Some(0), "{}", seen.out);
    fs::remove_file(case.join("jobs.csv")).unwrap();
    let seen = at(dir.path(), ["verify", "."]);
    assert_eq!(
        seen.out,
        "ERROR  ./case: the input `jobs.csv` is in neither the case nor an input/ \
         or inputs/ of it or above\n0 of 1 cases equal\n"
    );
    assert_eq!(seen.code, Some(1));
    fs::remove_file(case.join("summary.json")).unwrap();
    for (text, sentence) in [
        ("", "the file is empty, expected a header or a job"),
        ("\n", "is empty, expected a header and a row a job"),
        (
            "job_id,finish_s\n0,\"600\n1,900\n",
            "line 2: finish_s is `600`, expected a cell whose quote is closed on the same line",
        ),
        (
            "job_id,first_launch_s,first_metric_s,responsiveness_s\n",
            "has a header alone, and there is no summary.json, expected a row a job",
        ),
    ] {
        fs::write(case.join("expected.csv"), text).unwrap();
        let seen = at(dir.path(), ["verify", "."]);
        let line = format!("ERROR  ./case/expected.csv: {sentence}\n0 of 1 cases equal\n");
        assert_eq!((seen.code, seen.out), (Some(1), line));
    }
}

/// Two jobs that exceed two GPUs, and a third job.
#[cfg(feature = "released")]
const TIRESIAS_TRACE: &str = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n\
    0,2,0,1,vgg16,3000,100\n1,1,100,1,vgg16,200,1600\n2,1,1700,1,resnet50,100,0\n";
#[cfg(feature = "released")]
const TIRESIAS_CLUSTER: &str =
    "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n1,1,2,16,64\n";

#[cfg(feature = "released")]
#[test]
fn a_case_of_tiresias_is_told_by_its_columns_and_settings() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    fs::create_dir_all(dir.path().join("case/input")).unwrap();
    write("case/input/t.csv", TIRESIAS_TRACE);
    write("case/input/c.csv", TIRESIAS_CLUSTER);
    let summary = |schedule: &str, scheme: &str, rc: u32| {
        write(
            "case/summary.json",
            &format!(
                r#"{{"rc": {rc}, "cmd": "run_sim.py --cluster_spec=c.csv --scheme={scheme} --trace_file=t.csv --schedule={schedule}"}}"#
            ),
        );
    };
    let header = "time,job_id,num_gpu,submit_time,start_time,end_time,executed_time,JCT,duration,\
                  pending_time,preempt,resume,promote\n";
    let expected = |rows: &str| write("case/expected.csv", &format!("{header}{rows}"));
    let verify = || at(dir.path(), ["verify", "case"]);
    // The first job reaches 3,250 GPU-seconds at 1,625 s, and is stopped at the
    // moment that the original reckons: 100 + (3250 - 100) / 2.
    summary("dlas-gpu", "yarn", 0);
    expected(
        "1800,2,1,1700,1700,1800,100,100,100,0,0,1,0\n\
         1875,1,1,100,1675,1875,200,1775,200,1575,0,1,0\n\
         3200,0,2,0,0,3200,3200,3200,3000,200,1,2,0\n",
    );
    let seen = verify();
    assert_eq!(
        seen.out,
        "equal  case  3 jobs, 37 values\n1 of 1 cases equal\n"
    );
    assert_eq!(seen.code, Some(0));
    // Another schedule gives other results, and other columns are compared.
    summary("fifo", "count", 0);
    let seen = verify();
    assert_eq!(seen.code, Some(1));
    assert!(
        seen.out
            .contains("  job 1: start_time expected 1675, found 3000\n"),
        "{}",
        seen.out
    );
    expected(
        "3000,0,2,0,0,3000,3000,3000,3000,0,0,0,0\n\
         3100,2,1,1700,3000,3100,100,1400,100,1300,0,0,0\n\
         3200,1,1,100,3000,3200,200,3100,200,2900,0,0,0\n",
    );
    assert_eq!(verify().code, Some(0), "{}", verify().out);
    // If the original crashed, the result of the reproduction is shown.
    summary("fifo", "random", 1);
    expected("");
    assert_eq!(
        verify().out,
        "equal  case  0 jobs, 1 value\n  \
         note: the original crashed after 0 of 3 jobs, ours ends 3\n1 of 1 cases equal\n"
    );
    summary("fifo", "balance", 0);
    assert_eq!(
        verify().out,
        "equal  case  0 jobs, 1 value\n  \
         note: the original leaves 3 of 3 jobs unfinished, so does ours\n1 of 1 cases equal\n"
    );
    summary("shortest-expected", "count", 0);
    assert_eq!(
        verify().out,
        "ERROR  case: the input `yarn-gput1000.csv` is in neither the case nor an input/ \
         or inputs/ of it or above\n0 of 1 cases equal\n"
    );
    write("case/summary.json", "{}");
    assert_eq!(
        verify().out,
        "ERROR  case/summary.json: `schedule` is missing, expected it or a command with \
         --schedule=\n0 of 1 cases equal\n"
    );
}

#[test]
fn one_virtual_cluster_has_its_own_nodes_and_jobs() {
    let dir = tempfile::tempdir().unwrap();
    let trace = "submit_s,gpus,duration_s,virtual_cluster\n\
                 0,8,600,va\n10,8,600,vb\n20,8,600,va\n30,4,600,vb\n";
    fs::write(dir.path().join("t.csv"), trace).unwrap();
    fs::write(dir.path().join("vc.csv"), ",num\nva,1\nvb,2\n").unwrap();
    let run = |name: &str| {
        let line = "simulate -s tiresias{estimator=noisy,sigma=0.3} --trace t.csv --cluster vc.csv --virtual-cluster";
        at(dir.path(), line.split(' ').chain([name]))
    };
    let seen = run("vb");
    assert_eq!(seen.code, Some(0), "{}", seen.err);
    for part in [
        "2 nodes, 16 GPUs",
        "vb of t.csv",
        "2 jobs",
        "notice     virtual cluster vb: 2 jobs of other virtual clusters, or of none, left out",
    ] {
        assert!(seen.out.contains(part), "{part}\n{}", seen.out);
    }
    let together = support::good(dir.path(), "simulate fifo --trace t.csv --cluster vc.csv");
    let notice =
        "the partitions of the cluster are not kept apart: --virtual-cluster simulates one";
    assert!(together.out.contains(notice), "{}", together.out);
    let seen = run("vd");
    assert_eq!(
        seen.err,
        "error: --virtual-cluster is `vd`, expected one of va, vb\n"
    );
    assert_eq!(seen.code, Some(2));
}

#[cfg(feature = "released")]
#[test]
fn files_of_tiresias_are_traces_and_clusters() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("t.csv"), TIRESIAS_TRACE).unwrap();
    fs::write(dir.path().join("c.csv"), TIRESIAS_CLUSTER).unwrap();
    let line = "simulate -s tiresias-dlas-gpu --trace t.csv --cluster c.csv";
    let seen = at(dir.path(), line.split(' '));
    assert_eq!(seen.code, Some(0), "{}", seen.err);
    for part in ["1 node, 2 GPUs", "t.csv (tiresias, 3 jobs)"] {
        assert!(seen.out.contains(part), "{part}\n{}", seen.out);
    }
    for (name, sentence) in [
        (
            "tiresias{promote=often}",
            "parameter `promote` is `often`, expected a number above 0, or none",
        ),
        (
            "tiresias{thresholds=7200/3250}",
            "parameter `thresholds` is `[7200.0, 3250.0]`, expected ascending numbers of \
             GPU-seconds above 0",
        ),
        (
            "tiresias{pack_limit=2}",
            "parameter `pack_limit` is `2`, expected a share from 0 to 1",
        ),
        (
            "tiresias{history=gone.csv}",
            "parameter `history` is `gone.csv`, expected a file of past GPU-seconds \
             (gone.csv: no such file, expected an existing file)",
        ),
    ] {
        let seen = at(dir.path(), ["simulate", "-s", name, "--trace", "t.csv"]);
        assert_eq!(seen.err, format!("error: `{name}`: {sentence}\n"));
        assert_eq!(seen.code, Some(2), "{name}");
    }
}

/// Runs a command line that ends with an output folder, and sends Ctrl-C once the folder exists.
#[cfg(unix)]
fn interrupted(line: &str, out: &Path) -> Seen {
    let child = blox()
        .args(line.split(' '))
        .arg(out)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while !out.exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    stopped(child, Duration::from_millis(200))
}

/// Interrupts a process after a delay, and returns its output. The delay begins when the process
/// handles Ctrl-C.
#[cfg(unix)]
fn stopped(mut child: Child, after: Duration) -> Seen {
    while !handles_ctrl_c(&child) && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(after);
    let kill = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(kill.unwrap().success());
    let seen = Seen::from(child.wait_with_output().unwrap());
    assert_eq!(seen.code, Some(130), "{}", seen.err);
    seen
}

/// Returns whether a process has a handler of SIGINT; always true where `/proc` does not state it.
#[cfg(unix)]
fn handles_ctrl_c(child: &Child) -> bool {
    let Ok(status) = fs::read_to_string(format!("/proc/{}/status", child.id())) else {
        return true;
    };
    let mask = status.lines().find_map(|l| l.strip_prefix("SigCgt:"));
    let mask = mask.map(|mask| u64::from_str_radix(mask.trim(), 16).unwrap());
    mask.is_none_or(|mask| mask & 0b10 != 0)
}

#[cfg(unix)]
#[test]
fn ctrl_c_leaves_what_there_is() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let seen = interrupted("simulate -s las --load 7 --jobs 4000000 --output-dir", &out);
    assert!(
        seen.out.contains("notice     las: interrupted at "),
        "{}",
        seen.out
    );
    assert!(
        seen.err
            .contains("interrupted: results so far of 1 of 1 schedulers"),
        "{}",
        seen.err
    );
    let json = |name: &str| -> serde_json::Value {
        serde_json::from_slice(&fs::read(out.join(name)).unwrap()).unwrap()
    };
    assert_eq!(json("manifest.json")["status"], "interrupted");
    assert_eq!(json("las/summary.json")["ended"], "interrupted");
    let jobs = fs::read_to_string(out.join("las/jobs.csv")).unwrap();
    assert!(jobs.lines().count() > 2);
}

/// Only seeds that have results of all schedulers are counted.
#[cfg(unix)]
#[test]
fn a_comparison_over_seeds_that_is_interrupted_says_how_many_it_has() {
    let line = "compare fifo las --seeds 1..2000 --jobs 6000 --load 7 --output-format csv";
    let mut compare = blox();
    let compare = compare.args(line.split(' '));
    let compare = compare.stdout(Stdio::piped()).stderr(Stdio::piped());
    let seen = stopped(compare.spawn().unwrap(), Duration::from_millis(1500));
    let said = seen.err.lines().last().unwrap();
    let count = said.strip_prefix("interrupted: results of ").unwrap();
    let count: u32 = count
        .strip_suffix(" of 2000 seeds")
        .unwrap()
        .parse()
        .unwrap();
    assert!(count < 2000);
    let mut rows = csv::Reader::from_reader(seen.out.as_bytes());
    let head = rows.headers().unwrap().clone();
    let at = head.iter().position(|c| c == "seeds").unwrap();
    for row in rows.records() {
        assert_eq!(row.unwrap()[at], count.to_string());
    }
}

/// An interrupted figure keeps its finished simulations and reports their number.
#[cfg(feature = "released")]
#[cfg(unix)]
#[test]
fn a_figure_that_is_interrupted_says_what_there_is() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let seen = interrupted("reproduce blox-fig14 --output-dir", &out);
    assert!(
        seen.err.starts_with("interrupted: figures of "),
        "{}",
        seen.err
    );
    let manifest = fs::read(out.join("manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    assert_eq!(manifest["status"], "interrupted");
    let simulations = manifest["simulations"].as_array().unwrap();
    let finished = simulations
        .iter()
        .filter(|s| s["status"] == "finished")
        .count();
    assert!(finished < simulations.len());
    let table = fs::read_to_string(out.join("blox-fig14-simulations.csv")).unwrap();
    assert!(table.starts_with("simulation,scheduler,jobs,"), "{table}");
    assert_eq!(table.lines().count(), 1 + finished);
    assert!(!out.join("blox-fig14.csv").exists());
}

/// A figure without named runs can be interrupted as well.
#[cfg(feature = "released")]
#[cfg(unix)]
#[test]
fn a_figure_without_runs_can_be_interrupted() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let seen = interrupted("reproduce sia-scale --output-dir", &out);
    assert_eq!(seen.err, "interrupted: nothing came of it yet\n");
    let manifest = fs::read(out.join("manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    assert_eq!(manifest["status"], "interrupted");
}

#[test]
fn fairness_is_there_for_who_asks() {
    let dir = tempfile::tempdir().unwrap();
    let trace = "job_id,submit_s,gpus,duration_s\na,0,1,100\nb,0,1,100\n";
    fs::write(dir.path().join("jobs.csv"), trace).unwrap();
    let run = |more: &str| {
        let line = format!("simulate fifo --trace jobs.csv --cluster 1x1 --on-event 0 {more}");
        let seen = at(dir.path(), line.split_whitespace());
        assert_eq!(seen.code, Some(0), "{}", seen.err);
        seen.out
    };
    // Half of a GPU until the first ends; the second then has it alone: 100 / 200 and 200 / 150.
    let table = run("--fairness --output-dir out");
    let row = table.lines().find(|l| l.starts_with("fifo")).unwrap();
    let fields: Vec<&str> = row.split_whitespace().collect();
    assert!(fields.ends_with(&["0.92", "1.33", "50.0", "%"]), "{table}");
    let jobs = fs::read_to_string(dir.path().join("out/fifo/jobs.csv")).unwrap();
    let last: Vec<&str> = jobs
        .lines()
        .map(|l| l.rsplit(',').next().unwrap())
        .collect();
    assert_eq!(last, ["rho", "0.5", "1.3333333333333333"]);
    let csv = run("--fairness --output-format csv");
    let (head, row) = csv.split_once('\n').unwrap();
    let fields: Vec<(&str, &str)> = head.split(',').zip(row.trim().split(',')).collect();
    assert!(fields.contains(&("fairness_jobs", "2")), "{csv}");
    assert!(fields.contains(&("fairness_unfair", "0.5")), "{csv}");
    assert!(!run("").contains("unfair"));
}

#[test]
fn missed_deadlines_say_why() {
    let dir = folder();
    let jobs = "submit_s,gpus,duration_s,deadline_s\n0,1,100,200\n0,1,100,105\n0,1,100,250\n";
    fs::write(dir.path().join("due.csv"), jobs).unwrap();
    let simulate = |overheads: &str| {
        let line = format!(
            "simulate --scheduler fifo --trace due.csv --cluster 1x2 --completion exact --group-overheads-s {overheads}"
        );
        at(dir.path(), line.split_whitespace())
    };
    // A change costs 4 s, a first group of one 6 s more.
    let seen = simulate("4,6");
    let counts = "fifo: 1 met, 2 missed (1 by their overheads, 1 by waiting for GPUs), 0 declined";
    assert!(seen.out.contains(counts), "{}{}", seen.out, seen.err);
    // Neither job waited. The first deadline was impossible, and the second job ended 100 s before
    // the end of its round.
    let jobs = "submit_s,gpus,duration_s,deadline_s\n0,1,5000,20\n0,1,5000,5050\n";
    fs::write(dir.path().join("late.csv"), jobs).unwrap();
    let seen = support::good(
        dir.path(),
        "simulate fifo --trace late.csv --output-dir late",
    );
    let counts = "0 met, 2 missed (1 could not be met, 1 seen only when a round ended), 0 declined";
    assert!(seen.out.contains(counts), "{}", seen.out);
    let rows = fs::read_to_string(dir.path().join("late/fifo/jobs.csv")).unwrap();
    for cause in [",missed,impossible,", ",missed,round,"] {
        assert!(rows.contains(cause), "{cause}\n{rows}");
    }
    let seen = simulate("4");
    let message = "--group-overheads-s is `4`, expected two numbers of seconds, at least 0, as 2,2";
    assert!(seen.err.contains(message), "{}", seen.err);
    assert_eq!(seen.code, Some(2));
}

/// Two kinds of jobs, how fast they are on two types of GPUs, and a job a kind.
#[test]
fn speeds_by_type_come_from_a_file_of_gavels() {
    let dir = tempfile::tempdir().unwrap();
    let oracle = r#"{
        "k80": {"('LM', 1)": {"null": 1.0}, "('A3C', 1)": {"null": 1.0}},
        "v100": {"('LM', 1)": {"null": 4.0}, "('A3C', 1)": {"null": 2.0}}}"#;
    fs::write(dir.path().join("speeds.json"), oracle).unwrap();
    let trace =
        "LM\tcmd\t.\t--steps\t0\t4000\t1\t1\t-1\t0\nA3C\tcmd\t.\t--steps\t0\t1000\t1\t1\t-1\t0\n";
    fs::write(dir.path().join("jobs.trace"), trace).unwrap();
    let world = "--throughputs speeds.json --cluster 1x1:k80,1x1:v100 --json -q";
    let takes = |line: &str, seconds: f64| {
        let line = format!("simulate {line} {world}");
        let seen = at(dir.path(), line.split_whitespace());
        assert_eq!(seen.code, Some(0), "{}", seen.err);
        let json: serde_json::Value = serde_json::from_str(&seen.out).unwrap();
        let average = json["avg_jct_s"].as_f64().unwrap();
        assert!((average - seconds).abs() < 1e-6, "{line}: {average}");
    };
    // The LM job runs on the V100 for 1000 s, the other one on the K80 for 1000 s; ends are seen
    // when a round of 360 s ends.
    let throughput = "--scheduler gavel{policy=max-sum-throughput}";
    takes(
        &format!("{throughput} --trace jobs.trace --format gavel"),
        1080.0,
    );
    // With a price of 9, a V100 is worth less than a K80; without prices it is not.
    let one = "LM\tcmd\t.\t--steps\t0\t4000\t1\t1\t-1\t0\n";
    fs::write(dir.path().join("one.trace"), one).unwrap();
    for (prices, seconds) in [("", 1080.0), (",prices=v100:9+k80:1", 4320.0)] {
        let cost = format!("--scheduler gavel{{policy=max-throughput-per-cost{prices}}}");
        takes(&format!("{cost} --trace one.trace --format gavel"), seconds);
    }
    // Jobs of another format have their duration on the fastest type.
    let table = "submit_s,gpus,duration_s,model\n0,1,720,LM\n";
    fs::write(dir.path().join("jobs.csv"), table).unwrap();
    takes(&format!("{throughput} --trace jobs.csv"), 720.0);
    for (line, found) in [
        (
            "simulate --scheduler gavel --trace jobs.trace --format gavel --throughputs no.json",
            "no.json",
        ),
        (
            "compare gavel{policy=max-throughput-per-cost,prices=v100:0} --jobs 5",
            "TYPE:PRICE",
        ),
    ] {
        let seen = at(dir.path(), line.split_whitespace());
        assert_eq!(seen.code, Some(2), "{}", seen.err);
        assert!(seen.err.contains(found), "{}", seen.err);
    }
}
