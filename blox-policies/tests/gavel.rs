//! Properties that Gavel's policies guarantee, on many generated instances.

use blox_core::{AnyMemory, JobId, Policy};
use blox_microlp::BranchAndBound;
use blox_policies::scheduling::gavel::shares::{
    FifoShares, FinishTimeShares, GandivaPacking, Isolated, Knowledge, MaxMinFairness,
    MaxSumThroughput, MinTotalDuration, Proportional, Queue, StrategyProof, WaterFilling,
};
use blox_policies::scheduling::gavel::{
    Allocation, AnyShares, Combination, Entrant, Instance, Pair, PerType, SharePolicy, TypePool,
};
use blox_solve::{Program, SolveError, Solver, Var};
use smallvec::SmallVec;
use std::sync::Arc;

/// A share policy with its memory.
pub(crate) struct Asked {
    policy: Arc<dyn AnyShares>,
    memory: AnyMemory,
}

pub(crate) fn asked(policy: impl SharePolicy) -> Asked {
    seeded(policy, 0)
}

fn seeded(policy: impl SharePolicy, seed: u64) -> Asked {
    Asked {
        memory: AnyMemory::of(policy.initial(seed)),
        policy: Arc::new(policy),
    }
}

impl Asked {
    pub(crate) fn allocate(&mut self, instance: &Instance) -> Result<Allocation, SolveError> {
        self.policy.any_allocate(&mut self.memory, instance)
    }

    pub(crate) fn objective(&self, instance: &Instance, allocation: &Allocation) -> Option<f64> {
        self.policy
            .any_objective(&self.memory, instance, allocation)
    }
}

/// Random numbers.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: u32) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) as u32 % n
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * f64::from(self.below(1 << 20)) / f64::from(1 << 20)
    }
}

fn pool(name: &str, gpus: u32) -> TypePool {
    let (name, price) = (name.into(), 1.0);
    TypePool { name, gpus, price }
}

/// A new job of one GPU with its rate on each type.
fn entrant(id: u32, rates: &[f64]) -> Entrant {
    Entrant {
        id: JobId(id),
        gpus: 1,
        weight: 1.0,
        user: None,
        age: 0.0,
        left: 1000.0,
        due: None,
        rates: PerType::from_slice(rates),
    }
}

/// Draws the rates of a job on a K80, a P100 and a V100.
fn rates(draw: &mut Draw) -> [f64; 3] {
    let base = draw.between(0.1, 50.0);
    let (p100, v100) = (draw.between(1.0, 4.0), draw.between(1.0, 10.0));
    [base, base * p100, base * v100]
}

pub(crate) fn instance(seed: u64, most_gpus: u32, pairs: bool) -> Instance {
    let mut draw = Draw(seed);
    let types = ["k80", "p100", "v100"].map(|name| {
        let mut pool = pool(name, 1 + draw.below(4));
        pool.price = draw.between(0.2, 2.0);
        pool
    });
    let count = 2 + draw.below(9) as usize;
    let jobs = (0..count).map(|i| {
        let rates = rates(&mut draw);
        Entrant {
            gpus: 1 << draw.below(most_gpus.ilog2() + 1),
            age: draw.between(0.0, 9000.0),
            left: draw.between(100.0, 90_000.0),
            ..entrant(3 * i as u32, &rates)
        }
    });
    let jobs: Vec<Entrant> = jobs.collect();
    let mut all = Vec::new();
    for a in 0..jobs.len() {
        for b in a + 1..jobs.len() {
            if pairs && jobs[a].gpus == jobs[b].gpus {
                let (x, y) = (draw.between(0.2, 1.0), draw.between(0.2, 1.0));
                let both = |k: usize| [jobs[a].rates[k] * x, jobs[b].rates[k] * y];
                let (jobs, rates) = ([a, b], (0..3).map(both).collect());
                all.push(Pair { jobs, rates });
            }
        }
    }
    Instance {
        types: types.into(),
        jobs,
        pairs: all,
    }
}

