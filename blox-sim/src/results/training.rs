//! Metrics of training jobs that are resized while they train.

use super::JobResult;
use blox_core::{Assignment, Seconds, Time, sort};
use serde::{Deserialize, Serialize};

/// Resources allocated to a training job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Given {
    /// GPU-seconds: the sum of number of GPUs x allocated time. A GPU counts in full, even if the job
    /// has only a part of it. An allocation lasts from its plan until the plan that releases it, a
    /// crash, a failed launch, or the job's end. Includes the time of launches.
    pub gpu: Seconds,
    /// Number of allocations after the first: of other GPUs, or after a stop, a crash or a failed
    /// launch.
    pub restarts: u32,
}

/// Accounts for the resources allocated to a job.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    given: Given,
    started: bool,
    has: Option<(Time, Assignment)>,
}

impl Account {
    pub fn gives(&mut self, at: Time, assignment: &Assignment) {
        let same = |(_, has): &(Time, Assignment)| has.same_gpus(assignment);
        if self.has.as_ref().is_some_and(same) {
            return;
        }
        self.takes(at);
        self.given.restarts += u32::from(self.started);
        self.started = true;
        self.has = Some((at, assignment.clone()));
    }

    pub fn takes(&mut self, at: Time) {
        if let Some((since, has)) = self.has.take() {
            self.given.gpu += (at - since) * f64::from(has.count().get());
        }
    }

    /// Returns the resources allocated until the job's end.
    pub fn close(mut self, at: Time) -> Given {
        self.takes(at);
        self.given
    }
}

/// Number of jobs in the system, running or waiting, over time; or another amount that changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contention {
    /// Times of the changes, ascending, each with the amount from then on and the integral until
    /// then.
    steps: Vec<(f64, f64, f64)>,
}

impl Contention {
    /// Computes the contention from all jobs of a simulation. Jobs that have not ended stay until
    /// the end.
    pub fn of(jobs: &[JobResult]) -> Self {
        let begin = jobs.iter().map(|job| (job.submit.secs(), 1.0));
        let end = jobs
            .iter()
            .filter_map(|job| Some((job.finish?.secs(), -1.0)));
        Self::of_changes(begin.chain(end))
    }

    /// Computes an amount over time from its changes `(seconds, difference)`, in any order. The
    /// amount starts at 0.
    pub fn of_changes(changes: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let mut changes: Vec<(f64, f64)> = changes.into_iter().collect();
        sort::by(&mut changes, |a, b| a.0.total_cmp(&b.0));
        let mut steps: Vec<(f64, f64, f64)> = Vec::new();
        for (at, change) in changes {
            match steps.last_mut() {
                Some(last) if last.0 == at => last.1 += change,
                Some(&mut (before, level, sum)) => {
                    steps.push((at, level + change, sum + (at - before) * level));
                }
                None => steps.push((at, change, 0.0)),
            }
        }
        Contention { steps }
    }

    /// Returns the maximum.
    pub fn most(&self) -> u64 {
        self.steps.iter().map(|s| s.1).fold(0.0, f64::max) as u64
    }

    /// Returns the mean from the first submission to the last change.
    pub fn mean(&self) -> f64 {
        match (self.steps.first(), self.steps.last()) {
            (Some(first), Some(last)) => self.between(first.0, last.0),
            _ => 0.0,
        }
    }

    /// Returns the mean from `from` to `to`, in seconds; for an empty period, the amount at its
    /// start.
    pub fn between(&self, from: f64, to: f64) -> f64 {
        let at = |t: f64| {
            let above = self.steps.partition_point(|s| s.0 <= t);
            above.checked_sub(1).map(|i| self.steps[i])
        };
        let integral = |t: f64| at(t).map_or(0.0, |(at, level, sum)| sum + (t - at) * level);
        if to > from {
            (integral(to) - integral(from)) / (to - from)
        } else {
            at(from).map_or(0.0, |s| s.1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::{GpuId, JobId};

    #[test]
    fn contention_is_the_mean_of_jobs_in_the_system() {
        let job = |i: u32, submit: f64, finish: Option<f64>| JobResult {
            job: JobId(i),
            submit: Time::new(submit),
            finish: finish.map(Time::new),
            ..JobResult::default()
        };
        let jobs = [
            job(0, 0.0, Some(10.0)),
            job(1, 5.0, Some(15.0)),
            job(2, 10.0, Some(20.0)),
        ];
        let c = Contention::of(&jobs);
        // 1 for 5 s, 2 for 10 s (one job leaves as another one arrives), 1 for 5 s.
        assert_eq!((c.most(), c.mean()), (2, 1.5));
        assert_eq!(c.between(0.0, 10.0), 1.5);
        assert_eq!(c.between(5.0, 15.0), 2.0);
        assert_eq!(c.between(7.0, 7.0), 2.0);
        assert_eq!(Contention::of(&[]).mean(), 0.0);
    }

    #[test]
    fn given_time_counts_from_plan_to_plan() {
        let on = |gpus: &[u32]| Assignment::of(gpus.iter().map(|g| GpuId(*g)));
        let mut account = Account::default();
        account.gives(Time::new(60.0), &on(&[0]));
        account.gives(Time::new(90.0), &on(&[0]));
        account.gives(Time::new(120.0), &on(&[1, 2]));
        account.takes(Time::new(180.0));
        account.gives(Time::new(240.0), &on(&[1, 2]));
        let given = account.close(Time::new(250.0));
        assert_eq!(given.gpu, Seconds::new(60.0 + 120.0 + 20.0));
        assert_eq!(given.restarts, 2);
    }
}
