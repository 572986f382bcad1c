//! Executes the runs of `simulate`, `compare` and `sweep`, in parallel on the available cores.

use super::args::ANSWER_WITHIN_S;
use super::job_data::JobsWith;
use super::output::SharedJournal;
use super::plan::Plan;
use super::progress::{Progress, Shows};
use super::recording::Recording;
use super::result::Run;
use super::value::{By, DEADLINE, GPUS};
use crate::failure::{Code, Coded, Failure};
use crate::terminal::Terminal;
use blox_core::journal::Journal;
use blox_core::{DecisionError, JobId, Seconds};
use blox_registry::ComponentSpec;
use blox_results::losses::Lost;
use blox_results::{Cell, Groups, Summary};
use blox_sim::fairness::FairTimes;
use blox_sim::{Ended, Report, SimError, Watch};
use blox_traces::formats::csv::input_cell;
use rayon::iter::{ParallelBridge, ParallelIterator};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
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
    let scheduler = experiment.pipeline(i)?;
    let mut workload = experiment.workload()?;
    let label = workload.describe();
    let journal = records.journals.get(number).cloned();
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
    let simulation = experiment
        .simulation(i)?
        .assignments_to(recording.map(Recording::assignments))
        .waits_to(recording.and_then(Recording::waits))
        .explain(records.explained)
        .watched_by(Arc::clone(watch));
    let within = o.answer_within_s.map_or(ANSWER_WITHIN_S, |s| s.0);
    let limit = Duration::try_from_secs_f64(within).unwrap_or(Duration::MAX);
    let answered = answered(watch, limit, move || {
        let report = simulation.run_journaled(scheduler, &mut workload, journal);
        (report, workload)
    });
    let at = watch.simulated_s.load(Ordering::Relaxed);
    let scheduler = &experiment.contestants[i].label;
    let before = format!("--until {at} gives the results before");
    let (report, workload) = match answered {
        Ok(answer) => answer,
        Err(Unanswered::Late) => {
            let policy = scheduler.as_str().into();
            let limit = Seconds::new(within);
            let error = DecisionError::TimedOut { policy, limit };
            let text = format!("at {at} s: {error}; {before}");
            return Err(Failure::of(Code::Simulation, text));
        }
        Err(Unanswered::Interrupted) => {
            let s = AFTER_STOP.as_secs();
            let text =
                format!("at {at} s: {scheduler} did not end its decision in {s} s; {before}");
            return Err(Failure::Interrupted(text));
        }
    };
    let mut report = report.map_err(failed)?;
    if let Some(mut fair) = fair {
        let mut jobs = experiment.workload()?;
        fair.judge(&mut *jobs, &mut report.jobs).map_err(failed)?;
        if watch.stop.load(Ordering::Relaxed) {
            report.ended = Ended::Interrupted;
        }
    }
    let names = experiment.collectors.iter().map(ComponentSpec::to_string);
    let known = report
        .collected
        .get()
        .map_or_else(Vec::new, JobsWith::known);
    let mut lost = Lost::of(&report, workload.notices(), o.by.is_some(), known);
    lost.untraced = recording.map_or(0, Recording::left_out);
    Ok(Run {
        groups: o.by.as_deref().map(|by| grouped(&report, by)),
        collected: names.zip(report.collected.figures()).collect(),
        notices: workload.notices().iter().map(|n| n.to_string()).collect(),
        lost,
        summary: Summary::of(&report),
        report,
        workload: label,
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

/// Interval at which a decision in progress is checked.
const TICK: Duration = Duration::from_millis(50);

/// Time that a decision has after an interruption.
const AFTER_STOP: Duration = Duration::from_secs(3);

/// Why a simulation has no result.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Unanswered {
    /// A decision took longer than allowed.
    Late,
    /// A decision did not end after an interruption.
    Interrupted,
}

/// Runs a simulation in a thread of its own. Fails if its scheduler makes one decision for longer
/// than `limit`, or for longer than [`AFTER_STOP`] after an interruption. The thread then continues
/// until the process ends: a policy cannot be stopped.
fn answered<T: Send + 'static>(
    watch: &Arc<Watch>,
    limit: Duration,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Unanswered> {
    let (sender, result) = channel();
    let thread = std::thread::spawn(move || {
        // The receiver is gone only if the time was over.
        let _ = sender.send(run());
    });
    let mut open: Option<(u64, Instant)> = None;
    let mut stopped: Option<Instant> = None;
    loop {
        match result.recv_timeout(TICK.min(limit)) {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Disconnected) => match thread.join() {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(()) => return Err(Unanswered::Late),
            },
            Err(RecvTimeoutError::Timeout) => {}
        }
        let deciding = watch.deciding.load(Ordering::Relaxed);
        let decision = watch.decisions.load(Ordering::Relaxed);
        match open {
            Some((same, since)) if deciding && same == decision => {
                if since.elapsed() >= limit {
                    return Err(Unanswered::Late);
                }
                if watch.stop.load(Ordering::Relaxed) {
                    let stopped = *stopped.get_or_insert_with(now);
                    if stopped.elapsed() >= AFTER_STOP {
                        return Err(Unanswered::Interrupted);
                    }
                }
            }
            _ => {
                open = deciding.then(|| (decision, now()));
                stopped = None;
            }
        }
    }
}

