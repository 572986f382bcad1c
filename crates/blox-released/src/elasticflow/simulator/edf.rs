//! `edf` and `edf-accessctrl` of the original.
//!
//! `edf` is not a composition, as it also has steps at the planned ends of jobs without GPUs.

use super::buddy::Shape;
use super::events::Event;
use super::job::Job;
use super::slots::{Slots, by_deadline};
use super::timeline::{Planned, Planner, Timeline, merge};
use super::{Program, Step};

/// State that both programs keep between steps.
struct Common {
    slots: Slots,
    planner: Planner,
}

/// A plan that may still be dropped: job, GPUs, and plan.
type Proposal = (u32, u32, Planned);

impl Common {
    fn new(shape: Shape, slot: f64, jobs: &[Job]) -> Self {
        Common {
            slots: Slots::new(shape, slot, jobs),
            planner: Planner::new(slot, shape.gpus()),
        }
    }

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

    /// Ends the jobs of an event.
    fn end(&mut self, ending: &[u32], jobs: &mut [Job], out: &mut Step) {
        for &j in ending {
            let job = &mut jobs[j as usize];
            self.slots.placement.release(j, job);
            out.end(j, job.end, job.end, job.end > job.deadline);
            self.slots.forget(j);
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

/// Earliest deadline first. It charges no overheads.
pub struct Edf(Common);

impl Program for Edf {
    type Times = f64;

    fn new(shape: Shape, slot: f64, jobs: &[Job]) -> Self {
        Edf(Common::new(shape, slot, jobs))
    }

    fn due(&self) -> Option<f64> {
        self.0.slots.events.next()
    }

    fn step(&mut self, now: f64, jobs: &mut [Job], out: &mut Step) {
        let c = &mut self.0;
        c.slots.progress(now, jobs);
        let Some(Event { start, end, .. }) = c.slots.events.get(now).cloned() else {
            return;
        };
        c.end(&end, jobs, out);
        // A waiting job's plan matters only if it begins now. If no GPU is free and all started
        // jobs are planned, no other plan matters.
        let mut waiting = vec![false; jobs.len()];
        for &j in c.slots.pending.iter().chain(&start) {
            waiting[j as usize] = true;
        }
        let mut to_plan = c.slots.running.len();
        let stop = |free: i64, j: u32, _: &Planned| {
            to_plan -= usize::from(!waiting[j as usize]);
            free == 0 && to_plan == 0
        };
        let (list, proposals) = if start.is_empty() {
            let mut list = std::mem::take(&mut c.slots.runnable);
            let (_, proposals) = c.plan(now, &mut list, jobs, stop);
            (list, proposals)
        } else {
            let list = [c.slots.runnable.as_slice(), &start].concat();
            let (_, proposals) = c.plan(now, &mut list.clone(), jobs, stop);
            c.slots.pending.extend(&start);
            (list, proposals)
        };
        c.slots.release(&list, jobs);
        adopt(&proposals, jobs);
        for &j in &list {
            let job = &jobs[j as usize];
            if !waiting[j as usize] {
                c.slots.events.move_end(j, job.old_end, job.end);
            } else if job.num_gpu > 0 {
                c.slots.start(j);
                c.slots.events.add_end(j, job.end);
            }
        }
        let mut placed = list.clone();
        placed.retain(|j| jobs[*j as usize].num_gpu > 0);
        placed.sort_by_key(|j| std::cmp::Reverse(jobs[*j as usize].num_gpu));
        for &j in &placed {
            c.slots.placement.place(j, &mut jobs[j as usize]);
        }
        c.slots.report(&list, jobs, out);
        c.slots.runnable = list;
        c.slots.events.take(now);
        c.slots.go_on(now);
    }
}

/// Earliest deadline first with admission control. It charges overheads.
///
/// A job is rejected if it would make any job late.
pub struct EdfAdmission(Common);

impl Program for EdfAdmission {
    type Times = f64;

    fn new(shape: Shape, slot: f64, jobs: &[Job]) -> Self {
        EdfAdmission(Common::new(shape, slot, jobs))
    }

    fn due(&self) -> Option<f64> {
        self.0.slots.events.next()
    }

    fn step(&mut self, now: f64, jobs: &mut [Job], out: &mut Step) {
        let c = &mut self.0;
        c.slots.progress(now, jobs);
        let list = c.slots.runnable.clone();
        for &j in &list {
            jobs[j as usize].old_end = jobs[j as usize].end;
        }
        c.slots.release(&list, jobs);
        let Some(Event { start, end, .. }) = c.slots.events.get(now).cloned() else {
            return;
        };
        c.end(&end, jobs, out);
        let mut any_accepted = false;
        for j in start {
            let mut list = [c.slots.runnable.as_slice(), &[j]].concat();
            // One late job is enough for a rejection.
            let late = |_: i64, _: u32, planned: &Planned| !planned.met;
            let (all_met, proposals) = c.plan(now, &mut list, jobs, late);
            if !all_met {
                out.rejected.push(j);
                continue;
            }
            any_accepted = true;
            c.slots.pending.push(j);
            c.slots.runnable.push(j);
            adopt(&proposals, jobs);
            for &r in &c.slots.running {
                let job = &jobs[r as usize];
                c.slots.events.move_end(r, job.old_end, job.end);
            }
            let starts = |p: &&u32| jobs[**p as usize].num_gpu > 0;
            let starts: Vec<u32> = c.slots.pending.iter().filter(starts).copied().collect();
            for p in starts {
                c.slots.start(p);
                c.slots.events.add_end(p, jobs[p as usize].end);
            }
        }
        if any_accepted {
            for &j in &c.slots.runnable {
                if jobs[j as usize].num_gpu > 0 {
                    c.slots.placement.place(j, &mut jobs[j as usize]);
                }
            }
        } else {
            let mut list = std::mem::take(&mut c.slots.runnable);
            let (_, proposals) = c.plan(now, &mut list, jobs, |_, _, _| false);
            c.slots.runnable = list;
            for (j, gpus, planned) in proposals {
                let job = &mut jobs[j as usize];
                job.num_gpu = gpus;
                // A paused job keeps its old end, and may end at it.
                if gpus == 0 {
                    continue;
                }
                c.slots.placement.place(j, job);
                if c.slots.pending.contains(&j) {
                    c.slots.start(j);
                    c.slots.events.add_end(j, job.end);
                }
                c.slots.events.move_end(j, job.old_end, planned.end);
                job.end = planned.end;
            }
        }
        c.slots.placement.note_positions(jobs);
        c.slots.report(&c.slots.runnable, jobs, out);
        c.slots.events.take(now);
        let list = c.slots.running.clone();
        c.slots.charge(now, &list, jobs);
    }
}
