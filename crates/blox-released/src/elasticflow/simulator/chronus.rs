//! `time-aware-with-lease` of the original: Chronus without its commercial solver.

use super::buddy::{Shape, Spread};
use super::job::{Job, log2};
use super::{ChronusRow, Program, Step};
use std::collections::VecDeque;

/// State of a job's deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    /// The job can no longer meet its deadline.
    Lowest,
    /// The job runs in the leases reserved for it.
    #[default]
    Accepted,
    /// The job runs on GPUs that no lease reserves.
    Unaccepted,
}

#[derive(Clone, Debug, Default)]
struct State {
    class: Class,
    /// Seconds from submission within which the job should end. `expect_first` has the first value.
    expect: f64,
    expect_first: f64,
    estimate: f64,
    /// Number of leases that the job still needs.
    leases: i64,
    /// For each future lease, true if it is reserved for the job.
    plan: Option<VecDeque<bool>>,
    in_lease: bool,
    ran_over: bool,
    planned: bool,
    executed: f64,
    last_check: f64,
    resumed: u32,
    preempted: u32,
    waited: f64,
}

/// A job to pack into leases: leases until the deadline, leases needed, and GPUs.
#[derive(Clone, Copy, Debug)]
struct Item {
    job: u32,
    until: i64,
    needed: i64,
    gpus: i64,
}

/// Reserves leases for jobs with accepted deadlines. Other jobs share the remaining GPUs.
pub struct Chronus {
    shape: Shape,
    times: Times,
    /// Index of the first job that has not arrived.
    arrived: usize,
    states: Vec<State>,
    pending: Vec<u32>,
    running: Vec<u32>,
    next: Option<f64>,
    rows: Vec<ChronusRow>,
}

impl Chronus {
    /// Returns the first time at or after `from` at which the next arrival is seen.
    fn next_arrival(&self, from: f64, jobs: &[Job]) -> Option<f64> {
        let at = jobs.get(self.arrived)?.submit.max(from);
        let mut t = (at / self.times.check).ceil() * self.times.check;
        while t % self.times.pass != 0.0 {
            t += self.times.check;
        }
        Some(t)
    }

    fn restarts(resumed: u32, gpus: u32) -> f64 {
        f64::from(resumed) * 0.5 * (1.0 + log2(gpus))
    }

    /// Advances running jobs to `now`.
    fn run(&mut self, now: f64, jobs: &[Job], out: &mut Step) {
        let at_lease = now % self.times.lease == 0.0;
        let mut ended = Vec::new();
        for &j in &self.running {
            let (job, s) = (&jobs[j as usize], &mut self.states[j as usize]);
            let ran = (now - s.last_check).trunc();
            let lost = Self::restarts(s.resumed, job.gpus);
            if ran + s.executed >= job.duration + lost {
                let end = s.last_check + job.duration - s.executed + lost;
                s.executed += (end - s.last_check).trunc();
                ended.push((j, end));
                continue;
            }
            if ran + s.executed >= s.estimate && (at_lease || !s.in_lease) {
                s.class = Class::Unaccepted;
                s.plan = None;
                s.ran_over = true;
                s.planned = false;
            }
            s.executed += ran;
            s.last_check = now;
            if !s.in_lease && s.class == Class::Accepted {
                let needs = ((s.estimate - s.executed) / self.times.lease).ceil() as i64;
                if needs != s.leases {
                    s.leases = needs;
                    drop_leases(&mut s.plan, 1);
                }
            }
        }
        for (j, end) in ended {
            let (job, s) = (&jobs[j as usize], &self.states[j as usize]);
            self.running.retain(|r| *r != j);
            self.rows.push(ChronusRow {
                job: j,
                end,
                waited: s.waited,
                executed: s.executed,
                resumed: s.resumed,
                preempted: s.preempted,
                expect: s.expect,
                priority: match s.class {
                    Class::Lowest => -1,
                    Class::Accepted => 0,
                    Class::Unaccepted => 1,
                },
            });
            out.end(j, end, end, end - job.submit > s.expect);
        }
    }

    /// Returns the number of the next lease, from 0. With `after`, a lease that begins now does not
    /// count.
    fn lease_number(&self, now: f64, after: bool) -> i64 {
        let begun = (now / self.times.lease).floor() as i64;
        if after || now % self.times.lease != 0.0 {
            begun + 1
        } else {
            begun
        }
    }

    fn item(&self, j: u32, job: &Job, number: i64) -> Item {
        let s = &self.states[j as usize];
        Item {
            job: j,
            until: ((s.expect_first + job.submit) / self.times.lease).floor() as i64 - number,
            needed: s.leases,
            gpus: i64::from(job.gpus),
        }
    }

    fn counts(s: &State) -> bool {
        s.class == Class::Accepted && s.planned && s.leases > 0
    }

