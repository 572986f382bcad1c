//! Step functions of time that repeat.

use crate::units::{Seconds, Time, is_amount};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A step function of time, repeated after its period: replicas of a service, network demand within
/// an iteration, nodes that an owner needs, a quota.
///
/// Values are finite and not negative. Each step is a time since the start of a period and the value
/// from then on. The steps are in order, and the first is at 0. A period starts at time 0.
///
/// In files and options, a curve is `SECONDS:VALUE` pairs with `;` between them, then `/` and the
/// seconds of the period.
///
/// ```
/// use blox_core::{Curve, Seconds, Time};
/// let hours = Seconds::from_hours;
/// let day = Curve::new(hours(24.0), [(hours(0.0), 2.0), (hours(8.0), 5.0)]).expect("in order");
/// let at = |h: f64| Time::new(h * 3600.0);
/// assert_eq!([day.at(at(7.9)), day.at(at(8.0)), day.at(at(25.0))], [2.0, 5.0, 2.0]);
/// assert_eq!(day.next_after(at(8.0)), at(24.0));
/// assert_eq!(day.to_string(), "0:2;28800:5/86400");
/// assert_eq!("0:2; 28800:5 / 86400".parse(), Ok(day));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Fields")]
pub struct Curve {
    period: Seconds,
    steps: Vec<(Seconds, f64)>,
}

/// The fields of a curve before the check.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    period: Seconds,
    steps: Vec<(Seconds, f64)>,
}

impl TryFrom<Fields> for Curve {
    type Error = &'static str;

    fn try_from(fields: Fields) -> Result<Self, &'static str> {
        Curve::new(fields.period, fields.steps).ok_or(
            "a curve needs a period above 0, and steps of seconds and amounts, ascending from 0 to below the period",
        )
    }
}

impl FromStr for Curve {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let seconds = |text: &str| Seconds::try_new(text.trim().parse().ok()?);
        let step = |pair: &str| {
            let (at, value) = pair.split_once(':')?;
            Some((seconds(at)?, value.trim().parse().ok()?))
        };
        let all = || {
            let (steps, period) = text.rsplit_once('/')?;
            let steps: Option<Vec<_>> = steps.split(';').map(step).collect();
            Curve::new(seconds(period)?, steps?)
        };
        all().ok_or("SECONDS:VALUE joined by `;`, ascending from 0, then /PERIOD, above the last")
    }
}

impl fmt::Display for Curve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = "";
        for (at, value) in &self.steps {
            write!(f, "{before}{at}:{value}")?;
            before = ";";
        }
        write!(f, "/{}", self.period)
    }
}

impl Curve {
    /// Creates a curve. Returns `None` unless the steps ascend from 0 and end within a period above
    /// 0, and the values are finite and not negative.
    pub fn new(period: Seconds, steps: impl IntoIterator<Item = (Seconds, f64)>) -> Option<Self> {
        let steps: Vec<(Seconds, f64)> = steps.into_iter().collect();
        let starts = steps.first().is_some_and(|(at, _)| *at == Seconds::ZERO);
        let ascends = steps.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let ends = steps.last().is_some_and(|(at, _)| *at < period);
        let amounts = steps.iter().all(|(_, value)| is_amount(*value));
        (starts && ascends && ends && amounts).then_some(Curve { period, steps })
    }

    /// Returns the period.
    pub fn period(&self) -> Seconds {
        self.period
    }

    /// Returns the steps of a period: times since its start, with the values from then on.
    pub fn steps(&self) -> &[(Seconds, f64)] {
        &self.steps
    }

