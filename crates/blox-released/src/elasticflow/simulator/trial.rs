//! Value of a job's next level: GPU time of its plan, without the resulting timeline.

use super::job::Job;
use super::standing::Basis;
use super::timeline::align;

/// Computes plans on the GPUs that are free without a job's own plan. It reuses its buffers.
#[derive(Clone, Debug, Default)]
pub(super) struct Trials {
    /// Times before the deadline's slot at which the number of free GPUs changes. `now` is the
    /// first.
    starts: Vec<f64>,
    /// Number of the job's levels that fit from each time on.
    fitting: Vec<u8>,
    /// Length of each interval. The last one ends at the deadline instead of the end of its slot.
    lengths: Vec<f64>,
    /// Throughputs by level, starting with no GPUs.
    rates: Vec<f64>,
    /// Number of free GPUs at the previously recorded time.
    before: Option<i64>,
    /// Conditions under which the last result stays valid, if known.
    basis: Option<Basis>,
}

impl Trials {
    /// Returns the GPU time of a plan for `job` with `share` GPUs in the first interval.
    ///
    /// The numbers equal those of [`Planner::elastic`](super::timeline::Planner::elastic) on
    /// [`give_back`](super::timeline::give_back). Returns `None` if the job would not end by its
    /// deadline's slot, which needs the complete plan.
    pub fn gpu_time(
        &mut self,
        job: &Job,
        now: f64,
        share: u32,
        free: &[(f64, i64)],
        (slot, total): (f64, u32),
    ) -> Option<f64> {
        self.basis = None;
        let until = align(now, job.deadline, slot);
        let next = self.walk(job, until, free)?;
        let mut left = job.left;
        let rate = job.rate(share);
        let real_end = (now + left / rate).ceil();
        let end = align(now, real_end, slot);
        if next >= end && job.deadline >= real_end {
            self.basis = Some(Basis::at_once(now, next));
            return Some(f64::from(share) * (end - now));
        }
        left -= (next - now) * rate;
        if until <= next || left <= 0.0 {
            return None;
        }
        self.lengths
            .push(job.deadline - self.starts[self.starts.len() - 1]);
        self.rates.clear();
        self.rates.push(0.0);
        self.rates.extend(job.levels.iter().map(|(_, rate)| *rate));
        let (start, level) = self.latest_start(job, total, next, left)?;
        let (last, rest, end) = self.fill(start, level, left, slot)?;
        if self.is_sure(start, level, last, (left, rest)) {
            let zone = |i: usize| {
                let to = self.starts.get(i + 1);
                (self.starts[i], to.copied().unwrap_or(until))
            };
            let level = usize::from(level);
            self.basis = Some(Basis::by_deadline(
                (now, next, until),
                level,
                [zone(start), zone(last)],
            ));
        }
        let mut sum = f64::from(share) * (next - now);
        for i in 1..=last {
            let level = self.level_at(i, start, level);
            if level > 0 {
                let to = self.starts.get(i + 1).copied().unwrap_or(end);
                sum += f64::from(job.levels[usize::from(level) - 1].0) * (to - self.starts[i]);
            }
        }
        Some(sum)
    }

    /// Returns the conditions under which the last result stays valid, if they are known.
    pub fn basis(&self) -> Option<Basis> {
        self.basis
    }

    /// Returns true if the result does not depend on rounding, so a plan split into other intervals
    /// would be the same.
    ///
    /// The pair has the work before the filling, and the rest in the interval in which the job
    /// ends.
    fn is_sure(&self, start: usize, level: u8, last: usize, (left, rest): (f64, f64)) -> bool {
        let margin = left * 1e-9;
        // Whole seconds are added without rounding.
        let whole = self.starts[0].fract() == 0.0 && self.starts[last].fract() == 0.0;
        let backwards = |level: u8, from: usize| -> f64 {
            let each = (from..self.starts.len()).rev().map(|i| {
                let fits = usize::from(self.fitting[i].min(level));
                self.lengths[i] * self.rates[fits]
            });
            each.sum()
        };
        let enough = backwards(level, start) > left + margin
            && backwards(level, start + 1) < left - margin
            && (1..level).all(|l| backwards(l, 1) < left - margin);
        let rate = self.rates[usize::from(self.level_at(last, start, level))];
        let seconds = rest / rate;
        let between = (seconds - seconds.round()).abs() > 1e-9 * (1.0 + left / rate);
        whole
            && enough
            && rest > margin
            && self.lengths[last] * rate > rest + margin
            && between
            && self.lengths.iter().all(|l| *l > 0.0)
    }

