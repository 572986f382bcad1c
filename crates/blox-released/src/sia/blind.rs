//! Pollux as in Sia's released simulator, on clusters of several GPU types.
//!
//! The program does not distinguish types:
//!
//! - Each node counts as nodes of four GPUs, of equal speed.
//! - A job has one profile for all types, with the limits of `aws` (else of its first type).
//! - The fair share lies on one node, and a new job counts as restarted.
//! - A job has at most as many GPUs as there are of the rarest type.
//! - If an allocation mixes types, the job runs on the GPUs of its most frequent type. The other
//!   GPUs of the allocation stay idle.
//! - Every restart counts as 30 s.
//!
//! **Verified.** By tests of these rules. On the ten jobs of the one recorded run, the average
//! completion time is within 25 % of the program's. The genetic search of the program (NSGA-II with two
//! objectives, of Python's `pymoo`) is not repeated. The search here has the same sizes and steps,
//! the first objective only, and ends when it no longer improves.
//! [`Profiles::OfAll`](blox_sim::execution::training::Profiles) is the matching world; it is
//! registered as the execution model `sia-unaware`.

use super::in_rounds;
use blox_core::{
    Answer, Event, GpuCount, JobId, JobQueue, JobRef, NodeId, Pipeline, Place, Policy, Request,
    SchedulingPolicy, Seconds, Shape, SortedMap, Validity, View, sort,
};
use blox_perf::goodput::{BatchLimits, GoodputModel};
use blox_policies::placement::OnNodes;
use serde::{Deserialize, Serialize};

/// Pollux that does not distinguish GPU types, in rounds of a length above 0.
pub fn pollux(round: Seconds) -> Pipeline {
    in_rounds("sia-pollux", round)
        .scheduling(TypeBlind)
        .placement(OnNodes)
        .build()
        .expect(crate::ONCE)
}

/// GPUs of a node of the program.
const NODE: u32 = 4;
/// Allocations of a generation, and generations of a round.
const POPULATION: usize = 100;
const GENERATIONS: usize = 100;
/// Generations without improvement that end the search. The program has no such limit.
const PATIENCE: usize = 20;
/// Seconds of a restart.
const RESTART_S: f64 = 30.0;
/// Is added to each speedup, so that jobs without GPUs do not make all allocations equal.
const LEAST: f64 = 1e-3;
/// Types in the order in which the program prefers them if an allocation has as many GPUs of each.
const PREFERRED: [&str; 5] = ["dgx-ext", "azure", "quad", "rtx", "aws"];

/// See the [module](self).
struct TypeBlind;

/// GPUs of each node, for each job.
type Rows = Vec<Vec<u32>>;

/// State of the search.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Search {
    seed: u64,
    /// Last population, by job.
    population: Vec<SortedMap<JobId, Vec<u32>>>,
    known: SortedMap<JobId, Known>,
}

/// State of a job.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Known {
    /// Last allocation.
    row: Vec<u32>,
    /// Type and number of GPUs on each node when it ran last.
    shape: Option<(u32, Vec<u32>)>,
    restarts: u32,
}

impl Known {
    /// Notes an allocation, and its GPUs of one type. Moving to other nodes of the type is free.
    fn change(&mut self, row: &[u32], gpu_type: Option<u32>, nodes: &[(NodeId, u32)]) {
        row.clone_into(&mut self.row);
        let Some(gpu_type) = gpu_type else { return };
        let shape = (gpu_type, nodes.iter().map(|(_, gpus)| *gpus).collect());
        if let Some(last) = self.shape.replace(shape) {
            self.restarts += u32::from(Some(last) != self.shape);
        }
    }
}

/// A node of the program.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Part {
    node: NodeId,
    gpu_type: u32,
    gpus: u32,
}

/// A job of the search.
struct Candidate {
    /// Speedup by number of nodes and number of GPUs, from 0 on. Row 0 is one node.
    speedups: [Vec<f64>; 2],
    most: u32,
    now: Vec<u32>,
    /// Factor of an allocation other than the present one.
    penalty: f64,
}

impl Policy for TypeBlind {
    type Memory = Search;

    fn initial(&self, seed: u64) -> Search {
        Search {
            seed,
            ..Search::default()
        }
    }

    fn on_event(&self, memory: &mut Search, _: View<'_>, event: &Event) {
        if let Event::Ended { job, .. } = event {
            memory.known.remove(job);
            for rows in &mut memory.population {
                rows.remove(job);
            }
        }
    }
}

