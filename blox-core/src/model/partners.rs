//! Sets of jobs that share GPUs with a job.

use crate::ids::JobId;
use serde::{Deserialize, Serialize, Serializer};
use std::fmt;

/// The jobs that run on some of a job's GPUs at the same time, in ascending order.
///
/// Most jobs have none. The set then takes one word and no memory of its own.
///
/// ```
/// use blox_core::{JobId, Partners};
/// let partners = Partners::from([JobId(7), JobId(3), JobId(7)]);
/// assert_eq!(partners.iter().collect::<Vec<_>>(), [JobId(3), JobId(7)]);
/// assert!(partners.contains(JobId(7)) && Partners::default().is_empty());
/// ```
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Form")]
pub struct Partners(Option<Box<Members>>);

/// Jobs in ascending order, at least one.
#[derive(Clone, PartialEq, Eq)]
struct Members(Vec<JobId>);

impl Partners {
    /// The empty set.
    pub(crate) const NONE: Partners = Partners(None);

    /// Returns whether the set is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the number of jobs.
    #[inline]
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// Returns whether a job is in the set.
    #[inline]
    pub fn contains(&self, job: JobId) -> bool {
        self.as_slice().binary_search(&job).is_ok()
    }

    /// Returns the jobs in ascending order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = JobId> + ExactSizeIterator + '_ {
        self.as_slice().iter().copied()
    }

    /// Adds a job. Returns false if it is in the set already.
    pub fn insert(&mut self, job: JobId) -> bool {
        let Some(members) = &mut self.0 else {
            self.0 = Some(Box::new(Members(vec![job])));
            return true;
        };
        match members.0.binary_search(&job) {
            Ok(_) => false,
            Err(at) => {
                members.0.insert(at, job);
                true
            }
        }
    }

    fn as_slice(&self) -> &[JobId] {
        self.0.as_ref().map_or(&[], |members| &members.0)
    }
}

impl fmt::Debug for Partners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl FromIterator<JobId> for Partners {
    fn from_iter<T: IntoIterator<Item = JobId>>(jobs: T) -> Self {
        let mut set = Partners::NONE;
        set.extend(jobs);
        set
    }
}

impl Extend<JobId> for Partners {
    fn extend<T: IntoIterator<Item = JobId>>(&mut self, jobs: T) {
        jobs.into_iter().for_each(|job| {
            self.insert(job);
        });
    }
}

impl From<JobId> for Partners {
    fn from(job: JobId) -> Self {
        Partners::from([job])
    }
}

impl<const N: usize> From<[JobId; N]> for Partners {
    fn from(jobs: [JobId; N]) -> Self {
        jobs.into_iter().collect()
    }
}

impl From<Option<JobId>> for Partners {
    fn from(job: Option<JobId>) -> Self {
        job.into_iter().collect()
    }
}

/// No job is written as nothing, one job as its number, several as a list. Journals and logs of
/// versions with pairs only have the same form.
impl Serialize for Partners {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self.as_slice() {
            [] => s.serialize_none(),
            [job] => job.serialize(s),
            jobs => jobs.serialize(s),
        }
    }
}

impl From<Form> for Partners {
    fn from(form: Form) -> Self {
        match form {
            Form::None => Partners::NONE,
            Form::One(job) => job.into(),
            Form::Several(jobs) => jobs.into_iter().collect(),
        }
    }
}

/// Any form of the set in files.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected the number of a job, or a list of such numbers"
)]
enum Form {
    None,
    One(JobId),
    Several(Vec<JobId>),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(set: &Partners) -> String {
        serde_json::to_string(set).unwrap()
    }

    #[test]
    fn partners_of_any_number_are_read_as_written() {
        for (jobs, expected) in [(&[][..], "null"), (&[5], "5"), (&[9, 0, 5, 9], "[0,5,9]")] {
            let set: Partners = jobs.iter().copied().map(JobId).collect();
            assert_eq!(text(&set), expected);
            let again: Partners = serde_json::from_str(expected).unwrap();
            assert_eq!(again, set);
        }
        for wrong in ["-1", "4294967296", "\"3\"", "[-1]", "{}"] {
            assert!(serde_json::from_str::<Partners>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn partners_in_any_order_are_one_set() {
        let mut set = Partners::from([JobId(4), JobId(1)]);
        assert!(set.insert(JobId(2)) && !set.insert(JobId(4)));
        assert_eq!(set, Partners::from([JobId(1), JobId(2), JobId(4)]));
        assert_eq!((set.len(), set.contains(JobId(3))), (3, false));
        assert_eq!(size_of::<Partners>(), size_of::<usize>());
    }
}