/// Checks that no job gets more than all its time, and no type gives more than its GPUs.
fn is_possible(instance: &Instance, allocation: &Allocation) {
    for (kind, pool) in instance.types.iter().enumerate() {
        let used = allocation.rows().iter().map(|(who, x)| {
            let job = instance.position(who.job).unwrap();
            x[kind] * f64::from(instance.jobs[job].gpus)
        });
        let used: f64 = used.sum();
        assert!(used <= f64::from(pool.gpus) + 1e-5, "{used} of {pool:?}");
    }
    for job in &instance.jobs {
        let rows = allocation.rows().iter().filter(|(who, _)| who.has(job.id));
        let time: f64 = rows.flat_map(|(_, x)| x.iter()).sum();
        assert!(time <= 1.0 + 1e-5, "{} spends {time}", job.id);
    }
    let mut all = allocation.rows().iter().flat_map(|(_, x)| x.iter());
    assert!(all.all(|x| (0.0..=1.0).contains(x)));
}

#[test]
fn what_is_given_out_is_there() {
    for seed in 0..40 {
        let plain = instance(seed, 4, false);
        let paired = instance(seed, 2, true);
        let policies: [(&Instance, Asked); 13] = [
            (&plain, asked(Isolated)),
            (&plain, asked(MaxMinFairness::default())),
            (&plain, asked(MaxMinFairness::new(Knowledge::Nothing))),
            (&paired, asked(MaxMinFairness::new(Knowledge::Pairs))),
            (&plain, asked(WaterFilling::default())),
            (&paired, asked(WaterFilling::new(Knowledge::Pairs))),
            (&plain, asked(FinishTimeShares::default())),
            (&paired, asked(FinishTimeShares::new(Knowledge::Pairs))),
            (&plain, asked(MinTotalDuration::default())),
            (&plain, asked(MaxSumThroughput::default())),
            (&plain, asked(FifoShares::new(Queue::Fastest))),
            (&paired, asked(FifoShares::new(Queue::Packed(1.5)))),
            (&paired, seeded(GandivaPacking::default(), seed)),
        ];
        for (instance, mut policy) in policies {
            let allocation = policy.allocate(instance).unwrap();
            is_possible(instance, &allocation);
        }
        // `Proportional` allocates more than exists on purpose.
        assert!(asked(Proportional).allocate(&plain).is_ok());
    }
}

/// Checks that each job has at least this part of the throughput of an isolated share.
fn shares_well(case: &str, instance: &Instance, allocation: &Allocation, part: f64) {
    let isolated = asked(Isolated).allocate(instance).unwrap();
    for i in 0..instance.jobs.len() {
        let [has, alone] = [allocation, &isolated].map(|a| a.throughput(instance, i));
        assert!(has >= alone * part, "{case}: {has} < {alone}");
    }
}

#[test]
fn fair_shares_give_an_incentive_to_share() {
    for seed in 0..60 {
        let instance = instance(seed, 1, false);
        let fair = asked(MaxMinFairness::default());
        let filled = asked(WaterFilling::default());
        for (name, mut policy) in [("max-min", fair), ("water filling", filled)] {
            let allocation = policy.allocate(&instance).unwrap();
            let case = format!("{name}, seed {seed}");
            shares_well(&case, &instance, &allocation, 1.0 - 1e-5);
        }
    }
}

/// Returns the time that a job spends on all types together.
fn time(allocation: &Allocation, job: &Entrant) -> f64 {
    let x = allocation.get(Combination::single(job.id)).unwrap();
    x.iter().sum()
}

