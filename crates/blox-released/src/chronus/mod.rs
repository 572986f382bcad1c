//! The engine of Chronus, with its mixed-integer program or without a solver.
//!
//! Two released programs have it: the artifact of Chronus (SoCC 2021), and ElasticFlow's baseline.
//! [`Rules`] has their differences. Times are in the unit of the program: minutes in the artifact,
//! seconds in ElasticFlow.

mod plan;

pub use plan::{Objective, Planner};

use blox_core::{SortedMap, sort};
use plan::{Row, bin, solve};
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeSet, VecDeque};

/// Maximum number of deadlines in one program, per unit of time of a lease. The plans of excess
/// rows are kept.
const MOST_ROWS: f64 = 20.0;

/// Priorities of jobs. The order of the numbers matters.
const LOWEST: i32 = -1;
const ACCEPTED: i32 = 0;
const UNACCEPTED: i32 = 1;
const BEST_EFFORT: i32 = 2;

/// Differences between the released programs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Maximum lease with which jobs that were not accepted may be forced in, and accepted jobs may
    /// run outside their plan.
    pub short_lease: f64,
    /// True if plans reserve numbers of GPUs that divide a node.
    pub in_bins: bool,
    /// True if no job gets a plan in a lease that begins unless all do.
    pub all_or_none: bool,
    /// Logarithm to base 2 as the program computes it.
    pub log2: fn(u32) -> f64,
}

/// Result of a job. Times are in the unit of the program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChronusRecord {
    /// The job.
    pub job: u32,
    /// End of the job, possibly within a unit of time.
    pub end: f64,
    /// Waiting time as the original counts it.
    pub pending: f64,
    /// Run time and progress as the original counts them, with work that it credits for free.
    pub executed: f64,
    /// Number of preemptions.
    pub preempted: u32,
    /// Number of times that the job was resumed.
    pub resumed: u32,
    /// Time from submission to the promised deadline.
    pub expect: f64,
    /// Priority: 0 accepted, 1 not accepted, 2 best effort, -1 too late.
    pub priority: i32,
}

impl ChronusRecord {
    /// Returns the columns in which both programs write a record.
    pub(crate) fn columns(&self) -> [(&'static str, f64); 8] {
        [
            ("pending_time", self.pending),
            ("total_executed_time", self.executed),
            ("progress", self.executed),
            ("end_time", self.end),
            ("preempt", f64::from(self.preempted)),
            ("resume", f64::from(self.resumed)),
            ("expect_time", self.expect),
            ("queue_priority", f64::from(self.priority)),
        ]
    }
}

/// A job, with the state that the program keeps of it.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub id: u32,
    /// Number of the job in the trace.
    pub number: i64,
    pub gpus: u32,
    pub submit: f64,
    pub duration: f64,
    /// Deadlines in time after submission, and their values.
    pub deadlines: Vec<(f64, f64)>,
    pub best_effort: bool,
    /// Number of leases that the job still needs.
    pub need: i64,
    pub estimate: f64,
    pub executed: f64,
    pub waited: f64,
    /// For each future lease, true if the job runs in it.
    pub plan: Option<VecDeque<bool>>,
    /// Index of the deadline that the plan meets.
    pub option: usize,
    pub expect: f64,
    pub guaranteed: bool,
    pub forced: bool,
    pub overran: bool,
    pub plannable: bool,
    pub emergence: f64,
    pub last: f64,
    pub resumed: u32,
    pub preempted: u32,
    pub priority: i32,
}

impl State {
    fn left(&self) -> f64 {
        self.duration - self.executed
    }

    fn needed(&self, lease: f64) -> i64 {
        ((self.estimate - self.executed) / lease).ceil() as i64
    }