    /// Returns the curve of a clock that shows 0 at the time `origin` of this one.
    ///
    /// ```
    /// use blox_core::{Curve, Seconds};
    /// let day: Curve = "0:2;28800:5/86400".parse()?;
    /// assert_eq!(day.since(Seconds::from_hours(6.0)).to_string(), "0:2;7200:5;64800:2/86400");
    /// # Ok::<(), &'static str>(())
    /// ```
    #[must_use]
    pub fn since(&self, origin: Seconds) -> Curve {
        let period = self.period.secs();
        let moved = |at: Seconds| (at - origin).secs().rem_euclid(period);
        let steps = self.steps.iter().map(|(at, value)| (moved(*at), *value));
        // A remainder may round to the period, which is 0 of the next one.
        let mut steps: Vec<_> = steps.filter(|(at, _)| *at < period).collect();
        steps.push((0.0, self.at(Time::ZERO + origin)));
        steps.sort_by(|a, b| a.0.total_cmp(&b.0));
        steps.dedup_by_key(|step| step.0);
        Curve {
            period: self.period,
            steps: steps
                .into_iter()
                .map(|(at, value)| (Seconds::new(at), value))
                .collect(),
        }
    }

    /// Returns the value at a time.
    pub fn at(&self, t: Time) -> f64 {
        self.steps[self.passed(t) - 1].1
    }

    /// Returns the time of the first step after `t`, even if the value stays the same.
    pub fn next_after(&self, t: Time) -> Time {
        let end = (self.turn(t) + 1.0) * self.period.secs();
        let step = self.steps.get(self.passed(t));
        let next = step.map_or(end, |(since, _)| end.min(self.start(t) + since.secs()));
        // Times that are huge relative to the period have no later step that is another number.
        Time::new(next.max(t.secs().next_up()))
    }

    /// Returns the number of steps of the current period up to `t`, at least 1.
    fn passed(&self, t: Time) -> usize {
        let start = self.start(t);
        let passed = |step: &(Seconds, f64)| start + step.0.secs() <= t.secs();
        self.steps.partition_point(passed).max(1)
    }

    fn start(&self, t: Time) -> f64 {
        self.turn(t) * self.period.secs()
    }

