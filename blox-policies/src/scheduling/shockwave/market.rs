//! Shockwave's market over future rounds.

use blox_core::sort;
use blox_solve::{Concave, SolveError, Units};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// A job in the market.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bidder {
    /// GPUs that it needs in each of its rounds, in any unit.
    pub gpus: u32,
    /// Length above 0, in any unit (such as epochs).
    pub length: f64,
    /// Completed part of the length.
    pub done: f64,
    /// Seconds that a unit of the length takes when the job runs alone, above 0.
    pub pace_s: f64,
    /// Predicted seconds that the rest takes when the job runs alone.
    pub remaining_s: f64,
    /// Seconds since it was submitted.
    pub age_s: f64,
    /// Seconds from submission that it would take with its fair share of the cluster.
    pub fair_s: f64,
}

/// Shockwave's market: which jobs run in each of the next rounds (NSDI 2023, sections 4 and 6).
///
/// **The program.** The objective is the sum of the logarithms of the jobs' progress after the
/// window (Nash social welfare). The logarithm is linear between `bases`. Each is weighted by the
/// predicted finish-time fairness of the job, to the power `urgency`. The longest remaining time of
/// any job, an estimate of the makespan, is subtracted with the factor `efficiency`.
///
/// **Solution.** The program depends only on the number of rounds of each job. For a given longest
/// remaining time it is a knapsack with concave gains ([`Concave`]). The search over these times is
/// exact: it skips only ranges whose bound excludes an improvement. Rounds then go to jobs by
/// weight for the GPUs and rounds that they need, the most urgent first. Jobs that need all
/// remaining rounds come before all others. If jobs of several sizes cannot be packed into the
/// rounds without gaps, some lose a round. Idle GPUs go to the jobs with most remaining time.
///
/// **Ties.** Plans whose objectives differ by at most `gap` count as equal. The published program's
/// solver stops at that gap, so its authors could not distinguish such plans, and both objectives
/// rest on predictions. Among equal plans, the one with the shortest remaining time of the longest
/// job is chosen. A tie can improve the makespan without taking rounds from a job that is worth
/// more. Other choices are equally good by the objective; this one was chosen with a published
/// comparison in view. Among plans with the same remaining time, rounds are spread evenly over
/// jobs, then earlier jobs get them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Market {
    /// Rounds of the window, at least 1.
    pub rounds: u32,
    /// Seconds of a round, above 0.
    pub round_s: f64,
    /// Cost of a second of the longest remaining time, at least 0 (`k`).
    pub efficiency: f64,
    /// Exponent of finish-time fairness (`lambda`).
    pub urgency: f64,
    /// Relative difference below which the objectives of two plans count as equal, at least 0.
    pub gap: f64,
    /// Progress from 0 to 1 between which the logarithm is linear, ascending from 0 to 1.
    pub bases: Cow<'static, [f64]>,
}

/// Jobs of each round, by their indices among the bidders.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Window {
    /// Jobs of each round, in order. Jobs that only fill idle GPUs come last.
    pub rounds: Vec<Vec<usize>>,
    /// Number of rounds that the program assigns to each job.
    pub units: Vec<u32>,
}

