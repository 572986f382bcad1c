//! `edf` and `edf-accessctrl` of the original.

use super::buddy::{Buddy, Shape};
use super::elastic::progress;
use super::events::Events;
use super::job::{Job, overhead};
use super::timeline::{Planned, Planner, Timeline, merge};
use super::{Program, Step};
use serde::{Deserialize, Serialize};

/// What both programs keep between steps.
#[derive(Clone, Serialize, Deserialize)]
struct Common {
    shape: Shape,
    slot: f64,
    events: Events,
    placement: Buddy,
    runnable: Vec<u32>,
    pending: Vec<u32>,
    running: Vec<u32>,
    elapsed: f64,
    steps: u64,
    #[serde(skip)]
    planner: Planner,
}

/// A job's plan that may still be dropped.
type Proposal = (u32, u32, Planned);

impl Common {
    fn new(shape: Shape, slot: f64, submits: &[f64]) -> Self {
        Common {
            shape,
            slot,
            events: Events::of_arrivals(submits),
            placement: Buddy::new(shape),
            runnable: Vec::new(),
            pending: Vec::new(),
            running: Vec::new(),
            elapsed: 0.0,
            steps: 0,
            planner: Planner::default(),
        }
    }

    /// Plans a list in order of deadline, which becomes its order: each job's
    /// GPUs from now on, and its end. Once `stop` says so, of what is free now and
    /// of the job that was planned last, the rest is left as it is.
    fn plan(
        &mut self,
        now: f64,
        list: &mut [u32],
        jobs: &[Job],
        mut stop: impl FnMut(i64, u32, &Planned) -> bool,
    ) -> (bool, Vec<Proposal>) {
        self.planner.slot = self.slot;
        self.planner.total = self.shape.gpus();
        list.sort_by(|a, b| {
            let (a, b) = (&jobs[*a as usize], &jobs[*b as usize]);
            a.deadline.total_cmp(&b.deadline)
        });
        let mut free: Timeline = vec![(now, i64::from(self.shape.gpus()))];
        let mut all_met = true;
        let mut proposals = Vec::with_capacity(list.len());
        for &j in list.iter() {
            let planned = self.planner.greedy(&jobs[j as usize], now, &free);
            std::mem::swap(&mut free, &mut self.planner.after);
            merge(&mut free);
            all_met &= planned.met;
            let gpus = self.planner.alloc.first().map_or(0, |(_, g)| *g);
            proposals.push((j, gpus, planned));
            if stop(free.first().map_or(0, |(_, here)| *here), j, &planned) {
                break;
            }
        }
        (all_met, proposals)
    }

    fn release_all(&mut self, list: &[u32], jobs: &mut [Job]) {
        for &j in list {
            self.placement.release(j, &mut jobs[j as usize]);
        }
    }

    /// Ends the jobs of an event.
    fn end(&mut self, ending: &[u32], jobs: &mut [Job], out: &mut Step) {
        for &j in ending {
            let job = &mut jobs[j as usize];
            self.placement.release(j, job);
            out.end(j, job.end, job.end, job.end > job.deadline);
            self.running.retain(|r| *r != j);
            self.runnable.retain(|r| *r != j);
        }
    }

    fn start(&mut self, j: u32, out: &mut Step) {
        self.pending.retain(|p| *p != j);
        self.running.push(j);
        out.started.push(j);
    }

    fn report(&self, jobs: &[Job], out: &mut Step) {
        out.runs.clear();
        for &j in &self.runnable {
            let job = &jobs[j as usize];
            if job.set.is_some() {
                out.runs.push((j, self.placement.spread(j, job)));
            }
        }
    }

    fn go_on(&mut self, now: f64) {
        self.events.keep_apart(now, self.slot);
        if let Some(next) = self.events.next() {
            self.elapsed = (next - now).trunc();
        }
    }
}

fn new_jobs(start: &[u32], jobs: &[Job]) -> Vec<u32> {
    let known = |j: &&u32| jobs.get(**j as usize).is_some_and(|j| j.known);
    start.iter().filter(known).copied().collect()
}

/// Earliest deadline first. It charges no overheads.
#[derive(Clone, Serialize, Deserialize)]
pub struct Edf(Common);

impl Edf {
    pub(super) fn new(shape: Shape, slot: f64, submits: &[f64]) -> Self {
        Edf(Common::new(shape, slot, submits))
    }
}

impl Program for Edf {
    fn due(&self) -> Option<f64> {
        self.0.events.next()
    }

