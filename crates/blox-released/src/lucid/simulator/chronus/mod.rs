//! Chronus as in its artifact, with its mixed-integer program or without a solver.

mod plan;

pub use plan::{Objective, Planner};

use super::Program;
use super::job::Job;
use plan::{Row, bin, solve};
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Minutes between two checks of new and waiting jobs.
const CHECK: i64 = 5;
/// Maximum lease in minutes with which jobs that were not accepted may be forced in, and accepted
/// jobs may run outside their plan.
const SHORT_LEASE: f64 = 30.0;
/// Maximum number of deadlines in one program, per minute of a lease. The plans of excess rows are
/// kept.
const MOST_ROWS: f64 = 20.0;

/// Priorities of jobs. The order of the numbers matters.
const LOWEST: i32 = -1;
const ACCEPTED: i32 = 0;
const UNACCEPTED: i32 = 1;
const BEST_EFFORT: i32 = 2;

/// Result of a job. Times are in minutes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChronusRecord {
    /// The job.
    pub job: u32,
    /// End of the job, possibly within a minute.
    pub end: f64,
    /// Waiting time as the original counts it.
    pub pending: f64,
    /// Run time as the original counts it.
    pub executed: f64,
    /// Work done, including work that the original credits for free.
    pub progress: f64,
    /// Number of preemptions.
    pub preempted: u32,
    /// Number of times that the job was resumed.
    pub resumed: u32,
    /// Time from submission to the promised deadline.
    pub expect: f64,
    /// Priority: 0 accepted, 1 not accepted, 2 best effort, -1 too late.
    pub priority: i32,
}

#[derive(Debug)]
struct State {
    id: u32,
    /// Number of the job in the trace.
    number: i64,
    gpus: u32,
    submit: f64,
    duration: f64,
    /// Deadlines in minutes after submission, and their values.
    deadlines: Vec<(f64, f64)>,
    best_effort: bool,
    /// Number of leases that the job still needs.
    need: i64,
    estimate: f64,
    progress: f64,
    executed: f64,
    waited: f64,
    /// For each future lease, true if the job runs in it.
    plan: Option<VecDeque<bool>>,
    /// Index of the deadline that the plan meets.
    option: usize,
    expect: f64,
    guaranteed: bool,
    forced: bool,
    overran: bool,
    plannable: bool,
    emergence: f64,
    last: f64,
    resumed: u32,
    preempted: u32,
    priority: i32,
}

impl State {
    fn left(&self) -> f64 {
        self.duration - self.progress
    }

    fn needed(&self, lease: f64) -> i64 {
        ((self.estimate - self.progress) / lease).ceil() as i64
    }

    fn overhead(&self) -> f64 {
        f64::from(self.resumed) * 0.5 * (1.0 + libm::log2(f64::from(self.gpus)))
    }

    fn ran_until(&mut self, now: f64) {
        let minutes = (now - self.last).trunc();
        self.progress += minutes;
        self.executed += minutes;
        self.last = now;
    }

    fn waited_until(&mut self, now: f64) {
        self.waited += (now - self.last).trunc();
        self.last = now;
    }

    /// Updates the priority and the urgency. A job that can no longer meet its deadline gets the
    /// lowest priority.
    fn judge(&mut self, now: f64) {
        let late = self.expect + self.submit < now + self.left();
        if self.priority != BEST_EFFORT && self.priority != LOWEST && late {
            self.priority = LOWEST;
        }
        let rest = self.estimate - self.progress;
        let minutes = match self.priority {
            BEST_EFFORT | UNACCEPTED => rest,
            _ => self.expect + self.submit - now - self.estimate + self.progress,
        };
        self.emergence = -minutes * f64::from(self.gpus);
    }

    /// Removes the earliest leases from the plan.
    fn drop_leases(&mut self, count: i64) {
        let on = self.plan.iter_mut().flatten().filter(|on| **on);
        for lease in on.take(count.max(0) as usize) {
            *lease = false;
        }
    }

