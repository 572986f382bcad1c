//! ElasticFlow's released scheduler (pkusys/ElasticFlow, commit 04a0109) and its baselines.
//!
//! The original is a scheduler and its own simulator in one loop. It plans the end of each job,
//! ends jobs at the planned times, charges overheads to its own estimates, and merges events within
//! a slot. [`run`] therefore runs its programs directly, without a simulation of this toolkit.
//!
//! The original reads its whole trace at the start, and its step near an arrival depends on later
//! arrivals. [`run`] also takes all jobs at once.

mod buddy;
mod chronus;
mod edf;
mod elastic;
mod events;
mod gandiva;
mod job;
mod program;
mod shares;
mod slots;
mod themis;
mod timeline;
mod tiresias;

pub use crate::chronus::ChronusRecord;
pub use buddy::Shape;
pub use chronus::Chronus;
pub use edf::{Edf, EdfAdmission};
pub use elastic::{ElasticFlow, WithoutAdmission};
pub use gandiva::Gandiva;
pub use program::{PlannedEnd, Times};
pub use themis::Themis;
pub use tiresias::Tiresias;

use blox_core::{JobSpec, SortedMap};
use buddy::Spread;
use job::Job;
use program::{Program, Step};
use std::sync::atomic::{AtomicBool, Ordering};

/// Result of a program. Jobs are numbered in order of submission, and times are in seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Jobs that admission control rejected.
    pub rejected: Vec<u32>,
    /// Ends of jobs, in the order in which the program processed them.
    pub ends: Vec<PlannedEnd>,
    /// Allocations of jobs, in order of their start.
    pub allocations: Vec<Allocation>,
    /// Log of [`Chronus`]. Empty for all other programs.
    pub rows: Vec<ChronusRecord>,
    /// Time of the last step.
    pub last_step: f64,
    /// Number of steps.
    pub steps: u64,
}

/// Allocation of a job: the same GPUs from one step to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allocation {
    /// The job.
    pub job: u32,
    /// Number of GPUs.
    pub gpus: u32,
    /// Time of the step that allocated the GPUs.
    pub from: f64,
    /// Time of the step that released the GPUs, moved the job or ended it. If the job still holds
    /// its GPUs, the time of the last step.
    pub to: f64,
}

/// Runs a program on jobs in order of submission until every job is rejected or has ended, or no
/// step is left.
///
/// Returns `None` if `stop` is set before the end.
pub fn run<P: Program>(
    shape: Shape,
    times: Times,
    jobs: &[JobSpec],
    stop: &AtomicBool,
) -> Option<Outcome> {
    let mut jobs: Vec<Job> = jobs.iter().map(Job::of).collect();
    let mut program = P::new(shape, times, &jobs);
    let mut out = Outcome::default();
    let mut open = vec![true; jobs.len()];
    let mut left = jobs.len();
    let mut holders = Holders::new();
    // A program that repeats a time more often than there are jobs never leaves it.
    let mut repeats = 0;
    while left > 0
        && repeats <= jobs.len()
        && let Some(now) = program.due()
    {
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        let mut step = Step::default();
        program.step(now, &mut jobs, &mut step);
        let over = step.ended.iter().map(|e| &e.job).chain(&step.rejected);
        for &job in over {
            left -= usize::from(std::mem::take(&mut open[job as usize]));
        }
        holders = out.hold(now, step.runs, holders);
        out.rejected.append(&mut step.rejected);
        out.ends.append(&mut step.ended);
        let first = out.steps == 0 || now > out.last_step;
        repeats = if first { 0 } else { repeats + 1 };
        (out.last_step, out.steps) = (now, out.steps + 1);
    }
    out.hold(out.last_step, Vec::new(), holders);
    out.rows = program.rows();
    Some(out)
}

/// Jobs that hold GPUs: their row of [`Outcome::allocations`], and their nodes.
type Holders = SortedMap<u32, (usize, Spread)>;

impl Outcome {
    /// Records the jobs that hold GPUs from now on.
    fn hold(&mut self, now: f64, runs: Vec<(u32, u32, Spread)>, mut before: Holders) -> Holders {
        let mut after = Holders::new();
        for (job, gpus, mut spread) in runs {
            spread.sort_unstable();
            let same = |(row, has): &mut (usize, Spread)| {
                self.allocations[*row].gpus == gpus && *has == spread
            };
            let row = match before.get_mut(&job).is_some_and(same) {
                true => before.remove(&job).map_or(0, |(row, _)| row),
                false => {
                    let (from, to) = (now, now);
                    self.allocations.push(Allocation {
                        job,
                        gpus,
                        from,
                        to,
                    });
                    self.allocations.len() - 1
                }
            };
            after.insert(job, (row, spread));
        }
        for (row, _) in before.into_values() {
            self.allocations[row].to = now;
        }
        after
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::{GpuCount, Seconds, Time};

    /// A program that repeats its first time `left` times, then ends its job a second later.
    struct Repeats {
        left: u32,
        done: bool,
    }

    impl Program for Repeats {
        fn new(_: Shape, times: Times, _: &[Job]) -> Self {
            let left = times.check as u32;
            Repeats { left, done: false }
        }

        fn due(&self) -> Option<f64> {
            Some(f64::from(u8::from(self.done)))
        }

        fn step(&mut self, now: f64, _: &mut [Job], out: &mut Step) {
            if self.done {
                out.end(0, now, now, false);
            }
            self.done |= self.left == 0;
            self.left = self.left.saturating_sub(1);
        }
    }

    fn repeat(times: u32) -> Outcome {
        let shape = Shape {
            switches: 1,
            nodes_per_switch: 1,
            gpus_per_node: 1,
        };
        let job = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(1.0));
        let never = AtomicBool::new(false);
        run::<Repeats>(shape, f64::from(times).into(), &[job], &never).unwrap()
    }

    #[test]
    fn a_moment_repeated_once_per_job_is_left() {
        let outcome = repeat(1);
        assert_eq!((outcome.ends.len(), outcome.steps), (1, 3));
    }

    #[test]
    fn a_moment_repeated_for_ever_ends_the_run() {
        let outcome = repeat(u32::MAX);
        assert_eq!((outcome.ends.len(), outcome.steps), (0, 3));
    }
}
