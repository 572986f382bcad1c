//! `themis` of the original: finish-time fairness in leases.

use super::buddy::{Buddy, Shape};
use super::events::Events;
use super::job::Job;
use super::shares::{Claim, fair_shares};
use super::{Program, Step};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Account {
    /// Iterations left and isolated share at the last round, once there was one.
    last: Option<(f64, f64)>,
    /// What it would have done alone until then.
    alone: f64,
    remaining: f64,
}

/// Shares by finish-time fairness every lease, the largest first. The shares of
/// jobs that are not the worst off are not unique: they get what lies in the middle of
/// all best answers, where an interior-point solver stops.
#[derive(Clone, Serialize, Deserialize)]
pub struct Themis {
    shape: Shape,
    slot: f64,
    events: Events,
    placement: Buddy,
    runnable: Vec<u32>,
    accounts: Vec<Account>,
    /// The moment of the last event: what the original measures waiting by.
    event_time: f64,
    next: Option<f64>,
}

impl Themis {
    pub(super) fn new(shape: Shape, slot: f64, submits: &[f64]) -> Self {
        let events = Events::of_arrivals(submits);
        Themis {
            shape,
            slot,
            placement: Buddy::new(shape),
            runnable: Vec::new(),
            accounts: Vec::new(),
            event_time: 0.0,
            next: events.next(),
            events,
        }
    }

    /// Orders jobs by their shares, the largest first.
    fn rank(&mut self, jobs: &[Job]) {
        let total = f64::from(self.shape.gpus());
        let part = (total / self.runnable.len() as f64).ceil();
        let mut claims = Vec::with_capacity(self.runnable.len());
        for &j in &self.runnable {
            let (job, account) = (&jobs[j as usize], &mut self.accounts[j as usize]);
            let gpus = f64::from(job.gpus);
            let share = part / gpus / (part / gpus).max(1.0);
            if let Some((left, before)) = account.last {
                account.alone += (left - job.left) / before;
            }
            account.last = Some((job.left, share));
            claims.push(Claim {
                waited: self.event_time - job.submit,
                left: job.left / job.rate(job.gpus),
                alone: account.alone + job.left / share,
                gpus,
            });
        }
        let (shares, _) = fair_shares(&claims, total);
        let mut order: Vec<usize> = (0..shares.len()).collect();
        order.sort_by(|a, b| shares[*b].total_cmp(&shares[*a]));
        self.runnable = order.into_iter().map(|i| self.runnable[i]).collect();
    }

    /// Who has a lease: as many as fit, in order.
    fn lease(&mut self, jobs: &mut [Job], out: &mut Step) -> Vec<u32> {
        let mut free = self.shape.gpus();
        let mut running = Vec::new();
        for &j in &self.runnable {
            let gpus = jobs[j as usize].gpus;
            if gpus <= free && free > 0 {
                free -= gpus;
                running.push(j);
            }
        }
        running.sort_by_key(|j| std::cmp::Reverse(jobs[*j as usize].gpus));
        out.runs.clear();
        for &j in &running {
            if self.placement.place(j, &mut jobs[j as usize]) {
                let spread = self.placement.spread(j, &jobs[j as usize]);
                out.runs.push((j, spread));
            }
        }
        running
    }
}

impl Program for Themis {
    fn due(&self) -> Option<f64> {
        self.next
    }

    fn step(&mut self, now: f64, jobs: &mut [Job], out: &mut Step) {
        self.accounts.resize(jobs.len(), Account::default());
        for &j in &self.runnable {
            self.placement.release(j, &mut jobs[j as usize]);
        }
        if let Some(event) = self.events.take(now) {
            self.event_time = now;
            for j in event.end {
                let job = &jobs[j as usize];
                out.end(j, job.end, job.end, job.end > job.deadline);
                self.runnable.retain(|r| *r != j);
            }
            for j in event.start {
                let Some(job) = jobs.get_mut(j as usize).filter(|j| j.known) else {
                    continue;
                };
                job.num_gpu = job.gpus;
                self.accounts[j as usize].remaining = job.duration;
                self.runnable.push(j);
                out.admitted.push(j);
            }
        }
        let mut running = Vec::new();
        out.runs.clear();
        if !self.runnable.is_empty() {
            self.rank(jobs);
            running = self.lease(jobs, out);
        }
        let until = now + self.slot;
        // A last event is drawn to the end of the lease as well.
        self.events.keep_apart(now, self.slot);
        if let Some(at) = self.events.next().filter(|t| (t - now).trunc() < self.slot)
            && let Some(event) = self.events.take(at)
        {
            self.events.put(until, event);
        }
        for &j in self.runnable.iter().filter(|j| running.contains(j)) {
            let (job, account) = (&mut jobs[j as usize], &mut self.accounts[j as usize]);
            let mut end = now + account.remaining;
            account.remaining = (account.remaining - self.slot).max(0.0);
            job.left -= self.slot * job.rate(job.gpus);
            if job.left <= 0.0 {
                account.remaining = 0.0;
                end = until;
            }
            if end <= until {
                job.end = end;
                self.events.add_end(j, until);
            }
        }
        let fits = |j: &u32| jobs[*j as usize].gpus <= self.shape.gpus();
        self.next = if self.runnable.iter().any(fits) {
            Some(until)
        } else {
            // Leases without jobs go by.
            self.events.next().map(|at| {
                let leases = ((at - now) / self.slot).ceil().max(1.0);
                now + leases * self.slot
            })
        };
        if let (Some(next), Some(at)) = (self.next, self.events.next())
            && self.runnable.is_empty()
            && at < next
        {
            self.events.keep_apart(next - self.slot, self.slot);
            if let Some(at) = self.events.next().filter(|t| *t < next)
                && let Some(event) = self.events.take(at)
            {
                self.events.put(next, event);
            }
        }
    }
}
