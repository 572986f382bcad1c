//! The part of a case that does not depend on the scheduler.

use super::random::SplitMix;
use blox_core::cluster::spec::{ClusterSpec, NodeSpec, Offer};
use blox_core::ids::{GpuId, JobId, Name, NodeId};
use blox_core::job::spec::{Class, Deadline, Extras, JobSpec, Work};
use blox_core::job::training::{Adapts, TrainingSpec, TypeLimits};
use blox_core::units::{GpuCount, Seconds, Time};
use blox_core::{Curve, Share, TypeSpeeds};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

/// A kind of fault that the cases of a conformance suite contain. Each can be left out with
/// [`Suite::without`](super::Suite::without).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Fault {
    /// Launches and checkpoints take time.
    Delays,
    /// Launches take longer than a round.
    SlowLaunches,
    /// Some launches fail.
    FailedLaunches,
    /// Jobs crash and lose work.
    Crashes,
    /// Nodes are lost and return; others join late.
    NodeLosses,
    /// GPUs break and are repaired.
    GpuFailures,
    /// Users cancel jobs.
    Cancels,
    /// Users hold jobs back and release them.
    Holds,
    /// Jobs report progress and changes of their rate.
    Progress,
    /// Some jobs request more GPUs than the cluster has.
    Oversized,
    /// Some jobs request more GPUs than any node has.
    MultiNode,
    /// The cluster has partitions, and some jobs belong to them.
    Partitions,
    /// Jobs report metrics such as their loss. Some jobs choose their own batch and report their
    /// speed.
    Reports,
    /// Ends of launches are reported late. [`Event::Ran`](blox_core::Event::Ran) first withdraws what
    /// was counted after the end.
    LateEnds,
    /// Checkpoints take longer than a round.
    SlowStops,
    /// Some jobs accept only some GPU types of the cluster. Some also list a type that the cluster
    /// does not have.
    GpuTypes,
    /// Some jobs request so many CPUs or so much memory that a node may have enough free GPUs for
    /// them, but not enough of these. Some nodes do not specify their CPUs and memory.
    Resources,
    /// Operators cordon nodes and undo it later.
    Cordons,
    /// Jobs and nodes use the optional fields of their specifications: levels, deadlines, groups,
    /// weights, names, locations and others. Some have unusual values: jobs without a user, a name
    /// or work, equal names, negative priorities, deadlines in the past, levels that no node has,
    /// nodes without GPUs. Also contains the attributes and labels of
    /// [`Suite::with_attribute`](super::Suite::with_attribute) and
    /// [`Suite::with_label`](super::Suite::with_label).
    Details,
    /// Jobs have the attributes by which shipped schedulers share GPUs: utilisations, memory, sharing
    /// scores, stages, and speeds beside other models.
    Sharing,
    /// One case in 64 has more than 128 GPUs and 300 jobs.
    Large,
    /// In a quarter of the cases, most jobs can run on fewer and on more GPUs than they request, and
    /// request no CPUs and no memory.
    Elastic,
    /// In an eighth of the cases, many jobs have parts of their GPUs.
    Parts,
    /// In an eighth of the cases, some jobs are services: they need another number of copies of their
    /// GPUs over time, and end at a time. Many others are spot jobs with guaranteed time.
    Services,
    /// Some jobs report their own config, such as `tp`.
    Knobs,
    /// In an eighth of the cases, many jobs must run on a number of nodes.
    NodeCounts,
}

impl Fault {
    const fn bit(self) -> u32 {
        1 << self as u32
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A set of faults.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Faults(u32);

impl Faults {
    pub const ALL: Faults = Faults(u32::MAX);

    pub fn without(self, fault: Fault) -> Self {
        Faults(self.0 & !fault.bit())
    }

    pub fn has(self, fault: Fault) -> bool {
        self.0 & fault.bit() != 0
    }
}

/// An outside event, independent of the scheduler.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Outside {
    Submit(JobId),
    Cancel(JobId),
    /// A hold, with its duration.
    Hold(JobId, Seconds),
    /// Every launch on the node ends. No end is reported until the node is lost.
    Silences(NodeId),
    Lose(NodeId),
    Return(NodeId),
    Join(NodeSpec),
    Leave(NodeId),
    GpuFails(GpuId),
    GpuRepaired(GpuId),
    /// An operator cordons a node.
    Cordon(NodeId),
    /// An operator undoes his cordon.
    Uncordon(NodeId),
}

impl Outside {
    /// Returns the job of the event, if it has one.
    fn job(&self) -> Option<JobId> {
        match self {
            Outside::Submit(job) | Outside::Cancel(job) | Outside::Hold(job, _) => Some(*job),
            _ => None,
        }
    }
}

/// Shortest and longest duration of launches and checkpoints, in rounds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Delays {
    pub launch: (f64, f64),
    pub stop: (f64, f64),
}

/// A case.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Script {
    pub seed: u64,
    pub cluster: ClusterSpec,
    pub jobs: Vec<Arc<JobSpec>>,
    pub outside: Vec<(Time, Outside)>,
    pub delays: Delays,
    #[serde(rename = "troubles")]
    pub faults: Faults,
    /// The length of a round.
    pub round: f64,
    /// Number of jobs that ended before the case. The numbers of its own jobs start here.
    #[serde(skip)]
    pub first: usize,
    /// The jobs by their numbers in the case with the same faults, if they have other ones.
    #[serde(skip)]
    pub order: Vec<usize>,
    /// Time at which every job that fits must have ended.
    #[serde(skip)]
    pub horizon: Time,
}

