//! The genetic search.

use super::ideal::Ideal;
use super::problem::{Draw, Matrix, Problem};
use blox_core::{JobId, NodeId};
use serde::{Deserialize, Serialize};

/// Allocations kept from round to round, and the random generator of the search.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Population {
    draw: Draw,
    jobs: Vec<JobId>,
    nodes: Vec<NodeId>,
    /// Allocations, the best first.
    all: Vec<Matrix>,
}

impl Population {
    pub fn seeded(seed: u64) -> Self {
        Population {
            draw: Draw(seed ^ 0x706f_6c6c_7578_0001),
            jobs: Vec::new(),
            nodes: Vec::new(),
            all: Vec::new(),
        }
    }

    /// Returns the best allocation found; `fitness` is the fitness of the current one. The search
    /// ends if no allocation can be better.
    pub fn search(&mut self, problem: &mut Problem, fitness: f64) -> Matrix {
        let ideal = Ideal::of(problem, true);
        if ideal.is_reached_by(fitness) {
            return problem.current.clone();
        }
        let size = problem.settings.population.max(2);
        let mut all = self.adapted(problem);
        all.insert(0, problem.current.clone());
        all.extend(ideal.on_nodes(problem));
        while all.len() < size {
            let mut new = all[self.draw.below(all.len())].clone();
            problem.mutate(&mut new, &mut self.draw);
            all.push(new);
        }
        let mut scored: Vec<(f64, Matrix)> = Vec::with_capacity(2 * size);
        for mut matrix in all {
            problem.repair(&mut matrix, &mut self.draw);
            scored.push((problem.fitness(&matrix), matrix));
        }
        rank(&mut scored, size);
        let mut idle = 0;
        for _ in 0..problem.settings.generations {
            let best = scored[0].0;
            if ideal.is_reached_by(best) {
                break;
            }
            for _ in 0..size {
                let mut child = self.cross(&scored, size, problem);
                problem.mutate(&mut child, &mut self.draw);
                problem.repair(&mut child, &mut self.draw);
                scored.push((problem.fitness(&child), child));
            }
            rank(&mut scored, size);
            idle = if scored[0].0 > best { 0 } else { idle + 1 };
            if idle >= problem.settings.patience {
                break;
            }
        }
        self.jobs = problem.jobs.clone();
        self.nodes = problem.workers.iter().map(|w| w.0).collect();
        self.all = scored.into_iter().map(|(_, m)| m).collect();
        self.all[0].clone()
    }

    /// Joins two parents at a job. Each parent is the better of two random allocations.
    fn cross(&mut self, scored: &[(f64, Matrix)], size: usize, problem: &Problem) -> Matrix {
        let mut parent = || {
            // Allocations are sorted: the lower index is the better.
            let (a, b) = (self.draw.below(scored.len()), self.draw.below(scored.len()));
            a.min(b).min(size - 1)
        };
        let (a, b) = (parent(), parent());
        let cut = self.draw.below(problem.jobs.len() + 1) * problem.width();
        let mut child = scored[a].1.clone();
        child[cut..].copy_from_slice(&scored[b].1[cut..]);
        child
    }

    /// Returns the last population, adapted to the current jobs and nodes.
    fn adapted(&self, problem: &Problem) -> Vec<Matrix> {
        let place = |jobs: &[JobId], job: &JobId| jobs.iter().position(|j| j == job);
        let job_of: Vec<Option<usize>> =
            problem.jobs.iter().map(|j| place(&self.jobs, j)).collect();
        let node = |w: &(NodeId, u32, u8)| self.nodes.iter().position(|n| *n == w.0);
        let node_of: Vec<Option<usize>> = problem.workers.iter().map(node).collect();
        let adapt = |old: &Matrix| {
            let mut new = vec![0; problem.current.len()];
            for (j, from) in job_of.iter().enumerate() {
                for (k, column) in node_of.iter().enumerate() {
                    if let (Some(from), Some(column)) = (from, column) {
                        let at = from * self.nodes.len() + column;
                        new[j * problem.width() + k] = old.get(at).copied().unwrap_or(0);
                    }
                }
            }
            new
        };
        self.all.iter().map(adapt).collect()
    }
}

