//! Free GPUs over time, and the original's plans on them.

use super::job::Job;

/// Free GPUs from each time to the next. The last entry has no end.
pub(super) type Timeline = Vec<(f64, i64)>;

/// Removes entries that do not change the value.
pub(super) fn merge<V: PartialEq + Copy>(line: &mut Vec<(f64, V)>) {
    line.dedup_by(|next, kept| next.1 == kept.1);
}

#[inline]
fn position(line: &[(f64, i64)], at: f64) -> Option<usize> {
    line.iter().position(|(t, _)| *t == at)
}

/// Sets the value from a time on, and adds the time if it is new.
fn set<V>(line: &mut Vec<(f64, V)>, at: f64, value: V) {
    let i = line.partition_point(|(t, _)| *t < at);
    match line.get_mut(i) {
        Some(entry) if entry.0 == at => entry.1 = value,
        _ => line.insert(i, (at, value)),
    }
}

/// Returns the value at a time: the one of the last key at or before it.
fn value_at(line: &[(f64, i64)], at: f64, otherwise: i64) -> i64 {
    let last = line.iter().rev().find(|(t, _)| *t <= at);
    last.map_or(otherwise, |(_, v)| *v)
}

/// Rounds `time` up to `start` plus a multiple of `slot`.
fn align(start: f64, time: f64, slot: f64) -> f64 {
    let slots = ((time - start) / slot).floor();
    let aligned = start + slots * slot;
    if time - start - slots * slot > 0.0 {
        start + (slots + 1.0) * slot
    } else {
        aligned
    }
}

/// Returns the GPU-seconds of an allocation until `end`.
pub(super) fn gpu_time(alloc: &[(f64, u32)], end: f64) -> f64 {
    let mut sum = 0.0;
    for w in alloc.windows(2) {
        sum += f64::from(w[0].1) * (w[1].0 - w[0].0);
    }
    sum + alloc.last().map_or(0.0, |(t, g)| f64::from(*g) * (end - t))
}

/// Result of a plan. The allocation and the timeline after it are stored in the [`Planner`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Planned {
    /// End of the job, rounded up to slots.
    pub end: f64,
    /// Time at which the work is done.
    pub real_end: f64,
    /// True if the work is done by the deadline.
    pub met: bool,
}

impl Planned {
    fn at(job: &Job, end: f64, real_end: f64) -> Self {
        Planned {
            end,
            real_end,
            met: real_end <= job.deadline,
        }
    }
}

/// Plans jobs on a timeline. It reuses its buffers.
#[derive(Clone, Debug, Default)]
pub(super) struct Planner {
    pub slot: f64,
    pub total: u32,
    /// Planned GPUs over time, not merged.
    pub alloc: Vec<(f64, u32)>,
    /// Free GPUs after the plan, not merged.
    pub after: Timeline,
}

impl Planner {
    pub fn new(slot: f64, total: u32) -> Self {
        Planner {
            slot,
            total,
            ..Planner::default()
        }
    }

    /// Plans minimum satisfactory share and progressive filling.
    ///
    /// The plan begins at `now`, the first key of `free`. With `forced`, it has that number of GPUs
    /// in the first interval.
    pub fn elastic(
        &mut self,
        job: &Job,
        now: f64,
        forced: Option<u32>,
        free: &[(f64, i64)],
    ) -> Planned {
        let slot = self.slot;
        let mut left = job.left;
        let until = align(now, job.deadline, slot);
        self.alloc.clear();
        self.alloc.push((now, 0));
        self.after.clear();
        self.after.extend_from_slice(free);
        if until >= now && position(free, until).is_none() {
            let before = value_at(free, until, i64::from(self.total));
            set(&mut self.after, until, before);
        }
        let mut from = now;
        if let Some(share) = forced {
            let next = free.iter().map(|(t, _)| *t).find(|t| *t > now);
            let next = next.unwrap_or(until);
            self.alloc[0].1 = share;
            let rate = job.rate(share);
            let real_end = (now + left / rate).ceil();
            let end = align(now, real_end, slot);
            let available = value_at(free, now, i64::from(self.total));
            if next >= end && job.deadline >= real_end {
                if end != now {
                    set(&mut self.after, now, available - i64::from(share));
                }
                if position(free, end).is_none() {
                    set(&mut self.after, end, available);
                }
                return Planned::at(job, end, real_end);
            }
            let length = if next == until { job.deadline } else { next } - now;
            left -= length * rate;
            set(&mut self.after, now, available - i64::from(share));
            from = next;
            set(&mut self.alloc, next, 0);
        }
        if let Some(done) = self.by_deadline(job, from, until, &mut left, free) {
            return done;
        }
        self.past_deadline(job, now, from, until, left, forced, free)
    }

