//! Main loop of the released simulators, with one iteration per round.

use super::asked::Shares;
use super::assign::{Placed, Servers, assign};
use super::job::Job;
use super::shockwave::AsShockwave;
use super::{Outcome, Pool, ReleasedEnd, RoundRow, Settings};
use blox_core::{JobId, JobSpec, sort};
use blox_cpython::Random;
use blox_policies::scheduling::gavel::{
    Chosen, Combination, Entrant, Instance, Pair, RoundMechanism, TypePool,
};

/// Number of consecutive quanta without progress after which a job is dropped.
const ATTEMPTS: u32 = 5;
/// Number of consecutive rounds of zero length after which the program fails. Pairs are never
/// dropped.
const STANDSTILL: u32 = 20_000;

/// Runs Gavel's program on jobs, which are in order of submission, or Shockwave's if its differences
/// are given.
///
/// A round ends when its slowest quantum ends. Jobs submitted until then, or at that time, arrive
/// at the end of the round. In an idle cluster a job arrives at once.
///
/// # Errors
/// Returns the first error of `jobs`. A failure of the program is part of its [`Outcome`].
pub fn run<E>(
    settings: &Settings,
    shockwave: Option<AsShockwave>,
    shares: &mut dyn Shares,
    jobs: impl IntoIterator<Item = Result<JobSpec, E>>,
) -> Result<Outcome, E> {
    let mut program = Program::new(settings, shockwave, shares);
    let mut jobs = jobs.into_iter();
    let mut next = jobs.next().transpose()?;
    let (from, to) = settings.window.unwrap_or((0, u32::MAX));
    let awaited = |job: &Job| (from..to).contains(&job.id.0);
    let (mut submitted, mut still) = (0, 0);
    while program.outcome.failure.is_none() {
        let all_in = next.is_none() || submitted >= to;
        if all_in && !program.jobs.iter().any(awaited) {
            break;
        }
        let arrival = next.as_ref().map(|job| job.submit.secs());
        let Some(now) = program.due().or(arrival) else {
            break;
        };
        let now = now.max(program.clock);
        let mut arrivals = Vec::new();
        while let Some(job) = next.take_if(|job| job.submit.secs() <= now) {
            arrivals.push(Job::of(JobId(submitted), &job, &program.types));
            submitted += 1;
            next = jobs.next().transpose()?;
        }
        program.turn(now, arrivals);
        still = if program.due() == Some(now) {
            still + 1
        } else {
            0
        };
        if still >= STANDSTILL {
            program.give_up(format!("{STANDSTILL} rounds in a row took no time"));
        }
    }
    Ok(program.outcome)
}

/// A job or pair in its quantum.
#[derive(Clone, Debug)]
struct Running {
    placed: Placed,
    steps: Vec<f64>,
    finish: f64,
}

/// State of a run.
struct Program<'a> {
    settings: &'a Settings,
    shockwave: Option<AsShockwave>,
    shares: &'a mut dyn Shares,
    /// True if the share policy shares GPUs among pairs of jobs.
    pairs: bool,
    types: Vec<TypePool>,
    servers: Vec<Servers>,
    /// Order in which types are filled, before it is shuffled.
    order: Vec<usize>,
    shuffler: Option<Random>,
    /// Number of jobs that have not arrived, if known.
    to_come: Option<usize>,

    jobs: Vec<Job>,
    rounds: RoundMechanism,
    running: Vec<Running>,
    placed: Vec<Placed>,
    /// Jobs and pairs of the round before the current one.
    earlier: Vec<Combination>,
    steps_taken: u64,
    round_start: f64,
    round_end: Option<f64>,
    clock: f64,
    last_reset: f64,
    changed: bool,
    outcome: Outcome,
}

