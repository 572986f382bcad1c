//! Interior-point method in the self-dual embedding, with linear algebra by parts.

mod curved;
mod parted;
mod system;

use crate::{Column, Program, Solution, SolveError, Solver};
pub use curved::Interior;
use parted::Parted;
use system::System;

const NAME: &str = "the interior-point method";
/// Maximum number of iterations.
const LIMIT: usize = 100;
/// Relative error of rows, of prices, and of the objective at which the method stops.
const DONE: f64 = 1e-8;
/// Relative error that is accepted if rounding prevents further progress.
const CONTENT: f64 = 2e-7;
/// Fraction of the distance to the boundary that a step takes.
const STEP: f64 = 0.99;
/// Maximum length of a step. [`SHORTEST`] is the minimum.
const LONGEST: f64 = 0.999;
const SHORTEST: f64 = 1e-6;
/// Minimum and maximum fraction of centring in a step.
const CENTRED: (f64, f64) = (1e-4, 1.0);

/// Structure of a program for [`SelfDual`] and [`Interior`]: parts of variables, and copies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parts {
    /// Part of each variable, or `None` for a variable that all parts share.
    pub part: Vec<Option<usize>>,
    /// Number of copies of each part, above 0. Missing entries count as 1.
    pub copies: Vec<f64>,
    /// Number of rows at the start that span all parts, even if they have variables of only one
    /// part.
    pub shared_rows: usize,
    /// Number of copies of each row that spans parts, above 0. Missing entries count as 1.
    pub row_copies: Vec<f64>,
}

/// Interior-point method for programs with many small parts that share a few rows and variables.
///
/// It is a primal-dual method in the homogeneous self-dual embedding, with Mehrotra's predictor and
/// corrector. It follows Domahidi, Chu and Boyd, "ECOS: An SOCP solver for embedded systems" (ECC
/// 2013), with the constants published there. If the optimum is not unique, the solution is near
/// the centre of all optimal ones, as in that solver.
///
/// Rows within a part are eliminated with the part. The cost of an iteration is linear in the
/// number of parts, plus the cube of the number of shared rows and variables. Equal parts can be
/// stored once with a number of [copies](Parts::copies). Each copy then takes exactly the steps
/// that it would take alone. In a row over several parts, or in the objective, `a x` then means the
/// sum over all copies. Rows can have [copies](Parts::row_copies) as well.
///
/// It supports rows with `<=` and `>=`. It does not support whole numbers, equations, or
/// logarithms.
///
/// ```
/// use blox_solve::{Parts, Program, SelfDual};
/// // Four users of 1 unit; all get the same. One stands for three that are alike.
/// let mut p = Program::maximise();
/// let (x, y) = (p.real(0.0, 0.0, f64::INFINITY), p.real(0.0, 0.0, f64::INFINITY));
/// let least = p.real(1.0, f64::NEG_INFINITY, f64::INFINITY);
/// p.at_most(&[(x, 3.0), (y, 1.0)], 1.0);
/// p.at_least(&[(x, 1.0), (least, -1.0)], 0.0);
/// p.at_least(&[(y, 1.0), (least, -1.0)], 0.0);
/// let parts = Parts { part: vec![Some(0), Some(1), None], copies: vec![3.0, 1.0], shared_rows: 1, ..Parts::default() };
/// let best = SelfDual.solve_in_parts(&p, &parts)?;
/// assert!((best[least] - 0.25).abs() < 1e-7);
/// # Ok::<(), blox_solve::SolveError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SelfDual;

impl Parts {
    /// Makes a part of each variable with bounds. Variables without bounds are shared.
    fn bounded(program: &Program) -> Self {
        let bounded = |(i, c): (usize, &Column)| {
            let bounded = c.low.is_finite() || c.high.is_finite();
            bounded.then_some(i)
        };
        Parts {
            part: program.columns.iter().enumerate().map(bounded).collect(),
            ..Parts::default()
        }
    }
}

impl Solver for SelfDual {
    fn solve(&self, program: &Program) -> Result<Solution, SolveError> {
        self.solve_in_parts(program, &Parts::bounded(program))
    }
}

impl SelfDual {
    /// Solves a program in parts, as [`Solver::solve`] does.
    ///
    /// # Errors
    /// Returns the solver's errors.
    pub fn solve_in_parts(&self, program: &Program, parts: &Parts) -> Result<Solution, SolveError> {
        if program.is_curved() {
            return Err(unsuited("it has logarithms"));
        }
        Parted::of(program, parts)?.solve(program, |parted| Iteration::new(parted).run())
    }
}

