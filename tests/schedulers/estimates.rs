//! Tests of estimates on the command line.

use crate::support;
use std::fs;
use std::path::Path;

/// Returns the mean absolute error in a line of `blox estimate`.
fn mae(line: &str) -> f64 {
    let (_, rest) = line.split_once("MAE ").unwrap();
    rest.split_whitespace().next().unwrap().parse().unwrap()
}

/// Writes a trace whose durations depend on a group, and vary by a factor within it.
fn write_trace(path: &Path, jobs: u64, groups: u64) {
    let mut state = 7u64;
    let mut uniform = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / 9_007_199_254_740_992.0
    };
    let normal = |uniform: &mut dyn FnMut() -> f64| {
        let (a, b) = (uniform().max(1e-12), uniform());
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    };
    let effects: Vec<f64> = (0..groups).map(|_| normal(&mut uniform)).collect();
    let mut text = "job_id,submit_s,gpus,cpus,user,duration_s,attributes.group\n".to_owned();
    for i in 0..jobs {
        // Some groups have many jobs.
        let group = (uniform().powf(1.6) * groups as f64) as u64;
        let gpus = [1, 1, 1, 2, 4][(uniform() * 5.0) as usize];
        let cpus = gpus * [4, 8][(uniform() * 2.0) as usize];
        let user = (uniform() * 20.0) as u64;
        let log = effects[group as usize] + 0.7 * normal(&mut uniform) + 0.1 * f64::from(gpus);
        let duration = 3600.0 * log.exp();
        let submit = 240 * i;
        text += &format!("{i},{submit},{gpus},{cpus},u{user},{duration:.1},g{group:03}\n");
    }
    fs::write(path, text).unwrap();
}

#[test]
fn models_are_trained_evaluated_drawn_and_used() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = "job_id,user,gpu_num,submit_time,duration\n".to_owned();
    for i in 0..400 {
        let (user, gpus) = (["ada", "bob"][i % 2], [1, 2, 4][i % 3]);
        let seconds = gpus * if user == "ada" { 100 } else { 900 };
        let (day, hour) = (1 + i / 24 % 28, i % 24);
        log += &format!("{i},{user},{gpus},2020-09-{day:02} {hour:02}:00:00,{seconds}\n");
    }
    fs::write(dir.path().join("log.csv"), log).unwrap();
    let good = |line: &str| support::good(dir.path(), line).out;
    let failed = |line: &str| support::failed(dir.path(), line);
    let train = "estimate train log.csv --target duration --features user,gpu_num --date submit_time --test-share 0.25";
    for model in ["additive", "boosted"] {
        let seen = good(&format!("{train} --model {model} --output {model}.json"));
        assert!(
            seen.starts_with("training                       300 rows"),
            "{seen}"
        );
        let kept = seen.lines().nth(1).unwrap();
        assert!(mae(kept) < 200.0, "{model}: {seen}");
        let again = good(&format!(
            "estimate eval {model}.json log.csv --test-share 0.25"
        ));
        let figures = |text: &str| text.trim_end().split("rows").nth(1).map(str::to_owned);
        assert_eq!(figures(&again), figures(kept));
        let drawn = good(&format!("estimate plot {model}.json --output-dir {model}"));
        assert!(drawn.starts_with("ln duration: "), "{drawn}");
        assert!(dir.path().join(model).join("importance.svg").is_file());
        let written = good(&format!(
            "estimate tell {model}.json log.csv --key job_id --column priority"
        ));
        assert_eq!(written.lines().count(), 401);
        assert!(written.starts_with("job_id,priority\n0,"), "{written}");
        let table = "user,gpu_num,submit_time\n\"ada, b\",1,2020-09-01 00:00:00\n";
        fs::write(dir.path().join("one.csv"), table).unwrap();
        let line = format!("estimate tell {model}.json one.csv --key user");
        let written = good(&line);
        assert!(written.contains("\n\"ada, b\","), "{written}");
        // A column of users remains a column of names if all of them look like numbers.
        fs::write(dir.path().join("one.csv"), table.replace("\"ada, b\"", "7")).unwrap();
        let written = good(&line);
        assert!(written.contains("\n7,"), "{written}");
    }
    assert_eq!(
        failed(&format!("{train} --model boosted --pairs 3")),
        "error: --pairs has no meaning with --model boosted, only with additive\n"
    );
    assert!(dir.path().join("additive/shape-user.svg").is_file());
    // Schedulers can use the model.
    fs::write(
        dir.path().join("jobs.csv"),
        "submit_s,gpus,duration_s,user\n0,1,600,ada\n0,1,60,bob\n1,1,60,ada\n",
    )
    .unwrap();
    let line = "simulate --scheduler qssf{estimator=learned,model=additive.json,origin=2020-09-01} --trace jobs.csv --cluster 1x1";
    assert!(good(line).contains("qssf"));
    // Without an origin, the estimates would use the dates of 1970.
    let err = failed(&line.replace(",origin=2020-09-01", ""));
    assert!(
        err.contains("expected the date of time 0 of the workload"),
        "{err}"
    );
    let err = failed("estimate train log.csv --target nothing --features user");
    let missing = "log.csv:1: the column nothing is missing, found the columns job_id, user";
    assert!(err.contains(missing), "{err}");
    let err = failed("simulate --scheduler qssf{estimator=learned,model=log.csv}");
    assert!(err.contains("model"), "{err}");
}

