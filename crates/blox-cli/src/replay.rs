//! `blox replay`: repeats the decisions of a journal.

use super::config::Given;
use super::grid::number_of;
use super::resolve::Experiment;
use super::{Failure, OK, Terminal};
use blox_core::State;
use blox_core::registry::Registry;
use blox_core::replay::{ReplayError, replay};
use blox_core::runtime::Observers;
use std::fs::File;
use std::io::BufReader;

/// Exit status if a decision differs.
const DIFFERS: i32 = 1;

pub(super) fn run(
    registry: &Registry,
    given: Given,
    terminal: &mut Terminal<'_>,
) -> Result<i32, Failure> {
    let path = given.options.journal.clone();
    let path = path.ok_or_else(|| Failure::new("no journal, expected --journal FILE"))?;
    let of_file =
        |error: &dyn std::fmt::Display| Failure::new(format!("{}: {error}", path.display()));
    let journal = File::open(&path).map_err(|e| of_file(&e))?;
    let experiment = Experiment::of(given, registry)?;
    let scheduler = experiment.pipeline(0)?;
    let name = experiment.contestants[0].label.clone();
    let trigger = scheduler.trigger();
    let replayed = replay(
        BufReader::new(journal),
        State::default(),
        trigger,
        Box::new(scheduler),
        &mut Observers::default(),
    );
    match replayed {
        Ok(decisions) => {
            let decisions = number_of(decisions, "decision");
            writeln!(terminal.out, "{name} makes {decisions} as the journal says")?;
            Ok(OK)
        }
        Err(error @ ReplayError::Differs { .. }) => {
            writeln!(terminal.err, "{}: {error}", path.display())?;
            Ok(DIFFERS)
        }
        Err(error) => Err(of_file(&error)),
    }
}
