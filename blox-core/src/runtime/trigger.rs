//! Decision triggers: the moments of decisions.

use crate::units::{Seconds, Time};
use dyn_clone::DynClone;

/// Moments of decisions. A decision moment without a possible change is skipped; the results are
/// the same as without skipping.
///
/// ```
/// use blox_core::{DecisionTrigger, Time};
///
/// /// A decision at half past each hour.
/// #[derive(Clone)]
/// struct HalfPast;
///
/// impl HalfPast {
///     fn after(t: Time) -> Time {
///         let hours = ((t.secs() - 1800.0) / 3600.0).floor() + 1.0;
///         Time::new(hours * 3600.0 + 1800.0)
///     }
/// }
///
/// impl DecisionTrigger for HalfPast {
///     fn first_from(&self, t: Time, last: Option<Time>) -> Time {
///         let is_one = (t.secs() - 1800.0) % 3600.0 == 0.0;
///         match last {
///             Some(last) if t <= last => HalfPast::after(last),
///             _ if is_one => t,
///             _ => HalfPast::after(t),
///         }
///     }
///
///     fn following(&self, t: Time) -> Option<Time> {
///         Some(HalfPast::after(t))
///     }
/// }
///
/// let half_past_one = Time::new(5400.0);
/// assert_eq!(HalfPast.first_from(Time::new(1801.0), None), half_past_one);
/// assert_eq!(HalfPast.first_from(half_past_one, Some(half_past_one)), Time::new(9000.0));
/// assert_eq!(HalfPast.following(Time::ZERO), Some(Time::new(1800.0)));
/// ```
pub trait DecisionTrigger: Send + Sync + DynClone {
    /// Returns the first decision moment that is not before `t` and is after `last`, the moment of
    /// the last decision.
    fn first_from(&self, t: Time, last: Option<Time>) -> Time;

    /// Returns the next decision moment after `t` if nothing happens until then; `None` if
    /// decisions follow only events.
    fn following(&self, t: Time) -> Option<Time>;

    /// Returns the length of a round if all rounds have the same length.
    fn period(&self) -> Option<Seconds> {
        None
    }
}

dyn_clone::clone_trait_object!(DecisionTrigger);

/// A decision at every multiple of a period: Blox's rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rounds {
    period: Seconds,
}

impl Rounds {
    /// Creates rounds of `period`, the first at 0. Returns `None` unless the period is above 0.
    pub fn every(period: Seconds) -> Option<Self> {
        (period > Seconds::ZERO).then_some(Rounds { period })
    }
}

impl Default for Rounds {
    /// Rounds of 300 s (Blox).
    fn default() -> Self {
        Rounds {
            period: Seconds::new(300.0),
        }
    }
}

impl DecisionTrigger for Rounds {
    #[inline]
    fn first_from(&self, t: Time, last: Option<Time>) -> Time {
        let p = self.period.secs();
        let mut k = (t.secs() / p).ceil();
        // The division may round to another multiple; the product decides.
        if k * p < t.secs() {
            k += 1.0;
        } else if (k - 1.0) * p >= t.secs() {
            k -= 1.0;
        }
        let at = Time::new(k * p);
        match last {
            Some(last) if at <= last => self.after(last),
            _ => at,
        }
    }

    #[inline]
    fn following(&self, t: Time) -> Option<Time> {
        Some(self.after(t))
    }

    fn period(&self) -> Option<Seconds> {
        Some(self.period)
    }
}

impl Rounds {
    #[inline]
    fn after(&self, t: Time) -> Time {
        let p = self.period.secs();
        let mut k = (t.secs() / p).floor() + 1.0;
        if k * p <= t.secs() {
            k += 1.0;
        }
        Time::new(k * p)
    }
}

/// A decision after each event, but never two within `gap`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OnEvent {
    gap: Seconds,
}

impl OnEvent {
    /// Creates decisions on events, at least `gap` apart (0 for immediate decisions; negative
    /// counts as 0).
    pub fn with_gap(gap: Seconds) -> Self {
        OnEvent {
            gap: gap.max(Seconds::ZERO),
        }
    }
}

impl DecisionTrigger for OnEvent {
    fn first_from(&self, t: Time, last: Option<Time>) -> Time {
        match last {
            Some(last) => t.max(last + self.gap),
            None => t,
        }
    }

    fn following(&self, _: Time) -> Option<Time> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_fall_on_multiples() {
        let c = Rounds::every(Seconds::new(300.0)).unwrap();
        let t = Time::new;
        assert_eq!(c.first_from(t(0.0), None), t(0.0));
        assert_eq!(c.first_from(t(1.0), None), t(300.0));
        assert_eq!(c.first_from(t(300.0), Some(t(300.0))), t(600.0));
        assert_eq!(c.following(t(300.0)), Some(t(600.0)));
        assert_eq!(c.following(t(299.9)), Some(t(300.0)));
    }

    #[test]
    fn rounds_of_an_awkward_length_never_stand_still() {
        let c = Rounds::every(Seconds::new(0.1)).unwrap();
        let mut t = Time::ZERO;
        for _ in 0..10_000 {
            let next = c.following(t).unwrap();
            assert!(next > t);
            assert_eq!(c.first_from(next, Some(t)), next);
            t = next;
        }
    }

    #[test]
    fn a_round_is_never_before_what_it_is_for() {
        let c = Rounds::every(Seconds::new(0.1)).unwrap();
        for k in 0..10_000 {
            let round = f64::from(k) * 0.1;
            for t in [round.next_down().max(0.0), round, round.next_up()] {
                let at = c.first_from(Time::new(t), None);
                assert!(at.secs() >= t && at.secs() < t + 0.11, "{t} {at}");
            }
        }
    }

    #[test]
    fn events_keep_their_gap() {
        let c = OnEvent::with_gap(Seconds::new(10.0));
        assert_eq!(
            c.first_from(Time::new(12.0), Some(Time::new(5.0))),
            Time::new(15.0)
        );
        assert_eq!(c.following(Time::new(5.0)), None);
    }
}
