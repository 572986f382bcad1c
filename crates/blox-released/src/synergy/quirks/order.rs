//! Orders of the original.

use super::Mode;
use super::arrivals::Arrivals;
use super::demand::{Demand, ServerSize};
use blox_core::{
    Answer, Event, JobId, JobQueue, JobRef, Phase, Policy, Request, SchedulingPolicy, Seconds,
    Time, Validity, View, sort,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Sort key of jobs, ascending. Ties are broken by arrival, then by the order of the last round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Arrival. The only key with which starving jobs do not overtake others.
    Fifo,
    /// Attained service in GPU-seconds.
    Las,
    /// Remaining time.
    Srtf,
    /// Age plus remaining time, divided by the total duration. Jobs with the lowest ratio come
    /// first.
    Ftf,
    /// Dominant share of the best-case demand.
    Drf,
    /// Remaining time, times the sum of the shares of the best-case demand.
    Tetris,
    /// Remaining time at a fair share, times GPUs. (The original cannot start with this key, as its
    /// constructor has too few parameters.)
    Srsf,
}

/// All jobs in order of a [`Key`].
///
/// A job that has not run for 1000 hours comes before all others from the next round on.
#[derive(Clone, Debug)]
pub struct Order {
    key: Key,
    mode: Mode,
    round: Seconds,
    arrivals: Arrivals,
}

/// State of the original's list.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct OrderState {
    arrivals: Arrivals,
    /// Jobs in the order of the last round, as the original sorts its list in place.
    listed: Vec<JobId>,
    /// Number of jobs that ended since the last round. Each had a lease.
    ended: usize,
}

/// Hours without a lease after which a job comes before all others.
const STARVED_HOURS: f64 = 1000.0;

impl Order {
    /// Creates the order for a key and rounds of this length.
    pub fn new(key: Key, mode: Mode, round: Seconds) -> Self {
        Order {
            key,
            mode,
            round,
            arrivals: Arrivals::default(),
        }
    }

    /// Orders jobs that arrive at the same time as the original's event heap does.
    ///
    /// `jobs` are all jobs, in the order in which the original reads them. `first` is the time of
    /// its first round. Jobs that are not in `jobs` follow in order of their numbers.
    #[must_use]
    pub fn arriving(mut self, jobs: impl IntoIterator<Item = (JobId, Time)>, first: Time) -> Self {
        self.arrivals = Arrivals::of(jobs, first);
        self
    }

    /// Updates the list to this round.
    fn list(&self, memory: &mut OrderState, view: View<'_>) {
        let m = &mut *memory;
        let leases = view.active().filter(|j| j.is_placed()).count() + m.ended;
        m.ended = 0;
        let listed = &mut m.listed;
        m.arrivals
            .until(view.now(), self.round, leases, |job| listed.push(job));
        let here = |id: &JobId| view.job(*id).is_some_and(|j| j.phase() != Phase::Ended);
        listed.retain(here);
        if listed.len() < view.active().count() {
            let known: BTreeSet<JobId> = listed.iter().copied().collect();
            let others = view.active().map(|j| j.id());
            listed.extend(others.filter(|id| !known.contains(id)));
        }
    }

    fn value(&self, view: View<'_>, job: &JobRef<'_>, size: &ServerSize) -> f64 {
        let d = Demand::of(job.spec(), job.own_rate(), size);
        let gpus = d.best[0];
        // Only some keys read the truth.
        let all = || job.truth().work().iterations;
        let at_fair_share = || {
            let all = all();
            d.iteration_s * (all - job.work_done().round().min(all))
        };
        let left = || match self.mode {
            Mode::Fair => at_fair_share(),
            _ => at_fair_share() / speedup_of_last_round(job, &d),
        };
        let share = |i: usize| match size.total[i] {
            0.0 => 0.0,
            total => d.best[i] / total,
        };
        match self.key {
            Key::Fifo => job.submit().secs(),
            Key::Las => job.attained_time().secs() * gpus,
            Key::Srtf => left(),
            Key::Ftf => {
                let age = (view.now() - job.submit()).secs();
                (age + left()) / (d.iteration_s * all())
            }
            Key::Drf => share(0).max(share(1)).max(share(2)),
            Key::Tetris => {
                let left = left();
                share(0) * left + share(1) * left + share(2) * left
            }
            Key::Srsf => at_fair_share() * gpus,
        }
    }

    fn starves(&self, view: View<'_>, job: &JobRef<'_>) -> bool {
        let idle = match job.phase() {
            Phase::Waiting if job.first_start().is_some() => {
                // The job's lease ended at the decision before the first one that could have
                // launched it again.
                view.now() - job.eligible_since() + self.round
            }
            Phase::Waiting => job.age(),
            _ => Seconds::ZERO,
        };
        idle > Seconds::from_hours(STARVED_HOURS)
    }
}

/// Returns the speedup that the sort uses. Quirk: the program resets the speedup of a job with a
/// fair share only after the sort.
fn speedup_of_last_round(job: &JobRef<'_>, d: &Demand) -> f64 {
    let shrunk = job.assignment().is_some_and(|a| {
        // Memory that is slightly below the demand has another meaning: see `pass`.
        a.cpus != d.cpus() || (a.memory_gib - d.memory_gb()).abs() > 1e-9 * d.memory_gb()
    });
    if shrunk { 1.0 } else { d.speedup }
}

impl Policy for Order {
    type Memory = OrderState;

    fn initial(&self, _: u64) -> OrderState {
        OrderState {
            arrivals: self.arrivals.clone(),
            ..OrderState::default()
        }
    }

    fn on_event(&self, memory: &mut OrderState, _: View<'_>, event: &Event) {
        if matches!(event, Event::Ended { .. }) {
            memory.ended += 1;
        }
    }
}

impl SchedulingPolicy for Order {
    fn schedule(&self, memory: &mut Self::Memory, view: View<'_>, out: &mut JobQueue) -> Answer {
        let size = ServerSize::in_view(view);
        self.list(memory, view);
        let listed = memory.listed.iter().filter_map(|id| view.job(*id));
        let mut jobs: Vec<(bool, f64, Time, JobId)> = listed
            .map(|job| {
                let behind = self.key == Key::Fifo || !job.promoted();
                let value = self.value(view, &job, &size);
                (behind, value, job.submit(), job.id())
            })
            .collect();
        sort::by(&mut jobs, |a, b| {
            let keys = a.0.cmp(&b.0).then(a.1.total_cmp(&b.1));
            keys.then(a.2.cmp(&b.2))
        });
        memory.listed = jobs.iter().map(|(.., id)| *id).collect();
        out.allow_preemption();
        for &id in &memory.listed {
            let Some(job) = view.job(id) else { continue };
            if !job.promoted() && self.starves(view, &job) {
                out.promote(id);
            }
            out.push(Request::gang(&job));
        }
        Ok(Validity::NextRound)
    }
}
