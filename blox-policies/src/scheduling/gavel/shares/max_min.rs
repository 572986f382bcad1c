use super::super::instance::{Allocation, Instance, PerType, SharePolicy, Usage, dot};
use super::super::merged::Merged;
use super::super::program::ShareProgram;
use super::Knowledge;
use super::proportional::proportional;
use blox_core::Stateless;
use blox_solve::{Program, SolveError, Var};

/// Max-min fairness (Gavel's LAS, section 4.1): maximizes the level of the worst-off job.
///
/// The level of a job is its normalised throughput times its GPUs, divided by its weight. The
/// normalisation divides by the throughput that the job would have if it spent its time on all
/// types in proportion to their numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct MaxMinFairness {
    knowledge: Knowledge,
}

impl MaxMinFairness {
    /// Creates the policy with a knowledge of speeds.
    pub fn new(knowledge: Knowledge) -> Self {
        MaxMinFairness { knowledge }
    }
}

impl Stateless for MaxMinFairness {}

impl SharePolicy for MaxMinFairness {
    fn allocate(&self, (): &mut (), instance: &Instance) -> Result<Allocation, SolveError> {
        if instance.jobs.is_empty() {
            return Ok(Allocation::default());
        }
        let kinds = kinds(instance, self.knowledge, true);
        let scale = scales(&kinds.instance, self.knowledge);
        let (mut lp, least) = levels(&kinds, self.knowledge);
        for (i, scale) in scale.iter().enumerate() {
            let mut row = lp.throughput(i, *scale);
            row.push((least, -1.0));
            lp.program.at_least(&row, 0.0);
            lp.own_row(i);
        }
        let solution = lp.solve()?;
        Ok(kinds.spread(instance, lp.read(&solution)))
    }

    fn usage(&self) -> Usage {
        self.knowledge.usage()
    }

    fn objective(&self, (): &(), instance: &Instance, allocation: &Allocation) -> Option<f64> {
        lowest_level(self.knowledge, instance, allocation)
    }
}

/// Merges jobs that a policy cannot distinguish if `alike`; otherwise keeps every job for itself.
pub fn kinds(instance: &Instance, knowledge: Knowledge, alike: bool) -> Merged {
    match alike {
        true => Merged::alike(instance, |i, kind| knowledge.rate(instance, i, kind)),
        false => Merged::apart(instance),
    }
}

/// Returns the program, and the lowest level, which is maximized.
pub(super) fn levels(kinds: &Merged, knowledge: Knowledge) -> (ShareProgram<'_>, Var) {
    let mut lp = ShareProgram::of_kinds(Program::maximise(), kinds, |i, kind| {
        knowledge.rate(&kinds.instance, i, kind)
    });
    let least = lp.program.real(1.0, f64::NEG_INFINITY, f64::INFINITY);
    (lp, least)
}

/// Returns the lowest level under an allocation.
pub(super) fn lowest_level(
    knowledge: Knowledge,
    instance: &Instance,
    allocation: &Allocation,
) -> Option<f64> {
    let scale = scales(instance, knowledge);
    let level = |i: usize| scale[i] * knowledge.throughput(instance, allocation, i);
    (0..instance.jobs.len()).map(level).reduce(f64::min)
}

/// Returns the factor of each job's throughput in its level.
pub fn scales(instance: &Instance, knowledge: Knowledge) -> Vec<f64> {
    let x = proportional(instance);
    let of = |(i, job): (usize, &super::super::instance::Entrant)| {
        let rates: PerType = (0..x.len())
            .map(|k| knowledge.rate(instance, i, k))
            .collect();
        let fair = dot(&x, &rates);
        let fair = if fair > 0.0 { fair } else { 1.0 };
        f64::from(job.gpus) / (job.weight * fair)
    };
    instance.jobs.iter().enumerate().map(of).collect()
}
