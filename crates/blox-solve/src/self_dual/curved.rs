//! Primal-dual method for programs with logarithms in the objective.

use super::parted::Parted;
use super::system::System;
use super::{
    CENTRED, CONTENT, DONE, LIMIT, LONGEST, Parts, SHORTEST, STEP, add, brought_inside, failed,
    product,
};
use crate::{Program, Solution, SolveError, Solver};

/// Interior-point method for programs with [logarithms](Program::log), with linear algebra by parts.
///
/// It is an infeasible primal-dual method with Mehrotra's predictor and corrector (Nocedal and
/// Wright, "Numerical Optimization", 2006, section 16.6, for a separable concave objective). It also
/// solves linear programs, but cannot show that a program has no solution: it then reaches its limit
/// or gets no further. [`SelfDual`](crate::SelfDual) shows this.
///
/// It supports rows with `<=` and `>=`. It does not support whole numbers or equations. A program
/// with logarithms has no [copies](Parts::copies).
///
/// ```
/// use blox_solve::{Interior, Program, Solver};
/// // Two users of 1 unit; the second one needs twice as much for the same level.
/// let mut p = Program::maximise();
/// let [a, b] = [0.0; 2].map(|weight| p.real(weight, 0.0, f64::INFINITY));
/// p.log(a, 1.0);
/// p.log(b, 1.0);
/// p.at_most(&[(a, 1.0), (b, 2.0)], 1.0);
/// let best = Interior.solve(&p)?;
/// assert!((best[a] - 0.5).abs() < 1e-6 && (best[b] - 0.25).abs() < 1e-6);
/// # Ok::<(), blox_solve::SolveError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interior;

impl Solver for Interior {
    fn solve(&self, program: &Program) -> Result<Solution, SolveError> {
        self.solve_in_parts(program, &Parts::bounded(program))
    }
}

impl Interior {
    /// Solves a program in parts, as [`Solver::solve`] does.
    ///
    /// # Errors
    /// Returns the solver's errors.
    pub fn solve_in_parts(&self, program: &Program, parts: &Parts) -> Result<Solution, SolveError> {
        Parted::of(program, parts)?.solve(program, |parted| Path::of(parted).run())
    }
}

/// State of the method: variables, slacks and prices of the rows.
struct Path<'a> {
    program: &'a Parted,
    x: Vec<f64>,
    s: Vec<f64>,
    z: Vec<f64>,
}

/// Residuals of prices and rows, distance from the central path, and the largest relative error.
struct Off {
    x: Vec<f64>,
    z: Vec<f64>,
    mu: f64,
    error: f64,
}

impl<'a> Path<'a> {
    fn of(program: &'a Parted) -> Self {
        Path {
            program,
            x: Vec::new(),
            s: Vec::new(),
            z: Vec::new(),
        }
    }

