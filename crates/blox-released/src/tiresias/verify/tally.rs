//! Counts per job from the journal of a run.

use crate::log::Reads;
use blox_core::input::Input;
use blox_core::{Action, Event, JobId, Plan, SortedMap, Time};
use std::collections::BTreeSet;

/// Counts of one job as the program defines them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct JobTally {
    /// Number of stops that left the job waiting.
    pub stops: u32,
    /// Number of starts from waiting, including the first one.
    pub starts: u32,
    /// Waiting time in seconds.
    pub pending: f64,
    waits_since: Option<Time>,
}

/// Counts of all jobs.
#[derive(Debug, Default)]
pub(super) struct Tally {
    jobs: SortedMap<JobId, JobTally>,
    /// Times of the last two decisions.
    last: Time,
    before: Option<Time>,
    ended: u32,
    /// Number of ended jobs that waited when they ended.
    ended_waiting: u32,
    counts: SortedMap<Time, Counts>,
}

/// Numbers of jobs after a decision.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub waiting: u32,
    pub running: u32,
    pub ended: u32,
    /// Number of ended jobs that waited when they ended.
    pub ended_waiting: u32,
}

impl Tally {
    pub fn of(&self, job: JobId) -> JobTally {
        self.jobs.get(&job).copied().unwrap_or_default()
    }

    /// Returns the numbers of jobs after the last decision up to a time.
    pub fn counts_at(&self, at: f64) -> Counts {
        let last = self.counts.at_or_before(&Time::new(at));
        last.map_or(Counts::default(), |(_, c)| *c)
    }
}

impl Reads for Tally {
    fn read(&mut self, input: &Input) {
        match input {
            Input::Event {
                at,
                event: Event::Submitted { job, .. },
                ..
            } => {
                let counts = self.jobs.entry(*job).or_default();
                counts.waits_since = Some(*at);
            }
            Input::Event {
                at,
                event: Event::Ended { job, .. },
                ..
            } => self.end(*job, *at),
            Input::Decided { at, decision, .. } => self.decide(*at, &decision.plan),
            _ => {}
        }
    }
}

impl Tally {
    fn end(&mut self, job: JobId, at: Time) {
        self.ended += 1;
        let last = if self.last < at {
            Some(self.last)
        } else {
            self.before
        };
        if let Some(counts) = self.jobs.get_mut(&job)
            && let Some(since) = counts.waits_since.take()
        {
            self.ended_waiting += 1;
            if let Some(last) = last {
                // For a job that ends while it waits, the program counts the wait up to its last
                // pass.
                counts.pending += (last - since).secs().max(0.0);
            }
        }
    }

    fn decide(&mut self, at: Time, plan: &Plan) {
        if at > self.last {
            self.before = Some(self.last);
            self.last = at;
        }
        let placed: BTreeSet<JobId> = plan
            .actions
            .iter()
            .filter(|a| matches!(a, Action::Place { .. }))
            .map(Action::job)
            .collect();
        for action in &plan.actions {
            if let Action::Stop { job, .. } = action
                && !placed.contains(job)
                && let Some(counts) = self.jobs.get_mut(job)
            {
                counts.stops += 1;
                counts.waits_since = Some(at);
            }
        }
        for job in placed {
            // A moved job did not wait.
            if let Some(counts) = self.jobs.get_mut(&job)
                && let Some(since) = counts.waits_since.take()
            {
                counts.starts += 1;
                counts.pending += (at - since).secs();
            }
        }
        let waiting = self.jobs.values().filter(|t| t.waits_since.is_some());
        let waiting = waiting.count() as u32;
        let running = self.jobs.len() as u32 - self.ended - waiting;
        let counts = Counts {
            waiting,
            running,
            ended: self.ended,
            ended_waiting: self.ended_waiting,
        };
        self.counts.insert(at, counts);
    }
}
