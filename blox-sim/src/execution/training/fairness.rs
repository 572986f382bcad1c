//! Finish-time fairness of training jobs.

use super::agent::Agent;
use super::{Training, wish_of};
use crate::results::{Contention, JobResult};
use blox_core::perf::goodput::KnownBatches;
use blox_core::{Adapts, ClusterSpec, JobSpec, Name, Seconds, Time};
use std::collections::BTreeMap;

/// What jobs would take alone on their fair share of a cluster (Themis, NSDI 2020; Sia, SOSP 2023,
/// section 5.5).
///
/// A job's share is that of the cluster's GPUs when all that it met on average, itself among them, share them
/// equally. On each type of GPU it would take what it takes alone on so many of them, interpolated between whole
/// numbers, and longer in proportion on less than one; the mean over types, weighted by their
/// GPUs, is its fair time. An adaptive job takes as many GPUs of its share as it ends soonest with, one that scales
/// strongly no more than it asks for; a rigid job takes what it asks for and, where that is more than its
/// share, longer in proportion.
pub struct FairTimes<'a> {
    training: &'a Training,
    types: Vec<Type>,
    batches: KnownBatches,
    /// By application, batch that it insists on, place of the type, and GPUs.
    known: BTreeMap<(Name, Option<u32>, usize, u32), Option<f64>>,
}

struct Type {
    name: Name,
    /// GPUs of a node, and of all.
    node: u32,
    all: u32,
}

impl<'a> FairTimes<'a> {
    /// On a cluster, of jobs that run as `training` says.
    pub fn on(cluster: &ClusterSpec, training: &'a Training) -> Self {
        let mut types: Vec<Type> = Vec::new();
        for node in &cluster.nodes {
            let name = node.gpu_type.clone().unwrap_or_else(|| "".into());
            match types.iter_mut().find(|t| t.name == name) {
                Some(t) => t.all += node.gpus,
                None => types.push(Type {
                    name,
                    node: node.gpus,
                    all: node.gpus,
                }),
            }
        }
        FairTimes {
            training,
            types,
            batches: KnownBatches::default(),
            known: BTreeMap::new(),
        }
    }

    /// What a job takes alone on its fair share among so many jobs; `None` for one that does not
    /// train, or runs on no type.
    pub fn of(&mut self, job: &JobSpec, contention: f64) -> Option<Seconds> {
        let gpus: u32 = self.types.iter().map(|t| t.all).sum();
        let share = f64::from(gpus) / contention.max(1.0);
        let (mut sum, mut weights) = (0.0, 0.0);
        for t in 0..self.types.len() {
            if let Some(seconds) = self.on_type(job, t, share) {
                let weight = f64::from(self.types[t].all);
                sum += weight * seconds;
                weights += weight;
            }
        }
        (weights > 0.0).then(|| Seconds::new(sum / weights))
    }

    fn on_type(&mut self, job: &JobSpec, t: usize, share: f64) -> Option<f64> {
        let asked = job.gpus.get();
        let adapts = job.extras().training.as_ref()?.adapts;
        if adapts == Adapts::Nothing {
            let takes = self.alone(job, t, asked)?;
            return Some(takes * (f64::from(asked) / share).max(1.0));
        }
        let most = match adapts {
            Adapts::Gpus => asked,
            _ => u32::MAX,
        };
        let within = share.min(f64::from(self.types[t].all.min(most)));
        let low = within.floor() as u32;
        if low == 0 {
            return Some(self.soonest(job, t, 1)? / within);
        }
        let takes = self.soonest(job, t, low)?;
        let part = within - f64::from(low);
        if part == 0.0 {
            return Some(takes);
        }
        Some(takes + part * (self.soonest(job, t, low + 1)? - takes))
    }

    /// With as many GPUs as are best, but no more than this: powers of two within a node, whole nodes beyond.
    fn soonest(&mut self, job: &JobSpec, t: usize, most: u32) -> Option<f64> {
        let node = self.types[t].node.max(1);
        let within = std::iter::successors(Some(1u32), |g| g.checked_mul(2));
        let within = within.take_while(|g| *g < node);
        let whole = (1..=most / node).map(|n| n * node);
        let counts: Vec<u32> = within.chain(whole).filter(|g| *g <= most).collect();
        let times = counts.into_iter().filter_map(|g| self.alone(job, t, g));
        times.reduce(f64::min)
    }

    fn alone(&mut self, job: &JobSpec, t: usize, gpus: u32) -> Option<f64> {
        let Type { name, node, all } = &self.types[t];
        if gpus > *all {
            return None;
        }
        let insisted = wish_of(job);
        let key = (job.extras().model.clone()?, insisted, t, gpus);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let mut placement = vec![*node; (gpus / node) as usize];
        placement.extend((!gpus.is_multiple_of(*node)).then_some(gpus % node));
        let takes = self
            .training
            .alone(job, name, placement, &mut self.batches)
            .map(Seconds::secs);
        self.known.insert(key, takes);
        takes
    }

