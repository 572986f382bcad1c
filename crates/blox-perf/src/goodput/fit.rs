//! Fits the parameters of the step duration to observed steps.

use blox_core::ThroughputParams;
use blox_solve::lbfgsb::{Bounds, Settings, minimise};
use serde::{Deserialize, Serialize};

/// An observed duration of a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepTime {
    /// Number of nodes of the GPUs, at least 1.
    pub nodes: u32,
    /// Number of GPUs, at least 1.
    pub gpus: u32,
    /// Number of samples of a pass on each GPU, at least 1.
    pub per_gpu: u32,
    /// Seconds of a pass alone, above 0.
    pub compute: f64,
    /// Seconds of a step of one pass with its gradient exchange, above 0.
    pub step: f64,
}

/// Fitted parameters with the value of the objective.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Fit {
    /// The parameters.
    pub params: ThroughputParams,
    /// The objective at these parameters: root mean square errors of the logarithms of both
    /// durations, and penalties that keep undetermined parameters small.
    pub objective: f64,
}

/// Returns the parameters that fit the observations best. Returns `None` without observations, or
/// if a duration is not above 0.
///
/// Minimises the objective of AdaptDL (the system of Pollux, OSDI 2021) from the same start. Its
/// terms are the root mean square errors of the logarithms of pass and step durations,
/// `1e-3 (gamma - 1)²` and `1e-2 ((beta_n/alpha_n)² + (beta_r/alpha_r)²)`. Parameters that the
/// observations do not determine are fixed. With a single batch size, half of a pass is constant.
/// An exchange that was never observed takes no time, and an exchange between nodes takes at least
/// 1.1 times an exchange within a node.
pub fn fit(observed: &[StepTime]) -> Option<ThroughputParams> {
    fit_from(observed, &Settings::default()).map(|f| f.params)
}

/// Like [`fit`], with other settings of the minimisation.
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
    let mut low = [ThroughputParams::LEAST; 7];
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
        pin(2, ThroughputParams::LEAST);
        pin(3, ThroughputParams::LEAST);
    }
    if !observed.iter().any(|o| o.nodes == 1 && o.gpus > 1) {
        pin(4, ThroughputParams::LEAST);
        pin(5, ThroughputParams::LEAST);
    }
    if !observed.iter().any(|o| o.gpus > 2) {
        pin(3, ThroughputParams::LEAST);
        pin(5, ThroughputParams::LEAST);
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

/// Returns the objective that [`fit`] minimises: the distance of parameters from the observations.
pub fn objective_of(observed: &[StepTime], params: &ThroughputParams) -> f64 {
    Objective::of(observed).at(&params.to_array()).0
}

struct Objective<'a> {
    observed: &'a [StepTime],
    /// Logarithms of the pass and step durations.
    logs: Vec<(f64, f64)>,
    /// Index of the first observation with the same exchange: as many GPUs, and one node or
    /// several.
    alike: Vec<usize>,
}

impl<'a> Objective<'a> {
    fn of(observed: &'a [StepTime]) -> Self {
        let logs = observed
            .iter()
            .map(|o| (libm::log(o.compute), libm::log(o.step)));
        let lie = |o: &StepTime| (o.nodes > 1, o.gpus);
        let first = |o: &StepTime| observed.iter().position(|p| lie(p) == lie(o));
        Objective {
            observed,
            logs: logs.collect(),
            alike: observed.iter().filter_map(first).collect(),
        }
    }