    /// Takes the first lease off the plan. Returns true if the job runs in it.
    fn begin_plan(&mut self) -> bool {
        let first = self.plan.as_mut().and_then(VecDeque::pop_front);
        first.unwrap_or(false)
    }

    fn counts(&self) -> bool {
        self.priority == ACCEPTED && self.plannable && self.need > 0
    }

    fn by_key(&self, other: &State) -> Ordering {
        let first = self.overran.cmp(&other.overran);
        let class = self.priority.min(1).cmp(&other.priority.min(1));
        let press = self.emergence.total_cmp(&other.emergence);
        let submit = other.submit.total_cmp(&self.submit);
        first.then(class).then(press).then(submit)
    }
}

/// The program of Chronus. Its ticks are minutes.
#[derive(Debug)]
pub(super) struct Leases {
    total: u32,
    lease: f64,
    planner: Planner,
    /// Last lease before which a job was not accepted.
    refused_before: i64,
    coming: Vec<State>,
    states: BTreeMap<u32, State>,
    pending: Vec<u32>,
    running: Vec<u32>,
    /// GPUs that are not guaranteed to any job in this lease.
    spot: i64,
    free: u32,
    next: Option<i64>,
    pub records: Vec<ChronusRecord>,
}

impl Leases {
    pub fn new(gpus: u32, lease_min: u32, planner: Planner) -> Self {
        Leases {
            total: gpus,
            lease: f64::from(lease_min.max(1)),
            planner,
            refused_before: -1,
            coming: Vec::new(),
            states: BTreeMap::new(),
            pending: Vec::new(),
            running: Vec::new(),
            spot: i64::from(gpus),
            free: gpus,
            next: None,
            records: Vec::new(),
        }
    }

    /// Returns the number of the next lease. Numbers start at 0.
    fn coming_lease(&self, now: f64, begun: bool) -> i64 {
        let number = (now / self.lease).floor() as i64;
        if begun || now % self.lease != 0.0 {
            number + 1
        } else {
            number
        }
    }

    fn state(&self, id: u32) -> &State {
        &self.states[&id]
    }

    fn change<T>(&mut self, id: u32, f: impl FnOnce(&mut State) -> T) -> Option<T> {
        self.states.get_mut(&id).map(f)
    }

    /// Advances running jobs to `now`.
    fn run(&mut self, now: f64) {
        let (lease, at_lease) = (self.lease, now % self.lease == 0.0);
        let mut ended = Vec::new();
        for &id in &self.running {
            let Some(s) = self.states.get_mut(&id) else {
                continue;
            };
            let ran = now - s.last;
            let work = s.duration + s.overhead();
            if ran + s.progress >= work {
                let end = s.last + s.duration - s.progress + s.overhead();
                s.ran_until(end);
                ended.push((id, end));
                continue;
            }
            if ran + s.executed >= s.estimate && (at_lease || !s.guaranteed) {
                s.priority = UNACCEPTED;
                s.plan = None;
                s.overran = true;
                s.plannable = false;
            }
            s.ran_until(now);
            if !s.guaranteed && !s.forced && s.priority == ACCEPTED {
                let needed = s.needed(lease);
                if needed != s.need {
                    s.need = needed;
                    s.drop_leases(1);
                }
            }
        }
        for (id, end) in ended {
            self.running.retain(|r| *r != id);
            let Some(s) = self.states.remove(&id) else {
                continue;
            };
            self.free += s.gpus;
            if s.guaranteed || s.forced {
                self.spot += i64::from(s.gpus);
            }
            self.records.push(ChronusRecord {
                job: id,
                end,
                pending: s.waited,
                executed: s.executed,
                progress: s.progress,
                preempted: s.preempted,
                resumed: s.resumed,
                expect: s.expect,
                priority: s.priority,
            });
        }
    }