    /// Plans the smallest share with which the job ends by its deadline, filled forward.
    ///
    /// If no share is enough, plans the work until the deadline at the top share and returns
    /// `None`.
    fn by_deadline(
        &mut self,
        job: &Job,
        from: f64,
        until: f64,
        left: &mut f64,
        free: &[(f64, i64)],
    ) -> Option<Planned> {
        let (mut share, mut last) = (job.next_level(0), 0);
        let most = self.total.min(job.top());
        let (mut named, mut fastest) = (false, 0.0_f64);
        while share > 0 && share <= most {
            if !std::mem::replace(&mut named, true) {
                self.name_moments(until);
            }
            // The fastest level for the whole time is not enough, even with rounding.
            fastest = fastest.max(job.rate(share));
            let hopeless = (job.deadline - from) * fastest * (1.0 + 1e-9) < *left;
            if !hopeless && let Some(start) = self.latest_start(job, share, from, until, *left) {
                return Some(self.fill(job, (last, share), start, from, until, left, free));
            }
            last = share;
            share = job.next_level(share);
            if share == last {
                break;
            }
        }
        self.walk(job, (last, last), f64::INFINITY, (from, until), left);
        None
    }

    /// Adds every time before the deadline to the allocation, used or not.
    fn name_moments(&mut self, until: f64) {
        let last = self.alloc.last().map_or(f64::MIN, |(t, _)| *t);
        for &(t, _) in self.after.iter().take_while(|(t, _)| *t < until) {
            if t > last {
                self.alloc.push((t, 0));
            } else if !self.alloc.iter().any(|(at, _)| *at == t) {
                set(&mut self.alloc, t, 0);
            }
        }
    }

    /// Searches backwards from the deadline. Returns the latest start of a job with this share.
    fn latest_start(&self, job: &Job, share: u32, from: f64, until: f64, left: f64) -> Option<f64> {
        let (mut end, mut work) = (until, 0.0);
        for &(start, free) in self.after.iter().rev() {
            if start >= until {
                continue;
            }
            if start < from {
                break;
            }
            let gpus = if free >= i64::from(share) {
                share
            } else {
                job.level(free)
            };
            if gpus > 0 {
                let length = if end == until { job.deadline } else { end } - start;
                work += length * job.rate(gpus);
                if work >= left {
                    return Some(start);
                }
            }
            end = start;
        }
        None
    }

    /// Fills forward. Before `start`, the job has the largest share that was too small.
    #[allow(clippy::too_many_arguments, reason = "one caller, just above")]
    fn fill(
        &mut self,
        job: &Job,
        shares: (u32, u32),
        start: f64,
        from: f64,
        until: f64,
        left: &mut f64,
        free: &[(f64, i64)],
    ) -> Planned {
        let (last, done) = self.walk(job, shares, start, (from, until), left);
        let (begin, gpus) = match last {
            Some((i, gpus)) => {
                if !done {
                    // Rounding left some work, so the job ends after the deadline's slot.
                    self.use_at(i, gpus);
                }
                (self.after[i].0, gpus)
            }
            None => (from, shares.1),
        };
        let takes = (*left / job.rate(gpus)).ceil();
        let end = begin + align(0.0, takes, self.slot);
        let real_end = begin + takes;
        let earlier = free.iter().rev().find(|(t, _)| *t >= from && *t < end);
        if position(free, end).is_none() {
            let value = earlier.map_or(i64::from(self.total), |(_, v)| *v);
            set(&mut self.after, end, value);
        }
        Planned::at(job, end, real_end)
    }

