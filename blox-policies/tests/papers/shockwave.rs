//! Shockwave (NSDI 2023). Some tests compare the market with the program in the paper, which has a
//! variable for every job and round and is solved by branch and bound.

use blox_microlp::BranchAndBound;
use blox_policies::scheduling::shockwave::{Bidder, Market, Regimes};
use blox_solve::{Program, Solver, Var};

struct Draw(u64);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.below(1 << 20) as f64 / f64::from(1 << 20)
    }
}

const MOST: f64 = 1e6;

fn market(draw: &mut Draw) -> Market {
    Market {
        rounds: 3,
        efficiency: [0.0, 1e-3, 1.0][draw.below(3) as usize],
        urgency: 2.0,
        gap: 0.0,
        ..Market::DEFAULT
    }
}

fn bidders(draw: &mut Draw, sizes: &[u32], fair_s: f64) -> Vec<Bidder> {
    let mut one = || {
        let length = 4.0 + draw.below(8) as f64;
        let done = draw.below(4) as f64;
        let pace_s = draw.between(20.0, 200.0);
        Bidder {
            gpus: sizes[draw.below(sizes.len() as u64) as usize],
            length,
            done,
            pace_s,
            remaining_s: (length - done) * pace_s * draw.between(0.8, 1.2),
            age_s: 0.0,
            fair_s,
        }
    };
    (0..4).map(|_| one()).collect()
}

/// Logarithms of progress at the bases.
fn logarithms(market: &Market) -> Vec<f64> {
    let value = |b: &f64| b.max(1e-6).ln();
    market.bases.iter().map(value).collect()
}

fn weight(market: &Market, gpus: u32, bidders: &[Bidder], b: &Bidder) -> f64 {
    let contention = (bidders.len() as f64 / f64::from(gpus)).max(1.0);
    ((b.age_s + b.remaining_s * contention) / b.fair_s).powf(market.urgency)
}

/// Objective of the best plan of the paper's program.
fn best(market: &Market, gpus: u32, bidders: &[Bidder]) -> f64 {
    let mut p = Program::maximise();
    let scale = 1.0 / (bidders.len() as f64 * f64::from(market.rounds));
    let longest = p.real(-market.efficiency, 0.0, MOST);
    let mut used: Vec<Vec<(Var, f64)>> = vec![Vec::new(); market.rounds as usize];
    for b in bidders {
        let progress = p.real(0.0, 0.0, MOST);
        let mut time = vec![(progress, -b.pace_s)];
        for used in &mut used {
            let runs = p.binary(0.0);
            time.push((runs, market.round_s));
            used.push((runs, f64::from(b.gpus)));
        }
        p.at_least(&time, 0.0);
        // The function is concave, so neighbouring bases are chosen in any case.
        let scale = scale * weight(market, gpus, bidders, b);
        let parts: Vec<(Var, f64)> = logarithms(market)
            .iter()
            .zip(market.bases.iter())
            .map(|(value, base)| (p.real(value * scale, 0.0, 1.0), *base))
            .collect();
        let ones: Vec<_> = parts.iter().map(|(v, _)| (*v, 1.0)).collect();
        p.equal(&ones, 1.0);
        let mut reached = parts;
        reached.push((progress, -1.0 / b.length));
        p.equal(&reached, b.done / b.length);
        p.at_least(&[(longest, 1.0), (progress, b.pace_s)], b.remaining_s);
    }
    for used in &used {
        p.at_most(used, f64::from(gpus));
    }
    BranchAndBound::default().solve(&p).unwrap().objective
}

/// Objective of a number of rounds for each job.
fn measure(market: &Market, gpus: u32, bidders: &[Bidder], rounds: &[u32]) -> f64 {
    let logarithms = logarithms(market);
    let mut sum = 0.0;
    let mut longest: f64 = 0.0;
    for (b, n) in bidders.iter().zip(rounds) {
        let most = (b.length - b.done) * b.pace_s;
        let worked = (f64::from(*n) * market.round_s).min(most);
        let progress = ((b.done + worked / b.pace_s) / b.length).min(1.0);
        let at = market
            .bases
            .iter()
            .rposition(|base| *base <= progress)
            .unwrap();
        let next = (at + 1).min(market.bases.len() - 1);
        let width = (market.bases[next] - market.bases[at]).max(f64::MIN_POSITIVE);
        let part = (progress - market.bases[at]) / width;
        let value = logarithms[at] + part * (logarithms[next] - logarithms[at]);
        sum += value * weight(market, gpus, bidders, b);
        longest = longest.max(b.remaining_s - worked);
    }
    sum / (bidders.len() as f64 * f64::from(market.rounds)) - market.efficiency * longest
}

#[test]
fn with_jobs_of_one_gpu_the_plan_is_the_best_there_is() {
    let mut draw = Draw(7);
    for case in 0..60 {
        let market = market(&mut draw);
        let fair_s = draw.between(500.0, 2000.0);
        let bidders = bidders(&mut draw, &[1], fair_s);
        let window = market.plan(2, 0.5, &bidders).unwrap();
        let (ours, theirs) = (
            measure(&market, 2, &bidders, &window.units),
            best(&market, 2, &bidders),
        );
        assert!(
            (ours - theirs).abs() <= 1e-6 * theirs.abs() + 1e-9,
            "case {case}: {ours} {theirs} {market:?} {bidders:?}"
        );
    }
}

