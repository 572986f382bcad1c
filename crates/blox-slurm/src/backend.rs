//! The backend that lets Slurm run the jobs of a scheduler.
#![allow(
    clippy::disallowed_methods,
    reason = "the time of events on a real cluster; policies read it from the view"
)]

use crate::client::Slurm;
use crate::error::SlurmError;
use crate::tracker::{Scope, Snapshot, Tracker};
use blox_core::drive::Backend;
use blox_core::{
    Action, Command, DecisionError, Event, EventError, Input, JobId, Plan, Seconds, Share, Time,
    View,
};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// An error that ends a scheduler on Slurm.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CarryError {
    /// The scheduler wants what Slurm cannot do.
    #[error("Slurm cannot carry this scheduler: it {0}")]
    Impossible(&'static str),
    /// Slurm fails for good.
    #[error(transparent)]
    Slurm(#[from] SlurmError),
}

/// Times of a backend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Time between two looks while nothing changes.
    pub idle: Duration,
    /// Time between two looks while jobs start or stop.
    pub busy: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Pace {
            idle: Duration::from_millis(1000),
            busy: Duration::from_millis(200),
        }
    }
}

/// A backend on a [`Slurm`]. It runs in real time: [`drive`](blox_core::drive::drive) returns after
/// a request to stop.
#[allow(missing_debug_implementations, reason = "it has a function")]
pub struct SlurmBackend<S> {
    slurm: S,
    tracker: Tracker,
    pace: Pace,
    clock: Clock,
    stop: Arc<AtomicBool>,
    notice: Box<dyn FnMut(&str)>,
    news: VecDeque<Event>,
    seen: Snapshot,
    /// True if the state has changed since the last orders.
    moved: bool,
    looked: Option<Instant>,
    /// True while Slurm does not answer.
    away: bool,
    /// True once Slurm has answered.
    answered: bool,
}

/// Unix time that never goes back.
struct Clock {
    start: Time,
    since: Instant,
}

impl Clock {
    fn starting_from(least: Time) -> Self {
        let unix = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        Clock {
            start: least.max(Time::new(unix.as_secs_f64())),
            since: Instant::now(),
        }
    }

    fn now(&self) -> Time {
        self.start + Seconds::new(self.since.elapsed().as_secs_f64())
    }
}

impl<S: Slurm> SlurmBackend<S> {
    /// Creates a backend for a state, which may come from before a restart. `notice` receives
    /// sentences for the operator. `stop` ends the backend.
    pub fn new(
        slurm: S,
        scope: Scope,
        pace: Pace,
        view: View<'_>,
        stop: Arc<AtomicBool>,
        notice: Box<dyn FnMut(&str)>,
    ) -> Self {
        SlurmBackend {
            slurm,
            tracker: Tracker::new(scope, view),
            pace,
            clock: Clock::starting_from(view.now()),
            stop,
            notice,
            news: VecDeque::new(),
            seen: Snapshot::default(),
            moved: false,
            looked: None,
            away: false,
            answered: false,
        }
    }

    /// Reads jobs and nodes from Slurm.
    fn look(&mut self, view: View<'_>) -> Result<(), SlurmError> {
        let before = Instant::now();
        match self.slurm.look() {
            Ok(seen) => {
                if std::mem::take(&mut self.away) {
                    (self.notice)("Slurm answers again");
                }
                self.answered = true;
                self.seen = seen;
                let news = self.tracker.observe(self.clock.now(), view, &self.seen);
                for text in &news.notices {
                    (self.notice)(text);
                }
                self.news.extend(news.events);
                self.moved = true;
            }
            // Once Slurm has answered, its commands are right, and so it will answer again.
            Err(error) if error.is_temporary() || self.answered => self.absent(&error),
            Err(error) => return Err(error),
        }
        self.looked = Some(before);
        Ok(())
    }

    fn absent(&mut self, error: &SlurmError) {
        if !std::mem::replace(&mut self.away, true) {
            (self.notice)(&format!(
                "Slurm does not answer, and decisions wait: {error}"
            ));
        }
    }

    /// Orders what the state wants.
    fn order(&mut self, view: View<'_>) {
        self.moved = false;
        for order in self.tracker.orders(self.clock.now(), view, &self.seen) {
            if let Err(error) = self.slurm.order(&order) {
                match error.is_temporary() {
                    true => self.absent(&error),
                    false => self.tracker.refused(&order, &error.to_string()),
                }
                (self.notice)(&format!("cannot {order}: {error}"));
            }
        }
    }

    fn until_look(&self, view: View<'_>) -> Duration {
        let every = match self.tracker.is_busy(view) && !self.away {
            true => self.pace.busy,
            false => self.pace.idle,
        };
        self.looked
            .map_or(Duration::ZERO, |at| every.saturating_sub(at.elapsed()))
    }

    /// Returns Slurm's number of a job.
    pub fn slurm_job(&self, job: JobId) -> Option<u32> {
        self.tracker.slurm_job(job)
    }
}

impl<S: Slurm> Backend for SlurmBackend<S> {
    type Error = CarryError;

    fn next(&mut self, due: Option<Time>, view: View<'_>) -> Result<Option<Input>, CarryError> {
        loop {
            if let Some(event) = self.news.pop_front() {
                let at = self.clock.now().max(view.now());
                return Ok(Some(Input::Event { at, event }));
            }
            if self.stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let wait = self.until_look(view);
            if wait.is_zero() {
                self.look(view)?;
                continue;
            }
            // Events of a look precede the decision, and the decision the orders.
            let due_in = due
                .filter(|_| !self.away && self.looked.is_some())
                .map(|due| {
                    let secs = due.since(self.clock.now()).secs();
                    Duration::try_from_secs_f64(secs.max(0.0)).unwrap_or(Duration::MAX)
                });
            if let (Some(due), Some(Duration::ZERO)) = (due, due_in) {
                let at = due.max(view.now());
                return Ok(Some(Input::Due { at }));
            }
            if self.moved {
                self.order(view);
                continue;
            }
            let most = Duration::from_millis(50);
            std::thread::sleep(wait.min(due_in.unwrap_or(wait)).min(most));
        }
    }

    fn carry_out(&mut self, view: View<'_>, commands: &[Command]) -> Result<(), CarryError> {
        for command in commands {
            match command {
                Command::Finish { job } => self.tracker.finish(*job),
                Command::Notify { job, .. } => {
                    let text = format!("job {job} is not warned: Slurm passes no notices on");
                    (self.notice)(&text);
                }
                Command::Node { .. } => {
                    return Err(CarryError::Impossible("powers nodes, or requests them"));
                }
                _ => {}
            }
        }
        for job in view.placed() {
            if job.assignment().is_some_and(|a| a.share != Share::WHOLE) {
                return Err(CarryError::Impossible("places several jobs on a GPU"));
            }
        }
        self.order(view);
        Ok(())
    }

    fn refused(&mut self, _: Time, _: &Event, error: EventError) -> Result<(), CarryError> {
        (self.notice)(&format!("left out: {error}"));
        Ok(())
    }

    fn lost_turn(&mut self, _: Time, error: DecisionError) -> Result<(), CarryError> {
        (self.notice)(&error.to_string());
        Ok(())
    }
}

/// Returns whether a plan asks for what Slurm cannot do: two jobs on a GPU.
pub fn shares_gpus(plan: &Plan) -> bool {
    let shares = |action: &Action| match action {
        Action::Place { assignment, .. } => assignment.share != Share::WHOLE,
        _ => false,
    };
    plan.actions.iter().any(shares)
}