    /// For each job its completion time over its fair time (`rho`), in the order of the results; above 1 a job
    /// was better off alone. `None` for a job that has not done all its work, or does not train.
    pub fn ratios(&mut self, jobs: &[JobSpec], results: &[JobResult]) -> Vec<Option<f64>> {
        let contention = Contention::of(results);
        let one = |result: &JobResult| {
            let (job, took) = (jobs.get(result.job.index())?, result.jct()?);
            let met = contention.between(result.submit, result.finish?);
            Some(took.secs() / self.of(job, met)?.secs())
        };
        results.iter().map(one).collect()
    }
}

impl Training {
    /// How long a job that trains takes alone on GPUs of a type, so many on each node, its
    /// start from a checkpoint included; `None` for one that does not train, or not there.
    pub fn alone(
        &self,
        job: &JobSpec,
        gpu_type: &Name,
        placement: Vec<u32>,
        batches: &mut KnownBatches,
    ) -> Option<Seconds> {
        let extras = job.extras();
        let restart = extras.training.as_ref()?.restart;
        let app = self.applications.get(extras.model.as_ref()?)?;
        let mut agent = Agent::default();
        agent.start(gpu_type.clone(), placement, self.profiles);
        let (mut now, mut done) = (Time::ZERO + restart, 0.0);
        loop {
            agent.tune(app, wish_of(job), self.limit, None, batches);
            let rate = agent.rate(app, app.curves.epoch_at(done));
            if rate <= 0.0 {
                return None;
            }
            let stretch = agent.stretch(app, done, now, self.round, self.ends);
            done = agent.measure(app, &*self.fitter)?;
            now = stretch.until;
            if stretch.ends {
                return Some(now - Time::ZERO);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execution::training::built_in;
    use blox_core::{Extras, GpuCount, JobId, Outcome};

    fn job(gpus: u32, adapts: Adapts) -> JobSpec {
        let extras = Extras {
            model: Some("cifar10".into()),
            batch_size: Some(512),
            ..Extras::default()
        };
        let mut job =
            JobSpec::new(Time::ZERO, GpuCount(gpus), Seconds::new(1.0)).with_extras(extras);
        assert!(built_in().describe(&mut job, adapts));
        job
    }

    #[test]
    fn a_share_between_whole_numbers_is_interpolated() {
        let cluster: ClusterSpec = "2x4:aws".parse().unwrap();
        let training = Training::of(built_in());
        let mut fair = FairTimes::on(&cluster, &training);
        let adaptive = job(4, Adapts::All);
        let secs =
            |fair: &mut FairTimes<'_>, job: &JobSpec, n: f64| fair.of(job, n).unwrap().secs();
        let (one, two) = (
            secs(&mut fair, &adaptive, 8.0),
            secs(&mut fair, &adaptive, 4.0),
        );
        assert!(two < one);
        // 8 / 16 of a GPU; 8 / (16 / 3) = 1.5 GPUs.
        assert_eq!(secs(&mut fair, &adaptive, 16.0), 2.0 * one);
        assert_eq!(
            secs(&mut fair, &adaptive, 16.0 / 3.0),
            one + 0.5 * (two - one)
        );
        // Three GPUs are worth two.
        assert_eq!(fair.soonest(&adaptive, 0, 3), Some(two));
    }

    #[test]
    fn a_rigid_job_waits_for_its_turn() {
        let cluster: ClusterSpec = "2x4:aws".parse().unwrap();
        let training = Training::of(built_in());
        let mut fair = FairTimes::on(&cluster, &training);
        let rigid = job(4, Adapts::Nothing);
        let alone = fair.of(&rigid, 1.0).unwrap();
        assert_eq!(fair.of(&rigid, 2.0), Some(alone));
        // Two GPUs of the four that it asks for: every other round.
        assert_eq!(fair.of(&rigid, 4.0), Some(alone * 2.0));
    }

    #[test]
    fn a_job_alone_on_the_cluster_is_as_fast_as_is_fair() {
        let cluster: ClusterSpec = "1x4:aws".parse().unwrap();
        let training = Training::of(built_in());
        let mut fair = FairTimes::on(&cluster, &training);
        let spec = job(4, Adapts::Nothing);
        let takes = fair.of(&spec, 1.0).unwrap();
        let result = JobResult {
            job: JobId(0),
            finish: Some(Time::ZERO + takes * 2.0),
            outcome: Some(Outcome::Completed),
            ..JobResult::default()
        };
        assert_eq!(fair.ratios(&[spec], &[result]), [Some(2.0)]);
    }
}
