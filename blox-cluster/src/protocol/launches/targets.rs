//! Jobs that other jobs depend on, and jobs of arrays.

use super::{ArchivedJob, ArchivedPart, Durable, Past};
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
            None => match self.archived_in_part(job) {
                Some(archived) => Target::Ended(is_completed(archived.outcome)),
                None => Target::Unknown,
            },
        }
    }

    /// Keeps the end of a job that was just archived, as long as other jobs of its array are not
    /// archived.
    pub(super) fn note_archived(&mut self, past: &Past) {
        let Some(place) = past.brief.array else {
            return;
        };
        if self.array(place.id).next().is_none() {
            self.archived_parts.remove(&place.id);
            return;
        }
        let part = self.archived_parts.entry(place.id).or_default();
        part.count += 1;
        let kind = match is_completed(past.outcome) {
            true => &mut part.completed,
            false => &mut part.other,
        };
        let (job, outcome) = (past.job, past.outcome);
        *kind = Some(ArchivedJob {
            job,
            place,
            outcome,
        });
    }

    /// Returns an archived job if the state keeps its end for conditions on its array.
    pub(super) fn archived_in_part(&self, job: JobId) -> Option<&ArchivedJob> {
        let (_, part) = self.archived_parts.range(..=job).next_back()?;
        part.kept().find(|archived| archived.job == job)
    }

    /// Returns the jobs that decide a condition on a name: see [`Durable::named`], and for an array
    /// one archived job of each kind. Empty if the ends of archived jobs are not known.
    pub(crate) fn targets(&self, name: JobName) -> Vec<JobId> {
        let mut jobs = self.named(name);
        if let JobName::Job(id) = name
            && let Some((_, place)) = self.array(id).next()
        {
            let part = self.archived_parts.get(&id);
            let archived = part.map_or(0, |part| part.count);
            // An earlier version kept nothing of archived jobs.
            if jobs.len() as u32 + archived < place.count {
                return Vec::new();
            }
            let kept = part.into_iter().flat_map(ArchivedPart::kept);
            jobs.extend(kept.map(|archived| archived.job));
        }
        jobs
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

impl ArchivedPart {
    fn kept(&self) -> impl Iterator<Item = &ArchivedJob> {
        self.completed.iter().chain(&self.other)
    }
}
