//! `blox replay`: repeats the decisions of a journal.

use super::args::ReplayArgs;
use super::help::Late;
use crate::config;
use crate::failure::{Code, Coded, Failure};
use crate::terminal::{OK, Terminal};
use blox_core::State;
use blox_core::replay::{ReplayError, replay, scheduler};
use blox_core::runtime::Observers;
use blox_experiment::Prepared;
use blox_registry::Registry;
use blox_results::number_of;
use std::fmt::Display;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// Exit status if a decision differs.
const DIFFERS: i32 = 1;

pub(super) fn run(
    registry: &Registry,
    late: Late<ReplayArgs>,
    terminal: &mut Terminal<'_>,
) -> Result<i32, Failure> {
    let of_allocation = late.args.of_allocation;
    let mut given = config::replay(late, scheduler_of)?;
    let path = given.output.journal.take().unwrap_or_default();
    let journal = open(&path)?;
    let experiment = Prepared::of(given.experiment, registry)?;
    let scheduler = experiment.pipeline(0)?.awaiting_growth(of_allocation);
    let name = experiment.contestants[0].label.clone();
    let trigger = scheduler.trigger();
    let replayed = replay(
        journal,
        State::default(),
        trigger,
        Box::new(scheduler),
        &mut Observers::default(),
    );
    match replayed {
        Ok(decisions) => {
            let decisions = number_of(decisions, "decision");
            let path = path.display();
            writeln!(terminal.out, "{name} repeats {decisions} of {path}")?;
            Ok(OK)
        }
        Err(error @ ReplayError::Differs { .. }) => {
            writeln!(terminal.err, "{}", placed(&path, &error))?;
            Ok(DIFFERS)
        }
        Err(error @ ReplayError::Memory { .. }) => {
            let wrote = scheduler_of(&path)?;
            let what = format!("{error}; the journal names the scheduler {wrote}");
            Err(of_file(&path, Code::Simulation, &what))
        }
        Err(error) => Err(of_file(&path, error.code(), &error)),
    }
}

fn open(path: &Path) -> Result<BufReader<File>, Failure> {
    let file = File::open(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => of_file(
            path,
            Code::Usage,
            &"no such journal, expected `blox replay JOURNAL [SCHEDULER]` with the file of an \
              earlier --journal",
        ),
        _ => of_file(path, Code::Simulation, &e),
    })?;
    Ok(BufReader::new(file))
}

/// Returns the scheduler that a journal names, with its parameters.
fn scheduler_of(path: &Path) -> Result<String, Failure> {
    match scheduler(open(path)?).map_err(|e| of_file(path, e.code(), &e))? {
        Some(name) => Ok(name.to_string()),
        None => Err(of_file(
            path,
            Code::Simulation,
            &"line 1: names no scheduler, expected `blox replay JOURNAL SCHEDULER`",
        )),
    }
}

fn of_file(path: &Path, code: Code, error: &dyn Display) -> Failure {
    Failure::of(code, placed(path, error))
}

/// Returns a message about a file: `FILE:LINE: ...` if it begins with the line.
fn placed(path: &Path, error: &dyn Display) -> String {
    let (path, error) = (path.display(), error.to_string());
    match error.strip_prefix("line ") {
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_digit()) => format!("{path}:{rest}"),
        _ => format!("{path}: {error}"),
    }
}