    /// Returns the GPUs that plans leave free in each future lease.
    fn left_over(&self, jobs: &[Job]) -> Vec<i64> {
        let mut left = Vec::new();
        for &j in self.pending.iter().chain(&self.running) {
            let s = &self.states[j as usize];
            let Some(plan) = s.plan.as_ref().filter(|_| Self::counts(s)) else {
                continue;
            };
            if left.len() < plan.len() {
                left.resize(plan.len(), i64::from(self.shape.gpus()));
            }
            for (k, _) in plan.iter().enumerate().filter(|(_, on)| **on) {
                left[k] -= i64::from(jobs[j as usize].gpus);
            }
        }
        left
    }

    /// Begins a new lease.
    fn begin_lease(&mut self, now: f64, jobs: &[Job]) {
        let before = self.running.clone();
        for j in std::mem::take(&mut self.running) {
            let s = &mut self.states[j as usize];
            s.in_lease = false;
            s.last_check = now;
            let needs = ((s.estimate - s.executed) / self.times.lease).ceil() as i64;
            if s.class == Class::Accepted && needs < s.leases {
                drop_leases(&mut s.plan, s.leases - needs);
                s.leases = needs;
            }
            self.pending.push(j);
        }
        let number = self.lease_number(now, false);
        let selected = |s: &Self, j: &&u32| Self::counts(&s.states[**j as usize]);
        let selected: Vec<u32> = self
            .pending
            .iter()
            .filter(|j| selected(self, j))
            .copied()
            .collect();
        if !selected.is_empty() {
            let new = selected
                .iter()
                .filter(|j| self.states[**j as usize].plan.is_none());
            let items: Vec<Item> = new
                .map(|j| self.item(*j, &jobs[*j as usize], number))
                .collect();
            let mut left = self.left_over(jobs);
            if let Some(plans) = self.pack(&items, &mut left) {
                for (item, plan) in items.iter().zip(plans) {
                    self.states[item.job as usize].plan = Some(plan);
                }
            }
            for j in std::mem::take(&mut self.pending) {
                let s = &mut self.states[j as usize];
                let mut runs = false;
                if s.class == Class::Accepted {
                    match &mut s.plan {
                        None => s.class = Class::Unaccepted,
                        Some(plan) => runs = plan.pop_front().unwrap_or(false),
                    }
                }
                if runs {
                    s.in_lease = true;
                    s.leases -= 1;
                    self.running.push(j);
                } else {
                    self.pending.push(j);
                }
            }
        }
        self.count_switches(&before);
    }

    fn count_switches(&mut self, before: &[u32]) {
        for j in &self.running {
            if !before.contains(j) {
                self.states[*j as usize].resumed += 1;
            }
        }
        for j in &self.pending {
            if before.contains(j) {
                self.states[*j as usize].preempted += 1;
            }
        }
    }

    /// Takes the leases that items need, latest first. Returns `None` if not all fit.
    fn pack(&self, items: &[Item], left: &mut Vec<i64>) -> Option<Vec<VecDeque<bool>>> {
        let total = i64::from(self.shape.gpus());
        let mut order: Vec<usize> = (0..items.len()).collect();
        order.sort_by_key(|&i| {
            let item = &items[i];
            (-item.gpus, item.until - item.needed, -item.until)
        });
        let mut plans = vec![VecDeque::new(); items.len()];
        for i in order {
            let item = &items[i];
            let until = item.until.max(0) as usize;
            if left.len() < until {
                left.resize(until, total);
            }
            let mut plan: VecDeque<bool> = std::iter::repeat_n(false, until).collect();
            let mut needed = item.needed;
            for k in (0..until).rev() {
                if needed == 0 {
                    break;
                }
                if left[k] >= item.gpus {
                    left[k] -= item.gpus;
                    plan[k] = true;
                    needed -= 1;
                }
            }
            if needed > 0 {
                return None;
            }
            plans[i] = plan;
        }
        Some(plans)
    }

    /// Adds new jobs, and accepts or rejects their deadlines.
    fn arrive(&mut self, now: f64, jobs: &[Job]) {
        let number = self.lease_number(now, true);
        let left = self.left_over(jobs);
        let open = self.pending.iter().chain(&self.running).filter(|j| {
            let s = &self.states[**j as usize];
            Self::counts(s) && s.plan.is_none()
        });
        let mut items: Vec<Item> = open
            .map(|j| self.item(*j, &jobs[*j as usize], number))
            .collect();
        while let Some(job) = jobs.get(self.arrived).filter(|j| j.submit <= now) {
            let j = self.arrived as u32;
            self.arrived += 1;
            let slow = 1.0 + (1.0 + log2(job.gpus)) * 0.5 / self.times.lease;
            let estimate = (job.duration * slow * 1.1).trunc();
            let expect = job.deadline - job.submit;
            self.states[j as usize] = State {
                class: Class::Accepted,
                expect,
                expect_first: expect,
                estimate,
                leases: (estimate / self.times.lease).ceil() as i64,
                planned: true,
                last_check: now,
                waited: now - job.submit,
                ..State::default()
            };
            let new = self.item(j, job, number);
            items.push(new);
            let fits =
                |program: &Self, items: &[Item]| program.pack(items, &mut left.clone()).is_some();
            if new.needed <= new.until && fits(self, &items) {
                let s = &mut self.states[j as usize];
                s.expect = self.times.lease * (new.until + number) as f64 - job.submit;
            } else {
                self.states[j as usize].class = Class::Unaccepted;
                // For jobs that arrive with it, the job counts with the earliest deadline at which
                // it fits.
                let last = items.len() - 1;
                let most = items.iter().map(|i| i.until).max().unwrap_or(0);
                let mut low = new.until.max(new.needed);
                let mut high = most.max(left.len() as i64) + new.needed + 1;
                while low < high {
                    let middle = low + (high - low) / 2;
                    items[last].until = middle;
                    if fits(self, &items) {
                        high = middle;
                    } else {
                        low = middle + 1;
                    }
                }
                items[last].until = low;
            }
            self.pending.push(j);
        }
    }

