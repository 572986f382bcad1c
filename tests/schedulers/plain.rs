//! Comparison of schedulers with a simple loop that visits every round and every job.
#![cfg(feature = "released")]

use blox::core::{ClusterSpec, GpuCount, JobSpec, Seconds, Time};
use blox::sim::Simulation;
use blox::sim::workload::Jobs;
use chacha20::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

const ROUND: f64 = 300.0;
/// Waiting time in seconds after which Blox's released program promotes a job.
const STARVED: f64 = 3_600_000.0;

/// Rule of a scheduler.
#[derive(Clone, Copy)]
struct Plain {
    key: Key,
    preempts: bool,
    /// Jobs behind a job that does not fit may run (backfill).
    skips: bool,
    /// GPUs, victims and starvation as in Blox's released program.
    released: bool,
}

#[derive(Clone, Copy)]
enum Key {
    Submission,
    Duration,
    Remaining,
    Attained,
}

#[derive(Clone)]
struct Job {
    submit: f64,
    gpus: usize,
    duration: f64,
    ran: f64,
    waited: f64,
    starved: bool,
    /// GPUs by node and number.
    has: Vec<(usize, usize)>,
    first: Option<f64>,
    finish: Option<f64>,
    preemptions: u32,
}

impl Job {
    fn of(spec: &JobSpec) -> Self {
        Job {
            submit: spec.submit.secs(),
            gpus: spec.gpus.get() as usize,
            duration: spec.duration().secs(),
            ran: 0.0,
            waited: 0.0,
            starved: false,
            has: Vec::new(),
            first: None,
            finish: None,
            preemptions: 0,
        }
    }

    fn key(&self, key: Key) -> f64 {
        match key {
            Key::Submission => self.submit,
            Key::Duration => self.duration,
            Key::Remaining => self.duration - self.ran,
            Key::Attained => self.ran,
        }
    }
}

/// Which GPUs of each node are free.
type Free = Vec<Vec<bool>>;

fn set(free: &mut Free, gpus: &[(usize, usize)], to: bool) {
    for &(node, gpu) in gpus {
        assert_ne!(free[node][gpu], to, "given or taken twice");
        free[node][gpu] = to;
    }
}

fn count(node: &[bool]) -> usize {
    node.iter().filter(|free| **free).count()
}

fn first_of(free: &Free, node: usize, gpus: usize) -> Vec<(usize, usize)> {
    let all = (0..free[node].len()).filter(|gpu| free[node][*gpu]);
    all.take(gpus).map(|gpu| (node, gpu)).collect()
}

/// Finds the node with the fewest free GPUs that fits the job, else the nodes with the most free
/// GPUs.
fn consolidated(free: &Free, gpus: usize) -> Option<Vec<(usize, usize)>> {
    let enough = (0..free.len()).filter(|n| count(&free[*n]) >= gpus);
    if let Some(node) = enough.min_by_key(|n| count(&free[*n])) {
        return Some(first_of(free, node, gpus));
    }
    let mut free = free.clone();
    let mut found = Vec::new();
    while found.len() < gpus {
        let left = gpus - found.len();
        // The best fit for the remaining GPUs if one node has enough; else the node with the most.
        let some = (0..free.len()).filter(|n| count(&free[*n]) > 0);
        let (enough, fewer): (Vec<_>, Vec<_>) = some.partition(|n| count(&free[*n]) >= left);
        let fits = enough.iter().min_by_key(|n| count(&free[**n]));
        let node = *fits.or_else(|| fewer.iter().rev().max_by_key(|n| count(&free[**n])))?;
        let part = first_of(&free, node, left);
        set(&mut free, &part, false);
        found.extend(part);
    }
    Some(found)
}

/// Takes free GPUs node by node until there are enough; returns `None` if the number differs.
fn scattered(free: &Free, gpus: usize) -> Option<Vec<(usize, usize)>> {
    let mut found = Vec::new();
    for node in 0..free.len() {
        found.extend(first_of(free, node, gpus));
        if found.len() >= gpus {
            break;
        }
    }
    (found.len() == gpus).then_some(found)
}

