//! `edf` and `edf-accessctrl` of the original.
//!
//! `edf` is not a composition, as it also has steps at the planned ends of jobs without GPUs.

use super::buddy::Shape;
use super::events::Event;
use super::job::Job;
use super::program::{Program, Step, Times};
use super::slots::{Slots, by_deadline};
use super::timeline::{Planned, Planner, Timeline, merge};

/// `edf`: earliest deadline first. It charges no overheads.
pub type Edf = EarliestFirst<false>;

/// `edf-accessctrl`: earliest deadline first with admission control. It charges overheads.
///
/// A job is rejected if it would make any job late.
pub type EdfAdmission = EarliestFirst<true>;

/// State of the program between its steps.
pub struct EarliestFirst<const ADMITS: bool> {
    slots: Slots,
    planner: Planner,
}

/// A plan that may still be dropped: job, GPUs, and plan.
type Proposal = (u32, u32, Planned);

impl<const ADMITS: bool> EarliestFirst<ADMITS> {
    /// Plans a list in order of deadline, and sorts the list by deadline.
    ///
    /// `stop` gets the GPUs that are free now, and the last planned job. If it returns true, the
    /// other jobs are not planned. Returns true if all planned jobs meet their deadlines, and each
    /// job's GPUs at `now` with its plan.
    fn plan(
        &mut self,
        now: f64,
        list: &mut [u32],
        jobs: &[Job],
        mut stop: impl FnMut(i64, u32, &Planned) -> bool,
    ) -> (bool, Vec<Proposal>) {
        by_deadline(list, jobs);
        let mut free: Timeline = vec![(now, i64::from(self.planner.total))];
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

    /// Runs a step of `edf`.
    fn step_of_all(&mut self, now: f64, jobs: &mut [Job], out: &mut Step) {
        self.slots.progress(now, jobs);
        let Some(Event { start, end, .. }) = self.slots.events.get(now).cloned() else {
            return;
        };
        self.slots.end(&end, jobs, out);
        // A waiting job's plan matters only if it begins now. If no GPU is free and all started
        // jobs are planned, no other plan matters.
        let mut waiting = vec![false; jobs.len()];
        for &j in self.slots.pending.iter().chain(&start) {
            waiting[j as usize] = true;
        }
        let mut to_plan = self.slots.running.len();
        let stop = |free: i64, j: u32, _: &Planned| {
            to_plan -= usize::from(!waiting[j as usize]);
            free == 0 && to_plan == 0
        };
        let mut list = [self.slots.runnable.as_slice(), &start].concat();
        let mut order = list.clone();
        let (_, proposals) = self.plan(now, &mut order, jobs, stop);
        if start.is_empty() {
            // Without new jobs, the program keeps the order by deadline.
            list = order;
        }
        self.slots.pending.extend(&start);
        self.slots.release(&list, jobs);
        adopt(&proposals, jobs);
        for &j in &list {
            let job = &jobs[j as usize];
            if !waiting[j as usize] {
                self.slots.events.move_end(j, job.old_end, job.end);
            } else if job.num_gpu > 0 {
                self.slots.start(j);
                self.slots.events.add_end(j, job.end);
            }
        }
        let mut placed = list.clone();
        placed.retain(|j| jobs[*j as usize].num_gpu > 0);
        placed.sort_by_key(|j| std::cmp::Reverse(jobs[*j as usize].num_gpu));
        for &j in &placed {
            self.slots.placement.place(j, &mut jobs[j as usize]);
        }
        self.slots.report(&list, jobs, out);
        self.slots.runnable = list;
        self.slots.events.take(now);
        self.slots.go_on(now);
    }

    /// Runs a step of `edf-accessctrl`.
    fn step_of_admitted(&mut self, now: f64, jobs: &mut [Job], out: &mut Step) {
        self.slots.progress(now, jobs);
        let list = self.slots.runnable.clone();
        for &j in &list {
            jobs[j as usize].old_end = jobs[j as usize].end;
        }
        self.slots.release(&list, jobs);
        let Some(Event { start, end, .. }) = self.slots.events.get(now).cloned() else {
            return;
        };
        self.slots.end(&end, jobs, out);
        let mut any_accepted = false;
        for j in start {
            let mut list = [self.slots.runnable.as_slice(), &[j]].concat();
            // One late job is enough for a rejection.
            let late = |_: i64, _: u32, planned: &Planned| !planned.met;
            let (all_met, proposals) = self.plan(now, &mut list, jobs, late);
            if !all_met {
                out.rejected.push(j);
                continue;
            }
            any_accepted = true;
            self.slots.pending.push(j);
            self.slots.runnable.push(j);
            adopt(&proposals, jobs);
            for &r in &self.slots.running {
                let job = &jobs[r as usize];
                self.slots.events.move_end(r, job.old_end, job.end);
            }
            let starts = |p: &&u32| jobs[**p as usize].num_gpu > 0;
            let starts: Vec<u32> = self.slots.pending.iter().filter(starts).copied().collect();
            for p in starts {
                self.slots.start(p);
                self.slots.events.add_end(p, jobs[p as usize].end);
            }
        }
        if any_accepted {
            for &j in &self.slots.runnable {
                if jobs[j as usize].num_gpu > 0 {
                    self.slots.placement.place(j, &mut jobs[j as usize]);
                }
            }
        } else {
            let mut list = std::mem::take(&mut self.slots.runnable);
            let (_, proposals) = self.plan(now, &mut list, jobs, |_, _, _| false);
            self.slots.runnable = list;
            for (j, gpus, planned) in proposals {
                let job = &mut jobs[j as usize];
                job.num_gpu = gpus;
                // A paused job keeps its old end, and may end at it.
                if gpus == 0 {
                    continue;
                }
                self.slots.placement.place(j, job);
                if self.slots.pending.contains(&j) {
                    self.slots.start(j);
                    self.slots.events.add_end(j, job.end);
                }
                self.slots.events.move_end(j, job.old_end, planned.end);
                job.end = planned.end;
            }
        }
        self.slots.placement.note_positions(jobs);
        self.slots.report(&self.slots.runnable, jobs, out);
        self.slots.events.take(now);
        let list = self.slots.running.clone();
        self.slots.charge(now, &list, jobs);
    }
}

impl<const ADMITS: bool> Program for EarliestFirst<ADMITS> {
    fn new(shape: Shape, times: Times, jobs: &[Job]) -> Self {
        EarliestFirst {
            slots: Slots::new(shape, times.check, jobs),
            planner: Planner::new(times.check, shape.gpus()),
        }
    }

    fn due(&self) -> Option<f64> {
        self.slots.events.next()
    }

    fn step(&mut self, now: f64, jobs: &mut [Job], out: &mut Step) {
        match ADMITS {
            true => self.step_of_admitted(now, jobs, out),
            false => self.step_of_all(now, jobs, out),
        }
    }
}

/// Makes proposals the plans of their jobs.
fn adopt(proposals: &[Proposal], jobs: &mut [Job]) {
    for &(j, gpus, planned) in proposals {
        let job = &mut jobs[j as usize];
        job.num_gpu = gpus;
        job.old_end = job.end;
        job.end = planned.end;
    }
}