    fn ran_until(&mut self, now: f64) {
        self.executed += (now - self.last).trunc();
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
        let rest = self.estimate - self.executed;
        let time = match self.priority {
            BEST_EFFORT | UNACCEPTED => rest,
            _ => self.expect + self.submit - now - self.estimate + self.executed,
        };
        self.emergence = -time * f64::from(self.gpus);
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

/// The cluster of Chronus with its leases.
#[derive(Debug)]
pub(crate) struct Leases {
    total: u32,
    lease: f64,
    planner: Planner,
    rules: Rules,
    /// Last lease before which a job was not accepted.
    refused_before: i64,
    coming: Vec<State>,
    /// Jobs that have arrived, by their numbers.
    states: Vec<State>,
    pub pending: Vec<u32>,
    pub running: Vec<u32>,
    /// GPUs that are not guaranteed to any job in this lease.
    spot: i64,
    free: u32,
    pub records: Vec<ChronusRecord>,
}

impl Leases {
    pub fn new(gpus: u32, lease: f64, planner: Planner, rules: Rules) -> Self {
        Leases {
            total: gpus,
            lease,
            planner,
            rules,
            refused_before: -1,
            coming: Vec::new(),
            states: Vec::new(),
            pending: Vec::new(),
            running: Vec::new(),
            spot: i64::from(gpus),
            free: gpus,
            records: Vec::new(),
        }
    }

    /// Adds a job, which arrives at the next [check](Leases::check) from its submission on.
    pub fn submit(&mut self, job: State) {
        self.coming.push(job);
    }

    /// Returns true if no job runs, waits or comes.
    pub fn is_idle(&self) -> bool {
        self.running.is_empty() && self.pending.is_empty() && self.coming.is_empty()
    }

    /// Advances running jobs to `now`, where a lease may begin.
    pub fn advance(&mut self, now: f64) {
        self.run(now);
        if now % self.lease == 0.0 {
            self.begin_lease(now);
        }
    }

    /// Checks new and waiting jobs.
    pub fn check(&mut self, now: f64) {
        self.arrive(now);
        self.serve_pending(now);
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
        &self.states[id as usize]
    }

    fn of(&mut self, id: u32) -> &mut State {
        &mut self.states[id as usize]
    }

    /// Advances running jobs to `now`.
    fn run(&mut self, now: f64) {
        let (lease, at_lease) = (self.lease, now % self.lease == 0.0);
        let log2 = self.rules.log2;
        let mut ended = Vec::new();
        for &id in &self.running {
            let s = &mut self.states[id as usize];
            let ran = now - s.last;
            let overhead = f64::from(s.resumed) * 0.5 * (1.0 + log2(s.gpus));
            if ran + s.executed >= s.duration + overhead {
                let end = s.last + s.duration - s.executed + overhead;
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
            let s = &self.states[id as usize];
            self.free += s.gpus;
            if s.guaranteed || s.forced {
                self.spot += i64::from(s.gpus);
            }
            self.records.push(ChronusRecord {
                job: id,
                end,
                pending: s.waited,
                executed: s.executed,
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
                    for (free, on) in free.iter_mut().zip(plan) {
                        *free -= i64::from(s.gpus) * i64::from(*on);
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
            gpus: match self.rules.in_bins {
                true => bin(s.gpus),
                false => i64::from(s.gpus),
            },
            value,
        };
        s.deadlines.iter().enumerate().map(row).collect()
    }

    fn packable(&self, rows: &[Row], free: &[i64]) -> bool {
        let mut order = rows.to_vec();
        sort::by(&mut order, Row::by_size);
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
        sort::by(&mut rows, Row::by_value);
        let total = i64::from(self.total);
        let (mut plans, mut all) = (SortedMap::new(), true);
        for row in rows {
            if plans.contains_key(&row.job) {
                continue;
            }
            match row.take(&mut free, total) {
                Some(plan) => _ = plans.insert(row.job, (row.option, plan)),
                None => all = false,
            }
        }
        if all || !self.rules.all_or_none {
            for (job, (option, plan)) in plans {
                let s = self.of(job);
                (s.plan, s.option) = (Some(plan), option);
            }
        }
        let mut run = self.pending.clone();
        run.retain(|&id| {
            let s = self.of(id);
            if s.priority != ACCEPTED {
                return false;
            }
            if s.plan.is_none() {
                s.priority = UNACCEPTED;
            }
            s.begin_plan()
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
                let s = self.of(job);
                (s.plan, s.option) = (Some(plan), option);
                run.extend(s.begin_plan().then_some(job));
            }
        }
        for job in kept {
            run.extend(self.of(job).begin_plan().then_some(job));
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
        sort::by_key(rows, |r| (Reverse((r.gpus, r.most)), named(r)));
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
        sort::by_key(rows, named);
        kept
    }

    /// Begins a new lease.
    fn begin_lease(&mut self, now: f64) {
        let before = self.running.clone();
        let lease = self.lease;
        for id in std::mem::take(&mut self.running) {
            let s = &mut self.states[id as usize];
            self.free += s.gpus;
            (s.guaranteed, s.forced) = (false, false);
            s.last = now;
            let needed = s.needed(lease);
            if s.priority == ACCEPTED && needed < s.need {
                s.drop_leases(s.need - needed);
                s.need = needed;
            }
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
            let s = self.of(id);
            s.guaranteed = true;
            s.need -= 1;
            self.spot -= i64::from(self.state(id).gpus);
            self.start(id);
        }
        self.count_switches(&before);
        let mut all = self.pending.iter().chain(&self.running);
        if all.any(|id| self.state(*id).priority == UNACCEPTED) {
            self.refused_before = number + 1;
        }
    }

    fn count_switches(&mut self, before: &[u32]) {
        for id in self.running.iter().filter(|id| !before.contains(id)) {
            self.states[*id as usize].resumed += 1;
        }
        for id in self.pending.iter().filter(|id| before.contains(id)) {
            self.states[*id as usize].preempted += 1;
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
            let slow = 1.0 + (1.0 + (self.rules.log2)(s.gpus)) * 0.5 / self.lease;
            s.estimate = (s.duration * slow * 1.1).trunc();
            s.need = (s.estimate / self.lease).ceil() as i64;
            s.last = now;
            s.waited = now - s.submit;
            s.expect = s.deadlines.first().map_or(0.0, |d| d.0);
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
            self.states.push(s);
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
        let state = |id: &u32| &states[*id as usize];
        sort::by(&mut self.pending, |a, b| order(state(a), state(b)));
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
        if self.lease <= self.rules.short_lease {
            self.force(number, rest);
        }
        for id in &self.pending {
            let s = &mut self.states[*id as usize];
            s.waited_until(now);
            s.judge(now);
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
            self.of(id).last = now;
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
            let planned_only = self.lease > self.rules.short_lease && s.priority == ACCEPTED;
            if s.gpus <= self.free && !planned_only {
                self.of(id).last = now;
                self.start(id);
            }
        }
        self.count_switches(&before);
    }

    /// Forces in jobs that were not accepted and that end within the lease.
    fn force(&mut self, number: i64, rest: f64) {
        let pending = || self.pending.iter().map(|id| self.state(*id));
        let short = pending().filter(|s| s.priority == UNACCEPTED && s.left() <= rest);
        let mut short: Vec<&State> = short.collect();
        let press = |s: &State| s.left() * f64::from(s.gpus);
        sort::by(&mut short, |a, b| press(a).total_cmp(&press(b)));
        let short: Vec<u32> = short.into_iter().map(|s| s.id).collect();
        let forced = pending().filter(|s| s.priority == ACCEPTED && s.forced);
        let mut spot = self.spot - forced.map(|s| i64::from(s.gpus)).sum::<i64>();
        for id in short {
            let (lease, s) = (self.lease, self.of(id));
            let asks = i64::from(s.gpus);
            if asks > spot {
                continue;
            }
            spot -= asks;
            s.forced = true;
            s.plannable = false;
            if s.submit >= (number - 1) as f64 * lease {
                s.priority = ACCEPTED;
            }
        }
    }

    /// Stops jobs without a guarantee until `wanted` GPUs are free.
    fn make_room(&mut self, wanted: u32, now: f64) {
        let lease = self.lease;
        let mut victims = self.running.clone();
        victims.retain(|id| !self.state(*id).guaranteed && !self.state(*id).forced);
        for id in &victims {
            self.of(*id).judge(now);
        }
        sort::by(&mut victims, |a, b| self.state(*a).by_key(self.state(*b)));
        for id in victims {
            if wanted <= self.free {
                break;
            }
            let s = &mut self.states[id as usize];
            self.free += s.gpus;
            s.last = now;
            s.need = s.needed(lease);
            let on = s.plan.iter().flatten().filter(|on| **on).count() as i64;
            s.drop_leases(on - s.need);
            self.running.retain(|r| *r != id);
            self.pending.push(id);
        }
    }

    /// Fills the free GPUs, regardless of the plans.
    pub fn fill(&mut self) {
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
