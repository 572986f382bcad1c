//! Worlds of claims: a cluster, a workload, and the rest of a simulation.

use crate::ClaimsError;
use crate::contestant::Contestant;
use crate::jobs::{JobKind, Properties, submitted};
use blox_core::{ClusterSpec, JobSpec, Name};
use blox_experiment::{own_models, with_models};
use blox_perf::SCORES;
use blox_perf::applications::{Applications, built_in};
use blox_registry::Registry;
use blox_sim::registry::World as _;
use blox_sim::workload::{Jobs, Limited, collect};
use blox_sim::{Measure, Simulation};
use blox_traces::generate::{Draws, with_losses};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::f64::consts::TAU;
use std::fmt;
use std::sync::{Arc, LazyLock};

static APPLICATIONS: LazyLock<Arc<Applications>> = LazyLock::new(|| Arc::new(built_in()));

/// A cluster with a workload, in which schedulers are compared.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct World {
    /// Cluster, such as `15x4` or `6x4:t4,3x8:rtx`.
    pub cluster: String,
    /// CPU cores of each node; 0 if unknown.
    #[serde(default)]
    pub node_cpus: f64,
    /// GiB of memory of each node; 0 if unknown.
    #[serde(default)]
    pub node_memory_gib: f64,
    /// Scores of the GPUs by application class: fractions of the GPUs with their scores. Their
    /// places are random.
    #[serde(default)]
    pub gpu_scores: BTreeMap<Name, Vec<(f64, f64)>>,
    /// Number of jobs.
    pub jobs: u32,
    /// Arrivals of the jobs.
    #[serde(default)]
    pub arrivals: Arrivals,
    /// Kinds of jobs. Each kind has its share of the jobs as exactly as whole numbers allow, in
    /// random order.
    #[serde(default)]
    pub kinds: Vec<JobKind>,
    /// Registered workload, instead of kinds and arrivals.
    pub workload: Option<String>,
    /// True if jobs report generated losses. Three quarters of them have converged after 40 % of
    /// their epochs.
    #[serde(default)]
    pub losses: bool,
    /// Numbers of the first and last measured job; all jobs by default.
    pub measured: Option<(u32, u32)>,
    /// Execution model; jobs run as specified by default.
    pub execution: Option<String>,
    /// Overheads; changes cost nothing by default.
    pub overheads: Option<String>,
    /// True if the ends of jobs are detected at once. By default, they are detected at the ends of
    /// rounds.
    #[serde(default)]
    pub exact_ends: bool,
    /// Number of seeds, from 1 on.
    #[serde(default = "ten")]
    pub seeds: u64,
}

fn ten() -> u64 {
    10
}

/// Arrivals of the jobs of a world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// All jobs arrive at time 0.
    #[default]
    Together,
    /// At random, with a mean gap in seconds.
    Gap(f64),
    /// At random, at a rate an hour.
    PerHour(f64),
    /// At random times within these seconds.
    Within(f64),
    /// At random, at the rate at which the jobs demand this fraction of the cluster's GPUs.
    Load(f64),
    /// At random, at the rate at which the jobs demand this fraction of a number of GPUs.
    LoadOf(f64, u32),
    /// Like `load`, in groups of this number of jobs that arrive together.
    Groups(f64, u32),
    /// Like `load`, with a rate that varies over each day as a sine. The second number is the ratio of
    /// the largest to the least rate.
    Daily(f64, f64),
}

/// A world with the draws of a seed.
pub(crate) struct Drawn {
    pub cluster: ClusterSpec,
    pub jobs: Vec<JobSpec>,
}

impl World {
    /// Draws cluster and jobs.
    pub(crate) fn draw(&self, seed: u64, registry: &Registry) -> Result<Drawn, ClaimsError> {
        let cluster = self.cluster(seed)?;
        let jobs = match &self.workload {
            Some(named) => {
                let source = registry.workloads().build(&named.parse()?, seed)?;
                let workload = source.open(&cluster)?;
                collect(&mut Limited::new(workload, u64::from(self.jobs)))?
            }
            None => self.jobs(seed, cluster.total_gpus()),
        };
        let jobs = match self.losses {
            true => collect(&mut with_losses(Box::new(Jobs::new(jobs)), seed))?,
            false => jobs,
        };
        Ok(Drawn { cluster, jobs })
    }