/// Time is shared if all GPUs count as equal.
#[test]
fn type_blind_fairness_gives_at_least_the_equal_part() {
    for seed in 0..60 {
        let instance = instance(seed, 1, false);
        let equal = asked(Isolated).allocate(&instance).unwrap();
        let policies: [Asked; 2] = [
            asked(MaxMinFairness::new(Knowledge::Nothing)),
            asked(WaterFilling::new(Knowledge::Nothing)),
        ];
        for mut policy in policies {
            let allocation = policy.allocate(&instance).unwrap();
            for job in &instance.jobs {
                let (has, alone) = (time(&allocation, job), time(&equal, job));
                assert!(has >= alone * (1.0 - 1e-6), "seed {seed}: {has} < {alone}");
            }
            // The time of a job cannot grow without reducing another job's time: either all jobs
            // have all their time, or all GPUs are allocated.
            let given: f64 = instance.jobs.iter().map(|j| time(&allocation, j)).sum();
            let most = instance.gpus().min(instance.jobs.len() as f64);
            let all = (given / most - 1.0).abs() < 1e-6;
            assert!(all, "seed {seed}: {given} of {most}");
        }
    }
}

/// No job would be faster with the share of another job that requests as many GPUs.
#[test]
fn equal_parts_are_envy_free() {
    for seed in 0..40 {
        let instance = instance(seed, 4, false);
        for mut policy in [asked(Isolated), asked(Proportional)] {
            let allocation = policy.allocate(&instance).unwrap();
            for (i, job) in instance.jobs.iter().enumerate() {
                let has = allocation.throughput(&instance, i);
                for other in instance.jobs.iter().filter(|o| o.gpus == job.gpus) {
                    let x = allocation.get(Combination::single(other.id)).unwrap();
                    let with: f64 = x.iter().zip(&job.rates).map(|(x, r)| x * r).sum();
                    assert!(with <= has * (1.0 + 1e-9), "seed {seed}: {with} > {has}");
                }
            }
        }
    }
}

#[test]
fn proportional_share_is_all_time_at_any_speed() {
    for seed in 0..20 {
        let mut instance = instance(seed, 4, false);
        let before = asked(Proportional).allocate(&instance).unwrap();
        for job in &instance.jobs {
            assert!((time(&before, job) - 1.0).abs() < 1e-9);
        }
        for job in &mut instance.jobs {
            job.rates.iter_mut().for_each(|r| *r = 7.0 / *r);
        }
        assert_eq!(asked(Proportional).allocate(&instance).unwrap(), before);
    }
}

/// A job keeps at least 1/e of the share that maximises the geometric mean (Cole, Gkatzelis and
/// Goel, EC 2013). Gavel uses their mechanism. That share is at least an equal part of everything.
#[test]
fn paying_for_honesty_leaves_a_third_of_an_equal_part() {
    for seed in 0..12 {
        let mut instance = instance(seed, 1, false);
        instance.jobs.truncate(4);
        let allocation = asked(StrategyProof).allocate(&instance).unwrap();
        let third = (1.0 - 1e-4) / std::f64::consts::E;
        shares_well(&format!("seed {seed}"), &instance, &allocation, third);
    }
}

#[test]
fn finish_time_fairness_gives_an_incentive_to_share() {
    for seed in 0..60 {
        let mut instance = instance(seed, 4, false);
        instance.jobs.iter_mut().for_each(|j| j.age = 0.0);
        let mut policy = asked(FinishTimeShares::default());
        let allocation = policy.allocate(&instance).unwrap();
        let rho = policy.objective(&instance, &allocation).unwrap();
        assert!(rho <= 1.0 + 1e-5, "seed {seed}: {rho}");
    }
}

#[test]
fn finish_time_fairness_favours_heavier_jobs() {
    let mut instance = instance(0, 1, false);
    instance.types.truncate(1);
    instance.types[0].gpus = 1;
    instance.jobs.truncate(2);
    for (job, weight) in instance.jobs.iter_mut().zip([1.0, 3.0]) {
        job.weight = weight;
        (job.gpus, job.age, job.left) = (1, 0.0, 1000.0);
        job.rates.truncate(1);
        job.rates[0] = 1.0;
    }
    let shares = |policy: FinishTimeShares| {
        let allocation = asked(policy).allocate(&instance).unwrap();
        [0, 1].map(|i| allocation.throughput(&instance, i))
    };
    let near = |a: [f64; 2], b: [f64; 2]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-4);
    let plain = shares(FinishTimeShares::default());
    assert!(near(plain, [0.5, 0.5]), "{plain:?}");
    // The job of weight 1 is as well off with a third of the speed.
    let weighted = shares(FinishTimeShares::default().weighted());
    assert!(near(weighted, [0.25, 0.75]), "{weighted:?}");
}