/// State of the method: variables, slacks and prices of the rows, and the two numbers of the
/// embedding.
struct Iteration<'a> {
    program: &'a Parted,
    x: Vec<f64>,
    s: Vec<f64>,
    z: Vec<f64>,
    tau: f64,
    kappa: f64,
}

/// Residuals, which measure the distance from a solution.
struct Residuals {
    x: Vec<f64>,
    z: Vec<f64>,
    tau: f64,
    mu: f64,
    /// Largest relative error.
    error: f64,
    outcome: Option<Result<(), SolveError>>,
}

/// A search direction: scaled slacks and prices, and changes of the embedding's numbers.
struct Way {
    slacks: Vec<f64>,
    prices: Vec<f64>,
    tau: f64,
    kappa: f64,
}

impl<'a> Iteration<'a> {
    fn new(program: &'a Parted) -> Self {
        Iteration {
            program,
            x: Vec::new(),
            s: Vec::new(),
            z: Vec::new(),
            tau: 1.0,
            kappa: 1.0,
        }
    }

    /// Runs the method and returns the variables of a solution.
    fn run(mut self) -> Result<Vec<f64>, SolveError> {
        let p = self.program;
        let mut system = System::of(p);
        let minus_cost: Vec<f64> = p.cost.iter().map(|c| -c).collect();
        let (no_x, no_z) = (vec![0.0; p.cost.len()], vec![0.0; p.bound.len()]);
        system.factor(vec![1.0; p.bound.len()])?;
        let (x, z) = system.solve(&no_x, &p.bound);
        let slack: Vec<f64> = z.iter().map(|z| -z).collect();
        (self.x, self.s) = (x, brought_inside(slack));
        let (_, z) = system.solve(&minus_cost, &no_z);
        self.z = brought_inside(z);
        let mut best = (f64::INFINITY, Vec::new());
        let mut why = Err(SolveError::Limit {
            limit: LIMIT as u64,
            unit: "iterations",
        });
        for _ in 0..LIMIT {
            let residuals = self.residuals();
            if let Some(outcome) = residuals.outcome {
                outcome?;
                return Ok(self.solution());
            }
            if residuals.error < best.0 {
                best = (residuals.error, self.solution());
            }
            match self.step(&mut system, &minus_cost, &residuals) {
                Ok(step) if step > SHORTEST * STEP && self.tau.is_finite() => {}
                Ok(_) => {
                    why = Err(failed("it gets no further"));
                    break;
                }
                Err(error) => {
                    why = Err(error);
                    break;
                }
            }
        }
        if best.0 < CONTENT { Ok(best.1) } else { why }
    }

    fn solution(&self) -> Vec<f64> {
        self.x.iter().map(|x| x / self.tau).collect()
    }

    fn residuals(&self) -> Residuals {
        let p = self.program;
        let mut x = p.transposed(&self.z);
        x.iter_mut().for_each(|x| *x = -*x);
        let reached_x = p.norm_x(&x);
        x.iter_mut()
            .zip(&p.cost)
            .for_each(|(x, c)| *x -= c * self.tau);
        let mut z = p.times(&self.x);
        z.iter_mut().zip(&self.s).for_each(|(z, s)| *z += s);
        let reached_z = p.norm_z(&z);
        z.iter_mut()
            .zip(&p.bound)
            .for_each(|(z, h)| *z -= h * self.tau);
        let (cx, hz) = (p.dot_x(&p.cost, &self.x), p.dot_z(&p.bound, &self.z));
        let gap = p.dot_z(&self.s, &self.z);
        let [nx, ns, nz] = [p.norm_x(&self.x), p.norm_z(&self.s), p.norm_z(&self.z)];
        let of_rows = p.norm_z(&z) / (p.bound_norm.max(1.0) + nx + ns) / self.tau;
        let of_prices = p.norm_x(&x) / (p.cost_norm.max(1.0) + nz) / self.tau;
        let relative = match (cx, -hz) {
            (cost, _) if cost < 0.0 => gap / (-cost / self.tau),
            (_, price) if price > 0.0 => gap / (price / self.tau),
            _ => f64::INFINITY,
        };
        let bounded = cx < 0.0 || -hz >= -DONE;
        let error = match bounded {
            true => of_rows.max(of_prices).max(gap.min(relative)),
            false => f64::INFINITY,
        };
        let outcome = if error < DONE {
            Some(Ok(()))
        } else if cx / nx.max(1.0) < -DONE
            && reached_z / (nx + ns).max(1.0) < DONE
            && self.tau < self.kappa
        {
            Some(Err(SolveError::Unbounded))
        } else if hz / nz.max(1.0) < -DONE
            && reached_x / nz.max(1.0) < DONE
            && self.tau < self.kappa
        {
            Some(Err(SolveError::Infeasible))
        } else {
            None
        };
        Residuals {
            x,
            z,
            tau: self.kappa + cx + hz,
            mu: (gap + self.kappa * self.tau) / (p.row_copies.iter().sum::<f64>() + 1.0),
            error,
            outcome,
        }
    }

