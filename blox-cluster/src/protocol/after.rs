//! Conditions under which a submitted job starts to wait for GPUs: ends of other jobs, and a place
//! in its array.

use blox_core::{JobId, JobSpec, Outcome};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Required end of another job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AfterEnd {
    /// The job completes.
    AfterOk,
    /// The job fails, is cancelled or is rejected.
    AfterNotOk,
    /// The job ends.
    AfterAny,
}

impl AfterEnd {
    /// Returns the word of the condition in a dependency.
    pub fn as_str(self) -> &'static str {
        match self {
            AfterEnd::AfterOk => "afterok",
            AfterEnd::AfterNotOk => "afternotok",
            AfterEnd::AfterAny => "afterany",
        }
    }

    /// Returns whether the end of a job meets the condition.
    pub fn is_met_by(self, completed: bool) -> bool {
        match self {
            AfterEnd::AfterOk => completed,
            AfterEnd::AfterNotOk => !completed,
            AfterEnd::AfterAny => true,
        }
    }
}

/// Returns whether a job with this outcome did its work. A rejected job has no outcome.
pub fn is_completed(outcome: Option<Outcome>) -> bool {
    matches!(outcome, Some(Outcome::Completed | Outcome::Terminated))
}

/// A job in a dependency or another list of jobs: its number, or its place in an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobName {
    /// Number of a job. The number of the first job of an array stands for the whole array.
    Job(JobId),
    /// A job of an array: the number of the array, and the index.
    InArray(JobId, u32),
}

impl FromStr for JobName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let expected = "a job such as 12, or 12_3 in an array";
        let number = |text: &str| match text.bytes().all(|c| c.is_ascii_digit()) {
            true => text.parse().map_err(|_| expected),
            false => Err(expected),
        };
        Ok(match text.split_once('_') {
            Some((array, index)) => JobName::InArray(JobId(number(array)?), number(index)?),
            None => JobName::Job(JobId(number(text)?)),
        })
    }
}

/// A dependency, as users write it.
///
/// ```
/// use blox_cluster::protocol::Dependency;
/// let dependency: Dependency = "afterok:12:13_2,singleton".parse()?;
/// assert!(dependency.singleton && dependency.after.len() == 2);
/// let error = "afterwards:12".parse::<Dependency>().unwrap_err();
/// assert!(error.to_string().starts_with("`afterwards` is no condition, expected afterok,"));
/// # Ok::<(), blox_cluster::protocol::DependencyError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependency {
    /// Required ends of other jobs; all of them must be met.
    pub after: Vec<(AfterEnd, JobName)>,
    /// True if the job waits until all earlier jobs of its user with its name have ended.
    pub singleton: bool,
}

/// Why a dependency was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DependencyError {
    /// The condition does not exist.
    #[error("`{0}` is no condition, expected afterok, afternotok, afterany or singleton")]
    NoCondition(String),
    /// A condition names no job.
    #[error("`{0}` names no job, expected jobs such as {0}:12:13")]
    NoJob(String),
    /// A job is not written as such.
    #[error("`{found}` is no job, expected {expected}")]
    BadJob {
        /// The text.
        found: String,
        /// The expected form.
        expected: &'static str,
    },
    /// One of several conditions is not supported.
    #[error(
        "`?` between conditions is not supported: all conditions must be met, separated by `,`"
    )]
    Either,
}

impl FromStr for Dependency {
    type Err = DependencyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut all = Dependency::default();
        if text.contains('?') {
            return Err(DependencyError::Either);
        }
        for part in text.split(',') {
            let mut words = part.split(':');
            let word = words.next().unwrap_or_default();
            let kind = match word {
                "singleton" if part == word => {
                    all.singleton = true;
                    continue;
                }
                "afterok" => AfterEnd::AfterOk,
                "afternotok" => AfterEnd::AfterNotOk,
                "afterany" => AfterEnd::AfterAny,
                "singleton" => return Err(DependencyError::NoCondition(part.to_owned())),
                _ => return Err(DependencyError::NoCondition(word.to_owned())),
            };
            let before = all.after.len();
            for found in words {
                let job = found.parse().map_err(|expected| {
                    let found = found.to_owned();
                    DependencyError::BadJob { found, expected }
                })?;
                all.after.push((kind, job));
            }
            if all.after.len() == before {
                return Err(DependencyError::NoJob(word.to_owned()));
            }
        }
        Ok(all)
    }
}