/// No smaller rho is feasible for all jobs, even if speeds and ages differ widely.
#[test]
fn finish_time_fairness_reaches_its_least_rho() {
    for seed in 0..60 {
        let mut instance = instance(seed, 4, false);
        for (i, job) in instance.jobs.iter_mut().enumerate() {
            let apart = [1.0, 1e-3, 1e3][i % 3];
            job.rates.iter_mut().for_each(|r| *r *= apart);
            job.left *= apart;
            job.age *= [0.0, 1.0, 40.0][i % 3];
        }
        let mut policy = asked(FinishTimeShares::default());
        let allocation = policy.allocate(&instance).unwrap();
        let rho = policy.objective(&instance, &allocation).unwrap();
        assert!(allocation.excess(&instance) <= 1e-6, "seed {seed}");
        let alone = asked(Isolated).allocate(&instance).unwrap();
        let needed = |i: usize| {
            let job = &instance.jobs[i];
            let isolated = job.left / alone.throughput(&instance, i);
            job.left / (rho * (1.0 - 1e-6) * isolated - job.age)
        };
        let (mut p, mut rows) = within(&instance);
        let least = p.real(1.0, f64::NEG_INFINITY, f64::INFINITY);
        for (i, row) in rows.iter_mut().enumerate() {
            row.iter_mut().for_each(|(_, rate)| *rate /= needed(i));
            row.push((least, -1.0));
            p.at_least(row, 0.0);
        }
        let met = BranchAndBound::default().solve(&p).unwrap().objective;
        assert!(met < 1.0, "seed {seed}: {rho} is not the least: {met}");
    }
}

/// On one type, no program is solved. The largest rho is the same, and all jobs that could have more
/// of their time have an equal rho.
#[test]
fn fairness_on_one_type_equals_its_programs() {
    for seed in 0..60 {
        let mut instance = instance(seed, 4, false);
        instance.types.truncate(1);
        instance.jobs.iter_mut().for_each(|j| j.rates.truncate(1));
        let policy = FinishTimeShares::default();
        let (mut memory, mut past) = (policy.initial(0), policy.initial(0));
        let found = policy.allocate(&mut memory, &instance).unwrap();
        let by_programs = policy.by_programs(&mut past, &instance).unwrap();
        is_possible(&instance, &found);
        let rho = |x: &Allocation| policy.objective(&memory, &instance, x).unwrap();
        let (ours, theirs) = (rho(&found), rho(&by_programs.within(&instance)));
        assert!(
            (ours - theirs).abs() <= 1e-6 * theirs,
            "seed {seed}: {ours} {theirs}"
        );
        let each = |i: usize| {
            let only = Instance {
                jobs: vec![instance.jobs[i].clone()],
                ..instance.clone()
            };
            policy.objective(&memory, &only, &found).unwrap()
        };
        let share = |i: usize| found.get(Combination::single(instance.jobs[i].id)).unwrap()[0];
        let jobs = (0..instance.jobs.len()).filter(|i| share(*i) < 1.0 - 1e-9);
        let level: Vec<f64> = jobs.map(each).collect();
        for rho in &level {
            assert!(
                (rho - level[0]).abs() <= 1e-6 * rho,
                "seed {seed}: {level:?}"
            );
            assert!(*rho <= ours * (1.0 + 1e-9), "seed {seed}");
        }
    }
}

