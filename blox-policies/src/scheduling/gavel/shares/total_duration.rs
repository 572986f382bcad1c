use super::super::instance::{Allocation, Instance, SharePolicy, Usage};
use super::super::program::ShareProgram;
use super::Knowledge;
use blox_core::Stateless;
use blox_solve::{Program, SolveError, Var};

/// Minimizes the time in which all jobs can end (Gavel's makespan policy, section 4.2).
///
/// All jobs get the throughput with which they end together as early as possible.
#[derive(Clone, Copy, Debug, Default)]
pub struct MinTotalDuration {
    knowledge: Knowledge,
}

impl MinTotalDuration {
    /// Creates the policy with a knowledge of speeds.
    pub fn new(knowledge: Knowledge) -> Self {
        MinTotalDuration { knowledge }
    }

    /// Returns the program. It maximizes the inverse of the duration, in units of `unit` seconds.
    pub fn program<'a>(&self, instance: &'a Instance, unit: f64) -> (ShareProgram<'a>, Var) {
        let mut lp = ShareProgram::new(Program::maximise(), instance, |i, k| {
            self.knowledge.rate_as_reference(instance, i, k)
        });
        let speed = lp.program.real(1.0, f64::NEG_INFINITY, f64::INFINITY);
        for (i, job) in instance.jobs.iter().enumerate() {
            if job.left > 0.0 {
                let mut row = lp.throughput(i, unit / job.left);
                row.push((speed, -1.0));
                lp.program.at_least(&row, 0.0);
            }
        }
        (lp, speed)
    }

    /// Seconds that the longest job takes alone: the magnitude of the solution.
    pub fn unit(&self, instance: &Instance) -> f64 {
        let alone = |(i, job): (usize, &super::super::instance::Entrant)| {
            let rates =
                (0..instance.types.len()).map(|k| self.knowledge.rate_as_reference(instance, i, k));
            let best = rates.fold(0.0, f64::max);
            if best > 0.0 { job.left / best } else { 0.0 }
        };
        let longest = instance.jobs.iter().enumerate().map(alone);
        longest.fold(1e-9, f64::max)
    }
}

impl Stateless for MinTotalDuration {}

impl SharePolicy for MinTotalDuration {
    fn allocate(&self, (): &mut (), instance: &Instance) -> Result<Allocation, SolveError> {
        if instance.jobs.iter().all(|j| j.left <= 0.0) {
            return Ok(Allocation::default());
        }
        let (lp, _) = self.program(instance, self.unit(instance));
        let solution = lp.solve()?;
        Ok(lp.read(&solution))
    }

    fn usage(&self) -> Usage {
        Usage {
            work_left: true,
            ..self.knowledge.usage()
        }
    }

    fn objective(&self, (): &(), instance: &Instance, allocation: &Allocation) -> Option<f64> {
        let duration =
            |i: usize| instance.jobs[i].left / self.knowledge.speed(instance, allocation, i);
        (0..instance.jobs.len()).map(duration).reduce(f64::max)
    }
}