/// Permitted contents of the cases of a suite.
#[derive(Clone, Debug)]
pub(crate) struct Contents {
    pub faults: Faults,
    pub most_jobs: usize,
    /// Attributes that some jobs have, and their values; any value if there are none.
    pub attributes: Vec<(Name, Vec<Value>)>,
    /// Names of labels that some nodes have.
    pub labels: Vec<Name>,
}

/// One in how many cases is large.
const LARGE: u64 = 64;

const TYPES: [&str; 3] = ["v100", "a100", "t4"];

impl Script {
    /// Creates the case of a seed. Delays and faults follow the two lowest bits of the seed. The
    /// first of four consecutive seeds has neither, the second has delays, the third has faults,
    /// and the fourth has both. The last four of eight consecutive seeds have jobs that report.
    /// Every third seed has ends that are reported late.
    ///
    /// Half of the cases have each of GPU types, resources, details, and another number of jobs that
    /// share a GPU. A third has cordons, half has jobs with attributes for sharing.
    pub fn of(seed: u64, round: Seconds, contents: &Contents) -> Script {
        let mut r = SplitMix::keyed(&[seed, 1]);
        let round = round.secs();
        let (mut faults, most_jobs) = (contents.faults, contents.most_jobs);
        if seed & 1 == 0 {
            faults = faults.without(Fault::Delays).without(Fault::SlowLaunches);
        }
        if seed & 2 == 0 {
            for fault in [
                Fault::FailedLaunches,
                Fault::Crashes,
                Fault::NodeLosses,
                Fault::GpuFailures,
                Fault::Cancels,
                Fault::Holds,
            ] {
                faults = faults.without(fault);
            }
        }
        if seed & 4 == 0 {
            faults = faults.without(Fault::Reports);
        }
        if seed % 3 != 2 {
            faults = faults.without(Fault::LateEnds);
        }
        let partitions = faults.has(Fault::Partitions) && r.chance(0.3);
        let large = faults.has(Fault::Large) && seed % LARGE == LARGE - 21;
        let cluster = cluster(&mut r, partitions, large);
        let count = if large { 300 } else { 0 };
        let jobs = jobs(
            &mut r, &cluster, round, faults, partitions, count, most_jobs,
        );
        let delays = if !faults.has(Fault::Delays) {
            Delays {
                launch: (0.0, 0.0),
                stop: (0.0, 0.0),
            }
        } else if faults.has(Fault::SlowLaunches) && r.chance(0.3) {
            Delays {
                launch: (1.25, 1.5),
                stop: (0.0, 0.25),
            }
        } else {
            Delays {
                launch: (0.0, 0.25),
                stop: (0.0, 0.25),
            }
        };
        let mut script = Script {
            seed,
            outside: Vec::new(),
            horizon: Time::ZERO,
            cluster,
            jobs,
            delays,
            faults,
            round,
            first: 0,
            order: Vec::new(),
        };
        script.slow_stops();
        script.trainings();
        let mut kinds = SplitMix::keyed(&[seed, 6]);
        let [types, resources, details] = [(); 3].map(|()| kinds.chance(0.5));
        let cordons = kinds.chance(0.35);
        let sharing = kinds.chance(0.5);
        if types && faults.has(Fault::GpuTypes) {
            script.gpu_types();
        }
        if resources && faults.has(Fault::Resources) {
            script.resources();
        }
        if details && faults.has(Fault::Details) {
            script.node_details(&contents.labels);
            script.job_details(&contents.attributes);
        }
        if sharing && faults.has(Fault::Sharing) {
            script.sharing_details();
        }
        if faults.has(Fault::Elastic) && SplitMix::keyed(&[seed, 18]).chance(0.25) {
            script.elastic_details();
        }
        if faults.has(Fault::Parts) && SplitMix::keyed(&[seed, 30]).chance(0.125) {
            script.parts();
        }
        if faults.has(Fault::Services) && SplitMix::keyed(&[seed, 32]).chance(0.125) {
            script.services();
        }
        if faults.has(Fault::NodeCounts) && SplitMix::keyed(&[seed, 34]).chance(0.125) {
            script.node_counts();
        }
        script.measure_enough();
        // Submissions come first, so that at equal moments a job is submitted before its faults.
        for (i, spec) in script.jobs.iter().enumerate() {
            let what = Outside::Submit(JobId(i as u32));
            script.outside.push((spec.submit, what));
        }
        script.faults(&mut r);
        script.flaps();
        script.silences();
        if cordons && faults.has(Fault::Cordons) {
            script.cordons();
        }
        script.finish();
        script
    }