/// Program of fractions of time, and each job's throughput in it.
fn within(instance: &Instance) -> (Program, Vec<Vec<(Var, f64)>>) {
    let mut p = Program::maximise();
    let mut capacity = vec![Vec::new(); instance.types.len()];
    let mut rows = Vec::new();
    for job in &instance.jobs {
        let mut row = Vec::new();
        let mut time = Vec::new();
        for (kind, rate) in job.rates.iter().enumerate() {
            let x = p.real(0.0, 0.0, 1.0);
            row.push((x, *rate));
            time.push((x, 1.0));
            capacity[kind].push((x, f64::from(job.gpus)));
        }
        p.at_most(&time, 1.0);
        rows.push(row);
    }
    for (terms, pool) in capacity.iter().zip(&instance.types) {
        p.at_most(terms, f64::from(pool.gpus));
    }
    (p, rows)
}

/// Rate by which all levels together can rise while no level falls.
fn slack(instance: &Instance, allocation: &Allocation) -> f64 {
    let (mut p, mut rows) = within(instance);
    for (i, row) in rows.iter_mut().enumerate() {
        let now = allocation.throughput(instance, i);
        let rises = p.real(1.0, 0.0, f64::INFINITY);
        row.push((rises, -now));
        p.at_least(row, now * (1.0 - 1e-6));
    }
    BranchAndBound::default().solve(&p).unwrap().objective
}

#[test]
fn water_filling_is_pareto_efficient() {
    for seed in 0..40 {
        let instance = instance(seed, 4, false);
        let allocation = asked(WaterFilling::default()).allocate(&instance).unwrap();
        let slack = slack(&instance, &allocation);
        assert!(slack < 1e-2, "seed {seed}: {slack}");
        // Its worst-off jobs are as well off as under max-min fairness.
        let mut max_min = asked(MaxMinFairness::default());
        let best = max_min.allocate(&instance).unwrap();
        let best = max_min.objective(&instance, &best).unwrap();
        let least = max_min.objective(&instance, &allocation).unwrap();
        let equal = (least / best - 1.0).abs() < 1e-6;
        assert!(equal, "seed {seed}: {least} {best}");
    }
}

#[test]
fn most_throughput_is_the_most_and_cannot_be_improved() {
    for seed in 0..40 {
        let instance = instance(seed, 4, false);
        let mut policy = asked(MaxSumThroughput::default());
        let allocation = policy.allocate(&instance).unwrap();
        let sum = |a: &Allocation| policy.objective(&instance, a).unwrap();
        let others: [Asked; 3] = [
            asked(Isolated),
            asked(MaxMinFairness::default()),
            asked(MinTotalDuration::default()),
        ];
        for mut other in others {
            let theirs = other.allocate(&instance).unwrap();
            assert!(sum(&theirs) <= sum(&allocation) * (1.0 + 1e-6));
        }
    }
}

#[test]
fn least_duration_is_the_least() {
    for seed in 0..40 {
        let instance = instance(seed, 4, false);
        let mut policy = asked(MinTotalDuration::default());
        let allocation = policy.allocate(&instance).unwrap();
        let duration = |a: &Allocation| policy.objective(&instance, a).unwrap();
        for mut other in [asked(Isolated), asked(MaxMinFairness::default())] {
            let theirs = other.allocate(&instance).unwrap();
            assert!(duration(&allocation) <= duration(&theirs) * (1.0 + 1e-6));
        }
    }
}

#[test]
fn isolated_share_depends_on_no_other_job() {
    for seed in 0..20 {
        let mut instance = instance(seed, 4, false);
        let before = asked(Isolated).allocate(&instance).unwrap();
        for other in &mut instance.jobs[1..] {
            other.rates.iter_mut().for_each(|r| *r *= 3.0);
            (other.left, other.gpus) = (other.left * 9.0, 1);
        }
        let who = Combination::single(instance.jobs[0].id);
        let after = asked(Isolated).allocate(&instance).unwrap();
        assert_eq!(before.get(who), after.get(who));
    }
}

