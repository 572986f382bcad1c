//! `dlas-gpu` of the original: Tiresias in the original's configuration.

use super::buddy::Shape;
use super::job::{Job, overhead};
use super::program::{Program, Step, Times};
use super::slots::Slots;
use crate::tiresias::quirks::DlasQueues;

/// GPU-seconds after which a job moves to the next queue.
const LIMITS: [f64; 2] = DlasQueues::LIMITS;
const NEVER: f64 = i64::MAX as f64;

#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    running: bool,
    queue: usize,
    last_check: f64,
    executed: f64,
}

/// Three queues by attained GPU time, without promotion. Jobs that fit run, in order.
pub struct Tiresias {
    /// Events are arrivals only.
    slots: Slots,
    queues: [Vec<u32>; 3],
    progress: Vec<Progress>,
    /// Earliest end, and the jobs that end then.
    end: Option<(f64, Vec<u32>)>,
    /// Time at which the next job moves to another queue.
    jump: f64,
}

impl Tiresias {
    fn execute(&mut self, now: f64, jobs: &mut [Job]) {
        for &j in &self.slots.runnable {
            let (job, p) = (&mut jobs[j as usize], &mut self.progress[j as usize]);
            if p.running {
                let ran = ((now - p.last_check).trunc() - job.overhead).max(0.0);
                p.executed = (p.executed + ran).trunc();
                job.overhead = 0.0;
                let q = p.queue;
                if LIMITS
                    .get(q)
                    .is_some_and(|limit| p.executed * f64::from(job.gpus) >= *limit)
                {
                    p.queue = q + 1;
                    self.queues[q + 1].push(j);
                    self.queues[q].retain(|k| *k != j);
                }
            }
            p.last_check = now;
        }
    }

    /// Chooses the jobs that run: jobs that fit, queue by queue.
    fn pick(&mut self, jobs: &mut [Job], restart: bool) {
        let total = self.slots.shape.gpus();
        let mut free = total;
        for &j in self.queues.iter().flatten() {
            let (job, p) = (&mut jobs[j as usize], &mut self.progress[j as usize]);
            if job.gpus > free {
                p.running = false;
                continue;
            }
            free -= job.gpus;
            if !p.running {
                p.running = true;
                job.overhead = overhead(total, job.gpus, restart, false);
            }
        }
    }

    /// Computes the next end and the next move to another queue.
    fn look_ahead(&mut self, now: f64, jobs: &mut [Job], restart: bool) {
        let (total, slot) = (self.slots.shape.gpus(), self.slots.slot);
        self.end = None;
        self.jump = NEVER;
        for &j in &self.slots.runnable {
            let (job, p) = (&mut jobs[j as usize], &self.progress[j as usize]);
            if !p.running {
                continue;
            }
            let mut remaining = job.duration - p.executed;
            if restart {
                job.overhead = overhead(total, job.gpus, restart, false);
                remaining += job.overhead;
            }
            let end = (now + remaining).trunc();
            let seen = (now + slot).max(end);
            match &mut self.end {
                Some((first, list)) if *first == seen => {
                    list.push(j);
                    job.end = end;
                }
                Some((first, _)) if *first < seen => {}
                other => {
                    *other = Some((seen, vec![j]));
                    job.end = end;
                }
            }
            if let Some(limit) = LIMITS.get(p.queue) {
                // Quirk: the program subtracts executed seconds from GPU-seconds.
                let falls = ((limit - p.executed) / f64::from(job.gpus)).ceil() + now;
                self.jump = self.jump.min(falls);
            }
        }
        if self.jump - now < slot {
            self.jump = now + slot;
        }
        self.slots.events.keep_apart(now, slot);
    }
}

impl Program for Tiresias {
    fn new(shape: Shape, times: Times, jobs: &[Job]) -> Self {
        Tiresias {
            slots: Slots::new(shape, times.check, jobs),
            queues: Default::default(),
            progress: vec![Progress::default(); jobs.len()],
            end: None,
            jump: NEVER,
        }
    }

    fn due(&self) -> Option<f64> {
        let end = self.end.as_ref().map(|(t, _)| *t);
        let next = match (self.slots.events.next(), end) {
            (Some(a), Some(e)) => a.min(e),
            (a, e) => a.or(e)?,
        };
        Some(next.min(self.jump))
    }

    fn step(&mut self, now: f64, jobs: &mut [Job], out: &mut Step) {
        if let Some((_, ending)) = self.end.take_if(|(t, _)| *t == now) {
            self.slots.end(&ending, jobs, out);
            let over = |j: &u32| ending.contains(j);
            self.queues.iter_mut().for_each(|q| q.retain(|j| !over(j)));
        }
        let arrivals = self.slots.events.take(now).unwrap_or_default();
        for j in arrivals.start {
            let job = &mut jobs[j as usize];
            job.num_gpu = job.gpus;
            self.progress[j as usize].last_check = job.submit;
            self.slots.runnable.push(j);
            self.queues[0].push(j);
        }
        self.execute(now, jobs);
        let restart = self.slots.restarts();
        self.pick(jobs, restart);
        let mut list = std::mem::take(&mut self.slots.runnable);
        self.slots.release(&list, jobs);
        list.sort_by_key(|j| std::cmp::Reverse(jobs[*j as usize].gpus));
        for &j in list.iter().filter(|j| self.progress[**j as usize].running) {
            self.slots.placement.place(j, &mut jobs[j as usize]);
        }
        self.slots.report(&list, jobs, out);
        self.slots.runnable = list;
        for queue in &mut self.queues {
            // Stable sort: running jobs first.
            queue.sort_by_key(|j| !self.progress[*j as usize].running);
        }
        self.look_ahead(now, jobs, restart);
    }
}