#[test]
fn many_categories_are_predicted_like_scikit_learn() {
    let dir = tempfile::tempdir().unwrap();
    write_trace(&dir.path().join("jobs.csv"), 6000, 400);
    let train =
        "estimate train jobs.csv --target duration_s --features user,attributes.group,gpus,cpus";
    // scikit-learn 1.9.1 with `TargetEncoder`: the better of `GradientBoostingRegressor` and
    // `HistGradientBoostingRegressor`, both with their defaults.
    let (on_logarithms, on_seconds) = (5036.34, 5532.51);
    for model in ["additive", "boosted"] {
        let seen = support::good(dir.path(), &format!("{train} --model {model}")).out;
        let lines: Vec<&str> = seen.lines().collect();
        assert!(lines[1].starts_with("held out "), "{seen}");
        assert!(
            lines[2].starts_with("geometric mean by attributes.group "),
            "{seen}"
        );
        let error = mae(lines[1]);
        assert!(
            error <= 1.05 * on_logarithms && error <= on_seconds,
            "{seen}"
        );
        // The mean by group is hard to beat, since only the group and the GPUs matter.
        assert!(error <= 1.02 * mae(lines[2]), "{seen}");
    }
}

#[test]
fn attributes_are_trained_and_used_from_one_file() {
    let dir = tempfile::tempdir().unwrap();
    let good = |line: &str| support::good(dir.path(), line);
    let failed = |line: &str| support::failed(dir.path(), line);
    write_trace(&dir.path().join("jobs.csv"), 600, 40);
    good("estimate train jobs.csv --target duration_s --features attributes.group,gpus -o m.json");
    let jct = |scheduler: &str, trace: &str| {
        let line =
            format!("compare {scheduler} --trace {trace} --cluster 4x8 --output-format csv -q");
        let out = good(&line).out;
        // The name of a scheduler may have a comma, so columns are counted from the end.
        let mut lines = out.lines().map(|line| line.rsplit(',').collect::<Vec<_>>());
        let at = lines.next().unwrap().iter().position(|c| *c == "avg_jct_s");
        lines.next().unwrap()[at.unwrap()].parse::<f64>().unwrap()
    };
    let learned = jct("sjf{estimator=learned,model=m.json}", "jobs.csv");
    let blind = jct("fifo", "jobs.csv");
    assert!(learned < 0.8 * blind, "{learned} {blind}");
    // The predictions as a column of the same trace.
    let written = good("estimate tell m.json jobs.csv").out;
    assert!(
        written
            .lines()
            .next()
            .unwrap()
            .ends_with(",attributes.estimate_s")
    );
    fs::write(dir.path().join("told.csv"), written).unwrap();
    assert_eq!(jct("sjf{estimator=brought}", "told.csv"), learned);
    // The same jobs with their attributes in JSON.
    good("trace convert jobs.csv --output json.csv");
    assert_eq!(
        jct("sjf{estimator=learned,model=m.json}", "json.csv"),
        learned
    );
    let trained =
        "estimate train json.csv --target duration_s --features attributes.group,gpus -o j.json";
    good(trained);
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    assert_eq!(read("j.json"), read("m.json"));
    // Jobs without the attribute.
    let bare = read("jobs.csv").replace("attributes.group", "unknown");
    fs::write(dir.path().join("bare.csv"), bare).unwrap();
    for scheduler in ["sjf", "qssf", "srtf", "lucid"] {
        let line = format!(
            "simulate {scheduler}{{estimator=learned,model=m.json}} --trace bare.csv --cluster 4x8 -q"
        );
        let err = failed(&line);
        let sentence = "job 0 lacks the attribute `group`, a feature of the learned estimates";
        assert!(err.contains(sentence), "{err}");
    }
}