#[test]
fn false_speeds_gain_nothing() {
    for seed in 0..12 {
        let mut instance = instance(seed, 1, false);
        instance.jobs.truncate(4);
        let honest = asked(StrategyProof).allocate(&instance).unwrap();
        is_possible(&instance, &honest);
        for (kind, factor) in [(0, 3.0), (1, 0.5), (2, 2.0), (2, 0.3)] {
            let mut lie = instance.clone();
            lie.jobs[0].rates[kind] *= factor;
            let lied = asked(StrategyProof).allocate(&lie).unwrap();
            let [truth, gained] = [&honest, &lied].map(|a| a.throughput(&instance, 0));
            let fair = gained <= truth * (1.0 + 1e-3);
            assert!(fair, "seed {seed}: {gained} > {truth}");
        }
    }
}

/// Creates `jobs` jobs of `kinds` kinds on three types, with one GPU for every two jobs.
fn many(jobs: usize, kinds: usize) -> Instance {
    let mut draw = Draw(jobs as u64);
    let rates: Vec<_> = (0..kinds).map(|_| rates(&mut draw)).collect();
    let types = ["k80", "p100", "v100"].map(|name| pool(name, jobs as u32 / 6));
    let job = |i: usize| Entrant {
        age: draw.between(0.0, 9000.0),
        left: draw.between(100.0, 90_000.0),
        ..entrant(i as u32, &rates[i % kinds])
    };
    Instance {
        types: types.into(),
        jobs: (0..jobs).map(job).collect(),
        pairs: Vec::new(),
    }
}

/// Returns the instance with weights that differ too little to change an optimum.
fn with_distinct_weights(instance: &Instance) -> Instance {
    let mut apart = instance.clone();
    for (job, i) in apart.jobs.iter_mut().zip(0..) {
        job.weight *= 1.0 + 1e-10 * f64::from(i);
    }
    apart
}

/// Checks that an allocation is possible, with the objective of one that distinguishes equal jobs.
fn is_optimal(policy: &mut Asked, instance: &Instance) -> Allocation {
    let together = policy.allocate(instance).unwrap();
    is_possible(instance, &together);
    let each = policy.allocate(&with_distinct_weights(instance)).unwrap();
    let [a, b] = [&together, &each].map(|x| policy.objective(instance, x).unwrap());
    assert!((a / b - 1.0).abs() < 1e-6, "{a} {b}");
    together
}

#[test]
fn equal_jobs_get_equal_shares_of_the_optimum() {
    let instance = many(120, 5);
    for knowledge in [Knowledge::Types, Knowledge::Nothing] {
        let together = is_optimal(&mut asked(MaxMinFairness::new(knowledge)), &instance);
        let row = |i: u32| together.get(Combination::single(JobId(i)));
        assert_eq!(row(3), row(8));
    }
}

/// Creates an instance with pairs, of `kinds` kinds of jobs.
fn in_pairs(jobs: usize, kinds: usize) -> Instance {
    let mut instance = many(jobs, kinds);
    let mut draw = Draw(7);
    let beside: Vec<Vec<f64>> = (0..kinds)
        .map(|_| (0..kinds).map(|_| draw.between(0.3, 1.0)).collect())
        .collect();
    for a in 0..jobs {
        for b in a + 1..jobs {
            let slower = [beside[a % kinds][b % kinds], beside[b % kinds][a % kinds]];
            let [x, y] = [a, b].map(|job| &instance.jobs[job].rates);
            let both = |k: usize| [x[k] * slower[0], y[k] * slower[1]];
            let (jobs, rates) = ([a, b], (0..3).map(both).collect());
            instance.pairs.push(Pair { jobs, rates });
        }
    }
    instance
}

