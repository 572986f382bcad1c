//! Comparison with cases of original programs, in the folder that `BLOX_GOLDEN` names.
#![cfg(feature = "released")]

use blox::core::{Adapts, Extras, GpuCount, JobSpec, Seconds, Time};
use blox::perf::applications::built_in;
use blox::released::elasticflow::files::{Recipe, read_trace};
use blox::released::sia;
use blox::released::verify::{compare, compare_visiting_every_round, find_cases};
use blox::results::Summary;
use blox::sim::Simulation;
use blox::sim::execution::training::Profiles;
use blox::sim::workload::{Jobs, Workload};
use blox::traces::Trace;
use blox::traces::formats::gavel::Oracle;
use blox::traces::scaling::ScalingTable;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

#[test]
fn every_case_of_blox_is_equal() {
    every_case_is_equal("blox");
}

#[test]
fn every_case_of_tiresias_is_equal() {
    every_case_is_equal("tiresias");
}

#[test]
fn every_case_of_elasticflow_is_equal() {
    every_case_is_equal("elasticflow");
}

#[test]
fn every_case_of_synergy_is_equal() {
    every_case_is_equal("synergy");
}

/// The documents state the numbers of cases.
#[test]
fn documents_count_the_cases() {
    let Some(golden) = golden() else { return };
    let page = include_str!("../docs/src/explanation/fidelity.md");
    let (_, table) = page
        .split_once("| system | cases that agree | of |\n")
        .unwrap();
    let rows = table
        .lines()
        .skip(1)
        .take_while(|line| line.starts_with('|'));
    let (mut sum, mut systems) = (0, 0);
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let count = match cells[0] {
            "all" => sum,
            names => {
                let (name, _) = names.split_once(',').unwrap_or((names, ""));
                let cases = find_cases(&golden.join(name.to_lowercase())).unwrap();
                systems += 1;
                sum += cases.len();
                cases.len()
            }
        };
        assert_eq!(cells[1..], [count.to_string(), count.to_string()], "{row}");
    }
    assert_eq!(systems, 8);
    let readme = include_str!("../README.md");
    let shipped = find_cases(Path::new("crates/blox-released/recorded")).unwrap();
    for part in [
        format!("[{sum} recorded cases]("),
        format!("{} small cases", shipped.len()),
    ] {
        assert!(readme.contains(&part), "{part}");
    }
}

/// Cases for which all fits were recorded.
#[test]
fn cases_of_sia_are_equal() {
    let Some(golden) = golden() else { return };
    let all = [
        "osdi6-tiresias",
        "t10-gavel",
        "t10-pollux",
        "t10-sia-canon",
        "t10-sia-cbc",
        "t10-sia-glpk",
        "t10-sia-highs",
    ];
    for name in all {
        let case = golden.join("sia").join(name);
        let compared = compare(&case, None).unwrap();
        assert!(compared.values > 0, "{name}");
        assert_eq!(compared.differences, [], "{name}");
    }
}

/// The genetic search is another, so single jobs differ.
#[test]
fn pollux_without_types_is_near_its_run() {
    let Some(golden) = golden() else { return };
    let path = golden.join("sia/t10-pollux/workload.csv");
    let applications = built_in();
    let text = std::fs::read_to_string(path).unwrap();
    let job = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let submit = Time::new(cells[1].parse().unwrap());
        let job = JobSpec::new(submit, GpuCount(1), Seconds::new(1.0));
        let mut job = job.with_extras(Extras {
            model: Some(cells[2].into()),
            ..Extras::default()
        });
        assert!(applications.describe(&mut job, Adapts::All));
        job
    };
    let jobs: Vec<JobSpec> = text.lines().skip(1).map(job).collect();
    let base = Simulation::new("6x4:aws,2x8:dgx-ext,3x8:rtx".parse().unwrap());
    let training = sia::world::training(built_in()).profiles(Profiles::OfAll);
    let pollux = sia::blind::pollux(Seconds::new(60.0));
    let report = sia::simulation(base, training)
        .run(pollux, &mut Jobs::new(jobs))
        .unwrap();
    let ratio = Summary::of(&report).avg_jct_s / 1305.4;
    assert!((0.8..1.25).contains(&ratio), "{ratio}");
}

#[test]
fn every_case_of_lucid_is_equal() {
    let Some(golden) = golden() else { return };
    let mut equal = 0;
    for case in find_cases(&golden.join("lucid")).unwrap() {
        let shown = case.display();
        let compared = compare(&case, None).unwrap();
        assert!(compared.values > 0, "{shown}");
        assert_eq!(compared.differences, [], "{shown}");
        equal += 1;
    }
    assert!(equal >= 22, "{equal}");
}

