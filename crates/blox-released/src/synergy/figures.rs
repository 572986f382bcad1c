use crate::figure::{Claim, DataFile, Figure, Findings, Plan, ReproduceError, Row, Run, file};
use crate::synergy::{self as released, Key, Mode, Settings};
use blox_core::Time;
use blox_plot::{Axis, BarChart};
use blox_sim::workload::Jobs;
use blox_sim::{Report, Simulation};
use blox_traces::cluster_file::read_cluster;
use blox_traces::formats::synergy::{Profiles, read_trace};
use std::path::Path;

const TRACE: &str = "static_100job_6_3_1100.0";
const CLUSTER: &str = "static_trace.ini";
const PROFILES: &str = "profiles.json";
const RELEASED: &str =
    "msr-fiddle/synergy 1bb2bed, its simulator, all 100 jobs there at the start, 32 GPUs";
const PAPER: &str = "Synergy (OSDI 2022), abstract, as read by others: up to 3.4 times lower";

const MODES: [(Mode, &str); 3] = [
    (Mode::Fair, "proportional"),
    (Mode::Greedy, "greedy"),
    (Mode::Tune, "tune"),
];

/// Sort keys, and the released program's average JCT in seconds by mode.
const KEYS: [(Key, &str, [f64; 3]); 6] = [
    (Key::Fifo, "FIFO", [20271.9505, 19779.9505, 18297.9505]),
    (Key::Las, "LAS", [20250.9505, 22266.9505, 18615.9505]),
    (Key::Srtf, "SRTF", [15882.9505, 15507.9505, 14784.9505]),
    (Key::Ftf, "FTF", [28737.9505, 29145.9505, 27999.9505]),
    (Key::Drf, "DRF", [19317.9505, 20013.9505, 17997.9505]),
    (Key::Tetris, "TETRIS", [16281.9505, 13794.9505, 14007.9505]),
];

/// Synergy's released simulator on its released 100 jobs.
pub(crate) const JOBS_100: Figure = Figure::new(
    "synergy-100job",
    "Synergy (OSDI 2022): CPUs and memory given out in proportion, greedily, tuned; its static 100 jobs",
    &[
        DataFile::new(
            TRACE,
            "the folder `simulator/deploy_trace` of https://github.com/msr-fiddle/synergy (MIT)",
        ),
        DataFile::new(
            CLUSTER,
            "the folder `simulator/configs` of https://github.com/msr-fiddle/synergy (MIT)",
        ),
        DataFile::new(
            PROFILES,
            "the profiles in the source of https://github.com/msr-fiddle/synergy (MIT), as JSON: see `blox_traces::formats::synergy::Profiles`",
        ),
    ],
    plan,
);

fn plan(figure: &Figure, data: Option<&Path>) -> Result<Plan, ReproduceError> {
    let cluster = read_cluster(&file(figure, data, CLUSTER)?.to_string_lossy())?;
    let profiles = Profiles::read(file(figure, data, PROFILES)?)?.as_replayed()?;
    let replay = read_trace(file(figure, data, TRACE)?, &profiles)?;
    let mut runs = Vec::new();
    for (key, order, _) in KEYS {
        for (mode, name) in MODES {
            let settings = Settings {
                key,
                mode,
                consolidate: false,
                first: Time::new(1.0),
            };
            let simulation = Simulation::new(cluster.clone());
            runs.push(Run::Simulation {
                label: format!("{order}, {name}"),
                simulation: released::simulation(simulation, settings),
                scheduler: released::synergy(settings, replay.arrivals.iter().copied()),
                workload: Box::new(
                    Jobs::new(replay.jobs.clone()).with_notices(replay.notices.clone()),
                ),
            });
        }
    }
    Ok(Plan::of(runs, findings))
}

fn findings(reports: &[Report]) -> Findings {
    let mut findings = Findings::noting([
        "rounds of 300 s, each planned from an empty cluster, without its option `placement`",
        "the paper's own traces, from Philly, are not released: its factor is of a heavier load",
    ]);
    let mut bars = BarChart::new("Synergy's 100 jobs", Axis::seconds("average JCT"));
    let (mut equal, mut better) = (!reports.is_empty(), !reports.is_empty());
    let mut most: f64 = 0.0;
    for ((_, order, theirs), reports) in KEYS.iter().zip(reports.chunks(MODES.len())) {
        let mut group = Vec::new();
        for (((_, mode), theirs), report) in MODES.iter().zip(theirs).zip(reports) {
            let ours = report.summary.avg_jct_s;
            let row = Row::new(format!("avg JCT s, {order}, {mode}"), ours, 1);
            findings.rows.push(row.artifact(*theirs, RELEASED));
            equal &= (ours - theirs).abs() < 1e-3;
            group.push((*mode, ours));
        }
        if let [(_, fair), _, (_, tune)] = group[..] {
            better &= tune < fair;
            most = most.max(fair / tune);
        }
        bars = bars.with(*order, group);
    }
    let row = Row::new("most that tune gains over proportional, times", most, 2);
    findings.rows.push(row.published(3.4, PAPER));
    findings.claims = vec![
        Claim::new("every average is that of the released program", equal),
        Claim::new("tune is better than proportional in every order", better),
    ];
    findings.picture(JOBS_100.name, bars.svg());
    findings
}
