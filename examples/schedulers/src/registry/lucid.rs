//! Registry entries of Lucid and Helios.

use super::params::{ESTIMATOR, MODEL, ORIGIN, SIGMA, above_zero, belief, param, share};
use crate::schedulers;
use blox_core::registry::{Params, Registry, RegistryError};
use blox_policies::cluster::PowerRule;
use blox_policies::scheduling::LucidSettings;

pub(super) fn add(r: &mut Registry) {
    let s = &mut r.schedulers;
    s.add(
        "lucid",
        "profiles new jobs on nodes set aside, packs two on a GPU by scores, least estimated service first",
        &[
            ESTIMATOR,
            SIGMA,
            MODEL,
            ORIGIN,
            param("profiler_nodes", "2", "nodes set aside, at most a quarter of all; 0 for no profiling"),
            param("limit_s", "200", "seconds of profiling at most"),
            param("profiled_gpus", "8", "the largest job that is profiled"),
            param("scores", "2", "largest sum of two sharing scores; -1 for no packing"),
            param("memory_mib", "24576", "memory of a GPU in MiB"),
            param("least_speed", "0.7", "a pair below this share of its speed alone is separated"),
        ],
        |p, seed| {
            let default = LucidSettings::default();
            let settings = LucidSettings {
                profiler_nodes: p.whole("profiler_nodes", 2, 0..=1 << 20)? as u32,
                limit: p.seconds("limit_s", 200.0)?,
                profiled_gpus: p.whole("profiled_gpus", 8, 0..=1 << 20)? as u32,
                scores: scores(p, default.scores)?,
                memory_mib: above_zero(p, "memory_mib", default.memory_mib)?,
                least_speed: share(p, "least_speed", default.least_speed)?,
                ..default
            };
            let params = schedulers::LucidParams {
                settings,
                ..schedulers::LucidParams::default()
            };
            Ok(schedulers::lucid_with(params, belief(p, seed)?))
        },
    );
    s.add(
        "helios-ces",
        "first in, first out; idle nodes sleep while a forecast says that few are needed",
        &[
            param("buffer", "20", "nodes kept on beyond those in use"),
            param(
                "keep",
                "10",
                "looks of 10 minutes without switching off after switching on",
            ),
            param(
                "forecast",
                "none",
                "a CSV file with a column `prediction`, a row every 10 minutes",
            ),
        ],
        |p, _| {
            let forecast = match p.text("forecast", "none") {
                "none" => Vec::new(),
                path => crate::estimate::Log::read(path)
                    .and_then(|log| log.numbers("prediction"))
                    .map_err(|e| p.wrong("forecast", format!("a file of forecasts ({e})")))?,
            };
            Ok(schedulers::helios_ces_with(schedulers::HeliosCesParams {
                rule: PowerRule {
                    buffer: p.whole("buffer", 20, 0..=1 << 20)? as i64,
                    keep: p.whole("keep", 10, 0..=1 << 20)? as usize,
                    ..PowerRule::default()
                },
                forecast,
            }))
        },
    );
}

fn scores(p: &Params, default: f64) -> Result<f64, RegistryError> {
    let fits = |x| x >= 0.0 || x == -1.0;
    p.number("scores", default, "a number of at least 0, or -1", fits)
}