    /// Returns the rows of jobs without a plan, and the GPUs that plans leave free in each future
    /// lease.
    fn rows(&self, number: i64) -> (Vec<Row>, Vec<i64>) {
        let (mut rows, mut free) = (Vec::new(), Vec::new());
        let all = || {
            self.pending
                .iter()
                .chain(&self.running)
                .map(|id| self.state(*id))
        };
        let counted = || all().filter(|s| s.counts());
        let options = |s: &State| self.options(s, number);
        let longest = counted()
            .flat_map(options)
            .map(|r| r.most)
            .max()
            .unwrap_or(0);
        free.resize(longest.max(0) as usize, i64::from(self.total));
        for s in counted() {
            match &s.plan {
                None => rows.extend(options(s)),
                Some(plan) => {
                    if free.len() < plan.len() {
                        free.resize(plan.len(), i64::from(self.total));
                    }
                    for (k, _) in plan.iter().enumerate().filter(|(_, on)| **on) {
                        free[k] -= i64::from(s.gpus);
                    }
                }
            }
        }
        (rows, free)
    }

    fn options(&self, s: &State, number: i64) -> Vec<Row> {
        let row = |(option, &(within, value)): (usize, &(f64, f64))| Row {
            job: s.id,
            option,
            most: ((within + s.submit) / self.lease).floor() as i64 - number,
            need: s.need,
            gpus: bin(s.gpus),
            value,
        };
        s.deadlines.iter().enumerate().map(row).collect()
    }

    fn packable(&self, rows: &[Row], free: &[i64]) -> bool {
        let mut order = rows.to_vec();
        order.sort_by(Row::by_size);
        let longest = order.iter().map(|r| r.most).max().unwrap_or(0).max(0) as usize;
        let mut left = free.to_vec();
        left.resize(longest, i64::from(self.total));
        let mut met = BTreeSet::new();
        order
            .iter()
            .all(|row| !met.insert(row.job) || row.take(&mut left, i64::from(self.total)).is_some())
    }

    /// Plans the jobs that have no plan, by descending value. Returns the jobs that run in the
    /// lease that begins.
    fn plan_greedily(&mut self, number: i64) -> Vec<u32> {
        let (mut rows, mut free) = self.rows(number);
        rows.sort_by(Row::by_value);
        let total = i64::from(self.total);
        let mut planned = BTreeSet::new();
        for row in rows {
            if planned.contains(&row.job) {
                continue;
            }
            if let Some(plan) = row.take(&mut free, total) {
                planned.insert(row.job);
                self.change(row.job, |s| {
                    s.plan = Some(plan);
                    s.option = row.option;
                });
            }
        }
        let mut run = self.pending.clone();
        run.retain(|&id| {
            let runs = self.change(id, |s| {
                if s.priority != ACCEPTED {
                    return false;
                }
                if s.plan.is_none() {
                    s.priority = UNACCEPTED;
                }
                s.begin_plan()
            });
            runs == Some(true)
        });
        run
    }

    /// Plans all jobs anew with the integer program. Returns the jobs that run in the lease that
    /// begins.
    ///
    /// If the program has no solution, returns `None` and changes nothing.
    fn plan_by_program(&mut self, number: i64, objective: Objective) -> Option<Vec<u32>> {
        let pending = self.pending.iter().map(|id| self.state(*id));
        let counted = pending.filter(|s| s.counts());
        let mut rows: Vec<Row> = counted.flat_map(|s| self.options(s, number)).collect();
        let longest = rows.iter().map(|r| r.most).max()?.max(1) as usize;
        let mut free = vec![i64::from(self.total); longest];
        let kept = self.keep_plans(&mut rows, &mut free);
        let mut run = Vec::new();
        if !rows.is_empty() {
            let many = objective.uses_many(self.refused_before == number);
            let plans = rows.iter().map(|row| {
                let state = self.state(row.job);
                let plan = state.plan.as_ref().filter(|_| state.option == row.option);
                plan.filter(|p| p.iter().filter(|on| **on).count() as i64 == row.need)
            });
            let plans: Vec<_> = plans.collect();
            let plans = solve(&rows, &free, many, &plans)?;
            for (row, plan) in plans {
                let Row { job, option, .. } = rows[row];
                let runs = self.change(job, |s| {
                    s.plan = Some(plan);
                    s.option = option;
                    s.begin_plan()
                });
                run.extend((runs == Some(true)).then_some(job));
            }
        }
        for job in kept {
            let runs = self.change(job, State::begin_plan);
            run.extend((runs == Some(true)).then_some(job));
        }
        Some(run)
    }