/// Rounds and jobs are equal if shares were recorded or are unique. Averages are close if an
/// optimum was selected.
#[test]
fn every_case_of_gavel_and_shockwave_is_equal_or_near() {
    let Some(golden) = golden() else { return };
    for (system, cases) in [("gavel", 80), ("shockwave", 15)] {
        let mut near = 0;
        for case in find_cases(&golden.join(system)).unwrap() {
            let compared = compare(&case, None).unwrap();
            assert!(compared.values > 0, "{}", case.display());
            assert_eq!(compared.differences, [], "{}", case.display());
            near += 1;
        }
        assert!(near >= cases, "{system}: {near}");
    }
}

/// A missing row, and a setting that is not a number.
#[test]
fn what_is_taken_from_a_case_is_missed() {
    let Some(golden) = golden() else { return };
    for (system, case) in [
        ("gavel", "small_test/gandiva"),
        ("gavel", "small_test/max_min_fairness"),
        ("shockwave", "tacc32_shipped__gandiva_fair"),
        ("elasticflow", "fig10/ef"),
        ("tiresias", "60_job__n4g4__sjf__cbalance"),
    ] {
        let from = golden.join(system).join(case);
        let dir = tempfile::tempdir().unwrap();
        for file in std::fs::read_dir(&from).unwrap() {
            let file = file.unwrap();
            if file.file_type().unwrap().is_file() {
                std::fs::copy(file.path(), dir.path().join(file.file_name())).unwrap();
            }
        }
        let above = from.ancestors().map(|a| a.join("inputs"));
        let inputs: Vec<PathBuf> = above.filter(|a| a.is_dir()).collect();
        if let Some(inputs) = inputs.first() {
            copy_tree(inputs, &dir.path().join("inputs"));
        }
        let compared = compare(dir.path(), Some(system)).unwrap();
        assert_eq!(compared.differences, [], "{case}");

        let table = dir.path().join("expected.csv");
        let whole = std::fs::read_to_string(&table).unwrap();
        let (header, rows) = whole.split_once('\n').unwrap();
        let (_, rest) = rows.split_once('\n').unwrap();
        std::fs::write(&table, format!("{header}\n{rest}")).unwrap();
        let compared = compare(dir.path(), Some(system)).unwrap();
        assert_ne!(compared.differences, [], "{case} without a row");
        std::fs::write(&table, &whole).unwrap();

        let summary = dir.path().join("summary.json");
        let text = std::fs::read_to_string(&summary).unwrap();
        let mut changed: serde_json::Value = serde_json::from_str(&text).unwrap();
        changed["avg_jct"] = "twelve".into();
        std::fs::write(&summary, changed.to_string()).unwrap();
        let wrong = compare(dir.path(), Some(system)).unwrap_err().to_string();
        let expected = "avg_jct is \"twelve\", expected a number";
        assert!(wrong.ends_with(expected), "{case}: {wrong}");
        std::fs::write(&summary, &text).unwrap();

        if case != "small_test/max_min_fairness" {
            continue;
        }
        for (name, value) in [("window", "4000"), ("window", "a:b"), ("multi", "yes")] {
            let mut changed: serde_json::Value = serde_json::from_str(&text).unwrap();
            changed[name] = value.into();
            std::fs::write(&summary, changed.to_string()).unwrap();
            let wrong = compare(dir.path(), None).unwrap_err().to_string();
            assert!(wrong.contains(&format!("{name} is ")), "{wrong}");
        }
        std::fs::write(&summary, &text).unwrap();
        // If averages replace jobs, the set of ended jobs is still compared.
        std::fs::remove_file(dir.path().join("allocations.jsonl")).unwrap();
        assert_eq!(compare(dir.path(), None).unwrap().differences, []);
        let column = |name| header.split(',').position(|c| c == name).unwrap();
        let (finish, jct) = (column("finish"), column("jct"));
        let (first, rest) = rows.split_once('\n').unwrap();
        let mut cells: Vec<&str> = first.split(',').collect();
        (cells[finish], cells[jct]) = ("", "");
        let open = cells.join(",");
        std::fs::write(&table, format!("{header}\n{open}\n{rest}")).unwrap();
        let compared = compare(dir.path(), None).unwrap();
        assert!(compared.differences.iter().any(|d| d.column == "finish"));
    }
}

fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_tree(&entry.path(), &to),
            false => drop(std::fs::copy(entry.path(), to).unwrap()),
        }
    }
}