    /// Takes one step and returns its length.
    fn step(
        &mut self,
        system: &mut System<'_>,
        minus_cost: &[f64],
        off: &Residuals,
    ) -> Result<f64, SolveError> {
        let p = self.program;
        if !self.s.iter().chain(&self.z).all(|v| *v > 0.0) {
            return Err(failed("a slack or a price is not above 0"));
        }
        // This scaling maps prices and slacks to the same point.
        let pairs = self.s.iter().zip(&self.z);
        let scaling: Vec<f64> = pairs.map(|(s, z)| (s / z).sqrt()).collect();
        let at = product(&scaling, &self.z);
        system.factor(scaling.clone())?;
        let (x1, z1) = system.solve(minus_cost, &p.bound);
        // Remaining cost and bound along this direction, computed without cancellation.
        let length = p.norm_z(&product(&scaling, &z1));
        let divisor = self.kappa / self.tau + length * length;

        // Predictor: the direction straight to the solution.
        let wanted: Vec<f64> = self.s.iter().zip(&off.z).map(|(s, r)| s - r).collect();
        let (x2, mut z2) = system.solve(&off.x, &wanted);
        let sums = p.dot_x(&p.cost, &x2) + p.dot_z(&p.bound, &z2);
        let tau = (off.tau - self.kappa + sums) / divisor;
        add(&mut z2, tau, &z1);
        let prices = product(&scaling, &z2);
        let slacks = prices.iter().zip(&at).map(|(p, a)| -p - a).collect();
        let straight = Way {
            slacks,
            prices,
            tau,
            kappa: -self.kappa - self.kappa / self.tau * tau,
        };
        let centred = (1.0 - self.reach(&at, &straight)).powi(3);
        let centred = centred.clamp(CENTRED.0, CENTRED.1);

        // Corrector: towards the central path, with the curvature of the predictor.
        let pull = centred * off.mu;
        let mut bent = product(&at, &at);
        add(&mut bent, 1.0, &product(&straight.slacks, &straight.prices));
        let bends = bent.iter_mut().zip(&at);
        bends.for_each(|(b, at)| *b = (*b - pull) / at);
        let mut wanted = product(&scaling, &bent);
        add(&mut wanted, centred - 1.0, &off.z);
        let wanted_x: Vec<f64> = off.x.iter().map(|x| x * (1.0 - centred)).collect();
        let (mut x2, mut z2) = system.solve(&wanted_x, &wanted);
        let of_kappa = self.kappa * self.tau + straight.kappa * straight.tau - pull;
        let sums = p.dot_x(&p.cost, &x2) + p.dot_z(&p.bound, &z2);
        let tau = ((1.0 - centred) * off.tau - of_kappa / self.tau + sums) / divisor;
        add(&mut x2, tau, &x1);
        add(&mut z2, tau, &z1);
        let prices = product(&scaling, &z2);
        let slacks = prices.iter().zip(&bent).map(|(p, b)| -p - b).collect();
        let way = Way {
            slacks,
            prices,
            tau,
            kappa: -(of_kappa + self.kappa * tau) / self.tau,
        };
        let step = self.reach(&at, &way) * STEP;
        add(&mut self.x, step, &x2);
        add(&mut self.z, step, &z2);
        add(&mut self.s, step, &product(&scaling, &way.slacks));
        self.tau += step * way.tau;
        self.kappa += step * way.kappa;
        Ok(step)
    }

    /// Returns the largest step from the scaled point that keeps all values positive.
    fn reach(&self, at: &[f64], way: &Way) -> f64 {
        let ways = at.iter().zip(way.slacks.iter().zip(&way.prices));
        let fastest = ways.fold(0.0_f64, |fastest, (at, (s, z))| {
            fastest.max(-s / at).max(-z / at)
        });
        let mut reach = 1.0 / fastest;
        for (value, change) in [(self.tau, way.tau), (self.kappa, way.kappa)] {
            if change < 0.0 {
                reach = reach.min(-value / change);
            }
        }
        reach.clamp(SHORTEST, LONGEST)
    }
}

fn unsuited(why: &str) -> SolveError {
    SolveError::Unsuited {
        solver: NAME,
        why: why.to_owned(),
    }
}

fn failed(why: &str) -> SolveError {
    SolveError::Failed {
        solver: NAME,
        why: why.to_owned(),
    }
}

