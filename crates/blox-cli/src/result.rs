//! Results of the runs of an experiment.

use crate::experiment::Experiment;
pub(super) use blox_results::Run;
use blox_results::{Comparison, number_of};
use blox_sim::Ended;

/// Returns the results of runs of an experiment together.
pub(super) fn comparison<'a>(experiment: &Experiment<'_>, runs: &'a [&'a Run]) -> Comparison<'a> {
    let label = experiment.contestants.get(experiment.baseline);
    let is_base = |run: &&&Run| label.is_some_and(|c| run.summary.scheduler == c.label);
    Comparison {
        runs,
        compares: experiment.compares,
        base: runs.iter().find(is_base).copied(),
    }
}

/// Fails with the reason if no job was measured, unless the run was interrupted.
pub(super) fn check_measured(run: &Run, experiment: &Experiment<'_>) -> Result<(), String> {
    let s = &run.summary;
    let came = match s.jobs {
        0 => "there is no job".to_owned(),
        n => format!(
            "selects none of the {}, numbered from 0 to {}",
            number_of(n, "job"),
            n - 1
        ),
    };
    match &experiment.given.measure {
        Some(wanted) if s.measured == 0 && run.report.ended != Ended::Interrupted => {
            Err(format!("--measure is `{wanted}`, but {came}"))
        }
        _ => Ok(()),
    }
}
