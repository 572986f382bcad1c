//! Courses of values over time.

/// Course of a column, or of an expression, between events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Course {
    /// It does not change.
    Still,
    /// It grows by 1 each second.
    Clock,
    /// It does not fall.
    Rising,
    /// It does not grow.
    Falling,
    /// It may rise and fall.
    Any,
}

use Course::{Any, Clock, Falling, Rising, Still};

impl Course {
    pub fn negative(self) -> Course {
        match self {
            Clock | Rising => Falling,
            Falling => Rising,
            same => same,
        }
    }

    /// Returns the course of a sum, a minimum or a maximum.
    pub fn and(self, other: Course) -> Course {
        match (self, other) {
            (Still, course) | (course, Still) => course,
            (Clock | Rising, Clock | Rising) => Rising,
            (Falling, Falling) => Falling,
            _ => Any,
        }
    }

    /// Returns the course of a value that depends on this one in an unknown way, such as a distance.
    pub fn vague(self) -> Course {
        match self {
            Still => Still,
            _ => Any,
        }
    }

    /// Returns the course without a rate, for functions that do not keep it.
    pub fn rough(self) -> Course {
        match self {
            Clock => Rising,
            other => other,
        }
    }
}
