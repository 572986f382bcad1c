//! `ef-accessctrl` (ElasticFlow) and `ef` (without admission) of the original.

use super::buddy::{Buddy, SIZES, Shape};
use super::events::Events;
use super::job::{Job, overhead};
use super::standing::{Basis, Change, changes};
use super::timeline::{Planned, Planner, Timeline, give_back, gpu_time, merge};
use super::trial::Trials;
use super::{Program, Step};
use serde::{Deserialize, Serialize};

/// Wake-ups at the end of time mean none.
const NO_WAKE: f64 = i64::MAX as f64;

/// Elastic expansion puts jobs that hold nothing first, and those that cannot grow last.
const FIRST: f64 = i64::MAX as f64;
const LAST: f64 = -FIRST;

/// The parts in which the two programs differ.
pub trait Variant: Clone + Send + Default + Serialize + for<'a> Deserialize<'a> {
    /// New jobs are turned away if anybody would be late.
    const ADMITS: bool;
}

/// With admission control.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct WithAdmission;

impl Variant for WithAdmission {
    const ADMITS: bool = true;
}

/// Without admission control.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct WithoutAdmission;

impl Variant for WithoutAdmission {
    const ADMITS: bool = false;
}

/// The trial of a job's next level.
#[derive(Clone, Copy, Debug, Default)]
struct Trial {
    /// The level, or the job's own count at the top.
    level: u32,
    /// What it is worth: GPU time gained a GPU.
    gain: f64,
    /// GPU time of the plan that it has.
    has: f64,
    /// What `gain` rests on, where that is known.
    basis: Option<Basis>,
}

/// The program's state between its steps.
#[derive(Clone, Serialize, Deserialize)]
pub struct Elastic<V> {
    variant: V,
    shape: Shape,
    slot: f64,
    events: Events,
    placement: Buddy,
    /// All jobs that have not ended, in the order that decides ties.
    runnable: Vec<u32>,
    pending: Vec<u32>,
    /// In order of first start.
    running: Vec<u32>,
    /// Seconds between the last step and the next.
    elapsed: f64,
    steps: u64,
    #[serde(skip)]
    work: Workspace,
}

/// Memory that no step leaves to the next.
#[derive(Clone, Default)]
struct Workspace {
    planner: Planner,
    free: Timeline,
    given_back: Timeline,
    trials: Vec<Trial>,
    planned: Trials,
    changes: Vec<Change>,
}

impl<V: Variant> Elastic<V> {
    pub(super) fn new(shape: Shape, slot: f64, submits: &[f64]) -> Self {
        Elastic {
            variant: V::default(),
            shape,
            slot,
            events: Events::of_arrivals(submits),
            placement: Buddy::new(shape),
            runnable: Vec::new(),
            pending: Vec::new(),
            running: Vec::new(),
            elapsed: 0.0,
            steps: 0,
            work: Workspace::default(),
        }
    }

    /// Work done since the last step. An end that the estimate put too late
    /// comes now.
    fn progress(&mut self, now: f64, jobs: &mut [Job]) {
        progress(&self.runnable, self.elapsed, now, jobs, &mut self.events);
    }

    fn total(&self) -> u32 {
        self.shape.gpus()
    }

    /// Plans all jobs of a list, in order of deadline, on an empty cluster.
    fn plan_all(&mut self, now: f64, mut list: Vec<u32>, jobs: &mut [Job]) -> (bool, Vec<u32>) {
        list.sort_by(|a, b| {
            let (a, b) = (&jobs[*a as usize], &jobs[*b as usize]);
            a.deadline.total_cmp(&b.deadline)
        });
        for &j in &list {
            self.placement.release(j, &mut jobs[j as usize]);
        }
        let total = self.total();
        let w = &mut self.work;
        w.free.clear();
        w.free.push((now, i64::from(total)));
        let mut all_met = true;
        for &j in &list {
            let job = &mut jobs[j as usize];
            let planned = w.planner.elastic(job, now, None, &w.free);
            all_met &= planned.met;
            w.take_over(job, planned);
        }
        (all_met, list)
    }

