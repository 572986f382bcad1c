//! Accounting of job changes: lists of jobs, counts, demand and busy GPUs.

use super::live::JobSet;
use super::{Kept, NO_SLOT, State};
use crate::assignment::GpuList;
use crate::ids::{GpuId, JobId, NameId};
use crate::job::{Phase, Record};
use crate::model::share::{Gpus, Share};
use crate::units::GpuCount;
use prefetch_index::prefetch_index;

/// Job lists of the state. A job is in at most one of them.
#[derive(Clone, Copy, PartialEq)]
enum List {
    None,
    Deferred,
    Waiting,
    Placed,
}

impl List {
    #[inline(always)]
    fn of(phase: Phase) -> Self {
        match phase {
            Phase::Submitted | Phase::Ended => List::None,
            Phase::Deferred => List::Deferred,
            Phase::Waiting => List::Waiting,
            Phase::Starting | Phase::Running | Phase::Stopping => List::Placed,
        }
    }

    /// Returns whether the requested GPUs of jobs in the list count as demand.
    #[inline(always)]
    fn demands(self) -> bool {
        matches!(self, List::Waiting | List::Placed)
    }
}

impl State {
    /// Adds the GPUs of a job to the busy GPUs if `more`, else subtracts them. GPUs on which
    /// another job runs stay as counted. Call it while the job is running and its GPUs are bound.
    pub(super) fn count_busy(&mut self, s: usize, more: bool) {
        if !self.kept.is_empty() && !more {
            self.end_kept(s);
        }
        let rec = &self.records[s];
        if let Some(bound) = rec.bound().filter(|_| rec.phase == Phase::Running) {
            let change = self.change_of(rec, &bound.gpus, bound.share, more);
            self.change_busy(change, more);
        }
    }

    /// Returns the number of a job's GPUs on which no other job runs, and the unused parts of busy
    /// GPUs. With `more`, these parts are the ones after the job began to run, else before.
    fn change_of(&self, rec: &Record, gpus: &[GpuId], share: Share, more: bool) -> (u32, Gpus) {
        let is_free = |gpu: &&GpuId| self.running_beside(rec, **gpu).is_none();
        let alone = gpus.iter().filter(is_free).count();
        let unused = match alone == gpus.len() && share.is_whole() {
            true => self.unused,
            false => self.unused_with(rec, gpus, share, more),
        };
        (alone as u32, unused)
    }

    /// Returns the sum of the parts of a GPU on which other jobs run; `None` if there are none.
    fn running_beside(&self, rec: &Record, gpu: GpuId) -> Option<Gpus> {
        let runs = |r: &Record| {
            let holds = r.bound().is_some_and(|a| a.gpus.contains(&gpu));
            let keeps = || {
                let kept = self.kept.get(&r.id);
                kept.is_some_and(|kept| kept.gpus.contains(&gpu))
            };
            r.phase == Phase::Running && holds || keeps()
        };
        let claims = self.cluster.bound_claims(gpu);
        let others = claims.iter().filter(|(owner, _)| *owner != rec.id);
        let others = others.filter(|(owner, _)| self.record(*owner).is_some_and(runs));
        let parts = others.map(|(_, share)| Gpus::of(GpuCount(1), share));
        parts.reduce(|sum, part| sum + part)
    }

    #[cold]
    fn unused_with(&self, rec: &Record, gpus: &[GpuId], share: Share, more: bool) -> Gpus {
        let part = |share| Gpus::of(GpuCount(1), share);
        let whole = part(Share::WHOLE);
        let mut unused = self.unused;
        for gpu in gpus {
            let parts = self.running_beside(rec, *gpu);
            let left = whole - (parts.unwrap_or_default() + part(share));
            let without = parts.map_or(Gpus::default(), |parts| whole - parts);
            unused = match more {
                true => unused + left - without,
                false => unused + without - left,
            };
        }
        unused
    }

    fn change_busy(&mut self, (gpus, unused): (u32, Gpus), more: bool) {
        self.count_busy_time();
        self.unused = unused;
        self.busy = match more {
            true => self.busy + gpus,
            false => self.busy - gpus,
        };
    }

    /// Returns the GPUs on which copies of a service run.
    pub(super) fn copies_on(&self, s: usize) -> GpuList {
        if self.timed.is_empty() {
            return GpuList::new();
        }
        let rec = &self.records[s];
        let needs = rec.spec.extras.as_ref().is_some_and(|e| e.need.is_some());
        match (rec.phase, rec.bound()) {
            (Phase::Running, Some(bound)) if needs => bound.gpus.clone(),
            _ if needs => self
                .kept
                .get(&rec.id)
                .map(|kept| kept.gpus.clone())
                .unwrap_or_default(),
            _ => GpuList::new(),
        }
    }

