//! `themis` of the original: finish-time fairness in leases.

use super::buddy::Shape;
use super::job::Job;
use super::program::{Program, Step, Times};
use super::shares::{Claim, fair_shares};
use super::slots::Slots;

#[derive(Clone, Copy, Debug, Default)]
struct Account {
    /// Remaining iterations and isolated share at the last round, after the first one.
    last: Option<(f64, f64)>,
    /// Time that the completed work would have taken alone.
    alone: f64,
    remaining: f64,
}

/// Finish-time fairness in leases of one slot, the largest share first.
///
/// The shares of jobs that are not worst off are not unique. They get the analytic centre of all
/// optimal shares, at which an interior-point solver stops.
pub struct Themis {
    slots: Slots,
    accounts: Vec<Account>,
    /// Time of the last event. The original measures waiting times from it.
    event_time: f64,
    next: Option<f64>,
}

impl Themis {
    /// Sorts jobs by descending share.
    fn rank(&mut self, jobs: &[Job]) {
        let runnable = &mut self.slots.runnable;
        let total = f64::from(self.slots.shape.gpus());
        let part = (total / runnable.len() as f64).ceil();
        let mut claims = Vec::with_capacity(runnable.len());
        for &j in &*runnable {
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
        *runnable = order.into_iter().map(|i| runnable[i]).collect();
    }

    /// Gives leases to jobs that fit, in order.
    fn lease(&mut self, jobs: &mut [Job], out: &mut Step) -> Vec<u32> {
        let mut free = self.slots.shape.gpus();
        let mut running = Vec::new();
        for &j in &self.slots.runnable {
            let gpus = jobs[j as usize].gpus;
            if gpus <= free && free > 0 {
                free -= gpus;
                running.push(j);
            }
        }
        running.sort_by_key(|j| std::cmp::Reverse(jobs[*j as usize].gpus));
        for &j in &running {
            self.slots.placement.place(j, &mut jobs[j as usize]);
        }
        self.slots.report(&running, jobs, out);
        running
    }
}

impl Program for Themis {
    fn new(shape: Shape, times: Times, jobs: &[Job]) -> Self {
        let slots = Slots::new(shape, times.check, jobs);
        Themis {
            next: slots.events.next(),
            slots,
            accounts: vec![Account::default(); jobs.len()],
            event_time: 0.0,
        }
    }

    fn due(&self) -> Option<f64> {
        self.next
    }

    fn step(&mut self, now: f64, jobs: &mut [Job], out: &mut Step) {
        let slot = self.slots.slot;
        let runnable = self.slots.runnable.clone();
        self.slots.release(&runnable, jobs);
        if let Some(event) = self.slots.events.take(now) {
            self.event_time = now;
            self.slots.end(&event.end, jobs, out);
            for j in event.start {
                let job = &mut jobs[j as usize];
                job.num_gpu = job.gpus;
                self.accounts[j as usize].remaining = job.duration;
                self.slots.runnable.push(j);
            }
        }
        let mut running = Vec::new();
        if !self.slots.runnable.is_empty() {
            self.rank(jobs);
            running = self.lease(jobs, out);
        }
        let until = now + slot;
        // Quirk: the program also moves the last event to the end of the lease.
        self.slots.events.keep_apart(now, slot);
        let early = |t: f64| (t - now).trunc() < slot;
        self.slots.events.postpone(until, early);
        for &j in self.slots.runnable.iter().filter(|j| running.contains(j)) {
            let (job, account) = (&mut jobs[j as usize], &mut self.accounts[j as usize]);
            let mut end = now + account.remaining;
            account.remaining = (account.remaining - slot).max(0.0);
            job.left -= slot * job.rate(job.gpus);
            if job.left <= 0.0 {
                account.remaining = 0.0;
                end = until;
            }
            if end <= until {
                job.end = end;
                self.slots.events.add_end(j, until);
            }
        }
        let fits = |j: &u32| jobs[*j as usize].gpus <= self.slots.shape.gpus();
        self.next = if self.slots.runnable.iter().any(fits) {
            Some(until)
        } else {
            // Leases without jobs are skipped.
            self.slots.events.next().map(|at| {
                let leases = ((at - now) / slot).ceil().max(1.0);
                now + leases * slot
            })
        };
        if let (Some(next), Some(at)) = (self.next, self.slots.events.next())
            && self.slots.runnable.is_empty()
            && at < next
        {
            self.slots.events.keep_apart(next - slot, slot);
            self.slots.events.postpone(next, |t| t < next);
        }
    }
}