    /// Records the free GPUs until `until`. Returns the second recorded time.
    fn walk(&mut self, job: &Job, until: f64, free: &[(f64, i64)]) -> Option<f64> {
        self.starts.clear();
        self.fitting.clear();
        self.lengths.clear();
        let mut own = Own::of(job);
        let mut here = 0;
        for &(at, value) in free {
            // The job's own plan mostly changes at the same times as the free GPUs.
            while own.next < at {
                let next = own.next;
                own.step();
                if let Some(second) = self.note(job, next, until, here + own.gpus) {
                    return second;
                }
            }
            if own.next == at {
                own.step();
            }
            here = value;
            if let Some(second) = self.note(job, at, until, here + own.gpus) {
                return second;
            }
        }
        while own.next < f64::INFINITY {
            let next = own.next;
            own.step();
            if let Some(second) = self.note(job, next, until, here + own.gpus) {
                return second;
            }
        }
        self.starts.get(1).copied()
    }

    /// Records `value` free GPUs from `at` on. `Some` ends the walk with its result.
    #[inline]
    fn note(&mut self, job: &Job, at: f64, until: f64, value: i64) -> Option<Option<f64>> {
        if at >= until && self.starts.len() > 1 {
            return Some(Some(self.starts[1]));
        }
        if self.before == Some(value) && !self.starts.is_empty() {
            return None;
        }
        self.before = Some(value);
        if let Some(start) = self.starts.last() {
            if at >= until {
                return Some(Some(at));
            }
            self.lengths.push(at - start);
        }
        self.starts.push(at);
        let fits = match job.levels.last() {
            Some((top, _)) if i64::from(*top) <= value => job.levels.len(),
            _ => {
                let fits = |(g, _): &&(u32, f64)| i64::from(*g) <= value;
                job.levels.iter().take_while(fits).count()
            }
        };
        self.fitting.push(fits as u8);
        None
    }

    /// Returns the latest interval in which the smallest sufficient level can start, and that
    /// level, counted from 1.
    fn latest_start(&self, job: &Job, total: u32, from: f64, left: f64) -> Option<(usize, u8)> {
        let (lengths, fitting) = (&self.lengths[1..], &self.fitting[1..]);
        let mut fastest = 0.0_f64;
        for (level, &(gpus, rate)) in (1..).zip(&job.levels) {
            if gpus > total {
                break;
            }
            // The fastest level for the whole time is not enough, even with rounding.
            fastest = fastest.max(rate);
            if (job.deadline - from) * fastest * (1.0 + 1e-9) < left {
                continue;
            }
            let mut work = 0.0;
            for (i, (length, fits)) in lengths.iter().zip(fitting).enumerate().rev() {
                work += length * self.rates[usize::from(*fits.min(&level))];
                if work >= left {
                    return Some((i + 1, level));
                }
            }
        }
        None
    }

    #[inline]
    fn level_at(&self, i: usize, start: usize, level: u8) -> u8 {
        let wanted = if i >= start { level } else { level - 1 };
        wanted.min(self.fitting[i])
    }

    /// Returns the interval in which the job ends, the work left there, and the end of that slot.
    /// Returns `None` if rounding leaves a rest.
    fn fill(&self, start: usize, level: u8, mut left: f64, slot: f64) -> Option<(usize, f64, f64)> {
        for i in 1..self.starts.len() {
            let here = self.level_at(i, start, level);
            if here == 0 {
                continue;
            }
            let rate = self.rates[usize::from(here)];
            let work = self.lengths[i] * rate;
            if i < start || work < left {
                left -= work;
            } else {
                let takes = (left / rate).ceil();
                return Some((i, left, self.starts[i] + align(0.0, takes, slot)));
            }
        }
        None
    }
}

/// Iterator over the changes of a job's own plan until its end.
struct Own<'a> {
    rest: std::slice::Iter<'a, (f64, u32)>,
    end: f64,
    ahead: Option<(f64, u32)>,
    /// Time of the next change, or infinity.
    next: f64,
    gpus: i64,
}

impl<'a> Own<'a> {
    fn of(job: &'a Job) -> Self {
        let mut rest = job.alloc.iter();
        let ahead = rest.next().copied();
        let mut own = Own {
            rest,
            end: job.end,
            ahead,
            next: f64::INFINITY,
            gpus: 0,
        };
        own.look();
        own
    }

    fn look(&mut self) {
        let change = self.ahead.map_or(f64::INFINITY, |(at, _)| at);
        self.next = change.min(self.end);
    }

    /// Advances to `next`.
    fn step(&mut self) {
        if self.next == self.end {
            (self.gpus, self.ahead, self.end) = (0, None, f64::INFINITY);
        } else if let Some((_, gpus)) = self.ahead {
            self.gpus = i64::from(gpus);
            self.ahead = self.rest.next().copied();
        }
        self.look();
    }
}

