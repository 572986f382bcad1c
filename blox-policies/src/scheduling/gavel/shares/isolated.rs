use super::super::instance::{Allocation, Combination, Instance, PerType, SharePolicy, Usage};
use blox_core::Stateless;
use blox_solve::SolveError;

/// Each of m jobs gets the same share of every type, as in its own cluster of one m-th the size.
#[derive(Clone, Copy, Debug, Default)]
pub struct Isolated;

impl Stateless for Isolated {}

impl SharePolicy for Isolated {
    fn allocate(&self, (): &mut (), instance: &Instance) -> Result<Allocation, SolveError> {
        let rows = instance.jobs.iter().enumerate();
        Ok(Allocation::of(
            rows.map(|(i, j)| (Combination::single(j.id), isolated(instance, i)))
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

/// The isolated fractions of a job among all jobs of an instance.
pub(crate) fn isolated(instance: &Instance, job: usize) -> PerType {
    equal_part(instance, instance.jobs.len(), instance.jobs[job].gpus)
}

/// Returns one of `count` equal shares for a row with `gpus` GPUs.
pub(crate) fn equal_part(instance: &Instance, count: usize, gpus: u32) -> PerType {
    let each = |gpus_of_type: u32| f64::from(gpus_of_type) / count as f64 / f64::from(gpus);
    let mut x: PerType = instance.types.iter().map(|t| each(t.gpus)).collect();
    let sum = x.iter().sum::<f64>().max(1.0);
    x.iter_mut().for_each(|x| *x /= sum);
    x
}

/// Iterations per second of a job in isolation.
pub(crate) fn isolated_throughput(instance: &Instance, rates: &[f64], job: usize) -> f64 {
    super::super::instance::dot(&isolated(instance, job), rates)
}