    /// Notes the GPUs that a service keeps in a change, on which its whole copies continue to run.
    pub(super) fn keep_copies(&mut self, s: usize, mut gpus: GpuList) {
        let rec = &self.records[s];
        let bound = rec.bound().map_or(&[][..], |bound| &bound.gpus);
        gpus.retain(|gpu| bound.contains(gpu));
        gpus.truncate(gpus.len() - gpus.len() % rec.gpus.max(1) as usize);
        if !gpus.is_empty() {
            let share = rec.bound().map_or(Share::WHOLE, |bound| bound.share);
            let change = self.change_of(rec, &gpus, share, true);
            let (id, since) = (rec.id, self.now);
            self.kept.insert(id, Kept { gpus, since });
            self.change_busy(change, true);
        }
    }

    /// Counts the time of the copies of a service that ran on during a change.
    pub(super) fn end_kept(&mut self, s: usize) {
        let rec = &mut self.records[s];
        if let Some(kept) = self.kept.remove(&rec.id) {
            let passed = (self.now - kept.since).secs();
            let share = rec.bound().map_or(Share::WHOLE, |bound| bound.share);
            rec.service += passed;
            rec.gpu_service += passed * kept.gpus.len() as f64 * share.fraction();
            let change = self.change_of(&self.records[s], &kept.gpus, share, false);
            self.change_busy(change, false);
        }
    }

    /// Notes that a job needs decisions at times of its own.
    pub(super) fn watch_time(&mut self, id: JobId) {
        if let Err(i) = self.timed.binary_search(&id) {
            self.timed.insert(i, id);
        }
    }

    pub(super) fn let_wait(&mut self, s: usize) {
        self.records[s].eligible_since = self.next_moment.max(self.now);
        self.set_phase(s, Phase::Waiting);
    }

    /// Changes the phase of a job and the accounting. [`State::commit_at_once`] does the same for all
    /// jobs of a plan together.
    pub(super) fn set_phase(&mut self, s: usize, phase: Phase) {
        let rec = &mut self.records[s];
        let old = std::mem::replace(&mut rec.phase, phase);
        let (id, vc) = (rec.id, rec.virtual_cluster);
        rec.touch(self.version, &mut self.touched);
        self.counts[old as usize] -= 1;
        self.counts[phase as usize] += 1;
        let (was, is) = (List::of(old), List::of(phase));
        if was == is {
            return;
        }
        if let Some(list) = self.list(was) {
            list.remove(id);
        }
        if let Some(list) = self.list(is) {
            list.insert(id);
        }
        if was.demands() != is.demands() {
            let amount = self.records[s].amount();
            self.count_demand(amount, vc, is.demands());
        }
    }

    #[inline(always)]
    fn list(&mut self, list: List) -> Option<&mut JobSet> {
        match list {
            List::None => None,
            List::Deferred => Some(&mut self.deferred),
            List::Waiting => Some(&mut self.waiting),
            List::Placed => Some(&mut self.placed),
        }
    }

    fn count_demand(&mut self, gpus: Gpus, vc: Option<NameId>, more: bool) {
        self.demand = add(self.demand, gpus, more);
        if let Some(vc) = vc {
            let demand = demand_of(&mut self.demand_of_vc, vc);
            *demand = add(*demand, gpus, more);
        }
    }

    #[inline]
    pub(super) fn touch_slot(&mut self, s: usize) {
        self.records[s].touch(self.version, &mut self.touched);
    }

    #[inline]
    pub(super) fn slot(&self, id: JobId) -> Option<usize> {
        match self.slots.get(id) {
            NO_SLOT => None,
            slot => Some(slot as usize),
        }
    }

    #[inline]
    pub(crate) fn record(&self, id: JobId) -> Option<&Record> {
        // The slot of a removed job, `NO_SLOT`, is beyond the records.
        self.records.get(self.slots.get(id) as usize)
    }

    /// Prefetches the record of a job. Queues of tens of thousands of jobs do not fit in the
    /// caches.
    #[inline]
    pub(crate) fn fetch_ahead(&self, id: JobId) {
        if let Some(rec) = self.record(id) {
            // One field of each cache line that a launch needs.
            fetch(&rec.id);
            fetch(&rec.work);
            fetch(&rec.iterations);
            fetch(&rec.allocated);
            fetch(&rec.last_start);
        }
    }
}

/// Returns the demand of a virtual cluster, out of the demand of all.
pub(super) fn demand_of(all: &mut Vec<Gpus>, virtual_cluster: NameId) -> &mut Gpus {
    let i = virtual_cluster.index();
    if all.len() <= i {
        all.resize(i + 1, Gpus::default());
    }
    &mut all[i]
}

#[inline]
fn fetch<T>(field: &T) {
    prefetch_index(std::slice::from_ref(field), 0);
}

fn add(total: Gpus, amount: Gpus, plus: bool) -> Gpus {
    if plus { total + amount } else { total - amount }
}