    /// Gives the remaining GPUs to jobs without an accepted deadline.
    fn fill(&mut self, now: f64, jobs: &[Job]) {
        let before = self.running.clone();
        let mut keys = vec![0.0; self.states.len()];
        for &j in &self.pending {
            let (job, s) = (&jobs[j as usize], &mut self.states[j as usize]);
            s.waited += (now - s.last_check).trunc();
            s.last_check = now;
            let due = s.expect + job.submit;
            if s.class != Class::Lowest && due < now + job.duration - s.executed {
                s.class = Class::Lowest;
            }
            let rest = s.estimate - s.executed;
            keys[j as usize] = -f64::from(job.gpus)
                * if s.class == Class::Unaccepted {
                    rest
                } else {
                    due - now - rest
                };
        }
        let states = &self.states;
        let (key, submit) = (|j: u32| keys[j as usize], |j: u32| jobs[j as usize].submit);
        let class = |j: u32| states[j as usize].class;
        self.pending.sort_by(|&a, &b| {
            let first = class(b).cmp(&class(a)).then(key(b).total_cmp(&key(a)));
            first.then(submit(b).total_cmp(&submit(a)))
        });
        let used: u32 = self.running.iter().map(|j| jobs[*j as usize].gpus).sum();
        let mut free = self.shape.gpus() - used.min(self.shape.gpus());
        if free > 0 {
            let over = |j: u32| states[j as usize].ran_over;
            self.pending.sort_by(|&a, &b| {
                let first = over(b).cmp(&over(a)).then(class(b).cmp(&class(a)));
                let then = first.then(key(b).total_cmp(&key(a)));
                then.then(submit(a).total_cmp(&submit(b)))
            });
        }
        for j in std::mem::take(&mut self.pending) {
            let (job, s) = (&jobs[j as usize], &mut self.states[j as usize]);
            if s.class != Class::Accepted && job.gpus <= free {
                free -= job.gpus;
                s.last_check = now;
                self.running.push(j);
            } else {
                self.pending.push(j);
            }
        }
        self.count_switches(&before);
    }
}

/// Gives up the first `count` reserved leases.
fn drop_leases(plan: &mut Option<VecDeque<bool>>, count: i64) {
    let on = plan.iter_mut().flatten().filter(|on| **on);
    for lease in on.take(count.max(0) as usize) {
        *lease = false;
    }
}

/// Intervals of Chronus in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// Time between two checks of running jobs.
    pub check: f64,
    /// Length of a lease.
    pub lease: f64,
    /// Time between two passes over new and waiting jobs, 240 in the original.
    pub pass: f64,
}

impl Program for Chronus {
    type Times = Times;

    fn new(shape: Shape, times: Times, jobs: &[Job]) -> Self {
        let mut program = Chronus {
            shape,
            times,
            arrived: 0,
            states: vec![State::default(); jobs.len()],
            pending: Vec::new(),
            running: Vec::new(),
            next: None,
            rows: Vec::new(),
        };
        program.next = program.next_arrival(0.0, jobs);
        program
    }

    fn due(&self) -> Option<f64> {
        self.next
    }

    fn step(&mut self, now: f64, jobs: &mut [Job], out: &mut Step) {
        self.run(now, jobs, out);
        if now % self.times.lease == 0.0 {
            self.begin_lease(now, jobs);
        }
        if now % self.times.pass == 0.0 {
            self.arrive(now, jobs);
            self.fill(now, jobs);
        }
        // The results do not depend on nodes, so the spread is empty.
        let bound = |j: &u32| (*j, jobs[*j as usize].gpus, Spread::new());
        out.runs.extend(self.running.iter().map(bound));
        let fits = |j: &u32| jobs[*j as usize].gpus <= self.shape.gpus();
        let alive = !self.running.is_empty() || self.pending.iter().any(fits);
        self.next = if alive {
            Some(now + self.times.check)
        } else {
            self.next_arrival(now + self.times.check, jobs)
        };
    }

    fn rows(self) -> Vec<ChronusRow> {
        self.rows
    }
}
