//! Minimises a smooth function within bounds by the limited-memory quasi-Newton method L-BFGS-B of
//! Byrd, Lu, Nocedal and Zhu (SIAM J. Sci. Comput. 16, 1995). It uses the subspace projection of
//! version 3.0 (Morales and Nocedal, 2011) and the line search of Moré and Thuente. Steps and
//! stopping rules equal those of the published program: a fit may stop early, so the stopping point
//! is part of its result.

mod line_search;
#[allow(
    clippy::needless_range_loop,
    reason = "rows and columns of several matrices at once"
)]
mod memory;

use line_search::{Advice, LineSearch};
use memory::Memory;

/// Bounds of each variable; infinite for an unbounded variable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds<const N: usize> {
    /// Smallest values.
    pub low: [f64; N],
    /// Largest values. A variable is fixed if both its values are equal.
    pub high: [f64; N],
}

impl<const N: usize> Bounds<N> {
    fn clip(&self, mut x: [f64; N]) -> [f64; N] {
        for (x, (low, high)) in x.iter_mut().zip(self.low.iter().zip(&self.high)) {
            *x = x.max(*low).min(*high);
        }
        x
    }
}

/// Stopping rules.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Stops if an iteration lowers the value by less than this fraction of the value (of 1, if the
    /// value is below 1).
    pub value_tolerance: f64,
    /// Stops if no component of the projected gradient is above this value.
    pub gradient_tolerance: f64,
    /// Maximum number of iterations.
    pub max_iterations: u32,
}

impl Default for Settings {
    /// Both tolerances `1e-5`, as AdaptDL's fit.
    fn default() -> Self {
        Settings {
            value_tolerance: 1e-5,
            gradient_tolerance: 1e-5,
            max_iterations: 15_000,
        }
    }
}

/// Result of a minimisation.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Minimum<const N: usize> {
    /// The variables at the minimum.
    pub at: [f64; N],
    /// The value there.
    pub value: f64,
    /// Number of iterations.
    pub iterations: u32,
}

/// Maximum number of trials of a line search.
const TRIALS: u32 = 20;

/// Minimises `f` from `start` within bounds. `f` returns the value and the gradient.
pub fn minimise<const N: usize>(
    f: impl Fn(&[f64; N]) -> (f64, [f64; N]),
    start: [f64; N],
    bounds: &Bounds<N>,
    settings: &Settings,
) -> Minimum<N> {
    let f = |x: &[f64; N]| f(&bounds.clip(*x));
    let mut x = bounds.clip(start);
    let (mut value, mut gradient) = f(&x);
    let mut memory = Memory::<N>::new();
    let mut iterations = 0;
    let mut steepest = projected(&x, &gradient, bounds);
    while steepest > settings.gradient_tolerance && iterations < settings.max_iterations {
        let Some(target) = memory.target(&x, &gradient, bounds) else {
            // Rounding errors have spoilt the memory.
            if memory.is_empty() {
                break;
            }
            memory.clear();
            continue;
        };
        let mut direction = [0.0; N];
        for i in 0..N {
            direction[i] = target[i] - x[i];
        }
        let square = dot(&direction, &direction);
        let longest = longest_step(&x, &direction, bounds, iterations == 0);
        let first = if iterations == 0 {
            (1.0 / square.sqrt()).min(longest)
        } else {
            1.0
        };
        let slope = dot(&gradient, &direction);
        let search = LineSearch::new(first, longest, value, slope);
        let found = search.and_then(|s| follow(&f, &x, &direction, &target, s));
        let Some(found) = found else {
            if memory.is_empty() {
                break;
            }
            memory.clear();
            continue;
        };
        iterations += 1;
        let before = (value, gradient, x);
        (x, value, gradient) = (found.x, found.value, found.gradient);
        steepest = projected(&x, &gradient, bounds);
        if steepest.is_nan() {
            break;
        }
        let largest = before.0.abs().max(value.abs()).max(1.0);
        if before.0 - value <= settings.value_tolerance * largest {
            break;
        }
        let mut change = [0.0; N];
        for i in 0..N {
            change[i] = gradient[i] - before.1[i];
        }
        let (mut product, mut least) = (found.slope - slope, -slope);
        if found.step != 1.0 {
            product *= found.step;
            least *= found.step;
            for d in &mut direction {
                *d *= found.step;
            }
        }
        if product > f64::EPSILON * least {
            let square = if found.step == 1.0 {
                square
            } else {
                found.step * found.step * square
            };
            if !memory.update(direction, change, product, square) {
                memory.clear();
            }
        } else {
            memory.pass_over();
        }
    }
    Minimum {
        at: x,
        value,
        iterations,
    }
}

/// Result of a line search.
struct Found<const N: usize> {
    x: [f64; N],
    value: f64,
    gradient: [f64; N],
    step: f64,
    slope: f64,
}