    /// Uses GPUs until the deadline's slot: the first share before `start`, then the second one.
    ///
    /// Returns the last interval with its number of GPUs, and true if the work ends in it.
    fn walk(
        &mut self,
        job: &Job,
        shares: (u32, u32),
        start: f64,
        (from, until): (f64, f64),
        left: &mut f64,
    ) -> (Option<(usize, u32)>, bool) {
        let mut at: Option<(usize, u32)> = None;
        for i in 0..self.after.len() {
            let (t, here) = self.after[i];
            if t > until {
                break;
            }
            if t < from {
                continue;
            }
            let share = if t >= start { shares.1 } else { shares.0 };
            let next = share.min(job.level(here));
            let Some((prev, gpus)) = at.replace((i, next)) else {
                continue;
            };
            let begin = self.after[prev].0;
            self.use_at(prev, gpus);
            if gpus == 0 {
                continue;
            }
            let length = if t == until { job.deadline } else { t } - begin;
            let work = length * job.rate(gpus);
            if begin < start || work < *left {
                *left -= work;
            } else {
                return (Some((prev, gpus)), true);
            }
        }
        (at, false)
    }

    fn use_at(&mut self, i: usize, gpus: u32) {
        let t = self.after[i].0;
        self.after[i].1 -= i64::from(gpus);
        set(&mut self.alloc, t, gpus);
    }

    /// Plans the remaining work after the deadline on all free GPUs.
    #[allow(clippy::too_many_arguments, reason = "one caller, just above")]
    fn past_deadline(
        &mut self,
        job: &Job,
        now: f64,
        from: f64,
        until: f64,
        mut left: f64,
        forced: Option<u32>,
        free: &[(f64, i64)],
    ) -> Planned {
        let mut last = if until >= from { until } else { from };
        for i in 0..self.after.len() {
            let key = self.after[i].0;
            if key <= until {
                continue;
            }
            let here = value_at(&self.after, last, i64::from(self.total));
            let gpus = job.level(here);
            set(&mut self.alloc, last, gpus);
            if gpus > 0 {
                let rate = job.rate(gpus);
                let work = (key - last) * rate;
                if work >= left {
                    let real_end = (last + left / rate).ceil();
                    let end = align(now, real_end, self.slot);
                    let given = free.iter().rev().find(|(t, _)| *t < end);
                    let given = given.map_or(i64::from(self.total), |(_, v)| *v);
                    if last != end {
                        set(&mut self.after, last, given - i64::from(gpus));
                    }
                    if position(free, end).is_none() {
                        set(&mut self.after, end, given);
                    }
                    return Planned::at(job, end, real_end);
                }
                left -= work;
                let passed = self.after.iter_mut();
                for entry in passed.filter(|(t, _)| *t >= last && *t < key) {
                    entry.1 -= i64::from(gpus);
                }
            }
            last = key;
        }
        let gpus = forced.unwrap_or_else(|| job.level(i64::from(self.total)));
        set(&mut self.alloc, last, gpus);
        let real_end = (last + left / job.rate(gpus)).ceil();
        let end = align(now, real_end, self.slot);
        set(
            &mut self.after,
            last,
            i64::from(self.total) - i64::from(gpus),
        );
        set(&mut self.after, end, i64::from(self.total));
        Planned::at(job, end, real_end)
    }

    /// Plans every interval on as many GPUs as the job can use: earliest deadline first.
    pub fn greedy(&mut self, job: &Job, now: f64, free: &[(f64, i64)]) -> Planned {
        let most = job.level(i64::from(self.total));
        let mut left = job.left;
        self.alloc.clear();
        self.alloc.push((now, 0));
        self.after.clear();
        self.after.extend_from_slice(free);
        let mut start = now;
        let mut here = value_at(free, now, i64::from(self.total));
        for &(next, _) in free.iter().filter(|(t, _)| *t > now) {
            let gpus = if here >= i64::from(most) {
                most
            } else {
                job.level(here)
            };
            set(&mut self.alloc, start, gpus);
            if gpus > 0 {
                let rate = job.rate(gpus);
                let end = (start + left / rate).ceil();
                if next >= end {
                    if start != end || gpus < most {
                        set(&mut self.after, start, here - i64::from(gpus));
                    }
                    if position(free, end).is_none() {
                        let given = if start < end {
                            here
                        } else {
                            i64::from(self.total)
                        };
                        // Quirk: the program may overwrite a breakpoint here.
                        set(&mut self.after, align(now, end, self.slot), given);
                    }
                    return Planned::at(job, end, end);
                }
                left -= (next - start) * rate;
                set(&mut self.after, start, here - i64::from(gpus));
            }
            here = value_at(&self.after, next, i64::from(self.total));
            start = next;
        }
        // Quirk: the program assumes that all GPUs are free in the last interval.
        set(&mut self.alloc, start, most);
        let end = (start + left / job.rate(most)).ceil();
        let total = i64::from(self.total);
        set(&mut self.after, start, total - i64::from(most));
        set(&mut self.after, align(now, end, self.slot), total);
        Planned::at(job, end, end)
    }
}

