//! Applying of checked plans, except plans that are applied at once.

use super::State;
use super::check::{Released, Trial};
use crate::assignment::Assignment;
use crate::decision::{Action, Command, Plan};
use crate::ids::{GpuId, JobId};
use crate::job::{Bound, JobRef, Notice, Phase};
use crate::model::share::Share;
use crate::reason::Reason;
use crate::units::Time;
use smallvec::SmallVec;
use std::collections::BTreeSet;

impl State {
    pub(super) fn commit_plan(&mut self, plan: &Plan, trial: &mut Trial) {
        self.exchange_allocations(plan, trial);
        for (released, old) in trial.released.iter().zip(&trial.olds) {
            self.commit_release(*released, old);
        }
        for (i, action) in plan.actions.iter().enumerate() {
            let Some(s) = self.slot(action.job()) else {
                continue;
            };
            if trial.is_left_out(i) {
                // The policy assumes that the step was applied, so the job counts as changed.
                self.touch_slot(s);
                continue;
            }
            match action {
                Action::Stop { why, .. } => self.commit_stop(s, why),
                Action::Finish { job, why } => {
                    self.records[s].reason = why.clone();
                    self.commands.push(Command::Finish { job: *job });
                }
                Action::Promote { .. } => {
                    self.records[s].promoted = true;
                    self.touch_slot(s);
                }
                Action::Notify { by, .. } => self.commit_notice(s, *by),
                Action::Place { .. } => {}
            }
        }
        for s in trial.slots() {
            self.commit_place(s, trial);
        }
        // Blockers change only on GPUs whose allocation changed. Such GPUs are now allocated only
        // to placed jobs and jobs that share them.
        let mut in_place = false;
        if trial.shared {
            self.recount_all(trial);
        } else {
            for s in trial.slots() {
                self.recount(s);
                self.dispatch_if_clear(s);
                in_place |= self.waits_in_place(s);
            }
        }
        if trial.shared || in_place {
            for s in trial.slots() {
                // Jobs that swap GPUs in place would wait for each other forever.
                if self.waits_in_a_circle(s) {
                    self.commit_stop(s, &Reason::WaitingForGpus);
                }
            }
        }
    }

    /// Releases and allocates the GPUs, CPUs and memory of a plan.
    fn exchange_allocations(&mut self, plan: &Plan, trial: &mut Trial) {
        for released in &trial.released {
            let rec = &mut self.records[released.slot as usize];
            let old = rec.allocated_mut().take().unwrap_or_default();
            self.cluster.deallocate(rec.id, &old);
            trial.olds.push(old);
        }
        for placed in &trial.placed {
            let rec = &mut self.records[placed.slot as usize];
            if let Some(new) = placed.assignment(plan) {
                self.cluster.allocate(rec.id, new);
                rec.allocated = Some(new.clone());
            }
        }
    }

    /// Recounts the blockers of all jobs on GPUs of the plan, and dispatches launches without
    /// blockers.
    fn recount_all(&mut self, trial: &Trial) {
        let mut jobs: Vec<usize> = Vec::new();
        let mut gpus: BTreeSet<GpuId> = BTreeSet::new();
        let mut beside = |gpu: GpuId, jobs: &mut Vec<usize>| {
            if gpus.insert(gpu) {
                let claims = self.cluster.allocated_claims(gpu);
                let others = claims.iter().filter_map(|(other, _)| self.slot(other));
                jobs.extend(others.filter(|o| self.records[*o].pending));
            }
        };
        for s in trial.slots() {
            jobs.push(s);
            for &gpu in self.records[s].allocated.iter().flat_map(|a| &a.gpus) {
                beside(gpu, &mut jobs);
            }
        }
        for &gpu in trial.olds.iter().flat_map(|old| &old.gpus) {
            beside(gpu, &mut jobs);
        }
        for &s in &jobs {
            self.recount(s);
        }
        for s in jobs {
            self.dispatch_if_clear(s);
        }
    }

