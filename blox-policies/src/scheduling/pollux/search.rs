//! The genetic search.

use super::PolluxSettings;
use super::ideal::Ideal;
use super::speedup::{Speedups, Worker};
use crate::splitmix;
use blox_core::{JobId, NodeId, SortedMap};
use serde::{Deserialize, Serialize};

/// GPUs of each worker for each job, job by job.
pub(super) type Matrix = Vec<u8>;

/// Search problem of one round.
pub(super) struct Problem {
    pub workers: Vec<(NodeId, u32, u8)>,
    pub settings: PolluxSettings,
    pub jobs: Vec<JobId>,
    pub speedups: Vec<Speedups>,
    pub penalties: Vec<f64>,
    /// Current GPUs of each job.
    pub current: Matrix,
}

/// Keeps a speedup of 0 from making a harmonic mean 0.
const SMALL: f64 = 1e-3;

impl Problem {
    pub fn of(workers: &[Worker], settings: PolluxSettings) -> Self {
        let worker = |w: &Worker| (w.node, w.gpu_type, w.gpus.min(255) as u8);
        Problem {
            workers: workers.iter().map(worker).collect(),
            settings,
            jobs: Vec::new(),
            speedups: Vec::new(),
            penalties: Vec::new(),
            current: Vec::new(),
        }
    }

    pub fn add(&mut self, job: JobId, speedups: Speedups, has: &[(NodeId, u32)], penalty: f64) {
        self.jobs.push(job);
        self.speedups.push(speedups);
        self.penalties.push(penalty);
        let on = |node: NodeId| has.iter().find(|(n, _)| *n == node).map_or(0, |(_, c)| *c);
        self.current
            .extend(self.workers.iter().map(|w| on(w.0).min(255) as u8));
    }

    pub fn width(&self) -> usize {
        self.workers.len()
    }