    /// Gives what is free to jobs, a level at a time.
    fn expand(&mut self, now: f64, jobs: &mut [Job], out: &mut Step) {
        let held: u32 = self
            .runnable
            .iter()
            .map(|j| jobs[*j as usize].num_gpu)
            .sum();
        let mut free = self.total().saturating_sub(held);
        if free == 0 {
            return;
        }
        let total = self.total();
        let w = &mut self.work;
        if w.trials.len() < jobs.len() {
            w.trials.resize_with(jobs.len(), Trial::default);
        }
        for &j in &self.runnable {
            let job = &jobs[j as usize];
            w.trials[j as usize] = Trial {
                level: job.next_level(job.num_gpu),
                has: gpu_time(&job.alloc, job.end),
                ..Trial::default()
            };
            w.try_next(j, job, now, free, total);
        }
        let by_gain = |list: &mut Vec<u32>, trials: &[Trial]| {
            let gain = |j: &u32| trials[*j as usize].gain;
            list.sort_by(|a, b| gain(b).total_cmp(&gain(a)));
        };
        by_gain(&mut self.runnable, &w.trials);
        while free > 0 {
            let grows = |j: &&u32| {
                let (level, has) = (w.trials[**j as usize].level, jobs[**j as usize].num_gpu);
                level > has && level - has <= free
            };
            let picked = self.runnable.iter().find(grows).copied();
            if let Some(j) = picked {
                let job = &mut jobs[j as usize];
                let level = w.trials[j as usize].level;
                // The timeline of the trial is made again: keeping each would cost more.
                give_back(&w.free, job, total, &mut w.given_back);
                let planned = w.planner.elastic(job, now, Some(level), &w.given_back);
                free -= level - job.num_gpu;
                job.num_gpu = level;
                job.old_end = job.end;
                w.take_over(job, planned);
                // The planner has now what was free before.
                changes(&w.planner.after, &w.free, &mut w.changes);
                if let Some(at) = self.pending.iter().position(|p| *p == j) {
                    self.pending.remove(at);
                    self.running.push(j);
                    out.started.push(j);
                }
                self.events.move_end(j, job.old_end, job.end);
                w.trials[j as usize].level = job.next_level(job.num_gpu);
                w.trials[j as usize].has = gpu_time(&job.alloc, job.end);
                w.trials[j as usize].basis = None;
            }
            for &j in &self.runnable {
                let job = &jobs[j as usize];
                if w.trials[j as usize].level > job.num_gpu {
                    w.try_next(j, job, now, free, total);
                }
            }
            by_gain(&mut self.runnable, &w.trials);
            if picked.is_none() {
                break;
            }
        }
    }

    /// Wide jobs first, then those below a node by size.
    fn place_all(&mut self, list: &[u32], jobs: &mut [Job]) {
        let per_node = self.shape.gpus_per_node;
        for &j in list {
            if jobs[j as usize].num_gpu >= per_node {
                self.placement.place(j, &mut jobs[j as usize]);
            }
        }
        for &size in SIZES.iter().rev().filter(|s| **s < per_node) {
            for &j in list {
                if jobs[j as usize].num_gpu == size {
                    self.placement.place(j, &mut jobs[j as usize]);
                }
            }
        }
        self.placement.note_positions(jobs);
    }

    fn charge(&mut self, list: &[u32], jobs: &mut [Job]) {
        let total = self.total();
        let restart = self.steps > 0 && (self.steps as f64) % self.slot == 0.0;
        self.steps += 1;
        if restart {
            self.placement.cache.clear();
        }
        for &j in list {
            let job = &mut jobs[j as usize];
            job.overhead = 0.0;
            if job.num_gpu > 0 {
                job.overhead = overhead(total, job.num_gpu, restart, job.cached);
                let old = job.end;
                job.end += job.overhead;
                self.events.move_end(j, old, job.end);
            }
        }
    }

