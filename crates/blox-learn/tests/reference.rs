//! Errors on the reference's data and split, in the folder that `BLOX_GOLDEN` names.

use blox_learn::{
    Additive, AdditiveParams, Boosted, BoostedParams, Column, Frame, Loss, Tree, TreeParams,
    metrics, series,
};
use std::io::Write;
use std::path::PathBuf;

fn file(name: &str) -> Option<String> {
    let Some(golden) = std::env::var_os("BLOX_GOLDEN") else {
        // Past the capture of the test harness, which hides what `println!` writes.
        let _ = writeln!(std::io::stderr(), "skipped: BLOX_GOLDEN is not set");
        return None;
    };
    let path = PathBuf::from(golden).join("lucid/models").join(name);
    Some(std::fs::read_to_string(path).unwrap())
}

fn column(text: &str, name: &str) -> Vec<f64> {
    let mut lines = text.lines();
    let at = lines
        .next()
        .unwrap()
        .split(',')
        .position(|c| c == name)
        .unwrap();
    let field = |line: &str| line.split(',').nth(at).unwrap().parse().unwrap();
    lines.map(field).collect()
}

/// Number of jobs submitted every 10 minutes, from April to August and in September.
fn throughput(text: &str) -> (Frame, Frame) {
    let rows = text.lines().count() - 1;
    // Every 10 minutes from 2020-04-01.
    let times: Vec<f64> = (0..rows)
        .map(|i| 1_585_699_200.0 + 600.0 * i as f64)
        .collect();
    let (jobs, gpus) = (
        column(text, "submit_gpu_job"),
        column(text, "submit_gpu_num"),
    );
    let frame = series::features(&times, &[("njob", &jobs), ("ngpu", &gpus)]).unwrap();
    let frame = frame.with_target(jobs).unwrap();
    let september = (0..rows).find(|i| times[*i] >= 1_598_918_400.0).unwrap();
    let october = (0..rows)
        .find(|i| times[*i] >= 1_601_510_400.0)
        .unwrap_or(rows);
    let rows = |from, to| (from..to).collect::<Vec<usize>>();
    (
        frame.take(&rows(0, september)),
        frame.take(&rows(september, october)),
    )
}

#[test]
fn job_forecast_matches_the_reference_quality() {
    let Some(text) = file("throughput/cluster_throughput.csv") else {
        return;
    };
    let (train, test) = throughput(&text);
    let error = |name: &str, params: AdditiveParams| {
        let model = Additive::fit(&train, &params).unwrap();
        let predicted = model.predict(&test).unwrap();
        let (mae, r2) = (
            metrics::mae(&predicted, test.target()),
            metrics::r2(&predicted, test.target()),
        );
        println!("{name}: mae {mae:.4}, r2 {r2:.4}");
        mae
    };
    // Mean absolute errors: 4.12 for the artifact's own forecast, 4.50 for boosted trees.
    let squared = error("squared", AdditiveParams::default());
    assert!(squared < 4.2, "{squared}");
    // The loss with the least error in August, trained on the months before.
    let august = (1_598_918_400 - 1_596_240_000) / 600;
    let rows = |from, to| (from..to).collect::<Vec<usize>>();
    let split = train.rows() - august;
    let (before, last) = (
        train.take(&rows(0, split)),
        train.take(&rows(split, train.rows())),
    );
    let losses = [2.0, 8.0].map(|width| Loss::Huber { width });
    let params = |loss| AdditiveParams {
        loss,
        ..AdditiveParams::default()
    };
    let in_august = |loss: Loss| {
        let bags = 2;
        let params = AdditiveParams {
            bags,
            ..params(loss)
        };
        let model = Additive::fit(&before, &params).unwrap();
        let mae = metrics::mae(&model.predict(&last).unwrap(), last.target());
        println!("{loss:?}: {mae:.4} in August");
        mae
    };
    let candidates = [Loss::Squared].into_iter().chain(losses);
    let best = candidates
        .map(|loss| (in_august(loss), loss))
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .unwrap();
    let mae = error("the best in August", params(best.1));
    assert!(mae <= 4.10, "{mae}");
    let boosted = Boosted::fit(&train, &BoostedParams::default()).unwrap();
    let mae = metrics::mae(&boosted.predict(&test).unwrap(), test.target());
    println!("boosted: mae {mae:.4}");
    assert!(mae <= 4.55, "{mae}");
}

#[test]
fn packing_tree_matches_the_reference_quality() {
    let (Some(text), Some(split)) = (
        file("packing/single_data.csv"),
        file("packing/split_random_state42.json"),
    ) else {
        return;
    };
    let features = ["amp", "gpu_util", "gmem_util", "gmem"];
    let columns = features.map(|f| (f.to_owned(), Column::Numbers(column(&text, f))));
    let frame = Frame::new(columns.into()).unwrap();
    let frame = frame.with_target(column(&text, "label")).unwrap();
    let split: serde_json::Value = serde_json::from_str(&split).unwrap();
    let rows = |name: &str| -> Vec<usize> {
        let rows = split[name].as_array().unwrap().iter();
        rows.map(|r| r.as_u64().unwrap() as usize).collect()
    };
    let (train, test) = (
        frame.take(&rows("train_rows")),
        frame.take(&rows("test_rows")),
    );
    let tree = Tree::fit(&train, &TreeParams::default()).unwrap();
    let right = metrics::accuracy(&tree.predict(&test).unwrap(), test.target());
    println!("accuracy {right:.2} with {} leaves", tree.leaves());
    assert!(right >= 0.6, "{right}");
}
