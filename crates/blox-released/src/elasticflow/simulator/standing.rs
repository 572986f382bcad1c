//! Conditions under which the result of a trial stays valid although the free GPUs have changed.
//!
//! A trial depends on the level that fits at each time before the deadline. It also depends on a
//! few of the times at which the number of free GPUs changes. These are the first one, the ones
//! around the interval where the larger share begins, and the ones around the interval in which the
//! job ends. All other times only split sums into parts, which changes them by rounding. If
//! rounding decides a trial, it gets no [`Basis`].

use super::job::Job;

/// A change of the free GPUs in `[from, to)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Change {
    from: f64,
    to: f64,
    /// The smaller and the larger of the old and new number of free GPUs.
    values: (i64, i64),
}

/// Collects the differences of two timelines with the same first time.
pub(super) fn changes(old: &[(f64, i64)], new: &[(f64, i64)], into: &mut Vec<Change>) {
    into.clear();
    let (mut i, mut k) = (0, 0);
    let next = |line: &[(f64, i64)], i: usize| line.get(i + 1).map_or(f64::INFINITY, |e| e.0);
    let Some(mut from) = old.first().map(|e| e.0) else {
        return;
    };
    while from < f64::INFINITY && k < new.len() {
        let to = next(old, i).min(next(new, k));
        let (a, b) = (old[i].1, new[k].1);
        if a != b {
            let values = (a.min(b), a.max(b));
            into.push(Change { from, to, values });
        }
        i += usize::from(next(old, i) == to && to < f64::INFINITY);
        k += usize::from(next(new, k) == to && to < f64::INFINITY);
        from = to;
    }
}

/// Conditions for the validity of a trial's result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Basis {
    now: f64,
    /// First time after `now` at which the number of free GPUs changes, without the job's own plan.
    /// The job has the tried share until then.
    second: f64,
    /// Slot of the deadline, or `second` if the trial did not use anything later.
    until: f64,
    /// Final level of the job, counted from 1.
    level: usize,
    /// Intervals up to `until` that must stay unchanged.
    zones: [(f64, f64); 2],
}

impl Basis {
    /// Conditions for a job that ends before any change.
    pub fn at_once(now: f64, second: f64) -> Self {
        let zones = [(now, second); 2];
        Basis {
            now,
            second,
            until: second,
            level: 0,
            zones,
        }
    }

    /// Conditions for a job that ends by its deadline.
    pub fn by_deadline(
        (now, second, until): (f64, f64, f64),
        level: usize,
        zones: [(f64, f64); 2],
    ) -> Self {
        Basis {
            now,
            second,
            until,
            level,
            zones,
        }
    }

    /// Returns true if the same trial has the same result after these changes, which lead to
    /// `free`. Nothing else may have changed.
    pub fn stands(&self, job: &Job, changes: &[Change], free: &[(f64, i64)]) -> bool {
        if change_after(free, job, self.now) != self.second {
            return false;
        }
        let mut touched = [false; 2];
        let of_level = |level: usize| job.levels.get(level).map_or(0, |(gpus, _)| *gpus);
        let top = self.level.checked_sub(1).map_or(0, of_level);
        for change in changes {
            if change.from >= self.until || change.to < self.second {
                continue;
            }
            for (zone, touched) in self.zones.iter().zip(&mut touched) {
                *touched |= change.from <= zone.1 && change.to >= zone.0;
            }
            if change.values.0 < i64::from(top) && self.fits_otherwise(job, change) {
                return false;
            }
        }
        let zones = self.zones.iter().zip(touched);
        zones
            .filter(|(_, touched)| *touched)
            .all(|((from, to), _)| {
                (*from == self.second || is_change(free, job, *from))
                    && change_after(free, job, *from).min(self.until) == *to
            })
    }

    /// Returns true if another level fits than before at some time of a change.
    fn fits_otherwise(&self, job: &Job, change: &Change) -> bool {
        let (from, to) = (change.from.max(self.second), change.to.min(self.until));
        let levels = &job.levels[..self.level.min(job.levels.len())];
        let fits = |free: i64| {
            levels
                .iter()
                .take_while(|(g, _)| i64::from(*g) <= free)
                .count()
        };
        let differs = |own: u32| {
            let own = i64::from(own);
            fits(change.values.0 + own) != fits(change.values.1 + own)
        };
        let mut at = from;
        while at < to {
            if differs(own(job, at)) {
                return true;
            }
            at = own_change_after(job, at);
        }
        false
    }
}

/// Returns the GPUs of the job's own plan at a time.
fn own(job: &Job, at: f64) -> u32 {
    if at >= job.end {
        return 0;
    }
    let last = job.alloc.iter().rev().find(|(t, _)| *t <= at);
    last.map_or(0, |(_, gpus)| *gpus)
}

fn own_change_after(job: &Job, at: f64) -> f64 {
    let change = job.alloc.iter().map(|(t, _)| *t).find(|t| *t > at);
    let change = change.unwrap_or(f64::INFINITY);
    if job.end > at {
        change.min(job.end)
    } else {
        f64::INFINITY
    }
}

/// Returns the free GPUs at a time, without the job's own plan.
fn value(free: &[(f64, i64)], job: &Job, at: f64) -> i64 {
    let i = free.partition_point(|(t, _)| *t <= at);
    let here = i.checked_sub(1).map_or(0, |i| free[i].1);
    here + i64::from(own(job, at))
}

/// Returns the first time after `at` at which the number of free GPUs changes. Every time of `free`
/// but the first is a change.
fn change_after(free: &[(f64, i64)], job: &Job, at: f64) -> f64 {
    let mut i = free.partition_point(|(t, _)| *t <= at);
    let mut gpus = own(job, at);
    let mut own_next = own_change_after(job, at);
    loop {
        let line = free.get(i).map_or(f64::INFINITY, |(t, _)| *t);
        if line < own_next {
            return line;
        }
        if own_next == f64::INFINITY {
            return own_next;
        }
        let then = own(job, own_next);
        let mut more = i64::from(then) - i64::from(gpus);
        if line == own_next {
            more += free[i].1 - i.checked_sub(1).map_or(0, |i| free[i].1);
            i += 1;
        }
        if more != 0 {
            return own_next;
        }
        gpus = then;
        own_next = own_change_after(job, own_next);
    }
}

/// Returns true if the number of free GPUs changes at this time.
fn is_change(free: &[(f64, i64)], job: &Job, at: f64) -> bool {
    value(free, job, at.next_down()) != value(free, job, at)
}