    /// Reads the case that [`Script::to_text`] wrote.
    pub fn from_text(text: &str) -> Result<Script, String> {
        let mut script: Script = serde_json::from_str(text).map_err(|e| e.to_string())?;
        script.cluster.check().map_err(|e| e.to_string())?;
        let (jobs, gpus) = (script.jobs.len(), script.cluster.total_gpus());
        for (i, spec) in script.jobs.iter().enumerate() {
            spec.check().map_err(|e| format!("job {i}: {e}"))?;
        }
        let joined = script.outside.iter();
        let joined = joined.filter(|(_, what)| matches!(what, Outside::Join(_)));
        let nodes = script.cluster.nodes.len() + joined.count();
        for (_, what) in &script.outside {
            let node = match what {
                Outside::Silences(n) | Outside::Lose(n) | Outside::Return(n) => Some(*n),
                Outside::Cordon(n) | Outside::Uncordon(n) | Outside::Leave(n) => Some(*n),
                _ => None,
            };
            let gpu = match what {
                Outside::GpuFails(g) | Outside::GpuRepaired(g) => Some(*g),
                _ => None,
            };
            if what.job().is_some_and(|j| j.index() >= jobs)
                || node.is_some_and(|n| n.index() >= nodes)
                || gpu.is_some_and(|g| u64::from(g.0) >= gpus)
            {
                return Err(format!("{what:?} names what the case does not have"));
            }
        }
        script.finish();
        Ok(script)
    }

    /// Returns the case as JSON, with one line for each node, job and outside event. Leaves out
    /// fields that have their default.
    pub fn to_text(&self) -> String {
        let lines = |items: &mut dyn Iterator<Item = Value>| {
            let items: Vec<String> = items.map(|item| format!("  {item}")).collect();
            items.join(",\n")
        };
        let nodes = lines(&mut self.cluster.nodes.iter().map(|node| bare(json!(node))));
        let jobs = lines(&mut self.jobs.iter().map(|job| {
            let mut job = json!(job);
            if let Some(extras) = job.get_mut("extras") {
                *extras = bare(extras.take());
            }
            job
        }));
        let outside = lines(&mut self.outside.iter().map(|event| json!(event)));
        let (seed, round, faults) = (self.seed, json!(self.round), self.faults.0);
        let delays = json!(self.delays);
        format!(
            "{{\"seed\": {seed}, \"round\": {round}, \"troubles\": {faults}, \"delays\": {delays},\n\
             \"cluster\": {{\"nodes\": [\n{nodes}\n]}},\n\
             \"jobs\": [\n{jobs}\n],\n\
             \"outside\": [\n{outside}\n]}}"
        )
    }

    /// Returns the same case with other job numbers. Its jobs follow `first` jobs without work, which
    /// ended before the case.
    pub fn numbered_from(&self, first: usize) -> Script {
        let mut script = self.clone();
        let job = Arc::new(JobSpec::new(Time::ZERO, GpuCount(1), Seconds::ZERO));
        script
            .jobs
            .splice(..0, (0..first).map(|_| Arc::clone(&job)));
        for (_, what) in &mut script.outside {
            if let Outside::Submit(job) | Outside::Cancel(job) | Outside::Hold(job, _) = what {
                job.0 += first as u32;
            }
        }
        script.first = first;
        script
    }

    /// Returns the case with its first jobs only, at least one.
    pub fn first(&self, most: usize) -> Script {
        let mut script = self.clone();
        script.jobs.truncate(most.max(1));
        let jobs = script.jobs.len();
        script
            .outside
            .retain(|(_, what)| what.job().is_none_or(|j| j.index() < jobs));
        script.finish();
        script
    }

    /// Returns whether this is one of the large cases.
    pub fn is_large(&self) -> bool {
        self.jobs.len() - self.first > 100
    }

    /// Returns whether stops and launches take no time and cannot fail.
    pub fn is_instant(&self) -> bool {
        let d = &self.delays;
        let free = d.launch == (0.0, 0.0) && d.stop == (0.0, 0.0);
        let fails = [
            Fault::FailedLaunches,
            Fault::Crashes,
            Fault::NodeLosses,
            Fault::GpuFailures,
            Fault::LateEnds,
        ];
        free && !fails.iter().any(|t| self.faults.has(*t))
    }

    /// Sets the horizon once all outside events are known.
    fn finish(&mut self) {
        let mut last = Time::ZERO;
        for (at, what) in &self.outside {
            let until = match what {
                Outside::Hold(_, length) => *at + *length,
                _ => *at,
            };
            last = last.max(until);
        }
        let work: f64 = self.jobs.iter().map(|j| j.duration().secs()).sum();
        let rounds = 60.0 * self.round * self.jobs.len() as f64;
        self.horizon = last + Seconds::new(30.0 * work + rounds);
    }

    /// Makes the checkpoints of some cases with delays slow.
    fn slow_stops(&mut self) {
        let slow = self.delays.stop.1 > 0.0 && self.faults.has(Fault::SlowStops);
        if slow && SplitMix::keyed(&[self.seed, 7]).chance(0.4) {
            self.delays.stop = (0.0, 1.5);
        }
    }

    /// Lets some jobs accept only some types of GPUs. The job still fits.
    fn gpu_types(&mut self) {
        let typed = self.cluster.nodes.iter();
        let types: BTreeSet<&Name> = typed.filter_map(|n| n.gpu_type.as_ref()).collect();
        if types.len() < 2 {
            return;
        }
        let mut list = Vec::new();
        for (i, job) in self.jobs.iter().enumerate() {
            let r = &mut SplitMix::keyed(&[self.seed, 8, i as u64]);
            let mut accepted: Vec<Name> = Vec::new();
            for name in &types {
                if r.chance(0.5) {
                    accepted.push(Name::clone(name));
                }
            }
            let of_type = |n: &NodeSpec| n.gpu_type.as_ref().is_some_and(|t| accepted.contains(t));
            if self.gpus_for(job, of_type) < job.gpus.get() || !r.chance(0.6) {
                continue;
            }
            if r.chance(0.3) {
                accepted.push(Name::from("h100"));
            }
            list.push((i, accepted));
        }
        for (i, accepted) in list {
            edit(&mut self.jobs[i], |_, extras| extras.gpu_types = accepted);
        }
    }