fn golden() -> Option<PathBuf> {
    let golden = std::env::var_os("BLOX_GOLDEN");
    if golden.is_none() {
        // Past the capture of the test harness, which hides what `println!` writes.
        let _ = writeln!(std::io::stderr(), "skipped: BLOX_GOLDEN is not set");
    }
    golden.map(PathBuf::from)
}

#[test]
fn elasticflows_generator_draws_its_traces() {
    let Some(golden) = golden() else { return };
    let half = Recipe {
        jobs: 200,
        mean_gap_s: 900.0,
        best_effort: 0.5,
        unseeded: 12345,
        ..Recipe::default()
    };
    let hundred = Recipe {
        seed: 1,
        deadlines: (1.5, 1.5),
        ..Recipe::default()
    };
    for (recipe, folder, trace) in [
        (half, "fig11_s12345", "200jobs_900lam_0.5_s12345.csv"),
        (hundred, "fig10", "100jobs_1500lam.csv"),
    ] {
        let inputs = golden.join("elasticflow").join(folder).join("inputs");
        let table = ScalingTable::read_dir(inputs.join("throughputs_A100")).unwrap();
        let drawn = recipe.generate(&table).unwrap();
        assert_eq!(drawn, read_trace(inputs.join(trace)).unwrap(), "{folder}");
    }
}

#[test]
fn elasticflow_figures_equal_its_program() {
    let Some(golden) = golden() else { return };
    for (name, folder) in [
        ("elasticflow-fig8a", "fig8a"),
        ("elasticflow-fig10", "fig10"),
    ] {
        let inputs = golden.join("elasticflow").join(folder).join("inputs");
        let figure = blox::released::figures::figure(name).unwrap();
        let plan = figure.plan(Some(&inputs)).unwrap();
        let done = plan.reproduce(&[], &AtomicU64::new(0)).unwrap();
        for claim in &done.findings.unwrap().claims {
            assert!(claim.holds, "{name}: {}", claim.text);
        }
    }
}

#[test]
fn shockwave_jobs_change_their_batch_by_its_profiles() {
    let Some(golden) = golden() else { return };
    let inputs = golden.join("shockwave").join("inputs");
    let oracle = Oracle::read(inputs.join("tacc_throughputs.json")).unwrap();
    let text = std::fs::read_to_string(inputs.join("profiles_20.json")).unwrap();
    let profiles: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    let trace = Trace::with_oracle(inputs.join("first20.trace"), oracle.into()).unwrap();
    let mut jobs = trace.jobs().unwrap();
    for profile in &profiles {
        let job = jobs.next_job().unwrap().unwrap();
        let list = |name: &str| -> Vec<f64> {
            let values = profile[name].as_array().unwrap().iter();
            values.map(|v| v.as_f64().unwrap()).collect()
        };
        let (mut batches, seconds) = (list("bs_every_epoch"), list("duration_every_epoch"));
        let Some(regimes) = job.extras().attributes.get("regimes") else {
            let same = |b: &f64| *b == batches[0];
            assert!(batches.iter().all(same), "{job:?} {batches:?}");
            continue;
        };
        let regimes: Vec<(f64, usize, f64)> = serde_json::from_value(regimes.clone()).unwrap();
        let each = regimes.iter().flat_map(|(b, n, s)| vec![(*b, *s); *n]);
        let (own, own_s): (Vec<f64>, Vec<f64>) = each.unzip();
        assert_eq!(own.len(), batches.len());
        // In the program's table, a `gns` job ends with its first batch size.
        if job.extras().attributes["mode"] == "gns" {
            let last = own.len() - 1;
            batches[last] = own[last];
        }
        assert_eq!(own, batches);
        // The program's table counts fractions of steps.
        let samples = profile["num_samples_per_epoch"].as_f64().unwrap();
        for epoch in 0..own.len() - 1 {
            let steps = samples / batches[epoch];
            let theirs = seconds[epoch] * steps.ceil() / steps;
            assert!((own_s[epoch] - theirs).abs() < 1e-9 * theirs);
        }
    }
}

fn every_case_is_equal(system: &str) {
    let Some(golden) = golden() else { return };
    for case in find_cases(&golden.join(system)).unwrap() {
        let compared = compare(&case, None).unwrap();
        assert!(compared.values > 0, "{}", case.display());
        assert_eq!(compared.differences, [], "{}", case.display());
        let visited = compare_visiting_every_round(&case, None).unwrap();
        assert_eq!(visited.differences, [], "{}", case.display());
    }
}
