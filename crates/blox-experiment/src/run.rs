//! Runs simulations, in parallel, with a limit for each decision.

use crate::error::ExperimentError;
use crate::job_data::JobsWith;
use crate::prepared::Prepared;
use crate::value::{By, DEADLINE, GPUS};
use blox_core::journal::Journal;
use blox_core::{DecisionError, Seconds};
use blox_registry::ComponentSpec;
use blox_results::losses::Lost;
use blox_results::{Cell, Groups, Run, Summary};
use blox_sim::fairness::FairTimes;
use blox_sim::{Ended, Report, SimError, Simulation, Watch};
use blox_traces::formats::csv::input_cell;
use blox_workloads::{Notices, Workload};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Wall-clock seconds of a decision, if nothing else is given.
pub const ANSWER_WITHIN_S: f64 = 300.0;

/// Observers of a run, which do not change its results.
#[allow(
    missing_debug_implementations,
    reason = "it has observers of other crates"
)]
pub struct Observed {
    /// Shows how far the run is, and can stop it.
    pub watch: Arc<Watch>,
    /// Takes every event and decision.
    pub journal: Option<Box<dyn Journal>>,
    /// Wall-clock seconds within which the scheduler must make each decision.
    pub answer_within_s: f64,
}

impl Observed {
    /// Observes a run with a watch alone.
    pub fn by(watch: &Arc<Watch>) -> Self {
        Observed {
            watch: Arc::clone(watch),
            journal: None,
            answer_within_s: ANSWER_WITHIN_S,
        }
    }
}

impl Prepared<'_> {
    /// Simulates the `i`th scheduler. `observe` adds collectors and sinks to the simulation.
    ///
    /// # Errors
    /// The simulation cannot go on, or the scheduler does not answer in time.
    pub fn run(
        &self,
        i: usize,
        observed: Observed,
        observe: impl FnOnce(Simulation) -> Simulation,
    ) -> Result<Run, ExperimentError> {
        let label = self.contestants[i].label.as_str();
        let watch = observed.watch;
        let scheduler = self.pipeline(i)?;
        let mut workload = self.workload()?;
        let about = workload.describe();
        let fair = self.given.fairness.then(|| {
            let simulation = self.simulation(i)?;
            let fair = FairTimes::of(&simulation, &scheduler);
            Ok::<_, ExperimentError>(fair.watched_by(Arc::clone(&watch)))
        });
        let fair = fair.transpose()?;
        let failed = |source: SimError| ExperimentError::Simulation {
            scheduler: label.to_owned(),
            source: Box::new(source),
        };
        let simulation = observe(self.simulation(i)?).watched_by(Arc::clone(&watch));
        let simulation = self.counting(i, simulation);
        let within = observed.answer_within_s;
        let limit = Duration::try_from_secs_f64(within).unwrap_or(Duration::MAX);
        let journal = observed.journal;
        let answered = answered(&watch, limit, move || {
            let report = simulation.run_journaled(scheduler, &mut workload, journal);
            (report, workload)
        });
        let at = watch.simulated_s.load(Ordering::Relaxed);
        let (report, workload) = answered.map_err(|why| match why {
            Unanswered::Late => ExperimentError::Late {
                at,
                source: DecisionError::TimedOut {
                    policy: label.into(),
                    limit: Seconds::new(within),
                },
            },
            Unanswered::Interrupted => ExperimentError::Interrupted {
                at,
                scheduler: label.into(),
                within_s: AFTER_STOP.as_secs(),
            },
        })?;
        let mut report = report.map_err(failed)?;
        if let Some(mut fair) = fair {
            let mut jobs = self.workload()?;
            fair.judge(&mut *jobs, &mut report.jobs).map_err(failed)?;
            if watch.stop.load(Ordering::Relaxed) {
                report.ended = Ended::Interrupted;
            }
        }
        Ok(self.run_of(report, workload.notices(), about))
    }

    /// Lets a simulation of the `i`th scheduler count the jobs with the data that the scheduler is
    /// about.
    #[must_use]
    pub fn counting(&self, i: usize, simulation: Simulation) -> Simulation {
        match JobsWith::of(self, i) {
            Some(counts) => simulation.collector(counts),
            None => simulation,
        }
    }

    /// Returns the figures of a [counting](Prepared::counting) simulation, with the notices about its
    /// workload and the description of it.
    pub fn run_of(&self, report: Report, notices: &Notices, workload: String) -> Run {
        let by = self.given.records.by.as_deref();
        let names = self.collectors.iter().map(ComponentSpec::to_string);
        let known = report.collected.get().map(JobsWith::known);
        Run {
            groups: by.map(|by| grouped(&report, by)),
            collected: names.zip(report.collected.figures()).collect(),
            notices: notices.iter().map(|n| n.to_string()).collect(),
            lost: Lost::of(&report, notices, by.is_some(), known.unwrap_or_default()),
            summary: Summary::of(&report),
            report,
            workload,
        }
    }
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

/// Calls `work` for each watch in this order, with at most `threads` calls at a time; by default one
/// for each core. Returns `None` for a call that would have started after its watch was stopped. The
/// first error stops all others.
///
/// The calls share nothing, so the results are the same for any number of threads.
///
/// # Errors
/// The first error of `work`, in the order of the watches.
pub fn each<T: Send, E: Send>(
    watches: &[Arc<Watch>],
    threads: Option<NonZeroUsize>,
    work: impl Fn(usize, &Arc<Watch>) -> Result<T, E> + Sync,
) -> Result<Vec<Option<T>>, E> {
    let cores = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let threads = threads.map_or_else(cores, NonZeroUsize::get);
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let take = || {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(watch) = watches.get(i) else { return };
            let result = match watch.stop.load(Ordering::Relaxed) {
                true => Ok(None),
                false => work(i, watch).map(Some),
            };
            if result.is_err() {
                for watch in watches {
                    watch.stop.store(true, Ordering::Relaxed);
                }
            }
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            done.push((i, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(watches.len()) {
            // Without another thread, those that run do its work.
            let _ = std::thread::Builder::new().spawn_scoped(scope, take);
        }
        take();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(i, _)| *i);
    done.into_iter().map(|(_, result)| result).collect()
}

#[allow(
    clippy::disallowed_methods,
    reason = "wall time for the user, never for a decision"
)]
fn now() -> Instant {
    Instant::now()
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
    fn results_are_in_order_and_the_first_error_counts() {
        let watches: Vec<Arc<Watch>> = (0..50).map(|_| Arc::default()).collect();
        let squares = each(&watches, NonZeroUsize::new(3), |i, _| Ok::<_, &str>(i * i)).unwrap();
        assert_eq!(squares[7], Some(49));
        assert_eq!(squares.len(), 50);
        let error = each(&watches, NonZeroUsize::new(1), |i, _| match i {
            3 => Err("three"),
            i => Ok(i),
        });
        assert_eq!(error, Err("three"));
        // The error stopped all other watches.
        assert!(
            each(&watches, None, |i, _| Ok::<_, &str>(i))
                .unwrap()
                .iter()
                .all(Option::is_none)
        );
    }
}
