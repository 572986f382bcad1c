//! Jobs that other jobs depend on, and jobs of arrays.

use super::Durable;
use crate::protocol::after::{InArray, JobName, is_completed};
use blox_core::JobId;

/// State of a job that another one depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// It has not ended.
    Live,
    /// It has ended: true if it completed.
    Ended(bool),
    /// It is in the archive, or there is no such job.
    Unknown,
}

impl Durable {
    /// Returns the state of a job that another one depends on.
    pub(crate) fn target(&self, job: JobId) -> Target {
        match self.jobs.get(&job) {
            Some(brief) if brief.ended.is_some() => {
                Target::Ended(is_completed(self.ended.get(&job).copied()))
            }
            Some(_) => Target::Live,
            None => Target::Unknown,
        }
    }

    /// Returns the jobs of an array that are not archived, by index.
    pub fn array(&self, id: JobId) -> impl Iterator<Item = (JobId, InArray)> {
        let jobs = self.jobs.range(id..);
        let places = jobs.map(|(job, brief)| (*job, brief.array));
        let its = places.map_while(|(job, place)| Some((job, place?)));
        its.take_while(move |(_, place)| place.id == id)
    }

    /// Returns the jobs of a name that are not archived. Empty if there are none.
    pub fn named(&self, name: JobName) -> Vec<JobId> {
        match name {
            JobName::Job(id) => {
                let all: Vec<JobId> = self.array(id).map(|(job, _)| job).collect();
                match all.is_empty() && self.jobs.contains_key(&id) {
                    true => vec![id],
                    false => all,
                }
            }
            JobName::InArray(id, index) => {
                let mut its = self.array(id);
                let found = its.find(|(_, place)| place.index == index);
                found.map(|(job, _)| job).into_iter().collect()
            }
        }
    }
}