    fn forget(&mut self, job: u32) {
        self.running.retain(|j| *j != job);
        self.runnable.retain(|j| *j != job);
    }
}

impl Workspace {
    /// The plan in the planner becomes the job's, and its timeline the current one.
    fn take_over(&mut self, job: &mut Job, planned: Planned) {
        job.end = planned.end;
        job.real_end = Some(planned.real_end);
        job.alloc.clear();
        job.alloc.extend_from_slice(&self.planner.alloc);
        merge(&mut job.alloc);
        std::mem::swap(&mut self.free, &mut self.planner.after);
        merge(&mut self.free);
    }

    /// What the next level would be worth to a job.
    fn try_next(&mut self, j: u32, job: &Job, now: f64, free: u32, total: u32) {
        let trial = &mut self.trials[j as usize];
        let need = trial.level - job.num_gpu;
        if need == 0 || need > free {
            trial.gain = LAST;
            return;
        }
        if job.num_gpu == 0 {
            trial.gain = FIRST;
            return;
        }
        let stands = |basis: &Basis| basis.stands(job, &self.changes, &self.free);
        if trial.basis.as_ref().is_some_and(stands) {
            return;
        }
        let level = trial.level;
        let by = (self.planner.slot, total);
        let time = match self.planned.gpu_time(job, now, level, &self.free, by) {
            Some(time) => time,
            None => {
                give_back(&self.free, job, total, &mut self.given_back);
                let planned = self
                    .planner
                    .elastic(job, now, Some(level), &self.given_back);
                gpu_time(&self.planner.alloc, planned.end)
            }
        };
        trial.basis = self.planned.basis();
        let more = time - trial.has;
        trial.gain = more / f64::from(need);
    }
}

/// Work done by `list` in the `elapsed` seconds before `now`.
pub(super) fn progress(
    list: &[u32],
    elapsed: f64,
    now: f64,
    jobs: &mut [Job],
    events: &mut Events,
) {
    for &j in list {
        let job = &mut jobs[j as usize];
        if job.num_gpu == 0 {
            job.overhead = 0.0;
            continue;
        }
        let until = job.real_end.unwrap_or(job.end);
        let mut run = elapsed;
        if now > until {
            run -= now - until;
        }
        run = if run < job.overhead {
            0.0
        } else {
            run - job.overhead
        };
        let rate = job.rate(job.num_gpu);
        let mut done = run * rate;
        if job.left <= done && job.end > now {
            // The estimate was too late.
            let end = now - elapsed + (job.left / rate).ceil();
            done = (job.end - now + elapsed) * rate;
            events.move_end(j, job.end, now);
            job.end = end;
        }
        job.left -= done;
        job.overhead = 0.0;
    }
}

impl<V: Variant> Program for Elastic<V> {
    fn due(&self) -> Option<f64> {
        self.events.next().filter(|t| *t < NO_WAKE)
    }

