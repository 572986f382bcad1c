use super::super::instance::{Allocation, Combination, Instance, PerType, SharePolicy, Usage};
use blox_core::Stateless;
use blox_solve::SolveError;

/// Each job spends all its time on the types, in proportion to their numbers of GPUs.
///
/// With many jobs, this allocates more than exists; the rounds resolve that.
#[derive(Clone, Copy, Debug, Default)]
pub struct Proportional;

impl Stateless for Proportional {}

impl SharePolicy for Proportional {
    fn allocate(&self, (): &mut (), instance: &Instance) -> Result<Allocation, SolveError> {
        let x = proportional(instance);
        let rows = instance.jobs.iter();
        Ok(Allocation::of(
            rows.map(|j| (Combination::single(j.id), x.clone()))
                .collect(),
        ))
    }

    fn usage(&self) -> Usage {
        Usage {
            blind: true,
            ..Usage::default()
        }
    }
}

/// Returns the proportional fractions; 0 if no GPU is usable.
pub(crate) fn proportional(instance: &Instance) -> PerType {
    let m = instance.jobs.len() as f64;
    let mut x: PerType = instance
        .types
        .iter()
        .map(|t| f64::from(t.gpus) / m)
        .collect();
    let sum: f64 = x.iter().sum();
    if sum > 0.0 {
        x.iter_mut().for_each(|x| *x /= sum);
    }
    x
}