/// Progress used in place of 0 in the logarithm.
const NO_PROGRESS: f64 = 1e-6;
impl Market {
    /// The authors' parameters for 32 GPUs.
    pub const DEFAULT: Self = Market {
        rounds: 20,
        round_s: 120.0,
        efficiency: 1e-3,
        urgency: 12.0,
        gap: 1e-3,
        bases: Cow::Borrowed(&[0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
    };

    /// Largest weight of a job's progress.
    pub const MOST_WEIGHT: f64 = 1e30;

    /// Plans the next rounds on `gpus` GPUs, in the unit of the bidders. A job of a fair cluster has
    /// its GPUs for the part `share` of the time.
    ///
    /// # Errors
    /// The solver failed. The jobs cannot cause an error.
    pub fn plan(&self, gpus: u32, share: f64, bidders: &[Bidder]) -> Result<Window, SolveError> {
        let weight = |b: &Bidder| {
            let rho = (b.age_s + b.remaining_s / share) / b.fair_s.max(f64::MIN_POSITIVE);
            libm::pow(rho, self.urgency).min(Self::MOST_WEIGHT)
        };
        let weights: Vec<f64> = bidders.iter().map(weight).collect();
        let units = self.units(gpus, bidders, &weights, &vec![0; bidders.len()])?;
        Ok(Window {
            rounds: self.arrange(gpus, bidders, &weights, &units),
            units,
        })
    }

    /// Seconds of work in a number of rounds, at most the rest of the job.
    fn worked(&self, b: &Bidder, rounds: u32) -> f64 {
        let most = (b.length - b.done).max(0.0) * b.pace_s;
        (f64::from(rounds) * self.round_s).min(most)
    }

    /// Fraction of a job that is done after a number of rounds.
    fn progress(&self, b: &Bidder, rounds: u32) -> f64 {
        (b.done + self.worked(b, rounds) / b.pace_s) / b.length
    }

    fn left_after(&self, b: &Bidder, rounds: u32) -> f64 {
        (b.remaining_s - self.worked(b, rounds)).max(0.0)
    }

    /// Returns the smallest number of rounds after which at most `allowed` seconds are left.
    pub fn needed(&self, b: &Bidder, allowed: f64) -> Option<u32> {
        (0..=self.rounds).find(|n| self.left_after(b, *n) <= allowed)
    }

    /// Logarithm of progress, linear between the bases, with the logarithms of the bases.
    fn utility(&self, logarithms: &[f64], progress: f64) -> f64 {
        let progress = progress.clamp(0.0, 1.0);
        let above = self.bases.iter().position(|b| *b >= progress);
        match above {
            Some(0) | None => logarithm(progress),
            Some(at) => {
                let (low, high) = (self.bases[at - 1], self.bases[at]);
                let part = (progress - low) / (high - low);
                logarithms[at - 1] + part * (logarithms[at] - logarithms[at - 1])
            }
        }
    }

    /// Returns the number of rounds of each job, at least `least`, that is best by the program for
    /// these weights of progress. It searches over the longest remaining time.
    ///
    /// The candidates are the remaining times of all jobs after all numbers of rounds. A larger
    /// allowed time permits a larger gain. So the gain at the upper end of an interval, minus the
    /// cost at its lower end, bounds the whole interval. Intervals that cannot contain the optimum
    /// are skipped.
    ///
    /// # Errors
    /// The solver failed, for example because `least` exceeds the GPUs.
    pub fn units(
        &self,
        gpus: u32,
        bidders: &[Bidder],
        weights: &[f64],
        least: &[u32],
    ) -> Result<Vec<u32>, SolveError> {
        let scale = 1.0 / (bidders.len().max(1) as f64 * f64::from(self.rounds));
        let logarithms: Vec<f64> = self.bases.iter().map(|b| logarithm(*b)).collect();
        let value = |i: usize, n: u32| {
            let progress = self.progress(&bidders[i], n);
            self.utility(&logarithms, progress) * weights[i] * scale
        };
        let sizes: Vec<u32> = bidders.iter().map(|b| b.gpus).collect();
        let capacity = u64::from(gpus) * u64::from(self.rounds);
        let program = Concave::new(capacity, &sizes, self.rounds, least, value)?;
        let mut rests = Rests::new(self, bidders, least, program);
        let mut of = rests.program.solve(&[])?.of;
        let last = rests.candidates.len();
        let (mut best, mut chosen) = (f64::NEG_INFINITY, None);
        let reached = rests.climb();
        rests.visit((0, last), reached, &mut |value, candidate| {
            if value > best {
                (best, chosen) = (value, Some(candidate));
            }
            best.max(reached)
        });
        if let Some(units) = chosen.and_then(|candidate| rests.solve(candidate)) {
            of = units.of;
        }
        if self.gap > 0.0 {
            // Among all plans that are good enough, take the one with the shortest remaining time.
            let reached: f64 = of.iter().enumerate().map(|(i, n)| value(i, *n)).sum();
            let left = rests.longest(&of);
            let measure = reached - self.efficiency * left;
            let enough = best - self.gap * measure.abs();
            let mut shortest = None;
            rests.visit((0, last), enough, &mut |value, candidate| {
                let found = value >= enough;
                if found {
                    shortest = Some(candidate);
                }
                if found { f64::INFINITY } else { enough }
            });
            if let Some(units) = shortest.and_then(|candidate| rests.solve(candidate)) {
                of = units.of;
            }
        }
        Ok(of)
    }

    /// Assigns the jobs to rounds, given their numbers of rounds: urgent jobs early, and no GPU idle
    /// that some job can use. The urgency of a job is its weight for each GPU and round.
    pub fn arrange(
        &self,
        gpus: u32,
        bidders: &[Bidder],
        weights: &[f64],
        units: &[u32],
    ) -> Vec<Vec<usize>> {
        let urgency = |i: usize| {
            let used = f64::from(units[i].max(1)) * f64::from(bidders[i].gpus.max(1));
            weights[i] / used
        };
        let mut by_urgency: Vec<usize> = (0..bidders.len()).filter(|i| units[*i] > 0).collect();
        sort::by(&mut by_urgency, |a, b| urgency(*b).total_cmp(&urgency(*a)));
        // Most remaining time first. It is needed if GPUs are left over.
        let mut by_rest: Option<Vec<usize>> = None;
        let mut open = units.to_vec();
        let mut chosen = vec![false; bidders.len()];
        let mut rounds = Vec::with_capacity(self.rounds as usize);
        for round in 0..self.rounds {
            let left = self.rounds - round;
            let mut free = gpus;
            let mut jobs: Vec<usize> = Vec::new();
            let mut take = |i: usize, free: &mut u32, jobs: &mut Vec<usize>| {
                let fits = !chosen[i] && bidders[i].gpus <= *free;
                if fits {
                    *free -= bidders[i].gpus;
                    chosen[i] = true;
                    jobs.push(i);
                }
                fits
            };
            // First the jobs that need all remaining rounds, then the others by urgency.
            for pressing in [true, false] {
                for &i in &by_urgency {
                    let has = open[i] > 0 && (open[i] >= left) == pressing;
                    if has && take(i, &mut free, &mut jobs) {
                        open[i] -= 1;
                    }
                }
            }
            jobs.sort_unstable();
            if free > 0 {
                for &i in by_rest.get_or_insert_with(|| by_remaining(bidders)).iter() {
                    if free == 0 {
                        break;
                    }
                    take(i, &mut free, &mut jobs);
                }
            }
            jobs.iter().for_each(|i| chosen[*i] = false);
            rounds.push(jobs);
        }
        rounds
    }
}

/// Returns the logarithm of progress from 0 to 1.
fn logarithm(progress: f64) -> f64 {
    libm::log(progress.max(NO_PROGRESS))
}

/// Returns all jobs, those with most remaining time first.
fn by_remaining(bidders: &[Bidder]) -> Vec<usize> {
    let mut all: Vec<usize> = (0..bidders.len()).collect();
    sort::by(&mut all, |a, b| {
        let left = |i: &usize| bidders[*i].remaining_s;
        left(b).total_cmp(&left(a))
    });
    all
}

/// Search space of longest remaining times.
struct Rests<'a, V> {
    market: &'a Market,
    program: Concave<V>,
    /// Longest remaining time if every job had all rounds.
    unavoidable: f64,
    /// Jobs whose remaining time can exceed it, with their minimum numbers of rounds.
    long: Vec<(usize, u32)>,
    /// Remaining times of these jobs after 0 to all rounds.
    after: Vec<Vec<f64>>,
    /// All possible longest remaining times, ascending.
    candidates: Vec<f64>,
    /// Solutions for these times, if known.
    known: Vec<Option<Option<Solved>>>,
}

/// Solution for a longest remaining time.
#[derive(Clone, Copy, Debug)]
struct Solved {
    gain: f64,
    bound: f64,
    /// Cost of the longest remaining time after its plan.
    cost: f64,
}

impl<'a, V: Fn(usize, u32) -> f64> Rests<'a, V> {
    fn new(market: &'a Market, bidders: &[Bidder], least: &[u32], program: Concave<V>) -> Self {
        let unavoidable = bidders.iter().map(|b| market.left_after(b, market.rounds));
        let unavoidable = unavoidable.fold(0.0, f64::max);
        let long = bidders.iter().zip(least).enumerate();
        let long = long.filter(|(_, (b, _))| b.remaining_s > unavoidable);
        let long: Vec<(usize, u32)> = long.map(|(i, (_, least))| (i, *least)).collect();
        let after = |(i, _): &(usize, u32)| {
            let left = |n| market.left_after(&bidders[*i], n);
            (0..=market.rounds).map(left).collect()
        };
        let after: Vec<Vec<f64>> = long.iter().map(after).collect();
        let allowed = long.iter().zip(&after);
        let allowed = allowed.flat_map(|((_, least), left)| left.iter().skip(*least as usize));
        let mut candidates: Vec<f64> = allowed.copied().collect();
        candidates.retain(|rest| *rest >= unavoidable);
        if !bidders.is_empty() {
            candidates.push(unavoidable);
        }
        sort::numbers(&mut candidates);
        candidates.dedup();
        Rests {
            market,
            program,
            unavoidable,
            long,
            after,
            known: vec![None; candidates.len()],
            candidates,
        }
    }