impl SchedulingPolicy for TypeBlind {
    fn schedule(&self, memory: &mut Search, view: View<'_>, out: &mut JobQueue) -> Answer {
        out.stop_unlisted();
        let mut jobs: Vec<JobRef<'_>> = view.active().collect();
        let parts = parts(view);
        if jobs.is_empty() || parts.is_empty() {
            return Ok(Validity::NextRound);
        }
        sort::by(&mut jobs, |a, b| {
            let service = |j: &JobRef<'_>| j.attained_gpu_time().secs();
            service(a).total_cmp(&service(b)).then(a.id().cmp(&b.id()))
        });
        let all: u32 = parts.iter().map(|part| part.gpus).sum();
        let fair = all.div_ceil(jobs.len() as u32);
        let candidates: Vec<Candidate> = jobs
            .iter()
            .map(|job| candidate(memory, job, &parts, fair))
            .collect();
        let best = search(memory, &jobs, &candidates, &parts);
        for ((job, row), before) in jobs.iter().zip(&best).zip(&candidates) {
            let (gpu_type, nodes) = of_one_type(view, row, &parts);
            if *row != before.now {
                let known = memory.known.entry(job.id()).or_default();
                known.change(row, gpu_type, &nodes);
            }
            let gpus: u32 = nodes.iter().map(|(_, gpus)| gpus).sum();
            if gpus > 0 {
                let place = Place::Nodes(nodes);
                let shape = Shape {
                    place,
                    ..Shape::gpus(GpuCount(gpus))
                };
                out.push(Request::with_shape(job.id(), shape));
            }
        }
        Ok(Validity::NextRound)
    }
}

/// Returns the nodes of the program.
fn parts(view: View<'_>) -> Vec<Part> {
    let nodes = view.nodes().filter(|node| node.is_usable());
    let of = |node: &blox_core::Node| {
        let (id, gpu_type, all) = (node.id(), node.gpu_type().0, node.usable_count());
        (0..all.div_ceil(NODE)).map(move |i| Part {
            node: id,
            gpu_type,
            gpus: NODE.min(all - i * NODE),
        })
    };
    nodes.flat_map(of).collect()
}

fn candidate(memory: &Search, job: &JobRef<'_>, parts: &[Part], fair: u32) -> Candidate {
    let known = memory
        .known
        .get(&job.id())
        .filter(|known| known.row.len() == parts.len());
    let now = known.map_or(vec![0; parts.len()], |known| known.row.clone());
    // The program counts no restart as one.
    let restarts = f64::from(known.map_or(0, |known| known.restarts).max(1));
    let age = job.age().secs();
    let penalty = (age - RESTART_S * restarts).max(0.0) / (age + RESTART_S);
    let mut by_type: SortedMap<u32, u32> = SortedMap::new();
    for part in parts {
        *by_type.entry(part.gpu_type).or_default() += part.gpus;
    }
    let fewest = by_type.values().copied().min().unwrap_or(0);
    let linear = |most: u32| {
        let row: Vec<f64> = (0..=most).map(f64::from).collect();
        [row.clone(), row]
    };
    let plain = |speedups: [Vec<f64>; 2], most| Candidate {
        speedups,
        most,
        now: now.clone(),
        penalty,
    };
    let training = job.spec().extras().training.as_deref();
    let report = job.report().and_then(|report| {
        let (_, speed) = report.speed.iter().next()?;
        Some((speed, report.noise))
    });
    let (Some(training), Some((speed, noise))) = (training, report) else {
        return plain(linear(1), 1);
    };
    let limits = training.on("aws").or(training.types.values().next());
    let Some(limits) = limits.map(|limits| limits.per_gpu) else {
        return plain(linear(1), 1);
    };
    let model = GoodputModel {
        speed: speed.params,
        noise,
        initial_batch: training.initial_batch,
    };
    let batches = BatchLimits {
        max_batch: training.max_batch,
        per_gpu: limits,
        accumulate: true,
    };
    let doubled = (2 * speed.most_gpus.get()).max(1);
    let most = doubled
        .min(fewest)
        .min(training.max_batch / limits.0.max(1))
        .max(1);
    let on = |nodes: u32, gpus: u32| {
        let goodput = model.best_batch(nodes, gpus, &batches).goodput;
        if goodput.is_finite() {
            goodput.max(0.0)
        } else {
            0.0
        }
    };
    let base = on(1, fair);
    if base <= 0.0 {
        return plain(linear(1), 1);
    }
    let row = |nodes: fn(u32) -> u32| -> Vec<f64> {
        let of = |gpus| {
            if gpus == 0 {
                0.0
            } else {
                on(nodes(gpus), gpus) / base
            }
        };
        (0..=most).map(of).collect()
    };
    plain([row(|_| 1), row(|gpus| gpus.min(2))], most)
}

/// Random numbers (SplitMix64).
fn next(seed: &mut u64) -> f64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut x = *seed;
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ (x >> 31)) >> 11) as f64 / 9_007_199_254_740_992.0
}

fn below(seed: &mut u64, count: usize) -> usize {
    ((next(seed) * count as f64) as usize).min(count.saturating_sub(1))
}

