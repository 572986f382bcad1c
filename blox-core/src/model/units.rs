//! Quantities with units: moments, durations, numbers of GPUs.
//!
//! Time is an `f64` of seconds that is always finite, so that it has a total order and a JSON round
//! trip preserves every bit. The published simulators also use floating-point seconds: integers
//! would not reproduce their numbers.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub, SubAssign};

/// Describes the numbers that [`is_amount`] accepts.
pub(crate) const AMOUNT: &str = "a finite number that is not negative";

/// Returns whether a number is finite and not negative.
pub(crate) fn is_amount(number: f64) -> bool {
    number.is_finite() && number >= 0.0
}

macro_rules! finite_seconds {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq)]
        pub struct $name(f64);

        impl $name {
            /// Zero seconds.
            pub const ZERO: Self = Self(0.0);

            /// Creates a value from finite seconds; `None` for NaN and the infinities.
            #[inline]
            pub fn try_new(seconds: f64) -> Option<Self> {
                // Adding zero turns -0.0 into 0.0: equal values have equal bits.
                seconds.is_finite().then_some(Self(seconds + 0.0))
            }

            /// Creates a value from seconds. Infinities are clamped to the largest finite values.
            ///
            /// # Panics
            /// The number is NaN. [`try_new`](Self::try_new) returns `None` for it.
            #[inline]
            #[track_caller]
            pub const fn new(seconds: f64) -> Self {
                if seconds.is_finite() {
                    Self(seconds + 0.0)
                } else {
                    Self::cut(seconds)
                }
            }

            #[cold]
            #[track_caller]
            const fn cut(seconds: f64) -> Self {
                assert!(
                    !seconds.is_nan(),
                    concat!("`", stringify!($name), "::new` was given NaN, expected a number of seconds")
                );
                Self(seconds.clamp(f64::MIN, f64::MAX))
            }

            /// Returns the value in seconds.
            #[inline]
            pub const fn secs(self) -> f64 {
                self.0
            }

            /// Returns the value in hours.
            #[inline]
            pub fn hours(self) -> f64 {
                self.0 / 3600.0
            }

            /// Returns the larger of two values.
            #[inline]
            pub fn max(self, other: Self) -> Self {
                if self.0 >= other.0 { self } else { other }
            }

            /// Returns the smaller of two values.
            #[inline]
            pub fn min(self, other: Self) -> Self {
                if self.0 <= other.0 { self } else { other }
            }
        }

        impl Eq for $name {}
        impl PartialOrd for $name {
            #[inline]
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }
        impl Ord for $name {
            #[inline]
            fn cmp(&self, other: &Self) -> Ordering {
                // Finite, and never -0.0: the order of floats is total.
                if self.0 < other.0 {
                    Ordering::Less
                } else if self.0 > other.0 {
                    Ordering::Greater
                } else {
                    Ordering::Equal
                }
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}s", self.0)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_f64(self.0)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let seconds = f64::deserialize(d)?;
                Self::try_new(seconds)
                    .ok_or_else(|| serde::de::Error::custom("seconds must be finite"))
            }
        }
    };
}

finite_seconds! {
    /// A moment, in seconds since time 0 of the run. Finite, with a total order.
    ///
    /// In a simulation, time 0 is the trace's own time 0. If a trace has dates or an unknown
    /// origin, it is the first submission. On a cluster, it is the first start of the scheduler
    /// with its log.
    Time
}

finite_seconds! {
    /// A duration in seconds. Finite, with a total order; may be negative.
    Seconds
}

impl Time {
    /// Returns the duration from `earlier` to this moment.
    #[inline]
    pub fn since(self, earlier: Time) -> Seconds {
        Seconds::new(self.0 - earlier.0)
    }
}

impl Seconds {
    /// Creates a duration from hours.
    #[inline]
    pub fn from_hours(hours: f64) -> Self {
        Self::new(hours * 3600.0)
    }
}

/// A number of GPUs.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct GpuCount(pub u32);

impl GpuCount {
    /// No GPU.
    pub const ZERO: Self = Self(0);

