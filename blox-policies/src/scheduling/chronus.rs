//! Leases for jobs with deadlines.

use super::listed::list_fitting;
use blox_core::{
    AdmissionDecisions, AdmissionPolicy, JobId, JobQueue, JobRef, Policy, SchedulingPolicy,
    Seconds, ServiceClass, SortedMap, Validity, View, sort,
};
use blox_solve::{Program, Solver, Var};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Choice among new jobs with deadlines that arrive together.
#[derive(Clone, Default)]
pub enum LeaseChoice {
    /// Considers jobs one by one, wide jobs first. Each gets the latest leases that are left.
    #[default]
    Greedy,
    /// Accepts as many jobs as fit together, by a program of whole numbers for this solver. If the
    /// solver finds nothing within its limit, it falls back to `Greedy`.
    Optimal(Arc<dyn Solver + Send + Sync>),
}

/// Leases for jobs with deadlines; best-effort jobs use the rest (Chronus, SoCC 2021).
///
/// Time is divided into leases; decisions should fall on their multiples. A job with a deadline is
/// accepted if enough leases before the deadline are free for all its work. They are then reserved.
/// Otherwise it runs as best-effort.
///
/// In each lease, the jobs with a reservation run first. Best-effort jobs follow by least remaining
/// time, as long as they fit. Accepted jobs that run ahead of their leases come last. Remaining
/// times are the true values. After a crash or an overhead, an accepted job may have too few leases
/// left. It then gets more if there are any, and otherwise keeps its leases. Plans are limited to a
/// million leases ahead: a job that needs more runs as best-effort.
#[derive(Clone)]
pub struct Chronus {
    lease: f64,
    choice: LeaseChoice,
}

/// Leases reserved for each job.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Leases {
    /// Reserved leases of accepted jobs, by number, ascending.
    plans: SortedMap<JobId, Vec<u64>>,
}

/// Maximum number of leases that a plan reaches ahead.
const FURTHEST: u64 = 1_000_000;

/// Job that needs leases.
#[derive(Clone, Copy, Debug)]
struct Wish {
    job: JobId,
    gpus: u32,
    /// Number of leases that it needs before lease `until`.
    needed: u64,
    until: u64,
}

impl Chronus {
    /// Creates the policy with leases of this length, above 0 (else 1 s).
    pub fn new(lease: Seconds) -> Self {
        let lease = lease.secs();
        Chronus {
            lease: if lease > 0.0 { lease } else { 1.0 },
            choice: LeaseChoice::default(),
        }
    }

    /// Sets the choice among jobs that arrive together.
    #[must_use]
    pub fn choosing(mut self, choice: LeaseChoice) -> Self {
        self.choice = choice;
        self
    }

    /// Returns the number of the lease that begins now or next.
    fn first_lease(&self, view: View<'_>) -> u64 {
        let now = view.now().secs();
        let k = (now / self.lease).round();
        if k * self.lease == now {
            k as u64
        } else {
            (now / self.lease).ceil() as u64
        }
    }

    fn wish(&self, job: &JobRef<'_>, first: u64) -> Option<Wish> {
        let deadline = job.deadline()?;
        let left = job.work_left() / job.spec().work.rate;
        let needed = (left / self.lease).ceil() as u64;
        // Bounds the plan of a job with a distant deadline.
        let ahead = needed.saturating_mul(4).saturating_add(10_000);
        let until = (deadline.secs() / self.lease).floor().max(0.0) as u64;
        Some(Wish {
            job: job.id(),
            gpus: job.gpus().get(),
            needed,
            until: until.min(first.saturating_add(ahead.min(FURTHEST))),
        })
    }

    /// Returns the GPUs that plans leave in each lease from `first` until before `until`.
    fn left_over(&self, memory: &Leases, view: View<'_>, first: u64, until: u64) -> Vec<i64> {
        let total = i64::from(view.usable_gpus().get());
        let mut left = vec![total; until.saturating_sub(first) as usize];
        for (job, leases) in &memory.plans {
            let gpus = view.job(*job).map_or(0, |j| i64::from(j.gpus().get()));
            for k in leases.iter().filter(|k| **k >= first && **k < until) {
                left[(k - first) as usize] -= gpus;
            }
        }
        left
    }

