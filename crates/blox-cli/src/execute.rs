//! Executes the runs of `simulate`, `compare` and `sweep`, in parallel on the available cores.

use super::failure::Coded;
use super::losses::Lost;
use super::output::SharedJournal;
use super::progress::{Progress, Shows};
use super::recording::Assignments;
use super::resolve::Experiment;
use super::result::Run;
use super::{Failure, Terminal, pool};
use blox_core::JobId;
use blox_core::journal::Journal;
use blox_core::registry::ComponentSpec;
use blox_sim::fairness::FairTimes;
use blox_sim::results::{Fairness, SharedSink};
use blox_sim::workload::{Limited, Workload};
use blox_sim::{Ended, SimError, Watch};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// One run: a scheduler of an experiment.
pub(super) struct Task<'a> {
    pub experiment: &'a Experiment<'a>,
    /// Index of the scheduler in the experiment.
    pub contestant: usize,
    /// Folder for the file of assignments.
    pub assignments: Option<PathBuf>,
    pub journal: Option<SharedJournal>,
    /// Job whose history is recorded.
    pub explained: Option<JobId>,
}

/// A run, with its open file of assignments.
pub(super) type Done = (Run, Option<Assignments>);

/// Executes all tasks. Passes the result of each to `finish`, and returns its values. The value is
/// `None` for a task that an interruption prevented.
pub(super) fn execute<T: Send>(
    tasks: &[Task<'_>],
    threads: Option<NonZeroUsize>,
    shows: Shows,
    interactive: bool,
    finish: impl Fn(usize, Result<Done, Failure>) -> Result<T, Failure> + Sync,
) -> Result<Vec<Option<T>>, Failure> {
    let watches: Vec<Arc<Watch>> = tasks.iter().map(|_| Arc::default()).collect();
    let counted = match &shows {
        Shows::Runs { done, .. } => Some(Arc::clone(done)),
        _ => None,
    };
    let progress = Progress::start(shows, &watches, interactive);
    let results = pool::each(&watches, threads, |i, watch| {
        let result = finish(i, run(&tasks[i], watch))?;
        if let Some(done) = &counted {
            done.fetch_add(1, Ordering::Relaxed);
        }
        Ok(result)
    });
    progress.finish();
    results
}

fn run(task: &Task<'_>, watch: &Arc<Watch>) -> Result<Done, Failure> {
    let assignments = task.assignments.as_deref().map(Assignments::create);
    let assignments = assignments.transpose()?;
    let sink = assignments.as_ref().map(Assignments::sink);
    Ok((simulate(task, watch, sink)?, assignments))
}

fn simulate(
    task: &Task<'_>,
    watch: &Arc<Watch>,
    assignments: Option<SharedSink>,
) -> Result<Run, Failure> {
    let (experiment, i) = (task.experiment, task.contestant);
    let scheduler = experiment.pipeline(i)?;
    let period_s = scheduler.trigger().period().map(|p| p.secs());
    let workload = experiment.workload()?;
    let label = workload.describe();
    let mut workload = Limited::new(workload, experiment.arrivals_end.unwrap_or(u64::MAX));
    let journal = task.journal.clone();
    let journal = journal.map(|j| Box::new(j) as Box<dyn Journal>);
    let fair = experiment.options.fairness.then(|| {
        let simulation = experiment.simulation(i)?;
        Ok::<_, Failure>(FairTimes::of(&simulation, &scheduler).watched_by(Arc::clone(watch)))
    });
    let fair = fair.transpose()?;
    let failed = |e: SimError| {
        let label = &experiment.contestants[i].label;
        Failure::of(e.code(), format!("{label}: {e}"))
    };
    let mut report = experiment
        .simulation(i)?
        .assignments_to(assignments)
        .explain(task.explained)
        .watched_by(Arc::clone(watch))
        .run_journaled(scheduler, &mut workload, journal)
        .map_err(failed)?;
    if let Some(mut fair) = fair {
        let mut jobs = experiment.workload()?;
        fair.judge(&mut *jobs, &mut report.jobs).map_err(failed)?;
        report.summary.fairness = Fairness::of(&report.jobs);
        if watch.stop.load(Ordering::Relaxed) {
            report.ended = Ended::Interrupted;
        }
    }
    let names = experiment.collectors.iter().map(ComponentSpec::to_string);
    Ok(Run {
        collected: names.zip(report.collected.figures()).collect(),
        notices: workload.notices().iter().map(|n| n.to_string()).collect(),
        lost: Lost::of(&report, workload.notices()),
        report,
        workload: label,
        period_s,
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
pub(super) fn tell_time(start: Instant, places: &str, terminal: &mut Terminal<'_>) {
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
