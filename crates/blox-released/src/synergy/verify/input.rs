//! Inputs of the original.

use crate::compared::{Case, VerifyError, read};
use crate::synergy::quirks::{Demand, ServerSize};
use crate::synergy::{Key, Mode, ROUND_S, Settings};
use blox_core::{ClusterSpec, JobId, Time};
use blox_traces::cluster_file;
use blox_traces::formats::synergy::{Profiles, Replay, read_trace};

pub(super) struct Input {
    pub settings: Settings,
    pub cluster: ClusterSpec,
    pub profiles: Profiles,
    pub replay: Replay,
}

impl Input {
    pub fn of(case: &Case) -> Result<Self, VerifyError> {
        let keys = [
            ("FIFO", Key::Fifo),
            ("LAS", Key::Las),
            ("SRTF", Key::Srtf),
            ("FTF", Key::Ftf),
            ("DRF", Key::Drf),
            ("TETRIS", Key::Tetris),
            ("SRSF", Key::Srsf),
        ];
        let key = case.choice("scheduler", case.text("scheduler")?, &keys)?;
        let modes = [
            ("fair", Mode::Fair),
            ("proportional", Mode::Fair),
            ("greedy", Mode::Greedy),
            ("tune", Mode::Tune),
        ];
        let mode = case.text("mode")?;
        if mode.eq_ignore_ascii_case("opt") {
            let expected = "fair, greedy or tune: the original ends with an error when its first \
                            lease does, and this version has no such mode";
            return Err(case.wrong("mode", mode, expected));
        }
        let mode = case.choice("mode", mode, &modes)?;
        let config = case.input(case.text("config")?)?;
        let wrong = |path: &std::path::Path, e: &dyn std::fmt::Display| {
            // Errors of readers contain the name of the file.
            let what = e.to_string();
            let file = format!("{}: ", path.display());
            VerifyError::bad(path, what.strip_prefix(&file).unwrap_or(&what))
        };
        let cluster = blox_traces::formats::synergy::parse_cluster(&read(&config)?, &config)
            .map_err(|e: cluster_file::ClusterFileError| wrong(&config, &e))?;
        if cluster.nodes.iter().any(|n| !n.location.is_empty()) {
            let what = "racks is above 1: the original then numbers servers and GPUs anew in \
                        every rack and mistakes one for another; expected 1";
            return Err(wrong(&config, &what));
        }
        let profiles = case.input(case.text_if_there("profiles")?.unwrap_or("profiles.json"))?;
        let table = Profiles::read(&profiles)
            .and_then(Profiles::as_replayed)
            .map_err(|e| wrong(&profiles, &e))?;
        let trace = case.input(case.text("trace")?)?;
        let replay = read_trace(&trace, &table).map_err(|e| wrong(&trace, &e))?;
        let first = match (case.flag("static")?, replay.arrivals.first()) {
            (Some(true), _) => Time::new(1.0),
            (_, Some((_, at))) => Time::new((at.secs() / ROUND_S).ceil() * ROUND_S),
            (_, None) => Time::ZERO,
        };
        let size = ServerSize::of(&cluster.nodes);
        for job in &replay.jobs {
            let demand = Demand::of(job, job.work.rate, &size);
            if demand.iteration_s > ROUND_S {
                return Err(wrong(
                    &trace,
                    &format!(
                        "job {} does no whole iteration in a round of {ROUND_S} s: the original never ends",
                        job.name.as_deref().unwrap_or_default()
                    ),
                ));
            }
        }
        Ok(Input {
            settings: Settings {
                key,
                mode,
                consolidate: case.flag("placement")?.unwrap_or(false),
                first,
            },
            cluster,
            profiles: table,
            replay,
        })
    }

    /// Returns the reason for which the original fails before its first round, if it does.
    pub fn end_of_the_original(&self) -> Option<String> {
        if self.settings.key == Key::Srsf {
            return Some(
                "cannot be started with SRSF, whose constructor takes too few parameters"
                    .to_owned(),
            );
        }
        let size = ServerSize::of(&self.cluster.nodes);
        let job = self
            .replay
            .jobs
            .iter()
            .find(|j| Demand::of(j, j.work.rate, &size).unloadable)?;
        let name = job.name.as_deref().unwrap_or_default();
        Some(format!(
            "ends when it loads job {name}, whose demand it caps without finding a speedup for it"
        ))
    }

    pub fn name(&self, job: JobId) -> &str {
        let spec = self.replay.jobs.get(job.index());
        spec.and_then(|j| j.name.as_deref()).unwrap_or_default()
    }
}
