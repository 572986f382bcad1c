//! Shockwave's own policy in its simulator.

use super::batches::Adapting;
use super::fair::FairEnd;
use super::fairly::FairMarket;
use super::job::Job;
use blox_core::{JobId, SortedMap};
use blox_policies::scheduling::gavel::{Chosen, Combination};
use blox_policies::scheduling::shockwave::{Bidder, Regimes};

/// Shockwave's own policy: a [`FairMarket`] over the next rounds.
///
/// It replans after an arrival or an end, and every eighth round.
///
/// Differences from [`Shockwave`](blox_policies::scheduling::shockwave::Shockwave):
///
/// - It plans with a [`FairMarket`]. Fair times weigh the last estimate by one tenth.
/// - Its prediction of regimes counts the next epoch, and keeps the sum of the prior.
/// - Its clock counts rounds of full length, although rounds may end early.
/// - Epochs last whole seconds.
/// - Fairness compares times on that clock instead of times since submission. The later a job
///   arrives, the less its lateness counts.
/// - It assumes that a job has run since the first round. Epochs are rescaled if the measured
///   samples differ from the profile by more than two fifths.
#[derive(Clone, Debug)]
pub(super) struct Planner {
    market: FairMarket,
    /// Number of rounds so far.
    round: u64,
    /// Rounds since the last periodic replanning.
    waited: u32,
    /// True if a plan is due.
    due: bool,
    known: SortedMap<JobId, Known>,
    /// Round in which the plan was made, and the jobs of each planned round.
    plan: (u64, Vec<Vec<JobId>>),
}

/// Maximum number of rounds between two plans.
const PERIOD: u32 = 8;
/// Allowed relative difference between measured samples and the profile.
const ACCURATE: f64 = 0.4;

/// State of a job in the policy.
#[derive(Clone, Debug)]
struct Known {
    submit: f64,
    regimes: Regimes,
    /// Length of epochs, relative to the profile.
    scale: f64,
    fair: FairEnd,
    /// Round of the last measurement, and the number of samples measured until then.
    measured: (u64, f64),
}

impl Planner {
    pub(super) fn new(market: FairMarket) -> Self {
        Planner {
            market,
            round: 0,
            waited: 0,
            due: true,
            known: SortedMap::new(),
            plan: (0, Vec::new()),
        }
    }

    fn replan(&mut self, batches: &[Adapting], jobs: &[Job], gpus: u32) -> Result<(), String> {
        let clock = self.market.market.round_s * self.round as f64;
        let share = (f64::from(gpus) / jobs.len() as f64).min(1.0);
        let changed = self.known.len() != jobs.len()
            || self.known.values().any(|k| k.fair.value(0.0).is_none());
        self.known
            .retain(|id, _| jobs.binary_search_by_key(id, |j| j.id).is_ok());
        let mut bidders = Vec::with_capacity(jobs.len());
        for job in jobs {
            let known = self.known.get_mut(&job.id);
            let (Some(known), Some(adapting)) = (known, batches.get(job.id.index())) else {
                return Err(format!("nothing is known of job {}", job.id));
            };
            known.calibrate(adapting.job.samples, self.market.market.round_s);
            let regimes = &known.regimes;
            let epoch = (job.done / adapting.steps_per_epoch(adapting.batch)).floor() as usize;
            let epoch = epoch.min(regimes.epochs());
            let remaining_s = remaining_s(regimes, epoch);
            let remaining_s = match epoch == regimes.epochs() {
                true => remaining_s,
                false => remaining_s * known.scale,
            };
            if changed {
                let end = (regimes.past_s(epoch) * known.scale + remaining_s) / share;
                known.fair.estimate(self.round as f64, known.submit + end);
            }
            bidders.push(Bidder {
                gpus: job.gpus,
                length: regimes.epochs() as f64,
                done: epoch as f64,
                pace_s: regimes.pace_s(epoch) * known.scale,
                remaining_s,
                age_s: clock,
                fair_s: known.fair.value(self.round as f64).unwrap_or(clock),
            });
        }
        let rounds = self.market.plan(gpus, &bidders);
        let rounds = rounds.map_err(|e| e.to_string())?;
        let ids = |round: Vec<usize>| round.into_iter().map(|i| jobs[i].id).collect();
        self.plan = (self.round, rounds.into_iter().map(ids).collect());
        self.due = false;
        Ok(())
    }

    /// Adds a job with its profile. A job without a profile counts as one epoch of one round.
    pub(super) fn admit(&mut self, job: &Job, profile: &[(u32, f64)], clock: f64) {
        // Half seconds are rounded to the even neighbour.
        let whole = |(batch, s): &(u32, f64)| (*batch, s.round_ties_even().max(1.0));
        let epochs: Vec<(u32, f64)> = profile.iter().map(whole).collect();
        let regimes = Regimes::new(&epochs)
            .or_else(|| Regimes::new(&[(0, self.market.market.round_s)]))
            .unwrap_or_default();
        let known = Known {
            submit: clock,
            regimes,
            scale: 1.0,
            fair: FairEnd::default(),
            measured: (0, 0.0),
        };
        self.known.insert(job.id, known);
        self.due = true;
    }