/// Sorts the best first, removes duplicates, and keeps at most `size`.
fn rank(scored: &mut Vec<(f64, Matrix)>, size: usize) {
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    scored.dedup_by(|a, b| a.0 == b.0 && a.1 == b.1);
    scored.truncate(size);
}

#[cfg(test)]
mod tests {
    use super::super::PolluxSettings;
    use super::super::speedup::{Speedups, Worker};
    use super::*;

    /// A problem on nodes of `gpus` GPUs, with the fair share and the most GPUs of each job.
    fn problem(power: f64, gpus: &[u32], jobs: &[(f64, u32)]) -> Problem {
        let settings = PolluxSettings {
            power,
            ..PolluxSettings::DEFAULT
        };
        let worker = |(i, gpus): (usize, &u32)| Worker {
            node: NodeId(i as u32),
            gpu_type: 0,
            gpus: *gpus,
            room: [f64::INFINITY; 2],
        };
        let workers: Vec<Worker> = gpus.iter().enumerate().map(worker).collect();
        let mut problem = Problem::of(&workers, settings);
        for (i, (fair, most)) in jobs.iter().enumerate() {
            let speedups = Speedups::linear(*fair, *most);
            problem.add(JobId(i as u32), speedups, &[(NodeId(0), 1)], 0.5);
        }
        problem
    }

    #[test]
    fn fitness_is_the_power_mean_of_speedups() {
        for (power, expected) in [(1.0, 2.0), (-1.0, 1.5)] {
            // A job that keeps its GPU has no penalty; the penalty of the other is a half.
            let mut problem = problem(power, &[8], &[(1.0, 8), (1.0, 8)]);
            let fitness = problem.fitness(&[1, 6]);
            assert!((fitness - expected).abs() < 0.002, "{fitness}");
        }
    }

    #[test]
    fn allocation_stays_at_levels() {
        let mut problem = problem(-1.0, &[2, 1, 2], &[(1.0, 1)]);
        let mut speedups = Speedups::linear(2.0, 12);
        (speedups.least, speedups.levels) = (2, vec![2, 4]);
        problem.speedups = vec![speedups];
        let found = Population::seeded(0).search(&mut problem, 0.0);
        assert_eq!(found.iter().sum::<u8>(), 4, "{found:?}");
        let cases = [([2, 1, 2], 4), ([2, 1, 0], 2), ([1, 0, 0], 2)];
        for (matrix, expected) in cases {
            let mut matrix: Matrix = matrix.into();
            problem.repair(&mut matrix, &mut Draw(0));
            assert_eq!(matrix.iter().sum::<u8>(), expected, "{matrix:?}");
        }
    }

    #[test]
    fn search_finds_the_best_of_small_cases() {
        let cases = [
            [(1.0, 4), (1.0, 4), (1.0, 4)],
            [(1.0, 1), (2.0, 4), (4.0, 4)],
            [(4.0, 4), (4.0, 4), (0.5, 2)],
        ];
        for (seed, jobs) in cases.iter().enumerate() {
            let mut problem = problem(-1.0, &[2, 3], jobs);
            let ideal = Ideal::of(&mut problem, true);
            let found = Population::seeded(seed as u64).search(&mut problem, 0.0);
            let mut best = 0.0_f64;
            // All numbers from 0 to 3 of three jobs on two nodes.
            for n in 0..4_u32.pow(6) {
                let matrix: Matrix = (0..6).map(|i| (n / 4_u32.pow(i) % 4) as u8).collect();
                if problem.is_feasible(&matrix) {
                    best = best.max(problem.fitness(&matrix));
                }
            }
            assert_eq!(problem.fitness(&found), best, "{jobs:?}");
            assert!(ideal.fitness >= best - 1e-9, "{} {best}", ideal.fitness);
        }
    }
}
