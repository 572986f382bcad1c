//! Executes the runs of `simulate`, `compare` and `sweep`, in parallel on the available cores.

use super::experiment::Plan;
use super::job_data::{self, JobsWith};
use super::output::SharedJournal;
use super::progress::{Progress, Shows};
use super::recording::Recording;
use super::result::Run;
use super::value::{By, DEADLINE, GPUS};
use crate::failure::Failure;
use crate::terminal::Terminal;
use blox_core::JobId;
use blox_core::journal::Journal;
use blox_experiment::{ANSWER_WITHIN_S, Observed, each};
use blox_registry::ComponentSpec;
use blox_results::losses::Lost;
use blox_results::{Cell, Groups, Summary};
use blox_sim::{Ended, Report, Watch};
use blox_traces::formats::csv::input_cell;
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
            labels: plan.schedulers.clone(),
            total: cell.experiment.expected_jobs,
        },
        _ => Shows::runs(&done, todo.len()),
    };
    let shows = Some(shows).filter(|_| !plan.base.quiet);
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

fn run(
    plan: &Plan<'_>,
    number: usize,
    records: &Records,
    watch: &Arc<Watch>,
) -> Result<Done, Failure> {
    let planned = &plan.runs[number];
    let experiment = plan.experiment(planned);
    let recording = match plan.folder(planned) {
        Some(dir) => Recording::create(&dir, &experiment.options, &experiment.cluster)?,
        None => None,
    };
    match simulate(plan, number, records, watch, recording.as_ref()) {
        Ok(run) => Ok((run, recording)),
        Err(failure) => {
            recording.into_iter().for_each(Recording::discard);
            Err(failure)
        }
    }
}

fn simulate(
    plan: &Plan<'_>,
    number: usize,
    records: &Records,
    watch: &Arc<Watch>,
    recording: Option<&Recording>,
) -> Result<Run, Failure> {
    let planned = &plan.runs[number];
    let (experiment, i) = (plan.experiment(planned), planned.contestant);
    let o = &experiment.options;
    let journal = records.journals.get(number).cloned();
    let observed = Observed {
        journal: journal.map(|j| Box::new(j) as Box<dyn Journal>),
        answer_within_s: o.answer_within_s.map_or(ANSWER_WITHIN_S, |s| s.0),
        ..Observed::by(watch)
    };
    let ran = experiment.run(i, observed, |simulation| {
        let simulation = simulation
            .assignments_to(recording.map(Recording::assignments))
            .waits_to(recording.and_then(Recording::waits))
            .explain(records.explained);
        match job_data::of(experiment, i) {
            Some(counts) => simulation.collector(counts),
            None => simulation,
        }
    })?;
    let report = ran.report;
    let names = experiment.collectors.iter().map(ComponentSpec::to_string);
    let known = report
        .collected
        .get()
        .map_or_else(Vec::new, JobsWith::known);
    let mut lost = Lost::of(&report, &ran.notices, o.by.is_some(), known);
    lost.untraced = recording.map_or(0, Recording::left_out);
    Ok(Run {
        groups: o.by.as_deref().map(|by| grouped(&report, by)),
        collected: names.zip(report.collected.figures()).collect(),
        notices: ran.notices.iter().map(|n| n.to_string()).collect(),
        lost,
        summary: Summary::of(&report),
        report,
        workload: ran.workload,
    })
}

/// Groups the jobs of a run by a column.
fn grouped(report: &Report, By(column): &By) -> Groups {
    Groups::of(report, column, |job| match column.as_str() {
        GPUS => job.gpus.to_string(),
        DEADLINE => job
            .first_deadline()
            .map_or_else(String::new, |at| at.secs().to_string()),
        column => match input_cell(job.spec.as_deref(), column) {
            Cell::Missing => String::new(),
            Cell::Number(number) => number.to_string(),
            Cell::Text(text) => text,
        },
    })
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
