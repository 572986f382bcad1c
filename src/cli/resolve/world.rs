//! How the world behaves, and when decisions are due.

use super::super::Failure;
use super::super::config::Given;
use blox_core::{OnEvent, Rounds, Seconds};
use blox_sim::Simulation;
use blox_sim::faults::Faults;
use blox_sim::overheads::{CheckpointRestart, FixedOverheads, GroupOverheads};

/// When decisions are due, if not when the scheduler says.
#[derive(Clone, Copy)]
pub(super) enum Tempo {
    Rounds(Rounds),
    OnEvent(OnEvent),
}

/// How the world behaves, for all schedulers alike.
pub(super) struct World {
    overheads: FixedOverheads,
    /// Instead of those.
    group: Option<GroupOverheads>,
    pub faults: Faults,
    /// Otherwise at the ends of rounds, where there are rounds.
    pub exact_ends: bool,
}

impl World {
    /// With what launches and changes cost.
    pub fn charge(&self, simulation: Simulation) -> Simulation {
        match &self.group {
            Some(group) => simulation.overheads(group.clone()),
            None => simulation.overheads(CheckpointRestart {
                others: self.overheads,
            }),
        }
    }
}

/// The load from which `blox-optimus` takes its speed, which only the feature `released` registers.
pub(super) fn optimus(given: &Given, load: Option<f64>) -> Result<f64, Failure> {
    let expected = "a whole number from 1 to 9: the scheduler `blox-optimus` takes its speed from a table of loads";
    let Some(load) = load else {
        return Err(Failure::new(format!(
            "--load is missing, expected {expected}"
        )));
    };
    match optimus_speed(load) {
        Some(_) => Ok(load),
        None => Err(given.wrong("load", load, expected)),
    }
}

/// The simulation with the speed that `blox-optimus` has at this load.
pub(super) fn at_optimus_speed(simulation: Simulation, load: f64) -> Simulation {
    match optimus_speed(load) {
        Some(speed) => simulation.execution(speed),
        None => simulation,
    }
}

#[cfg(feature = "released")]
fn optimus_speed(load: f64) -> Option<crate::released::blox::OptimusSpeed> {
    crate::released::blox::OptimusSpeed::at_load(load)
}

#[cfg(not(feature = "released"))]
fn optimus_speed(_: f64) -> Option<blox_sim::execution::FixedRate> {
    None
}

pub(super) fn cadence(given: &Given) -> Result<Option<Tempo>, Failure> {
    let o = &given.options;
    match (o.round, o.on_event) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(Failure::new(format!(
            "{} and {} are both given, expected one of them",
            given.name("round"),
            given.name("on-event")
        ))),
        (Some(s), None) => Seconds::try_new(s)
            .and_then(Rounds::every)
            .map(|r| Some(Tempo::Rounds(r)))
            .ok_or_else(|| given.wrong("round", s, "a number of seconds above 0")),
        (None, Some(s)) => not_negative(given, "on-event", Some(s))
            .map(|gap| Some(Tempo::OnEvent(OnEvent::with_gap(gap)))),
    }
}

fn not_negative(given: &Given, key: &str, value: Option<f64>) -> Result<Seconds, Failure> {
    let value = value.unwrap_or(0.0);
    Seconds::try_new(value)
        .filter(|s| *s >= Seconds::ZERO)
        .ok_or_else(|| given.wrong(key, value, "a number of seconds, at least 0"))
}

fn above_zero(
    given: &Given,
    key: &str,
    value: Option<f64>,
    unit_s: f64,
) -> Result<Option<Seconds>, Failure> {
    let unit = if unit_s == 1.0 { "seconds" } else { "hours" };
    let Some(value) = value else { return Ok(None) };
    Seconds::try_new(value * unit_s)
        .filter(|s| *s > Seconds::ZERO)
        .map(Some)
        .ok_or_else(|| given.wrong(key, value, &format!("a number of {unit} above 0")))
}

/// `SWITCH,DOUBLING` in seconds.
fn group(given: &Given, text: &str) -> Result<GroupOverheads, Failure> {
    let seconds = |text: &str| {
        let number = text.trim().parse().ok().and_then(Seconds::try_new);
        number.filter(|s| *s >= Seconds::ZERO)
    };
    let both = text.split_once(',');
    both.and_then(|(switch, doubling)| Some((seconds(switch)?, seconds(doubling)?)))
        .map(|(switch, doubling)| GroupOverheads::new(switch, doubling))
        .ok_or_else(|| {
            let expected = "two numbers of seconds, at least 0, as 2,2";
            given.wrong("group-overheads-s", text, expected)
        })
}

pub(super) fn world(given: &Given, cadence: Option<Tempo>, seed: u64) -> Result<World, Failure> {
    let o = &given.options;
    let seconds = |key, value| not_negative(given, key, value);
    let overheads = FixedOverheads {
        launch: seconds("launch-s", o.launch_s)?,
        checkpoint: seconds("checkpoint-s", o.checkpoint_s)?,
        restart: seconds("restart-s", o.restart_s)?,
        migration: seconds("migration-s", o.migration_s)?,
    };
    let group = match &o.group_overheads_s {
        None => None,
        Some(_) if overheads != FixedOverheads::default() => {
            return Err(Failure::new(format!(
                "{} is given beside other overheads, expected one or the other",
                given.name("group-overheads-s")
            )));
        }
        Some(text) => Some(group(given, text)?),
    };
    let hour = 3600.0;
    let launch_failure = o.launch_failure.unwrap_or(0.0);
    if !(0.0..1.0).contains(&launch_failure) {
        let expected = "a probability, at least 0 and below 1";
        return Err(given.wrong("launch-failure", launch_failure, expected));
    }
    let faults = Faults {
        seed,
        node_mtbf: above_zero(given, "node-mtbf-h", o.node_mtbf_h, hour)?,
        node_mttr: above_zero(given, "node-mttr-h", o.node_mttr_h, hour)?
            .unwrap_or(Seconds::from_hours(1.0)),
        job_mtbf: above_zero(given, "job-mtbf-h", o.job_mtbf_h, hour)?,
        checkpoint_every: above_zero(given, "checkpoint-every-s", o.checkpoint_every_s, 1.0)?,
        launch_failure,
    };
    let exact_ends = match (o.completion.as_deref(), cadence) {
        (None, _) => false,
        (Some("exact"), _) => true,
        (Some("round"), Some(Tempo::OnEvent(_))) => {
            return Err(Failure::new(format!(
                "{} is `round`, which has no meaning with {}",
                given.name("completion"),
                given.name("on-event")
            )));
        }
        (Some("round"), _) => false,
        (Some(other), _) => return Err(given.wrong("completion", other, "round or exact")),
    };
    Ok(World {
        overheads,
        group,
        faults,
        exact_ends,
    })
}