/// Returns the best allocation of a genetic search that starts from the last population.
fn search(memory: &mut Search, jobs: &[JobRef<'_>], all: &[Candidate], parts: &[Part]) -> Rows {
    let seed = &mut memory.seed;
    let now: Rows = all.iter().map(|job| job.now.clone()).collect();
    let mut population: Vec<(f64, Rows)> = Vec::new();
    let last = memory.population.iter().map(|rows| {
        let of = |job: &JobRef<'_>| {
            let row = rows.get(&job.id()).filter(|row| row.len() == parts.len());
            row.cloned().unwrap_or_else(|| vec![0; parts.len()])
        };
        jobs.iter().map(of).collect::<Rows>()
    });
    for mut rows in std::iter::once(now.clone()).chain(last) {
        repair(&mut rows, all, parts, seed);
        population.push((fitness(&rows, all), rows));
    }
    let mut unimproved = 0;
    for _ in 0..GENERATIONS {
        let before = population
            .iter()
            .map(|(fitness, _)| *fitness)
            .fold(0.0, f64::max);
        let parents = population.len();
        for _ in 0..POPULATION {
            let (a, b) = (below(seed, parents), below(seed, parents));
            let cut = below(seed, jobs.len() + 1);
            let mut child = population[a].1.clone();
            child[cut..].clone_from_slice(&population[b].1[cut..]);
            mutate(&mut child, &now, parts, seed);
            repair(&mut child, all, parts, seed);
            population.push((fitness(&child, all), child));
        }
        sort::by(&mut population, |a, b| b.0.total_cmp(&a.0));
        population.dedup_by(|a, b| a.1 == b.1);
        population.truncate(POPULATION);
        unimproved = if population[0].0 > before {
            0
        } else {
            unimproved + 1
        };
        if unimproved == PATIENCE {
            break;
        }
    }
    let best = population[0].1.clone();
    let by_job = |(_, rows): (f64, Rows)| jobs.iter().map(JobRef::id).zip(rows).collect();
    memory.population = population.into_iter().map(by_job).collect();
    best
}

/// Resets a tenth of the jobs, empties parts of another tenth, and adds GPUs at random.
fn mutate(rows: &mut Rows, now: &Rows, parts: &[Part], seed: &mut u64) {
    for (row, now) in rows.iter_mut().zip(now) {
        if next(seed) < 0.1 {
            row.clone_from(now);
        }
        if next(seed) < 0.1 {
            for gpus in row.iter_mut() {
                if next(seed) < 0.1 {
                    *gpus = 0;
                }
            }
        }
    }
    let used = |at: usize, rows: &Rows| rows.iter().map(|row| row[at]).sum::<u32>();
    let free: Vec<u32> = parts
        .iter()
        .enumerate()
        .map(|(at, part)| part.gpus.saturating_sub(used(at, rows)))
        .collect();
    let slots = free.iter().filter(|free| **free > 0).count().max(1) * rows.len();
    // About two additions for each allocation.
    let additions = 1 + below(seed, 3);
    for _ in 0..additions.min(slots) {
        let (job, at) = (below(seed, rows.len()), below(seed, parts.len()));
        rows[job][at] += 1 + below(seed, parts[at].gpus as usize) as u32;
    }
}

/// Makes an allocation valid: at most one job of several nodes on a node, and no more GPUs than job
/// and node have. The first jobs come first.
fn repair(rows: &mut Rows, all: &[Candidate], parts: &[Part], seed: &mut u64) {
    let mut spread = vec![false; parts.len()];
    let mut left: Vec<u32> = parts.iter().map(|part| part.gpus).collect();
    for (row, job) in rows.iter_mut().zip(all) {
        if row.iter().filter(|gpus| **gpus > 0).count() > 1 {
            for (gpus, taken) in row.iter_mut().zip(&mut spread) {
                match *gpus > 0 && *taken {
                    true => *gpus = 0,
                    false => *taken |= *gpus > 0,
                }
            }
        }
        let mut budget = job.most;
        let first = below(seed, parts.len());
        for i in 0..parts.len() {
            let at = (first + i) % parts.len();
            row[at] = row[at].min(budget).min(left[at]);
            budget -= row[at];
            left[at] -= row[at];
        }
    }
}

/// Returns the harmonic mean of the speedups.
fn fitness(rows: &Rows, all: &[Candidate]) -> f64 {
    let inverse = |(row, job): (&Vec<u32>, &Candidate)| {
        let gpus = row.iter().sum::<u32>().min(job.most) as usize;
        let spans = row.iter().filter(|gpus| **gpus > 0).count() > 1;
        let speedup = job.speedups[usize::from(spans)]
            .get(gpus)
            .copied()
            .unwrap_or(0.0);
        let factor = if *row == job.now { 1.0 } else { job.penalty };
        1.0 / (speedup * factor + LEAST)
    };
    rows.len() as f64 / rows.iter().zip(all).map(inverse).sum::<f64>()
}