/// Attribute of a job that has its place in an array.
pub(crate) const ARRAY: &str = "array";

/// Place of a job in an array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InArray {
    /// Number of the array, which is the number of its first job.
    pub id: JobId,
    /// Index of the job.
    pub index: u32,
    /// Number of jobs in the array.
    pub count: u32,
    /// Smallest index.
    pub min: u32,
    /// Largest index.
    pub max: u32,
}

impl InArray {
    /// Returns the place of a job; `None` if it is in no array.
    pub fn of(spec: &JobSpec) -> Option<Self> {
        let place = spec.attribute(ARRAY)?;
        Self::deserialize(place).ok()
    }
}

impl fmt::Display for InArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.id, self.index)
    }
}

/// Conditions that a job still waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeldBack {
    /// Required ends of jobs that have not ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<(AfterEnd, JobId)>,
    /// True if earlier jobs of its user with its name must have ended.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub singleton: bool,
    /// Number of jobs of its array that may run at once; 0 for any number.
    pub at_once: u32,
    /// True if a user holds the job, too.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub by_user: bool,
    /// Why the job could never run, since nodes have left; empty if it could.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub unfit: String,
}

impl HeldBack {
    /// Returns whether there is a condition, or a user holds the job.
    pub fn has_conditions(&self) -> bool {
        let Self {
            after,
            singleton,
            at_once,
            by_user,
            unfit,
        } = self;
        !after.is_empty() || *singleton || *at_once > 0 || *by_user || !unfit.is_empty()
    }

    /// Returns the conditions as a sentence, with the name that `called` returns for another job.
    pub fn text_with(&self, called: impl FnOnce(JobId) -> String) -> String {
        if self.by_user {
            return "held by user".to_owned();
        }
        if !self.unfit.is_empty() {
            return format!("held, as it could never run: {}", self.unfit);
        }
        if let Some((kind, first)) = self.after.first() {
            let end = match kind {
                AfterEnd::AfterOk => "completes",
                AfterEnd::AfterNotOk => "fails or is cancelled",
                AfterEnd::AfterAny => "ends",
            };
            let more = match self.after.len() - 1 {
                0 => String::new(),
                more => format!(", and for {more} more"),
            };
            return format!("waits until job {} {end}{more}", called(*first));
        }
        match self.singleton {
            true => "waits until earlier jobs with its name end".to_owned(),
            false => format!(
                "waits for a place in its array: at most {} at once",
                self.at_once
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_dependencies_are_refused_in_a_sentence() {
        for (text, error) in [
            (
                "",
                "`` is no condition, expected afterok, afternotok, afterany or singleton",
            ),
            (
                "after:3",
                "`after` is no condition, expected afterok, afternotok, afterany or singleton",
            ),
            (
                "afterok",
                "`afterok` names no job, expected jobs such as afterok:12:13",
            ),
            (
                "afterok:x",
                "`x` is no job, expected a job such as 12, or 12_3 in an array",
            ),
            (
                "afterok:+1",
                "`+1` is no job, expected a job such as 12, or 12_3 in an array",
            ),
            (
                "afterok:1?afterany:2",
                "`?` between conditions is not supported: all conditions must be met, separated by `,`",
            ),
        ] {
            assert_eq!(text.parse::<Dependency>().unwrap_err().to_string(), error);
        }
    }

    #[test]
    fn reasons_of_held_back_jobs_are_sentences() {
        let after = vec![
            (AfterEnd::AfterOk, JobId(3)),
            (AfterEnd::AfterAny, JobId(4)),
        ];
        let text = |held: &HeldBack| held.text_with(|job| format!("9_{job}"));
        let mut held = HeldBack {
            after,
            singleton: true,
            at_once: 2,
            ..HeldBack::default()
        };
        assert_eq!(text(&held), "waits until job 9_3 completes, and for 1 more");
        let unfit = HeldBack {
            unfit: "asks for 8 GPUs, at most 4 are possible".to_owned(),
            ..held.clone()
        };
        assert_eq!(
            text(&unfit),
            "held, as it could never run: asks for 8 GPUs, at most 4 are possible"
        );
        held.after.clear();
        assert_eq!(text(&held), "waits until earlier jobs with its name end");
        held.singleton = false;
        assert_eq!(
            text(&held),
            "waits for a place in its array: at most 2 at once"
        );
        held.by_user = true;
        assert_eq!(text(&held), "held by user");
    }
}
