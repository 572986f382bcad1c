//! The line search of Moré and Thuente (ACM Trans. Math. Softw. 20, 1994).

/// Required decrease and required slope, as fractions of the first slope.
const DECREASE: f64 = 1e-3;
const CURVATURE: f64 = 0.9;
/// Relative width of the bracket, as a fraction of its upper end, at which the search stops.
const WIDTH: f64 = 0.1;

/// The next step of the line search.
pub(super) enum Advice {
    /// The last step is good, or no better one will be found.
    Stop,
    /// Try this step.
    Try(f64),
}

/// A step with the value and the slope there.
#[derive(Clone, Copy)]
struct Point {
    step: f64,
    value: f64,
    slope: f64,
}

impl Point {
    /// Subtracts a line of this slope through the origin.
    fn below(self, slope: f64) -> Point {
        Point {
            step: self.step,
            value: self.value - self.step * slope,
            slope: self.slope - slope,
        }
    }
}

pub(super) struct LineSearch {
    first: Point,
    /// The best point so far, and the other end of the bracket.
    best: Point,
    other: Point,
    bracketed: bool,
    /// True once a point was low enough and had a rising slope.
    second_stage: bool,
    step: f64,
    least: f64,
    most: f64,
    longest: f64,
    width: f64,
    width_before: f64,
}

impl LineSearch {
    /// Returns `None` if the direction does not descend, or if the first step is too long.
    pub(super) fn new(step: f64, longest: f64, value: f64, slope: f64) -> Option<Self> {
        if slope.is_nan() || slope >= 0.0 || !(0.0..=longest).contains(&step) {
            return None;
        }
        let first = Point {
            step: 0.0,
            value,
            slope,
        };
        Some(LineSearch {
            first,
            best: first,
            other: first,
            bracketed: false,
            second_stage: false,
            step,
            least: 0.0,
            most: 5.0 * step,
            longest,
            width: longest,
            width_before: 2.0 * longest,
        })
    }

    pub(super) fn step(&self) -> f64 {
        self.step
    }

    /// Returns the next step, given the value and the slope at the last step.
    pub(super) fn advise(&mut self, value: f64, slope: f64) -> Advice {
        let tried = Point {
            step: self.step,
            value,
            slope,
        };
        let wanted = DECREASE * self.first.slope;
        let low_enough = self.first.value + self.step * wanted;
        if !self.second_stage && value <= low_enough && slope >= 0.0 {
            self.second_stage = true;
        }
        let outside = self.step <= self.least || self.step >= self.most;
        let narrow = self.most - self.least <= WIDTH * self.most;
        let stuck = self.bracketed && (outside || narrow);
        let at_longest = self.step == self.longest && value <= low_enough && slope <= wanted;
        let at_zero = self.step == 0.0 && (value > low_enough || slope >= wanted);
        let good = value <= low_enough && slope.abs() <= CURVATURE * -self.first.slope;
        if stuck || at_longest || at_zero || good {
            return Advice::Stop;
        }
        if !self.second_stage && value <= self.best.value && value > low_enough {
            // At first, the search is for the decrease itself.
            let (mut best, mut other) = (self.best.below(wanted), self.other.below(wanted));
            self.shrink(&mut best, &mut other, tried.below(wanted));
            (self.best, self.other) = (best.below(-wanted), other.below(-wanted));
        } else {
            let (mut best, mut other) = (self.best, self.other);
            self.shrink(&mut best, &mut other, tried);
            (self.best, self.other) = (best, other);
        }
        let (a, b) = (self.best.step, self.other.step);
        if self.bracketed {
            if (b - a).abs() >= 0.66 * self.width_before {
                self.step = a + 0.5 * (b - a);
            }
            self.width_before = self.width;
            self.width = (b - a).abs();
            (self.least, self.most) = (a.min(b), a.max(b));
        } else {
            self.least = self.step + 1.1 * (self.step - a);
            self.most = self.step + 4.0 * (self.step - a);
        }
        self.step = self.step.max(0.0).min(self.longest);
        let outside = self.step <= self.least || self.step >= self.most;
        let narrow = self.most - self.least <= WIDTH * self.most;
        if self.bracketed && (outside || narrow) {
            self.step = a;
        }
        Advice::Try(self.step)
    }

