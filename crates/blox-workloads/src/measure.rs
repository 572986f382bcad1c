//! Selection of the measured jobs.

use blox_core::{JobId, Time};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Selects the measured jobs. A job's number is its rank in order of submission, from 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Measure {
    /// All jobs.
    #[default]
    All,
    /// Jobs with a number in this range, both ends included.
    Ids(u32, u32),
    /// Jobs with a number in this set.
    Each(Arc<BTreeSet<u32>>),
    /// Jobs submitted in this period, both ends included.
    Submitted(Time, Time),
}

impl Measure {
    /// Selects the jobs whose ids are `wanted`, anywhere in the order of submission. `ids` are the
    /// ids of all jobs in that order ([`whole_ids`](crate::whole_ids)).
    ///
    /// ```
    /// use blox_workloads::Measure;
    /// assert_eq!(Measure::of_ids(&[7, 5, 6, 9], 5..=6), Measure::Ids(1, 2));
    /// let apart = Measure::Each([0, 3].into_iter().collect::<std::collections::BTreeSet<_>>().into());
    /// assert_eq!(Measure::of_ids(&[7, 5, 6, 9], 7..=9), apart);
    /// ```
    pub fn of_ids(ids: &[u64], wanted: RangeInclusive<u64>) -> Self {
        let numbered = (0..).zip(ids);
        let numbers: BTreeSet<u32> = numbered
            .filter_map(|(number, id)| wanted.contains(id).then_some(number))
            .collect();
        match (numbers.first(), numbers.last()) {
            (Some(&a), Some(&b)) if (b - a) as usize + 1 == numbers.len() => Measure::Ids(a, b),
            _ => Measure::Each(numbers.into()),
        }
    }

    /// Returns whether a job is measured.
    #[inline]
    pub fn includes(&self, job: JobId, submit: Time) -> bool {
        match self {
            Measure::All => true,
            Measure::Ids(a, b) => (*a..=*b).contains(&job.0),
            Measure::Each(numbers) => numbers.contains(&job.0),
            Measure::Submitted(a, b) => (*a..=*b).contains(&submit),
        }
    }

    /// Returns the largest selected number; `None` without numbers.
    #[inline]
    pub fn last(&self) -> Option<u32> {
        match self {
            Measure::Ids(_, b) => Some(*b),
            Measure::Each(numbers) => numbers.last().copied(),
            Measure::All | Measure::Submitted(..) => None,
        }
    }

    /// Returns how many numbers are selected from `first` on; 0 without numbers.
    pub fn numbers_from(&self, first: u32) -> u64 {
        match self {
            Measure::Ids(a, b) => (u64::from(*b) + 1).saturating_sub(u64::from(first.max(*a))),
            Measure::Each(numbers) => numbers.range(first..).count() as u64,
            Measure::All | Measure::Submitted(..) => 0,
        }
    }

    /// Returns whether all measured jobs precede this one.
    #[inline]
    pub fn is_past(&self, job: JobId, submit: Time) -> bool {
        match self {
            Measure::All => false,
            Measure::Ids(..) | Measure::Each(_) => self.last() < Some(job.0),
            Measure::Submitted(_, b) => submit > *b,
        }
    }
}
