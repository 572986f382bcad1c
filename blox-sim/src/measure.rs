//! Which jobs count.

use blox_core::{JobId, Time};

/// Which jobs are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Measure {
    /// All of them.
    #[default]
    All,
    /// Those with these numbers, both ends included.
    Ids(u32, u32),
    /// Those submitted in this time, both ends included.
    Submitted(Time, Time),
}

impl Measure {
    /// Whether a job is measured.
    pub fn includes(&self, job: JobId, submit: Time) -> bool {
        match *self {
            Measure::All => true,
            Measure::Ids(a, b) => (a..=b).contains(&job.0),
            Measure::Submitted(a, b) => (a..=b).contains(&submit),
        }
    }

    /// Whether all measured jobs came before this one.
    pub(crate) fn is_past(&self, job: JobId, submit: Time) -> bool {
        match *self {
            Measure::All => false,
            Measure::Ids(_, b) => job.0 > b,
            Measure::Submitted(_, b) => submit > b,
        }
    }
}