    /// Returns the latest suitable leases, if there are enough.
    fn latest(wish: &Wish, first: u64, left: &[i64]) -> Option<Vec<u64>> {
        let open = (first..wish.until).rev().filter(|k| {
            let left = left.get((k - first) as usize);
            left.is_some_and(|l| *l >= i64::from(wish.gpus))
        });
        let mut leases: Vec<u64> = open.take(wish.needed as usize).collect();
        leases.reverse();
        (leases.len() as u64 == wish.needed).then_some(leases)
    }

    fn set_aside(
        &self,
        memory: &mut Leases,
        wish: &Wish,
        leases: Vec<u64>,
        first: u64,
        left: &mut [i64],
    ) {
        for k in &leases {
            left[(k - first) as usize] -= i64::from(wish.gpus);
        }
        memory.plans.insert(wish.job, leases);
    }

    fn accept_greedily(
        &self,
        memory: &mut Leases,
        wishes: &mut [Wish],
        first: u64,
        left: &mut [i64],
    ) {
        sort::by_key(wishes, |w| {
            let slack = w.until.saturating_sub(first.saturating_add(w.needed));
            (std::cmp::Reverse(w.gpus), slack, w.job)
        });
        for wish in wishes.iter() {
            if let Some(leases) = Self::latest(wish, first, left) {
                self.set_aside(memory, wish, leases, first, left);
            }
        }
    }

    /// Returns as many jobs as fit, with their leases.
    fn choose(
        wishes: &[Wish],
        first: u64,
        left: &[i64],
        solver: &dyn Solver,
    ) -> Option<Vec<(Wish, Vec<u64>)>> {
        let mut program = Program::maximise();
        let mut in_lease: Vec<Vec<(Var, f64)>> = vec![Vec::new(); left.len()];
        let mut jobs = Vec::new();
        for wish in wishes {
            let span = wish.until.saturating_sub(first).min(left.len() as u64);
            if wish.needed > span {
                continue;
            }
            let chosen = program.binary(1.0);
            let leases: Vec<Var> = (0..span).map(|_| program.binary(0.0)).collect();
            let mut row: Vec<(Var, f64)> = leases.iter().map(|v| (*v, 1.0)).collect();
            row.push((chosen, -(wish.needed as f64)));
            program.equal(&row, 0.0);
            for (k, var) in leases.iter().enumerate() {
                in_lease[k].push((*var, f64::from(wish.gpus)));
            }
            jobs.push((*wish, chosen, leases));
        }
        for (row, left) in in_lease.iter().zip(left) {
            if !row.is_empty() {
                program.at_most(row, (*left).max(0) as f64);
            }
        }
        let solution = solver.solve(&program).ok()?;
        let chosen = jobs.into_iter().filter(|(_, s, _)| solution[*s] == 1.0);
        let plans = chosen.map(|(wish, _, leases)| {
            let on = (first..)
                .zip(leases)
                .filter(|(_, var)| solution[*var] == 1.0);
            (wish, on.map(|(k, _)| k).collect())
        });
        Some(plans.collect())
    }

    /// Removes past leases and leases that are no longer needed, and reserves missing ones.
    fn tidy(&self, memory: &mut Leases, view: View<'_>, first: u64) {
        let mut short = Vec::new();
        let wishes: SortedMap<JobId, Wish> = view
            .active()
            .filter_map(|j| Some((j.id(), self.wish(&j, first)?)))
            .collect();
        memory.plans.retain(|job, leases| {
            let Some(wish) = wishes.get(job) else {
                return false;
            };
            leases.retain(|k| *k >= first);
            let spare = (leases.len() as u64).saturating_sub(wish.needed);
            leases.drain(..spare as usize);
            if (leases.len() as u64) < wish.needed {
                short.push(*wish);
            }
            true
        });
        for mut wish in short {
            let mut left = self.left_over(memory, view, first, wish.until.max(first));
            let has = memory.plans.get(&wish.job).cloned().unwrap_or_default();
            for k in has.iter().filter(|k| **k < wish.until) {
                // A job cannot reserve a lease twice.
                left[(k - first) as usize] = 0;
            }
            wish.needed -= has.len() as u64;
            if let Some(more) = Self::latest(&wish, first, &left) {
                let mut leases = [has, more].concat();
                leases.sort_unstable();
                memory.plans.insert(wish.job, leases);
            }
        }
    }
}

impl Policy for Chronus {
    type Memory = Leases;

    fn initial(&self, _: u64) -> Leases {
        Leases::default()
    }
}