    fn cluster(&self, seed: u64) -> Result<ClusterSpec, ClaimsError> {
        let mut cluster: ClusterSpec = self.cluster.parse()?;
        for node in &mut cluster.nodes {
            if self.node_cpus > 0.0 {
                node.cpus = self.node_cpus;
            }
            if self.node_memory_gib > 0.0 {
                node.memory_gib = self.node_memory_gib;
            }
        }
        for (purpose, (class, parts)) in (32..).zip(&self.gpu_scores) {
            let mut draws = Draws::new(seed, purpose);
            let count = cluster.total_gpus() as u32;
            let mut scores = shuffled(parts, count, &mut draws).into_iter();
            for node in &mut cluster.nodes {
                let own = scores.by_ref().take(node.gpus as usize);
                let own: Vec<String> = own.map(|score| score.to_string()).collect();
                let label = format!("{SCORES}{class}");
                node.labels.insert(label.into(), own.join(" ").into());
            }
        }
        Ok(cluster)
    }

    /// Draws the jobs of all kinds.
    fn jobs(&self, seed: u64, gpus: u64) -> Vec<JobSpec> {
        let shares: Vec<(f64, usize)> = (0..).zip(&self.kinds).map(|(i, k)| (k.share, i)).collect();
        let kinds = shuffled(&shares, self.jobs, &mut Draws::new(seed, 1));
        let mut gpus_of: Vec<_> = (0..)
            .zip(&self.kinds)
            .map(|(i, kind)| {
                let count = kinds.iter().filter(|k| **k == i).count() as u32;
                let draws = &mut Draws::new(seed, 1000 + i as u64);
                shuffled(&kind.gpus, count, draws).into_iter()
            })
            .collect();
        let mut properties = Properties::new(seed, &self.kinds, Arc::clone(&APPLICATIONS));
        let of = |kind: usize| {
            let gpus = gpus_of[kind].next().unwrap_or(1);
            properties.job(&self.kinds[kind], gpus)
        };
        let jobs: Vec<JobSpec> = kinds.into_iter().map(of).collect();
        let demand = |job: &JobSpec| f64::from(job.gpus.get()) * job.duration().secs();
        let mean = jobs.iter().map(demand).sum::<f64>() / jobs.len().max(1) as f64;
        let times = self.arrivals.times(self.jobs, mean, gpus as f64, seed);
        jobs.into_iter()
            .zip(times)
            .map(|(job, at)| submitted(job, at))
            .collect()
    }

    /// Returns the simulation of a contestant.
    pub(crate) fn simulation(
        &self,
        cluster: ClusterSpec,
        contestant: &Contestant,
        registry: &Registry,
        seed: u64,
    ) -> Result<Simulation, ClaimsError> {
        let mut simulation = Simulation::new(cluster).seed(seed);
        if let Some((first, last)) = self.measured {
            simulation = simulation.measure(Measure::Ids(first, last));
        }
        if self.exact_ends {
            simulation = simulation.completion(blox_sim::completion::Exact);
        }
        let scheduler = contestant.scheduler.parse()?;
        let mut models = own_models(registry, &scheduler)
            .cloned()
            .unwrap_or_default();
        for (model, given) in [
            (&mut models.execution, &self.execution),
            (&mut models.overheads, &self.overheads),
        ] {
            if let Some(given) = given {
                *model = Some(given.parse()?);
            }
        }
        Ok(with_models(simulation, &models, registry, seed)?)
    }
}

impl fmt::Display for World {
    /// Writes cluster, jobs and their arrivals, and seeds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cluster `{}`, {} jobs", self.cluster, self.jobs)?;
        match &self.workload {
            Some(workload) => write!(f, " of `{workload}`")?,
            None => write!(f, " {}", self.arrivals)?,
        }
        if let Some((first, last)) = self.measured {
            write!(f, ", measured from {first} to {last}")?;
        }
        if let Some(execution) = &self.execution {
            write!(f, ", execution `{execution}`")?;
        }
        if let Some(overheads) = &self.overheads {
            write!(f, ", overheads `{overheads}`")?;
        }
        if self.exact_ends {
            f.write_str(", exact ends")?;
        }
        match self.seeds {
            1 => f.write_str(", 1 seed"),
            n => write!(f, ", {n} seeds"),
        }
    }
}

impl fmt::Display for Arrivals {
    /// Writes how jobs arrive, to follow their number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Arrivals::Together => f.write_str("at time 0"),
            Arrivals::Gap(gap) => write!(f, "at random, one in {gap} s"),
            Arrivals::PerHour(rate) => write!(f, "at random, {rate} an hour"),
            Arrivals::Within(seconds) => write!(f, "at random within {seconds} s"),
            Arrivals::Load(load) => write!(f, "at load {load}"),
            Arrivals::LoadOf(load, gpus) => write!(f, "at load {load} of {gpus} GPUs"),
            Arrivals::Groups(load, size) => write!(f, "at load {load}, {size} together"),
            Arrivals::Daily(load, ratio) => {
                write!(
                    f,
                    "at load {load}, by day up to {ratio} times the least rate"
                )
            }
        }
    }
}

