//! The problem of one round.

use super::PolluxSettings;
use super::speedup::{Speedups, Worker};
use crate::splitmix;
use blox_core::{JobId, NodeId, SortedMap};
use serde::{Deserialize, Serialize};

/// GPUs of each worker for each job, job by job.
pub(super) type Matrix = Vec<u8>;

/// Search problem of one round.
pub(super) struct Problem {
    pub workers: Vec<(NodeId, u32, u8)>,
    /// CPUs and memory of each worker; infinite if unknown.
    room: Vec<[f64; 2]>,
    pub settings: PolluxSettings,
    /// Units of a GPU: more than 1 if jobs request parts of GPUs.
    pub per_gpu: u16,
    pub jobs: Vec<JobId>,
    /// Units of each GPU of each job.
    pub each: Vec<u16>,
    /// CPUs and memory of each job on each of its GPUs.
    needs: Vec<[f64; 2]>,
    /// True if a job needs CPUs or memory.
    limited: bool,
    pub speedups: Vec<Speedups>,
    pub penalties: Vec<f64>,
    /// Current GPUs of each job.
    pub current: Matrix,
}

/// Keeps a speedup of 0 from making a harmonic mean 0.
pub(super) const SMALL: f64 = 1e-3;

impl Problem {
    pub fn of(workers: &[Worker], settings: PolluxSettings) -> Self {
        let worker = |w: &Worker| (w.node, w.gpu_type, w.gpus.min(255) as u8);
        Problem {
            workers: workers.iter().map(worker).collect(),
            room: workers.iter().map(|w| w.room).collect(),
            settings,
            per_gpu: 1,
            jobs: Vec::new(),
            each: Vec::new(),
            needs: Vec::new(),
            limited: false,
            speedups: Vec::new(),
            penalties: Vec::new(),
            current: Vec::new(),
        }
    }

    pub fn add(&mut self, job: JobId, speedups: Speedups, has: &[(NodeId, u32)], penalty: f64) {
        self.jobs.push(job);
        self.each.push(self.per_gpu);
        self.needs.push([0.0; 2]);
        self.speedups.push(speedups);
        self.penalties.push(penalty);
        let on = |node: NodeId| has.iter().find(|(n, _)| *n == node).map_or(0, |(_, c)| *c);
        self.current
            .extend(self.workers.iter().map(|w| on(w.0).min(255) as u8));
    }

    /// Sets the units of each GPU of the last job.
    pub fn taking(&mut self, each: u16) {
        if let Some(last) = self.each.last_mut() {
            *last = each;
        }
    }

    /// Sets the CPUs and memory that the last job needs on each of its GPUs.
    pub fn needing(&mut self, needs: [f64; 2]) {
        if let Some(last) = self.needs.last_mut() {
            *last = needs;
            self.limited |= needs != [0.0; 2];
        }
    }

    /// Returns whether the workers of a type, if they are empty, hold the fewest GPUs of the last job.
    pub fn last_fits(&self) -> bool {
        let Some(job) = self.jobs.len().checked_sub(1) else {
            return true;
        };
        let mut sums: SortedMap<u32, u32> = SortedMap::new();
        for (worker, most) in self.workers.iter().zip(self.most_on_each(job)) {
            *sums.entry(worker.1).or_default() += u32::from(most);
        }
        sums.values().any(|sum| *sum >= self.speedups[job].least)
    }

    /// Returns for how many GPUs of a job each worker has CPUs and memory, if it is empty.
    pub fn most_on_each(&self, job: usize) -> Vec<u8> {
        let all = 0..self.width();
        all.map(|at| self.most(job, at, &self.room).min(self.workers[at].2))
            .collect()
    }

    /// Returns for how many GPUs of a job a worker has CPUs and memory `left`.
    fn most(&self, job: usize, at: usize, left: &[[f64; 2]]) -> u8 {
        if !self.limited {
            return u8::MAX;
        }
        let both = self.needs[job].iter().zip(&left[at]).zip(&self.room[at]);
        let limits = both
            .filter(|((needs, _), _)| **needs > 0.0)
            // Tolerance, so that rounding does not exclude a job that fits exactly.
            .map(|((needs, left), all)| ((left + all.min(1e30) * 1e-9) / needs).min(255.0) as u8);
        limits.fold(u8::MAX, u8::min)
    }

    /// Returns the units of each worker.
    pub fn all_free(&self) -> Vec<u16> {
        let units = |w: &(NodeId, u32, u8)| u16::from(w.2) * self.per_gpu;
        self.workers.iter().map(units).collect()
    }

