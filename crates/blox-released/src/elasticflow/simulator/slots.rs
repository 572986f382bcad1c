//! Engine of the programs with slots: events, placement, lists of jobs, and the transition to the
//! next step.

use super::buddy::{Buddy, Shape};
use super::events::Events;
use super::job::{Job, overhead};
use super::program::Step;

/// State of a program between its steps.
pub(super) struct Slots {
    pub shape: Shape,
    pub slot: f64,
    pub events: Events,
    pub placement: Buddy,
    /// All jobs that arrived and have not ended, in the order that breaks ties.
    pub runnable: Vec<u32>,
    /// Jobs of `runnable` that have not started.
    pub pending: Vec<u32>,
    /// Started jobs of `runnable`, in order of first start.
    pub running: Vec<u32>,
    /// Seconds between the last step and the next.
    pub elapsed: f64,
    pub steps: u64,
}

impl Slots {
    pub fn new(shape: Shape, slot: f64, jobs: &[Job]) -> Self {
        Slots {
            shape,
            slot,
            events: Events::of_arrivals(jobs),
            placement: Buddy::new(shape),
            runnable: Vec::new(),
            pending: Vec::new(),
            running: Vec::new(),
            elapsed: 0.0,
            steps: 0,
        }
    }

    /// Counts a step. Returns true if it restarts all trainers, which clears the cache.
    pub fn restarts(&mut self) -> bool {
        let restart = self.steps > 0 && (self.steps as f64) % self.slot == 0.0;
        self.steps += 1;
        if restart {
            self.placement.cache.clear();
        }
        restart
    }

    /// Counts the work done since the last step. A job whose planned end was too late ends now.
    pub fn progress(&mut self, now: f64, jobs: &mut [Job]) {
        for &j in &self.runnable {
            let job = &mut jobs[j as usize];
            if job.num_gpu == 0 {
                job.overhead = 0.0;
                continue;
            }
            let until = job.real_end.unwrap_or(job.end);
            let mut run = self.elapsed;
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
                // The planned end was too late.
                let end = now - self.elapsed + (job.left / rate).ceil();
                done = (job.end - now + self.elapsed) * rate;
                self.events.move_end(j, job.end, now);
                job.end = end;
            }
            job.left -= done;
            job.overhead = 0.0;
        }
    }

    /// Moves a pending job to the running jobs.
    pub fn start(&mut self, j: u32) {
        self.pending.retain(|p| *p != j);
        self.running.push(j);
    }

    /// Ends jobs at their planned ends.
    pub fn end(&mut self, ending: &[u32], jobs: &mut [Job], out: &mut Step) {
        for &j in ending {
            let job = &mut jobs[j as usize];
            out.end(j, job.end, job.end, job.end > job.deadline);
            self.forget(j, job);
        }
    }

    /// Removes a job that has ended.
    pub fn forget(&mut self, j: u32, job: &mut Job) {
        self.placement.release(j, job);
        self.running.retain(|r| *r != j);
        self.runnable.retain(|r| *r != j);
    }

    pub fn release(&mut self, list: &[u32], jobs: &mut [Job]) {
        for &j in list {
            self.placement.release(j, &mut jobs[j as usize]);
        }
    }

    /// Reports the placed jobs of a list.
    pub fn report(&self, list: &[u32], jobs: &[Job], out: &mut Step) {
        for &j in list {
            let job = &jobs[j as usize];
            if job.set.is_some() {
                let spread = self.placement.spread(j, job);
                out.runs.push((j, job.num_gpu, spread));
            }
        }
    }

    /// Adds overheads to the ends of a list of jobs and continues, unless no event is left.
    pub fn charge(&mut self, now: f64, list: &[u32], jobs: &mut [Job]) {
        if self.events.is_empty() {
            return;
        }
        let restart = self.restarts();
        for &j in list {
            let job = &mut jobs[j as usize];
            job.overhead = 0.0;
            if job.num_gpu > 0 {
                job.overhead = overhead(self.shape.gpus(), job.num_gpu, restart, job.cached);
                let old = job.end;
                job.end += job.overhead;
                self.events.move_end(j, old, job.end);
            }
        }
        self.go_on(now);
    }

    /// Continues to the next event.
    pub fn go_on(&mut self, now: f64) {
        self.events.keep_apart(now, self.slot);
        if let Some(next) = self.events.next() {
            self.elapsed = (next - now).trunc();
        }
    }
}

/// Sorts jobs by deadline.
pub(super) fn by_deadline(list: &mut [u32], jobs: &[Job]) {
    list.sort_by(|a, b| {
        let (a, b) = (&jobs[*a as usize], &jobs[*b as usize]);
        a.deadline.total_cmp(&b.deadline)
    });
}
