//! AlloX as the released programs compute it.

use blox_core::{JobId, Policy, SortedMap, sort};
use blox_policies::scheduling::gavel::{Allocation, Combination, Instance, PerType, SharePolicy};
use blox_solve::{SolveError, assign};
use serde::{Deserialize, Serialize};

/// AlloX as the released programs compute it.
///
/// Quirks, compared with [`AlloX`](blox_policies::scheduling::AlloX):
/// - Only GPUs that are free have positions. The remaining time of a running job does not count.
/// - A job of several GPUs takes one GPU and gets one part of its time for each of its GPUs. It is
///   matched again each time, and keeps the fractions of earlier matches.
/// - Jobs that are not matched run on idle GPUs, and move when they are matched.
#[derive(Clone, Debug)]
pub struct ReleasedAllox {
    alpha: f64,
}

/// Last allocation of each job.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Matches {
    last: SortedMap<JobId, PerType>,
}

impl ReleasedAllox {
    /// Creates the policy with the fraction of waiting jobs to match, above 0 and at most 1.
    pub fn new(alpha: f64) -> Self {
        ReleasedAllox { alpha }
    }
}

impl Policy for ReleasedAllox {
    type Memory = Matches;

    fn initial(&self, _: u64) -> Matches {
        Matches::default()
    }
}

impl SharePolicy for ReleasedAllox {
    fn allocate(
        &self,
        memory: &mut Self::Memory,
        instance: &Instance,
    ) -> Result<Allocation, SolveError> {
        let n = instance.types.len();
        memory
            .last
            .retain(|id, x| x.len() == n && instance.position(*id).is_some());
        let runs = |id: JobId| {
            let x = memory.last.get(&id)?;
            (x.iter().sum::<f64>() == 1.0).then_some(x)
        };
        let mut gpus: Vec<usize> = Vec::new();
        for (kind, pool) in instance.types.iter().enumerate() {
            let taken = instance.jobs.iter().filter_map(|j| runs(j.id));
            let taken = taken.filter(|x| x[kind] == 1.0).count();
            gpus.extend(std::iter::repeat_n(
                kind,
                (pool.gpus as usize).saturating_sub(taken),
            ));
        }
        let mut waiting: Vec<usize> = (0..instance.jobs.len())
            .filter(|i| runs(instance.jobs[*i].id).is_none())
            .collect();
        sort::by(&mut waiting, |a, b| {
            let age = |i: &usize| instance.jobs[*i].age;
            age(b).total_cmp(&age(a))
        });
        let matched = (self.alpha * waiting.len() as f64) as usize;
        waiting.truncate(matched.max(gpus.len()));
        let (m, free) = (waiting.len(), gpus.len());
        if free > 0 {
            let cost = |row: usize, column: usize| {
                let job = &instance.jobs[waiting[row]];
                let rate = job.rates[gpus[column % free]];
                let rate = if rate == 0.0 { 1e-10 } else { rate };
                (column / free + 1) as f64 * (job.left / rate) + job.age
            };
            let columns = assign(m, m * free, cost);
            // The first job of a queue is the one furthest from its end.
            let mut first: Vec<Option<(usize, usize)>> = vec![None; free];
            for (row, column) in columns.into_iter().enumerate() {
                let Some(column) = column else { continue };
                let (gpu, from_end) = (column % free, column / free);
                // A forced match on a type where the job cannot run is ignored.
                if instance.jobs[waiting[row]].rates[gpus[gpu]] == 0.0 {
                    continue;
                }
                if first[gpu].is_none_or(|(_, k)| from_end > k) {
                    first[gpu] = Some((row, from_end));
                }
            }
            for (gpu, first) in first.into_iter().enumerate() {
                if let Some((row, _)) = first {
                    let job = &instance.jobs[waiting[row]];
                    let x = memory.last.entry(job.id);
                    x.or_insert_with(|| PerType::from_elem(0.0, n))[gpus[gpu]] =
                        1.0 / f64::from(job.gpus);
                }
            }
        }
        let none = PerType::from_elem(0.0, n);
        let row = |id: JobId| {
            let x = memory.last.get(&id).unwrap_or(&none);
            (Combination::single(id), x.clone())
        };
        let all = instance.jobs.iter().map(|j| row(j.id));
        Ok(Allocation::of(all.collect()))
    }
}
