//! Plans on a grid of slots.

use crate::type_sets::Seat;
use blox_core::JobRef;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Free GPUs from each time until the next one; the last entry has no end. Times are seconds,
/// ascending; all but the first are on the grid.
pub(super) type Timeline = Vec<(f64, i64)>;

/// Grid of times that are multiples of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Grid {
    pub slot: f64,
}

impl Grid {
    /// Returns the last grid line at or before `t`.
    pub fn floor(self, t: f64) -> f64 {
        let mut k = (t / self.slot).floor();
        // Division may round across a line; the product decides.
        if k * self.slot > t {
            k -= 1.0;
        } else if (k + 1.0) * self.slot <= t {
            k += 1.0;
        }
        k * self.slot
    }

    /// Returns the first grid line at or after `t`.
    pub fn ceil(self, t: f64) -> f64 {
        let below = self.floor(t);
        if below == t {
            return t;
        }
        self.after(t)
    }

    /// Returns the first grid line after `t`.
    pub fn after(self, t: f64) -> f64 {
        ((self.floor(t) / self.slot).round() + 1.0) * self.slot
    }
}

/// Job as the planner sees it.
#[derive(Clone, Debug)]
pub(super) struct Task {
    /// Remaining iterations.
    pub left: f64,
    /// Last grid line by which it must end; `None` for best effort.
    pub due: Option<f64>,
    /// GPU counts with their iterations per second, both ascending.
    pub levels: Arc<[(u32, f64)]>,
    /// Its place among the sets of GPU types.
    pub seat: Seat,
}

impl Task {
    pub fn of(job: &JobRef<'_>, levels: Arc<[(u32, f64)]>, due: Option<f64>, seat: Seat) -> Self {
        // A job without work gets a slot, too, so that it starts and ends. So does a job that was
        // stopped when only rounding was left.
        let left = job.truth().work_left().max(f64::MIN_POSITIVE);
        Task {
            left,
            due,
            levels,
            seat,
        }
    }

    /// Returns the largest level within `free` GPUs and `share`.
    #[inline]
    pub fn level(&self, free: i64, share: u32) -> (u32, f64) {
        let most = free.min(i64::from(share));
        let fits = self.levels.iter().rev();
        let found = fits.copied().find(|(g, _)| i64::from(*g) <= most);
        found.unwrap_or((0, 0.0))
    }

    /// Returns the next level above `gpus` GPUs.
    #[inline]
    pub fn next(&self, gpus: u32) -> Option<(u32, f64)> {
        self.levels.iter().copied().find(|(g, _)| *g > gpus)
    }

    pub fn top(&self) -> u32 {
        self.levels.last().map_or(0, |(g, _)| *g)
    }
}

/// Returns the levels at which a job is faster than at any smaller level. A job without a profile
/// has one level: its requested GPUs.
pub(super) fn levels_of(job: &JobRef<'_>) -> Arc<[(u32, f64)]> {
    let spec = job.spec();
    let extras = spec.extras();
    let mut levels = Vec::new();
    let mut best = 0.0;
    for (level, rate) in extras.levels.iter().zip(&extras.rates) {
        if *rate > best {
            best = *rate;
            levels.push((level.get(), *rate));
        }
    }
    if levels.is_empty() {
        levels.push((spec.gpus.get(), job.own_rate()));
    }
    levels.into()
}

/// GPUs over time until an end; 0 afterwards.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Plan {
    /// GPUs from each time on, without repetition.
    pub steps: Vec<(f64, u32)>,
    /// Grid line at which the GPUs are free again.
    pub end: f64,
}

impl Plan {
    /// Returns the GPUs at a time.
    pub fn at(&self, t: f64) -> u32 {
        if t >= self.end {
            return 0;
        }
        let step = self.steps.iter().rev().find(|(from, _)| *from <= t);
        step.map_or(0, |(_, gpus)| *gpus)
    }

    /// Returns the next time after `t` at which the plan changes.
    pub fn next_change(&self, t: f64) -> Option<f64> {
        let ends = std::iter::once(self.end);
        let steps = self.steps.iter().map(|(from, _)| *from).chain(ends);
        steps.filter(|from| *from > t).min_by(f64::total_cmp)
    }

    /// Returns its periods of constant GPUs from `from` on, as (start, end, GPUs).
    pub fn stretches(&self, from: f64) -> impl Iterator<Item = (f64, f64, u32)> + '_ {
        let ends = self.steps.iter().skip(1).map(|(t, _)| *t);
        let ends = ends.chain(std::iter::once(self.end));
        self.steps
            .iter()
            .zip(ends)
            .filter_map(move |(&(start, gpus), end)| {
                let start = start.max(from);
                (end > start && gpus > 0).then_some((start, end, gpus))
            })
    }

    /// GPU-seconds from `from` on.
    pub fn gpu_time(&self, from: f64) -> f64 {
        let each = self.stretches(from).map(|(a, b, g)| (b - a) * f64::from(g));
        each.sum()
    }

    fn push(&mut self, at: f64, gpus: u32) {
        if self.steps.last().is_none_or(|(_, g)| *g != gpus) {
            self.steps.push((at, gpus));
        }
    }
}