    /// Returns the longest remaining time after a plan.
    fn longest(&self, rounds: &[u32]) -> f64 {
        let jobs = self.long.iter().zip(&self.after);
        let left = jobs.map(|((i, _), left)| left[rounds[*i] as usize]);
        left.fold(self.unavoidable, f64::max)
    }

    /// Returns the best plan with at most the remaining time of a candidate.
    fn solve(&mut self, candidate: usize) -> Option<Units> {
        let allowed = self.candidates[candidate];
        let mut more = Vec::new();
        for ((i, least), left) in self.long.iter().zip(&self.after) {
            // The remaining time shrinks with the rounds.
            let needed = match left[*least as usize] > allowed {
                true => left.partition_point(|left| *left > allowed) as u32,
                false => continue,
            };
            if needed > self.market.rounds {
                return None;
            }
            more.push((*i, needed));
        }
        self.program.solve(&more).ok()
    }

    /// Returns the gains of the best plan for a candidate.
    fn at(&mut self, candidate: usize) -> Option<Solved> {
        if let Some(known) = self.known[candidate] {
            return known;
        }
        let solved = self.solve(candidate).map(|units| Solved {
            gain: units.gain,
            bound: units.bound,
            cost: self.cost(self.longest(&units.of)),
        });
        self.known[candidate] = Some(solved);
        solved
    }