    /// Handles a job whose change in place was left out as stale. The job keeps its old allocation.
    /// If that allocation is no longer available, the job is stopped.
    fn commit_release(&mut self, released: Released, old: &Assignment) {
        let s = released.slot as usize;
        if self.records[s].allocated.is_some() || released.stopped {
            return;
        }
        let id = self.records[s].id;
        let has_room = |gpu: &GpuId| self.cluster.used(*gpu).has_room(old.share);
        let free = old.gpus.iter().all(has_room);
        if free && self.has_resources(id, old) {
            self.cluster.allocate(id, old);
            self.records[s].allocated = Some(old.clone());
        } else {
            self.commit_stop(s, &Reason::NotChosen);
        }
    }

    fn commit_stop(&mut self, s: usize, why: &Reason) {
        let rec = &mut self.records[s];
        rec.settle(self.now);
        rec.reason = why.clone();
        if rec.allocated.is_none() {
            rec.pending = false;
        }
        let (job, attempt) = (rec.id, rec.attempt);
        if rec.bound().is_none() {
            // The job never started, so there is nothing to stop.
            if rec.allocated.is_none() {
                self.let_wait(s);
            }
        } else if rec.phase == Phase::Stopping {
            self.touch_slot(s);
        } else {
            rec.preemptions += 1;
            self.count_busy(s, false);
            self.set_phase(s, Phase::Stopping);
            self.commands.push(Command::Stop {
                job,
                attempt,
                why: why.clone(),
            });
        }
    }

    /// Gives a job a notice, unless it has one or has no GPUs.
    fn commit_notice(&mut self, s: usize, by: Time) {
        let rec = &mut self.records[s];
        let (job, attempt) = (rec.id, rec.attempt);
        let now = self.now;
        let noticed = JobRef { rec, now }.leaves_at().is_some();
        if noticed || rec.bound().is_none() || rec.phase == Phase::Stopping {
            return;
        }
        rec.notice = Some(Box::new(Notice { attempt, by }));
        self.touch_slot(s);
        self.watch_time(job);
        self.commands.push(Command::Notify { job, attempt, by });
    }

    fn commit_place(&mut self, s: usize, trial: &Trial) {
        let rec = &mut self.records[s];
        let Some(new) = &rec.allocated else { return };
        let goes_on = matches!(rec.phase, Phase::Running | Phase::Starting);
        if goes_on && trial.before(s).is_some_and(|b| b.same_grant(new)) {
            return;
        }
        if goes_on && rec.bound().is_some_and(|h| h.same_grant(new)) {
            // The plan withdraws a change that is still pending: the job keeps its bound GPUs.
            rec.pending = false;
            self.touch_slot(s);
            return;
        }
        rec.settle(self.now);
        rec.pending = true;
        if rec.phase == Phase::Waiting {
            self.set_phase(s, Phase::Starting);
        } else {
            self.touch_slot(s);
        }
    }

    /// Counts the blockers of a pending launch on its GPUs.
    pub(super) fn recount(&mut self, s: usize) {
        let rec = &self.records[s];
        if !rec.pending {
            return;
        }
        let mut blockers = 0;
        for &gpu in rec.allocated.iter().flat_map(|a| &a.gpus) {
            blockers += match self.cluster.bound_whole(gpu) {
                // Nearly always, a launch takes a GPU whole that one job leaves, or none.
                Some(holder) if !self.cluster.has_several(gpu) => {
                    u32::from(holder.is_some_and(|holder| holder != rec.id))
                }
                _ => {
                    let share = rec.allocated.as_ref().map_or(Share::WHOLE, |a| a.share);
                    self.cluster.blockers(gpu, rec.id, share)
                }
            };
        }
        let rec = &mut self.records[s];
        rec.blockers = blockers;
        if blockers > 0 && rec.phase != Phase::Stopping {
            rec.reason = Reason::WaitingForGpus;
        }
    }

    /// Returns the jobs that a pending launch waits for on a GPU: jobs that leave it or change their
    /// part of it.
    fn blockers_on(&self, s: usize, gpu: GpuId) -> SmallVec<[JobId; 2]> {
        let rec = &self.records[s];
        let waits = |a: &&Assignment| self.cluster.blockers(gpu, rec.id, a.share) > 0;
        if rec.allocated.as_ref().filter(waits).is_none() {
            return SmallVec::new();
        }
        let allocated = self.cluster.allocated_claims(gpu);
        let bound = self.cluster.bound_claims(gpu);
        let others = bound.iter().filter(|(holder, _)| *holder != rec.id);
        let leaving = others.filter(|(holder, share)| allocated.of(*holder) != Some(*share));
        leaving.map(|(holder, _)| holder).collect()
    }

