//! Helios' energy service on Philly's nodes.

use crate::figure::{Claim, Figure, Numbers, Plan, ReproduceError, Whole};
use crate::lucid::files;
use blox_learn::{Boosted, BoostedParams, Column, Frame, metrics, series};
use blox_plot::{Axis, Chart, Series};
use blox_policies::cluster::{PowerPlan, PowerRule};
use blox_sim::Watch;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// Plans Helios' energy service over two weeks of December 2017 in Philly, with a check every 10
/// minutes.
pub(crate) fn plan(figure: &'static Figure, data: Option<&Path>) -> Result<Plan, ReproduceError> {
    let nodes = data.map(|_| figure.file(data, "philly_node_sequence.csv"));
    let nodes = nodes.transpose()?;
    Ok(Plan::whole(move |watch| findings(figure, nodes, watch)))
}

/// Time of the first check in the training data (2017-10-03). [`JUDGE`] is the time of the first
/// measured check (2017-12-01), and [`LOOKS`] the number of measured checks. Times are in seconds
/// since 1970.
const LEARN: f64 = 1_506_988_800.0;
const JUDGE: f64 = 1_512_086_400.0;
const LOOKS: usize = 2016;

fn findings(figure: &'static Figure, nodes: Option<PathBuf>, watch: &Watch) -> Whole {
    let stopped = || watch.stop.load(Ordering::Relaxed);
    let learnt = ((JUDGE - LEARN) / 600.0) as usize;
    let all = learnt + LOOKS;
    let real = nodes.is_some();
    let nodes: Vec<(i64, i64)> = match nodes {
        Some(path) => files::read_node_sequence(path, LEARN, all)?,
        None => (0..all).map(stand_in).collect(),
    };
    let times: Vec<f64> = (0..all).map(|i| LEARN + 600.0 * i as f64).collect();
    let active: Vec<f64> = nodes.iter().map(|n| n.0 as f64).collect();
    // The forecast takes most of the time.
    if stopped() {
        return Ok(None);
    }
    let predicted = forecast(&times, &active, learnt)?;
    if stopped() {
        return Ok(None);
    }
    let did = Did::over(&nodes[learnt..], &predicted);
    let wrong = metrics::smape(&predicted, &active[learnt..]);
    let source = if real {
        "Philly's nodes; the forecast is ours, of gradient-boosted trees on hours and days before"
    } else {
        "a stand-in: made-up nodes in use that go up and down by day and week, not Philly's; \
         --data DIR takes the published file"
    };
    let (looks, days) = (LOOKS as f64, LOOKS as f64 / 144.0);
    let measures = [
        did.off / looks,
        100.0 * did.before / looks,
        100.0 * did.after / looks,
        f64::from(did.changes) / days,
        f64::from(did.lacking) / days,
        wrong,
    ];
    let mut findings = figure.findings(Numbers::of(measures.map(|of| vec![of])));
    findings.notes.push(source.to_owned());
    if !real {
        findings.rows.iter_mut().for_each(|row| row.artifact = None);
    }
    let better = "the nodes that are on are used better";
    let claim = Claim::new(better, did.after > did.before);
    findings.claims.push(claim);
    let chart = Chart::new("Nodes on and in use", Axis::new("days"), Axis::new("nodes"))
        .with(Series::steps("on", did.on))
        .with(Series::steps("in use", did.used));
    findings.picture(&figure.name, chart.svg());
    Ok(Some(findings))
}

/// Sums of the service's actions over the measured checks.
#[derive(Default)]
struct Did {
    off: f64,
    /// Used nodes as a fraction of all nodes, and as a fraction of the powered nodes (`after`).
    before: f64,
    after: f64,
    changes: u32,
    lacking: u32,
    /// Time series in days: powered nodes, and used nodes.
    on: Vec<(f64, f64)>,
    used: Vec<(f64, f64)>,
}

impl Did {
    /// Runs the service on the used and total nodes of each check, and the forecast.
    fn over(nodes: &[(i64, i64)], predicted: &[f64]) -> Self {
        let mut plan = PowerPlan::new(PowerRule::DEFAULT);
        let mut did = Did::default();
        for (i, (now, total)) in nodes.iter().enumerate() {
            let look = plan.look(*now, *total, &predicted[i..]);
            did.off += (total - look.on) as f64;
            did.before += *now as f64 / (*total).max(1) as f64;
            did.after += *now as f64 / look.on.max(1) as f64;
            did.changes += u32::from(look.change != 0);
            did.lacking += u32::from(look.lack > 0);
            did.on.push((i as f64 / 144.0, look.on as f64));
            did.used.push((i as f64 / 144.0, *now as f64));
        }
        did
    }
}

/// Returns the used and total nodes of a stand-in cluster of 420 nodes at a check.
fn stand_in(look: usize) -> (i64, i64) {
    let day = look as f64 / 144.0;
    let wave = |period: f64, height: f64| height * (std::f64::consts::TAU * day / period).sin();
    let jitter = (look * 7919 % 13) as f64 - 6.0;
    (
        (290.0 + wave(1.0, 35.0) + wave(7.0, 40.0) + jitter).round() as i64,
        420,
    )
}

/// Forecasts the used nodes at the measured checks from the earlier ones. Each forecast uses data
/// that is at least an hour old.
fn forecast(times: &[f64], active: &[f64], learnt: usize) -> Result<Vec<f64>, ReproduceError> {
    let wrong = |e: blox_learn::LearnError| ReproduceError::Forecast(e);
    let frame = series::features(times, &[("nodes", active)]).map_err(wrong)?;
    // Columns that grow with the date cannot be learned from earlier dates.
    let keep = |name: &&String| !["month", "dayofyear", "week", "day"].contains(&name.as_str());
    let columns: Vec<(String, Column)> = frame
        .names()
        .iter()
        .zip(frame.columns())
        .filter(|(name, _)| keep(name))
        .map(|(name, column)| (name.clone(), column.clone()))
        .collect();
    let frame = Frame::new(columns).map_err(wrong)?;
    let frame = frame.with_target(active.to_vec()).map_err(wrong)?;
    // Each training row needs one day of history.
    let rows = |from, to| (from..to).collect::<Vec<usize>>();
    let model = Boosted::fit(
        &frame.take(&rows(learnt.min(145), learnt)),
        &BoostedParams::default(),
    );
    let predicted = model
        .map_err(wrong)?
        .predict(&frame.take(&rows(learnt, times.len())));
    predicted.map_err(wrong)
}