    /// Returns the number of GPUs of some nodes that a job can reach.
    fn gpus_for(&self, job: &JobSpec, nodes: impl Fn(&NodeSpec) -> bool) -> u32 {
        let in_reach = |n: &&NodeSpec| {
            let vc = &job.virtual_cluster;
            vc.is_none() || n.partition.is_none() || n.partition == *vc
        };
        let reached = self.cluster.nodes.iter().filter(in_reach);
        reached.filter(|n| nodes(n)).map(|n| n.gpus).sum()
    }

    /// Lets jobs run on all types that they accept, if they would not fit on the GPU types given by
    /// their speeds or their training.
    fn measure_enough(&mut self) {
        let name = |n: &NodeSpec| n.gpu_type.clone().unwrap_or_else(|| "".into());
        let types: BTreeSet<Name> = self.cluster.nodes.iter().map(name).collect();
        for i in 0..self.jobs.len() {
            let job = &self.jobs[i];
            let extras = job.extras();
            let runs = self.gpus_for(job, |n| extras.runs_on(&name(n)));
            let listed =
                |n: &NodeSpec| extras.gpu_types.is_empty() || extras.gpu_types.contains(&name(n));
            if runs >= job.gpus.get().min(self.gpus_for(job, listed)) {
                continue;
            }
            edit(&mut self.jobs[i], |_, extras| {
                extras.speeds = None;
                if let Some(training) = &mut extras.training {
                    let wider = Arc::make_mut(training);
                    let limits = wider.types.values().next().copied();
                    for name in &types {
                        if let (Some(limits), None) = (limits, wider.on(name)) {
                            wider.types.insert(name.clone(), limits);
                        }
                    }
                }
            });
        }
    }

    /// Gives jobs what shipped schedulers read before they let jobs share GPUs.
    fn sharing_details(&mut self) {
        let nodes = self.cluster.nodes.iter();
        let types: BTreeSet<Name> = nodes.filter_map(|n| n.gpu_type.clone()).collect();
        let models = ["bert", "resnet"];
        let all = &mut SplitMix::keyed(&[self.seed, 15]);
        let [stages, pairs] = [(); 2].map(|()| all.chance(0.5));
        for (i, job) in self.jobs.iter_mut().enumerate() {
            let r = &mut SplitMix::keyed(&[self.seed, 16, i as u64]);
            if !r.chance(0.9) {
                continue;
            }
            edit(job, |spec, extras| {
                let mut has = |name: &str, value: Value| {
                    extras.attributes.insert(name.into(), value);
                };
                has("gpu_utilisation", json!(r.pick(&[0.1, 0.3, 0.6, 0.9])));
                has("gmem", json!(r.pick(&[1000, 8000, 20_000])));
                has("sharing_score", json!(r.below(3)));
                if stages {
                    let mut stages = [0.1; 4];
                    stages[r.below(4)] = 0.7;
                    has("stages", json!(stages));
                }
                if !pairs {
                    return;
                }
                extras.model = Some(r.pick(&models).into());
                let mut speeds = TypeSpeeds::default();
                for name in &types {
                    let alone = spec.work.rate * r.pick(&[0.5, 1.0, 2.0]);
                    speeds.set(name.clone(), alone);
                    for other in models {
                        if r.chance(0.7) {
                            let beside = [alone, spec.work.rate].map(|s| s * r.between(0.4, 1.0));
                            speeds.set_beside(name.clone(), other, beside[0], beside[1]);
                        }
                    }
                }
                extras.speeds = Some(Arc::new(speeds));
            });
        }
    }

    /// Gives many jobs that do not train a part of each of their GPUs, and some a part of the memory.
    fn parts(&mut self) {
        for (i, job) in self.jobs.iter_mut().enumerate() {
            let r = &mut SplitMix::keyed(&[self.seed, 31, i as u64]);
            if job.extras().training.is_some() || !r.chance(0.7) {
                continue;
            }
            let (n, of) = r.pick(&[(1, 2), (1, 4), (1, 3), (2, 3), (1, 7)]);
            let memory = r.chance(0.3);
            edit(job, |_, extras| {
                let part = Share::parts(n, of).unwrap_or_default();
                let with_memory = part.memory(n, of).filter(|_| memory);
                extras.share = with_memory.unwrap_or(part);
            });
        }
    }

