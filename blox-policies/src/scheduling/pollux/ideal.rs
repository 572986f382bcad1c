//! The best numbers of GPUs if any GPUs could be combined.

use super::problem::{Matrix, Problem};
use blox_solve::{Alternative, Choices};
use std::cmp::Reverse;

/// The best number of GPUs of each job, and the fitness with it. No allocation to nodes has a higher
/// fitness.
pub(super) struct Ideal {
    pub fitness: f64,
    /// Type and number of GPUs of each job.
    counts: Vec<Option<(u32, u32)>>,
}

impl Ideal {
    /// Computes the best numbers of GPUs. Without penalties, restarts are free.
    pub fn of(problem: &mut Problem, penalties: bool) -> Self {
        let mut capacities: Vec<u32> = Vec::new();
        for &(_, gpu_type, gpus) in &problem.workers {
            let t = gpu_type as usize;
            capacities.resize(capacities.len().max(t + 1), 0);
            capacities[t] += u32::from(gpus) * u32::from(problem.per_gpu);
        }
        let nothing = problem.powered(0.0);
        let sign = problem.settings.power.signum();
        // On several types, the program of hundreds of jobs is too large to be solved in each round.
        let mut program = Choices::within(&capacities).with_width(1 << 16);
        for job in 0..problem.jobs.len() {
            let penalty = if penalties {
                problem.penalties[job]
            } else {
                1.0
            };
            let each = u32::from(problem.each[job]);
            let (least, most) = (problem.speedups[job].least, problem.speedups[job].most);
            // GPUs of each type, and of its largest node, for which there are CPUs and memory.
            let mut possible = vec![(0, 0); capacities.len()];
            for (worker, most) in problem.workers.iter().zip(problem.most_on_each(job)) {
                let (sum, largest) = &mut possible[worker.1 as usize];
                *sum += u32::from(most);
                *largest = u32::from(most).max(*largest);
            }
            let mut alternatives = Vec::new();
            let mut add = |problem: &Problem, gpu_type: u32, gpus: u32, speedup: f64| {
                alternatives.push(Alternative {
                    cost: sign * (nothing - problem.powered(speedup)),
                    resource: gpu_type as usize,
                    amount: gpus * each,
                });
            };
            for (t, (capacity, largest)) in possible.iter().enumerate() {
                let speedups = &mut problem.speedups[job];
                if speedups.types.get(t) != Some(&true) {
                    continue;
                }
                for gpus in least.max(1)..=most.min(*capacity) {
                    let speedups = &mut problem.speedups[job];
                    if speedups.at_most(gpus) != gpus {
                        continue;
                    }
                    // More than one node is the same for any number of them.
                    let one = match gpus <= *largest {
                        true => speedups.at(t as u32, 1, gpus),
                        false => 0.0,
                    };
                    let two = match gpus {
                        1 => 0.0,
                        _ => speedups.at(t as u32, 2, gpus),
                    };
                    add(problem, t as u32, gpus, one.max(two) * penalty);
                }
            }
            let has = problem.row(job, &problem.current).to_vec();
            if let Some((gpu_type, gpus)) = problem.kind(&has) {
                let speedup = problem.speedup(job, &has);
                add(problem, gpu_type, gpus, speedup);
            }
            let suggested = alternatives.len().checked_sub(1);
            let group = program.group(alternatives);
            if let Some(last) = suggested.filter(|_| has.iter().any(|gpus| *gpus > 0)) {
                program.suggest(group, last);
            }
        }
        let Some(best) = program.solve().ok().filter(|best| best.proven) else {
            return Ideal {
                fitness: f64::INFINITY,
                counts: Vec::new(),
            };
        };
        let kind = |(job, pick): (usize, &Option<usize>)| {
            let a = program.alternative(job, (*pick)?)?;
            Some((a.resource as u32, a.amount / u32::from(problem.each[job])))
        };
        let sum = problem.jobs.len() as f64 * nothing - sign * best.cost;
        Ideal {
            fitness: problem.mean(sum),
            counts: best.of.iter().enumerate().map(kind).collect(),
        }
    }

    /// Returns whether no allocation has a higher fitness.
    pub fn is_reached_by(&self, fitness: f64) -> bool {
        fitness >= self.fitness * (1.0 - 1e-9)
    }

    /// Returns an allocation to nodes with these numbers, to the extent that they fit. Jobs keep
    /// their nodes if they keep their numbers.
    pub fn on_nodes(&self, problem: &Problem) -> Option<Matrix> {
        let mut matrix = vec![0; problem.current.len()];
        let mut free = problem.all_free();
        let width = problem.width();
        let mut moved = Vec::new();
        for (job, kind) in self.counts.iter().enumerate() {
            let Some((gpu_type, gpus)) = *kind else {
                continue;
            };
            let has = problem.row(job, &problem.current);
            if problem.kind(has) == *kind {
                matrix[job * width..][..width].copy_from_slice(has);
                for (free, count) in free.iter_mut().zip(has) {
                    *free = free.saturating_sub(u16::from(*count) * problem.each[job]);
                }
            } else {
                moved.push((Reverse(gpus), gpu_type, job));
            }
        }
        moved.sort_unstable();
        for (Reverse(gpus), gpu_type, job) in moved {
            let row = &mut matrix[job * width..][..width];
            let suits = |at: &usize| problem.workers[*at].1 == gpu_type;
            // The fullest node with room, else the emptiest nodes.
            let whole = (0..width)
                .filter(suits)
                .filter(|at| u32::from(problem.room(job, *at, free[*at])) >= gpus);
            let nodes = match whole.min_by_key(|at| free[*at]) {
                Some(at) => vec![at],
                None => {
                    let mut nodes: Vec<usize> = (0..width).filter(suits).collect();
                    nodes.sort_by_key(|at| Reverse(free[*at]));
                    nodes
                }
            };
            let mut rest = gpus;
            for at in nodes {
                let part = rest.min(u32::from(problem.room(job, at, free[at]))) as u8;
                row[at] = part;
                free[at] -= u16::from(part) * problem.each[job];
                rest -= u32::from(part);
            }
        }
        (!self.counts.is_empty()).then_some(matrix)
    }
}