impl Plain {
    fn run(self, nodes: usize, per_node: usize, jobs: &[JobSpec]) -> Vec<Job> {
        let mut jobs: Vec<Job> = jobs.iter().map(Job::of).collect();
        let mut free = vec![vec![true; per_node]; nodes];
        let mut now = 0.0;
        while jobs.iter().any(|j| j.finish.is_none()) {
            for job in jobs.iter_mut().filter(|j| !j.has.is_empty()) {
                if job.ran >= job.duration {
                    job.finish = Some(now);
                    set(&mut free, &std::mem::take(&mut job.has), true);
                }
            }
            let stops = self.round(now, &mut jobs, &mut free);
            let mut rounds = 1.0;
            if stops == 0 && jobs.iter().all(|j| j.has.is_empty()) {
                // The loop continues when a job arrives or starves; otherwise it ends.
                let until = |j: &Job| match j.submit > now {
                    true => ((j.submit - now) / ROUND).ceil(),
                    false => ((STARVED - j.waited) / ROUND).ceil(),
                };
                let waits = |j: &&Job| j.finish.is_none() && !j.starved;
                let next = jobs.iter().filter(waits).map(until).reduce(f64::min);
                let Some(next) = next else { break };
                rounds = next;
            }
            for job in jobs
                .iter_mut()
                .filter(|j| j.submit <= now && j.finish.is_none())
            {
                if job.has.is_empty() {
                    job.waited += rounds * ROUND;
                    job.starved |= self.released && job.waited >= STARVED;
                } else {
                    job.ran += ROUND;
                    job.waited = 0.0;
                }
            }
            now += rounds * ROUND;
        }
        jobs
    }

    /// Returns the number of stopped jobs.
    fn round(self, now: f64, jobs: &mut [Job], free: &mut Free) -> usize {
        let here = |j: &Job| j.submit <= now && j.finish.is_none();
        let mut order: Vec<usize> = (0..jobs.len()).filter(|i| here(&jobs[*i])).collect();
        let key = |i: &usize| (!jobs[*i].starved, jobs[*i].key(self.key));
        order.sort_by(|a, b| key(a).partial_cmp(&key(b)).expect("numbers"));
        let mut stopped = vec![false; jobs.len()];
        if self.released {
            self.by_trial(&order, jobs, free, &mut stopped);
        } else {
            self.by_count(&order, jobs, free, &mut stopped);
        }
        for job in jobs.iter_mut().filter(|j| !j.has.is_empty()) {
            job.first.get_or_insert(now);
        }
        for (job, stopped) in jobs.iter_mut().zip(&stopped) {
            job.preemptions += u32::from(*stopped);
            if *stopped {
                job.waited = -ROUND;
            }
        }
        stopped.iter().filter(|s| **s).count()
    }

    /// Selects the running jobs by counting GPUs, then places them in order.
    fn by_count(self, order: &[usize], jobs: &mut [Job], free: &mut Free, stopped: &mut [bool]) {
        let mut left: usize = free.iter().map(|n| count(n)).sum();
        let mut chosen = Vec::new();
        for (place, &i) in order.iter().enumerate() {
            if !jobs[i].has.is_empty() {
                continue;
            }
            let gpus = jobs[i].gpus;
            let later = order[place + 1..].iter().rev().copied();
            let mut victims = later.filter(|v| self.preempts && !jobs[*v].has.is_empty());
            let mut taken = Vec::new();
            let mut reach = left;
            while reach < gpus
                && let Some(victim) = victims.next()
            {
                reach += jobs[victim].has.len();
                taken.push(victim);
            }
            if reach < gpus {
                if self.skips {
                    continue;
                }
                break;
            }
            left = reach - gpus;
            // The victims that come first in the order are spared first.
            for victim in taken.into_iter().rev() {
                if jobs[victim].has.len() <= left {
                    left -= jobs[victim].has.len();
                } else {
                    set(free, &std::mem::take(&mut jobs[victim].has), true);
                    stopped[victim] = true;
                }
            }
            chosen.push(i);
        }
        for i in chosen {
            let found = consolidated(free, jobs[i].gpus).expect("they were counted");
            set(free, &found, false);
            jobs[i].has = found;
        }
    }