    /// Removes excess rows from the program, widest first. Only jobs that have a plan can be
    /// removed, and they keep it. Returns these jobs.
    fn keep_plans(&self, rows: &mut Vec<Row>, free: &mut [i64]) -> Vec<u32> {
        let most = (MOST_ROWS * self.lease).floor() as usize;
        let mut excess = rows.len().saturating_sub(most);
        if excess == 0 {
            return Vec::new();
        }
        let named = |row: &Row| (self.state(row.job).number, row.option);
        rows.sort_by_key(|r| (Reverse((r.gpus, r.most)), named(r)));
        let (mut kept, mut stays) = (Vec::new(), BTreeSet::new());
        rows.retain(|row| {
            let state = self.state(row.job);
            let plan = state.plan.as_ref();
            let Some(plan) = plan.filter(|_| excess > 0 || stays.contains(&row.job)) else {
                return true;
            };
            stays.insert(row.job);
            if state.option == row.option {
                kept.push(row.job);
                for (left, _) in free.iter_mut().zip(plan).filter(|(_, on)| **on) {
                    *left -= row.gpus;
                }
            }
            excess = excess.saturating_sub(1);
            false
        });
        rows.sort_by_key(named);
        kept
    }

    /// Begins a new lease.
    fn begin_lease(&mut self, now: f64) {
        let before = self.running.clone();
        let lease = self.lease;
        for id in std::mem::take(&mut self.running) {
            self.free += self.state(id).gpus;
            self.change(id, |s| {
                s.guaranteed = false;
                s.forced = false;
                s.last = now;
                let needed = s.needed(lease);
                if s.priority == ACCEPTED && needed < s.need {
                    s.drop_leases(s.need - needed);
                    s.need = needed;
                }
            });
            self.pending.push(id);
        }
        let number = self.coming_lease(now, false);
        let mut selected = Vec::new();
        if self.pending.iter().any(|id| self.state(*id).counts()) {
            let solved = match self.planner {
                Planner::Greedy => None,
                Planner::Solved(objective) => self.plan_by_program(number, objective),
            };
            selected = solved.unwrap_or_else(|| self.plan_greedily(number));
        }
        self.spot = i64::from(self.total);
        for id in selected {
            let gpus = self.state(id).gpus;
            self.spot -= i64::from(gpus);
            self.free -= gpus.min(self.free);
            self.change(id, |s| {
                s.guaranteed = true;
                s.need -= 1;
            });
            self.pending.retain(|p| *p != id);
            self.running.push(id);
        }
        self.count_switches(&before);
        if self.states.values().any(|s| s.priority == UNACCEPTED) {
            self.refused_before = number + 1;
        }
    }

    fn count_switches(&mut self, before: &[u32]) {
        for id in self.running.clone() {
            if !before.contains(&id) {
                self.change(id, |s| s.resumed += 1);
            }
        }
        for id in self.pending.clone() {
            if before.contains(&id) {
                self.change(id, |s| s.preempted += 1);
            }
        }
    }

