//! The loop of the released simulator, a round at a time.

use super::assign::{Placed, Servers, assign};
use super::dialect::{Dialect, Quantum};
use super::job::Job;
use super::{Pool, ReleasedEnd, RoundRow, Settings};
use blox_core::JobId;
use blox_core::compat::cpython::Random;
use blox_policies::scheduling::gavel::{
    Chosen, Combination, Entrant, Instance, Pair, RoundMechanism, SharePolicy, TypePool,
};
use serde::{Deserialize, Serialize};

/// Quanta without progress after which a job is dropped.
const ATTEMPTS: u32 = 5;

/// A job or pair in its quantum.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Running {
    placed: Placed,
    steps: Vec<f64>,
    finish: f64,
}

/// All that the program remembers, but for its share policy.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Program<D> {
    dialect: D,
    round: f64,
    gap: f64,
    types: Vec<TypePool>,
    servers: Vec<Servers>,
    /// The order in which types are filled, before it is shuffled.
    order: Vec<usize>,
    shuffler: Option<Random>,
    in_turn: bool,
    /// Jobs that have not come in yet, if the program knows how many there are.
    to_come: Option<usize>,
    logs: bool,

    jobs: Vec<Job>,
    rounds: RoundMechanism,
    pairs: bool,
    running: Vec<Running>,
    placed: Vec<Placed>,
    /// Who ran in the round before the one that runs.
    earlier: Vec<Combination>,
    steps_taken: u64,
    round_start: f64,
    round_end: Option<f64>,
    clock: f64,
    last_reset: f64,
    changed: bool,
    /// When it gave up, and why.
    gave_up: Option<(f64, String)>,
    pub(super) ends: Vec<ReleasedEnd>,
    pub(super) log: Vec<RoundRow>,
}

impl<D: Dialect> Program<D> {
    pub(super) fn new(settings: &Settings, dialect: D, pairs: bool) -> Self {
        let mut pools: Vec<&Pool> = settings.pools.iter().collect();
        pools.retain(|p| p.gpus / p.per_server.max(1) > 0);
        pools.sort_by(|a, b| a.name.cmp(&b.name));
        let mut next = 0;
        let mut servers: Vec<Servers> = Vec::new();
        for pool in &pools {
            let per_server = pool.per_server.max(1);
            let of_type = (0..pool.gpus / per_server).map(|_| {
                next += per_server;
                (next - per_server..next).collect()
            });
            servers.push(of_type.collect());
        }
        let fixed = ["v100", "p100", "k80"];
        let at = |name: &&str| pools.iter().position(|p| *p.name == **name);
        let types: Vec<TypePool> = pools
            .iter()
            .map(|p| TypePool {
                name: p.name.clone(),
                // What is left over of a server does not register.
                gpus: p.gpus - p.gpus % p.per_server.max(1),
                price: 1.0,
            })
            .collect();
        Program {
            dialect,
            round: settings.round,
            gap: settings.gap,
            order: fixed.iter().filter_map(at).collect(),
            servers,
            shuffler: settings.shuffles.then(|| Random::new(settings.seed + 5)),
            in_turn: settings.in_turn,
            to_come: settings.jobs,
            logs: settings.logs,
            jobs: Vec::new(),
            rounds: RoundMechanism::new(types.len(), settings.round),
            types,
            pairs,
            running: Vec::new(),
            placed: Vec::new(),
            earlier: Vec::new(),
            steps_taken: 0,
            round_start: 0.0,
            round_end: None,
            clock: 0.0,
            last_reset: 0.0,
            changed: false,
            gave_up: None,
            ends: Vec::new(),
            log: Vec::new(),
        }
    }

    pub(super) fn types(&self) -> &[TypePool] {
        &self.types
    }

    /// When the round that runs ends.
    pub(super) fn due(&self) -> Option<f64> {
        let ends = self.running.iter().map(|r| r.finish);
        ends.reduce(f64::max)
    }

    /// Who runs where.
    pub(super) fn placed(&self) -> impl Iterator<Item = (Combination, &[u32])> {
        self.running
            .iter()
            .map(|r| (r.placed.who, &r.placed.workers[..]))
    }