    /// Stops victims until a job fits, even if it never fits.
    fn by_trial(self, order: &[usize], jobs: &mut [Job], free: &mut Free, stopped: &mut [bool]) {
        let before: Vec<bool> = jobs.iter().map(|j| !j.has.is_empty()).collect();
        for (place, &i) in order.iter().enumerate() {
            if !jobs[i].has.is_empty() {
                continue;
            }
            let gpus = jobs[i].gpus;
            let mut found = scattered(free, gpus);
            let victims = order[place + 1..].iter().rev().copied();
            let mut victims = victims.filter(|v| self.preempts && before[*v]);
            while found.is_none() {
                let Some(victim) = victims.find(|v| !jobs[*v].has.is_empty()) else {
                    break;
                };
                set(free, &std::mem::take(&mut jobs[victim].has), true);
                stopped[victim] = true;
                found = scattered(free, gpus);
            }
            let Some(found) = found else {
                if self.skips {
                    continue;
                }
                break;
            };
            set(free, &found, false);
            jobs[i].has = found;
        }
    }
}

#[test]
fn schedulers_equal_a_plain_loop_on_random_workloads() {
    let plain = |key, preempts| Plain {
        key,
        preempts,
        skips: false,
        released: false,
    };
    let skipping = |p: Plain| Plain { skips: true, ..p };
    let released = |p: Plain| Plain {
        released: true,
        preempts: true,
        ..p
    };
    let fifo = plain(Key::Submission, false);
    let sjf = plain(Key::Duration, false);
    let srtf = plain(Key::Remaining, true);
    let las = plain(Key::Attained, true);
    let schedulers = [
        ("fifo", fifo),
        ("fifo{backfill=skip}", skipping(fifo)),
        ("sjf", sjf),
        ("srtf", srtf),
        ("srtf{backfill=skip}", skipping(srtf)),
        ("las", las),
        ("las{backfill=skip}", skipping(las)),
        ("blox-fifo", released(fifo)),
        ("blox-srtf", released(srtf)),
        ("blox-las", released(las)),
    ];
    let registry = blox::registry();
    let mut preemptions = 0;
    for seed in 0..800 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (nodes, per_node) = (rng.random_range(1..7), rng.random_range(1..9));
        let total = (nodes * per_node) as u32;
        let mut at = 0.0;
        let jobs: Vec<JobSpec> = (0..rng.random_range(1..60))
            .map(|_| {
                at += [0.0, 1.0, 300.0, 137.5, 2000.0][rng.random_range(0..5)];
                let duration = [1.0, 300.0, 299.9, 1234.5, 20_000.0, 600.0];
                let duration = duration[rng.random_range(0..6)];
                let most = [1, 3, total][rng.random_range(0..3)].min(total);
                let gpus = GpuCount(rng.random_range(1..=most));
                JobSpec::new(Time::new(at), gpus, Seconds::new(duration))
            })
            .collect();
        for k in 0..3 {
            let (name, rule) = schedulers[(seed as usize + 3 * k) % schedulers.len()];
            let mut jobs = jobs.clone();
            if name.starts_with("blox-") {
                // Jobs whose GPUs the nodes never add up to are rejected.
                for job in jobs
                    .iter_mut()
                    .filter(|job| job.gpus.get() > per_node as u32)
                {
                    job.gpus.0 -= job.gpus.0 % per_node as u32;
                }
            }
            let expected = rule.run(nodes, per_node, &jobs);
            let scheduler = registry
                .schedulers
                .build(&name.parse().unwrap(), 0)
                .unwrap();
            let cluster = ClusterSpec::uniform(nodes, per_node as u32);
            let report = Simulation::new(cluster)
                .run(scheduler, &mut Jobs::new(jobs.clone()))
                .unwrap();
            assert_eq!(report.jobs.len(), jobs.len());
            for (job, wanted) in report.jobs.iter().zip(&expected) {
                let secs = |t: Option<Time>| t.map(|t| t.secs());
                let found = (secs(job.first_start), secs(job.finish), job.preemptions);
                let wanted = (wanted.first, wanted.finish, wanted.preemptions);
                assert_eq!(found, wanted, "{name}, seed {seed}, {}", job.job);
            }
            preemptions += expected.iter().map(|j| j.preemptions).sum::<u32>();
        }
    }
    assert!(preemptions > 1000, "{preemptions}");
}