    /// Accepts or rejects new jobs.
    fn arrive(&mut self, now: f64) {
        let (here, later) = std::mem::take(&mut self.coming)
            .into_iter()
            .partition(|s: &State| s.submit <= now);
        self.coming = later;
        if Vec::is_empty(&here) {
            return;
        }
        let number = self.coming_lease(now, true);
        let (mut rows, free) = self.rows(number);
        for mut s in here {
            let slow = 1.0 + (1.0 + libm::log2(f64::from(s.gpus))) * 0.5 / self.lease;
            s.estimate = (s.duration * slow * 1.1).trunc();
            s.need = (s.estimate / self.lease).ceil() as i64;
            s.last = now;
            s.waited = now - s.submit;
            if s.best_effort || s.deadlines.is_empty() {
                s.priority = BEST_EFFORT;
                s.plannable = false;
            } else {
                s.priority = ACCEPTED;
                s.plannable = true;
                let latest = s.deadlines.last().map_or(0.0, |d| d.0);
                rows.extend(self.options(&s, number));
                let due = |most: i64| self.lease * (most + number) as f64 - s.submit;
                let most = self.fit_last(&mut rows, &free, s.need);
                match most {
                    Fit::AsAsked(most) => s.expect = due(most),
                    Fit::Later(most) if due(most) <= latest => s.expect = due(most),
                    Fit::Later(_) => {
                        s.priority = UNACCEPTED;
                        self.refused_before = number;
                    }
                }
            }
            self.pending.push(s.id);
            self.states.insert(s.id, s);
        }
    }

    /// Checks whether all rows can be packed with the last row unchanged.
    ///
    /// If not, returns the earliest deadline of the last row with which they can, and sets the row
    /// to it.
    fn fit_last(&self, rows: &mut [Row], free: &[i64], need: i64) -> Fit {
        let Some(at) = rows.len().checked_sub(1) else {
            return Fit::AsAsked(0);
        };
        if need <= rows[at].most && self.packable(rows, free) {
            return Fit::AsAsked(rows[at].most);
        }
        rows[at].most = rows[at].most.max(need);
        let longest = rows.iter().map(|r| r.most).max().unwrap_or(0);
        let mut low = rows[at].most;
        let mut high = longest.max(free.len() as i64) + need + 1;
        while low < high {
            let middle = low + (high - low) / 2;
            rows[at].most = middle;
            if self.packable(rows, free) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        rows[at].most = high;
        Fit::Later(high)
    }

    fn sort_pending(&mut self, order: impl Fn(&State, &State) -> Ordering) {
        let states = &self.states;
        self.pending.sort_by(|a, b| order(&states[a], &states[b]));
    }

    fn start(&mut self, id: u32) {
        self.free -= self.state(id).gpus.min(self.free);
        self.pending.retain(|p| *p != id);
        self.running.push(id);
    }

    /// Gives GPUs without a guarantee to the most urgent jobs.
    fn serve_pending(&mut self, now: f64) {
        let before = self.running.clone();
        let number = self.coming_lease(now, true);
        let rest = number as f64 * self.lease - now;
        if self.lease <= SHORT_LEASE {
            self.force(number, rest);
        }
        for id in self.pending.clone() {
            self.change(id, |s| {
                s.waited_until(now);
                s.judge(now);
            });
        }
        let forced: Vec<u32> = self
            .pending
            .iter()
            .copied()
            .filter(|id| self.state(*id).forced)
            .collect();
        let wanted: u32 = forced.iter().map(|id| self.state(*id).gpus).sum();
        if wanted > self.free {
            self.make_room(wanted, now);
        }
        for id in forced {
            let gpus = self.state(id).gpus;
            if gpus > self.free {
                continue;
            }
            self.spot -= i64::from(gpus);
            self.change(id, |s| s.last = now);
            self.start(id);
        }
        self.sort_pending(|a, b| {
            let key = b.priority.cmp(&a.priority);
            let press = b.emergence.total_cmp(&a.emergence);
            key.then(press).then(b.submit.total_cmp(&a.submit))
        });
        if self.free > 0 {
            self.sort_pending(|a, b| b.by_key(a));
        }
        for id in self.pending.clone() {
            let s = self.state(id);
            let planned_only = self.lease > SHORT_LEASE && s.priority == ACCEPTED;
            if s.gpus <= self.free && !planned_only {
                self.change(id, |s| s.last = now);
                self.start(id);
            }
        }
        self.count_switches(&before);
    }

    /// Forces in jobs that were not accepted and that end within the lease.
    fn force(&mut self, number: i64, rest: f64) {
        let states = &self.states;
        let gpus = |id: &u32| i64::from(states[id].gpus);
        let short = |id: &&u32| {
            let s = &states[*id];
            s.priority == UNACCEPTED && s.left() <= rest
        };
        let mut short: Vec<u32> = self.pending.iter().filter(short).copied().collect();
        let press = |id: &u32| states[id].left() * f64::from(states[id].gpus);
        short.sort_by(|a, b| press(a).total_cmp(&press(b)));
        let bound = self.pending.iter().filter(|id| {
            let s = &states[*id];
            s.priority == ACCEPTED && s.forced
        });
        let mut spot = self.spot - bound.map(gpus).sum::<i64>();
        for id in short {
            let (asks, lease) = (i64::from(self.state(id).gpus), self.lease);
            if asks > spot {
                continue;
            }
            spot -= asks;
            self.change(id, |s| {
                s.forced = true;
                s.plannable = false;
                if s.submit >= (number - 1) as f64 * lease {
                    s.priority = ACCEPTED;
                }
            });
        }
    }

    /// Stops jobs without a guarantee until `wanted` GPUs are free.
    fn make_room(&mut self, wanted: u32, now: f64) {
        let lease = self.lease;
        let mut victims = self.running.clone();
        victims.retain(|id| !self.state(*id).guaranteed && !self.state(*id).forced);
        for id in &victims {
            self.change(*id, |s| s.judge(now));
        }
        let states = &self.states;
        victims.sort_by(|a, b| states[a].by_key(&states[b]));
        for id in victims {
            if wanted <= self.free {
                break;
            }
            self.free += self.state(id).gpus;
            self.change(id, |s| {
                s.last = now;
                s.need = s.needed(lease);
                let on = s.plan.iter().flatten().filter(|on| **on).count() as i64;
                s.drop_leases(on - s.need);
            });
            self.running.retain(|r| *r != id);
            self.pending.push(id);
        }
    }

    /// Fills the free GPUs, regardless of the plans.
    fn fill(&mut self) {
        if self.free == 0 {
            return;
        }
        self.sort_pending(|a, b| {
            let key = a.priority.cmp(&b.priority);
            key.then(a.emergence.total_cmp(&b.emergence))
        });
        for id in self.pending.clone() {
            if self.state(id).gpus <= self.free {
                self.start(id);
            }
        }
    }
}

enum Fit {
    AsAsked(i64),
    Later(i64),
}

impl Program for Leases {
    const TICK: f64 = 60.0;

