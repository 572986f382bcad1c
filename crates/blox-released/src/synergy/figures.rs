use crate::figure::{Figure, Plan, ReproduceError, Run, jct_s};
use crate::synergy::{self as released, Key, Mode, Settings};
use blox_core::Time;
use blox_sim::Simulation;
use blox_sim::workload::Jobs;
use blox_traces::cluster_file::read_cluster;
use blox_traces::formats::synergy::{Profiles, read_trace};
use std::path::Path;

/// Orders of the figure's groups, and modes of its columns.
const KEYS: [Key; 6] = [
    Key::Fifo,
    Key::Las,
    Key::Srtf,
    Key::Ftf,
    Key::Drf,
    Key::Tetris,
];
const MODES: [Mode; 3] = [Mode::Fair, Mode::Greedy, Mode::Tune];

/// Plans Synergy's released simulator on its released 100 jobs.
pub(crate) fn plan(figure: &'static Figure, data: Option<&Path>) -> Result<Plan, ReproduceError> {
    let cluster = read_cluster(&figure.file(data, "static_trace.ini")?.to_string_lossy())?;
    let profiles = Profiles::read(figure.file(data, "profiles.json")?)?.as_replayed()?;
    let replay = read_trace(figure.file(data, "static_100job_6_3_1100.0")?, &profiles)?;
    let mut runs = Vec::new();
    for (key, order) in KEYS.into_iter().zip(figure.groups()) {
        for (mode, name) in MODES.into_iter().zip(figure.columns(0)) {
            let settings = Settings {
                key,
                mode,
                consolidate: false,
                first: Time::new(1.0),
            };
            runs.push(Run::of(
                format!("{order}, {name}"),
                released::simulation(Simulation::new(cluster.clone()), settings),
                released::synergy(settings, replay.arrivals.iter().copied()),
                Jobs::new(replay.jobs.clone()).with_notices(replay.notices.clone()),
            ));
        }
    }
    Ok(figure.measuring(runs, &[jct_s]))
}