/// Calls `work` for each watch in this order, with at most `threads` calls at a time. Returns
/// `None` for a call that would have started after its watch was stopped. The first error stops all
/// others.
///
/// The calls share nothing, so the results are the same for any number of threads.
fn each<T: Send>(
    watches: &[Arc<Watch>],
    threads: Option<NonZeroUsize>,
    work: impl Fn(usize, &Arc<Watch>) -> Result<T, Failure> + Sync,
) -> Result<Vec<Option<T>>, Failure> {
    let one = |(i, watch): (usize, &Arc<Watch>)| {
        if watch.stop.load(Ordering::Relaxed) {
            return (i, Ok(None));
        }
        let result = work(i, watch);
        if result.is_err() {
            for w in watches {
                w.stop.store(true, Ordering::Relaxed);
            }
        }
        (i, result.map(Some))
    };
    let cores = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let threads = threads
        .map_or_else(cores, NonZeroUsize::get)
        .min(watches.len());
    let mut results: Vec<(usize, Result<Option<T>, Failure>)> = match threads {
        // No thread pool is needed.
        0 | 1 => watches.iter().enumerate().map(one).collect(),
        _ => {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .map_err(|e| Failure::new(format!("no threads can be started: {e}")))?;
            // A bridge distributes them one by one, in order.
            pool.install(|| watches.iter().enumerate().par_bridge().map(one).collect())
        }
    };
    results.sort_by_key(|(i, _)| *i);
    results.into_iter().map(|(_, result)| result).collect()
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
    fn scheduler_without_an_answer_is_given_up() {
        let limit = Duration::from_millis(300);
        let watch = Arc::new(Watch::default());
        assert_eq!(answered(&watch, limit, || 7), Ok(7));
        // Many short decisions together may take longer.
        let busy = Arc::clone(&watch);
        let decide = move || {
            for n in 0..8 {
                busy.decisions.store(n, Ordering::Relaxed);
                busy.deciding.store(true, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(100));
            }
            8
        };
        assert_eq!(answered(&watch, limit, decide), Ok(8));
        let hangs = || {
            loop {
                std::thread::park();
            }
        };
        let late = Err(Unanswered::Late);
        assert_eq!(answered::<()>(&watch, limit, hangs), late);
        // An interruption leaves a decision some seconds.
        watch.stop.store(true, Ordering::Relaxed);
        let start = now();
        let long = Duration::from_secs(300);
        let interrupted = Err(Unanswered::Interrupted);
        assert_eq!(answered::<()>(&watch, long, hangs), interrupted);
        assert!(start.elapsed() >= AFTER_STOP, "{:?}", start.elapsed());
    }

    #[test]
    fn no_minute_has_sixty_seconds() {
        let text = |s| human_duration(Duration::from_secs_f64(s));
        assert_eq!(text(59.5), "59.50 s");
        assert_eq!(text(59.996), "1 min 0 s");
        assert_eq!(text(60.2), "1 min 0 s");
        assert_eq!(text(119.7), "2 min 0 s");
    }

    #[test]
    fn results_are_in_order_and_the_first_error_counts() {
        let watches: Vec<Arc<Watch>> = (0..50).map(|_| Arc::default()).collect();
        let squares = each(&watches, NonZeroUsize::new(3), |i, _| Ok(i * i)).unwrap();
        assert_eq!(squares[7], Some(49));
        assert_eq!(squares.len(), 50);
        let error = each(&watches, NonZeroUsize::new(1), |i, _| match i {
            3 => Err(Failure::new("three")),
            i => Ok(i),
        });
        assert!(matches!(error, Err(Failure::Message { text, .. }) if text == "three"));
        // The error stopped all other watches.
        assert!(
            each(&watches, None, |i, _| Ok(i))
                .unwrap()
                .iter()
                .all(Option::is_none)
        );
    }
}