    /// One turn of the loop: the round ends, or jobs came in while nothing ran.
    pub(super) fn turn(&mut self, now: f64, arrivals: Vec<Job>, shares: &mut dyn SharePolicy) {
        if self.gave_up.is_some() {
            return;
        }
        self.advance(now);
        self.collect();
        self.dialect.round_ended(&self.jobs, self.clock);
        for job in arrivals {
            self.admit(job);
        }
        if self.jobs.is_empty() && self.to_come != Some(0) && self.dialect.ends_when_empty() {
            return self.give_up("no job is left, and it does not wait for others".to_owned());
        }
        self.choose(shares);
        while self.running.is_empty() && self.to_come == Some(0) && !self.jobs.is_empty() {
            // Nothing runs and nothing comes: the loop turns again at the same moment.
            if self.gave_up.is_some() || !(self.changed && self.dialect.asks_when_idle()) {
                break;
            }
            self.last_reset = 0.0;
            self.choose(shares);
        }
    }

    fn advance(&mut self, now: f64) {
        if let Some(end) = self.due() {
            if let Some(before) = self.round_end {
                self.round_start = before;
            }
            self.round_end = Some(end);
            self.clock = end;
        } else {
            self.clock = now;
        }
    }

    /// Counts the quanta that have ended, the latest first.
    fn collect(&mut self) {
        let mut ended = std::mem::take(&mut self.running);
        ended.sort_by(|a, b| {
            let single = |r: &Running| r.placed.who.partner.is_some();
            b.finish
                .total_cmp(&a.finish)
                .then(single(a).cmp(&single(b)))
                .then(a.placed.who.cmp(&b.placed.who))
        });
        for quantum in ended {
            self.count(&quantum);
        }
    }

    fn count(&mut self, ran: &Running) {
        let who = ran.placed.who;
        let members: Vec<JobId> = who.jobs().collect();
        let mut counted = Vec::new();
        let mut failed = false;
        for steps in &ran.steps {
            let charged = self.dialect.charge(Quantum {
                seconds: ran.finish - self.round_start,
                steps: *steps,
                ran_before: self.earlier.iter().any(|w| w.has(who.job)),
                first_round: self.steps_taken == 1,
            });
            let parts = split(charged.steps, &ran.placed.workers);
            failed |= parts
                .iter()
                .any(|s| self.dialect.fails(*s, charged.seconds));
            counted.push((parts.iter().sum::<f64>(), charged.seconds));
        }
        let seconds = counted.iter().map(|c| c.1).fold(0.0, f64::max);
        for id in &members {
            if let Some(job) = self.job(*id) {
                job.ran += seconds;
            }
        }
        let mut leaves = Vec::new();
        if failed {
            self.changed = true;
            if who.partner.is_none() {
                let job = self.job(who.job);
                let dropped = job.is_some_and(|job| {
                    job.failures += 1;
                    job.failures >= ATTEMPTS
                });
                if dropped {
                    leaves.push((who.job, !self.dialect.counts_dropped()));
                }
            }
        } else {
            for (id, (steps, _)) in members.iter().zip(&counted) {
                let Some(at) = self.at(*id) else { continue };
                let job = &mut self.jobs[at];
                // Of a pair the program resets a count that it never reads.
                if who.partner.is_none() {
                    job.failures = 0;
                }
                job.done += steps;
                if job.left() <= 0.0 || self.dialect.is_overdue(&self.jobs[at]) {
                    leaves.push((*id, false));
                }
            }
            self.rounds.ran(who, ran.placed.kind, seconds);
        }
        for (id, (steps, seconds)) in members.iter().zip(&counted) {
            if let Some(at) = self.at(*id) {
                let job = &self.jobs[at];
                self.dialect
                    .measured(job, self.steps_taken, *steps, *seconds);
                let before = self.jobs[at].rates.clone();
                self.dialect.counted(&mut self.jobs[at], &self.types);
                let after = &self.jobs[at].rates;
                if *after != before {
                    // With another batch it may run on other types.
                    let runs = after.iter().map(|r| *r > 0.0).collect();
                    self.rounds.set_runs(Combination::single(*id), runs);
                }
            }
        }
        for (id, dropped) in leaves {
            self.ends.push(ReleasedEnd {
                job: id.0,
                at: ran.finish,
                dropped,
            });
            self.jobs.retain(|j| j.id != id);
            self.rounds.remove(id);
            self.changed = true;
        }
    }