    /// Returns the number of the period of `t`. A quotient may round to a neighbour of the number.
    fn turn(&self, t: Time) -> f64 {
        let (t, period) = (t.secs(), self.period.secs());
        let turn = (t / period).floor();
        if turn * period > t {
            turn - 1.0
        } else if (turn + 1.0) * period <= t {
            turn + 1.0
        } else {
            turn
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn curve(period: f64, steps: &[(f64, f64)]) -> Option<Curve> {
        let steps = steps.iter().map(|(at, value)| (Seconds::new(*at), *value));
        Curve::new(Seconds::new(period), steps)
    }

    #[test]
    fn new_without_ascending_steps_is_none() {
        assert!(curve(24.0, &[(0.0, 1.0), (23.0, 0.0)]).is_some());
        let wrong: [&[(f64, f64)]; 6] = [
            &[],
            &[(1.0, 1.0)],
            &[(0.0, 1.0), (0.0, 2.0)],
            &[(0.0, 1.0), (24.0, 2.0)],
            &[(0.0, -1.0)],
            &[(0.0, f64::NAN)],
        ];
        assert!(wrong.iter().all(|steps| curve(24.0, steps).is_none()));
        assert!(curve(0.0, &[(0.0, 1.0)]).is_none() && curve(-1.0, &[(0.0, 1.0)]).is_none());
    }

    #[test]
    fn periods_repeat_before_and_after_time_zero() {
        let curve = curve(10.0, &[(0.0, 3.0), (4.0, 5.0)]).unwrap();
        let at = |t: f64| {
            let t = Time::new(t);
            (curve.at(t), curve.next_after(t).secs())
        };
        assert_eq!(
            [at(0.0), at(3.9), at(4.0)],
            [(3.0, 4.0), (3.0, 4.0), (5.0, 10.0)]
        );
        assert_eq!([at(10.0), at(-1.0)], [(3.0, 14.0), (5.0, 0.0)]);
    }

    #[test]
    fn a_curve_is_checked_when_it_is_read() {
        let curve = curve(10.0, &[(0.0, 3.0), (4.0, 5.0)]).unwrap();
        let text = r#"{"period":10.0,"steps":[[0.0,3.0],[4.0,5.0]]}"#;
        assert_eq!(serde_json::to_string(&curve).unwrap(), text);
        assert_eq!(serde_json::from_str::<Curve>(text).unwrap(), curve);
        let wrong = r#"{"period":10,"steps":[[0,3],[14,5]]}"#;
        let error = serde_json::from_str::<Curve>(wrong).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("a curve needs a period above 0"),
            "{error}"
        );
    }

    prop_compose! {
        fn any_curve()(
            period in prop_oneof![1e-3..1e6, Just(86400.0), Just(0.1)],
            parts in prop::collection::vec((0.0..1.0, 0.0..9.0), 0..6),
            first in 0.0..9.0,
        ) -> Curve {
            let mut steps: Vec<(f64, f64)> = parts.iter().map(|(x, v)| (x * period, *v)).collect();
            steps.push((0.0, first));
            steps.sort_by(|a, b| a.0.total_cmp(&b.0));
            steps.dedup_by_key(|step| step.0);
            curve(period, &steps).unwrap()
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn values_change_at_the_next_step_only(curve in any_curve(), from in -1e7..1e7f64) {
            let mut t = Time::new(from);
            for _ in 0..50 {
                let next = curve.next_after(t);
                prop_assert!(next > t);
                prop_assert!(next - t <= curve.period + Seconds::new(1e-8));
                let last = Time::new(next.secs().next_down());
                prop_assert_eq!(curve.at(last), curve.at(t));
                prop_assert_eq!(curve.next_after(last), next);
                t = next;
            }
        }

        #[test]
        fn another_clock_shows_the_same_values(
            steps in prop::collection::btree_map(1u32..1000, 0.0..9.0, 0..6),
            more in 0u32..9,
            origin in -100_000i32..100_000,
            t in -100_000i32..100_000,
        ) {
            // Multiples of 1/64: no sum is rounded.
            let steps: Vec<(f64, f64)> = [(0.0, 7.0)]
                .into_iter()
                .chain(steps.iter().map(|(n, v)| (f64::from(*n) / 64.0, *v)))
                .collect();
            let curve = curve(f64::from(1000 + more) / 64.0, &steps).unwrap();
            let (origin, t) = (Seconds::new(f64::from(origin) / 64.0), Time::new(f64::from(t) / 64.0));
            let moved = curve.since(origin);
            prop_assert!(Curve::new(moved.period, moved.steps.clone()).is_some());
            prop_assert_eq!(moved.at(t), curve.at(t + origin));
            prop_assert_eq!(moved.to_string().parse(), Ok(moved));
        }

        #[test]
        fn steps_repeat_in_each_period(
            steps in prop::collection::btree_map(1u32..1000, 0.0..9.0, 0..6),
            more in 0u32..9,
            turn in -1000i32..1000,
        ) {
            // Multiples of 1/64: no sum is rounded.
            let exact = |n: u32| f64::from(n) / 64.0;
            let steps: Vec<(f64, f64)> =
                [(0.0, 7.0)].into_iter().chain(steps.iter().map(|(n, v)| (exact(*n), *v))).collect();
            let period = exact(1000 + more);
            let curve = curve(period, &steps).unwrap();
            let start = f64::from(turn) * period;
            let ends = steps.iter().skip(1).map(|step| step.0).chain([period]);
            for ((at, value), end) in steps.iter().zip(ends) {
                let t = Time::new(start + at);
                prop_assert_eq!(curve.at(t), *value);
                prop_assert_eq!(curve.next_after(t), Time::new(start + end));
            }
        }

        #[test]
        fn far_times_have_a_next_step(curve in any_curve(), t in proptest::num::f64::NORMAL) {
            prop_assume!(t.abs() < 1e300);
            prop_assert!(curve.next_after(Time::new(t)) > Time::new(t));
            prop_assert!(curve.steps().iter().any(|s| s.1 == curve.at(Time::new(t))));
        }
    }
}
