//! Finding the parameters of a step's duration from observed steps.

use super::lbfgsb::{Bounds, Settings, minimise};
use super::{NOTHING, ThroughputParams};
use serde::{Deserialize, Serialize};

/// How long a step took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepTime {
    /// Nodes that the GPUs lay on, at least 1.
    pub nodes: u32,
    /// GPUs, at least 1.
    pub gpus: u32,
    /// Samples of a pass on each GPU, at least 1.
    pub per_gpu: u32,
    /// Seconds of a pass alone, above 0.
    pub compute: f64,
    /// Seconds of a step of one pass with its exchange of gradients, above 0.
    pub step: f64,
}

/// Parameters and how far they are from what was observed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// The parameters.
    pub params: ThroughputParams,
    /// The objective there: root mean square errors of the logarithms of both
    /// durations, and what keeps parameters that nothing determines small.
    pub objective: f64,
}

/// Parameters that fit the observations; `None` without any, or with a duration that is not above 0.
///
/// Minimises what AdaptDL (the system of Pollux, OSDI 2021) does, from the same start:
/// the root mean square error of the logarithm of pass durations, that of step durations, `1e-3
/// (gamma - 1)²` and `1e-2 ((beta_n/alpha_n)² + (beta_r/alpha_r)²)`. What the observations do not
/// reach is pinned: with one batch size alone half of a pass is constant; an exchange that was never
/// seen takes nothing, one between nodes at least 1.1 times one within.
pub fn fit(observed: &[StepTime]) -> Option<ThroughputParams> {
    fit_from(observed, &Settings::default()).map(|f| f.params)
}

/// [`fit`] with other settings of the minimisation.
pub fn fit_from(observed: &[StepTime], settings: &Settings) -> Option<Fit> {
    let positive = |x: f64| x > 0.0 && x.is_finite();
    if observed.is_empty()
        || !observed
            .iter()
            .all(|o| positive(o.compute) && positive(o.step))
    {
        return None;
    }
    let mut start = [0.1, 0.01, 0.1, 0.01, 0.1, 0.01, 1.001];
    let mut low = [NOTHING; 7];
    let mut high = [f64::INFINITY; 7];
    (low[6], high[6]) = (1.0, 10.0);
    let mut pin = |i: usize, value: f64| {
        (start[i], low[i], high[i]) = (value, value, value);
    };
    if observed.iter().all(|o| o.per_gpu == observed[0].per_gpu) {
        let sum: f64 = observed.iter().map(|o| o.compute).sum();
        pin(0, sum / observed.len() as f64 / 2.0);
    }
    let between = observed.iter().any(|o| o.nodes > 1);
    if !between {
        pin(2, NOTHING);
        pin(3, NOTHING);
    }
    if !observed.iter().any(|o| o.nodes == 1 && o.gpus > 1) {
        pin(4, NOTHING);
        pin(5, NOTHING);
    }
    if !observed.iter().any(|o| o.gpus > 2) {
        pin(3, NOTHING);
        pin(5, NOTHING);
    }
    let objective = Objective::of(observed);
    let found = minimise(|x| objective.at(x), start, &Bounds { low, high }, settings);
    let mut p = found.at;
    if !between {
        p[2] = p[2].max(p[4] * 1.1);
        p[3] = p[3].max(p[5] * 1.1);
    }
    Some(Fit {
        params: ThroughputParams::from_array(p),
        objective: found.value,
    })
}

/// How far parameters are from what was observed: what [`fit`] minimises.
pub fn objective_of(observed: &[StepTime], params: &ThroughputParams) -> f64 {
    Objective::of(observed).at(&params.to_array()).0
}

struct Objective<'a> {
    observed: &'a [StepTime],
    /// Logarithms of pass and step.
    logs: Vec<(f64, f64)>,
}

impl<'a> Objective<'a> {
    fn of(observed: &'a [StepTime]) -> Self {
        let logs = observed
            .iter()
            .map(|o| (libm::log(o.compute), libm::log(o.step)));
        Objective {
            observed,
            logs: logs.collect(),
        }
    }