impl AdmissionPolicy for Chronus {
    fn admit(
        &self,
        memory: &mut Self::Memory,
        view: View<'_>,
        asking: &[JobId],
        out: &mut AdmissionDecisions,
    ) -> Validity {
        if asking.is_empty() {
            return Validity::UntilEvent;
        }
        let first = self.first_lease(view);
        self.tidy(memory, view, first);
        let mut wishes: Vec<Wish> = asking
            .iter()
            .filter_map(|id| view.job(*id))
            .filter(|j| j.class() == ServiceClass::Guaranteed)
            .filter_map(|j| self.wish(&j, first))
            .collect();
        let until = wishes.iter().map(|w| w.until).max().unwrap_or(first);
        let mut left = self.left_over(memory, view, first, until);
        let chosen = match &self.choice {
            LeaseChoice::Optimal(solver) if wishes.len() > 1 => {
                Self::choose(&wishes, first, &left, &**solver)
            }
            _ => None,
        };
        match chosen {
            Some(plans) => {
                for (wish, leases) in plans {
                    self.set_aside(memory, &wish, leases, first, &mut left);
                }
            }
            None => self.accept_greedily(memory, &mut wishes, first, &mut left),
        }
        for &id in asking {
            let has_deadline = view.job(id).is_some_and(|j| j.deadline().is_some());
            if has_deadline && !memory.plans.contains_key(&id) {
                out.accept_as(id, Some(ServiceClass::BestEffort), None);
            } else {
                out.accept(id);
            }
        }
        Validity::UntilEvent
    }
}

impl SchedulingPolicy for Chronus {
    fn schedule(&self, memory: &mut Self::Memory, view: View<'_>, out: &mut JobQueue) -> Validity {
        let first = self.first_lease(view);
        self.tidy(memory, view, first);
        // Between two leases, jobs of the current lease continue.
        let between = first as f64 * self.lease != view.now().secs();
        let mut order: Vec<(u8, f64, JobId)> = view
            .active()
            .map(|job| {
                let left = job.work_left() / job.spec().work.rate;
                let rank = match memory.plans.get(&job.id()) {
                    Some(leases) if leases.first() == Some(&first) && !between => 0,
                    Some(_) if between && job.is_placed() => 0,
                    Some(_) => 2,
                    None => 1,
                };
                (rank, left, job.id())
            })
            .collect();
        order.sort_by(|a, b| {
            let rank = a.0.cmp(&b.0).then(a.1.total_cmp(&b.1));
            rank.then(a.2.cmp(&b.2))
        });
        list_fitting(view, out, order.into_iter().map(|(_, _, job)| job))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(job: u32, gpus: u32, needed: u64, until: u64) -> Wish {
        Wish {
            job: JobId(job),
            gpus,
            needed,
            until,
        }
    }

    #[test]
    fn leases_are_set_aside_as_late_as_they_may() {
        assert_eq!(
            Chronus::latest(&wish(0, 2, 2, 5), 1, &[4, 4, 1, 4]),
            Some(vec![2, 4])
        );
        assert_eq!(Chronus::latest(&wish(0, 2, 4, 5), 1, &[4, 4, 1, 4]), None);
    }

    #[test]
    fn set_aside_takes_gpus_of_the_leases_only() {
        let chronus = Chronus::new(Seconds::new(240.0));
        let (mut memory, mut left) = (Leases::default(), [4, 4, 4]);
        chronus.set_aside(&mut memory, &wish(0, 3, 2, 5), vec![2, 4], 2, &mut left);
        assert_eq!(left, [1, 4, 1]);
        assert_eq!(memory.plans[&JobId(0)], [2, 4]);
    }

    #[test]
    fn program_takes_two_narrow_jobs_and_greed_a_wide_one() {
        let chronus = Chronus::new(Seconds::new(240.0));
        let mut wishes = [wish(0, 4, 1, 1), wish(1, 2, 1, 1), wish(2, 2, 1, 1)];
        let solver = blox_microlp::BranchAndBound { limit: Some(1000) };
        let plans = Chronus::choose(&wishes, 0, &[4], &solver).unwrap();
        let chosen: Vec<_> = plans.iter().map(|(w, _)| w.job.0).collect();
        assert_eq!(chosen, [1, 2]);
        let mut leases = Leases::default();
        chronus.accept_greedily(&mut leases, &mut wishes, 0, &mut [4]);
        assert_eq!(leases.plans.keys().copied().collect::<Vec<_>>(), [JobId(0)]);
    }
}
