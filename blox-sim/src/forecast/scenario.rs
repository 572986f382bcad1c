//! Futures in which running times and arrivals are drawn.

use super::arrivals::Arrivals;
use super::experience::Experience;
use super::simulated::{Seen, simulate};
use super::stretched::{Drawn, Stretched};
use crate::Measure;
use crate::simulation::Simulation;
use crate::watch::Watch;
use blox_core::forecast::{Expected, Interval, PastJob, queued};
use blox_core::trigger::DecisionTrigger;
use blox_core::{JobId, Scheduler, Seconds, State, Time};
use chacha20::ChaCha8Rng;
use rand::SeedableRng;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Number of drawn futures. The second and the last but one of 39 values bound the next value with
/// a probability of 90 %.
const FUTURES: usize = 39;
/// Number of drawn futures of a long queue. The first and the last of 19 values bound the next value
/// with the same probability.
const FEW_FUTURES: usize = 19;
/// Smallest number of jobs of a long queue.
const LONG: usize = 300;
/// Largest number of arrivals in a future, which bounds its duration. Then no more jobs arrive.
const MOST: usize = 1_000;
/// Longest duration of a future.
const REACH: Seconds = Seconds::new(30.0 * 86_400.0);
/// Largest number of rounds of a future. A job that never starts keeps a future going so long.
const ROUNDS: f64 = 10_000.0;
/// Part of its work that is left of a job that has run longer than its work takes.
const LEFT: f64 = 1e-3;

/// Simulates all futures, on the cores of the machine. Ends are seen at the ends of rounds of length
/// `round`, or at once if it is 0.
pub(super) fn expect(
    world: World<'_>,
    round: Seconds,
    state: &State,
    policy: &dyn Scheduler,
    past: &[PastJob],
) -> Option<Vec<Expected>> {
    let jobs = queued(state);
    if jobs.is_empty() {
        return Some(Vec::new());
    }
    let reach = match round > Seconds::ZERO {
        true => REACH.min(round * ROUNDS),
        false => REACH,
    };
    let until = state.now() + reach;
    let experience = Experience::of(state, past, round);
    let measured: Arc<BTreeSet<u32>> = Arc::new(jobs.iter().map(|job| job.0).collect());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut futures: Vec<Option<Seen>> = Vec::new();
    let number = if jobs.len() < LONG {
        FUTURES
    } else {
        FEW_FUTURES
    };
    futures.resize_with(number, || None);
    let per_thread = number.div_ceil(threads);
    std::thread::scope(|scope| {
        for (chunk, part) in futures.chunks_mut(per_thread).enumerate() {
            let (state, policy) = (state.clone(), dyn_clone::clone_box(policy));
            let (experience, measured) = (&experience, &measured);
            scope.spawn(move || {
                for (i, seen) in part.iter_mut().enumerate() {
                    if world.2.load(Ordering::Relaxed) {
                        break;
                    }
                    let number = (chunk * per_thread + i) as u64;
                    let measure = Measure::Each(Arc::clone(measured));
                    let from = (state.clone(), until);
                    *seen = future(world, from, &*policy, experience, measure, number);
                }
            });
        }
    });
    let futures: Vec<Seen> = futures.into_iter().flatten().collect();
    if futures.len() < FEW_FUTURES {
        return None;
    }
    let at = |of: fn(&Seen) -> &[(JobId, Time)]| {
        let sorted: Vec<Vec<(JobId, Time)>> = futures.iter().map(|seen| by_job(of(seen))).collect();
        move |job: JobId| interval(sorted.iter().map(|times| time_of(times, job)).collect())
    };
    let (start, end) = (at(|seen| &seen.starts), at(|seen| &seen.ends));
    let expected = jobs.into_iter().map(|job| Expected {
        job,
        start: start(job),
        end: end(job),
    });
    Some(expected.collect())
}

/// A simulated world, its decision moments, and the flag that stops the simulations.
type World<'a> = (
    &'a Simulation,
    &'a (dyn DecisionTrigger + 'static),
    &'a Arc<AtomicBool>,
);

/// Simulates one future. Returns `None` if it is stopped before.
fn future(
    (simulation, trigger, stop): World<'_>,
    (mut state, until): (State, Time),
    policy: &dyn Scheduler,
    experience: &Experience,
    measure: Measure,
    number: u64,
) -> Option<Seen> {
    let mut rng = ChaCha8Rng::seed_from_u64(number);
    let mut ratios = experience.ratios(&mut rng);
    let mut live = Vec::with_capacity(experience.live.len());
    for (id, job) in &experience.live {
        let total = ratios.total(job, &mut rng);
        let left = (total - job.ran).max(1e-3);
        let Some(its) = state.job(*id) else { continue };
        let work = its.truth().work().iterations;
        let done = its.work_done().min(work * (1.0 - LEFT));
        let factor = (work - done) / its.own_rate() / left;
        let rate = its.rate() * factor;
        live.push((*id, factor));
        state.assume(*id, done, rate);
    }
    let stretched = Arc::new(Stretched {
        live,
        first: state.next_job_id().0,
        later: Mutex::new((Vec::new(), ratios)),
    });
    let (now, later) = (state.now(), Arc::clone(&stretched));
    let mut arrivals = Arrivals::new(&experience.day, now, MOST, rng, later);
    let model = |inner| Drawn { inner, stretched };
    let watch = Watch {
        stop: Arc::clone(stop),
        ..Watch::default()
    };
    let simulation = simulation.clone().measure(measure).wrapped(model);
    let simulation = simulation.watched_by(Arc::new(watch));
    let seen = simulate(&simulation, trigger, state, policy, &mut arrivals, until);
    (!stop.load(Ordering::Relaxed)).then_some(seen)
}

/// Returns the time of each job, in order of job.
fn by_job(times: &[(JobId, Time)]) -> Vec<(JobId, Time)> {
    let mut times = times.to_vec();
    times.sort_unstable_by_key(|(job, _)| *job);
    times
}

fn time_of(times: &[(JobId, Time)], job: JobId) -> Option<Time> {
    let found = times.binary_search_by_key(&job, |(id, _)| *id);
    found.ok().map(|i| times[i].1)
}

/// Returns the interval of the times in all futures; `None` is beyond their reach.
fn interval(mut times: Vec<Option<Time>>) -> Interval {
    times.sort_by_key(|time| (time.is_none(), *time));
    let n = times.len();
    // One in 20 values is beyond each bound.
    let beyond = (n + 1) / 20 - 1;
    Interval {
        low: times[beyond],
        median: times[n / 2],
        high: times[n - 1 - beyond],
    }
}