    /// The value and the gradient.
    fn at(&self, x: &[f64; 7]) -> (f64, [f64; 7]) {
        let p = ThroughputParams::from_array(*x);
        let (mut passes, mut steps) = (Rmse::default(), Rmse::default());
        for (o, (log_pass, log_step)) in self.observed.iter().zip(&self.logs) {
            let samples = f64::from(o.per_gpu);
            let pass = p.pass(samples);
            let ln_pass = libm::log(pass);
            passes.add(ln_pass - log_pass, |d| {
                d[0] = 1.0 / pass;
                d[1] = samples / pass;
            });
            let exchange = p.exchange(o.nodes, o.gpus);
            let (a, b) = (libm::pow(pass, p.gamma), libm::pow(exchange, p.gamma));
            let sum = a + b;
            let log = libm::log(sum) / p.gamma;
            steps.add(log - log_step, |d| {
                let by_pass = a / pass / sum;
                d[0] = by_pass;
                d[1] = samples * by_pass;
                let i = match (o.nodes > 1, o.gpus > 1) {
                    (true, _) => Some(2),
                    (false, true) => Some(4),
                    (false, false) => None,
                };
                if let Some(i) = i {
                    let by_exchange = b / exchange / sum;
                    d[i] = by_exchange;
                    d[i + 1] = by_exchange * (f64::from(o.gpus) - 2.0).max(NOTHING);
                }
                let moved = a * ln_pass + b * libm::log(exchange);
                d[6] = (moved / sum - log) / p.gamma;
            });
        }
        let mut gradient = [0.0; 7];
        let mut value = passes.finish(&mut gradient) + steps.finish(&mut gradient);
        value += 1e-3 * (p.gamma - 1.0) * (p.gamma - 1.0);
        gradient[6] += 2e-3 * (p.gamma - 1.0);
        for i in [2, 4] {
            let (alpha, beta) = (x[i], x[i + 1]);
            let ratio = beta / alpha;
            value += 1e-2 * (ratio * ratio);
            gradient[i + 1] += 2e-2 * ratio / alpha;
            gradient[i] -= 2e-2 * ratio * ratio / alpha;
        }
        (value, gradient)
    }
}

/// A root mean square error and its gradient, in the making.
#[derive(Default)]
struct Rmse {
    squares: f64,
    products: [f64; 7],
    count: f64,
}

impl Rmse {
    fn add(&mut self, error: f64, derivatives: impl FnOnce(&mut [f64; 7])) {
        let mut d = [0.0; 7];
        derivatives(&mut d);
        self.squares += error * error;
        for (product, d) in self.products.iter_mut().zip(d) {
            *product += error * d;
        }
        self.count += 1.0;
    }

    fn finish(&self, gradient: &mut [f64; 7]) -> f64 {
        let root = (self.squares / self.count).sqrt();
        if root > 0.0 {
            for (g, product) in gradient.iter_mut().zip(self.products) {
                *g += product / self.count / root;
            }
        }
        root
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(points: &[(u32, u32, u32, f64, f64)]) -> Vec<StepTime> {
        let one = |&(nodes, gpus, per_gpu, compute, step): &_| StepTime {
            nodes,
            gpus,
            per_gpu,
            compute,
            step,
        };
        points.iter().map(one).collect()
    }

    #[test]
    fn the_gradient_is_that_of_the_value() {
        let points = seen(&[
            (1, 1, 32, 0.10, 0.11),
            (1, 4, 64, 0.19, 0.22),
            (2, 8, 48, 0.15, 0.31),
        ]);
        let objective = Objective::of(&points);
        let x = [0.05, 0.002, 0.1, 0.004, 0.03, 0.002, 1.7];
        let (_, gradient) = objective.at(&x);
        for i in 0..7 {
            let h = 1e-6 * x[i];
            let (mut up, mut down) = (x, x);
            up[i] += h;
            down[i] -= h;
            let slope = (objective.at(&up).0 - objective.at(&down).0) / (2.0 * h);
            assert!(
                (slope - gradient[i]).abs() < 1e-5 * gradient[i].abs().max(1.0),
                "{i}: {slope} {}",
                gradient[i]
            );
        }
    }

    #[test]
    fn one_observation_pins_what_it_does_not_show() {
        let p = fit(&seen(&[(1, 1, 20, 0.5, 0.5)])).unwrap();
        assert_eq!(p.alpha_c, 0.25);
        assert!((p.beta_c - 0.0125).abs() < 5e-4, "{p:?}");
        assert_eq!(p.alpha_n, 1e-8 * 1.1);
        assert_eq!((p.alpha_r, p.beta_r), (1e-8, 1e-8));
    }

    #[test]
    fn a_model_is_found_again_from_its_own_steps() {
        let truth = ThroughputParams {
            alpha_c: 0.08,
            beta_c: 0.003,
            alpha_n: 0.12,
            beta_n: 0.001,
            alpha_r: 0.04,
            beta_r: 0.0005,
            gamma: 1.5,
        };
        let mut points = Vec::new();
        for (nodes, gpus) in [(1, 1), (1, 2), (1, 4), (2, 8), (4, 16)] {
            for per_gpu in [8, 32, 128] {
                points.push((
                    nodes,
                    gpus,
                    per_gpu,
                    truth.pass(f64::from(per_gpu)),
                    truth.step(nodes, gpus, f64::from(per_gpu), 0),
                ));
            }
        }
        let precise = Settings {
            value_tolerance: 1e-12,
            gradient_tolerance: 1e-9,
            ..Settings::default()
        };
        let found = fit_from(&seen(&points), &precise).unwrap().params;
        for (nodes, gpus) in [(1, 3), (2, 6), (3, 12)] {
            let (a, b) = (
                truth.throughput(nodes, gpus, 64, 0),
                found.throughput(nodes, gpus, 64, 0),
            );
            assert!((a / b - 1.0).abs() < 0.05, "{a} {b} {found:?}");
        }
    }

    #[test]
    fn nothing_observed_is_no_fit() {
        assert_eq!(fit(&[]), None);
        assert_eq!(fit(&seen(&[(1, 1, 20, 0.0, 0.5)])), None);
    }
}
