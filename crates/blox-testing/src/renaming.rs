//! The same case with other job numbers.

use super::difference::action;
use super::random::SplitMix;
use super::script::{Outside, Script};
use blox_core::decision::{Action, AdmissionDecision};
use blox_core::ids::JobId;
use blox_core::input::Input;
use blox_core::reason::Reason;
use blox_core::units::Time;
use std::fmt;

/// The order of jobs that a rule does not distinguish, in a scheduler that [ignores job
/// numbers](super::Suite::ignores_job_numbers).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ties {
    /// They are in order of submission, which is the order of their numbers.
    BySubmission,
    /// Its rule distinguishes all jobs, so jobs submitted at one moment may exchange their numbers.
    Never,
}

/// Other numbers for the jobs of a case.
pub(crate) struct Renaming {
    /// Number of the first job.
    first: usize,
    /// The jobs in order of their new numbers, by their numbers in the case.
    order: Vec<usize>,
}

impl Renaming {
    /// Returns other numbers for a case. They follow from its seed.
    pub fn of(script: &Script, ties: Ties) -> Self {
        let mut dice = SplitMix::keyed(&[script.seed, 8]);
        let mut order: Vec<usize> = (0..script.jobs.len()).collect();
        if ties == Ties::Never {
            order
                .chunk_by_mut(|a, b| script.jobs[*a].submit == script.jobs[*b].submit)
                .for_each(<[usize]>::reverse);
        }
        let first = 1 + dice.below(200);
        Renaming { first, order }
    }

    /// Returns the number in the case of a job with a new number.
    pub fn old(&self, job: JobId) -> JobId {
        let place = job.index().checked_sub(self.first);
        let old = place.and_then(|place| self.order.get(place));
        old.map_or(job, |old| JobId(*old as u32))
    }

    /// Returns the new number of a job of the case.
    pub fn number(&self, job: JobId) -> JobId {
        let place = self.order.iter().position(|old| *old == job.index());
        JobId((self.first + place.unwrap_or(job.index())) as u32)
    }

    /// Returns how many jobs exchanged their numbers.
    pub fn exchanged(&self) -> u64 {
        let moved = self.order.iter().enumerate();
        moved.filter(|(place, old)| place != *old).count() as u64
    }

    /// Returns the case under the new numbers.
    pub fn apply(&self, script: &Script) -> Script {
        let mut renamed = script.clone();
        let job = |old: &usize| script.jobs[*old].clone();
        renamed.jobs = self.order.iter().map(job).collect();
        for (_, what) in &mut renamed.outside {
            // Jobs are submitted in order of their numbers, whichever jobs have them.
            if let Outside::Cancel(job) | Outside::Hold(job, _) = what {
                job.0 = self.number(*job).0 - self.first as u32;
            }
        }
        renamed.order.clone_from(&self.order);
        renamed.numbered_from(self.first)
    }

    /// Returns what a journal of the case under new numbers decides, with the numbers of the case.
    pub fn acts(&self, journal: &[Input]) -> Vec<Acts> {
        acts(journal, |job| self.old(job))
    }
}

/// The acts of a scheduler at a moment.
#[derive(Debug, PartialEq)]
pub(crate) struct Acts(Time, Vec<String>);

impl fmt::Display for Acts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {} s: {}", self.0, self.1.join(", "))
    }
}

/// Returns what a journal decides about jobs, except for the reasons. Decisions without effect are
/// left out. Acts of one moment are in order of their texts.
pub(crate) fn acts(journal: &[Input], name: impl Fn(JobId) -> JobId) -> Vec<Acts> {
    let decided = journal.iter().filter_map(|input| {
        let Input::Decided { at, decision, .. } = input else {
            return None;
        };
        let answers = decision.admissions.iter().filter_map(|(job, answer)| {
            let job = name(*job);
            Some(match answer {
                AdmissionDecision::Accept { .. } => format!("accept job {job}"),
                AdmissionDecision::Reject(_) => format!("reject job {job}"),
                AdmissionDecision::Defer(_) => return None,
            })
        });
        let steps = decision.plan.actions.iter().map(|step| {
            let mut step = step.clone();
            if let Action::Stop { job, why } | Action::Finish { job, why } = &mut step {
                (*job, *why) = (name(*job), Reason::NotChosen);
            }
            if let Action::Place { job, .. }
            | Action::Promote { job }
            | Action::Notify { job, .. } = &mut step
            {
                *job = name(*job);
            }
            action(&step)
        });
        let mut acts: Vec<String> = answers.chain(steps).collect();
        acts.sort_unstable();
        (!acts.is_empty()).then_some(Acts(*at, acts))
    });
    decided.collect()
}
