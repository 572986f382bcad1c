//! What a job's next level would be worth: its plan without the timeline that
//! the plan leaves behind.

use super::job::Job;
use super::timeline::align;

/// Plans on what is free once a job's own plan is given back; keeps its memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Trials {
    /// The moments before the deadline's slot at which what is free changes, `now` first.
    starts: Vec<f64>,
    /// How many of the job's levels fit into what is free there.
    fitting: Vec<usize>,
    /// How long each lasts, by the deadline.
    lengths: Vec<f64>,
}

impl Trials {
    /// The GPU time of a plan for `job` with `share` GPUs in the first interval,
    /// with the numbers of [`Planner::elastic`](super::timeline::Planner::elastic)
    /// on [`give_back`](super::timeline::give_back). `None` where the job would
    /// not end by its deadline's slot, which needs all of the plan.
    pub fn gpu_time(
        &mut self,
        job: &Job,
        now: f64,
        share: u32,
        free: &[(f64, i64)],
        (slot, total): (f64, u32),
    ) -> Option<f64> {
        let until = align(now, job.deadline, slot);
        let next = self.walk(job, until, free)?;
        let mut left = job.left;
        let rate = job.rate(share);
        let real_end = (now + left / rate).ceil();
        let end = align(now, real_end, slot);
        if next >= end && job.deadline >= real_end {
            return Some(f64::from(share) * (end - now));
        }
        if until <= next {
            return None;
        }
        left -= (next - now) * rate;
        self.measure(job);
        let (start, level) = self.latest_start(job, total, next, left)?;
        let (last, end) = self.fill(job, start, level, left, slot)?;
        let mut sum = f64::from(share) * (next - now);
        for i in 1..=last {
            let level = self.level_at(i, start, level);
            if level > 0 {
                let to = self.starts.get(i + 1).copied().unwrap_or(end);
                sum += f64::from(job.levels[level - 1].0) * (to - self.starts[i]);
            }
        }
        Some(sum)
    }

    /// Notes what is free until `until`; gives the second moment of all.
    fn walk(&mut self, job: &Job, until: f64, free: &[(f64, i64)]) -> Option<f64> {
        self.starts.clear();
        self.fitting.clear();
        let (mut f, mut a) = (0, 0);
        let (mut here, mut own) = (0, 0);
        let mut before = None;
        let mut ended = false;
        loop {
            let mut at = f64::INFINITY;
            if let Some((t, _)) = free.get(f) {
                at = *t;
            }
            if let Some((t, _)) = job.alloc.get(a) {
                at = at.min(*t);
            }
            if !ended {
                at = at.min(job.end);
            }
            if at == f64::INFINITY || (at >= until && self.starts.len() > 1) {
                return self.starts.get(1).copied();
            }
            if let Some((t, value)) = free.get(f)
                && *t == at
            {
                here = *value;
                f += 1;
            }
            if let Some((t, gpus)) = job.alloc.get(a)
                && *t == at
            {
                own = i64::from(*gpus);
                a += 1;
            }
            ended |= at >= job.end;
            let value = if ended { here } else { here + own };
            if before == Some(value) {
                continue;
            }
            before = Some(value);
            if at >= until && self.starts.len() == 1 {
                return Some(at);
            }
            self.starts.push(at);
            let fits = job
                .levels
                .iter()
                .take_while(|(g, _)| i64::from(*g) <= value);
            self.fitting.push(fits.count());
        }
    }

    /// The last interval counts until the deadline, not until the end of its slot.
    fn measure(&mut self, job: &Job) {
        self.lengths.clear();
        let ends = self.starts.iter().skip(1).copied().chain([job.deadline]);
        let lengths = self.starts.iter().zip(ends).map(|(start, end)| end - start);
        self.lengths.extend(lengths);
    }

    /// The first interval of the smallest level that does, and that level from 1 on.
    fn latest_start(&self, job: &Job, total: u32, from: f64, left: f64) -> Option<(usize, usize)> {
        let mut fastest = 0.0_f64;
        for (level, &(gpus, rate)) in (1..).zip(&job.levels) {
            if gpus > total {
                break;
            }
            // Even on the fastest level all the time it would not do, rounding included.
            fastest = fastest.max(rate);
            if (job.deadline - from) * fastest * (1.0 + 1e-9) < left {
                continue;
            }
            let mut work = 0.0;
            for i in (1..self.starts.len()).rev() {
                let here = level.min(self.fitting[i]);
                if here > 0 {
                    work += self.lengths[i] * job.levels[here - 1].1;
                    if work >= left {
                        return Some((i, level));
                    }
                }
            }
        }
        None
    }

    fn level_at(&self, i: usize, start: usize, level: usize) -> usize {
        let wanted = if i >= start { level } else { level - 1 };
        wanted.min(self.fitting[i])
    }

    /// The interval in which it ends, and the slot's end then; `None` if rounding leaves a rest.
    fn fill(
        &self,
        job: &Job,
        start: usize,
        level: usize,
        mut left: f64,
        slot: f64,
    ) -> Option<(usize, f64)> {
        for i in 1..self.starts.len() {
            let here = self.level_at(i, start, level);
            if here == 0 {
                continue;
            }
            let rate = job.levels[here - 1].1;
            let work = self.lengths[i] * rate;
            if i < start || work < left {
                left -= work;
            } else {
                let takes = (left / rate).ceil();
                return Some((i, self.starts[i] + align(0.0, takes, slot)));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::timeline::{Planner, Timeline, give_back, gpu_time, merge};
    use super::*;

    /// Numbers that look like chance, from a seed.
    fn draw(seed: &mut u64, below: u64) -> u64 {
        *seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) % below
    }

    #[test]
    fn a_trial_has_the_gpu_time_of_the_whole_plan() {
        let (mut trials, mut planner) = (Trials::default(), Planner::new(60.0, 16));
        let (mut given, mut agreed, mut declined) = (Timeline::new(), 0, 0);
        for seed in 0..20_000_u64 {
            let mut s = seed;
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
}
