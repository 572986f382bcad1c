//! `ef-accessctrl` (ElasticFlow) and `ef` (without admission) of the original.

use super::buddy::{SIZES, Shape};
use super::job::Job;
use super::program::{Program, Step, Times};
use super::slots::{Slots, by_deadline};
use super::timeline::{Planned, Planner, Timeline, give_back, gpu_time, merge};

/// A wake-up at this time means that there is none.
const NO_WAKE: f64 = i64::MAX as f64;

/// Gain of jobs without GPUs, which expansion serves first. `LAST` is the gain of jobs that cannot
/// grow.
const FIRST: f64 = i64::MAX as f64;
const LAST: f64 = -FIRST;

/// `ef-accessctrl`: rejects a job that would make any job late.
pub type ElasticFlow = Elastic<true>;

/// `ef`: the same algorithm without admission control.
pub type WithoutAdmission = Elastic<false>;

/// State of the program between its steps.
pub struct Elastic<const ADMITS: bool> {
    slots: Slots,
    work: Workspace,
}

/// Buffers that are reused, and carry nothing from one step to the next.
#[derive(Clone, Default)]
struct Workspace {
    planner: Planner,
    free: Timeline,
    given_back: Timeline,
    /// Gain of GPU time per additional GPU at each job's next level.
    gains: Vec<f64>,
}

impl<const ADMITS: bool> Elastic<ADMITS> {
    /// Plans all jobs of a list, in order of deadline, on an empty cluster.
    fn plan_all(&mut self, now: f64, mut list: Vec<u32>, jobs: &mut [Job]) -> (bool, Vec<u32>) {
        by_deadline(&mut list, jobs);
        self.slots.release(&list, jobs);
        let w = &mut self.work;
        w.free.clear();
        w.free.push((now, i64::from(w.planner.total)));
        let mut all_met = true;
        for &j in &list {
            let job = &mut jobs[j as usize];
            let planned = w.planner.elastic(job, now, None, &w.free);
            all_met &= planned.met;
            w.take_over(job, planned);
        }
        (all_met, list)
    }

    /// Expands jobs into the free GPUs, one level at a time.
    fn expand(&mut self, now: f64, jobs: &mut [Job]) {
        let s = &mut self.slots;
        let total = s.shape.gpus();
        let used: u32 = s.runnable.iter().map(|j| jobs[*j as usize].num_gpu).sum();
        let mut free = total.saturating_sub(used);
        if free == 0 {
            return;
        }
        let w = &mut self.work;
        let mut first = true;
        loop {
            for &j in &s.runnable {
                let job = &jobs[j as usize];
                // A job that has just reached its top keeps its gain.
                if first || job.next_level(job.num_gpu) > job.num_gpu {
                    w.gains[j as usize] = w.gain(job, now, free);
                }
            }
            first = false;
            let gain = |j: &u32| w.gains[*j as usize];
            s.runnable.sort_by(|a, b| gain(b).total_cmp(&gain(a)));
            let grows = |j: &&u32| {
                let job = &jobs[**j as usize];
                let level = job.next_level(job.num_gpu);
                level > job.num_gpu && level - job.num_gpu <= free
            };
            let Some(&j) = s.runnable.iter().find(grows) else {
                return;
            };
            let job = &mut jobs[j as usize];
            let level = job.next_level(job.num_gpu);
            // Repeats the plan behind the gain, as storing all timelines would cost more.
            let planned = w.raise(job, now, level);
            free -= level - job.num_gpu;
            job.num_gpu = level;
            job.old_end = job.end;
            w.take_over(job, planned);
            if s.pending.contains(&j) {
                s.start(j);
            }
            s.events.move_end(j, job.old_end, job.end);
        }
    }

    /// Places jobs of at least one node first, then the others by descending size.
    fn place_all(&mut self, list: &[u32], jobs: &mut [Job]) {
        let per_node = self.slots.shape.gpus_per_node;
        let placement = &mut self.slots.placement;
        for &j in list {
            if jobs[j as usize].num_gpu >= per_node {
                placement.place(j, &mut jobs[j as usize]);
            }
        }
        for &size in SIZES.iter().rev().filter(|s| **s < per_node) {
            for &j in list {
                if jobs[j as usize].num_gpu == size {
                    placement.place(j, &mut jobs[j as usize]);
                }
            }
        }
        placement.note_positions(jobs);
    }
}

impl Workspace {
    /// Makes the planner's plan the job's plan, and the planner's timeline the current one.
    fn take_over(&mut self, job: &mut Job, planned: Planned) {
        job.end = planned.end;
        job.real_end = Some(planned.real_end);
        job.alloc.clear();
        job.alloc.extend_from_slice(&self.planner.alloc);
        merge(&mut job.alloc);
        std::mem::swap(&mut self.free, &mut self.planner.after);
        merge(&mut self.free);
    }

    /// Returns the gain of a job's next level.
    fn gain(&mut self, job: &Job, now: f64, free: u32) -> f64 {
        let level = job.next_level(job.num_gpu);
        let need = level - job.num_gpu;
        if need == 0 || need > free {
            return LAST;
        }
        if job.num_gpu == 0 {
            return FIRST;
        }
        let planned = self.raise(job, now, level);
        let more = gpu_time(&self.planner.alloc, planned.end) - gpu_time(&job.alloc, job.end);
        more / f64::from(need)
    }