#[cfg(test)]
mod tests {
    use super::super::standing::changes;
    use super::super::timeline::{Planner, Timeline, give_back, gpu_time, merge};
    use super::*;

    /// Returns pseudo-random numbers from a seed.
    fn draw(seed: &mut u64, below: u64) -> u64 {
        *seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) % below
    }

    /// Returns a job with its first plan on a random timeline, and the resulting timeline.
    fn planned(seed: u64) -> (Job, Timeline, u64) {
        let mut s = seed;
        let mut planner = Planner::new(60.0, 16);
        let mut free: Timeline = vec![(0.0, draw(&mut s, 17) as i64)];
        for _ in 0..draw(&mut s, 12) {
            let at = free.last().map_or(0.0, |(t, _)| *t) + 60.0 * (1 + draw(&mut s, 9)) as f64;
            free.push((at, draw(&mut s, 17) as i64));
        }
        let end = free.last().map_or(0.0, |(t, _)| *t) + 60.0;
        free.push((end, 16));
        merge(&mut free);
        let levels = (0..1 + draw(&mut s, 5)).map(|k| (1 << k, 0.7 * 1.7_f64.powi(k as i32)));
        let mut job = Job {
            left: 1.0 + draw(&mut s, 4000) as f64 / 3.0,
            deadline: draw(&mut s, 3600) as f64,
            levels: levels.collect(),
            ..Job::default()
        };
        let first = planner.elastic(&job, 0.0, None, &free);
        job.alloc.clone_from(&planner.alloc);
        merge(&mut job.alloc);
        job.end = first.end;
        job.num_gpu = job.alloc[0].1;
        let mut rest = planner.after.clone();
        merge(&mut rest);
        (job, rest, s)
    }

    #[test]
    fn a_trial_has_the_gpu_time_of_the_whole_plan() {
        let (mut trials, mut planner) = (Trials::default(), Planner::new(60.0, 16));
        let (mut given, mut agreed, mut declined) = (Timeline::new(), 0, 0);
        for seed in 0..20_000_u64 {
            let (job, rest, _) = planned(seed);
            if job.num_gpu == 0 || job.next_level(job.num_gpu) == job.num_gpu {
                continue;
            }
            let share = job.next_level(job.num_gpu);
            give_back(&rest, &job, 16, &mut given);
            let planned = planner.elastic(&job, 0.0, Some(share), &given);
            match trials.gpu_time(&job, 0.0, share, &rest, (60.0, 16)) {
                Some(time) => {
                    agreed += 1;
                    assert_eq!(time, gpu_time(&planner.alloc, planned.end), "seed {seed}");
                }
                None => declined += 1,
            }
        }
        assert!(agreed > 3000 && declined > 300, "{agreed} {declined}");
    }

    #[test]
    fn an_answer_that_stands_is_that_of_a_new_trial() {
        let mut trials = Trials::default();
        let (mut stood, mut fell, mut would_have) = (0, 0, 0);
        let mut differences = Vec::new();
        for seed in 0..40_000_u64 {
            let (job, mut free, mut s) = planned(seed);
            if job.num_gpu == 0 || job.next_level(job.num_gpu) == job.num_gpu {
                continue;
            }
            let share = job.next_level(job.num_gpu);
            let before = trials.gpu_time(&job, 0.0, share, &free, (60.0, 16));
            let Some(basis) = trials.basis() else {
                continue;
            };
            for _ in 0..6 {
                let old = free.clone();
                for _ in 0..1 + draw(&mut s, 2) {
                    let from = if draw(&mut s, 2) == 0 {
                        0
                    } else {
                        draw(&mut s, 60)
                    };
                    let to = from + 1 + draw(&mut s, 30);
                    let more = draw(&mut s, 9) as i64 - 4;
                    for at in [from, to].map(|k| 60.0 * k as f64) {
                        let i = free.partition_point(|(t, _)| *t < at);
                        if free.get(i).is_none_or(|(t, _)| *t != at) {
                            free.insert(i, (at, free[i - 1].1));
                        }
                    }
                    let span = 60.0 * from as f64..60.0 * to as f64;
                    for (_, value) in free.iter_mut().filter(|(t, _)| span.contains(t)) {
                        *value = (*value + more).clamp(0, 16);
                    }
                }
                merge(&mut free);
                changes(&old, &free, &mut differences);
                let stands = basis.stands(&job, &differences, &free);
                let fresh = trials.gpu_time(&job, 0.0, share, &free, (60.0, 16));
                if !stands {
                    fell += 1;
                    would_have += u32::from(fresh == before);
                    break;
                }
                stood += 1;
                assert_eq!(fresh, before, "seed {seed}");
            }
        }
        println!("{stood} stood, {fell} fell, {would_have} of them without need");
        assert!(stood > 3000 && fell > 3000);
    }
}
