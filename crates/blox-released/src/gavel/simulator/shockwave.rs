//! Differences between Shockwave's simulator and Gavel's.

use super::batches::{Adapting, BatchJob};
use super::fairly::FairMarket;
use super::job::Job;
use super::market::Planner;
use blox_core::Stateless;
use blox_policies::scheduling::gavel::{
    Allocation, Chosen, Combination, Instance, PerType, SharePolicy,
};
use blox_solve::SolveError;

/// Differences of Shockwave's program.
///
/// A job that did not run in the previous round loses 20 s. Jobs change their batch. A job ends
/// after one and a half times its duration.
#[derive(Clone, Debug)]
pub struct AsShockwave {
    round: f64,
    jobs: Vec<Adapting>,
    planner: Option<Planner>,
}

/// Seconds that a job loses if it did not run in the previous round.
const OVERHEAD: f64 = 20.0;

impl AsShockwave {
    /// Creates a dialect for rounds of `round` seconds and these jobs, by number.
    pub fn new(round: f64, jobs: Vec<BatchJob>) -> Self {
        let adapting = |job: BatchJob| Adapting {
            batch: job.batch,
            job,
            wish: None,
        };
        AsShockwave {
            round,
            jobs: jobs.into_iter().map(adapting).collect(),
            planner: None,
        }
    }

    /// Plans rounds with Shockwave's own policy, instead of share policies.
    #[must_use]
    pub fn planned_by(mut self, market: FairMarket) -> Self {
        self.planner = Some(Planner::new(market));
        self
    }
}

impl AsShockwave {
    /// Returns the steps and seconds of a quantum after overheads. `new` is true if the job did not
    /// run in the round before, except in the first round of the run.
    pub(super) fn charge(&self, steps: f64, seconds: f64, new: bool) -> (f64, f64) {
        if !new || seconds <= self.round - 5.0 || seconds == 0.0 {
            return (steps.trunc(), seconds);
        }
        let part = (seconds - OVERHEAD) / seconds;
        ((steps * part).trunc(), seconds - OVERHEAD)
    }

    /// Returns true if a job has run for too long.
    pub(super) fn is_overdue(&self, job: &Job) -> bool {
        let known = self.jobs.get(job.id.index());
        // Durations are cut to whole seconds, and so is the limit.
        known.is_some_and(|a| job.ran > (1.5 * a.duration().trunc()).trunc())
    }

    /// Records the arrival of a job at the program's clock.
    pub(super) fn admit(&mut self, job: &Job, clock: f64) {
        if let Some(planner) = &mut self.planner {
            let known = self.jobs.get(job.id.index());
            let profile = known.map_or(&[][..], |a| &a.job.epochs);
            planner.admit(job, profile, clock);
        }
    }

    /// Counts the steps and seconds of a job's quantum, and changes the batch of the job. `rounds`
    /// is the number of rounds planned so far.
    pub(super) fn counted(&mut self, job: &mut Job, rounds: u64, steps: f64, seconds: f64) {
        if let Some(planner) = &mut self.planner {
            let batch = self.jobs.get(job.id.index()).map_or(0, |a| a.batch);
            let rate = if seconds > 0.0 { steps / seconds } else { 0.0 };
            planner.measured(job, rounds, batch, rate);
        }
        if let Some(adapting) = self.jobs.get_mut(job.id.index()) {
            adapting.change(job);
        }
    }

    /// Records the end of a round, with the remaining jobs.
    pub(super) fn round_ended(&mut self, jobs: &[Job], clock: f64) {
        for job in jobs {
            if let Some(adapting) = self.jobs.get_mut(job.id.index()) {
                adapting.wish = adapting.wishes(job.done).or(adapting.wish);
            }
        }
        if let Some(planner) = &mut self.planner {
            planner.round_ended(clock);
        }
    }

    /// Chooses the jobs of the next round. Returns `None` if the share policy chooses them. An
    /// error ends the program.
    pub(super) fn choose(
        &mut self,
        jobs: &[Job],
        free: &[u32],
    ) -> Option<Result<Vec<Chosen>, String>> {
        let planner = self.planner.as_mut()?;
        Some(planner.choose(&self.jobs, jobs, free))
    }
}

/// `gandiva_fair`: every job gets the same fraction of the cluster's time, regardless of its size.
#[derive(Clone, Copy, Debug, Default)]
pub struct EqualTime;

impl Stateless for EqualTime {}

impl SharePolicy for EqualTime {
    fn allocate(&self, (): &mut (), instance: &Instance) -> Result<Allocation, SolveError> {
        let m = instance.jobs.len() as f64;
        let mut x: PerType = instance
            .types
            .iter()
            .map(|t| f64::from(t.gpus) / m)
            .collect();
        let sum = x.iter().sum::<f64>().max(1.0);
        x.iter_mut().for_each(|x| *x /= sum);
        let rows = instance.jobs.iter();
        Ok(Allocation::of(
            rows.map(|j| (Combination::single(j.id), x.clone()))
                .collect(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::{GpuCount, JobId, JobSpec, Seconds, Time};

    #[test]
    fn a_limit_is_of_whole_seconds() {
        let job = BatchJob {
            epochs: vec![(1, 50.5), (1, 50.4)],
            ..BatchJob::default()
        };
        let dialect = AsShockwave::new(100.0, vec![job]);
        let after = |ran| {
            let spec = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(1.0));
            let mut job = Job::of(JobId(0), &spec, &[]);
            job.ran = ran;
            job
        };
        // The limit is one and a half times 100 s instead of 100.9 s.
        assert!(dialect.is_overdue(&after(150.5)));
        assert!(!dialect.is_overdue(&after(150.0)));
    }
}