/// Runs a line search. Returns `None` if no point was good enough.
fn follow<const N: usize>(
    f: &impl Fn(&[f64; N]) -> (f64, [f64; N]),
    from: &[f64; N],
    direction: &[f64; N],
    target: &[f64; N],
    mut search: LineSearch,
) -> Option<Found<N>> {
    let mut step = search.step();
    for _ in 0..TRIALS {
        let mut x = *target;
        if step != 1.0 {
            for i in 0..N {
                x[i] = step * direction[i] + from[i];
            }
        }
        let (value, gradient) = f(&x);
        let slope = dot(&gradient, direction);
        match search.advise(value, slope) {
            Advice::Stop => {
                return Some(Found {
                    x,
                    value,
                    gradient,
                    step,
                    slope,
                });
            }
            Advice::Try(next) => step = next,
        }
    }
    None
}

/// Returns the longest step before the first bound.
fn longest_step<const N: usize>(
    x: &[f64; N],
    direction: &[f64; N],
    bounds: &Bounds<N>,
    first: bool,
) -> f64 {
    if first {
        return 1.0;
    }
    let mut longest = 1e10;
    for i in 0..N {
        let d = direction[i];
        let room = if d < 0.0 && bounds.low[i].is_finite() {
            bounds.low[i] - x[i]
        } else if d > 0.0 && bounds.high[i].is_finite() {
            bounds.high[i] - x[i]
        } else {
            continue;
        };
        if room * d <= 0.0 {
            longest = 0.0;
        } else if (d * longest).abs() > room.abs() {
            longest = room / d;
        }
    }
    longest
}

/// Returns the largest component of the gradient, projected to the bounds.
fn projected<const N: usize>(x: &[f64; N], gradient: &[f64; N], bounds: &Bounds<N>) -> f64 {
    let mut greatest = 0.0;
    for i in 0..N {
        let g = gradient[i];
        if g.is_nan() {
            return g;
        }
        let g = if g < 0.0 {
            g.max(x[i] - bounds.high[i])
        } else {
            g.min(x[i] - bounds.low[i])
        };
        greatest = f64::max(greatest, g.abs());
    }
    greatest
}

fn dot<const N: usize>(a: &[f64; N], b: &[f64; N]) -> f64 {
    let mut sum = 0.0;
    for i in 0..N {
        sum += a[i] * b[i];
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: Bounds<2> = Bounds {
        low: [f64::NEG_INFINITY; 2],
        high: [f64::INFINITY; 2],
    };

    /// Rosenbrock's valley.
    fn valley(x: &[f64; 2]) -> (f64, [f64; 2]) {
        let (a, b) = (1.0 - x[0], x[1] - x[0] * x[0]);
        (
            a * a + 100.0 * b * b,
            [-2.0 * a - 400.0 * x[0] * b, 200.0 * b],
        )
    }

    fn precise() -> Settings {
        Settings {
            value_tolerance: 1e-15,
            gradient_tolerance: 1e-10,
            ..Settings::default()
        }
    }

    #[test]
    fn a_curved_valley_is_followed_to_its_end() {
        let m = minimise(valley, [-1.2, 1.0], &FREE, &precise());
        assert!((m.at[0] - 1.0).abs() < 1e-6 && (m.at[1] - 1.0).abs() < 1e-6);
        assert!(m.iterations < 60, "{m:?}");
    }

    #[test]
    fn bounds_hold_and_the_best_point_on_them_is_found() {
        let bounds = Bounds {
            low: [-2.0, -2.0],
            high: [0.5, 2.0],
        };
        let m = minimise(valley, [-1.2, 1.0], &bounds, &precise());
        assert_eq!(m.at[0], 0.5);
        assert!((m.at[1] - 0.25).abs() < 1e-6, "{m:?}");
    }

    #[test]
    fn a_fixed_variable_stays() {
        let bounds = Bounds {
            low: [0.3, f64::NEG_INFINITY],
            high: [0.3, f64::INFINITY],
        };
        let m = minimise(valley, [0.3, 5.0], &bounds, &precise());
        assert_eq!(m.at[0], 0.3);
        assert!((m.at[1] - 0.09).abs() < 1e-6, "{m:?}");
    }

    #[test]
    fn a_quadratic_of_many_variables_is_minimised() {
        let f = |x: &[f64; 25]| {
            let mut value = 0.0;
            let mut gradient = [0.0; 25];
            for i in 0..25 {
                let weight = 1.0 + i as f64;
                let away = x[i] - 1.0;
                value += weight * away * away;
                gradient[i] = 2.0 * weight * away;
            }
            (value, gradient)
        };
        let bounds = Bounds {
            low: [0.0; 25],
            high: [f64::INFINITY; 25],
        };
        let m = minimise(f, [10.0; 25], &bounds, &precise());
        assert!(m.value < 1e-12, "{m:?}");
    }
}
