//! Distributions of the numbers of a job.

use blox_traces::generate::{Draws, pow10};
use serde::Deserialize;

/// A number, or a distribution of one.
///
/// ```
/// # use blox_claims::Law;
/// # fn of(text: &str) -> Law { toml::from_str::<std::collections::BTreeMap<String, Law>>(text).unwrap().remove("x").unwrap() }
/// use blox_traces::generate::Draws;
/// let mut draws = Draws::new(1, 0);
/// assert_eq!(of("x = 20").draw(&mut draws), 20.0);
/// let capped = of("x = { at-most = [3600, { log-normal = [600, 1.5] }] }");
/// assert!(capped.draw(&mut draws) <= 3600.0);
/// ```
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Law {
    /// Always this number.
    Fixed(f64),
    /// A random number.
    Drawn(Drawn),
}

/// A distribution of a random number.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Drawn {
    /// Uniform between two bounds.
    Uniform(f64, f64),
    /// The logarithm is uniform between two bounds above 0.
    LogUniform(f64, f64),
    /// Ten to the power of a uniform number.
    PowerOfTen(f64, f64),
    /// Log-normal with a median and the standard deviation of the logarithm.
    LogNormal(f64, f64),
    /// Exponential with a mean.
    Exponential(f64),
    /// One divided by a number.
    Inverse(Box<Law>),
    /// Product of two numbers.
    Times(Box<Law>, Box<Law>),
    /// Another number, limited to a largest one.
    AtMost(f64, Box<Law>),
    /// One of several distributions, each with its weight.
    Parts(Vec<(f64, Law)>),
}

impl Default for Law {
    fn default() -> Self {
        Law::Fixed(1.0)
    }
}

impl Law {
    /// Draws a number.
    pub fn draw(&self, draws: &mut Draws) -> f64 {
        let drawn = match self {
            Law::Fixed(value) => return *value,
            Law::Drawn(drawn) => drawn,
        };
        let mut between = |a: f64, b: f64| a + draws.unit() * (b - a);
        match drawn {
            Drawn::Uniform(least, most) => between(*least, *most),
            Drawn::LogUniform(least, most) => {
                libm::exp(between(libm::log(*least), libm::log(*most)))
            }
            Drawn::PowerOfTen(least, most) => pow10(between(*least, *most)),
            Drawn::LogNormal(median, sigma) => median * libm::exp(sigma * draws.normal()),
            Drawn::Exponential(mean) => mean * draws.exponential(),
            Drawn::Inverse(law) => 1.0 / law.draw(draws),
            Drawn::Times(a, b) => a.draw(draws) * b.draw(draws),
            Drawn::AtMost(most, law) => law.draw(draws).min(*most),
            Drawn::Parts(parts) => part(parts, draws).map_or(1.0, |law| law.draw(draws)),
        }
    }
}

/// Draws one of several values with weights; `None` without values.
fn part<'a, T>(parts: &'a [(f64, T)], draws: &mut Draws) -> Option<&'a T> {
    let all: f64 = parts.iter().map(|(weight, _)| weight).sum();
    let at = draws.unit() * all;
    let mut up_to = 0.0;
    let found = parts.iter().find(|(weight, _)| {
        up_to += weight;
        at < up_to
    });
    Some(&found.or(parts.last())?.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(law: &Law) -> f64 {
        let mut draws = Draws::new(7, 3);
        (0..20_000).map(|_| law.draw(&mut draws)).sum::<f64>() / 20_000.0
    }

    #[test]
    fn drawn_numbers_have_the_mean_of_the_law() {
        let of = Law::Drawn;
        let log = of(Drawn::LogUniform(1.0, 100.0));
        for (law, expected) in [
            (of(Drawn::Uniform(2.0, 4.0)), 3.0),
            (log.clone(), 99.0 / libm::log(100.0)),
            (of(Drawn::PowerOfTen(0.0, 2.0)), 99.0 / libm::log(100.0)),
            (of(Drawn::LogNormal(2.0, 0.5)), 2.0 * libm::exp(0.125)),
            (of(Drawn::Exponential(5.0)), 5.0),
            (of(Drawn::Inverse(Box::new(log))), 0.99 / libm::log(100.0)),
            (
                of(Drawn::Parts(vec![
                    (3.0, Law::Fixed(1.0)),
                    (1.0, Law::Fixed(5.0)),
                ])),
                2.0,
            ),
        ] {
            let found = mean(&law);
            assert!((found / expected - 1.0).abs() < 0.03, "{law:?}: {found}");
        }
    }
}