    /// Gives many jobs that keep their GPUs a number of nodes. The first nodes have room for them.
    fn node_counts(&mut self) {
        let mut list = Vec::new();
        for (i, job) in self.jobs.iter().enumerate() {
            let r = &mut SplitMix::keyed(&[self.seed, 35, i as u64]);
            let extras = job.extras();
            let keeps = extras.training.is_none() && extras.levels.is_empty();
            if !keeps || extras.need.is_some() || !r.chance(0.6) {
                continue;
            }
            let gpus = job.gpus.get();
            let holds = |node: &NodeSpec, nodes: u32| {
                let enough = |has: f64, all: f64| has == 0.0 || all / f64::from(nodes) <= has;
                let name = node.gpu_type.as_deref().unwrap_or_default();
                node.gpus >= gpus / nodes
                    && enough(node.cpus, extras.cpus)
                    && enough(node.memory_gib, extras.memory_gib)
                    && extras.runs_on(name)
                    && (job.virtual_cluster.is_none()
                        || node.partition.is_none()
                        || node.partition == job.virtual_cluster)
            };
            let fits = |nodes: &u32| {
                let holding = self.cluster.nodes.iter().filter(|n| holds(n, *nodes));
                gpus.is_multiple_of(*nodes) && holding.count() >= *nodes as usize
            };
            let numbers: Vec<u32> = (1..=gpus.min(8)).filter(fits).collect();
            if !numbers.is_empty() {
                list.push((i, NonZeroU32::new(r.pick(&numbers))));
            }
        }
        for (i, nodes) in list {
            edit(&mut self.jobs[i], |_, extras| extras.nodes = nodes);
        }
    }

    /// Turns some jobs that do not train into services, and half of the others into spot jobs.
    fn services(&mut self) {
        for (i, job) in self.jobs.iter_mut().enumerate() {
            let r = &mut SplitMix::keyed(&[self.seed, 33, i as u64]);
            if job.extras().training.is_some() || !r.chance(0.4) {
                if r.chance(0.5) {
                    let guaranteed = Seconds::new(r.between(0.0, 5.0) * self.round);
                    edit(job, |_, extras| extras.class = Class::Spot { guaranteed });
                }
                continue;
            }
            let period = r.between(2.0, 12.0) * self.round;
            let (mut steps, mut at) = (Vec::new(), 0.0);
            while at < period {
                steps.push((Seconds::new(at), r.below(4) as f64));
                at += r.between(0.2, 0.7) * period;
            }
            edit(job, |_, extras| {
                extras.need = Curve::new(Seconds::new(period), steps);
            });
        }
    }

    /// Lets most jobs run on half, twice and four times their GPUs. Some of them are long, so that they
    /// grow when others have ended, and shrink for later jobs.
    fn elastic_details(&mut self) {
        for (i, job) in self.jobs.iter_mut().enumerate() {
            let r = &mut SplitMix::keyed(&[self.seed, 19, i as u64]);
            if job.extras().training.is_some() || !r.chance(0.8) {
                continue;
            }
            edit(job, |spec, extras| {
                let gpus = spec.gpus.get();
                if r.chance(0.25) && spec.work.iterations > 0.0 {
                    spec.work.iterations += 10.0 * self.round * spec.work.rate;
                }
                let levels = BTreeSet::from([gpus.div_ceil(2), gpus, 2 * gpus, 4 * gpus]);
                let speedup = |level: &u32| (f64::from(*level) / f64::from(gpus)).powf(0.8);
                let rate = |level| spec.work.rate * speedup(level);
                extras.rates = levels.iter().map(rate).collect();
                extras.levels = levels.into_iter().map(GpuCount).collect();
                (extras.cpus, extras.memory_gib) = (0.0, 0.0);
            });
        }
    }

    /// Lets jobs request CPUs and memory that may be scarce. Each job fits on each empty node that
    /// has enough GPUs, and on any combination of smaller nodes.
    fn resources(&mut self) {
        for i in 0..self.jobs.len() {
            let r = &mut SplitMix::keyed(&[self.seed, 9, i as u64]);
            let gpus = f64::from(self.jobs[i].gpus.get());
            let nodes = self.cluster.nodes.iter().filter(|n| n.gpus > 0);
            let most = nodes.map(|n| (f64::from(n.gpus) / gpus).max(1.0));
            let most = gpus * most.fold(f64::INFINITY, f64::min);
            let [cpus, memory_gib] = [(8.0, 0.6), (64.0, 0.4)].map(|(each, chance)| {
                let amount = (each * most * r.between(0.3, 1.0)).floor();
                if r.chance(chance) { amount } else { 0.0 }
            });
            edit(&mut self.jobs[i], |_, extras| {
                (extras.cpus, extras.memory_gib) = (cpus, memory_gib);
            });
        }
        let r = &mut SplitMix::keyed(&[self.seed, 10]);
        if r.chance(0.3) {
            for node in &mut self.cluster.nodes {
                if r.chance(0.5) {
                    (node.cpus, node.memory_gib) = (0.0, 0.0);
                }
            }
        }
    }

    /// Lets operators cordon some nodes for a while.
    fn cordons(&mut self) {
        let r = &mut SplitMix::keyed(&[self.seed, 11]);
        for node in 0..self.cluster.nodes.len() {
            if r.chance(0.6) {
                let node = NodeId(node as u32);
                let at = Time::new(on_grid(r, 8.0 * self.round, self.round));
                let until = at + Seconds::new(r.between(0.1, 4.0) * self.round);
                self.outside.push((at, Outside::Cordon(node)));
                self.outside.push((until, Outside::Uncordon(node)));
            }
        }
    }