/// Adds the GPUs of a job's own plan back to a timeline.
pub(super) fn give_back(free: &[(f64, i64)], job: &Job, total: u32, into: &mut Timeline) {
    into.clear();
    into.extend_from_slice(free);
    if position(into, job.end).is_none() {
        let before = value_at(into, job.end, i64::from(total));
        set(into, job.end, before);
    }
    let mut last = 0;
    for &(at, gpus) in &job.alloc {
        if position(into, at).is_none() {
            let value = value_at(into, at, i64::from(total));
            set(into, at, value);
        }
        let more = i64::from(gpus) - i64::from(last);
        let later = into.iter_mut();
        for entry in later.filter(|(t, _)| *t >= at && *t < job.end) {
            entry.1 += more;
        }
        last = gpus;
    }
    merge(into);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(left: f64, deadline: f64) -> Job {
        Job {
            left,
            deadline,
            levels: vec![(1, 1.0), (2, 1.8), (4, 3.0)],
            ..Job::default()
        }
    }

    #[test]
    fn smallest_sufficient_share_starts_at_the_latest() {
        let mut p = Planner::new(60.0, 4);
        // 300 iterations by 240 s: one GPU completes 240, two complete 432.
        let done = p.elastic(&job(300.0, 240.0), 0.0, None, &[(0.0, 4)]);
        assert_eq!(done.real_end, 167.0);
        assert_eq!(done.end, 180.0);
        assert_eq!(p.alloc, [(0.0, 2)]);
        assert_eq!(p.after, [(0.0, 2), (180.0, 4), (240.0, 4)]);
        // No GPU is free before 60 s.
        let done = p.elastic(&job(100.0, 240.0), 0.0, None, &[(0.0, 0), (60.0, 4)]);
        assert_eq!((done.real_end, done.end), (160.0, 180.0));
        assert_eq!(p.alloc, [(0.0, 0), (60.0, 1)]);
    }

    #[test]
    fn infeasible_job_runs_past_its_deadline() {
        let mut p = Planner::new(60.0, 4);
        let done = p.elastic(&job(300.0, 60.0), 0.0, None, &[(0.0, 4)]);
        // 180 iterations until 60 s, then 120 at 3 per second.
        assert_eq!((done.real_end, done.met), (100.0, false));
        assert_eq!(done.end, 120.0);
        assert_eq!(p.alloc, [(0.0, 4), (60.0, 4)]);
    }

    #[test]
    fn giving_back_restores_the_timeline() {
        let mut p = Planner::new(60.0, 4);
        let mut j = job(300.0, 240.0);
        let done = p.elastic(&j, 0.0, None, &[(0.0, 4)]);
        j.alloc = p.alloc.clone();
        j.end = done.end;
        let mut line = Timeline::new();
        give_back(&p.after, &j, 4, &mut line);
        assert_eq!(line, [(0.0, 4)]);
    }

    #[test]
    fn earliest_deadline_first_takes_all_it_can() {
        let mut p = Planner::new(60.0, 4);
        let done = p.greedy(&job(300.0, 90.0), 0.0, &[(0.0, 1), (60.0, 4)]);
        assert_eq!(p.alloc, [(0.0, 1), (60.0, 4)]);
        assert_eq!((done.end, done.met), (140.0, false));
        assert_eq!(p.after, [(0.0, 0), (60.0, 0), (180.0, 4)]);
    }
}