impl<'a> Program<'a> {
    fn new(
        settings: &'a Settings,
        shockwave: Option<AsShockwave>,
        shares: &'a mut dyn Shares,
    ) -> Self {
        let mut pools: Vec<&Pool> = settings.pools.iter().collect();
        pools.retain(|p| p.gpus / p.per_server.max(1) > 0);
        sort::by(&mut pools, |a, b| a.name.cmp(&b.name));
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
                // A server that the last GPUs do not fill is not registered.
                gpus: p.gpus - p.gpus % p.per_server.max(1),
                price: 1.0,
            })
            .collect();
        Program {
            settings,
            shockwave,
            pairs: shares.asked().usage().pairs,
            shares,
            order: fixed.iter().filter_map(at).collect(),
            servers,
            shuffler: settings.shuffles.then(|| Random::new(settings.seed + 5)),
            to_come: settings.jobs,
            jobs: Vec::new(),
            rounds: RoundMechanism::new(types.len(), settings.round),
            types,
            running: Vec::new(),
            placed: Vec::new(),
            earlier: Vec::new(),
            steps_taken: 0,
            round_start: 0.0,
            round_end: None,
            clock: 0.0,
            last_reset: 0.0,
            changed: false,
            outcome: Outcome::default(),
        }
    }

    /// Returns the end of the current round.
    fn due(&self) -> Option<f64> {
        let ends = self.running.iter().map(|r| r.finish);
        ends.reduce(f64::max)
    }

    /// Runs one iteration of the loop: the round ends, or jobs arrive in an idle cluster.
    fn turn(&mut self, now: f64, arrivals: Vec<Job>) {
        if !self.running.is_empty() {
            self.round_start = self.round_end.unwrap_or(self.round_start);
            self.round_end = Some(now);
        }
        self.clock = now;
        self.collect();
        if let Some(shockwave) = &mut self.shockwave {
            shockwave.round_ended(&self.jobs, self.clock);
        }
        for job in arrivals {
            self.admit(job);
        }
        // Shockwave's program ends as soon as no job is left, even if more jobs will arrive.
        if self.jobs.is_empty() && self.to_come != Some(0) && self.shockwave.is_some() {
            return self.give_up("no job is left, and it does not wait for others".to_owned());
        }
        self.choose();
        while self.running.is_empty() && self.to_come == Some(0) && !self.jobs.is_empty() {
            // No job runs or arrives, so the loop repeats at the same time.
            let asks = self.changed && self.shockwave.is_none();
            if self.outcome.failure.is_some() || !asks {
                break;
            }
            self.last_reset = 0.0;
            self.choose();
        }
    }

    /// Counts the finished quanta, the latest first.
    fn collect(&mut self) {
        let mut ended = std::mem::take(&mut self.running);
        sort::by(&mut ended, |a, b| {
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
        let new = !self.earlier.iter().any(|w| w.has(who.job)) && self.steps_taken != 1;
        for steps in &ran.steps {
            let seconds = ran.finish - self.round_start;
            let (steps, seconds) = match &self.shockwave {
                Some(shockwave) => shockwave.charge(*steps, seconds, new),
                None => (*steps, seconds),
            };
            let parts = split(steps, &ran.placed.workers);
            // Gavel's program wants both above 0, Shockwave's one of them.
            failed |= parts.iter().any(|steps| match self.shockwave {
                Some(_) => *steps <= 0.0 && seconds <= 0.0,
                None => *steps <= 0.0 || seconds <= 0.0,
            });
            counted.push((parts.iter().sum::<f64>(), seconds));
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
                    // Under Shockwave, the end of a dropped job counts.
                    leaves.push((who.job, self.shockwave.is_none()));
                }
            }
        } else {
            for (id, (steps, _)) in members.iter().zip(&counted) {
                let Some(at) = self.at(*id) else { continue };
                let job = &mut self.jobs[at];
                // Quirk: the program resets a count of pairs that it never reads.
                if who.partner.is_none() {
                    job.failures = 0;
                }
                job.done += steps;
                let shockwave = self.shockwave.as_ref();
                if job.left() <= 0.0 || shockwave.is_some_and(|s| s.is_overdue(job)) {
                    leaves.push((*id, false));
                }
            }
            self.rounds.ran(who, ran.placed.kind, seconds);
        }
        for (id, (steps, seconds)) in members.iter().zip(&counted) {
            if let (Some(at), Some(shockwave)) = (self.at(*id), &mut self.shockwave) {
                let job = &mut self.jobs[at];
                let before = job.rates.clone();
                shockwave.counted(job, self.steps_taken, *steps, *seconds);
                if job.rates != before {
                    // With another batch, the job may run on other types.
                    let runs = job.rates.iter().map(|r| *r > 0.0).collect();
                    self.rounds.set_runs(Combination::single(*id), runs);
                }
            }
        }
        for (id, dropped) in leaves {
            if let Some(at) = self.at(id) {
                let end = ReleasedEnd {
                    submit: self.jobs.remove(at).submit,
                    at: ran.finish,
                    dropped,
                };
                self.outcome.ends.insert(id.0, end);
            }
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
        if let Some(shockwave) = &mut self.shockwave {
            shockwave.admit(&job, self.clock);
        }
        self.jobs.push(job);
        self.changed = true;
        if let Some(count) = &mut self.to_come {
            *count = count.saturating_sub(1);
        }
    }

    /// Chooses and starts the next round.
    fn choose(&mut self) {
        let free: Vec<u32> = self.types.iter().map(|t| t.gpus).collect();
        let shockwave = self.shockwave.as_mut();
        let planned = match shockwave.and_then(|s| s.choose(&self.jobs, &free)) {
            Some(planned) => planned.map(Some),
            None => self.allocate().map(|()| None),
        };
        let planned = match planned {
            Ok(planned) => planned,
            Err(why) => return self.give_up(why),
        };
        let mut order = self.order.clone();
        if let Some(shuffler) = &mut self.shuffler {
            shuffler.shuffle(&mut order);
        }
        let conserves = self.shares.asked().usage().conserves_work;
        let chosen = match planned {
            Some(chosen) => {
                self.changed = false;
                chosen
            }
            None if self.settings.in_turn => self.rounds.select_in_turn(&order, &free, conserves),
            None => self.rounds.select(&order, &free, conserves),
        };
        self.fill(&chosen, &order);
    }

    /// Requests shares if an allocation is due.
    fn allocate(&mut self) -> Result<(), String> {
        let since = self.clock - self.last_reset;
        if self.changed && (since >= self.settings.gap || self.last_reset == 0.0) {
            self.rounds.settle(since);
            self.last_reset = self.clock;
            let instance = self.instance();
            let allocation = self.shares.allocate(&instance);
            let allocation = allocation.map_err(|e| e.to_string())?;
            self.rounds.install(&allocation.completed(&instance));
            self.changed = false;
        }
        Ok(())
    }

    fn give_up(&mut self, why: String) {
        self.outcome.failure = Some((self.clock, why));
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
            let count = (rate * self.settings.round).trunc().min(job.left());
            steps.push(count);
            finish = finish.max(self.clock + count / rate);
        }
        self.outcome.rounds.push(RoundRow {
            round: self.steps_taken,
            time: self.clock,
            who: placed.who,
            kind: self.types[placed.kind].name.clone(),
            workers: placed.workers.clone(),
        });
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
            user: None,
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

/// Returns the steps of each worker, in order of the workers. All have equal whole numbers, and the
/// last one in the list also gets the rest.
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
    sort::by_key(&mut parts, |(worker, _)| *worker);
    parts.into_iter().map(|(_, part)| part).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Asked, BatchJob, Mode};
    use super::*;
    use blox_core::{Extras, GpuCount, Seconds, SortedMap, Time, TypeSpeeds, Work};
    use blox_policies::scheduling::gavel::SharePolicy;
    use blox_policies::scheduling::gavel::shares::{Isolated, Knowledge, MaxMinFairness};
    use std::convert::Infallible;

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
            window: None,
        }
    }

    /// Returns a one-GPU job with these steps per second on all types, alone and beside another
    /// job.
    fn job(submit: f64, iterations: f64, [alone, beside]: [f64; 2]) -> JobSpec {
        let mut speeds = TypeSpeeds::default();
        for name in ["k80", "v100"] {
            speeds.set(name, alone);
            speeds.set_beside(name, "m", beside, beside);
        }
        let rate = 1.0;
        JobSpec {
            work: Work { iterations, rate },
            ..JobSpec::new(Time::new(submit), GpuCount(1), Seconds::ZERO)
        }
        .with_extras(Extras {
            model: Some("m".into()),
            speeds: Some(speeds.into()),
            ..Extras::default()
        })
    }

    fn outcome(
        settings: &Settings,
        shockwave: Option<AsShockwave>,
        shares: impl SharePolicy,
        jobs: Vec<JobSpec>,
    ) -> Outcome {
        let jobs = jobs.into_iter().map(Ok::<_, Infallible>);
        let mut shares = Asked::new(shares, settings.seed);
        let Ok(outcome) = run(settings, shockwave, &mut shares, jobs);
        outcome
    }

    /// Returns the time, job and workers of every row.
    fn rows(outcome: &Outcome) -> Vec<(f64, u32, &[u32])> {
        let rows = outcome.rounds.iter();
        rows.map(|r| (r.time, r.who.job.0, &r.workers[..]))
            .collect()
    }

    /// Returns the outcome if the second job arrives after the first has ended.
    fn after_a_gap(shockwave: Option<AsShockwave>) -> Outcome {
        let jobs = [0.0, 700.0].map(|submit| job(submit, 50.0, [1.0, 0.0]));
        outcome(&settings(&["v100"], 2), shockwave, Isolated, jobs.to_vec())
    }

    #[test]
    fn run_without_jobs_left_ends_shockwave_only() {
        let both = [(0.0, 0, &[0][..]), (700.0, 1, &[0])];
        let gavel = after_a_gap(None);
        assert_eq!((rows(&gavel), &gavel.failure), (both.to_vec(), &None));
        let ends = gavel.ends.values().map(|e| (e.submit, e.at));
        assert_eq!(ends.collect::<Vec<_>>(), [(0.0, 50.0), (700.0, 750.0)]);

        let jobs = vec![BatchJob::default(); 2];
        let shockwave = after_a_gap(Some(AsShockwave::new(100.0, jobs)));
        assert_eq!(
            (rows(&shockwave), shockwave.ends.len()),
            (both[..1].to_vec(), 1)
        );
        assert_eq!(shockwave.failure.map(|f| f.0), Some(50.0));
    }

    #[test]
    fn run_job_without_steps_is_dropped_after_five() {
        let jobs = vec![job(30.0, 5.0, [0.001, 0.0]), job(900.0, 5.0, [1.0, 0.0])];
        let outcome = outcome(&settings(&["v100"], 2), None, Isolated, jobs);
        let at = |id| outcome.ends.get(id).map(|e| (e.at, e.dropped));
        // A round in which no job completes a step has zero length.
        assert_eq!([at(&0), at(&1)], [Some((30.0, true)), Some((905.0, false))]);
        assert_eq!(outcome.rounds.len(), 6);
        assert_eq!(outcome.failure, None);
    }

    #[test]
    fn run_pair_without_steps_fails() {
        // Each job alone would complete steps, but the pair does not.
        let jobs = vec![job(0.0, 1e9, [0.011, 0.009]); 2];
        let shares = MaxMinFairness::new(Knowledge::Pairs);
        let outcome = outcome(&settings(&["v100"], 2), None, shares, jobs);
        let why = "20000 rounds in a row took no time";
        assert_eq!(outcome.failure, Some((0.0, why.to_owned())));
        assert!(outcome.rounds.iter().all(|r| r.who.partner.is_some()));
    }

    #[test]
    fn run_window_of_endless_jobs_stops_at_its_end() {
        let settings = Settings {
            window: Some((2, 3)),
            jobs: None,
            gap: 0.0,
            ..settings(&["v100"], 0)
        };
        let endless =
            (0u32..).map(|i| Ok::<_, Infallible>(job(40.0 * f64::from(i), 90.0, [1.0, 0.0])));
        let Ok(found) = run(&settings, None, &mut Asked::new(Isolated, 0), endless);
        let last = found.ends[&2].at;
        assert!(found.ends.values().all(|e| e.at <= last), "{found:?}");
        // The iteration in which the window ends also plans the next round.
        let later = found.rounds.iter().filter(|r| r.time >= last);
        assert_eq!(later.map(|r| r.time).collect::<Vec<_>>(), [last]);
    }

    #[test]
    fn run_job_leaves_a_type_without_its_new_batch() {
        let rates = [(5, vec![1.0, 1.0]), (80, vec![0.0, 1.0])];
        let batches = BatchJob {
            mode: Mode::Accordion,
            family: "LM".into(),
            batch: 5,
            samples: 100,
            epochs: vec![(5, 1e6)],
            pattern: Vec::new(),
            rates: SortedMap::from(rates),
        };
        let dialect = Some(AsShockwave::new(100.0, vec![batches]));
        let jobs = vec![job(0.0, 1e5, [1.0, 0.0])];
        let outcome = outcome(&settings(&["k80", "v100"], 1), dialect, Isolated, jobs);
        let on: Vec<u32> = outcome
            .rounds
            .iter()
            .flat_map(|r| r.workers.clone())
            .collect();
        // The job's eleventh epoch begins in the third round, and the batch changes after the next
        // round.
        assert!(on[..4].contains(&0), "{on:?}");
        assert!(on.len() >= 24 && on[4..].iter().all(|w| *w == 1), "{on:?}");
    }
}