    /// Returns on how many GPUs a worker has some free units for a job, at most all its GPUs.
    #[inline]
    pub fn room(&self, job: usize, at: usize, free: u16) -> u8 {
        match self.each[job] {
            1 if self.per_gpu == 1 => free as u8,
            each => (free / each).min(u16::from(self.workers[at].2)) as u8,
        }
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

    /// Sum of the speedups over one GPU, divided by the number of GPUs of the cluster. A part of a GPU
    /// counts as that part.
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
                let part = f64::from(self.each[job]) / f64::from(self.per_gpu);
                sum += self.speedup(job, row) / one * part;
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
    pub fn repair(&self, matrix: &mut [u8], draw: &mut Draw) {
        let width = self.width();
        let mut free = self.all_free();
        let mut left = match self.limited {
            true => self.room.clone(),
            false => Vec::new(),
        };
        let mut shared = vec![false; width];
        let mut used: Vec<usize> = Vec::new();
        for job in 0..self.jobs.len() {
            let row = &mut matrix[job * width..(job + 1) * width];
            used.clear();
            each_used(row, |at| used.push(at));
            self.one_type(job, row, &used);
            for &at in &used {
                let room = self.room(job, at, free[at]);
                row[at] = row[at].min(room).min(self.most(job, at, &left));
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
            let most = speedups.at_most(sum);
            while sum > most {
                let at = draw.below(width);
                let cut = u32::from(row[at]).min(sum - most);
                row[at] -= cut as u8;
                sum -= cut;
            }
            if sum > 0 && sum < speedups.least {
                self.fill(job, row, (&free, &left), &shared);
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
                free[at] -= u16::from(row[at]) * self.each[job];
                shared[at] |= spans;
                if self.limited {
                    let gpus = f64::from(row[at]);
                    let both = left[at].iter_mut().zip(&self.needs[job]);
                    both.for_each(|(left, needs)| *left -= gpus * needs);
                }
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

    /// Gives a job the fewest GPUs that it needs, if they are free; otherwise none.
    fn fill(
        &self,
        job: usize,
        row: &mut [u8],
        (free, left): (&[u16], &[[f64; 2]]),
        shared: &[bool],
    ) {
        let needed = self.speedups[job].least;
        let Some(first) = row.iter().position(|c| *c > 0) else {
            return;
        };
        let gpu_type = self.workers[first].1;
        row.fill(0);
        let room = |i: usize| self.room(job, i, free[i]);
        let most = |i: usize| u32::from(room(i).min(self.most(job, i, left)));
        let whole = (0..row.len()).find(|i| self.workers[*i].1 == gpu_type && most(*i) >= needed);
        if let Some(i) = whole {
            row[i] = needed as u8;
            return;
        }
        let mut missing = needed;
        for i in 0..row.len() {
            if self.workers[i].1 == gpu_type && !shared[i] {
                let part = most(i).min(missing);
                row[i] = part as u8;
                missing -= part;
            }
        }
        if missing > 0 {
            row.fill(0);
        }
    }

    pub fn mutate(&self, matrix: &mut [u8], draw: &mut Draw) {
        let width = self.width();
        let jobs = self.jobs.len();
        let mut free: Vec<i32> = self.all_free().into_iter().map(i32::from).collect();
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
            let each = i32::from(self.each[job]);
            each_used(row, |at| free[at] -= i32::from(row[at]) * each);
        }
        // A few jobs get more free GPUs, or GPUs of other jobs.
        let changes = 1 + draw.below(3);
        for _ in 0..changes {
            let job = draw.below(jobs);
            let at = draw.below(width);
            let row = &mut matrix[job * width..(job + 1) * width];
            let rest = i32::from(self.workers[at].2) - i32::from(row[at]);
            let room = if draw.below(3) > 0 {
                let free = free[at].clamp(0, i32::from(u16::MAX)) as u16;
                i32::from(self.room(job, at, free)).min(rest.max(0))
            } else {
                rest
            };
            if room > 0 {
                let more = 1 + draw.below(room as usize) as i32;
                row[at] = (i32::from(row[at]) + more) as u8;
                free[at] -= more * i32::from(self.each[job]);
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

/// Calls `found` for each nonzero index of a row, ascending. Most entries are 0.
pub(super) fn each_used(row: &[u8], mut found: impl FnMut(usize)) {
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

/// Random number generator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Draw(pub u64);

impl Draw {
    pub fn below(&mut self, n: usize) -> usize {
        let x = splitmix::next(&mut self.0);
        ((u128::from(x) * n.max(1) as u128) >> 64) as usize
    }
}