    /// Recounts the blockers of the other pending launches on GPUs, and dispatches launches without
    /// blockers.
    fn recount_others(&mut self, job: JobId, gpus: &[GpuId]) {
        for &gpu in gpus {
            for other in self.cluster.allocated_to(gpu).filter(|other| *other != job) {
                if let Some(o) = self.slot(other).filter(|o| self.records[*o].pending) {
                    self.recount(o);
                    self.dispatch_if_clear(o);
                }
            }
        }
    }

    /// Returns whether a change in place waits for GPUs.
    fn waits_in_place(&self, s: usize) -> bool {
        let rec = &self.records[s];
        rec.pending && rec.bound().is_some() && rec.phase != Phase::Stopping
    }

    /// Returns whether a change in place is in a deadlock: it waits for GPUs that are unbound only
    /// after the change itself.
    fn waits_in_a_circle(&self, start: usize) -> bool {
        let waits = |s: usize| self.waits_in_place(s);
        if !waits(start) {
            return false;
        }
        let mut seen = vec![start];
        let mut next = 0;
        while let Some(&s) = seen.get(next) {
            next += 1;
            for &gpu in self.records[s].allocated.iter().flat_map(|a| &a.gpus) {
                for holder in self.blockers_on(s, gpu) {
                    let Some(h) = self.slot(holder).filter(|h| waits(*h)) else {
                        continue;
                    };
                    if h == start {
                        return true;
                    }
                    if !seen.contains(&h) {
                        seen.push(h);
                    }
                }
            }
        }
        false
    }

    pub(super) fn dispatch_if_clear(&mut self, s: usize) {
        let rec = &mut self.records[s];
        if !rec.pending || rec.blockers > 0 || rec.phase == Phase::Stopping {
            return;
        }
        let Some(new) = rec.allocated.clone() else {
            return;
        };
        // Until now the job used its bound GPUs.
        rec.settle(self.now);
        rec.pending = false;
        rec.attempt += 1;
        if !new.config.is_none() {
            rec.config = new.config.clone();
        }
        let (job, attempt) = (rec.id, rec.attempt);
        let copies = self.copies_on(s);
        self.count_busy(s, false);
        let rec = &mut self.records[s];
        let old = rec.take_bound();
        rec.bound = Bound::AsAllocated;
        let mut others: SmallVec<[GpuId; 2]> = SmallVec::new();
        for &gpu in &new.gpus {
            let had = self.cluster.bound_share(gpu, job);
            let smaller = had.is_some_and(|had| had != new.share);
            // Launches wait there for jobs that leave. The room for them is now another: they wait for
            // more, or no longer.
            if (smaller || self.cluster.has_several(gpu)) && self.cluster.is_left(gpu) {
                others.push(gpu);
            }
            if had != Some(new.share) {
                self.cluster.bind(job, gpu, new.share);
            }
        }
        let rec = &mut self.records[s];
        match old {
            Some(old) => {
                // A change in place does not make a notice void.
                if let Some(notice) = &mut rec.notice
                    && notice.attempt + 1 == attempt
                {
                    notice.attempt = attempt;
                }
                // The job leaves these GPUs when it reports that the change is complete.
                for gpu in &old.gpus {
                    if !rec.leaving.contains(gpu) {
                        rec.leaving.push(*gpu);
                    }
                }
                rec.leaving.retain(|g| !new.gpus.contains(g));
                self.set_phase(s, Phase::Starting);
                if !copies.is_empty() && old.share == new.share {
                    self.keep_copies(s, copies);
                }
                self.commands.push(Command::Change { job, attempt, old });
            }
            None => self.commands.push(Command::Start { job, attempt }),
        }
        if !others.is_empty() {
            self.recount_others(job, &others);
        }
    }
}
