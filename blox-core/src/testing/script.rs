//! The part of a case that does not depend on the scheduler.

use super::random::SplitMix;
use crate::cluster::spec::{ClusterSpec, NodeSpec};
use crate::ids::{GpuId, JobId, Name, NodeId};
use crate::job::spec::{Extras, JobSpec, Work};
use crate::job::training::{Adapts, TrainingSpec, TypeLimits};
use crate::units::{GpuCount, Seconds, Time};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// A kind of trouble that the cases of a conformance suite contain. Each can be left out with
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
    /// Ends of launches are reported late. [`Event::Ran`](crate::Event::Ran) first withdraws what
    /// was counted after the end.
    LateEnds,
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

/// A set of troubles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Faults(u32);

impl Faults {
    pub const ALL: Faults = Faults(u32::MAX);

    pub fn without(self, trouble: Fault) -> Self {
        Faults(self.0 & !trouble.bit())
    }

    pub fn has(self, trouble: Fault) -> bool {
        self.0 & trouble.bit() != 0
    }
}

/// An outside event, independent of the scheduler.
#[derive(Clone, Debug)]
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
}

/// Shortest and longest duration of launches and checkpoints, in rounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delays {
    pub launch: (f64, f64),
    pub stop: (f64, f64),
}

/// A case.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub seed: u64,
    pub cluster: ClusterSpec,
    pub jobs: Vec<Arc<JobSpec>>,
    pub outside: Vec<(Time, Outside)>,
    pub delays: Delays,
    pub troubles: Faults,
    /// The length of a round.
    pub round: f64,
    /// Time at which every job that fits must have ended.
    pub horizon: Time,
}

const TYPES: [&str; 3] = ["v100", "a100", "t4"];

impl Script {
    /// Creates the case of a seed. Delays and faults follow the two lowest bits of the seed: of
    /// four consecutive seeds, the first has neither, the second has delays, the third has faults,
    /// and the fourth has both. Of eight consecutive seeds, the last four have jobs that report.
    /// Every third seed has ends that are reported late.
    pub fn of(seed: u64, round: Seconds, allowed: Faults, most_jobs: usize) -> Script {
        let mut r = SplitMix::keyed(&[seed, 1]);
        let round = round.secs();
        let mut troubles = allowed;
        if seed & 1 == 0 {
            troubles = troubles.without(Fault::Delays).without(Fault::SlowLaunches);
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
                troubles = troubles.without(fault);
            }
        }
        if seed & 4 == 0 {
            troubles = troubles.without(Fault::Reports);
        }
        if seed % 3 != 2 {
            troubles = troubles.without(Fault::LateEnds);
        }
        let partitions = troubles.has(Fault::Partitions) && r.chance(0.3);
        let cluster = cluster(&mut r, partitions);
        let jobs = jobs(&mut r, &cluster, round, troubles, partitions, most_jobs);
        let delays = if !troubles.has(Fault::Delays) {
            Delays {
                launch: (0.0, 0.0),
                stop: (0.0, 0.0),
            }
        } else if troubles.has(Fault::SlowLaunches) && r.chance(0.3) {
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
            troubles,
            round,
        };
        script.trainings();
        // Submissions come first, so that at equal moments a job is submitted before its faults.
        for (i, spec) in script.jobs.iter().enumerate() {
            let what = Outside::Submit(JobId(i as u32));
            script.outside.push((spec.submit, what));
        }
        script.faults(&mut r);
        script.flaps();
        script.silences();
        script.finish();
        script
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
        free && !fails.iter().any(|t| self.troubles.has(*t))
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

    /// Lets some of the jobs choose their batch themselves.
    fn trainings(&mut self) {
        if !self.troubles.has(Fault::Reports) {
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
            let training = TrainingSpec {
                initial_batch: batch,
                max_batch: 8 * batch,
                adapts,
                restart: Seconds::new(30.0),
                types: types.iter().map(limits).collect(),
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
        if self.troubles.has(Fault::NodeLosses) {
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
                let like = r.pick(&self.cluster.nodes);
                self.outside.push((joins, Outside::Join(like)));
                if r.chance(0.5) {
                    let leaves = joins + Seconds::new(r.between(1.0, 5.0) * self.round);
                    self.outside.push((leaves, Outside::Leave(node)));
                }
            }
        }
        if self.troubles.has(Fault::GpuFailures) {
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
            if self.troubles.has(Fault::Cancels) && r.chance(0.12) {
                self.outside.push((later(r), Outside::Cancel(job)));
            }
            if self.troubles.has(Fault::Holds) && r.chance(0.25) {
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
        if !self.troubles.has(Fault::LateEnds) {
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
        SplitMix::keyed(&[self.seed, u64::from(job.0), u64::from(attempt), purpose])
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

fn cluster(r: &mut SplitMix, partitions: bool) -> ClusterSpec {
    let count = 1 + r.below(6);
    let types = 1 + r.below(TYPES.len());
    let sizes = r.pick(&[&[4u32][..], &[8], &[1, 2, 4], &[2, 8], &[1]]);
    let nodes = (0..count).map(|i| {
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
    });
    ClusterSpec {
        nodes: nodes.collect(),
    }
}

fn jobs(
    r: &mut SplitMix,
    cluster: &ClusterSpec,
    round: f64,
    troubles: Faults,
    partitions: bool,
    most: usize,
) -> Vec<Arc<JobSpec>> {
    let count = 1 + r.below(20);
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
        let mut gpus = if troubles.has(Fault::MultiNode) && r.chance(0.25) {
            1 + r.below(on_all)
        } else {
            1 + r.below(on_one)
        };
        if r.chance(0.4) {
            gpus = 1;
        }
        if troubles.has(Fault::Oversized) && r.chance(0.03) {
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
        .owned_by(r.pick(&["ada", "bob", "cyd"]))
        .with_priority(r.below(3) as i32);
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