    /// Runs the method and returns the variables of a solution.
    fn run(mut self) -> Result<Vec<f64>, SolveError> {
        let p = self.program;
        let mut system = System::of(p);
        system.factor(vec![1.0; p.bound.len()])?;
        let (x, z) = system.solve(&vec![0.0; p.cost.len()], &p.bound);
        let logs = x.iter().zip(&p.logs);
        self.x = logs
            .map(|(x, log)| if *log > 0.0 { x.max(1.0) } else { *x })
            .collect();
        self.s = brought_inside(z.iter().map(|z| -z).collect());
        let minus_slope: Vec<f64> = self.slope().iter().map(|c| -c).collect();
        let (_, z) = system.solve(&minus_slope, &vec![0.0; p.bound.len()]);
        self.z = brought_inside(z);
        let mut best = (f64::INFINITY, Vec::new());
        let mut why = Err(SolveError::Limit {
            limit: LIMIT as u64,
            unit: "iterations",
        });
        for _ in 0..LIMIT {
            let off = self.off();
            if off.error < DONE {
                return Ok(self.x);
            }
            if off.error < best.0 {
                best = (off.error, self.x.clone());
            }
            match self.step(&mut system, &off) {
                Ok(step) if step > SHORTEST => {}
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

    /// Returns the gradient of the minimised objective.
    fn slope(&self) -> Vec<f64> {
        let p = self.program;
        let each = self.x.iter().zip(p.cost.iter().zip(&p.logs));
        each.map(|(x, (cost, log))| if *log > 0.0 { cost - log / x } else { *cost })
            .collect()
    }

    fn off(&self) -> Off {
        let p = self.program;
        let mut x = p.transposed(&self.z);
        add(&mut x, 1.0, &self.slope());
        let mut z = p.times(&self.x);
        add(&mut z, 1.0, &self.s);
        add(&mut z, -1.0, &p.bound);
        let gap = p.dot_z(&self.s, &self.z);
        let logs = self.x.iter().zip(&p.logs).filter(|(_, log)| **log > 0.0);
        let objective = p.dot_x(&p.cost, &self.x) - logs.map(|(x, w)| w * x.ln()).sum::<f64>();
        let [nx, ns, nz] = [p.norm_x(&self.x), p.norm_z(&self.s), p.norm_z(&self.z)];
        let of_rows = p.norm_z(&z) / (p.bound_norm.max(1.0) + nx + ns);
        let of_prices = p.norm_x(&x) / (p.cost_norm.max(1.0) + nz);
        Off {
            x,
            z,
            mu: gap / p.row_copies.iter().sum::<f64>().max(1.0),
            error: of_rows.max(of_prices).max(gap / objective.abs().max(1.0)),
        }
    }

    /// Takes one step and returns its length.
    fn step(&mut self, system: &mut System<'_>, off: &Off) -> Result<f64, SolveError> {
        let p = self.program;
        let pairs = self.s.iter().zip(&self.z);
        let scaling: Vec<f64> = pairs.map(|(s, z)| (s / z).sqrt()).collect();
        let curvature = self.x.iter().zip(&p.logs);
        system.bend(
            curvature
                .map(|(x, log)| if *log > 0.0 { log / (x * x) } else { 0.0 })
                .collect(),
        );
        system.factor(scaling.clone())?;
        let wanted_x: Vec<f64> = off.x.iter().map(|x| -x).collect();
        let square = product(&scaling, &scaling);
        // With a pull of `e`: `s + ds + W^2 dz = e`, and `G dx + ds` closes the rows.
        let direction = |pull: &[f64]| {
            let mut wanted: Vec<f64> = self.s.iter().zip(&off.z).map(|(s, r)| s - r).collect();
            add(&mut wanted, -1.0, pull);
            let (x, z) = system.solve(&wanted_x, &wanted);
            let slacks = self.s.iter().zip(pull).zip(square.iter().zip(&z));
            let s: Vec<f64> = slacks.map(|((s, e), (w, z))| e - s - w * z).collect();
            (x, s, z)
        };

        // Predictor: the direction straight to the solution.
        let (x, s, z) = direction(&vec![0.0; self.s.len()]);
        let reach = self.reach(&x, &s, &z);
        let ahead = |from: &[f64], way: &[f64]| {
            let mut to = from.to_vec();
            add(&mut to, reach, way);
            to
        };
        let rows = p.row_copies.iter().sum::<f64>().max(1.0);
        let mu = p.dot_z(&ahead(&self.s, &s), &ahead(&self.z, &z)) / rows;
        let centred = (mu / off.mu).powi(3).clamp(CENTRED.0, CENTRED.1);

        // Corrector: towards the central path, with the curvature of the predictor.
        let bent = product(&s, &z);
        let pull = bent.iter().zip(&self.z);
        let pull: Vec<f64> = pull.map(|(b, z)| (centred * off.mu - b) / z).collect();
        let (x, s, z) = direction(&pull);
        let step = self.reach(&x, &s, &z) * STEP;
        add(&mut self.x, step, &x);
        add(&mut self.s, step, &s);
        add(&mut self.z, step, &z);
        Ok(step)
    }

    /// Returns the largest step that keeps slacks, prices and variables of logarithms positive.
    fn reach(&self, x: &[f64], s: &[f64], z: &[f64]) -> f64 {
        let logs = self.x.iter().zip(x).zip(&self.program.logs);
        let logs = logs.filter(|(_, log)| **log > 0.0).map(|(pair, _)| pair);
        let rows = self.s.iter().zip(s).chain(self.z.iter().zip(z));
        let fastest = rows
            .chain(logs)
            .fold(0.0_f64, |f, (at, way)| f.max(-way / at));
        (1.0 / fastest).min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SelfDual;

    #[test]
    fn product_of_levels_is_largest_split_by_weight() {
        // The most of 3 ln a + ln b with 2 a + 5 b <= 8: 2 a is 6, 5 b is 2.
        let mut p = Program::maximise();
        let [a, b] = [0.0; 2].map(|weight| p.real(weight, 0.0, f64::INFINITY));
        p.log(a, 3.0);
        p.log(b, 1.0);
        p.at_most(&[(a, 2.0), (b, 5.0)], 8.0);
        let s = Interior.solve(&p).unwrap();
        assert!(
            (s[a] - 3.0).abs() < 1e-6 && (s[b] - 0.4).abs() < 1e-6,
            "{s:?}"
        );
        assert!((s.objective - (3.0 * 3.0_f64.ln() + 0.4_f64.ln())).abs() < 1e-6);
        // The bound of a leaves the rest to b.
        p.at_most(&[(a, 1.0)], 1.0);
        let s = Interior.solve(&p).unwrap();
        assert!(
            (s[a] - 1.0).abs() < 1e-6 && (s[b] - 1.2).abs() < 1e-6,
            "{s:?}"
        );
        assert!(matches!(
            SelfDual.solve(&p),
            Err(SolveError::Unsuited { .. })
        ));
    }

    #[test]
    fn cost_and_logarithm_balance() {
        // The least 2 x - 3 ln x - ln y with y <= 5: x is 1.5.
        let mut p = Program::minimise();
        let x = p.real(2.0, 0.0, f64::INFINITY);
        let y = p.real(0.0, 0.0, 5.0);
        p.log(x, 3.0);
        p.log(y, 1.0);
        let s = Interior.solve(&p).unwrap();
        assert!(
            (s[x] - 1.5).abs() < 1e-6 && (s[y] - 5.0).abs() < 1e-5,
            "{s:?}"
        );
        assert!((s.objective - (3.0 - 3.0 * 1.5_f64.ln() - 5.0_f64.ln())).abs() < 1e-6);
    }

    #[test]
    fn linear_program_optimum_equals_the_self_dual_method() {
        let (p, parts, _, least) = super::super::tests::users(&super::super::tests::KINDS, false);
        let [one, other] = [
            Interior.solve_in_parts(&p, &parts).unwrap(),
            SelfDual.solve_in_parts(&p, &parts).unwrap(),
        ];
        assert!((one[least] - other[least]).abs() < 1e-7);
    }

    #[test]
    fn program_without_a_solution_is_an_error() {
        let mut p = Program::minimise();
        let x = p.real(1.0, 0.0, 9.0);
        p.at_least(&[(x, 1.0)], 10.0);
        assert!(matches!(
            Interior.solve(&p),
            Err(SolveError::Limit { .. } | SolveError::Failed { .. })
        ));
    }
}