    fn node_details(&mut self, labels: &[Name]) {
        let r = &mut SplitMix::keyed(&[self.seed, 12]);
        for (i, node) in self.cluster.nodes.iter_mut().enumerate() {
            if r.chance(0.5) {
                node.name = Some(format!("host-{i}").into());
            }
            if r.chance(0.5) {
                node.gpu_memory_gib = r.pick(&[16.0, 80.0]);
            }
            if r.chance(0.5) {
                let row = r.pick(&["row-1", "row-2"]).into();
                let rack = r.pick(&["rack-1", "rack-2"]).into();
                node.location = if r.chance(0.5) {
                    vec![row]
                } else {
                    vec![row, rack]
                };
            }
            for name in labels {
                if r.chance(0.6) {
                    let value = r.pick(&["", "7", "-1", "0.5", "text", "1.2 0.9"]);
                    node.labels.insert(name.clone(), value.into());
                }
            }
        }
        let partitions = self.cluster.nodes.iter().any(|n| n.partition.is_some());
        if !partitions && r.chance(0.2) {
            let node = NodeSpec::default();
            self.cluster
                .nodes
                .push(match self.cluster.nodes[0].gpu_type.clone() {
                    Some(gpu_type) => node.of_type(gpu_type),
                    None => node,
                });
        }
    }

    fn job_details(&mut self, attributes: &[(Name, Vec<Value>)]) {
        let any_type = !self.faults.has(Fault::GpuTypes);
        let total = self.cluster.total_gpus() as u32;
        let types = self.cluster.nodes.iter().filter_map(|n| n.gpu_type.clone());
        let types: BTreeSet<Name> = types.collect();
        for i in 0..self.jobs.len() {
            let r = &mut SplitMix::keyed(&[self.seed, 13, i as u64]);
            let job = &mut self.jobs[i];
            if !r.chance(0.8) {
                continue;
            }
            edit(job, |spec, extras| {
                if r.chance(0.2) {
                    spec.user = None;
                }
                if r.chance(0.3) {
                    spec.name = r.pick(&[None, Some("job-0".into()), Some("job-2".into())]);
                }
                if r.chance(0.3) {
                    spec.priority = r.pick(&[-2, 7, 100]);
                }
                if r.chance(0.1) {
                    spec.work.iterations = 0.0;
                }
                let (length, gpus) = (spec.duration().secs(), spec.gpus.get());
                if r.chance(0.3) {
                    extras.user_estimate = Some(Seconds::new(r.pick(&[0.0, 0.1, 5.0]) * length));
                }
                if gpus <= total && r.chance(0.3) {
                    let mut levels = BTreeSet::from([1, gpus, gpus.div_ceil(2)]);
                    if r.chance(0.3) {
                        levels.insert(2 * total);
                    }
                    if r.chance(0.5) {
                        let speedup = |level: &u32| f64::from(*level) / f64::from(gpus);
                        let rate = |level| spec.work.rate * speedup(level).powf(0.8);
                        extras.rates = levels.iter().map(rate).collect();
                    }
                    extras.levels = levels.into_iter().map(GpuCount).collect();
                }
                if r.chance(0.4) {
                    let mut at = || {
                        let most = r.pick(&[2.0, 20.0]);
                        let slack = r.between(-1.0, most) * (length + self.round);
                        Time::new((spec.submit.secs() + slack).max(0.0))
                    };
                    let mut at = [at(), at()];
                    at.sort_unstable();
                    let deadline = |at| Deadline { at, value: 1.0 };
                    let count = 1 + r.below(2);
                    extras.deadlines = at.into_iter().take(count).map(deadline).collect();
                }
                if r.chance(0.2) {
                    extras.class = Class::BEST_EFFORT;
                }
                if r.chance(0.3) {
                    extras.group = Some(r.pick(&["search-1", "search-2"]).into());
                }
                if r.chance(0.3) {
                    extras.weight = r.pick(&[0.5, 2.0]);
                }
                if r.chance(0.3) {
                    extras.model = Some(r.pick(&["bert", "resnet"]).into());
                    extras.batch_size = r.pick(&[None, Some(32)]);
                }
                if r.chance(0.2) {
                    extras.communication = r.pick(&[0.1, 0.9]);
                }
                if r.chance(0.2) {
                    let mut speeds = TypeSpeeds::default();
                    for name in &types {
                        match r.below(10) {
                            n if n < 7 || any_type => {
                                speeds.set(name.clone(), spec.work.rate * r.between(0.5, 2.0));
                            }
                            7 => speeds.set(name.clone(), 0.0),
                            _ => {}
                        }
                    }
                    extras.speeds = Some(Arc::new(speeds));
                }
                for (name, values) in attributes {
                    let value = match values.is_empty() {
                        true => attribute(r),
                        false => r.chance(0.7).then(|| r.pick(values)),
                    };
                    if let Some(value) = value {
                        extras.attributes.insert(name.clone(), value);
                    }
                }
            });
        }
    }

    /// Lets some of the jobs choose their batch themselves.
    fn trainings(&mut self) {
        if !self.faults.has(Fault::Reports) {
            return;
        }
        let r = &mut SplitMix::keyed(&[self.seed, 4]);
        let nodes = self.cluster.nodes.iter();
        let types: BTreeSet<Name> = nodes
            .map(|n| n.gpu_type.clone().unwrap_or_else(|| Name::from("")))
            .collect();
        for job in &mut self.jobs {
            if !r.chance(0.3) {
                continue;
            }
            let batch = r.pick(&[16, 64]);
            let adapts = r.pick(&[Adapts::All, Adapts::Gpus, Adapts::Nothing]);
            let limits = |name: &Name| {
                let limits = TypeLimits {
                    per_gpu: (4, batch),
                    one_gpu_rate: r.between(10.0, 100.0),
                    stages: 1,
                };
                (name.clone(), limits)
            };
            let mut limits: blox_core::SortedMap<_, _> = types.iter().map(limits).collect();
            if self.faults.has(Fault::GpuTypes) && types.len() > 1 && r.chance(0.3) {
                // The job does not run on the last type.
                limits.pop_last();
            }
            let training = TrainingSpec {
                initial_batch: batch,
                max_batch: 8 * batch,
                adapts,
                restart: Seconds::new(30.0),
                types: limits,
            };
            let mut extras = job.extras().clone();
            extras.training = Some(Arc::new(training));
            *job = Arc::new(JobSpec::clone(job).with_extras(extras));
        }
    }