/// Returns the most frequent type of an allocation, and the GPUs of this type.
fn of_one_type(view: View<'_>, row: &[u32], parts: &[Part]) -> (Option<u32>, Vec<(NodeId, u32)>) {
    let mut by_type: SortedMap<u32, u32> = SortedMap::new();
    for (gpus, part) in row.iter().zip(parts).filter(|(gpus, _)| **gpus > 0) {
        *by_type.entry(part.gpu_type).or_default() += gpus;
    }
    let names = view.cluster().gpu_types();
    let rank = |gpu_type: u32| {
        let name = names.get(blox_core::NameId(gpu_type));
        let name = name.map(|name| name.as_str()).unwrap_or_default();
        PREFERRED
            .iter()
            .position(|known| *known == name)
            .unwrap_or(PREFERRED.len())
    };
    let most = by_type
        .iter()
        .max_by(|a, b| a.1.cmp(b.1).then(rank(*b.0).cmp(&rank(*a.0))));
    let most = most.map(|(gpu_type, _)| *gpu_type);
    let mut nodes: SortedMap<NodeId, u32> = SortedMap::new();
    for (gpus, part) in row.iter().zip(parts) {
        if *gpus > 0 && Some(part.gpu_type) == most {
            *nodes.entry(part.node).or_default() += gpus;
        }
    }
    (most, nodes.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::{ClusterSpec, State};

    fn parts_of(cluster: &str) -> (State, Vec<Part>) {
        let cluster: ClusterSpec = cluster.parse().unwrap();
        let state = State::new(&cluster).unwrap();
        let parts = parts(View::of(&state));
        (state, parts)
    }

    fn linear(most: u32, now: Vec<u32>) -> Candidate {
        let row: Vec<f64> = (0..=most).map(f64::from).collect();
        Candidate {
            speedups: [row.clone(), row],
            most,
            now,
            penalty: 1.0,
        }
    }

    #[test]
    fn nodes_are_cut_into_four_gpus() {
        let (_, parts) = parts_of("1x4:aws,1x8:rtx,1x6:quad");
        let gpus: Vec<(u32, u32)> = parts.iter().map(|p| (p.node.0, p.gpus)).collect();
        assert_eq!(gpus, [(0, 4), (1, 4), (1, 4), (2, 4), (2, 2)]);
    }

    #[test]
    fn mixed_allocation_uses_its_most_frequent_type() {
        let (state, parts) = parts_of("1x4:aws,1x8:rtx");
        let nodes = |row: &[u32]| of_one_type(View::of(&state), row, &parts).1;
        assert_eq!(nodes(&[3, 1, 1]), [(NodeId(0), 3)]);
        // As many of each: `rtx` comes before `aws`.
        assert_eq!(nodes(&[2, 1, 1]), [(NodeId(1), 2)]);
        assert_eq!(nodes(&[0, 0, 0]), []);
    }

    #[test]
    fn repair_keeps_limits_of_nodes_and_jobs() {
        let (_, parts) = parts_of("2x4:aws");
        let all = [linear(4, vec![0, 0]), linear(8, vec![0, 0])];
        let mut rows = vec![vec![2, 4], vec![4, 4]];
        repair(&mut rows, &all, &parts, &mut 1);
        assert_eq!(rows[0].iter().sum::<u32>(), 4);
        // The first job spans both nodes, so the second gets neither of them.
        assert_eq!(rows[1], [0, 0]);
    }

    #[test]
    fn another_shape_is_a_restart_and_other_nodes_are_not() {
        let mut known = Known::default();
        let on = |nodes: &[(u32, u32)]| -> Vec<(NodeId, u32)> {
            nodes
                .iter()
                .map(|(id, gpus)| (NodeId(*id), *gpus))
                .collect()
        };
        let mut check = |gpu_type: Option<u32>, nodes: &[(u32, u32)], restarts| {
            known.change(&[1], gpu_type, &on(nodes));
            assert_eq!(known.restarts, restarts, "{nodes:?}");
        };
        check(Some(0), &[(0, 2)], 0);
        check(Some(0), &[(1, 2)], 0);
        check(Some(0), &[(1, 4)], 1);
        check(None, &[], 1);
        check(Some(0), &[(2, 4)], 1);
        check(Some(1), &[(3, 4)], 2);
        check(Some(1), &[(3, 2), (4, 2)], 3);
    }

    #[test]
    fn fitness_is_the_harmonic_mean() {
        let all = [linear(4, vec![1]), linear(4, vec![3])];
        let found = fitness(&vec![vec![1], vec![3]], &all);
        assert!((found - 1.5).abs() < 0.01, "{found}");
    }
}