    /// Returns the number as an integer.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for GpuCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
impl std::iter::Sum for GpuCount {
    fn sum<I: Iterator<Item = GpuCount>>(iter: I) -> GpuCount {
        iter.fold(GpuCount::ZERO, Add::add)
    }
}

/// Implements binary operators; each row is an operator with its result.
macro_rules! operators {
    ($(
        $(#[$doc:meta])*
        $operator:ident::$function:ident($a:ident: $left:ty, $b:ident: $right:ty) -> $out:ty {
            $result:expr
        }
    )*) => {$(
        impl $operator<$right> for $left {
            type Output = $out;
            $(#[$doc])*
            #[inline]
            fn $function(self, $b: $right) -> $out {
                let $a = self;
                $result
            }
        }
    )*};
}

operators! {
    Add::add(a: Time, b: Seconds) -> Time { Time::new(a.0 + b.0) }
    Sub::sub(a: Time, b: Seconds) -> Time { Time::new(a.0 - b.0) }
    Sub::sub(a: Time, b: Time) -> Seconds { a.since(b) }
    Add::add(a: Seconds, b: Seconds) -> Seconds { Seconds::new(a.0 + b.0) }
    Sub::sub(a: Seconds, b: Seconds) -> Seconds { Seconds::new(a.0 - b.0) }
    Mul::mul(a: Seconds, b: f64) -> Seconds { Seconds::new(a.0 * b) }
    Div::div(a: Seconds, b: f64) -> Seconds { Seconds::new(a.0 / b) }
    Div::div(a: Seconds, b: Seconds) -> f64 { a.0 / b.0 }
    /// Saturates at the largest number.
    Add::add(a: GpuCount, b: GpuCount) -> GpuCount { GpuCount(a.0.saturating_add(b.0)) }
    /// Saturates at zero.
    Sub::sub(a: GpuCount, b: GpuCount) -> GpuCount { GpuCount(a.0.saturating_sub(b.0)) }
}

impl Neg for Seconds {
    type Output = Seconds;
    fn neg(self) -> Seconds {
        Seconds::new(-self.0)
    }
}
impl AddAssign<Seconds> for Time {
    #[inline]
    fn add_assign(&mut self, rhs: Seconds) {
        *self = *self + rhs;
    }
}
impl AddAssign for Seconds {
    #[inline]
    fn add_assign(&mut self, rhs: Seconds) {
        *self = *self + rhs;
    }
}
impl AddAssign for GpuCount {
    #[inline]
    fn add_assign(&mut self, rhs: GpuCount) {
        *self = *self + rhs;
    }
}
impl SubAssign for GpuCount {
    #[inline]
    fn sub_assign(&mut self, rhs: GpuCount) {
        *self = *self - rhs;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_finite_and_ordered() {
        assert!(Time::try_new(f64::NAN).is_none());
        assert!(Seconds::try_new(f64::INFINITY).is_none());
        assert!(Time::new(-1.0) < Time::ZERO && Time::ZERO < Time::new(1e-9));
        assert_eq!(Time::new(-0.0).secs().to_bits(), 0.0f64.to_bits());
    }

    #[test]
    #[should_panic(expected = "`Time::new` was given NaN")]
    fn time_of_no_number_is_refused() {
        let _ = Time::new(f64::NAN);
    }

    #[test]
    fn time_round_trips_through_json_bit_for_bit() {
        for s in [35424.3471980879, 0.1 + 0.2, 1e300, 5e-324] {
            let text = serde_json::to_string(&Time::new(s)).unwrap();
            let back: Time = serde_json::from_str(&text).unwrap();
            assert_eq!(back.secs().to_bits(), s.to_bits(), "{text}");
        }
    }

    #[test]
    fn arithmetic_keeps_units() {
        let t = Time::new(600.0) + Seconds::new(300.0);
        assert_eq!(t - Time::new(100.0), Seconds::new(800.0));
        assert_eq!(Seconds::from_hours(1000.0), Seconds::new(3_600_000.0));
        assert_eq!(GpuCount(3) - GpuCount(5), GpuCount::ZERO);
    }
}