    fn ended(&self) -> usize {
        self.records.len()
    }

    fn due(&self) -> Option<i64> {
        self.next
    }

    fn step(&mut self, tick: i64, arrivals: &[Job]) {
        let now = tick as f64;
        let minutes = |seconds: i64| seconds as f64 / 60.0;
        for job in arrivals {
            let submit = minutes(job.submit);
            let deadlines = job.deadlines.iter().map(|(at, v)| (at / 60.0 - submit, *v));
            let deadlines: Vec<_> = deadlines.collect();
            self.coming.push(State {
                id: job.id,
                number: job.number,
                gpus: job.gpus,
                submit,
                duration: minutes(job.duration),
                expect: deadlines.first().map_or(0.0, |d| d.0),
                deadlines,
                best_effort: job.best_effort,
                need: 0,
                estimate: 0.0,
                progress: 0.0,
                executed: 0.0,
                waited: 0.0,
                plan: None,
                option: 0,
                guaranteed: false,
                forced: false,
                overran: false,
                plannable: false,
                emergence: 0.0,
                last: now,
                resumed: 0,
                preempted: 0,
                priority: ACCEPTED,
            });
        }
        self.run(now);
        if now % self.lease == 0.0 {
            self.begin_lease(now);
        }
        if tick % CHECK == 0 {
            self.arrive(now);
            self.serve_pending(now);
        }
        if tick % 2 == 1 {
            self.fill();
        }
        let alive = !(self.running.is_empty() && self.pending.is_empty() && self.coming.is_empty());
        self.next = alive.then_some(tick + 1);
    }
}