    fn step(&mut self, now: f64, jobs: &mut [Job], out: &mut Step) {
        let c = &mut self.0;
        progress(&c.runnable, c.elapsed, now, jobs, &mut c.events);
        let Some(event) = c.events.get(now).cloned() else {
            return;
        };
        let start = new_jobs(&event.start, jobs);
        c.end(&event.end, jobs, out);
        // A waiting job's plan matters only if it begins now: once nothing is free
        // and all that have started are planned, nobody else's does.
        let mut waiting = vec![false; jobs.len()];
        for &j in c.pending.iter().chain(&start) {
            waiting[j as usize] = true;
        }
        let mut to_plan = c.running.len();
        let stop = |free: i64, j: u32, _: &Planned| {
            to_plan -= usize::from(!waiting[j as usize]);
            free == 0 && to_plan == 0
        };
        let proposals = if start.is_empty() {
            let mut list = std::mem::take(&mut c.runnable);
            let (_, proposals) = c.plan(now, &mut list, jobs, stop);
            c.runnable = list;
            proposals
        } else {
            let mut list = [c.runnable.as_slice(), &start].concat();
            let (_, proposals) = c.plan(now, &mut list, jobs, stop);
            c.pending.extend(&start);
            c.runnable.extend(&start);
            out.admitted.extend(&start);
            proposals
        };
        let list = c.runnable.clone();
        c.release_all(&list, jobs);
        for &(j, gpus, planned) in &proposals {
            let job = &mut jobs[j as usize];
            job.num_gpu = gpus;
            job.old_end = job.end;
            job.end = planned.end;
        }
        for &j in &list {
            let job = &jobs[j as usize];
            if !waiting[j as usize] {
                c.events.move_end(j, job.old_end, job.end);
            } else if job.num_gpu > 0 {
                c.start(j, out);
                c.events.add_end(j, job.end);
            }
        }
        let mut placed: Vec<u32> = list;
        placed.retain(|j| jobs[*j as usize].num_gpu > 0);
        placed.sort_by_key(|j| std::cmp::Reverse(jobs[*j as usize].num_gpu));
        for &j in &placed {
            c.placement.place(j, &mut jobs[j as usize]);
        }
        c.report(jobs, out);
        c.events.take(now);
        c.go_on(now);
    }
}

/// Earliest deadline first with admission control: a job with which anybody
/// would be late is turned away. It charges overheads.
#[derive(Clone, Serialize, Deserialize)]
pub struct EdfAdmission(Common);

impl EdfAdmission {
    pub(super) fn new(shape: Shape, slot: f64, submits: &[f64]) -> Self {
        EdfAdmission(Common::new(shape, slot, submits))
    }
}

impl Program for EdfAdmission {
    fn due(&self) -> Option<f64> {
        self.0.events.next()
    }

    fn step(&mut self, now: f64, jobs: &mut [Job], out: &mut Step) {
        let c = &mut self.0;
        progress(&c.runnable, c.elapsed, now, jobs, &mut c.events);
        let list = c.runnable.clone();
        for &j in &list {
            jobs[j as usize].old_end = jobs[j as usize].end;
        }
        c.release_all(&list, jobs);
        let Some(event) = c.events.get(now).cloned() else {
            return;
        };
        c.end(&event.end, jobs, out);
        let mut any_accepted = false;
        for j in new_jobs(&event.start, jobs) {
            let mut list = [c.runnable.as_slice(), &[j]].concat();
            // One that would be late is enough to say no.
            let late = |_: i64, _: u32, planned: &Planned| !planned.met;
            let (all_met, proposals) = c.plan(now, &mut list, jobs, late);
            if !all_met {
                out.rejected.push(j);
                continue;
            }
            any_accepted = true;
            c.pending.push(j);
            c.runnable.push(j);
            out.admitted.push(j);
            for &(j, gpus, planned) in &proposals {
                let job = &mut jobs[j as usize];
                job.num_gpu = gpus;
                job.old_end = job.end;
                job.end = planned.end;
            }
            for &r in &c.running {
                let job = &jobs[r as usize];
                c.events.move_end(r, job.old_end, job.end);
            }
            let starts = |p: &&u32| jobs[**p as usize].num_gpu > 0;
            let starts: Vec<u32> = c.pending.iter().filter(starts).copied().collect();
            for p in starts {
                c.start(p, out);
                c.events.add_end(p, jobs[p as usize].end);
            }
        }
        if any_accepted {
            for &j in &c.runnable {
                if jobs[j as usize].num_gpu > 0 {
                    c.placement.place(j, &mut jobs[j as usize]);
                }
            }
        } else {
            let mut list = std::mem::take(&mut c.runnable);
            let (_, proposals) = c.plan(now, &mut list, jobs, |_, _, _| false);
            c.runnable = list;
            for (j, gpus, planned) in proposals {
                let job = &mut jobs[j as usize];
                job.num_gpu = gpus;
                // Who is paused keeps its old end, and may end by it.
                if gpus == 0 {
                    continue;
                }
                c.placement.place(j, job);
                if c.pending.contains(&j) {
                    c.start(j, out);
                    c.events.add_end(j, job.end);
                }
                c.events.move_end(j, job.old_end, planned.end);
                job.end = planned.end;
            }
        }
        c.placement.note_positions(jobs);
        c.report(jobs, out);
        c.events.take(now);
        if c.events.is_empty() {
            return;
        }
        let total = c.shape.gpus();
        let restart = c.steps > 0 && (c.steps as f64) % c.slot == 0.0;
        c.steps += 1;
        if restart {
            c.placement.cache.clear();
        }
        for &j in &c.running {
            let job = &mut jobs[j as usize];
            job.overhead = 0.0;
            if job.num_gpu > 0 {
                job.overhead = overhead(total, job.num_gpu, restart, job.cached);
                let old = job.end;
                job.end += job.overhead;
                c.events.move_end(j, old, job.end);
            }
        }
        c.go_on(now);
    }
}