    /// Plans a job with a level at once, on the GPUs that are free without the job's own plan.
    fn raise(&mut self, job: &Job, now: f64, level: u32) -> Planned {
        give_back(&self.free, job, self.planner.total, &mut self.given_back);
        self.planner
            .elastic(job, now, Some(level), &self.given_back)
    }
}

impl<const ADMITS: bool> Program for Elastic<ADMITS> {
    fn new(shape: Shape, times: Times, jobs: &[Job]) -> Self {
        Elastic {
            slots: Slots::new(shape, times.check, jobs),
            work: Workspace {
                planner: Planner::new(times.check, shape.gpus()),
                gains: vec![0.0; jobs.len()],
                ..Workspace::default()
            },
        }
    }

    fn due(&self) -> Option<f64> {
        self.slots.events.next().filter(|t| *t < NO_WAKE)
    }

    fn step(&mut self, now: f64, jobs: &mut [Job], out: &mut Step) {
        self.slots.progress(now, jobs);
        let event = if ADMITS {
            self.slots.events.take(now)
        } else {
            self.slots.events.get(now).cloned()
        };
        let Some(event) = event else { return };
        let idle = self.slots.pending.is_empty() && self.slots.running.is_empty();
        // Without admission control, this step is a normal one.
        if ADMITS && idle && event.start.is_empty() && event.end.is_empty() {
            self.slots.events.take(now);
            return;
        }
        for &j in &event.end {
            let job = &mut jobs[j as usize];
            // A job without GPUs does not end.
            if job.set.is_none() {
                continue;
            }
            let real_end = job.real_end.unwrap_or(job.end);
            let counts = if ADMITS { real_end } else { job.end };
            out.end(j, job.end, real_end, counts > job.deadline);
            self.slots.forget(j, job);
        }
        for &j in self.slots.runnable.iter().chain(&event.start) {
            jobs[j as usize].old_end = jobs[j as usize].end;
        }
        let list = [self.slots.runnable.as_slice(), &event.start].concat();
        let (all_met, mut sorted) = self.plan_all(now, list, jobs);
        if !ADMITS || all_met {
            self.slots.pending.extend(&event.start);
        } else if !event.start.is_empty() {
            // If any job would be late, all new jobs with a deadline are rejected.
            let mut list = self.slots.runnable.clone();
            for &j in &event.start {
                if jobs[j as usize].best_effort {
                    self.slots.pending.push(j);
                    list.push(j);
                } else {
                    out.rejected.push(j);
                }
            }
            (_, sorted) = self.plan_all(now, list, jobs);
        }
        self.slots.runnable = sorted;
        for &j in &self.slots.runnable {
            let job = &mut jobs[j as usize];
            job.num_gpu = match job.alloc.first() {
                Some(&(t, gpus)) if t == now => gpus,
                _ => 0,
            };
            self.slots.events.move_end(j, job.old_end, job.end);
        }
        if !ADMITS {
            self.slots.events.take(now);
        }
        let mut starts = Vec::new();
        for &j in &self.slots.pending {
            let first = jobs[j as usize].alloc.iter().find(|(_, g)| *g > 0);
            match first {
                Some(&(t, _)) if t > now => {
                    if !ADMITS {
                        self.slots.events.wake(t);
                    }
                }
                _ => starts.push(j),
            }
        }
        for j in starts {
            self.slots.start(j);
            self.slots.events.add_end(j, jobs[j as usize].end);
        }
        self.expand(now, jobs);
        let next_change = |job: &Job| job.alloc.iter().map(|(t, _)| *t).find(|t| *t > now);
        let list = if ADMITS {
            self.slots
                .runnable
                .sort_by_key(|j| std::cmp::Reverse(jobs[*j as usize].num_gpu));
            let changes = self
                .slots
                .runnable
                .iter()
                .filter_map(|j| next_change(&jobs[*j as usize]));
            let wake = changes.fold(NO_WAKE, f64::min);
            if self.slots.events.next().is_none_or(|first| wake < first) {
                self.slots.events.wake(wake);
            }
            self.slots.runnable.clone()
        } else {
            for &j in &self.slots.running {
                if let Some(t) = next_change(&jobs[j as usize]) {
                    self.slots.events.wake(t);
                }
            }
            self.slots.running.clone()
        };
        self.place_all(&list, jobs);
        self.slots.report(&list, jobs, out);
        self.slots.charge(now, &list, jobs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wake_up_without_jobs_steps_only_without_admission() {
        fn steps<const ADMITS: bool>() -> (u64, f64) {
            let shape = Shape {
                switches: 1,
                nodes_per_switch: 1,
                gpus_per_node: 4,
            };
            let mut jobs = [Job {
                submit: 600.0,
                ..Job::default()
            }];
            let mut program = Elastic::<ADMITS>::new(shape, 60.0.into(), &jobs);
            program.slots.events.wake(120.0);
            program.step(120.0, &mut jobs, &mut Step::default());
            let slots = program.slots;
            (slots.steps, slots.elapsed)
        }
        assert_eq!(steps::<false>(), (1, 480.0));
        assert_eq!(steps::<true>(), (0, 0.0));
    }
}