/// Returns whether the work suffices at admission: it is equal, or larger by more than rounding
/// errors.
fn is_enough(work: f64, left: f64) -> bool {
    work == left || work >= left * (1.0 + 1e-9)
}

/// Adds `gpus` to the free GPUs in `[from, until)`.
pub(super) fn add(line: &mut Timeline, from: f64, until: f64, gpus: i64) {
    let split = |line: &mut Timeline, at: f64| -> usize {
        let i = line.partition_point(|(t, _)| *t < at);
        if line.get(i).is_none_or(|(t, _)| *t != at) && i > 0 {
            line.insert(i, (at, line[i - 1].1));
        }
        i
    };
    let a = split(line, from);
    let b = split(line, until);
    for entry in &mut line[a..b] {
        entry.1 += gpus;
    }
    line.dedup_by(|next, kept| next.1 == kept.1);
}

/// Returns whether all GPUs of a plan are free.
pub(super) fn fits(line: &Timeline, plan: &Plan, now: f64) -> bool {
    plan.stretches(now).all(|(start, end, gpus)| {
        let ends = line.iter().skip(1).map(|(t, _)| *t).chain([f64::MAX]);
        line.iter()
            .zip(ends)
            .all(|(&(t, free), next)| next <= start || t >= end || free >= i64::from(gpus))
    })
}

/// Returns the work that a plan does from `now` on.
pub(super) fn work_of(task: &Task, plan: &Plan, now: f64) -> f64 {
    let each = plan
        .stretches(now)
        .map(|(a, b, gpus)| (b - a) * task.level(gpus.into(), gpus).1);
    each.sum()
}

/// Plan that is complete up to a time, and the work that it leaves.
pub(super) struct Begun {
    pub plan: Plan,
    pub upto: f64,
    pub left: f64,
}

impl Begun {
    pub fn nothing(task: &Task, now: f64) -> Self {
        Begun {
            plan: Plan::default(),
            upto: now,
            left: task.left,
        }
    }
}

/// Completes a begun plan with at most `share` GPUs, as early as possible.
pub(super) fn fill(
    task: &Task,
    grid: Grid,
    line: &Timeline,
    share: u32,
    begun: Begun,
) -> Option<Plan> {
    let Begun {
        mut plan,
        upto: from,
        left: mut rest,
    } = begun;
    for (start, stop, free) in periods(line, from, f64::MAX) {
        let (gpus, rate) = task.level(free, share);
        plan.push(start, gpus);
        if gpus == 0 {
            continue;
        }
        let work = (stop - start) * rate;
        if stop == f64::MAX || is_enough(work, rest) {
            let end = grid.ceil(start + rest / rate).max(grid.after(start));
            let end = end.min(stop);
            // Rounding must not end a plan before its work is done.
            let short = (end - start) * rate < rest;
            plan.end = if short && end < stop {
                grid.after(end)
            } else {
                end
            };
            return Some(plan);
        }
        // Work that suffices only by rounding leaves a rest for another slot.
        rest = (rest - work).max(rest * 1e-12);
    }
    None
}

/// Returns the periods of constant free GPUs in `[from, until)`, as (start, end, free GPUs).
fn periods(
    line: &Timeline,
    from: f64,
    until: f64,
) -> impl DoubleEndedIterator<Item = (f64, f64, i64)> + '_ {
    let period = move |i: usize| {
        let (start, free) = line[i];
        let end = line.get(i + 1).map_or(f64::MAX, |next| next.0);
        (start.max(from), end.min(until), free)
    };
    let all = (0..line.len()).map(period);
    all.filter(|(start, end, _)| start < end)
}

