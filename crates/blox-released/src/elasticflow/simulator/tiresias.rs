//! `dlas-gpu` of the original: Tiresias as it is configured there.

use super::buddy::{Buddy, Shape};
use super::events::Events;
use super::job::{Job, overhead};
use super::{Program, Step};
use serde::{Deserialize, Serialize};

/// GPU-seconds after which a job falls to the next queue.
const LIMITS: [f64; 2] = [3250.0, 7200.0];
const NEVER: f64 = i64::MAX as f64;

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Progress {
    running: bool,
    queue: usize,
    last_check: f64,
    executed: f64,
}

/// Three queues by attained GPU time, the first that fits runs; no promotion.
#[derive(Clone, Serialize, Deserialize)]
pub struct Tiresias {
    shape: Shape,
    slot: f64,
    arrivals: Events,
    placement: Buddy,
    queues: [Vec<u32>; 3],
    runnable: Vec<u32>,
    progress: Vec<Progress>,
    /// The earliest end, and whose it is.
    end: Option<(f64, Vec<u32>)>,
    /// When the next job falls to another queue.
    jump: f64,
    steps: u64,
}

impl Tiresias {
    pub(super) fn new(shape: Shape, slot: f64, submits: &[f64]) -> Self {
        Tiresias {
            shape,
            slot,
            arrivals: Events::of_arrivals(submits),
            placement: Buddy::new(shape),
            queues: Default::default(),
            runnable: Vec::new(),
            progress: Vec::new(),
            end: None,
            jump: NEVER,
            steps: 0,
        }
    }

    fn enter(&mut self, start: &[u32], jobs: &mut [Job]) {
        self.progress.resize(jobs.len(), Progress::default());
        for &j in start {
            let Some(job) = jobs.get_mut(j as usize).filter(|j| j.known) else {
                continue;
            };
            job.num_gpu = job.gpus;
            self.progress[j as usize].last_check = job.submit;
            self.runnable.push(j);
            self.queues[0].push(j);
        }
    }

    fn execute(&mut self, now: f64, jobs: &mut [Job]) {
        for &j in &self.runnable {
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

    /// Who runs: the first that fit, queue by queue.
    fn pick(&mut self, jobs: &mut [Job], restart: bool, out: &mut Step) {
        let total = self.shape.gpus();
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
                out.started.push(j);
            }
        }
    }

    /// The next end and the next fall to another queue.
    fn look_ahead(&mut self, now: f64, jobs: &mut [Job], restart: bool) {
        self.end = None;
        self.jump = NEVER;
        for &j in &self.runnable {
            let (job, p) = (&mut jobs[j as usize], &self.progress[j as usize]);
            if !p.running {
                continue;
            }
            let mut remaining = job.duration - p.executed;
            if restart {
                job.overhead = overhead(self.shape.gpus(), job.gpus, restart, false);
                remaining += job.overhead;
            }
            let end = (now + remaining).trunc();
            let seen = (now + self.slot).max(end);
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
                // Executed seconds against GPU-seconds: so it is in the original.
                let falls = ((limit - p.executed) / f64::from(job.gpus)).ceil() + now;
                self.jump = self.jump.min(falls);
            }
        }
        if self.jump - now < self.slot {
            self.jump = now + self.slot;
        }
        self.arrivals.keep_apart(now, self.slot);
    }
}

impl Program for Tiresias {
    fn due(&self) -> Option<f64> {
        let end = self.end.as_ref().map(|(t, _)| *t);
        let next = match (self.arrivals.next(), end) {
            (Some(a), Some(e)) => a.min(e),
            (a, e) => a.or(e)?,
        };
        Some(next.min(self.jump))
    }

    fn step(&mut self, now: f64, jobs: &mut [Job], out: &mut Step) {
        if let Some((_, ending)) = self.end.take_if(|(t, _)| *t == now) {
            for j in ending {
                let job = &mut jobs[j as usize];
                out.end(j, job.end, job.end, job.end > job.deadline);
                self.placement.release(j, job);
                self.runnable.retain(|r| *r != j);
                self.queues[self.progress[j as usize].queue].retain(|r| *r != j);
            }
        }
        if let Some(event) = self.arrivals.take(now) {
            self.enter(&event.start, jobs);
            let known = |j: &u32| jobs.get(*j as usize).is_some_and(|j| j.known);
            out.admitted
                .extend(event.start.iter().copied().filter(known));
        }
        self.execute(now, jobs);
        let restart = self.steps > 0 && (self.steps as f64) % self.slot == 0.0;
        self.steps += 1;
        self.pick(jobs, restart, out);
        for &j in &self.runnable {
            self.placement.release(j, &mut jobs[j as usize]);
        }
        self.runnable
            .sort_by_key(|j| std::cmp::Reverse(jobs[*j as usize].gpus));
        out.runs.clear();
        for &j in &self.runnable {
            let job = &mut jobs[j as usize];
            if self.progress[j as usize].running && self.placement.place(j, job) {
                out.runs.push((j, self.placement.spread(j, job)));
            }
        }
        for queue in &mut self.queues {
            // Running jobs first; stable.
            queue.sort_by_key(|j| !self.progress[*j as usize].running);
        }
        self.look_ahead(now, jobs, restart);
    }
}
