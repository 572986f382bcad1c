use super::super::instance::{
    Allocation, Combination, Entrant, Instance, PerType, SharePolicy, TypePool, Usage,
};
use super::assignment::cheapest;
use blox_core::{JobId, Name, Policy, SortedMap, sort};
use blox_solve::SolveError;
use serde::{Deserialize, Serialize};

/// Minimizes the average completion time over GPU types (AlloX, EuroSys 2020).
///
/// Waiting jobs are matched with positions in the queues of free GPUs at least cost. The k-th
/// position from the end of a queue costs k times the job's time on that GPU. The first job of each
/// queue starts, and keeps its type until it ends. All others are matched again each time. A GPU
/// stays idle if it is cheaper to wait for a faster one.
///
/// For fairness, only the oldest fraction `alpha` of the waiting jobs is matched, but at least as
/// many as there are free GPUs.
///
/// The paper's jobs have one GPU. Here a job of s GPUs takes one position, and starts if s GPUs of
/// the type are free. Until then, no later job starts on that type.
#[derive(Clone, Debug)]
pub struct AlloX {
    alpha: f64,
}

/// GPU type of each job that started.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Started {
    on: SortedMap<JobId, Name>,
}

impl AlloX {
    /// Creates the policy with the fraction of waiting jobs to match, above 0 and at most 1.
    pub fn new(alpha: f64) -> Self {
        AlloX { alpha }
    }

    /// Starts the first jobs of the queues of free GPUs.
    fn start(&self, on: &mut SortedMap<JobId, Name>, instance: &Instance) {
        let mut free: Vec<u32> = instance.types.iter().map(|t| t.gpus).collect();
        let mut waiting: Vec<&Entrant> = Vec::new();
        for job in &instance.jobs {
            match on.get(&job.id).and_then(|name| of_name(instance, name)) {
                Some(kind) => free[kind] = free[kind].saturating_sub(job.gpus),
                None => waiting.push(job),
            }
        }
        sort::by(&mut waiting, |a, b| b.age.total_cmp(&a.age));
        let matched = (self.alpha * waiting.len() as f64) as usize;
        waiting.truncate(matched.max(free.iter().sum::<u32>() as usize));
        for (row, kind) in heads(&waiting, &free, &instance.types) {
            let job = waiting[row];
            if job.gpus <= free[kind] {
                free[kind] -= job.gpus;
                on.insert(job.id, instance.types[kind].name.clone());
            } else {
                free[kind] = 0;
            }
        }
    }
}

/// A position in the queue of a free GPU.
#[derive(Clone, Copy, Debug)]
struct Position {
    kind: usize,
    gpu: usize,
    /// Number of jobs behind it.
    behind: usize,
}

/// Returns the first job of each queue, in order of the jobs, with its type.
fn heads(waiting: &[&Entrant], free: &[u32], types: &[TypePool]) -> Vec<(usize, usize)> {
    let mut positions: Vec<Position> = Vec::new();
    for (kind, gpus) in free.iter().map(|gpus| *gpus as usize).enumerate() {
        // GPUs of a type are equal, so the lengths of their queues differ by at most one.
        let rows = if gpus > 0 { waiting.len() } else { 0 };
        positions.extend((0..rows.next_multiple_of(gpus.max(1))).map(|i| Position {
            kind,
            gpu: i % gpus,
            behind: i / gpus,
        }));
    }
    if positions.is_empty() {
        return Vec::new();
    }
    let rate = |row: usize, kind: usize| {
        let job = waiting[row];
        match job.gpus <= types[kind].gpus {
            true => job.rates[kind],
            false => 0.0,
        }
    };
    let cost = |row: usize, column: usize| {
        let rate = rate(row, positions[column].kind);
        let rate = if rate == 0.0 { 1e-10 } else { rate };
        (positions[column].behind + 1) as f64 * (waiting[row].left / rate)
    };
    let columns = cheapest(waiting.len(), positions.len(), cost);
    let mut first: SortedMap<(usize, usize), (usize, usize)> = SortedMap::new();
    for (row, column) in columns.into_iter().enumerate() {
        let Position { kind, gpu, behind } = positions[column];
        // A forced match on a type where the job cannot run is ignored.
        if rate(row, kind) > 0.0 {
            let head = first.entry((kind, gpu)).or_insert((behind, row));
            *head = (*head).max((behind, row));
        }
    }
    let first = first.iter().map(|((kind, _), (_, row))| (*row, *kind));
    let mut first: Vec<(usize, usize)> = first.collect();
    first.sort_unstable();
    first
}

/// Returns the index of a type.
fn of_name(instance: &Instance, name: &Name) -> Option<usize> {
    instance.types.iter().position(|t| t.name == *name)
}

impl Policy for AlloX {
    type Memory = Started;

    fn initial(&self, _: u64) -> Started {
        Started::default()
    }
}

impl SharePolicy for AlloX {
    fn allocate(
        &self,
        memory: &mut Self::Memory,
        instance: &Instance,
    ) -> Result<Allocation, SolveError> {
        let there = |id: &JobId, name: &Name| {
            instance.position(*id).is_some() && of_name(instance, name).is_some()
        };
        memory.on.retain(|id, name| there(id, name));
        self.start(&mut memory.on, instance);
        let row = |id: JobId| {
            let mut x = PerType::from_elem(0.0, instance.types.len());
            let kind = memory.on.get(&id).and_then(|name| of_name(instance, name));
            kind.into_iter().for_each(|kind| x[kind] = 1.0);
            (Combination::single(id), x)
        };
        let all = instance.jobs.iter().map(|j| row(j.id));
        Ok(Allocation::of(all.collect()))
    }

    fn usage(&self) -> Usage {
        Usage {
            // A job on an idle GPU would have to move when it is matched.
            conserves_work: false,
            ..Usage::default()
        }
    }
}
