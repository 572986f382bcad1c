use super::super::instance::{Allocation, Instance, SharePolicy, Usage};
use super::super::merged::Merged;
use super::super::program::ShareProgram;
use super::Knowledge;
use super::max_min::kinds;
use blox_core::Stateless;
use blox_solve::{Program, SolveError};

/// Maximizes the iterations per second over all jobs, each divided by the cost of its GPUs (Gavel,
/// section 4.2).
///
/// Cheap types go to the jobs that benefit most. Unfair by design. With deadlines, each job also
/// gets the throughput with which it ends in time. If not all jobs can, deadlines are ignored in
/// this round.
#[derive(Clone, Copy, Debug, Default)]
pub struct MaxSumThroughput {
    knowledge: Knowledge,
    costs: bool,
    deadlines: bool,
}

impl MaxSumThroughput {
    /// Creates the policy with a knowledge of speeds ([`Knowledge::Nothing`] counts as
    /// [`Knowledge::Types`]).
    pub fn new(knowledge: Knowledge) -> Self {
        MaxSumThroughput {
            knowledge,
            ..MaxSumThroughput::default()
        }
    }

    /// Divides throughput by the [price](super::super::TypePool::price) of the type.
    #[must_use]
    pub fn by_cost(mut self) -> Self {
        self.costs = true;
        self
    }

    /// Respects deadlines.
    #[must_use]
    pub fn in_time(mut self) -> Self {
        self.deadlines = true;
        self
    }

    fn program<'a>(&self, kinds: &'a Merged) -> ShareProgram<'a> {
        let instance = &kinds.instance;
        let mut program =
            ShareProgram::of_kinds(Program::maximise(), kinds, |i, k| instance.jobs[i].rates[k]);
        let on: Vec<(blox_solve::Var, usize)> =
            program.vars().iter().map(|(_, k, v)| (*v, *k)).collect();
        for i in 0..instance.jobs.len() {
            for (var, rate) in program.throughput(i, program.copies(i)) {
                let price = self.price(instance, on[var.index()].1);
                program.program.add_weight(var, rate / price);
            }
        }
        program
    }
}

impl Stateless for MaxSumThroughput {}

impl SharePolicy for MaxSumThroughput {
    fn allocate(&self, (): &mut (), instance: &Instance) -> Result<Allocation, SolveError> {
        if instance.jobs.is_empty() {
            return Ok(Allocation::default());
        }
        // Deadlines make jobs different.
        let kinds = match self.deadlines {
            true => Merged::apart(instance),
            false => kinds(instance, Knowledge::Types, true),
        };
        let mut lp = self.program(&kinds);
        let free = lp.program.clone();
        if self.deadlines {
            for (i, job) in instance.jobs.iter().enumerate() {
                if let Some(due) = job.due.filter(|_| job.left > 0.0) {
                    // If the job is already late, no throughput suffices.
                    let needed = if due > 0.0 { job.left / due } else { f64::MAX };
                    let row = lp.throughput(i, 1.0 / needed);
                    lp.program.at_least(&row, 1.0);
                }
            }
        }
        let solution = match lp.solve() {
            Err(SolveError::Infeasible | SolveError::Failed { .. } | SolveError::Limit { .. })
                if self.deadlines =>
            {
                lp.program = free;
                lp.solve()?
            }
            other => other?,
        };
        Ok(kinds.spread(instance, lp.read(&solution)))
    }

    fn usage(&self) -> Usage {
        Usage {
            blind: false,
            work_left: self.deadlines,
            ..self.knowledge.usage()
        }
    }

    fn objective(&self, (): &(), instance: &Instance, allocation: &Allocation) -> Option<f64> {
        let mut sum = 0.0;
        for job in &instance.jobs {
            let who = super::super::instance::Combination::single(job.id);
            if let Some(x) = allocation.get(who) {
                sum += self.worth(instance, x, |k| job.rates[k]);
            }
        }
        for pair in &instance.pairs {
            if let Some(x) = allocation.get(instance.combination(pair)) {
                sum += self.worth(instance, x, |k| pair.rates[k][0] + pair.rates[k][1]);
            }
        }
        Some(sum)
    }
}

impl MaxSumThroughput {
    fn price(&self, instance: &Instance, kind: usize) -> f64 {
        match self.costs {
            true => instance.types[kind].price,
            false => 1.0,
        }
    }

    fn worth(&self, instance: &Instance, x: &[f64], rate: impl Fn(usize) -> f64) -> f64 {
        let each = x.iter().enumerate();
        each.map(|(k, x)| x * rate(k) / self.price(instance, k))
            .sum()
    }
}