    /// Returns the value and the gradient.
    ///
    /// The fit stops early, and for some profiles the last bits decide its result. Hence the
    /// operations are in the order of AdaptDL's automatic differentiation.
    fn at(&self, x: &[f64; 7]) -> (f64, [f64; 7]) {
        let p = ThroughputParams::from_array(*x);
        let n = self.observed.len();
        let count = n as f64;
        let mut points: Vec<Point> = Vec::with_capacity(n);
        for (i, (o, logs)) in self.observed.iter().zip(&self.logs).enumerate() {
            let exchange = match points.get(self.alike[i]) {
                Some(alike) => alike.exchange,
                None => Exchange::of(o, &p),
            };
            points.push(Point::of(o, *logs, exchange, &p));
        }
        let mean = |of: &dyn Fn(&Point) -> f64| {
            let errors = points.iter().map(|q| of(q) * of(q));
            pairwise(&errors.collect::<Vec<_>>()) / count
        };
        let squares = [mean(&|q| q.pass_error), mean(&|q| q.step_error)];
        let roots = squares.map(f64::sqrt);
        let gamma_less = p.gamma - 1.0;
        let ratios = [x[3] / x[2], x[5] / x[4]];
        let small = ratios[0] * ratios[0] + ratios[1] * ratios[1];
        let value = roots[0] + roots[1] + 1e-3 * (gamma_less * gamma_less) + 1e-2 * small;

        let mut gradient = [0.0; 7];
        for (i, ratio) in [(2, ratios[0]), (4, ratios[1])] {
            let (alpha, beta) = (x[i], x[i + 1]);
            let by_ratio = 1e-2 * 2.0 * ratio;
            gradient[i + 1] = by_ratio / alpha;
            gradient[i] = -by_ratio * beta / (alpha * alpha);
        }
        gradient[6] = 1e-3 * 2.0 * gamma_less;
        let each = squares.map(|square| match square > 0.0 {
            true => 0.5 * libm::pow(square, -0.5) / count,
            false => 0.0,
        });
        // Contribution of each observation to the slopes.
        let (mut by_gamma, mut by_net, mut by_power) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
        let (mut by_pass, mut by_samples) = (vec![0.0; n], vec![0.0; n]);
        for (i, (q, o)) in points.iter().zip(self.observed).enumerate().rev() {
            let by_step = each[1] * 2.0 * q.step_error;
            by_gamma[i] = -by_step * q.log_sum / (p.gamma * p.gamma);
            let by_sum = by_step / p.gamma / q.sum;
            by_net[i] = by_sum * q.exchange.log * q.exchange.power;
            by_power[i] = by_sum * q.log_pass * q.power;
            let less = p.gamma - 1.0;
            let by_exchange = by_sum * p.gamma * q.exchange.less;
            let which = match (o.nodes > 1, o.gpus > 1) {
                (true, _) => Some(2),
                (false, true) => Some(4),
                (false, false) => None,
            };
            if let Some(which) = which {
                gradient[which] += by_exchange;
                gradient[which + 1] +=
                    by_exchange * (f64::from(o.gpus) - 2.0).max(ThroughputParams::LEAST);
            }
            by_pass[i] =
                by_sum * p.gamma * libm::pow(q.pass, less) + each[0] * 2.0 * q.pass_error / q.pass;
            by_samples[i] = by_pass[i] * f64::from(o.per_gpu);
        }
        for of in [&by_gamma, &by_net, &by_power] {
            gradient[6] += pairwise(of);
        }
        gradient[0] = pairwise(&by_pass);
        gradient[1] = pairwise(&by_samples);
        (value, gradient)
    }
}

/// The predicted durations for an observation, with their errors.
struct Point {
    pass: f64,
    log_pass: f64,
    exchange: Exchange,
    /// The pass to the power of gamma; its sum with the power of the exchange; the sum's logarithm.
    power: f64,
    sum: f64,
    log_sum: f64,
    pass_error: f64,
    step_error: f64,
}

/// The predicted duration of an exchange.
#[derive(Clone, Copy)]
struct Exchange {
    log: f64,
    /// The duration to the power of gamma, and to the power of gamma minus one.
    power: f64,
    less: f64,
}

impl Exchange {
    fn of(o: &StepTime, p: &ThroughputParams) -> Self {
        let takes = p.exchange(o.nodes, o.gpus);
        Exchange {
            log: libm::log(takes),
            power: libm::pow(takes, p.gamma),
            less: libm::pow(takes, p.gamma - 1.0),
        }
    }
}

impl Point {
    fn of(
        o: &StepTime,
        (log_pass, log_step): (f64, f64),
        exchange: Exchange,
        p: &ThroughputParams,
    ) -> Self {
        let pass = p.pass(f64::from(o.per_gpu));
        let power = libm::pow(pass, p.gamma);
        let sum = power + exchange.power;
        let (ln_pass, log_sum) = (libm::log(pass), libm::log(sum));
        Point {
            pass,
            log_pass: ln_pass,
            exchange,
            power,
            sum,
            log_sum,
            pass_error: ln_pass - log_pass,
            step_error: log_sum / p.gamma - log_step,
        }
    }
}

/// Sums in the order in which NumPy adds.
fn pairwise(all: &[f64]) -> f64 {
    let n = all.len();
    if n > 128 {
        let half = n / 2 / 8 * 8;
        return pairwise(&all[..half]) + pairwise(&all[half..]);
    }
    if n < 8 {
        return all.iter().fold(0.0, |sum, x| sum + x);
    }
    let (whole, rest) = all.split_at(n / 8 * 8);
    let mut r = [0.0; 8];
    for (i, chunk) in whole.chunks(8).enumerate() {
        for (r, x) in r.iter_mut().zip(chunk) {
            *r = if i == 0 { *x } else { *r + x };
        }
    }
    let sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
    rest.iter().fold(sum, |sum, x| sum + x)
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
    fn gradient_equals_differences_of_the_value() {
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
    fn fit_one_node_exchange_between_nodes_is_slower() {
        let p = fit(&seen(&[
            (1, 1, 20, 0.5, 0.5),
            (1, 2, 20, 0.5, 0.6),
            (1, 4, 20, 0.5, 0.8),
        ]))
        .unwrap();
        assert!(p.alpha_r > 0.01 && p.beta_r > 0.01, "{p:?}");
        assert_eq!((p.alpha_n, p.beta_n), (p.alpha_r * 1.1, p.beta_r * 1.1));
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