    fn faults(&mut self, r: &mut SplitMix) {
        let span = 20.0 * self.round;
        let at = |r: &mut SplitMix| Time::new(on_grid(r, span, self.round));
        let nodes = self.cluster.nodes.len();
        if self.faults.has(Fault::NodeLosses) {
            for node in 0..nodes {
                if r.chance(0.4) {
                    let (node, lost) = (NodeId(node as u32), at(r));
                    let back = lost + Seconds::new(r.between(0.1, 4.0) * self.round);
                    self.outside.push((lost, Outside::Lose(node)));
                    self.outside.push((back, Outside::Return(node)));
                }
            }
            if r.chance(0.3) {
                // A node that joins late and may leave again: no job needs it to fit.
                let (node, joins) = (NodeId(nodes as u32), at(r));
                let mut like = r.pick(&self.cluster.nodes);
                // A node without GPUs cannot join a running cluster.
                like.gpus = like.gpus.max(1);
                self.outside.push((joins, Outside::Join(like)));
                if r.chance(0.5) {
                    let leaves = joins + Seconds::new(r.between(1.0, 5.0) * self.round);
                    self.outside.push((leaves, Outside::Leave(node)));
                }
            }
        }
        if self.faults.has(Fault::GpuFailures) {
            for _ in 0..r.below(3) {
                let gpu = GpuId(r.below(self.cluster.total_gpus() as usize) as u32);
                let fails = at(r);
                let repaired = fails + Seconds::new(r.between(0.1, 4.0) * self.round);
                self.outside.push((fails, Outside::GpuFails(gpu)));
                self.outside.push((repaired, Outside::GpuRepaired(gpu)));
            }
        }
        for (i, spec) in self.jobs.iter().enumerate() {
            let job = JobId(i as u32);
            let later = |r: &mut SplitMix| {
                spec.submit + Seconds::new(on_grid(r, 6.0 * self.round, self.round))
            };
            if self.faults.has(Fault::Cancels) && r.chance(0.12) {
                self.outside.push((later(r), Outside::Cancel(job)));
            }
            if self.faults.has(Fault::Holds) && r.chance(0.25) {
                let length = Seconds::new(r.between(0.0, 3.0) * self.round);
                self.outside.push((later(r), Outside::Hold(job, length)));
            }
        }
    }

    /// Lets some of the lost nodes be lost repeatedly.
    fn flaps(&mut self) {
        let r = &mut SplitMix::keyed(&[self.seed, 3]);
        for i in 0..self.outside.len() {
            let (mut at, Outside::Return(node)) = self.outside[i].clone() else {
                continue;
            };
            while r.chance(0.4) {
                at += Seconds::new(r.between(0.1, 3.0) * self.round);
                self.outside.push((at, Outside::Lose(node)));
                at += Seconds::new(r.between(0.1, 1.0) * self.round);
                self.outside.push((at, Outside::Return(node)));
            }
        }
    }

    /// Makes some of the lost nodes silent for a while before their loss.
    fn silences(&mut self) {
        if !self.faults.has(Fault::LateEnds) {
            return;
        }
        let r = &mut SplitMix::keyed(&[self.seed, 5]);
        for i in 0..self.outside.len() {
            if let (at, Outside::Lose(node)) = self.outside[i]
                && r.chance(0.5)
            {
                let silent = (at.secs() - r.between(0.0, 2.0) * self.round).max(0.0);
                let what = Outside::Silences(node);
                self.outside.push((Time::new(silent), what));
            }
        }
    }

    /// Returns a generator for one purpose of one launch of one job.
    pub fn dice(&self, job: JobId, attempt: u32, purpose: u64) -> SplitMix {
        let job = job.index() - self.first;
        let job = self.order.get(job).copied().unwrap_or(job);
        SplitMix::keyed(&[self.seed, job as u64, u64::from(attempt), purpose])
    }
}

/// Returns a random moment, often exactly at a round or half a round. Ties reveal differences in
/// order.
fn on_grid(r: &mut SplitMix, span: f64, round: f64) -> f64 {
    let t = r.unit() * span;
    if r.chance(0.5) {
        (t / round * 2.0).floor() * round / 2.0
    } else {
        t
    }
}

/// Changes a job and its extras. A job whose extras are the default has none.
fn edit(job: &mut Arc<JobSpec>, change: impl FnOnce(&mut JobSpec, &mut Extras)) {
    let mut spec = JobSpec::clone(job);
    let mut extras = spec.extras().clone();
    change(&mut spec, &mut extras);
    let bare = extras == Extras::default();
    spec.extras = (!bare).then(|| Box::new(extras));
    *job = Arc::new(spec);
}