/// Completes a begun plan with the smallest share that ends by the deadline (minimum satisfactory
/// share by progressive filling; algorithm 1 of the paper). Returns `None` if there is none.
///
/// The share rises by one level at a time, in the last slot first. As soon as the work is done,
/// earlier slots keep the level below.
pub(super) fn minimum(task: &Task, grid: Grid, line: &Timeline, begun: Begun) -> Option<Plan> {
    let due = task.due?;
    let from = begun.upto;
    let work = |share: u32| -> f64 {
        let each = periods(line, from, due).map(|(a, b, free)| (b - a) * task.level(free, share).1);
        each.sum()
    };
    // The first comparison holds if the share would be too small even on an empty cluster.
    let left = begun.left;
    let short = |rate: f64, share| (due - from) * rate < left || !is_enough(work(share), left);
    let level = task.levels.iter().position(|(g, rate)| !short(*rate, *g))?;
    let share = task.levels[level].0;
    // Rounding of its progress must not make a job late.
    let left = work(share).min(left * (1.0 + 1e-8));
    let below = level.checked_sub(1).map_or(0, |l| task.levels[l].0);
    // Slots from `turn` on have the share.
    let (mut turn, mut done) = (due, work(below));
    for (start, end, free) in periods(line, from, due).rev() {
        let gain = task.level(free, share).1 - task.level(free, below).1;
        let all = done + (end - start) * gain;
        if gain > 0.0 && is_enough(all, left) {
            let last = grid.floor(end - (left - done) / gain);
            let enough = is_enough(done + (end - last) * gain, left);
            turn = if enough { last } else { last - grid.slot }.max(start);
            break;
        }
        (turn, done) = (start, all);
    }
    let mut plan = begun.plan;
    for (start, end, free) in periods(line, from, due) {
        if start < turn {
            plan.push(start, task.level(free, below).0);
        }
        if turn < end {
            plan.push(start.max(turn), task.level(free, share).0);
        }
    }
    plan.end = due;
    if let Some((at, 0)) = plan.steps.last() {
        plan.end = *at;
        plan.steps.pop();
    }
    Some(plan)
}

/// Returns the plan with as many GPUs as the job can use, as early as possible, ignoring the
/// deadline.
pub(super) fn greedy(task: &Task, grid: Grid, line: &Timeline, now: f64) -> Option<Plan> {
    fill(task, grid, line, task.top(), Begun::nothing(task, now))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRID: Grid = Grid { slot: 60.0 };
    const SEAT: Seat = Seat {
        set: 0,
        weight: 1.0,
    };

    fn task(left: f64, due: f64) -> Task {
        Task {
            left,
            due: Some(due),
            levels: [(1, 1.0), (2, 1.8), (4, 3.0)].into(),
            seat: SEAT,
        }
    }

    #[test]
    fn lines_are_multiples_whatever_rounds() {
        let grid = Grid { slot: 0.1 };
        for k in 0..10_000 {
            let line = f64::from(k) * 0.1;
            assert_eq!(grid.floor(line), line);
            assert_eq!(grid.ceil(line), line);
            assert!(grid.after(line) > line);
            assert!(grid.floor(line.next_up()) <= line.next_up());
        }
    }

    #[test]
    fn the_smallest_share_that_does() {
        let minimum_of = |left: f64| {
            let task = task(left, 240.0);
            let begun = Begun::nothing(&task, 0.0);
            minimum(&task, GRID, &vec![(0.0, 4)], begun)
        };
        // 300 by 240 s: one GPU does 240, and two do 0.8 more a second.
        let plan = minimum_of(300.0).unwrap();
        assert_eq!((plan.steps, plan.end), (vec![(0.0, 1), (120.0, 2)], 240.0));
        // Work that just fits is enough.
        let plan = minimum_of(240.0).unwrap();
        assert_eq!((plan.steps, plan.end), (vec![(0.0, 1)], 240.0));
        assert_eq!(minimum_of(721.0), None);
    }

    #[test]
    fn work_that_just_fits_gets_a_further_slot() {
        let task = task(120.0, 240.0);
        let plan = minimum(&task, GRID, &vec![(0.0, 4)], Begun::nothing(&task, 0.0)).unwrap();
        assert_eq!(plan.steps, [(0.0, 0), (60.0, 1)]);
    }

    #[test]
    fn fill_taken_gpus_goes_around_them() {
        let line = vec![(0.0, 0), (60.0, 1), (120.0, 4)];
        let task = task(200.0, 240.0);
        let planned = |slot: f64| {
            let begun = Begun::nothing(&task, 0.0);
            minimum(&task, Grid { slot }, &line, begun).unwrap()
        };
        // One GPU does 180 from 60 s on, and two do the rest in the last 25 s: one-second slots
        // show it.
        let plan = planned(1.0);
        assert_eq!(plan.steps, [(0.0, 0), (60.0, 1), (214.0, 2)]);
        assert_eq!((plan.end, plan.gpu_time(0.0)), (240.0, 154.0 + 2.0 * 26.0));
        let plan = planned(60.0);
        assert_eq!(plan.steps, [(0.0, 0), (60.0, 1), (180.0, 2)]);
        assert_eq!(plan.end, 240.0);
        assert!(fits(&line, &plan, 0.0));
        assert!(!fits(&vec![(0.0, 0), (120.0, 4)], &plan, 0.0));
    }
}