    fn step(&mut self, now: f64, jobs: &mut [Job], out: &mut Step) {
        self.work.planner.slot = self.slot;
        self.work.planner.total = self.total();
        self.progress(now, jobs);
        let event = if V::ADMITS {
            self.events.take(now)
        } else {
            self.events.get(now).cloned()
        };
        let Some(mut event) = event else { return };
        event
            .start
            .retain(|j| jobs.get(*j as usize).is_some_and(|j| j.known));
        let idle = self.pending.is_empty() && self.running.is_empty();
        // Without admission such a step is one like any other.
        if V::ADMITS && idle && event.start.is_empty() && event.end.is_empty() {
            self.events.take(now);
            return;
        }
        for &j in &event.end {
            let job = &mut jobs[j as usize];
            // Who holds nothing does not end.
            if job.set.is_none() {
                continue;
            }
            let real_end = job.real_end.unwrap_or(job.end);
            let counts = if V::ADMITS { real_end } else { job.end };
            out.end(j, job.end, real_end, counts > job.deadline);
            self.placement.release(j, job);
            self.forget(j);
        }
        for &j in self.runnable.iter().chain(&event.start) {
            jobs[j as usize].old_end = jobs[j as usize].end;
        }
        let list = [self.runnable.as_slice(), &event.start].concat();
        let (all_met, mut sorted) = self.plan_all(now, list, jobs);
        if !V::ADMITS || all_met {
            self.pending.extend(&event.start);
            out.admitted.extend(&event.start);
        } else if !event.start.is_empty() {
            // One who would be late turns away all that are new.
            let mut list = self.runnable.clone();
            for &j in &event.start {
                if jobs[j as usize].best_effort {
                    self.pending.push(j);
                    list.push(j);
                    out.admitted.push(j);
                } else {
                    out.rejected.push(j);
                }
            }
            (_, sorted) = self.plan_all(now, list, jobs);
        }
        self.runnable = sorted;
        for &j in &self.runnable {
            let job = &mut jobs[j as usize];
            job.num_gpu = match job.alloc.first() {
                Some(&(t, gpus)) if t == now => gpus,
                _ => 0,
            };
            self.events.move_end(j, job.old_end, job.end);
        }
        if !V::ADMITS {
            self.events.take(now);
        }
        let mut starts = Vec::new();
        for &j in &self.pending {
            let first = jobs[j as usize].alloc.iter().find(|(_, g)| *g > 0);
            match first {
                Some(&(t, _)) if t > now => {
                    if !V::ADMITS {
                        self.events.wake(t);
                    }
                }
                _ => starts.push(j),
            }
        }
        for j in starts {
            self.pending.retain(|p| *p != j);
            self.running.push(j);
            out.started.push(j);
            self.events.add_end(j, jobs[j as usize].end);
        }
        self.expand(now, jobs, out);
        let next_change = |job: &Job| job.alloc.iter().map(|(t, _)| *t).find(|t| *t > now);
        let list = if V::ADMITS {
            self.runnable
                .sort_by_key(|j| std::cmp::Reverse(jobs[*j as usize].num_gpu));
            let changes = self
                .runnable
                .iter()
                .filter_map(|j| next_change(&jobs[*j as usize]));
            let wake = changes.fold(NO_WAKE, f64::min);
            if self.events.next().is_none_or(|first| wake < first) {
                self.events.wake(wake);
            }
            self.runnable.clone()
        } else {
            for &j in &self.running {
                if let Some(t) = next_change(&jobs[j as usize]) {
                    self.events.wake(t);
                }
            }
            self.running.clone()
        };
        self.place_all(&list, jobs);
        out.runs.clear();
        for &j in &list {
            let job = &jobs[j as usize];
            if job.set.is_some() {
                out.runs.push((j, self.placement.spread(j, job)));
            }
        }
        if self.events.is_empty() {
            return;
        }
        self.charge(&list, jobs);
        self.events.keep_apart(now, self.slot);
        if let Some(next) = self.events.next() {
            self.elapsed = (next - now).trunc();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wake_up_with_nobody_there_is_a_step_only_without_admission() {
        fn steps<V: Variant>() -> (u64, f64) {
            let shape = Shape {
                switches: 1,
                nodes_per_switch: 1,
                gpus_per_node: 4,
            };
            let mut program = Elastic::<V>::new(shape, 60.0, &[600.0]);
            program.events.wake(120.0);
            program.step(120.0, &mut [Job::default()], &mut Step::default());
            (program.steps, program.elapsed)
        }
        assert_eq!(steps::<WithoutAdmission>(), (1, 480.0));
        assert_eq!(steps::<WithAdmission>(), (0, 0.0));
    }
}