    pub fn rows<'m>(&self, matrix: &'m [u8]) -> impl Iterator<Item = &'m [u8]> + use<'m> {
        matrix.chunks(self.width().max(1))
    }

    pub fn row<'m>(&self, job: usize, matrix: &'m [u8]) -> &'m [u8] {
        &matrix[job * self.width()..][..self.width()]
    }

    /// Returns the type and number of GPUs of a row, if it has any.
    pub fn kind(&self, row: &[u8]) -> Option<(u32, u32)> {
        let (mut gpus, mut last) = (0, None);
        each_used(row, |at| {
            gpus += u32::from(row[at]);
            last = Some(at);
        });
        last.map(|at| (self.workers[at].1, gpus))
    }

    pub fn speedup(&mut self, job: usize, row: &[u8]) -> f64 {
        let (mut nodes, mut gpus, mut last) = (0, 0, None);
        each_used(row, |at| {
            nodes += 1;
            gpus += u32::from(row[at]);
            last = Some(at);
        });
        let gpu_type = last.map_or(0, |at| self.workers[at].1);
        self.speedups[job].at(gpu_type, nodes, gpus)
    }

    pub fn fitness(&mut self, matrix: &[u8]) -> f64 {
        let width = self.width();
        let mut sum = 0.0;
        for job in 0..self.jobs.len() {
            let row = &matrix[job * width..(job + 1) * width];
            let mut s = self.speedup(job, row);
            if *row != self.current[job * width..(job + 1) * width] {
                s *= self.penalties[job];
            }
            sum += self.powered(s);
        }
        self.mean(sum)
    }

    /// Returns the power of a job's speedup.
    pub fn powered(&self, speedup: f64) -> f64 {
        let s = speedup + SMALL;
        match self.settings.power {
            -1.0 => 1.0 / s,
            power => libm::pow(s, power),
        }
    }

    /// Returns the fitness with a sum of powers.
    pub fn mean(&self, sum: f64) -> f64 {
        let mean = sum / self.jobs.len() as f64;
        match self.settings.power {
            -1.0 => 1.0 / mean,
            power => libm::pow(mean, 1.0 / power),
        }
    }

    /// Sum of the speedups over one GPU, divided by the number of GPUs of the cluster.
    pub fn utility(&mut self, matrix: &[u8]) -> f64 {
        let width = self.width();
        let total: u32 = self.workers.iter().map(|w| u32::from(w.2)).sum();
        let mut sum = 0.0;
        for job in 0..self.jobs.len() {
            let row = &matrix[job * width..(job + 1) * width];
            let used = row.iter().position(|c| *c > 0);
            let Some(used) = used else { continue };
            let one = self.speedups[job].at(self.workers[used].1, 1, 1);
            if one > 0.0 {
                sum += self.speedup(job, row) / one;
            }
        }
        sum / f64::from(total.max(1))
    }

    /// Returns whether a matrix needs no repair.
    pub fn is_feasible(&self, matrix: &[u8]) -> bool {
        let mut repaired = matrix.to_vec();
        self.repair(&mut repaired, &mut Draw(0));
        repaired == matrix
    }

    /// Makes a matrix feasible.
    fn repair(&self, matrix: &mut [u8], draw: &mut Draw) {
        let width = self.width();
        let mut free: Vec<u8> = self.workers.iter().map(|w| w.2).collect();
        let mut shared = vec![false; width];
        let mut used: Vec<usize> = Vec::new();
        for job in 0..self.jobs.len() {
            let row = &mut matrix[job * width..(job + 1) * width];
            used.clear();
            each_used(row, |at| used.push(at));
            self.one_type(job, row, &used);
            for &at in &used {
                row[at] = row[at].min(free[at]);
            }
            // A job over several nodes avoids the nodes of other such jobs.
            used.retain(|at| row[*at] > 0);
            if used.len() > 1 {
                for &at in used.iter().filter(|at| shared[**at]) {
                    row[at] = 0;
                }
            }
            let speedups = &self.speedups[job];
            let mut sum: u32 = used.iter().map(|at| u32::from(row[*at])).sum();
            while sum > speedups.most {
                let at = draw.below(width);
                let cut = u32::from(row[at]).min(sum - speedups.most);
                row[at] -= cut as u8;
                sum -= cut;
            }
            if sum > 0 && sum < speedups.least {
                self.fill(job, row, &free, &shared);
                used.clear();
                each_used(row, |at| used.push(at));
                sum = used.iter().map(|at| u32::from(row[*at])).sum();
            }
            if sum < speedups.least {
                row.fill(0);
            }
            used.retain(|at| row[*at] > 0);
            let spans = used.len() > 1;
            for &at in &used {
                free[at] -= row[at];
                shared[at] |= spans;
            }
        }
    }

    /// Keeps only the GPUs of a row's most frequent type. `used` are the indices of the nonzero
    /// entries.
    fn one_type(&self, job: usize, row: &mut [u8], used: &[usize]) {
        let gpu_type = |at: usize| self.workers[at].1;
        let allowed = |t: u32| self.speedups[job].types.get(t as usize) == Some(&true);
        let Some(first) = used.first().map(|at| gpu_type(*at)) else {
            return;
        };
        let kept = if used.iter().all(|at| gpu_type(*at) == first) {
            first
        } else {
            let mut by_type: SortedMap<u32, u32> = SortedMap::new();
            for &at in used.iter().filter(|at| allowed(gpu_type(**at))) {
                *by_type.entry(gpu_type(at)).or_default() += u32::from(row[at]);
            }
            let most = by_type
                .into_iter()
                .max_by_key(|(t, n)| (*n, std::cmp::Reverse(*t)));
            most.map_or(first, |(t, _)| t)
        };
        for &at in used {
            if gpu_type(at) != kept || !allowed(kept) {
                row[at] = 0;
            }
        }
    }

    /// Gives a rigid job all GPUs that it needs, if they are free; otherwise none.
    fn fill(&self, job: usize, row: &mut [u8], free: &[u8], shared: &[bool]) {
        let needed = self.speedups[job].least;
        let Some(first) = row.iter().position(|c| *c > 0) else {
            return;
        };
        let gpu_type = self.workers[first].1;
        row.fill(0);
        let whole = (0..row.len())
            .find(|i| self.workers[*i].1 == gpu_type && u32::from(free[*i]) >= needed);
        if let Some(i) = whole {
            row[i] = needed as u8;
            return;
        }
        let mut left = needed;
        for i in 0..row.len() {
            if self.workers[i].1 == gpu_type && !shared[i] {
                let part = u32::from(free[i]).min(left);
                row[i] = part as u8;
                left -= part;
            }
        }
        if left > 0 {
            row.fill(0);
        }
    }

    fn mutate(&self, matrix: &mut [u8], draw: &mut Draw) {
        let width = self.width();
        let jobs = self.jobs.len();
        let mut free: Vec<i32> = self.workers.iter().map(|w| i32::from(w.2)).collect();
        for job in 0..jobs {
            let row = &mut matrix[job * width..(job + 1) * width];
            if draw.below(10) == 0 {
                row.copy_from_slice(&self.current[job * width..(job + 1) * width]);
            } else if draw.below(10) == 0 {
                for count in row.iter_mut() {
                    if draw.below(10) == 0 {
                        *count = 0;
                    }
                }
            }
            each_used(row, |at| free[at] -= i32::from(row[at]));
        }
        // A few jobs get more free GPUs, or GPUs of other jobs.
        let changes = 1 + draw.below(3);
        for _ in 0..changes {
            let job = draw.below(jobs);
            let at = draw.below(width);
            let row = &mut matrix[job * width..(job + 1) * width];
            let room = if draw.below(3) > 0 {
                free[at].max(0)
            } else {
                i32::from(self.workers[at].2) - i32::from(row[at])
            };
            if room > 0 {
                let more = 1 + draw.below(room as usize) as i32;
                row[at] = (i32::from(row[at]) + more) as u8;
                free[at] -= more;
                if draw.below(2) == 0 {
                    // All GPUs on this node.
                    let here = row[at];
                    row.fill(0);
                    row[at] = here;
                }
            }
        }
    }
}

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

/// Calls `found` for each nonzero index of a row, ascending. Most entries are 0.
fn each_used(row: &[u8], mut found: impl FnMut(usize)) {
    const WIDTH: usize = 8;
    let mut some = |from: usize, part: &[u8]| {
        for (i, count) in part.iter().enumerate() {
            if *count > 0 {
                found(from + i);
            }
        }
    };
    let (words, rest) = row.as_chunks::<WIDTH>();
    for (i, word) in words.iter().enumerate() {
        if u64::from_le_bytes(*word) != 0 {
            some(i * WIDTH, word);
        }
    }
    some(words.len() * WIDTH, rest);
}

/// Sorts the best first, removes duplicates, and keeps at most `size`.
fn rank(scored: &mut Vec<(f64, Matrix)>, size: usize) {
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    scored.dedup_by(|a, b| a.0 == b.0 && a.1 == b.1);
    scored.truncate(size);
}

/// Random number generator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Draw(u64);

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        let x = splitmix::next(&mut self.0);
        ((u128::from(x) * n.max(1) as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
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