    /// Moves the bracket to the tried point and sets the next step.
    fn shrink(&mut self, best: &mut Point, other: &mut Point, tried: Point) {
        let (x, p) = (*best, tried);
        let turned = p.slope * (x.slope / x.slope.abs()) < 0.0;
        let secant = || p.step + p.slope / (p.slope - x.slope) * (x.step - p.step);
        let next = if p.value > x.value {
            let cubic = Cubic::of(x, p);
            let gamma = if p.step < x.step {
                -cubic.gamma(false)
            } else {
                cubic.gamma(false)
            };
            let up = (gamma - x.slope) + cubic.theta;
            let down = ((gamma - x.slope) + gamma) + p.slope;
            let by_cubic = x.step + up / down * (p.step - x.step);
            let chord = (x.value - p.value) / (p.step - x.step) + x.slope;
            let by_square = x.step + x.slope / chord / 2.0 * (p.step - x.step);
            self.bracketed = true;
            if (by_cubic - x.step).abs() < (by_square - x.step).abs() {
                by_cubic
            } else {
                by_cubic + (by_square - by_cubic) / 2.0
            }
        } else if turned {
            let cubic = Cubic::of(x, p);
            let gamma = if p.step > x.step {
                -cubic.gamma(false)
            } else {
                cubic.gamma(false)
            };
            let up = (gamma - p.slope) + cubic.theta;
            let down = ((gamma - p.slope) + gamma) + x.slope;
            let by_cubic = p.step + up / down * (x.step - p.step);
            self.bracketed = true;
            if (by_cubic - p.step).abs() > (secant() - p.step).abs() {
                by_cubic
            } else {
                secant()
            }
        } else if p.slope.abs() < x.slope.abs() {
            let cubic = Cubic::of(x, p);
            let gamma = if p.step > x.step {
                -cubic.gamma(true)
            } else {
                cubic.gamma(true)
            };
            let up = (gamma - p.slope) + cubic.theta;
            let down = (gamma + (x.slope - p.slope)) + gamma;
            let ratio = up / down;
            let by_cubic = if ratio < 0.0 && gamma != 0.0 {
                p.step + ratio * (x.step - p.step)
            } else if p.step > x.step {
                self.most
            } else {
                self.least
            };
            let nearer = (by_cubic - p.step).abs() < (secant() - p.step).abs();
            if self.bracketed {
                let next = if nearer { by_cubic } else { secant() };
                let limit = p.step + 0.66 * (other.step - p.step);
                if p.step > x.step {
                    limit.min(next)
                } else {
                    limit.max(next)
                }
            } else {
                let farther = (by_cubic - p.step).abs() > (secant() - p.step).abs();
                let next = if farther { by_cubic } else { secant() };
                self.most.min(next).max(self.least)
            }
        } else if self.bracketed {
            let y = *other;
            let cubic = Cubic::of(p, y);
            let gamma = if p.step > y.step {
                -cubic.gamma(false)
            } else {
                cubic.gamma(false)
            };
            let up = (gamma - p.slope) + cubic.theta;
            let down = ((gamma - p.slope) + gamma) + y.slope;
            p.step + up / down * (y.step - p.step)
        } else if p.step > x.step {
            self.most
        } else {
            self.least
        };
        if p.value > x.value {
            *other = p;
        } else {
            if turned {
                *other = x;
            }
            *best = p;
        }
        self.step = next;
    }
}

/// The cubic through two points with their slopes.
struct Cubic {
    theta: f64,
    scale: f64,
    slopes: (f64, f64),
}

impl Cubic {
    fn of(from: Point, to: Point) -> Self {
        let theta = 3.0 * (from.value - to.value) / (to.step - from.step) + from.slope + to.slope;
        Cubic {
            theta,
            scale: theta.abs().max(from.slope.abs()).max(to.slope.abs()),
            slopes: (from.slope, to.slope),
        }
    }

    fn gamma(&self, clipped: bool) -> f64 {
        let (s, (a, b)) = (self.scale, self.slopes);
        let square = (self.theta / s) * (self.theta / s) - (a / s) * (b / s);
        s * if clipped { square.max(0.0) } else { square }.sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shrink_steeper_slope_takes_the_cubic_minimum() {
        let mut search = LineSearch::new(1.0, 10.0, 0.0, -1.0).unwrap();
        search.bracketed = true;
        // Two points of `t^3 / 3 + t^2 - 8 t`, which has its minimum at 2.
        let tried = Point {
            step: 1.0,
            value: 1.0 / 3.0 - 7.0,
            slope: -5.0,
        };
        let mut other = Point {
            step: 3.0,
            value: -6.0,
            slope: 7.0,
        };
        let mut best = search.best;
        search.shrink(&mut best, &mut other, tried);
        assert!((search.step - 2.0).abs() < 1e-12, "{}", search.step);
        assert_eq!((best.step, other.step), (1.0, 3.0));
    }
}
