//! A program of the original, run one step at a time.

use super::buddy::{Shape, Spread};
use super::job::Job;
use crate::chronus::ChronusRecord;

/// Intervals of a program in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// Length of a slot: the time between two checks of running jobs under Chronus.
    pub check: f64,
    /// Length of a lease of Chronus.
    pub lease: f64,
    /// Time between two passes of Chronus over new and waiting jobs, 240 in the original.
    pub pass: f64,
}

impl From<f64> for Times {
    /// Returns slots of this length, with the original's other intervals.
    fn from(slot: f64) -> Self {
        Times {
            check: slot,
            lease: 240.0,
            pass: 240.0,
        }
    }
}

/// Planned end of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlannedEnd {
    /// The job.
    pub job: u32,
    /// End that counts, in seconds.
    pub at: f64,
    /// Planned end of the work. It is before `at` if plans are made in slots.
    pub exact: f64,
    /// True if the program counts the job as late.
    pub late: bool,
}

/// Result of one step.
#[derive(Clone, Debug, Default)]
pub struct Step {
    pub rejected: Vec<u32>,
    pub ended: Vec<PlannedEnd>,
    /// Jobs that hold GPUs from now on: number of GPUs, and their nodes if the program places jobs.
    pub runs: Vec<(u32, u32, Spread)>,
}

impl Step {
    pub fn end(&mut self, job: u32, at: f64, exact: f64, late: bool) {
        self.ended.push(PlannedEnd {
            job,
            at,
            exact,
            late,
        });
    }
}

/// One of the original's programs, run one step at a time.
pub trait Program: Sized {
    /// Creates the program before its first step. `jobs` are in order of submission.
    fn new(shape: Shape, times: Times, jobs: &[Job]) -> Self;

    /// Returns the time of the next step.
    fn due(&self) -> Option<f64>;

    /// Runs one step of the program's loop at `now`, which is `due`.
    fn step(&mut self, now: f64, jobs: &mut [Job], out: &mut Step);

    /// Returns the program's log.
    fn rows(self) -> Vec<ChronusRecord> {
        Vec::new()
    }
}
