//! Bisection of Gavel's makespan policy, as in its program.

use blox_core::{Policy, Stateless};
use blox_policies::scheduling::gavel::program::ShareProgram;
use blox_policies::scheduling::gavel::shares::{Knowledge, MinTotalDuration};
use blox_policies::scheduling::gavel::{Allocation, Instance, SharePolicy, Usage};
use blox_solve::{Program, SolveError};

/// [`MinTotalDuration`] by bisection.
///
/// The duration is one that the released program tries, at most 5 % above the shortest. The
/// allocation is the central one of all allocations with which all jobs end within that duration.
#[derive(Clone, Debug, Default)]
pub struct BisectedDuration {
    knowledge: Knowledge,
    exact: MinTotalDuration,
}

impl BisectedDuration {
    /// Creates the policy with its throughput knowledge.
    pub fn new(knowledge: Knowledge) -> Self {
        BisectedDuration {
            knowledge,
            exact: MinTotalDuration::new(knowledge),
        }
    }

    /// Returns the shortest duration, and the duration at which the bisection ends.
    ///
    /// # Errors
    /// Fails if the solver finds no solution.
    pub fn durations(&self, instance: &Instance) -> Result<(f64, f64), SolveError> {
        let unit = self.exact.unit(instance);
        let (lp, speed) = self.exact.program(instance, unit);
        let speed = lp.solve()?[speed];
        let shortest = unit / speed;
        if !shortest.is_finite() {
            return Err(SolveError::Infeasible);
        }
        let (mut low, mut high, mut last) = (100.0, 1e6, 1e6);
        let mut found = None;
        while found.is_none() {
            while 1.05 * low < high {
                let middle = (low + high) / 2.0;
                if middle >= shortest {
                    found = Some(middle);
                    high = middle;
                } else {
                    low = middle;
                }
            }
            (low, high, last) = (last, last * 10.0, last * 10.0);
        }
        Ok((shortest, found.unwrap_or(shortest)))
    }
}

impl Stateless for BisectedDuration {}

impl SharePolicy for BisectedDuration {
    fn allocate(&self, (): &mut (), instance: &Instance) -> Result<Allocation, SolveError> {
        if instance.jobs.iter().all(|j| j.left <= 0.0) {
            return Ok(Allocation::default());
        }
        let (_, duration) = self.durations(instance)?;
        let mut lp = ShareProgram::new(Program::minimise(), instance, |i, k| {
            self.knowledge.rate_as_reference(instance, i, k)
        });
        for (i, job) in instance
            .jobs
            .iter()
            .enumerate()
            .filter(|(_, j)| j.left > 0.0)
        {
            let row = lp.throughput(i, 1.0);
            lp.program.at_least(&row, job.left / duration);
        }
        let solution = lp.solve()?;
        Ok(lp.read(&solution))
    }

    fn usage(&self) -> Usage {
        Usage {
            pairs: self.knowledge == Knowledge::Pairs,
            work_left: true,
            ..Usage::default()
        }
    }

    fn objective(&self, (): &(), instance: &Instance, allocation: &Allocation) -> Option<f64> {
        self.exact
            .objective(&self.exact.initial(0), instance, allocation)
    }
}