impl Arrivals {
    /// Returns the times of `count` arrivals, ascending. `demand` is the mean number of GPU-seconds
    /// of a job.
    fn times(self, count: u32, demand: f64, gpus: f64, seed: u64) -> Vec<f64> {
        const HOUR: f64 = 3600.0;
        const DAY: f64 = 24.0 * HOUR;
        let mut draws = Draws::new(seed, 0);
        let gap = match self {
            Arrivals::Together => return vec![0.0; count as usize],
            Arrivals::Within(seconds) => {
                let mut times: Vec<f64> = (0..count).map(|_| draws.unit() * seconds).collect();
                times.sort_by(f64::total_cmp);
                return times;
            }
            Arrivals::Gap(gap) => gap,
            Arrivals::PerHour(rate) => HOUR / rate,
            Arrivals::Load(load) | Arrivals::Daily(load, _) => demand / (load * gpus),
            Arrivals::LoadOf(load, gpus) => demand / (load * f64::from(gpus)),
            Arrivals::Groups(load, size) => demand * f64::from(size) / (load * gpus),
        };
        let together = match self {
            Arrivals::Groups(_, size) => size.max(1),
            _ => 1,
        };
        let swing = match self {
            Arrivals::Daily(_, ratio) => (ratio - 1.0) / (ratio + 1.0),
            _ => 0.0,
        };
        let mut now = 0.0;
        let mut next = || loop {
            // Thins arrivals at the largest rate.
            now += draws.exponential() * gap / (1.0 + swing);
            let rate = 1.0 + swing * libm::sin(TAU * now / DAY);
            if swing == 0.0 || draws.unit() * (1.0 + swing) < rate {
                return now;
            }
        };
        let groups = (0..count.div_ceil(together)).map(|_| next());
        let times = groups.flat_map(|at| std::iter::repeat_n(at, together as usize));
        times.take(count as usize).collect()
    }
}

/// Returns `count` values in random order, each value in its share as exactly as possible: the
/// largest fractions are rounded up.
fn shuffled<T: Copy>(parts: &[(f64, T)], count: u32, draws: &mut Draws) -> Vec<T> {
    let all: f64 = parts.iter().map(|(share, _)| share).sum();
    let exact: Vec<f64> = parts
        .iter()
        .map(|(share, _)| share / all * f64::from(count))
        .collect();
    let mut counts: Vec<u32> = exact.iter().map(|n| *n as u32).collect();
    while counts.iter().sum::<u32>() < count {
        let missing = |i: &usize| exact[*i] - f64::from(counts[*i]);
        let most = (0..parts.len()).max_by(|a, b| missing(a).total_cmp(&missing(b)).then(b.cmp(a)));
        match most {
            Some(i) => counts[i] += 1,
            None => break,
        }
    }
    let each = parts.iter().zip(counts);
    let mut values: Vec<T> = each
        .flat_map(|((_, value), n)| std::iter::repeat_n(*value, n as usize))
        .collect();
    for i in (1..values.len()).rev() {
        values.swap(i, (draws.unit() * (i + 1) as f64) as usize);
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_exact_in_any_order() {
        let parts = [(0.25, 'a'), (0.7, 'b'), (0.05, 'c')];
        let values = shuffled(&parts, 20, &mut Draws::new(1, 1));
        let count = |c| values.iter().filter(|v| **v == c).count();
        assert_eq!((count('a'), count('b'), count('c')), (5, 14, 1));
        assert_ne!(values, shuffled(&parts, 20, &mut Draws::new(2, 1)));
    }

    #[test]
    fn load_is_the_demand_over_the_capacity() {
        let times = Arrivals::Load(0.5).times(10_000, 800.0, 8.0, 3);
        let gap = times[9_999] / 10_000.0;
        assert!((gap / 200.0 - 1.0).abs() < 0.03, "{gap}");
        let groups = Arrivals::Groups(0.5, 4).times(10_000, 800.0, 8.0, 3);
        assert!(groups.chunks(4).all(|group| group[0] == group[3]));
        let gap = groups[9_999] / 2500.0;
        assert!((gap / 800.0 - 1.0).abs() < 0.03, "{gap}");
        let daily = Arrivals::Daily(0.5, 3.0).times(10_000, 800.0, 8.0, 3);
        let within = |from: f64, to: f64| {
            let day = |t: &&f64| (from..to).contains(&(**t % 86_400.0));
            daily.iter().filter(day).count() as f64
        };
        // Around the peak at 6 h and the least rate at 18 h.
        let ratio = within(18_000.0, 25_200.0) / within(61_200.0, 68_400.0);
        assert!((2.4..3.8).contains(&ratio), "{ratio}");
    }
}
