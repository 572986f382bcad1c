//! Shockwave (Zheng et al., NSDI 2023): a market over future rounds for jobs that change their
//! batch size while they train.

mod market;
mod regimes;

pub use market::{Bidder, Market, Window};
pub use regimes::Regimes;

use crate::scheduling::TimeMean;
use crate::scheduling::listed::list_fitting;
use crate::unit::Unit;
use blox_core::{
    Answer, GpuCount, JobId, JobQueue, JobRef, Phase, Policy, SchedulingPolicy, Validity, View,
};
use serde::{Deserialize, Serialize};

/// Efficiency and fairness over future rounds (Shockwave, NSDI 2023).
///
/// **Rule.** A [`Market`] plans which jobs run in each round of a window. Jobs progress evenly in
/// proportion to their lengths, and the longest remaining time is short. A job that would end later
/// than with an equal share of the cluster weighs more, an early one less. The plan is recomputed when a job arrives or leaves, when
/// the number of GPUs changes, and after the number of rounds set by [`Shockwave::every`]. GPUs
/// that the plan leaves idle go to the jobs with most remaining time.
///
/// **Jobs that change.** The remaining time of a job is predicted from its [`Regimes`] (attribute
/// `regimes`) and from those that it has passed. Its work counts as time alone. The length of a job
/// without regimes is its work. If a job turns out to be more than two fifths faster or slower than
/// stated, it is assumed to stay so.
///
/// All GPUs are assumed to be equal, as in the paper. A job with a part of a GPU counts as that part.
#[derive(Clone, Debug)]
pub struct Shockwave {
    market: Market,
    period: u32,
}

/// State of `Shockwave`: estimates of jobs, and the plan of the next rounds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Plans {
    jobs: Vec<(JobId, Known)>,
    gpus: u32,
    /// Jobs of each round of the plan, the current round first.
    plan: Vec<Vec<JobId>>,
    /// Rounds since the plan was made.
    age: u32,
}

/// State of one job.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Known {
    regimes: Option<Regimes>,
    /// Jobs for each GPU, at least 1, since the job arrived. A job with less than a GPU counts less.
    contention: TimeMean,
}

/// Relative difference by which a job's speed may deviate from its stated speed.
const ACCURATE: f64 = 0.4;

impl Shockwave {
    /// Creates the policy with a market. The market's rounds should equal the rounds of the
    /// composition.
    pub fn new(market: Market) -> Self {
        Shockwave { market, period: 8 }
    }

    /// Sets the number of rounds after which the plan is recomputed (default 8), at least 1.
    #[must_use]
    pub fn every(mut self, rounds: u32) -> Self {
        self.period = rounds.max(1);
        self
    }

    /// Updates the set of jobs, and returns whether it changed.
    fn sync(&self, memory: &mut Plans, view: View<'_>) -> bool {
        let known = &mut memory.jobs;
        let same = view.active().map(|j| j.id()).eq(known.iter().map(|k| k.0));
        if same {
            return false;
        }
        // Both lists are in order of the jobs.
        let mut before = std::mem::take(known).into_iter().peekable();
        let keep = |job: JobRef<'_>| {
            while before.next_if(|(id, _)| *id < job.id()).is_some() {}
            let own = before.next_if(|(id, _)| *id == job.id());
            own.unwrap_or_else(|| {
                let new = Known {
                    regimes: Regimes::of_job(&job),
                    contention: TimeMean::default(),
                };
                (job.id(), new)
            })
        };
        *known = view.active().map(keep).collect();
        true
    }

    /// Plans the window, and updates the fair times.
    fn replan(&self, memory: &mut Plans, view: View<'_>, gpus: u32) {
        let now = view.now().secs();
        let jobs = &mut memory.jobs;
        let unit = Unit::of(view.active());
        let contenders: f64 = view.active().map(|j| j.amount().number().min(1.0)).sum();
        let share = (f64::from(gpus) / contenders).min(1.0);
        let mut bidders = Vec::with_capacity(jobs.len());
        for (id, known) in &mut *jobs {
            let Some(job) = view.job(*id) else { continue };
            let mut bidder = bidder(&job, known.regimes.as_ref(), unit);
            known.contention.record(now, 1.0 / share);
            let alone = bidder.done * bidder.pace_s + bidder.remaining_s;
            bidder.fair_s = alone * known.contention.value(now).unwrap_or(1.0);
            bidders.push(bidder);
        }
        memory.age = 0;
        memory.plan = match self.market.plan(unit.all(GpuCount(gpus)), share, &bidders) {
            Ok(window) => {
                let ids = |round: Vec<usize>| round.into_iter().map(|i| jobs[i].0).collect();
                window.rounds.into_iter().map(ids).collect()
            }
            // The arrangement fills idle GPUs in any case.
            Err(_) => vec![Vec::new(); self.market.rounds as usize],
        };
    }
}

/// Returns the bidder of a job, without its fair time.
fn bidder(job: &JobRef<'_>, regimes: Option<&Regimes>, unit: Unit) -> Bidder {
    let work = job.truth().work();
    let (done, all) = (job.work_done(), work.iterations.max(f64::MIN_POSITIVE));
    // Factor by which the job is slower than stated.
    let expected = work.rate * job.attained_time().secs();
    let scale = match (expected - done).abs() > ACCURATE * done && done > 0.0 {
        true => expected / done,
        false => 1.0,
    };
    let (length, done, pace_s, remaining_s) = match regimes {
        Some(regimes) => {
            let epochs = regimes.done_after(regimes.total_s() * (done / all));
            let (pace, remaining) = (regimes.pace_s(epochs), regimes.remaining_s(epochs));
            let length = regimes.epochs() as f64;
            (length, epochs as f64, pace * scale, remaining * scale)
        }
        None => {
            let pace_s = scale / work.rate.max(f64::MIN_POSITIVE);
            (all, done, pace_s, job.truth().work_left() * pace_s)
        }
    };
    Bidder {
        gpus: unit.gang(job),
        length,
        done,
        pace_s,
        remaining_s,
        age_s: job.age().secs().max(0.0),
        fair_s: 0.0,
    }
}

impl Policy for Shockwave {
    type Memory = Plans;

    fn initial(&self, _: u64) -> Plans {
        Plans::default()
    }
}

impl SchedulingPolicy for Shockwave {
    fn schedule(&self, memory: &mut Self::Memory, view: View<'_>, out: &mut JobQueue) -> Answer {
        out.stop_unlisted();
        let gpus = view.usable_gpus().get();
        if gpus == 0 {
            // Without GPUs there is no share: estimates wait until there are GPUs.
            memory.gpus = 0;
            memory.plan.clear();
            return Ok(Validity::UntilEvent);
        }
        let changed = self.sync(memory, view);
        if memory.jobs.is_empty() {
            memory.plan.clear();
            return Ok(Validity::UntilEvent);
        }
        memory.age += 1;
        let m = &*memory;
        if changed || gpus != m.gpus || m.age >= self.period || m.plan.is_empty() {
            memory.gpus = gpus;
            self.replan(memory, view, gpus);
        }
        let planned = match memory.plan.is_empty() {
            true => Vec::new(),
            false => memory.plan.remove(0),
        };
        // A launch that takes longer than a round is completed.
        let starting = view.active().filter(|j| j.phase() == Phase::Starting);
        let starting: Vec<JobId> = starting.map(|j| j.id()).collect();
        let others = planned.into_iter().filter(|id| !starting.contains(id));
        list_fitting(view, out, starting.iter().copied().chain(others));
        Ok(Validity::NextRound)
    }
}