/// Makes all numbers positive. If one is not, adds the same amount to all.
fn brought_inside(mut v: Vec<f64>) -> Vec<f64> {
    let outside = v.iter().filter(|v| **v <= 0.0);
    let most = outside.fold(-STEP, |most, v| most.max(-v));
    v.iter_mut().for_each(|v| *v += 1.0 + most);
    v
}

/// Returns the element-wise product.
fn product(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a * b).collect()
}

/// Adds a multiple of a vector.
fn add(to: &mut [f64], factor: f64, what: &[f64]) {
    to.iter_mut().zip(what).for_each(|(t, w)| *t += factor * w);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Var;

    const FREE: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);

    /// Max-min program of users of three resources: numbers of users of each kind, and their rates.
    pub(super) fn users(
        kinds: &[(u32, [f64; 3])],
        apart: bool,
    ) -> (Program, Parts, Vec<[Var; 3]>, Var) {
        let all: Vec<(f64, [f64; 3])> = match apart {
            false => kinds.iter().map(|(n, r)| (f64::from(*n), *r)).collect(),
            true => kinds
                .iter()
                .flat_map(|(n, r)| (0..*n).map(|_| (1.0, *r)))
                .collect(),
        };
        let mut p = Program::maximise();
        let vars: Vec<[Var; 3]> = all
            .iter()
            .map(|_| [0; 3].map(|_| p.real(0.0, 0.0, f64::INFINITY)))
            .collect();
        let least = p.real(1.0, FREE.0, FREE.1);
        for k in 0..3 {
            let row = vars.iter().zip(&all).map(|(v, (n, _))| (v[k], *n));
            p.at_most(&row.collect::<Vec<_>>(), [1.0, 2.0, 3.0][k]);
        }
        for (v, (_, rates)) in vars.iter().zip(&all) {
            p.at_most(&v.map(|v| (v, 1.0)), 1.0);
            let mut row: Vec<_> = v.iter().copied().zip(*rates).collect();
            row.push((least, -1.0));
            p.at_least(&row, 0.0);
        }
        let part = (0..all.len()).flat_map(|i| [Some(i); 3]).chain([None]);
        let parts = Parts {
            part: part.collect(),
            copies: all.iter().map(|(n, _)| *n).collect(),
            shared_rows: 3,
            ..Parts::default()
        };
        (p, parts, vars, least)
    }

    pub(super) const KINDS: [(u32, [f64; 3]); 4] = [
        (5, [1.0, 3.0, 9.0]),
        (1, [2.0, 2.5, 3.0]),
        (3, [1.0, 4.0, 4.5]),
        (2, [0.5, 0.6, 0.7]),
    ];

    #[test]
    fn copies_go_the_way_of_those_they_stand_for() {
        let (p, parts, vars, least) = users(&KINDS, false);
        let together = SelfDual.solve_in_parts(&p, &parts).unwrap();
        let (p, parts, each, all_least) = users(&KINDS, true);
        let apart = SelfDual.solve_in_parts(&p, &parts).unwrap();
        assert!((together[least] - apart[all_least]).abs() < 1e-10);
        let mut at = 0;
        for (vars, (n, _)) in vars.iter().zip(&KINDS) {
            for each in &each[at..at + *n as usize] {
                for (one, other) in vars.iter().zip(each) {
                    let off = together[*one] - apart[*other];
                    assert!(off.abs() < 1e-6, "{off}");
                }
            }
            at += *n as usize;
        }
    }

    #[test]
    fn parts_make_no_difference() {
        let (p, parts, ..) = users(&KINDS, true);
        let in_parts = SelfDual.solve_in_parts(&p, &parts).unwrap();
        let alone = SelfDual.solve(&p).unwrap();
        for (a, b) in in_parts.values.iter().zip(&alone.values) {
            assert!((a - b).abs() < 1e-6, "{a} {b}");
        }
    }

    #[test]
    fn unsolvable_programs_are_typed_errors() {
        let mut p = Program::minimise();
        let x = p.real(1.0, 0.0, 9.0);
        p.at_least(&[(x, 1.0)], 10.0);
        assert_eq!(SelfDual.solve(&p), Err(SolveError::Infeasible));
        let mut p = Program::maximise();
        p.real(1.0, 0.0, f64::INFINITY);
        assert_eq!(SelfDual.solve(&p), Err(SolveError::Unbounded));
        let mut p = Program::maximise();
        let x = p.integer(1.0, 0, 5);
        p.equal(&[(x, 1.0)], 3.0);
        assert!(matches!(
            SelfDual.solve(&p),
            Err(SolveError::Unsuited { .. })
        ));
    }
}