    fn admit(&mut self, job: Job) {
        let single = Combination::single(job.id);
        let runs = job.rates.iter().map(|r| *r > 0.0).collect();
        self.rounds.add(single, job.gpus, runs);
        if self.pairs {
            for other in self.jobs.iter().filter(|o| o.gpus == job.gpus) {
                let rates = other.beside(&job, &self.types);
                let runs = rates.iter().map(|r| r[0] > 0.0 && r[1] > 0.0);
                let who = Combination::pair(other.id, job.id);
                self.rounds.add(who, job.gpus, runs.collect());
            }
        }
        self.dialect.admit(&job, self.clock);
        self.jobs.push(job);
        self.changed = true;
        if let Some(count) = &mut self.to_come {
            *count = count.saturating_sub(1);
        }
    }

    /// Asks for shares if it is time, and fills the next round.
    fn choose(&mut self, shares: &mut dyn SharePolicy) {
        let free: Vec<u32> = self.types.iter().map(|t| t.gpus).collect();
        match self.dialect.choose(&self.jobs, &free) {
            Some(Ok(chosen)) => {
                self.changed = false;
                let order = self.shuffled();
                self.fill(&chosen, &order);
            }
            Some(Err(why)) => self.give_up(why),
            None => self.choose_by(shares, &free),
        }
    }

    fn choose_by(&mut self, shares: &mut dyn SharePolicy, free: &[u32]) {
        let since = self.clock - self.last_reset;
        if self.changed && (since >= self.gap || self.last_reset == 0.0) {
            self.rounds.settle(since);
            self.last_reset = self.clock;
            let instance = self.instance();
            match shares.allocate(&instance) {
                Ok(allocation) => self.rounds.install(&allocation.completed(&instance)),
                Err(e) => return self.give_up(e.to_string()),
            }
            self.changed = false;
        }
        let order = self.shuffled();
        let conserves = shares.conserves_work();
        let chosen = if self.in_turn {
            self.rounds.select_in_turn(&order, free, conserves)
        } else {
            self.rounds.select(&order, free, conserves)
        };
        self.fill(&chosen, &order);
    }

    fn give_up(&mut self, why: String) {
        self.gave_up = Some((self.clock, why));
    }

    /// The types in the order in which they are filled this round.
    fn shuffled(&mut self) -> Vec<usize> {
        let mut order = self.order.clone();
        if let Some(shuffler) = &mut self.shuffler {
            shuffler.shuffle(&mut order);
        }
        order
    }

    fn fill(&mut self, chosen: &[Chosen], order: &[usize]) {
        let Some(placed) = assign(chosen, order, &self.servers, &self.placed) else {
            return self.give_up("those it chose need more workers than there are".to_owned());
        };
        self.earlier = self.placed.iter().map(|p| p.who).collect();
        self.steps_taken += 1;
        self.placed = placed;
        for placed in self.placed.clone() {
            let started = self.start(placed);
            self.running.push(started);
        }
    }

    fn start(&mut self, placed: Placed) -> Running {
        let members: Vec<&Job> = placed
            .who
            .jobs()
            .filter_map(|id| self.jobs.iter().find(|j| j.id == id))
            .collect();
        let rates: Vec<f64> = match members[..] {
            [a, b] => a.beside(b, &self.types)[placed.kind].to_vec(),
            _ => members.iter().map(|j| j.rates[placed.kind]).collect(),
        };
        let mut finish = self.clock;
        let mut steps = Vec::new();
        for (job, rate) in members.iter().zip(rates) {
            let count = (rate * self.round).trunc().min(job.left());
            steps.push(count);
            finish = finish.max(self.clock + count / rate);
        }
        if self.logs {
            self.log.push(RoundRow {
                round: self.steps_taken,
                time: self.clock,
                who: placed.who,
                kind: self.types[placed.kind].name.clone(),
                workers: placed.workers.clone(),
            });
        }
        Running {
            placed,
            steps,
            finish,
        }
    }