#[test]
fn pairs_of_equal_jobs_get_equal_optimal_shares() {
    let instance = in_pairs(18, 4);
    let mut merged = asked(MaxMinFairness::new(Knowledge::Pairs));
    let together = is_optimal(&mut merged, &instance);
    let row = |a: u32, b: u32| together.get(Combination::pair(JobId(a), JobId(b)));
    assert_eq!(row(3, 8), row(7, 12));
    assert!(row(3, 8).is_some());
    // A job that is slower beside others than its equals is a kind of its own.
    let mut other = instance.clone();
    for pair in &mut other.pairs {
        if let Some(own) = pair.jobs.iter().position(|j| *j == 5) {
            pair.rates.iter_mut().for_each(|r| r[own] *= 0.9);
        }
    }
    is_optimal(&mut merged, &other);
}

#[test]
fn pairs_that_gain_nothing_are_needed_by_no_optimum() {
    let mut dropped = 0;
    for seed in 0..30 {
        let all = instance(seed, 2, true);
        let gains = |pair: &Pair| {
            let alone = |which: usize| all.jobs[pair.jobs[which]].rates[0];
            pair.rates[0][0] / alone(0) + pair.rates[0][1] / alone(1)
        };
        let mut fewer = all.clone();
        let policies: [Asked; 4] = [
            asked(MaxMinFairness::new(Knowledge::Pairs)),
            asked(MaxSumThroughput::new(Knowledge::Pairs)),
            asked(MinTotalDuration::new(Knowledge::Pairs)),
            asked(FinishTimeShares::new(Knowledge::Pairs)),
        ];
        for mut policy in policies {
            let least_gain = policy.policy.any_usage().least_gain;
            assert_eq!(least_gain, 1.0);
            fewer.pairs = all.pairs.clone();
            fewer.pairs.retain(|p| gains(p) > least_gain);
            let [a, b] = [&all, &fewer].map(|instance| {
                let allocation = policy.allocate(instance).unwrap();
                policy.objective(instance, &allocation).unwrap()
            });
            assert!((a - b).abs() < 1e-6 * a.abs(), "{seed}: {a} {b}");
        }
        dropped += all.pairs.len() - fewer.pairs.len();
    }
    assert!(dropped > 50, "{dropped}");
}

#[test]
fn within_capacity_no_share_grows_and_none_is_zero() {
    let mut over = 0;
    for seed in 0..30 {
        let instance = instance(seed, 4, false);
        let too_much = asked(Proportional).allocate(&instance).unwrap();
        over += u32::from(too_much.excess(&instance) > 0.0);
        let within = too_much.within(&instance);
        is_possible(&instance, &within);
        assert!(within.excess(&instance) < 1e-12);
        for ((_, more), (_, less)) in too_much.rows().iter().zip(within.rows()) {
            let mut both = more.iter().zip(less);
            assert!(both.all(|(more, less)| *less > 0.0 && less <= more));
        }
    }
    assert!(over > 10, "{over}");
}

/// Jobs of one GPU each with these rates.
pub(crate) fn narrow(types: &[(&str, u32)], rates: &[(u32, &[f64])]) -> Instance {
    Instance {
        types: types.iter().map(|(name, gpus)| pool(name, *gpus)).collect(),
        jobs: rates
            .iter()
            .map(|(id, rates)| entrant(*id, rates))
            .collect(),
        pairs: Vec::new(),
    }
}

#[test]
fn only_jobs_that_may_share_are_paired_by_chance() {
    let rates: &[f64] = &[1.0];
    let jobs = [(0, rates), (1, rates), (2, rates)];
    let mut instance = narrow(&[("v100", 1)], &jobs);
    instance.pairs.push(Pair {
        jobs: [0, 1],
        rates: SmallVec::from_slice(&[[0.8, 0.8]]),
    });
    for seed in 0..20 {
        let mut policy = seeded(GandivaPacking::default(), seed);
        let allocation = policy.allocate(&instance).unwrap();
        let allocation = allocation.completed(&instance);
        for job in 0..3 {
            let has = allocation.throughput(&instance, job);
            assert!(has > 0.0, "{seed}: {job}");
        }
    }
}