/// Returns an attribute of any kind, or none.
fn attribute(r: &mut SplitMix) -> Option<Value> {
    if r.chance(0.3) {
        return None;
    }
    Some(match r.below(10) {
        0 => json!(null),
        1 => json!(true),
        2 => json!(r.pick(&[&[][..], &[0.5, 0.2, 0.3, 0.0], &[0.1, 0.2, 0.9, 0.1]])),
        3 => json!(""),
        4 | 5 => json!(r.pick(&["a", "b"])),
        6 => json!(r.pick(&[-3, -1])),
        7 => json!(r.pick(&[0.5, -1.5])),
        // Numbers that may also be those of jobs and nodes, existing or not.
        _ => json!(r.pick(&[0, 1, 2, 3, 100])),
    })
}

/// Removes the fields of an object that have the default of a specification.
fn bare(mut value: Value) -> Value {
    if let Value::Object(fields) = &mut value {
        fields.retain(|_, field| match field {
            Value::Null => false,
            Value::Number(n) => n.as_f64() != Some(0.0),
            Value::Array(list) => !list.is_empty(),
            Value::Object(fields) => !fields.is_empty(),
            Value::String(text) => text != "guaranteed",
            Value::Bool(_) => true,
        });
    }
    value
}

fn cluster(r: &mut SplitMix, partitions: bool, large: bool) -> ClusterSpec {
    let mut count = 1 + r.below(6);
    let types = 1 + r.below(TYPES.len());
    let mut sizes = r.pick(&[&[4u32][..], &[8], &[1, 2, 4], &[2, 8], &[1]]);
    if large {
        (count, sizes) = (17 + count, &[8]);
    }
    let nodes: Vec<NodeSpec> = (0..count)
        .map(|i| {
            let mut node = NodeSpec::with_gpus(r.pick(sizes));
            if types > 1 {
                node = node.of_type(r.pick(&TYPES[..types]));
            }
            if partitions {
                // The first two nodes ensure that both partitions exist.
                node = node.in_partition(if i % 2 == 0 { "vc-a" } else { "vc-b" });
            }
            node.cpus = 8.0 * f64::from(node.gpus);
            node.memory_gib = 64.0 * f64::from(node.gpus);
            node
        })
        .collect();
    // A cluster manager that adds nodes without bound is caught before the offer ends.
    let more = NodeSpec {
        gpu_type: nodes[0].gpu_type.clone(),
        ..NodeSpec::with_gpus(1)
    };
    let offers = vec![Offer::new("more", more, 1000)];
    ClusterSpec {
        nodes,
        offers,
        ..ClusterSpec::default()
    }
}

fn jobs(
    r: &mut SplitMix,
    cluster: &ClusterSpec,
    round: f64,
    faults: Faults,
    partitions: bool,
    least: usize,
    most: usize,
) -> Vec<Arc<JobSpec>> {
    let count = least + 1 + r.below(20);
    // The span ranges from a burst to slow arrivals.
    let span = r.pick(&[2.0, 6.0, 15.0]) * round;
    let total = cluster.total_gpus() as usize;
    let mut submits: Vec<f64> = (0..count).map(|_| on_grid(r, span, round)).collect();
    if r.chance(0.2) {
        submits.fill(0.0);
    }
    submits.sort_by(f64::total_cmp);
    let mut list = Vec::new();
    for (i, submit) in submits.into_iter().enumerate() {
        let vc = (partitions && cluster.nodes.len() > 1).then(|| r.pick(&["vc-a", "vc-b"]));
        let here = cluster
            .nodes
            .iter()
            .filter(|n| vc.is_none() || n.partition.as_deref() == vc);
        let on_one = here.clone().map(|n| n.gpus).max().unwrap_or(1) as usize;
        let on_all = here.map(|n| n.gpus).sum::<u32>() as usize;
        let mut gpus = if faults.has(Fault::MultiNode) && r.chance(0.25) {
            1 + r.below(on_all)
        } else {
            1 + r.below(on_one)
        };
        if r.chance(0.4) {
            gpus = 1;
        }
        if faults.has(Fault::Oversized) && r.chance(0.03) {
            // More GPUs than the cluster has even with a node that joins late.
            gpus = total + 100;
        }
        // From a tenth of a round to twelve rounds, most of them short.
        let mut length = 0.1 * (120f64).powf(r.unit()) * round;
        if r.chance(0.4) {
            length = (length / round * 2.0).ceil() * round / 2.0;
        }
        let rate = r.pick(&[1.0, 0.5, 3.0]);
        let mut spec = JobSpec::new(
            Time::new(submit),
            GpuCount(gpus as u32),
            Seconds::new(length),
        )
        .named(format!("job-{i}"))
        .owned_by(r.pick(&["ada", "bob", "cyd"]));
        spec.priority = r.below(3) as i32;
        spec.work = Work {
            iterations: length * rate,
            rate,
        };
        if let Some(vc) = vc {
            spec = spec.in_virtual_cluster(vc);
        }
        if r.chance(0.5) {
            spec = spec.with_extras(Extras {
                user_estimate: Some(Seconds::new(length * r.between(0.5, 3.0))),
                cpus: if r.chance(0.5) {
                    gpus as f64 * 2.0
                } else {
                    0.0
                },
                ..Extras::default()
            });
        }
        list.push(Arc::new(spec));
    }
    list.truncate(most.max(1));
    list
}