    fn cost(&self, rest: f64) -> f64 {
        self.market.efficiency * rest
    }

    /// Returns what a plan is worth at least, by steps towards the better of two neighbours.
    fn climb(&mut self) -> f64 {
        let mut best = f64::NEG_INFINITY;
        let mut worth = |this: &mut Self, candidate: usize| {
            let cost = this.cost(this.candidates[candidate]);
            let value = this.at(candidate).map(|solved| solved.gain - cost);
            best = value.map_or(best, |value| value.max(best));
            value
        };
        let (mut low, mut high) = (0, self.candidates.len().saturating_sub(1));
        while low < high {
            let middle = low + (high - low) / 2;
            match worth(self, middle) < worth(self, middle + 1) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        best
    }

    /// Visits the candidates of a range, shortest remaining times first. Skips ranges in which no
    /// plan can be worth `floor`. The visitor gets the value of a plan, and returns the new floor.
    fn visit(
        &mut self,
        (from, to): (usize, usize),
        floor: f64,
        visitor: &mut dyn FnMut(f64, usize) -> f64,
    ) -> f64 {
        // If the largest remaining time is infeasible, the whole range is.
        let Some(most) = to.checked_sub(1).filter(|last| from <= *last) else {
            return floor;
        };
        let Some(solved) = self.at(most) else {
            return floor;
        };
        if solved.bound - self.cost(self.candidates[from]) < floor {
            return floor;
        }
        if from == most {
            return visitor(solved.gain - solved.cost, most);
        }
        let middle = from + (to - from) / 2;
        let floor = self.visit((from, middle), floor, visitor);
        self.visit((middle, to), floor, visitor)
    }
}