#[test]
fn features_that_give_the_target_away_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("jobs.csv");
    write_trace(&path, 300, 10);
    let text = fs::read_to_string(&path).unwrap();
    let mut lines = text.lines();
    let mut table = lines.next().unwrap().to_owned() + ",end_s,minutes\n";
    for line in lines {
        let cells: Vec<f64> = line.split(',').map(|c| c.parse().unwrap_or(0.0)).collect();
        table += &format!("{line},{},{}\n", cells[1] + cells[5], cells[5] / 60.0);
    }
    fs::write(&path, table).unwrap();
    let sentence = |feature: &str| {
        let line = format!("estimate train jobs.csv --target duration_s --features gpus,{feature}");
        support::failed(dir.path(), &line)
    };
    let end = ", expected features that are known at submission\n";
    let order = "has the order of the target duration_s";
    assert_eq!(
        sentence("duration_s"),
        format!("error: jobs.csv: the target duration_s is also a feature{end}")
    );
    assert_eq!(
        sentence("minutes"),
        format!("error: jobs.csv: `minutes` is the target duration_s times 0.0166667{end}")
    );
    assert_eq!(
        sentence("end_s"),
        format!("error: jobs.csv: `end_s` minus `submit_s` {order}{end}")
    );
    support::good(
        dir.path(),
        "estimate train jobs.csv --target duration_s --features gpus,submit_s,attributes.group",
    );
}

#[test]
fn model_that_loses_to_a_mean_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    write_trace(&dir.path().join("jobs.csv"), 300, 2);
    let good = |line: &str| support::good(dir.path(), line);
    let line = "estimate train jobs.csv --target duration_s --features cpus,attributes.group";
    // One tree learns a tenth of the difference between the groups.
    let seen = good(&format!("{line} --model boosted --trees 1"));
    let lines: Vec<&str> = seen.out.lines().collect();
    assert!(mae(lines[1]) > mae(lines[2]), "{}", seen.out);
    let sentence =
        "notice: on held-out rows the model is worse than the geometric mean by attributes.group";
    assert!(seen.err.contains(sentence), "{}", seen.err);
    let seen = good(&format!("{line} --test-share 0"));
    assert_eq!(seen.out.lines().count(), 1);
    assert!(seen.err.contains("no row is held out"), "{}", seen.err);
}

#[test]
fn predictions_of_durations_are_above_zero() {
    let dir = tempfile::tempdir().unwrap();
    write_trace(&dir.path().join("jobs.csv"), 600, 60);
    let negative = |scale: &str| {
        let line = format!(
            "estimate train jobs.csv --target duration_s --features user,attributes.group,cpus,submit_s --model boosted --scale {scale} -o m.json"
        );
        support::good(dir.path(), &line);
        let line = "estimate tell m.json jobs.csv --key job_id";
        let out = support::good(dir.path(), line).out;
        let values = out.lines().skip(1);
        let values = values.map(|l| l.split(',').nth(1).unwrap().parse::<f64>().unwrap());
        values.filter(|y| *y <= 0.0).count()
    };
    assert!(negative("linear") > 0);
    let line = "simulate sjf{estimator=learned,model=m.json} --trace jobs.csv --cluster 4x8 -q";
    let err = support::failed(dir.path(), line);
    assert!(err.contains("scale is linear, expected log"), "{err}");
    assert_eq!(negative("log"), 0);
    support::good(dir.path(), line);
    // Models of earlier versions have no scale.
    let read = fs::read_to_string(dir.path().join("m.json")).unwrap();
    let mut model: serde_json::Value = serde_json::from_str(&read).unwrap();
    model.as_object_mut().unwrap().remove("scale");
    fs::write(dir.path().join("m.json"), model.to_string()).unwrap();
    let err = support::failed(dir.path(), line);
    assert!(
        err.contains("of an earlier version, without a scale: train it again"),
        "{err}"
    );
}

#[test]
fn models_are_equal_on_any_number_of_threads() {
    let dir = tempfile::tempdir().unwrap();
    write_trace(&dir.path().join("jobs.csv"), 800, 100);
    for model in ["additive", "boosted"] {
        let bytes = ["1", "3"].map(|threads| {
            let line = format!(
                "estimate train jobs.csv --target duration_s --features user,attributes.group,gpus --model {model} -o m.json"
            );
            let mut command = support::blox();
            command.current_dir(dir.path()).env("RAYON_NUM_THREADS", threads);
            let output = command.args(line.split_whitespace()).output().unwrap();
            assert!(output.status.success());
            fs::read(dir.path().join("m.json")).unwrap()
        });
        assert_eq!(bytes[0], bytes[1], "{model}");
    }
}
