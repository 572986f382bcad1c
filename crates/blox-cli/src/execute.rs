//! Executes the runs of `simulate`, `compare` and `sweep`, in parallel on the available cores.

use super::output::SharedJournal;
use super::progress::{Progress, Shows};
use super::recording::Recording;
use crate::failure::Failure;
use crate::plan::Plan;
use crate::terminal::Terminal;
use blox_core::JobId;
use blox_core::journal::Journal;
use blox_experiment::{ANSWER_WITHIN_S, Observed, each};
use blox_results::Run;
use blox_sim::{Ended, Watch};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Records of runs beside their results.
#[derive(Default)]
pub(super) struct Records {
    /// A journal for each run of the plan; empty without journals.
    pub journals: Vec<SharedJournal>,
    /// Job whose history is recorded.
    pub explained: Option<JobId>,
}

/// A run, with its open records.
pub(super) type Done = (Run, Option<Recording>);

/// Executes some runs of a plan. Passes the result of each to `finish`, and returns its values. The
/// value is `None` for a run that an interruption prevented.
pub(super) fn execute<T: Send>(
    plan: &Plan<'_>,
    todo: &[usize],
    records: &Records,
    interactive: bool,
    finish: impl Fn(usize, Result<Done, Failure>) -> Result<T, Failure> + Sync,
) -> Result<Vec<Option<T>>, Failure> {
    let watches: Vec<Arc<Watch>> = todo.iter().map(|_| Arc::default()).collect();
    let done = Arc::default();
    let shows = match plan.cells.as_slice() {
        [cell] if !plan.several => Shows::Jobs {
            labels: plan.schedulers().map(str::to_owned).collect(),
            total: cell.experiment.expected_jobs,
        },
        _ => Shows::runs(&done, todo.len()),
    };
    let shows = Some(shows).filter(|_| !plan.options.quiet);
    let progress = Progress::start(shows, &watches, interactive);
    let results = each(&watches, plan.threads, |i, watch| {
        let result = finish(todo[i], run(plan, todo[i], records, watch))?;
        done.fetch_add(1, Ordering::Relaxed);
        Ok(result)
    });
    progress.finish();
    results
}

/// Executes some runs of a plan as [`execute`] does. `finish` gets the results of each run, or an
/// error message. The value is `None` for an interrupted run.
pub(super) fn run_several<T: Send>(
    plan: &Plan<'_>,
    todo: &[usize],
    interactive: bool,
    finish: impl Fn(usize, Result<Run, String>) -> Result<T, Failure> + Sync,
) -> Result<Vec<Option<T>>, Failure> {
    let records = Records::default();
    let results = execute(plan, todo, &records, interactive, |i, done| {
        let result = match done {
            Ok((run, recording)) if run.report.ended == Ended::Interrupted => {
                recording.into_iter().for_each(Recording::discard);
                return Ok(None);
            }
            Ok((run, recording)) => {
                recording.map_or(Ok(()), Recording::close)?;
                Ok(run)
            }
            Err(end @ (Failure::ClosedPipe | Failure::Interrupted(_))) => return Err(end),
            Err(failure) => Err(failure.to_string()),
        };
        finish(i, result).map(Some)
    })?;
    Ok(results.into_iter().map(Option::flatten).collect())
}

fn run(plan: &Plan<'_>, i: usize, records: &Records, watch: &Arc<Watch>) -> Result<Done, Failure> {
    let planned = &plan.runs[i];
    let (experiment, o) = (plan.experiment(planned), &plan.options);
    let recording = match plan.folder(i) {
        Some(dir) => Recording::create(&dir, o, &experiment.cluster)?,
        None => None,
    };
    let journal = records.journals.get(i).cloned();
    let observed = Observed {
        journal: journal.map(|j| Box::new(j) as Box<dyn Journal>),
        answer_within_s: o.answer_within_s.map_or(ANSWER_WITHIN_S, |s| s.0),
        ..Observed::by(watch)
    };
    let recorded = recording.as_ref();
    let run = experiment.run(planned.contestant, observed, |simulation| {
        simulation
            .assignments_to(recorded.map(Recording::assignments))
            .waits_to(recorded.and_then(Recording::waits))
            .explain(records.explained)
    });
    match run {
        Ok(mut run) => {
            run.lost.untraced = recorded.map_or(0, Recording::left_out);
            Ok((run, recording))
        }
        Err(error) => {
            recording.into_iter().for_each(Recording::discard);
            Err(error.into())
        }
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "wall time for the user, never for a decision"
)]
pub(super) fn now() -> Instant {
    Instant::now()
}

/// Prints the wall time since `start`, with the places of results.
pub(super) fn print_time(start: Instant, places: &str, terminal: &mut Terminal<'_>) {
    let took = human_duration(start.elapsed());
    let _ = writeln!(terminal.err, "wall time {took}{places}");
}

fn human_duration(d: Duration) -> String {
    let s = d.as_secs_f64();
    // Times that round to a minute are shown in minutes.
    match s.round() as u64 {
        whole if s >= 59.995 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{s:.2} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_minute_has_sixty_seconds() {
        let text = |s| human_duration(Duration::from_secs_f64(s));
        assert_eq!(text(59.5), "59.50 s");
        assert_eq!(text(59.996), "1 min 0 s");
        assert_eq!(text(60.2), "1 min 0 s");
        assert_eq!(text(119.7), "2 min 0 s");
    }
}
