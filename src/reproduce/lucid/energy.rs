//! Helios' energy service on Philly's nodes.

use super::super::{Claim, Figure, Findings, Picture, ReproduceError, Row, Run, Whole};
use blox_learn::{Boosted, BoostedParams, Column, Frame, metrics, series};
use blox_plot::{Axis, Chart, Series};
use blox_policies::cluster::{PowerPlan, PowerRule};
use blox_sim::compat::lucid as files;
use blox_sim::workload::parse_date;
use blox_sim::{Report, Watch};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Two weeks of December 2017 in Philly, a look every 10 minutes.
pub(in super::super) struct HeliosCes;

const NODES: &str = "philly_node_sequence.csv";
const FROM: &str = "https://github.com/S-Lab-System-Group/HeliosArtifact (MIT)";
const RELEASED: &str = "HeliosArtifact's service, with LightGBM 4.7's forecast";
/// The first look that is learnt from, and the first and number that are judged.
const LEARN: &str = "2017-10-03 00:00:00";
const JUDGE: &str = "2017-12-01 00:00:00";
const LOOKS: usize = 2016;

/// Where the nodes' file lies.
fn find(folder: &Path) -> Result<PathBuf, ReproduceError> {
    let places = [folder.join(NODES), folder.join("input").join(NODES)];
    let found = places.into_iter().find(|place| place.is_file());
    found.ok_or(ReproduceError::Missing {
        figure: "helios-ces",
        path: NODES,
        folder: Some(folder.to_owned()),
        from: FROM,
    })
}

impl HeliosCes {
    fn findings_of(data: Option<&Path>, watch: &Watch) -> Whole {
        let stopped = || watch.stop.load(Ordering::Relaxed);
        let first = parse_date(LEARN).unwrap_or_default();
        let judged = parse_date(JUDGE).unwrap_or_default();
        let learnt = ((judged - first) / 600.0) as usize;
        let all = learnt + LOOKS;
        let (nodes, real): (Vec<(i64, i64)>, bool) = match data {
            Some(folder) => (files::read_node_sequence(find(folder)?, LEARN, all)?, true),
            None => ((0..all).map(stand_in).collect(), false),
        };
        let times: Vec<f64> = (0..all).map(|i| first + 600.0 * i as f64).collect();
        let active: Vec<f64> = nodes.iter().map(|n| n.0 as f64).collect();
        // It takes most of the time.
        if stopped() {
            return Ok(None);
        }
        let said = forecast(&times, &active, learnt)?;
        if stopped() {
            return Ok(None);
        }
        let truth = &active[learnt..];
        let mut plan = PowerPlan::new(PowerRule::default());
        let (mut off, mut before, mut after, mut changes, mut lacking) = (0.0, 0.0, 0.0, 0, 0);
        let (mut on, mut used) = (Vec::new(), Vec::new());
        for (i, (now, total)) in nodes[learnt..].iter().enumerate() {
            let look = plan.look(*now, *total, &said[i..]);
            off += (total - look.on) as f64;
            before += *now as f64 / (*total).max(1) as f64;
            after += *now as f64 / look.on.max(1) as f64;
            changes += u32::from(look.change != 0);
            lacking += u32::from(look.lack > 0);
            on.push((i as f64 / 144.0, look.on as f64));
            used.push((i as f64 / 144.0, *now as f64));
        }
        let looks = LOOKS as f64;
        let days = looks / 144.0;
        let mut rows = vec![
            Row::new("nodes off in the mean", off / looks, 2),
            Row::new("nodes in use of all, %", 100.0 * before / looks, 2),
            Row::new("nodes in use of those on, %", 100.0 * after / looks, 2),
            Row::new("changes a day", f64::from(changes) / days, 2),
            Row::new(
                "times a day that nodes were lacking",
                f64::from(lacking) / days,
                2,
            ),
            Row::new("SMAPE of the forecast, %", metrics::smape(&said, truth), 2),
        ];
        if real {
            let theirs = [94.19, 68.98, 88.72, 2.43, 0.43, 5.31];
            let cited = rows.into_iter().zip(theirs);
            rows = cited
                .map(|(row, value)| row.artifact(value, RELEASED))
                .collect();
        }
        let more = after > before;
        let chart = Chart::new("Nodes on and in use", Axis::new("days"), Axis::new("nodes"))
            .with(Series::steps("on", on))
            .with(Series::steps("in use", used));
        let source = if real {
            "Philly's nodes; the forecast is ours, of gradient-boosted trees on hours and days before"
        } else {
            "a stand-in: made-up nodes in use that go up and down by day and week, not Philly's; \
             --data DIR takes the published file"
        };
        Ok(Some(Findings {
            rows,
            claims: vec![Claim::new("the nodes that are on are used better", more)],
            notes: vec![source.to_owned()],
            pictures: vec![Picture {
                name: "helios-ces".to_owned(),
                svg: chart.svg(),
            }],
        }))
    }
}

/// What is in use at a look, of 420 nodes.
fn stand_in(look: usize) -> (i64, i64) {
    let day = look as f64 / 144.0;
    let wave = |period: f64, height: f64| height * (std::f64::consts::TAU * day / period).sin();
    let jitter = (look * 7919 % 13) as f64 - 6.0;
    (
        (290.0 + wave(1.0, 35.0) + wave(7.0, 40.0) + jitter).round() as i64,
        420,
    )
}

/// Nodes in use at the looks that are judged, learnt from those before; each is told from
/// what was known an hour before.
fn forecast(times: &[f64], active: &[f64], learnt: usize) -> Result<Vec<f64>, ReproduceError> {
    let wrong = |e: blox_learn::LearnError| ReproduceError::Forecast(e);
    let frame = series::features(times, &[("nodes", active)]).map_err(wrong)?;
    // What grows with the date cannot be learnt from the dates before.
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
    // A day's past is needed.
    let rows = |from, to| (from..to).collect::<Vec<usize>>();
    let model = Boosted::fit(
        &frame.take(&rows(learnt.min(145), learnt)),
        &BoostedParams::default(),
    );
    let said = model
        .map_err(wrong)?
        .predict(&frame.take(&rows(learnt, times.len())));
    said.map_err(wrong)
}

impl Figure for HeliosCes {
    fn name(&self) -> &'static str {
        "helios-ces"
    }

    fn title(&self) -> &'static str {
        "Helios (SC 2021), section 4.3: nodes switched off by forecast"
    }

    fn runs(&self, _: Option<&Path>) -> Result<Vec<Run>, ReproduceError> {
        Ok(Vec::new())
    }

    fn findings(&self, _: &[Report]) -> Findings {
        Findings::default()
    }

    fn whole(&self, data: Option<&Path>, watch: &Arc<Watch>) -> Option<Whole> {
        Some(Self::findings_of(data, watch))
    }

    fn inputs(&self, data: Option<&Path>) -> Result<Vec<PathBuf>, ReproduceError> {
        data.into_iter().map(find).collect()
    }
}