#[test]
fn rounds_are_kept_and_no_gpu_is_used_twice() {
    let mut draw = Draw(11);
    for _ in 0..200 {
        let market = market(&mut draw);
        let fair_s = draw.between(100.0, 4000.0);
        let bidders = bidders(&mut draw, &[1, 2, 4], fair_s);
        let window = market.plan(5, 1.0, &bidders).unwrap();
        assert_eq!(window.rounds.len(), 3);
        for round in &window.rounds {
            let used: u32 = round.iter().map(|i| bidders[*i].gpus).sum();
            assert!(used <= 5);
            let idle = (0..bidders.len()).filter(|i| !round.contains(i));
            for i in idle {
                assert!(
                    bidders[i].gpus > 5 - used,
                    "GPUs are idle that job {i} can use"
                );
            }
            let mut once = round.clone();
            once.sort_unstable();
            once.dedup();
            assert_eq!(once.len(), round.len());
        }
        let planned: u32 = window
            .units
            .iter()
            .zip(&bidders)
            .map(|(n, b)| n * b.gpus)
            .sum();
        assert!(planned <= 15);
    }
}

/// A job of ten epochs of 120 s, two of which are done.
fn bidder(age_s: f64, fair_s: f64) -> Bidder {
    Bidder {
        gpus: 1,
        length: 10.0,
        done: 2.0,
        pace_s: 120.0,
        remaining_s: 960.0,
        age_s,
        fair_s,
    }
}

/// A market of two rounds.
fn two_rounds(efficiency: f64, urgency: f64) -> Market {
    Market {
        rounds: 2,
        efficiency,
        urgency,
        gap: 0.0,
        ..Market::DEFAULT
    }
}

#[test]
fn equal_jobs_have_a_round_each() {
    let jobs = [bidder(0.0, 1e4); 2];
    let window = two_rounds(1e-3, 5.0).plan(1, 0.5, &jobs).unwrap();
    assert_eq!(window.units, [1, 1]);
}

#[test]
fn job_with_greater_rho_comes_first() {
    let jobs = [bidder(0.0, 2000.0), bidder(0.0, 1990.0)];
    let window = two_rounds(1e-3, 1.0).plan(1, 0.5, &jobs).unwrap();
    assert_eq!(window.units, [1, 1]);
    assert_eq!(window.rounds, [[1], [0]]);
}

#[test]
fn weight_is_a_power_of_rho_for_every_job() {
    // ρ is 0.5 and 1. At power 5, progress of the first job weighs 1/32 as much.
    let early = |fair_s: f64, done: f64| Bidder {
        done,
        ..bidder(0.0, fair_s)
    };
    for (fair_s, power, expected) in [
        (3840.0, 5.0, [0, 2]),
        (3840.0, 0.0, [2, 0]),
        (1920.0, 5.0, [2, 0]),
    ] {
        // Progress is worth more for the first job, since less of it is done.
        let jobs = [early(fair_s, 2.0), early(1920.0, 6.0)];
        let window = two_rounds(0.0, power).plan(1, 0.5, &jobs).unwrap();
        assert_eq!(window.units, expected, "{fair_s} {power}");
    }
}

#[test]
fn makespan_decides_at_a_large_price_and_not_at_none() {
    let mut jobs = [bidder(0.0, 1e4); 2];
    // The first job is long and has done more of its length.
    jobs[0] = Bidder {
        length: 100.0,
        done: 80.0,
        remaining_s: 2400.0,
        ..jobs[0]
    };
    for (price, expected) in [(1e6, [2, 0]), (0.0, [0, 2])] {
        let window = two_rounds(price, 0.0).plan(1, 0.5, &jobs).unwrap();
        assert_eq!(window.units, expected);
    }
}

#[test]
fn program_is_the_same_if_all_jobs_can_end_fairly() {
    // With a fair time of 9,000 s for both, each can end fairly. The second has a greater ρ.
    let jobs = [bidder(0.0, 9000.0), bidder(5000.0, 9000.0)];
    let window = two_rounds(0.0, 12.0).plan(1, 0.5, &jobs).unwrap();
    assert_eq!(window.units, [0, 2]);
    assert_eq!(window.rounds, [[1], [1]]);
}

#[test]
fn completed_epochs_alone_update_the_prediction() {
    // 30 epochs of 20 s, then 70 of 10 s.
    let epochs = [vec![(16, 20.0); 30], vec![(32, 10.0); 70]].concat();
    let two = Regimes::new(&epochs).unwrap();
    assert_eq!(two.expected(30), [65.0, 35.0]);
    assert_eq!(two.remaining_s(30), 70.0 * 15.0);
    assert_eq!(two.expected(0), [50.0, 50.0]);
    let one = Regimes::new(&[(32, 10.0); 100]).unwrap();
    assert_eq!((one.remaining_s(0), one.remaining_s(60)), (1000.0, 400.0));
}