    fn instance(&self) -> Instance {
        let entrant = |job: &Job| Entrant {
            id: job.id,
            gpus: job.gpus,
            weight: job.weight,
            age: self.clock - job.submit,
            left: job.left(),
            due: None,
            rates: job.rates.clone(),
        };
        let mut pairs = Vec::new();
        for (i, a) in self.jobs.iter().enumerate().filter(|_| self.pairs) {
            for (k, b) in self.jobs.iter().enumerate().skip(i + 1) {
                if a.gpus == b.gpus {
                    let rates = a.beside(b, &self.types);
                    pairs.push(Pair {
                        jobs: [i, k],
                        rates,
                    });
                }
            }
        }
        Instance {
            types: self.types.clone(),
            jobs: self.jobs.iter().map(entrant).collect(),
            pairs,
        }
    }

    fn at(&self, id: JobId) -> Option<usize> {
        self.jobs.binary_search_by_key(&id, |j| j.id).ok()
    }

    fn job(&mut self, id: JobId) -> Option<&mut Job> {
        let at = self.at(id)?;
        self.jobs.get_mut(at)
    }
}

/// The steps of each worker, in order of the workers: equal whole parts, and the rest
/// for the one that was named last.
fn split(steps: f64, workers: &[u32]) -> Vec<f64> {
    let count = workers.len();
    let each = (steps / count as f64).floor();
    let mut given = 0.0;
    let mut parts: Vec<(u32, f64)> = Vec::with_capacity(count);
    for (i, worker) in workers.iter().enumerate() {
        let part = if i + 1 == count { steps - given } else { each };
        given += part;
        parts.push((*worker, part));
    }
    parts.sort_by_key(|(worker, _)| *worker);
    parts.into_iter().map(|(_, part)| part).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{AsGavel, AsShockwave, BatchJob, Mode};
    use super::*;
    use blox_policies::scheduling::gavel::shares::Isolated;
    use std::collections::BTreeMap;

    fn settings(types: &[&str], jobs: usize) -> Settings {
        let pool = |name: &&str| Pool {
            name: (*name).into(),
            gpus: 1,
            per_server: 1,
        };
        Settings {
            pools: types.iter().map(pool).collect(),
            round: 100.0,
            gap: 1000.0,
            seed: 0,
            shuffles: true,
            in_turn: false,
            jobs: Some(jobs),
            logs: false,
        }
    }

    fn workers<D: Dialect>(program: &Program<D>) -> Vec<Vec<u32>> {
        program.placed().map(|(_, on)| on.to_vec()).collect()
    }

    /// Who runs when a job comes after all others have left.
    fn after_a_gap<D: Dialect>(dialect: D) -> (Vec<Vec<u32>>, bool) {
        let mut program = Program::new(&settings(&["v100"], 2), dialect, false);
        program.turn(0.0, vec![Job::plain(0, 50.0, &[1.0])], &mut Isolated);
        assert_eq!(program.due(), Some(50.0));
        program.turn(50.0, Vec::new(), &mut Isolated);
        program.turn(700.0, vec![Job::plain(1, 50.0, &[1.0])], &mut Isolated);
        (workers(&program), program.gave_up.is_some())
    }

    #[test]
    fn shockwaves_ends_when_nobody_is_left() {
        assert_eq!(after_a_gap(AsGavel), (vec![vec![0]], false));
        let jobs = vec![BatchJob::default(); 2];
        assert_eq!(
            after_a_gap(AsShockwave::new(100.0, jobs)),
            (Vec::new(), true)
        );
    }

    #[test]
    fn a_job_leaves_a_type_that_its_new_batch_does_not_run_on() {
        let rates = [(5, vec![1.0, 1.0]), (80, vec![0.0, 1.0])];
        let job = BatchJob {
            mode: Mode::Accordion,
            family: "LM".into(),
            batch: 5,
            samples: 100,
            epochs: vec![(5, 1e6)],
            pattern: Vec::new(),
            rates: BTreeMap::from(rates),
        };
        let dialect = AsShockwave::new(100.0, vec![job]);
        let mut program = Program::new(&settings(&["k80", "v100"], 1), dialect, false);
        let mut on = Vec::new();
        let mut new = vec![Job::plain(0, 1e5, &[1.0, 1.0])];
        for _ in 0..24 {
            let now = program.due().unwrap_or(0.0);
            program.turn(now, std::mem::take(&mut new), &mut Isolated);
            on.extend(workers(&program).concat());
        }
        // Its eleventh epoch begins in the third round, and the batch changes after the next.
        assert!(on[..4].contains(&0), "{on:?}");
        assert_eq!(on[4..], [1; 20]);
    }
}