    /// Counts the samples of a job that ran at `rate` steps per second with a batch.
    pub(super) fn measured(&mut self, job: &Job, rounds: u64, batch: u32, rate: f64) {
        if let Some(known) = self.known.get_mut(&job.id) {
            let (before, samples) = known.measured;
            let time = self.market.market.round_s * rounds.saturating_sub(before) as f64;
            known.measured = (rounds, samples + f64::from(batch) * rate * time);
        }
    }

    pub(super) fn round_ended(&mut self, clock: f64) {
        if clock != 0.0 {
            self.round += 1;
            self.waited += 1;
            if self.waited >= PERIOD {
                self.waited = 0;
                self.due = true;
            }
        }
    }

    pub(super) fn choose(
        &mut self,
        batches: &[Adapting],
        jobs: &[Job],
        free: &[u32],
    ) -> Result<Vec<Chosen>, String> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let planned = |p: &Planner| {
            let at = usize::try_from(p.round - p.plan.0).ok()?;
            p.plan.1.get(at).cloned()
        };
        // The program does not report ends to its policy.
        self.due |= self.known.len() != jobs.len();
        if self.due || planned(self).is_none() {
            // All GPUs are of one type.
            let gpus = free.first().copied().unwrap_or(0);
            self.replan(batches, jobs, gpus)?;
        }
        let chosen = planned(self).unwrap_or_default().into_iter();
        let chosen = chosen.filter_map(|id| {
            let at = jobs.binary_search_by_key(&id, |j| j.id).ok()?;
            Some(Chosen {
                who: Combination::single(id),
                kind: 0,
                gpus: jobs[at].gpus,
                known: true,
            })
        });
        Ok(chosen.collect())
    }
}

impl Known {
    /// Compares the measured samples with the profile, from the first round to the last
    /// measurement.
    fn calibrate(&mut self, samples: u32, round_s: f64) {
        let (rounds, measured) = self.measured;
        let time = round_s * rounds as f64;
        if rounds == 0 || measured <= 0.0 {
            return;
        }
        let samples = f64::from(samples);
        let done = self.regimes.done_after(time);
        let rest = time - self.regimes.past_s(done);
        let mut expected = samples * done as f64;
        if rest > 0.0 {
            let last = done.min(self.regimes.epochs() - 1);
            let epoch = self.regimes.past_s(last + 1) - self.regimes.past_s(last);
            expected += samples * rest / (epoch * self.scale);
        }
        if expected > 0.0 && (measured - expected).abs() / expected > ACCURATE {
            self.scale = expected / measured;
        }
    }
}

/// Predicted seconds that the rest of a job takes alone, after `done` epochs. The batch size of the
/// next epoch is known, so that epoch counts as observed. Returns 1 if nothing is left.
fn remaining_s(regimes: &Regimes, done: usize) -> f64 {
    let all = regimes.epochs();
    let done = done.min(all);
    let left = (all - done) as f64;
    let seen = regimes.counts(done + 1);
    let prior = all as f64 / seen.len() as f64;
    let observed = seen.iter().sum::<u32>();
    let scale = all as f64 / (all as f64 + f64::from(observed));
    let mut rest: Vec<f64> = seen
        .iter()
        .map(|n| (prior + f64::from(*n)) * scale)
        .collect();
    for (rest, seen) in rest.iter_mut().zip(&seen) {
        *rest -= rest.floor().min(f64::from(*seen));
    }
    let predicted = (rest.iter().sum::<f64>() + 1.0).trunc().max(left);
    if left <= 0.0 || predicted <= 0.0 {
        return 1.0;
    }
    let each = rest.iter().zip(regimes.seconds());
    each.map(|(epochs, s)| epochs * s).sum::<f64>() * (left / predicted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prediction_counts_the_next_epoch() {
        let one = Regimes::new(&[(32, 10.0); 8]).unwrap();
        assert_eq!(remaining_s(&one, 0), 70.0);
        assert_eq!(remaining_s(&one, 5), 20.0);
        assert_eq!(remaining_s(&one, 8), 1.0);
    }

    #[test]
    fn what_was_seen_moves_the_prediction() {
        // Four epochs of 30 s, then four of 10 s.
        let epochs = [[(16, 30.0); 4], [(32, 10.0); 4]].concat();
        let two = Regimes::new(&epochs).unwrap();
        // Prior 4 and 4, one of the first seen: 8/9 of 5 and of 4, less one seen.
        let first = 40.0 / 9.0 - 1.0;
        let second = 32.0 / 9.0;
        let predicted = (first * 30.0 + second * 10.0) * (8.0 / 8.0);
        assert!((remaining_s(&two, 0) - predicted).abs() < 1e-12);
        assert!(
            remaining_s(&two, 4) > 40.0,
            "it expects some slow epochs still"
        );
    }
}
